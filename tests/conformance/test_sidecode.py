"""What the first seed, sidecode, promises of a fold: deltas, compaction that prunes, cold equal to live.

Each test names its scenario. Items are spelled as a log spells them, so that the reader is part of the promise.
"""

from __future__ import annotations

import json

import pytest

from helpers.states import dump_state
from helpers.strategies import events_of, write
from lore.fold.step import step
from lore.formats.lore_log import LoreLog
from lore.model.items import AssistantMessage, CompactDivider, ToolCall, UserMessage
from lore.model.state import FoldedSession
from lore.prompt.assemble import Assembler
from lore.prompt.dialects import DIALECTS

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
        self.problems = []
        for event in events_of(self.log):
            self.state, found = step(self.state, event)
            self.problems += found

    @property
    def items(self):
        return [entry.item for entry in self.state.main().entries]

    @property
    def uuids(self):
        return [item.uuid for item in self.items]

    @property
    def codes(self):
        return [problem.code for problem in self.problems]


def test_append_puts_an_item_at_the_end_of_the_timeline():
    folded = Folded(user("u1"), assistant("a1", "yes"), user("u2"))
    assert folded.uuids == ["u1", "a1", "u2"]


def test_append_keeps_the_kind_of_each_item():
    folded = Folded(user("u1"), assistant("a1", "yes"), call("t1", "c1"))
    assert [type(item) for item in folded.items] == [UserMessage, AssistantMessage, ToolCall]


def test_append_of_a_known_uuid_keeps_the_first_place_and_the_last_content():
    folded = Folded(user("u1", "old"), user("u2"), user("u1", "new"))
    assert folded.uuids == ["u1", "u2"]
    assert bytes(folded.items[0].text) == b'"new"'
    assert folded.codes == ["LORE205"]


def test_patch_text_adds_to_the_message_of_its_uuid():
    folded = Folded(assistant("a1", "one"), assistant("a2", "two"), text("a1", " more"))
    assert [bytes(item.text) for item in folded.items] == [b'"one more"', b'"two"']


def test_patch_text_adds_to_the_most_recent_content_of_a_uuid_that_came_twice():
    folded = Folded(assistant("a1", "old"), user("u1"), assistant("a1", "new"), text("a1", "er"))
    assert bytes(folded.items[0].text) == b'"newer"'


def test_patch_text_adds_many_pieces_in_order():
    folded = Folded(assistant("a1"), *(text("a1", piece) for piece in ("a", "b", "c")))
    assert bytes(folded.items[0].text) == b'"abc"'


def test_patch_text_joins_a_surrogate_pair_cut_between_two_pieces():
    folded = Folded(assistant("a1"), text("a1", "\ud83d"), text("a1", "\ude00"))
    assert json.loads(bytes(folded.items[0].text)) == "\U0001f600"


def test_patch_text_leaves_the_item_that_was_shared_before_unchanged():
    before = Folded(assistant("a1", "one"))
    item = before.items[0]
    (event,) = events_of(write(text("a1", "!")))
    step(before.state, event)
    assert bytes(item.text) == b'"one"'
    assert before.items == [item]


def test_patch_text_with_an_unknown_uuid_changes_nothing_and_is_said():
    folded = Folded(assistant("a1", "one"), text("nobody", "x"))
    assert folded.items == Folded(assistant("a1", "one")).items
    assert folded.codes == ["LORE204"]


def test_patch_text_of_a_user_message_changes_nothing_and_is_said():
    folded = Folded(user("u1", "one"), text("u1", "x"))
    assert bytes(folded.items[0].text) == b'"one"'
    assert folded.codes == ["LORE204"]


def test_patch_tool_call_completes_a_call_with_its_output():
    (item,) = Folded(call("t1", "c1"), patched("c1", "completed", output="done")).items
    assert (item.status, bytes(item.output)) == ("completed", b'"done"')


def test_patch_tool_call_fails_a_call_with_its_error():
    (item,) = Folded(call("t1", "c1"), patched("c1", "failed", error="no", detail={"code": 1})).items
    assert (item.status, bytes(item.error), bytes(item.detail)) == ("failed", b'"no"', b'{"code":1}')


def test_patch_tool_call_keeps_what_it_does_not_carry():
    (item,) = Folded(call("t1", "c1", output="kept"), patched("c1", "completed")).items
    assert bytes(item.output) == b'"kept"'


def test_patch_tool_call_meets_the_most_recent_call_of_an_id_that_came_twice():
    folded = Folded(call("t1", "c1"), call("t2", "c1"), patched("c1", "completed", output="x"))
    assert [item.status for item in folded.items] == ["running", "completed"]


def test_patch_tool_call_meets_the_most_recent_call_after_an_older_one_was_repeated():
    folded = Folded(call("t1", "c1"), call("t2", "c1"), call("t1", "c1"), patched("c1", "completed"))
    assert [item.status for item in folded.items] == ["running", "completed"]


def test_patch_tool_call_leaves_parallel_calls_alone():
    folded = Folded(call("t1", "c1"), call("t2", "c2"), patched("c2", "completed"))
    assert [item.status for item in folded.items] == ["running", "completed"]


def test_patch_tool_call_with_an_unknown_id_changes_nothing_and_is_said():
    folded = Folded(call("t1", "c1"), patched("nobody", "completed"))
    assert folded.items == Folded(call("t1", "c1")).items
    assert folded.codes == ["LORE204"]


