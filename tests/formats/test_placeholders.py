"""Ids that a redactor replaced by one placeholder identify nothing: every record is still one of its own."""

import json
from typing import Any
from zlib import crc32

import pytest

from formats import codex, copilot, opencode, pi
from formats.claude import answered, asked, counts, log_bytes, result, text, use
from formats.recorded import folded
from helpers.each import each
from lore.formats.claude.reader import ClaudeCode

IDS = frozenset((
    "id", "uuid", "parentUuid", "parentId", "messageID", "sessionID", "callID", "call_id", "toolCallId", "tool_use_id",
))  # fmt: skip
CLAUDE = log_bytes(
    asked("u1", "look around"), answered("a1", "r1", use("c1"), "u1", usage=counts(3, 0, 900, 9)),
    asked("u2", [result("c1", "one")], "a1"), answered("a2", "r2", text("seen"), "u2", usage=counts(3, 900, 90, 9)),
    answered("a3", "r2", use("c2"), "a2", usage=counts(3, 900, 90, 9)), asked("u3", [result("c2", "two")], "a3"),
    answered("a4", "r3", text("done"), "u3", usage=counts(3, 990, 50, 9)), asked("u4", "and now?", "a4"),
    answered("a5", "r4", text("this"), "u4", usage=counts(3, 1040, 60, 9)),
)  # fmt: skip
LOGS = {
    "claude-code": (ClaudeCode, CLAUDE),
    "codex": (codex.Codex, codex.plain().data()),
    "copilot": (copilot.Log.reader, copilot.plain().data()),
    "opencode": (opencode.OpenCode, opencode.plain().user("two").answer("b", bill=(30, 120, 5)).data()),
    "pi": (pi.Pages.reader, pi.plain().data()),
}


def hidden(value: Any, placeholder: str, key: str = "", share: int = 1) -> Any:
    """Return decoded JSON with every id replaced, or one of `share` ids."""
    if isinstance(value, dict):
        return {name: hidden(member, placeholder, name, share) for name, member in value.items()}
    if isinstance(value, list):
        return [hidden(member, placeholder, share=share) for member in value]
    is_hidden = key in IDS and isinstance(value, str) and crc32(value.encode()) % share == 0
    return placeholder if is_hidden else value


@pytest.mark.parametrize("share", [1, 2, 3])
@pytest.mark.parametrize("placeholder", ["REDACTED", "xxx", "00000000-0000-0000-0000-000000000000"])
@each([*LOGS])
def test_placeholder_keeps_messages_results_and_turns_apart(name, placeholder, share):
    reader, data = LOGS[name]
    if data[:2] == b"{\n":
        redacted = json.dumps(hidden(json.loads(data), placeholder, share=share), indent=2).encode()
    else:
        redacted = b"".join(
            json.dumps(hidden(json.loads(line), placeholder, share=share)).encode() + b"\n"
            for line in data.splitlines()
        )
    before, after = folded(reader, data), folded(reader, redacted)
    assert items_without_ids(after) == items_without_ids(before)
    assert after.state.main().turn.turn == before.state.main().turn.turn


def test_message_ids_shared_with_the_model_become_unique():
    log = opencode.plain().user("two").answer("b", bill=(30, 120, 5)).data()
    messages = json.loads(log)
    for message in messages["messages"]:
        message["info"]["id"] = "msg"
        for part in message["parts"]:
            part.pop("id", None)
            part.pop("messageID", None)
    before, after = folded(opencode.OpenCode, log), folded(opencode.OpenCode, json.dumps(messages).encode())
    assert items_without_ids(after) == items_without_ids(before)


def items_without_ids(fold: Any) -> list[Any]:
    """Return each item without its id: its type, and what a call returned."""
    return [(type(entry.item), bytes(getattr(entry.item, "output", b""))) for entry in fold.state.main().entries]
