"""Wrong types in every field of Claude Code's lines and blocks."""

from __future__ import annotations

import pytest

from hostile.making import JUDGING
from hostile.wrong import WRONG
from strategies import write

CLAUDE = {"type": "user", "uuid": "x", "parentUuid": None, "isSidechain": False, "agentId": "a", "sessionId": "s",
          "timestamp": "2026-01-01T00:00:00Z", "subtype": "compact_boundary", "isMeta": False,
          "isCompactSummary": False,
          "message": {}, "compactMetadata": {}, "microcompactMetadata": {}}  # fmt: skip
INNER = {
    "message": {"id": "m", "model": "claude-x", "content": [], "stop_reason": "s", "usage": {}, "diagnostics": {}},
    "compactMetadata": {"trigger": "auto", "preTokens": 1, "postTokens": 1, "preservedMessages": {}},
    "microcompactMetadata": {"compactedToolIds": ["c"]},
}
FIRST = {"type": "user", "uuid": "u", "sessionId": "s", "message": {"role": "user", "content": "hi"}}
SAID = {
    "type": "assistant",
    "uuid": "a",
    "sessionId": "s",
    "message": {"id": "m0", "model": "claude-x", "content": "yes"},
}


@pytest.mark.parametrize(
    "field", [*CLAUDE, *(f"{outer}.{field}" for outer, fields in INNER.items() for field in fields)]
)
def test_a_wrong_type_in_a_claude_code_log_stops_no_command(lore, desk, field):
    lines = [FIRST, SAID]
    outer, _, inner = field.partition(".")
    for kind in ("user", "assistant", "system", "attachment"):
        for number, wrong in enumerate(WRONG):
            message = {"id": f"m-{kind}-{number}", "model": "claude-x", "content": "x"}
            record = {**CLAUDE, "type": kind, "uuid": f"x-{kind}-{number}", "message": message}
            record[outer] = {**INNER[outer], inner: wrong} if inner else wrong
            lines.append(record)
    last = [{**FIRST, "uuid": "z1"}, {**SAID, "uuid": "z2", "message": {**SAID["message"], "id": "m-last"}}]
    (desk / "log.jsonl").write_bytes(b"\n".join(map(write, [*lines, *last])))
    for command in JUDGING:
        assert lore(*command, "log.jsonl").code in (0, 1), command


PARTS = {
    "user": {"type": "tool_result", "tool_use_id": "c", "content": "x", "is_error": False},
    "assistant": {"type": "tool_use", "id": "c", "name": "n", "input": {}},
    "thinking": {"type": "thinking", "thinking": "t", "signature": "s"},
    "image": {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "aGk="}},
    "text": {"type": "text", "text": "t"},
}


@pytest.mark.parametrize("part", list(PARTS))
def test_a_wrong_type_in_a_claude_code_block_stops_no_command(lore, desk, part):
    lines = [FIRST, SAID]
    for field in PARTS[part]:
        for number, wrong in enumerate(WRONG):
            kind = "assistant" if part in ("assistant", "thinking", "text") else "user"
            message = {"id": f"m-{field}-{number}", "model": "claude-x", "content": [{**PARTS[part], field: wrong}]}
            lines.append({"type": kind, "uuid": f"x-{field}-{number}", "sessionId": "s", "message": message})
    (desk / "log.jsonl").write_bytes(b"\n".join(map(write, lines)))
    for command in JUDGING:
        assert lore(*command, "log.jsonl").code in (0, 1), command