MANY = (user("u1"), assistant("a1", "x"), call("t1", "c1"), user("u2"), assistant("a2", "y"))


def test_compact_applied_keeps_the_preserved_items_in_timeline_order():
    folded = Folded(*MANY, compacted(preserved_uuids=["a2", "t1"]))
    assert folded.uuids == ["d", "t1", "a2"]
    assert folded.codes == []


@pytest.mark.parametrize(
    "preserved", [{}, {"preserved_uuids": []}, {"preserved_uuids": None}], ids=["missing", "empty", "null"]
)
def test_compact_applied_without_preserved_ids_keeps_none(preserved):
    folded = Folded(*MANY, compacted(**preserved))
    assert folded.uuids == ["d"]
    assert folded.codes == []


def test_compact_applied_with_some_unknown_preserved_ids_keeps_the_known_and_says_so():
    folded = Folded(*MANY, compacted(preserved_uuids=["a2", "nobody"]))
    assert folded.uuids == ["d", "a2"]
    assert folded.codes == ["LORE208"]


def test_compact_applied_with_only_unknown_preserved_ids_prunes_nothing_and_says_so():
    folded = Folded(*MANY, compacted(preserved_uuids=["nobody", "noone"]))
    assert folded.uuids == ["u1", "a1", "t1", "u2", "a2", "d"]
    assert folded.codes == ["LORE208"]


def test_compact_applied_keeps_a_call_together_with_its_result():
    done = (*MANY, patched("c1", "completed", output="result"))
    (_, item) = Folded(*done, compacted(preserved_uuids=["t1"])).items
    assert (item.call_id, bytes(item.output)) == ("c1", b'"result"')


def test_compact_applied_without_post_tokens_is_applied_all_the_same():
    (divider,) = Folded(*MANY, compacted()).items
    assert (divider.pre_tokens, divider.post_tokens) == (900, None)


def test_compact_applied_spelled_in_camel_case_keeps_the_same():
    record = {"kind": "compactApplied", "uuid": "d", "trigger": "auto", "preservedUuids": ["a2"], "preTokens": 900}
    assert Folded(*MANY, record).items == Folded(*MANY, compacted(preserved_uuids=["a2"])).items


def test_the_divider_stands_directly_before_the_first_kept_item():
    folded = Folded(*MANY, compacted(preserved_uuids=["u2", "a2"]))
    assert folded.uuids == ["d", "u2", "a2"]


def test_the_divider_stands_at_the_end_when_nothing_is_kept():
    folded = Folded(*MANY, compacted(), user("u3"))
    assert folded.uuids == ["d", "u3"]


def test_the_divider_says_how_many_items_it_stands_for():
    divider = Folded(*MANY, compacted(preserved_uuids=["a2"], summary="so far", post_tokens=50)).items[0]
    assert isinstance(divider, CompactDivider)
    assert (divider.pruned, divider.trigger, divider.post_tokens, bytes(divider.summary)) == (
        4,
        "auto",
        50,
        b'"so far"',
    )


def test_the_divider_of_an_older_compaction_is_pruned_by_the_next():
    folded = Folded(*MANY, compacted(preserved_uuids=["a2"]), compacted(uuid="d2", preserved_uuids=["a2"]))
    assert folded.uuids == ["d2", "a2"]


@pytest.mark.parametrize("dialect", DIALECTS.values(), ids=list(DIALECTS))
def test_the_divider_renders_as_a_users_message_that_holds_the_summary(dialect):
    state = Folded(*MANY, compacted(summary="so far")).state
    messages = Assembler(dialect).assemble(state, state.main()).prompt.messages
    envelope, text = messages
    assert b'"role":"user"' in envelope.data
    assert json.loads(text.data)["text"] == "so far"


@pytest.mark.parametrize("dialect", DIALECTS.values(), ids=list(DIALECTS))
def test_the_divider_without_a_summary_renders_as_nothing(dialect):
    state = Folded(*MANY, compacted()).state
    assert len(Assembler(dialect).assemble(state, state.main()).prompt.messages) == 0


def test_a_patch_of_a_pruned_item_changes_nothing_and_is_said():
    folded = Folded(*MANY, compacted(preserved_uuids=["a2"]), text("a1", "x"), patched("c1", "completed"))
    assert folded.uuids == ["d", "a2"]
    assert folded.codes == ["LORE204", "LORE204"]


def test_a_patch_of_a_kept_item_meets_it_after_the_compaction():
    folded = Folded(*MANY, compacted(preserved_uuids=["t1"]), patched("c1", "completed", output="late"))
    assert bytes(folded.items[1].output) == b'"late"'
    assert folded.codes == []


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
        reader = LoreLog()
        state = _fold(FoldedSession(), reader.feed(live.log[:at]))
        state = _fold(state, [*reader.feed(live.log[at:]), *reader.finish()])
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


def test_the_log_is_never_shortened_by_a_compaction(desk, capsys):
    from lore.cli.main import main  # noqa: PLC0415

    log = Folded(*MANY, compacted(preserved_uuids=["a2"])).log
    (desk / "log.jsonl").write_bytes(log)
    assert main(["fold", "log.jsonl", "--pruned", "--json"]) == 0
    assert [item["uuid"] for item in json.loads(capsys.readouterr().out)["timeline"]] == ["u1", "a1", "t1", "u2"]
    assert (desk / "log.jsonl").read_bytes() == log
