"""`lore fold` answers what a session's timeline holds, and what compactions pruned from it."""

from __future__ import annotations

import json

import pytest

from lore.commands.fold import fold
from lore.recording.opening import Options
from model.making import header, log, record, said, user

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
    path.write_bytes(log(header(), *STREAMED, compaction))
    items = [json.loads(bytes(item)) for item in fold(str(path), Options(), only_pruned=True).result.timeline]
    assert (items[-1]["uuid"], items[-1]["text"]) == ("a1", "the whole answer")
