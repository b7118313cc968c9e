"""Rules for the logs of every agent."""

from formats import codex, copilot, gemini, kimi, opencode, pi, qwen
from formats.recorded import folded
from helpers.each import each


@each([codex, copilot, gemini, kimi, opencode, pi, qwen])
def test_lone_surrogate_in_a_text_is_read(maker):
    log = maker.plain()
    session = folded(log.reader, log.data().replace(b"a file", rb"a \ud83d file"))
    assert session.problems == []
    assert len(session.state.main().entries) == len(log.folded().state.main().entries)
