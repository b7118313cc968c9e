"""Which parts of a prompt a log lacks: not those that this log records."""

import pytest

from cli.running import lore
from judge.pi_sessions import session


@pytest.mark.parametrize("command", ["check", "simulate", "diff-prefix"])
@pytest.mark.parametrize("system", ["", "Be brief."])
def test_recorded_system_prompt_is_not_missing(tmp_path, system, command):
    result = lore(command, session(tmp_path / "a.jsonl", (20_000, 0), (20_400, 0), system=system))
    text = result.out + result.err
    assert "not recorded" in text
    assert ("system prompt" in text.partition("not recorded")[2]) == (not system)
