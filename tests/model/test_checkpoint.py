"""Checkpoints: what is loaded folds on as what was saved."""

from __future__ import annotations

from zlib import crc32

import msgspec
import pytest

from lore.errors import LoreError
from lore.fold.step import step
from lore.model import checkpoint
from lore.model.items import ToolCall
from lore.model.state import FoldedSession
from model.making import Fold, append, call, event, said, started, user

EVENTS = [
    started(model="m", system=["a", "b"], tools=[{"name": "t"}], params={"x": 1.0}, attachments=["f"]),
    event("layer", name="rules", when="once_at_start", text="R"),
    event("layer", name="now", when="every_turn", text="N"),
    event("knowledge", op="add", id="k-1", category="c", title="t", content="x"),
    append(user("u1", "h\u00e9")),
    event("turn_started", turn=1, at="2026-01-01T00:00:00Z", context={"extra": ["e"]}),
    append(said("a1", response_id="r")),
    append(call("t1", "c1", response_id="r")),
    event("turn_completed", turn=1, usage={"uncached_tokens": 3, "read_tokens": 0}, verdict={"reason": "x"}),
    event("patch_tool_call", call_id="c1", status="completed", output="out"),
    event(
        "prompt_delta", seq=1, selector={"target": "messages", "insert_at": 1}, content=[{"role": "user", "text": "d"}]
    ),
    event("context_persisted", turn=1, insert_at=1, content="p"),
    event("context_persisted", turn=1, insert_at=1, content="from outside", outside=True),
    event("compact_applied", uuid="d", trigger="manual", preserved_uuids=["t1"], summary="S"),
    append(user("x1"), chain="side"),
]


def test_every_prefix_of_a_session_survives_a_checkpoint():
    fold = Fold()
    for one in EVENTS:
        fold.take(one)
        assert checkpoint.dump(checkpoint.load(checkpoint.dump(fold.state))) == checkpoint.dump(fold.state)


def test_a_loaded_state_folds_on_as_the_saved_one_does():
    for cut in range(len(EVENTS)):
        live = Fold(*EVENTS[:cut])
        cold = Fold(*EVENTS[:cut])
        cold.state = checkpoint.load(checkpoint.dump(live.state))
        live.take(*EVENTS[cut:])
        cold.take(*EVENTS[cut:])
        assert (checkpoint.dump(cold.state), cold.problems) == (checkpoint.dump(live.state), live.problems)


def test_lone_surrogates_survive_a_checkpoint():
    item = msgspec.Raw(b'"cut \\ud83d"')
    fold = Fold(started(), append(user("u")))
    one = fold.item(0)
    state, _ = step(fold.state, append(user("v")))
    chain = state.main()
    entries = chain.entries.set(
        0, msgspec.structs.replace(chain.entries[0], item=msgspec.structs.replace(one, text=item))
    )
    state = msgspec.structs.replace(state, chains={"main": msgspec.structs.replace(chain, entries=entries)})
    loaded = checkpoint.load(checkpoint.dump(state))
    assert bytes(loaded.main().entries[0].item.text) == b'"cut \\ud83d"'


def test_an_empty_session_can_be_saved():
    assert checkpoint.load(checkpoint.dump(FoldedSession())) == FoldedSession()


def test_a_checkpoint_of_another_version_is_refused(monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(checkpoint, "VERSION", 127)
        data = checkpoint.dump(FoldedSession())
    with pytest.raises(LoreError, match="version 127"):
        checkpoint.load(data)


@pytest.mark.parametrize(
    "junk",
    [b"", b"{", b"{}", b"[]", b"\xff\xfe", b"3\n{}", b"2\n{}\n", b"2\n[]\n", b"\xb2\n{}\n", b"1" * 30,
     b'38\n{"version":2,"session":3,"chains":[]}\n'],
)  # fmt: skip
def test_bytes_that_are_no_checkpoint_are_refused_with_a_hint(junk):
    with pytest.raises(LoreError, match="unreadable checkpoint") as caught:
        checkpoint.load(junk)
    assert "delete it" in caught.value.hint


def test_a_checkpoint_shrinks_when_a_compaction_prunes():
    fold = Fold(started(), *[append(user(f"u{n}", "x" * 100)) for n in range(50)])
    before = len(checkpoint.dump(fold.state))
    fold.take(event("compact_applied", uuid="d", trigger="manual", preserved_uuids=["u49"], summary="S"))
    assert len(checkpoint.dump(fold.state)) < before / 5


def test_a_checkpoint_with_any_byte_damaged_cut_short_or_with_something_after_it_is_refused():
    data = checkpoint.dump(Fold(*EVENTS).state)
    flipped = [data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :] for at in range(len(data))]
    for damaged in (*flipped, *[data[:at] for at in range(len(data))], data + b"x"):
        with pytest.raises(LoreError, match="unreadable checkpoint"):
            checkpoint.load(damaged)


