"""A harness's side of a store: what is sent, when it counts as saved, and what is folded meanwhile."""

import asyncio
import json

import pytest

import lore
from helpers.states import dump_state
from lore.errors import LoreError
from lore.session import Session, event
from lore.store.base import ConflictError, StoreError
from lore.store.session import StoredSession
from lore.store.sqlite import Memory

HEADER = event("session_started", session_id="s1", system="You help.", tools=[])


def said(uuid, text="hi"):
    return event("append", item={"type": "user_message", "uuid": uuid, "text": text})


def answered(uuid, text="yes"):
    return event("append", item={"type": "assistant_message", "uuid": uuid, "text": text})


class Failing(Memory):
    """A store whose next saves fail, before or after they are done."""

    def __init__(self):
        super().__init__()
        self.before = self.after = 0
        self.deltas = []

    def save_delta(self, session_id, delta):
        self.deltas.append(delta)
        if self.before:
            self.before -= 1
            raise StoreError("no room")
        head = super().save_delta(session_id, delta)
        if self.after:
            self.after -= 1
            raise StoreError("the answer was lost")
        return head


def uuids(session):
    return [entry.item.uuid for entry in session.state.main().entries]


def stored(store):
    return Session.read(store.load("s1").log)


def same_state(kept):
    return dump_state(stored(kept.store).state) == dump_state(kept.session.state)


def test_what_is_taken_back_goes_first_and_alone():
    store = Failing()
    kept = StoredSession.begin(store, HEADER)
    kept.apply(said("u1"), answered("bad"))
    kept.save()
    kept.remove("bad")
    kept.apply(answered("good"))
    delta = kept.delta()
    assert (delta.removed_ids, len(delta.new_events)) == (("bad",), 1)
    kept.save()
    kept.remove("good")
    assert (kept.delta().removed_ids, kept.delta().new_events) == (("good",), ())
    kept.save()
    assert uuids(stored(store)) == ["u1"]
    assert same_state(kept)
    assert len(store.load("s1").events) == 6, "nothing leaves the log"


def test_removals_before_and_after_a_save_are_kept():
    """Sent as `removed_ids`, the removal of an item that is not saved yet would stand before that item."""
    kept = StoredSession.begin(Failing(), HEADER)
    kept.apply(answered("bad"))
    kept.remove("bad")
    assert kept.delta().removed_ids == ()
    kept.apply(said("u1"), said("u2"))
    kept.save()
    kept.remove("u1")
    kept.remove("u2")
    kept.remove()
    kept.save()
    assert uuids(stored(kept.store)) == []
    assert kept.head.number == len(kept.saved) == 7


def test_what_a_turn_needs_in_its_log_is_saved_before_it_is_sent():
    kept = StoredSession.begin(Failing(), HEADER, rules=None)
    kept.apply(event("knowledge", op="add", id="k1", title="Name", content="Ada"), said("u1"))
    kept.begin_turn({"current_time": "10:00"})
    kept.save()
    kept.apply(answered("a1"), event("turn_completed", turn=1))
    kept.apply(event("knowledge", op="add", id="k2", title="Town", content="Bern"), said("u2"))
    prompt = kept.begin_turn({"current_time": "10:05"}).prompt
    kept.save()
    assert len(kept.store.prompt_deltas("s1")) == 1
    again = StoredSession.open(kept.store, "s1")
    assert again.session.write(again.session.assembled().prompt) == kept.session.write(prompt)


def test_another_writer_is_told_of_and_taken_in():
    store = Failing()
    mine, theirs = StoredSession.begin(store, HEADER), StoredSession.begin(store, HEADER)
    theirs.apply(said("t1"))
    theirs.save()
    mine.apply(said("m1"))
    mine.note({"who": "me"})
    with pytest.raises(ConflictError):
        mine.save()
    assert [one.item.uuid for one in mine.reload()] == ["t1"]
    mine.save()
    assert uuids(stored(store)) == uuids(mine.session) == ["t1", "m1"]
    assert store.load("s1").metadata == b'{"who":"me"}'
    assert same_state(mine)


def test_taking_another_writer_in_doubles_nothing_that_the_store_had_taken():
    store = Failing()
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
    assert uuids(stored(store)) == ["m1", "m2", "t1", "m3"]


def test_two_harnesses_that_ask_at_once_lose_no_message_and_no_turn():
    """Both named their message u1 and their turn 1: the second one's replaced the first one's, which was stored."""
    store = Failing()
    with lore.open(store, "s1", model="claude-opus-5") as mine, lore.open(store, "s1") as theirs:
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
        assert uuids(stored(store)) == ["u1", "u1-2", "a3"]
        with pytest.raises(ConflictError):
            theirs.assistant("late")
        theirs.reload()
        theirs.save()
        assert uuids(stored(store)) == ["u1", "u1-2", "a3", "a2"]


def test_what_is_held_about_a_renamed_item_follows_it_and_a_compaction_keeps_what_it_did_not_know():
    store = Failing()
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
    assert uuids(stored(store)) == ["d", "u1", "u2", "u1-2"]
    assert same_state(mine)


def test_a_removal_waits_through_a_reload():
    store = Failing()
    mine = StoredSession.begin(store, HEADER)
    mine.apply(said("m1"))
    mine.save()
    theirs = StoredSession.begin(store, HEADER)
    theirs.apply(said("t1"))
    theirs.save()
    mine.remove("m1")
    mine.reload()
    mine.save()
    assert uuids(stored(store)) == uuids(mine.session) == ["t1"]


def test_a_checkpoint_spares_what_came_before_it():
    store = Failing()
    kept = StoredSession.begin(store, HEADER)
    kept.apply(*(said(f"u{n}") for n in range(50)))
    kept.save()
    kept.checkpoint()
    kept.apply(said("late"))
    kept.save()
    asked = []
    store.load = lambda session_id, after=0: asked.append(after) or Memory.load(store, session_id, after=after)
    again = StoredSession.open(store, "s1")
    assert asked == [51]
    assert uuids(again.session) == uuids(kept.session)
    again.apply(said("later"))
    again.save()
    assert again.head.number == 53


def test_a_checkpoint_is_only_of_what_is_saved():
    kept = StoredSession.begin(Memory(), HEADER)
    kept.apply(said("u1"))
    with pytest.raises(LoreError, match="wait to be saved"):
        kept.checkpoint()


def test_a_session_begins_with_its_header():
    with pytest.raises(LoreError, match="session_started"):
        StoredSession.begin(Memory(), said("u1"))


def test_events_that_come_while_a_save_is_under_way_go_with_the_next():
    store = Failing()
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
    assert [len(delta.new_events) for delta in store.deltas] == [1, 1]
    assert uuids(stored(store)) == ["u1", "u2"]
