"""Predictions of `lore simulate` at a new prompt of the user, from logs of Claude Code."""

import pytest

from cli.running import lore
from formats.claude import asked, counts, line, log_bytes, result, text, use

BEGIN = 1_800  # seconds of the day; five minutes pass between no two lines here
PROMPTS = 4


class Log:
    """A session in which each prompt is answered by a call and by a text."""

    def __init__(self, model: str, version: str) -> None:
        self.model, self.version = model, version
        self.lines: list[dict[str, object]] = []
        self.cached = 0

    def add(self, record: dict[str, object]) -> None:
        """Append a line ten seconds after the previous one."""
        at = BEGIN + 10 * len(self.lines)
        stamp = f"2026-05-01T{at // 3600:02}:{at // 60 % 60:02}:{at % 60:02}Z"
        parent = self.lines[-1]["uuid"] if self.lines else None
        self.lines.append({**record, "timestamp": stamp, "version": self.version, "parentUuid": parent})

    def answer(self, response: str, block: dict[str, object], read: int, write: int = 2_000) -> None:
        """Append an answer of the model with this usage."""
        content = {"role": "assistant", "model": self.model, "id": response, "content": [block]}
        usage = {**counts(2, read, write, 40), "cache_creation": {"ephemeral_5m_input_tokens": 0,
                 "ephemeral_1h_input_tokens": write}}  # fmt: skip
        self.add(line("assistant", f"a-{response}", message={**content, "usage": usage}))
        self.cached = read + write


def session(model, version, *, attached=None, called="Bash", first=None, metadata=None):
    """A session whose reads never fall; `attached` follows each result, `first` opens each answer."""
    log = Log(model, version)
    for number in range(PROMPTS):
        read = log.cached or 9_000
        log.add(asked(f"p{number}", "do this " * 200, **({"thinkingMetadata": metadata} if metadata else {})))
        call = {**use(f"c{number}", called), "input": {"skill": "pdf"}}
        log.answer(f"r{number}", first or call, read)
        if first:
            log.lines[-1] = {**log.lines[-1], "message": {**log.lines[-1]["message"], "content": [first, call]}}
        log.add(asked(f"t{number}", [result(f"c{number}", "done " * 300)]))
        if attached is not None:
            log.add(line("attachment", f"x{number}", attachment=attached))
        log.answer(f"s{number}", text("so it is"), log.cached)
    return log.lines


def predicted_at_prompt(path, lines):
    """The predictions of the second prompt and of the following request."""
    path.write_bytes(log_bytes(*lines))
    turns = lore("simulate", str(path), "--json").json["turns"]
    assert len(turns) == 2 * PROMPTS
    return turns[2]["predicted"], turns[3]["predicted"]


HOOK = {"type": "hook_additional_context", "hookName": "PostToolUse:Bash", "content": ["x" * 6_000]}
ON = {"level": "high", "disabled": False, "triggers": []}
THOUGHT = {"type": "thinking", "thinking": "so", "signature": "s"}


@pytest.mark.parametrize(("record", "reason"), [
    (session("claude-opus-5", "2.1.217", attached=HOOK), "hook-context"),
    (session("claude-opus-5", "2.1.217", attached={**HOOK, "hookName": "Stop"}), ""),
    (session("claude-opus-4-5-20251101", "2.0.76", metadata=ON), "no-thinking"),
    (session("claude-opus-4-5-20251101", "2.0.76", metadata=ON, first=THOUGHT), ""),
    (session("claude-opus-4-6", "2.0.76", metadata=ON), ""),
    (session("claude-sonnet-4-5-20250929", "2.0.76", metadata={**ON, "disabled": True}), ""),
    (session("claude-opus-4-6", "2.1.58", called="Skill"), "skill"),
    (session("claude-opus-4-6", "2.1.59", called="Skill"), ""),
    (session("claude-opus-4-6", "2.1.58"), ""),
])  # fmt: skip
def test_new_prompt_is_predicted_before_its_usage(tmp_path, record, reason):
    predicted, following = predicted_at_prompt(tmp_path / "s.jsonl", record)
    if reason:
        assert predicted["reason"] == reason
        assert predicted["read_tokens"] < 13_000 - 1_000
    else:
        assert predicted["read_tokens"] >= 13_000
    assert following["reason"] == "goes-on"