def resealed(data, before, after):
    """A dump with other bytes of the same length, under a checksum that holds."""
    assert len(before) == len(after)
    body = data.replace(before, after)[: -checkpoint.CRC]
    return body + crc32(body).to_bytes(checkpoint.CRC, "big")


def test_items_that_are_forged_are_refused_when_they_are_looked_at(monkeypatch):
    monkeypatch.setattr("lore.model.vector.WIDTH", 2)
    data = checkpoint.dump(Fold(started(), *[append(user(f"u{number}")) for number in range(4)]).state)
    state = checkpoint.load(resealed(data, b'"uuid":"u1"', b'"uuid":1234'))
    assert state.main().entries[3].item.uuid == "u3"
    with pytest.raises(LoreError, match="unreadable checkpoint"):
        list(state.main().entries)


def test_columns_that_do_not_fit_their_items_are_refused():
    data = checkpoint.dump(Fold(started(), append(user("u1", "x" * 99))).state)
    for before, after in ((b"\x96\xc4", b"\x95\xc4"), (b"\x91\x00\x91\x01", b"\x91\x00\x90\xa0"), (b"\xcc", b"\xcd")):
        with pytest.raises(LoreError, match="unreadable checkpoint"):
            checkpoint.load(resealed(data, before, after))


@pytest.fixture
def looked_at(monkeypatch):
    """How often items are decoded, four at a time."""
    monkeypatch.setattr("lore.model.vector.WIDTH", 4)
    decoded, calls = checkpoint.lenient.decoded, []

    def counted(decoder, data):
        if decoder is checkpoint._ITEMS:
            calls.append(len(data))
        return decoded(decoder, data)

    monkeypatch.setattr(checkpoint.lenient, "decoded", counted)
    return calls


def test_only_the_entries_that_are_looked_at_are_decoded(looked_at):
    """All of a session of 100 MB was decoded and encoded again for one turn that came: as slow as to fold it anew."""
    fold = Fold(started(), append(call("t0", "c0")), *[append(user(f"u{number}")) for number in range(41)])
    fold.state = checkpoint.load(checkpoint.dump(fold.state))
    assert len(looked_at) == 1, "the last chunk, which is not full"
    fold.take(append(user("new")), event("patch_tool_call", call_id="c0", status="completed", output="out"))
    assert len(looked_at) == 2


def test_a_state_saved_behind_the_bytes_it_was_loaded_of_adds_what_changed(looked_at):
    fold = Fold(started(), append(call("t0", "c0")), *[append(user(f"u{number}")) for number in range(43)])
    known = memoryview(checkpoint.dump(fold.state))
    fold.state = checkpoint.load(known)
    fold.take(append(user("new")), event("patch_tool_call", call_id="c0", status="completed", output="out"))
    saved = checkpoint.save(fold.state, at=len(known), known=fold.state.main().entries._chunks[1].data)
    assert len(saved.texts) == 2, "the first chunk, and the last"
    whole = memoryview(b"".join([known, *saved.texts]))
    assert checkpoint.dump(checkpoint.restore(saved.head, whole)) == checkpoint.dump(fold.state)


def test_an_item_whose_text_has_a_line_feed_survives_a_checkpoint():
    fold = Fold(started(), append(user("u1")))
    one = msgspec.structs.replace(append(call("t1", "c1")), item=call_over_lines())
    fold.state = step(fold.state, one).state
    fold.take(append(user("u2")))
    state = checkpoint.load(checkpoint.dump(fold.state))
    assert checkpoint.dump(state) == checkpoint.dump(fold.state)
    assert bytes(state.main().entries[1].item.input) == b'{\n  "a": 1\n}'


def call_over_lines():
    """A tool call whose input was written by hand."""
    return ToolCall("t1", "c1", "ls", msgspec.Raw(b'{\n  "a": 1\n}'))
