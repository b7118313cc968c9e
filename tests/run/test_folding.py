"""`lore fold`: the items that compactions pruned."""

import json

import pytest

from lore.commands.fold import fold
from lore.recording.base import Problems
from lore.recording.opening import Options
from model.making import header, record, said, user
from model.making import log as log_of

STREAMED = [
    record("append", item=user("u1", "first")),
    record("append", item=said("a1", "")),
    record("patch_text", uuid="a1", delta_text="the whole "),
    record("patch_text", uuid="a1", delta_text="answer"),
]


@pytest.mark.parametrize("preserved", [[], ["u1"]])
def test_pruned_message_keeps_its_streamed_text(tmp_path, preserved):
    """Pruned before its pieces were joined, it was shown without text."""
    path = tmp_path / "s.jsonl"
    compaction = record("compact_applied", uuid="d", trigger="auto", preserved_uuids=preserved)
    path.write_bytes(log_of(header(), *STREAMED, compaction))
    items = [json.loads(bytes(item)) for item in fold(str(path), Options(), only_pruned=True).result.timeline]
    assert (items[-1]["uuid"], items[-1]["text"]) == ("a1", "the whole answer")


def test_late_end_of_a_turn_keeps_its_usage(tmp_path):
    """An end that came after the next turn's start was left out, and so was what the request was billed."""

    def ended(turn):
        return record("turn_completed", turn=turn, usage={"uncached_tokens": 10 * turn, "output_tokens": 1})

    path = tmp_path / "s.jsonl"
    starts = [record("turn_started", turn=turn) for turn in (1, 2)]
    path.write_bytes(log_of(header(), record("append", item=user("u1", "first")), *starts, ended(1), ended(2)))
    assert [turn.uncached_tokens for turn in fold(str(path), Options()).result.turns] == [10, 20]
    turns = list(Options().open(str(path), Problems()).turns())
    assert [(turn.number, turn.usage.uncached_tokens) for turn in turns] == [(1, 10), (2, 20)]
