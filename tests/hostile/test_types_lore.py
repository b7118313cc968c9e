"""Wrong types in every field of every kind of lore's own log."""

from __future__ import annotations

import pytest

from helpers.strategies import write
from hostile.making import JUDGING
from hostile.wrong import WRONG

ITEMS = {
    "user_message": {"uuid": "x", "text": "t", "source": "user"},
    "assistant_message": {"uuid": "x", "blocks": [{"type": "text", "text": "t"}], "stop_reason": "s",
                          "response_id": "r"},
    "tool_call": {"uuid": "x", "call_id": "c", "name": "n", "input": {}, "status": "completed", "output": "o",
                  "error": "e", "detail": {}, "response_id": "r"},
    "compact_divider": {"uuid": "x", "trigger": "manual", "pre_tokens": 1, "post_tokens": 1, "summary": "s",
                        "pruned": 1},
    "opaque": {"uuid": "x", "record": {}},
}  # fmt: skip
USAGE = {"uncached_tokens": 1, "read_tokens": 1, "write_tokens": 1, "output_tokens": 1, "write_5m_tokens": 1}
KINDS = {
    "session_started": {"v": 1, "session_id": "s", "model": "m", "dialect": "anthropic", "system": "s", "tools": [{}],
                        "attachments": ["a"], "params": {}, "user_id": "u", "project_id": "p",
                        "parent_session_id": "q"},
    "session_changed": {"model": "m", "system": "s", "tools": [{}], "params": {}},
    "layer": {"name": "n", "when": "every_turn", "text": "t"},
    "append": {"item": {"type": "user_message", **ITEMS["user_message"]}},
    "patch_text": {"uuid": "a1", "delta_text": "t"},
    "patch_tool_call": {"call_id": "c1", "status": "completed", "output": "o", "error": "e", "detail": {}},
    "tool_result_cleared": {"call_ids": ["c1"], "placeholder": "p"},
    "remove": {"uuids": ["nobody"]},
    "compact_started": {"trigger": "manual", "pre_tokens": 1},
    "compact_applied": {"uuid": "d", "trigger": "manual", "pre_tokens": 1, "post_tokens": 1, "preserved_uuids": ["a1"],
                        "summary": "s"},
    "turn_started": {"turn": 2, "at": "2026-01-01T00:00:00Z", "context": {}},
    "turn_completed": {"turn": 1, "at": "2026-01-01T00:00:00Z", "usage": USAGE, "verdict": {"reason": "r"}},
    "turn_failed": {"turn": 1, "usage": USAGE, "error": "e"},
    "turn_canceled": {"turn": 1, "usage": USAGE, "error": "e"},
    "knowledge": {"op": "add", "id": "i", "category": "c", "title": "t", "content": "c"},
    "prompt_delta": {"seq": 0, "selector": {"target": "messages", "insert_at": 0}, "content": []},
    "context_persisted": {"turn": 1, "insert_at": 0, "content": "c"},
    "cache_reset": {"reason": "r"},
    "opaque": {"record": {}},
}  # fmt: skip
EVERY = {"id": 1, "at": "2026-01-01T00:00:00Z", "chain": "main", "agent_id": "a"}
CONTEXT = {"memory_recall": [], "every_turn": [], "current_time": "t", "working_context": {}, "slash_command": "s",
           "overlay": "o", "restart_notice": "r", "extra": []}  # fmt: skip
START = (
    {"kind": "session_started", "session_id": "s", "model": "claude-x", "params": {"max_tokens": 5}},
    {"kind": "append", "item": {"type": "user_message", "uuid": "u1", "text": "hi"}},
    {"kind": "turn_started", "turn": 1},
    {"kind": "append", "item": {"type": "assistant_message", "uuid": "a1", "text": "yes"}},
    {"kind": "append", "item": {"type": "tool_call", "uuid": "t1", "call_id": "c1", "name": "n", "input": {}}},
)
END = ({"kind": "turn_started", "turn": 90, "context": {"extra": ["x"]}}, {"kind": "turn_completed", "turn": 90})

FIELDS = [
    *((kind, (field,)) for kind, fields in KINDS.items() for field in (*fields, *EVERY, "kind")),
    *(("append", ("item", item, field)) for item, fields in ITEMS.items() for field in (*fields, "type")),
    *((kind, ("usage", field)) for kind in ("turn_completed", "turn_failed") for field in USAGE),
    *(("turn_completed", ("verdict", field)) for field in ("reason", "missed_tokens", "source")),
    *(("turn_started", ("context", field)) for field in (*CONTEXT, "unknown")),
    *(("prompt_delta", ("selector", field)) for field in ("target", "insert_at")),
]


def _spoiled(kind: str, place: tuple[str, ...], wrong) -> dict:
    record = {"kind": kind, **EVERY, **KINDS[kind]}
    if kind == "knowledge":
        record["id"] = "i"
    match place:
        case (field,):
            record[field] = wrong
        case ("item", item, field):
            record["item"] = {"type": item, **ITEMS[item], field: wrong}
        case (outer, field):
            record[outer] = {**(record.get(outer) or {}), field: wrong}
    return record


@pytest.mark.parametrize("command", JUDGING, ids=" ".join)
@pytest.mark.parametrize("kind", list(KINDS))
def test_wrong_types_in_every_field_of_a_kind_stop_no_command(lore, desk, kind, command):
    odd = [_spoiled(kind, place, wrong) for one, place in FIELDS if one == kind for wrong in WRONG]
    (desk / "log.jsonl").write_bytes(b"\n".join(write(one) for one in (*START, *odd, *END)) + b"\n")
    assert lore(*command, "log.jsonl").code in (0, 1)


@pytest.mark.parametrize("field", ["session_id", "model", "dialect", "system", "tools", "params", "attachments", "v"])
def test_a_wrong_type_in_the_header_stops_no_command(lore, desk, field):
    for number, wrong in enumerate(WRONG):
        header = {**START[0], field: wrong}
        (desk / f"{number}.jsonl").write_bytes(b"\n".join(write(one) for one in (header, *START[1:], *END)))
        if number % 3 == 0:
            assert lore("assemble", f"{number}.jsonl").code == 0
    assert lore("check", ".", "--json").code in (0, 1)
