"""A harness's side of a store: what is sent, when it counts as saved, and what is folded meanwhile."""

import asyncio
import json

import pytest

import lore
from lore.errors import LoreError
from lore.session import Session, event
from lore.store.base import ConflictError, StoreError
from lore.store.session import StoredSession
from lore.store.sqlite import Memory
from store.harness import HEADER, Faulty, assert_stored, items


def answered(uuid, text="yes"):
    return event("append", item={"type": "assistant_message", "uuid": uuid, "text": text})


def said(uuid, text="hi"):
    return event("append", item={"type": "user_message", "uuid": uuid, "text": text})


def stored(store):
    return Session.read(store.load("s").log)


def test_removals_before_and_after_a_save_are_kept():
    """Sent as `removed_ids`, the removal of an item that is not saved yet would stand before that item."""
    kept = StoredSession.begin(Faulty(Memory()), HEADER)
    kept.apply(answered("bad"))
    kept.remove("bad")
    assert kept.delta().removed_ids == ()
    kept.apply(said("u1"), said("u2"))
    kept.save()
    kept.remove("u1")
    kept.remove("u2")
    kept.remove()
    kept.save()
    assert items(stored(kept.store)) == []
    assert kept.head.number == len(kept.saved) == 7


def test_turn_is_saved_with_its_prompt_deltas():
    kept = StoredSession.begin(Faulty(Memory()), HEADER, rules=None)
    kept.apply(event("knowledge", op="add", id="k1", title="Name", content="Ada"), said("u1"))
    kept.begin_turn({"current_time": "10:00"})
    kept.save()
    kept.apply(answered("a1"), event("turn_completed", turn=1))
    kept.apply(event("knowledge", op="add", id="k2", title="Town", content="Bern"), said("u2"))
    prompt = kept.begin_turn({"current_time": "10:05"}).prompt
    kept.save()
    assert len(kept.store.prompt_deltas("s")) == 1
    again = StoredSession.open(kept.store, "s")
    assert again.session.write(again.session.assembled().prompt) == kept.session.write(prompt)


def test_reload_takes_another_writer_in():
    store = Faulty(Memory())
    mine, theirs = StoredSession.begin(store, HEADER), StoredSession.begin(store, HEADER)
    theirs.apply(said("t1"))
    theirs.save()
    mine.apply(said("m1"))
    mine.note({"who": "me"})
    with pytest.raises(ConflictError):
        mine.save()
    assert [one.item.uuid for one in mine.reload()] == ["t1"]
    mine.save()
    assert items(stored(store)) == items(mine.session) == ["t1", "m1"]
    assert store.load("s").metadata == b'{"who":"me"}'
    assert_stored(mine)


def test_reload_doubles_nothing_after_a_lost_answer():
    store = Faulty(Memory())
    mine = StoredSession.begin(store, HEADER)
    mine.apply(said("m1"), said("m2"))
    store.after = 1
    with pytest.raises(StoreError):
        mine.save()
    theirs = StoredSession.begin(store, HEADER)
    theirs.apply(said("t1"))
    theirs.save()
    mine.apply(said("m3"))
    with pytest.raises(ConflictError):
        mine.save()
    assert [one.item.uuid for one in mine.reload()] == ["t1"]
    mine.save()
    assert items(stored(store)) == ["m1", "m2", "t1", "m3"]


def test_two_harnesses_lose_no_message_and_no_turn():
    """Both named their message u1 and their turn 1: the second one's replaced the first one's, which was stored."""
    store = Faulty(Memory())
    with lore.open(store, "s", model="claude-opus-5") as mine, lore.open(store, "s") as theirs:
        theirs.user("theirs")
        theirs.request()
        mine.user("mine")
        mine.apply(event("knowledge", op="add", id="k1", content="news"))
        with pytest.raises(ConflictError):
            mine.request()
        mine.reload()
        said = json.dumps(mine.request())
        assert said.index('"theirs"') < said.index("news") < said.index('"mine"')
        mine.assistant("answer")
        assert stored(store).problems == []
        assert items(stored(store)) == ["u1", "u1-2", "a3"]
        with pytest.raises(ConflictError):
            theirs.assistant("late")
        theirs.reload()
        theirs.save()
        assert items(stored(store)) == ["u1", "u1-2", "a3", "a2"]


def test_delta_sent_after_a_reload_is_stored():
    """The turn had begun when another writer changed the knowledge: only its prompt held the delta."""
    store = Memory()
    with lore.open(store, "s", model="claude-opus-4-8") as mine, lore.open(store, "s") as curator:
        mine.apply(event("knowledge", op="add", id="k1", title="Port", content="8080"))
        mine.user("first")
        mine.request()
        mine.assistant("answer")
        curator.reload()
        curator.apply(event("knowledge", op="update", id="k1", content="9090 " * 30))
        curator.save()
        mine.user("second")
        with pytest.raises(ConflictError):
            mine.request()
        mine.reload()
        sent = json.dumps(mine.request())
        assert "9090" in sent
        assert len(store.prompt_deltas("s")) == 1
    other = StoredSession.open(store, "s", rules=lore.Rules(knowledge_tokens=30))
    assert json.dumps(other.request()) == sent


def test_reload_renames_held_items_everywhere():
    store = Faulty(Memory())
    mine, theirs = StoredSession.begin(store, HEADER), StoredSession.begin(store, HEADER)
    theirs.apply(said("u1", "theirs"), said("u2", "too"))
    theirs.save()
    mine.apply(
        said("u1"), said("u2", "gone"), answered("a1", ""), event("patch_text", uuid="a1", delta_text="x"),
        event("remove", uuids=["u2"]),
        event("compact_applied", uuid="d", trigger="manual", preserved_uuids=["u1"], summary="s"),
    )  # fmt: skip
    with pytest.raises(ConflictError):
        mine.save()
    mine.reload()
    mine.save()
    assert items(stored(store)) == ["d", "u1", "u2", "u1-2"]
    assert_stored(mine)


def test_session_without_a_header_is_refused():
    with pytest.raises(LoreError, match="session_started"):
        StoredSession.begin(Memory(), said("u1"))


def test_events_during_a_save_go_with_the_next():
    store = Faulty(Memory())
    kept = StoredSession.begin(store, HEADER)

    async def talk():
        kept.apply(said("u1"))
        first = asyncio.create_task(kept.save_async())
        await asyncio.sleep(0)
        with pytest.raises(LoreError, match="being saved"):
            kept.save()
        kept.apply(said("u2"))
        await asyncio.gather(first, kept.save_async())

    asyncio.run(talk())
    assert [len(delta.new_events) for delta in store.sent] == [1, 1]
    assert items(stored(store)) == ["u1", "u2"]
