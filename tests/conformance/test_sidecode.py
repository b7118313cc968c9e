"""sidecode: folding is pure, cold equals live, and a compaction shrinks the state.

Its other promises of a fold are golden scripts (`tests/golden/scripts/sidecode.json`).
"""

from __future__ import annotations

from helpers.fed import fed_in_two
from helpers.states import dump_state
from helpers.strategies import events_of, write
from lore.fold.step import step
from lore.formats.lore_log import LoreLog
from lore.model.state import FoldedSession

STARTED = {"kind": "session_started", "session_id": "s", "model": "claude-x"}


def user(uuid, text="hi"):
    return {"kind": "append", "item": {"type": "user_message", "uuid": uuid, "text": text}}


def assistant(uuid, text=""):
    return {"kind": "append", "item": {"type": "assistant_message", "uuid": uuid, "text": text}}


def call(uuid, call_id, **more):
    item = {"type": "tool_call", "uuid": uuid, "call_id": call_id, "name": "read", "input": {}, "status": "running"}
    return {"kind": "append", "item": {**item, **more}}


def compacted(**more):
    return {"kind": "compact_applied", "uuid": "d", "trigger": "auto", "pre_tokens": 900, **more}


def text(uuid, delta):
    return {"kind": "patch_text", "uuid": uuid, "delta_text": delta}


def patched(call_id, status, **more):
    return {"kind": "patch_tool_call", "call_id": call_id, "status": status, **more}


class Folded:
    """A session, folded live."""

    def __init__(self, *records) -> None:
        self.log = b"".join(write(record) + b"\n" for record in (STARTED, *records))
        self.state = FoldedSession()
        for event in events_of(self.log):
            self.state = step(self.state, event).state


def test_patch_text_leaves_the_item_that_was_shared_before_unchanged():
    before = Folded(assistant("a1", "one"))
    (entry,) = before.state.main().entries
    (event,) = events_of(write(text("a1", "!")))
    step(before.state, event)
    assert bytes(entry.item.text) == b'"one"'
    assert [*before.state.main().entries] == [entry]


MANY = (user("u1"), assistant("a1", "x"), call("t1", "c1"), user("u2"), assistant("a2", "y"))


ACROSS = (
    *MANY,
    {"kind": "turn_started", "turn": 1},
    {"kind": "compact_started", "trigger": "overflow", "pre_tokens": 900},
    compacted(preserved_uuids=["t1", "nobody", "a2"], summary="cut \ud83d"),
    patched("c1", "completed", output="late"),
    text("a2", " and more"),
    {"kind": "turn_started", "turn": 2},
    user("u3"),
)


def test_cold_equals_live_across_a_compaction_for_a_cut_at_every_byte():
    live = Folded(*ACROSS)
    for at in range(len(live.log) + 1):
        before, after = fed_in_two(LoreLog(), live.log, at)
        state = _fold(_fold(FoldedSession(), before), after)
        assert dump_state(state) == dump_state(live.state), at


def _fold(state, reads):
    for read in reads:
        state = step(state, read.value).state
    return state


def _long(count, *after):
    return Folded(*(user(f"u{n}", "words " * 50) for n in range(count)), *after).state


def test_the_state_shrinks_with_a_compaction():
    assert len(_long(400, compacted(preserved_uuids=["u399"])).main().entries) == 2


def test_the_size_of_the_state_shrinks_with_a_compaction():
    before, after = (dump_state(_long(400, *more)) for more in ((), (compacted(preserved_uuids=["u399"]),)))
    assert len(after) < len(before) / 50


def test_the_state_after_a_compaction_is_as_large_whatever_was_pruned():
    few, many = (dump_state(_long(count, compacted())) for count in (10, 80))
    assert len(many) == len(few)
