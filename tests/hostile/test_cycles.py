"""Ids that lead back to themselves: every command ends, and the odd records are counted."""

import json

import pytest

from formats.claude import answered, asked, line, log_bytes, result, text, use
from model.making import call as called
from model.making import dumps, header, record, said, user

COMMANDS = (("check", "--json"), ("fold", "--json"), ("assemble",), ("diff-prefix", "--json", "--no-tokens"))
BOUNDARY = {"subtype": "compact_boundary"}
RING = [f"n{number}" for number in range(500)]


def boundary(uuid, parent=None, *, logical=None, **meta):
    """A compaction's line."""
    fields = {"compactMetadata": {"trigger": "auto", **meta}, "logicalParentUuid": logical}
    return line("system", uuid, parent, **BOUNDARY, **fields)


def kept(anchor, *uuids):
    """Return the preserved messages of a compaction, in both forms."""
    return {
        "preservedMessages": {"anchorUuid": anchor, "uuids": list(uuids), "allUuids": list(uuids)},
        "preservedSegment": {"headUuid": uuids[0], "anchorUuid": anchor, "tailUuid": uuids[-1]},
    }


def summary(uuid, parent):
    """The line after a boundary."""
    return asked(uuid, "what was", parent, isCompactSummary=True)


CLAUDE = {
    "a line that is its own parent": [asked("u", "hi", "u"), answered("a", "m", text("x"), "a")],
    "a ring of parents": [
        answered(uuid, f"m{number}", text("x"), RING[number - 1]) if number % 2 else asked(uuid, "hi", RING[number - 1])
        for number, uuid in enumerate(RING)
    ],
    "a ring on a side chain": [
        answered(uuid, f"m{number}", text("x"), RING[number - 1], isSidechain=True)
        if number % 2
        else asked(uuid, "hi", RING[number - 1], isSidechain=True)
        for number, uuid in enumerate(RING)
    ],
    "one uuid on every line": [asked("u", "hi", "u"), *(answered("u", f"m{n}", text("x"), "u") for n in range(9))],
    "rewinds that turn in a circle": [
        asked("u1", "hi"), answered("a1", "m1", text("x"), "u1"), asked("u2", "no", "u1"), asked("u1", "no", "u2"),
        asked("u3", "so", "u1"), asked("u2", "so", "u1"), answered("a2", "m2", text("x"), "u2"),
    ],
    "a response that comes back": [
        asked("u", "hi"), answered("a1", "m1", text("x"), "u"), answered("a2", "m2", text("y"), "a1"),
        answered("a3", "m1", text("z"), "a2"), answered("a4", "m2", text("z"), "a3"),
    ],
    "a call that is answered before it is made, twice": [
        asked("u1", [result("c1"), result("c1")]), answered("a1", "m1", use("c1"), "u1"),
        asked("u2", [result("c1")], "a1"), answered("a2", "m2", use("c1"), "u2"), asked("u3", [result("c1")], "a2"),
    ],
    "a boundary that is its own logical parent": [
        asked("u", "hi"), boundary("b", logical="b"), summary("s", "b"), answered("a", "m", text("x"), "s"),
    ],
    "an anchor that is the boundary itself": [
        asked("u", "hi"), answered("a0", "m0", text("x"), "u"), boundary("b", **kept("b", "a0")),
        summary("s", "b"), answered("a", "m", text("x"), "s"),
    ],
    "a boundary that preserves itself and its summary": [
        asked("u", "hi"), answered("a0", "m0", text("x"), "u"), boundary("b", **kept("s", "b", "s", "u", "b")),
        summary("s", "b"), answered("a", "m", text("x"), "b"),
    ],
    "a segment that ends before it begins": [
        asked("u", "hi"), answered("a0", "m0", text("x"), "u"),
        boundary("b", preservedSegment={"headUuid": "a0", "anchorUuid": "s", "tailUuid": "u"}),
        summary("s", "b"), answered("a", "m", text("x"), "s"),
    ],
    "a segment through a ring": [
        asked("u", "hi", "a0"), answered("a0", "m0", text("x"), "u"),
        boundary("b", preservedSegment={"headUuid": "n", "anchorUuid": "s", "tailUuid": "a0"}),
        summary("s", "b"), answered("a", "m", text("x"), "s"),
    ],
    "an agent that is called main": [
        asked("u", "hi", agentId="main", isSidechain=True), answered("a", "m", text("x"), "u"),
    ],
}  # fmt: skip
END = [asked("z1", "and", "nobody"), answered("z2", "mz", text("x"), "z1"), answered("z3", "mzz", text("x"), "z2")]

TURN = [record("turn_started", turn=1)]
LORE = {
    "an item that is removed by its own removal": [user("u", "a"), *TURN, record("remove", uuids=["u", "u", "d"])],
    "a compaction that preserves itself": [
        user("u", "a"), *TURN, record("compact_applied", uuid="d", trigger="manual", preserved_uuids=["d", "d"]),
    ],
    "a compaction called like an item": [
        user("u", "a"), *TURN, record("compact_applied", uuid="u", trigger="manual", preserved_uuids=["u"]),
        record("compact_applied", uuid="u", trigger="manual", preserved_uuids=["u"]),
    ],
    "one uuid for everything": [
        user("u", "a"), said("u", "b"), called("u", "u"), *TURN, record("patch_text", uuid="u", delta_text="x"),
        record("patch_tool_call", call_id="u", status="completed", output="u"), user("u", "c"),
    ],
    "one call id for every call": [
        called("t1", "c"), called("t2", "c"), *TURN, record("patch_tool_call", call_id="c", status="completed"),
        record("tool_result_cleared", call_ids=["c", "c"]), called("t1", "c"),
    ],
    "turns that go backwards": [
        *(record("turn_started", turn=turn) for turn in (1, 3, 2, 3, 3, 1)), record("turn_completed", turn=3),
    ],
    "a session that is its own parent": [header(session_id="s", parent_session_id="s"), user("u", "a"), *TURN],
    "deltas that follow themselves": [
        user("u", "a"), *TURN,
        *(record("prompt_delta", seq=1, selector={"target": "messages", "insert_at": n}, content=[]) for n in (9, 0)),
    ],
}  # fmt: skip


def _run(lore, command):
    ended = lore(*command, "log")
    assert ended.code in (0, 1), ended
    return ended.out


@pytest.mark.parametrize("command", COMMANDS, ids=lambda words: words[0])
@pytest.mark.parametrize("name", CLAUDE)
def test_cycle_in_claude_code_log_ends(lore, desk, name, command):
    (desk / "log").write_bytes(log_bytes(*CLAUDE[name], *END))
    out = _run(lore, command)
    if command[0] == "check":  # the two at the end, and one of the story's at least
        assert json.loads(out)["summary"]["turns"] >= 3


@pytest.mark.parametrize("command", COMMANDS, ids=lambda words: words[0])
@pytest.mark.parametrize("name", LORE)
def test_cycle_in_lore_log_ends(lore, desk, name, command):
    events = [one if "kind" in one else record("append", item=one) for one in LORE[name]]
    turns = [record("turn_started", turn=90), record("turn_started", turn=91)]
    (desk / "log").write_bytes(b"".join(dumps(one) + b"\n" for one in (header(), *events, *turns)))
    out = _run(lore, command)
    if command[0] == "check":
        assert json.loads(out)["summary"]["turns"] >= 3
