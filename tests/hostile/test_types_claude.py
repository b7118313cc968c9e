"""Wrong types in every field of Claude Code's lines and blocks."""

from __future__ import annotations

import pytest

from helpers.strategies import write
from hostile.making import JUDGING
from hostile.wrong import WRONG

CLAUDE = {"type": "user", "uuid": "x", "parentUuid": None, "isSidechain": False, "agentId": "a", "sessionId": "s",
          "timestamp": "2026-01-01T00:00:00Z", "subtype": "compact_boundary", "isMeta": False,
          "isCompactSummary": False, "isVisibleInTranscriptOnly": False, "isApiErrorMessage": False,
          "logicalParentUuid": "u", "requestId": "r", "session_id": "s", "promptId": "p", "permissionMode": "m",
          "sourceToolAssistantUUID": "u", "sourceToolUseID": "c", "toolUseResult": {}, "attachment": {}, "origin": {},
          "version": "2.1.0", "cwd": "/", "gitBranch": "main", "slug": "s", "data": {}, "content": "c", "level": "info",
          "message": {}, "compactMetadata": {}, "microcompactMetadata": {}}  # fmt: skip
PRESERVED = {"anchorUuid": "a", "uuids": ["u"], "allUuids": ["u"]}
SEGMENT = {"headUuid": "u", "anchorUuid": "a", "tailUuid": "a"}
USAGE = {"input_tokens": 1, "cache_read_input_tokens": 1, "cache_creation_input_tokens": 1, "output_tokens": 1,
         "cache_creation": {}, "server_tool_use": {}, "iterations": [], "service_tier": "s"}  # fmt: skip
INNER = {
    "message": {"id": "m", "model": "claude-x", "content": [], "stop_reason": "s", "usage": {}, "diagnostics": {},
                "role": "user", "type": "message"},
    "message.usage": USAGE,
    "message.usage.cache_creation": {"ephemeral_5m_input_tokens": 1, "ephemeral_1h_input_tokens": 1},
    "message.diagnostics": {"cache_miss_reason": {}},
    "message.diagnostics.cache_miss_reason": {"type": "t", "cache_missed_input_tokens": 1},
    "compactMetadata": {"trigger": "auto", "preTokens": 1, "postTokens": 1, "preservedMessages": PRESERVED,
                        "preservedSegment": SEGMENT, "durationMs": 1},
    "compactMetadata.preservedMessages": PRESERVED,
    "compactMetadata.preservedSegment": SEGMENT,
    "microcompactMetadata": {"trigger": "auto", "compactedToolIds": ["c"], "clearedAttachmentUUIDs": ["u"]},
    "attachment": {"type": "file", "content": "c"},
    "data": {"type": "agent_progress", "message": {}, "agentId": "a"},
}  # fmt: skip
FIRST = {"type": "user", "uuid": "u", "sessionId": "s", "message": {"role": "user", "content": "hi"}}
SAID = {
    "type": "assistant",
    "uuid": "a",
    "sessionId": "s",
    "message": {"id": "m0", "model": "claude-x", "content": "yes"},
}


def spoiled(record, names, wrong, place=""):
    """Give a field another value; what stands around it is as it should be."""
    name, *rest = names
    place = f"{place}.{name}" if place else name
    if not rest:
        return {**record, name: wrong}
    inner = {**INNER[place], **(record.get(name) or {})}
    return {**record, name: spoiled(inner, rest, wrong, place)}


@pytest.mark.parametrize(
    "field", [*CLAUDE, *(f"{outer}.{field}" for outer, fields in INNER.items() for field in fields)]
)
def test_a_wrong_type_in_a_claude_code_log_stops_no_command(lore, desk, field):
    lines = [FIRST, SAID]
    subtypes = ("compact_boundary", "microcompact_boundary", "api_error")
    for kind in ("user", "assistant", "system", "attachment", "progress"):
        for number, wrong in enumerate(WRONG):
            message = {"id": f"m-{kind}-{number}", "model": "claude-x", "content": "x", "usage": USAGE}
            record = {**CLAUDE, "type": kind, "uuid": f"x-{kind}-{number}", "message": message}
            record["subtype"] = subtypes[number % 3]
            lines.append(spoiled(record, field.split("."), wrong))
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
