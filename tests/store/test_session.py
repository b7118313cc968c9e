"""A session that a harness keeps in a store: which events are sent, when they count as saved, and reloading."""

import asyncio
import json

import pytest
from msgspec import Raw

import lore
from helpers.storing import stored_session
from lore.errors import LoreError, MisuseError
from lore.model.events import Append
from lore.model.items import UserMessage
from lore.session import Session
from lore.store.base import ConflictError, StoreError
from lore.store.session import StoredSession
from lore.store.sqlite import Memory
from model.making import event
from store.harness import HEADER, Faulty, assert_stored, items, say


@pytest.fixture
def store():
    return Faulty(Memory())


@pytest.fixture
def mine(store):
    return stored_session(store, HEADER)


@pytest.fixture
def theirs(store, mine):
    """The same session, as another program has it."""
    return stored_session(store, HEADER)


def stored(store):
    return Session.read(store.load("s").log)


def message(uuid, text="hi", who="user"):
    return event("append", item={"type": f"{who}_message", "uuid": uuid, "text": text})


# saving


def test_failed_save_is_sent_again_with_more(store, mine):
    say(mine, "u1", "a1")
    head, store.before = mine.head, 2
    for _ in range(2):
        with pytest.raises(StoreError, match="no room"):
            mine.save()
        assert (mine.head, store.load("s").head) == (head, head)
    say(mine, "u2").save()
    assert mine.head.number == 4
    assert [len(delta.new_events) for delta in store.sent] == [2, 2, 3]
    assert_stored(mine)


def test_lost_answer_doubles_nothing(store, mine):
    say(mine, "u1").save()
    mine.apply(event("remove", uuids=["u1"]))
    say(mine, "u2")
    store.after = 1
    with pytest.raises(StoreError, match="the answer was lost"):
        mine.save()
    assert mine.head.number == 2
    say(mine, "a2").save()
    assert (store.load("s").head.number, items(mine)) == (5, ["u2", "a2"])
    assert_stored(mine)


def test_refused_event_stops_no_later_save(mine):
    huge = Append(item=UserMessage("huge", Raw(b'"' + b"x" * (12 * 1024 * 1024) + b'"')))
    say(mine, "u1")
    with pytest.raises(StoreError):
        mine.apply(huge)
    assert say(mine, "a1").save().number == 3
    assert items(mine) == ["u1", "a1"]


def test_resumed_session_sends_only_new_events(store, mine):
    say(mine, "u1", "a1").save()
    say(mine, "lost")  # never saved
    again = stored_session(store, HEADER)
    assert again.delta().new_events == ()
    say(again, "u2").save()
    assert [len(delta.new_events) for delta in store.sent] == [2, 1]
    assert items(again) == ["u1", "a1", "u2"]
    assert_stored(again)


def test_compaction_is_sent_as_one_event(store, mine):
    say(mine, "u1", "a1", "u2", "a2").save()
    mine.apply(event("compact_applied", uuid="d", trigger="manual", preserved_uuids=["u2", "a2"], summary="x"))
    say(mine, "u3").save()
    assert (len(store.sent[-1].new_events), store.sent[-1].removed_ids) == (2, ())
    assert items(mine) == ["d", "u2", "a2", "u3"]
    assert_stored(mine)


def test_removals_before_and_after_a_save_are_kept(mine):
    """As `removed_ids`, the removal of an unsaved item would come before that item."""
    say(mine, "bad").apply(event("remove", uuids=["bad"]))
    assert mine.delta().removed_ids == ()
    say(mine, "u1", "u2").save()
    mine.apply(event("remove", uuids=["u1"]))
    mine.apply(event("remove", uuids=["u2"]))
    mine.save()
    assert items(stored(mine.store)) == []
    assert mine.head.number == 7


def test_turn_is_saved_with_its_prompt_deltas(store):
    mine = stored_session(store, HEADER)
    mine.apply(event("knowledge", op="add", id="k1", title="Name", content="Ada"), message("u1"))
    mine.begin_turn({"current_time": "10:00"})
    mine.save()
    mine.apply(message("a1", who="assistant"), event("turn_completed", turn=1))
    mine.apply(event("knowledge", op="add", id="k2", title="Town", content="Bern"), message("u2"))
    prompt = mine.begin_turn({"current_time": "10:05"}).prompt
    mine.save()
    assert store.load("s").log.count(b'"kind":"prompt_delta"') == 1
    again = StoredSession.open(store, "s")
    assert again.write(again.assembled().prompt) == mine.write(prompt)


def test_events_during_a_save_are_saved_once(store, mine):
    async def talk():
        first = asyncio.create_task(say(mine, "u1").save_async())
        await asyncio.sleep(0)
        await asyncio.to_thread(say, mine, "u2")
        await asyncio.gather(first, mine.save_async())

    asyncio.run(talk())
    assert sum(len(delta.new_events) for delta in store.sent) == 2
    assert items(stored(store)) == ["u1", "u2"]


def test_stored_session_is_a_session_with_its_log(mine):
    say(mine, "u1").save()
    say(mine, "a1").apply(event("remove", uuids=["u1"]))
    assert isinstance(mine, Session)
    whole = mine.log()
    mine.save()
    assert whole == mine.log() == mine.store.load("s").log
    assert [mine.log(number) for number in (3, 9)] == [b"".join(whole.splitlines(keepends=True)[3:]), b""]


# another writer


def test_reload_puts_held_events_after_others(store, mine, theirs):
    say(theirs, "t1").save()
    say(mine, "m1")
    with pytest.raises(ConflictError):
        mine.save()
    assert [entry.item.uuid for entry in mine.reload()] == ["t1"]
    mine.save()
    assert items(stored(store)) == items(mine) == ["t1", "m1"]
    assert_stored(mine)


def test_reload_after_a_lost_answer_doubles_nothing(store, mine, theirs):
    say(mine, "m1", "m2")
    store.after = 1
    with pytest.raises(StoreError):
        mine.save()
    theirs.reload()
    say(theirs, "t1").save()
    say(mine, "m3")
    with pytest.raises(ConflictError):
        mine.save()
    assert [entry.item.uuid for entry in mine.reload()] == ["t1"]
    mine.save()
    assert items(stored(store)) == ["m1", "m2", "t1", "m3"]


def test_two_harnesses_lose_no_message_and_no_turn(store):
    """Both call their message u1 and their turn 1."""
    with lore.open(store, "s", model="claude-opus-5") as mine, lore.open(store, "s") as theirs:
        theirs.user("theirs")
        theirs.request()
        mine.user("mine")
        mine.apply(event("knowledge", op="add", id="k1", content="news"))
        with pytest.raises(ConflictError):
            mine.request()
        mine.reload()
        request = json.dumps(mine.request())
        assert request.index('"theirs"') < request.index("news") < request.index('"mine"')
        mine.assistant("answer")
        assert stored(store).problems == []
        assert items(stored(store)) == ["u1", "u1-2", "a3"]
        with pytest.raises(ConflictError):
            theirs.assistant("late")
        theirs.reload()
        theirs.save()
        assert items(stored(store)) == ["u1", "u1-2", "a3", "a2"]


def test_delta_sent_after_a_reload_is_stored(store):
    """The turn had begun when another writer changed the knowledge: only its prompt had the delta."""
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
        request = json.dumps(mine.request())
        assert "9090" in request
        assert store.load("s").log.count(b'"kind":"prompt_delta"') == 1
    other = StoredSession.open(store, "s", rules=lore.Rules(knowledge_tokens=30))
    assert json.dumps(other.request()) == request


def texts_of(request):
    return [block["text"] for message in request["messages"] for block in message["content"]]


@pytest.fixture
def curated(store):
    """A session of one turn, and what another writer does to its knowledge."""
    with lore.open(store, "s", model="claude-opus-4-8") as mine:
        mine.apply(event("knowledge", op="add", id="k1", title="Port", content="8080"))
        mine.user("first")
        mine.request()
        mine.assistant("answer")

        def curate(content):
            with lore.open(store, "s") as curator:
                curator.apply(event("knowledge", op="update", id="k1", content=content))

        yield mine, curate


def test_two_conflicts_state_all_news_before_one_question(store, curated):
    """The turn was not sent between the two; what came after the first was stated a question late."""
    mine, curate = curated
    curate("9090")
    mine.user("second")
    with pytest.raises(ConflictError):
        mine.request()
    mine.reload()
    curate("7070")
    with pytest.raises(ConflictError):
        mine.request()
    mine.reload()
    request = mine.request()
    assert "7070" in texts_of(request)[-2]
    mine.assistant("answer")
    later = StoredSession.open(store, "s")
    later.user("third")
    texts = texts_of(later.request())
    assert texts[:-1] == [*texts_of(request), "answer"]


def test_reload_adds_no_delta_to_sent_turns(store, curated):
    mine, curate = curated
    mine.apply(event("knowledge", op="update", id="k1", content="9090"))
    mine.user("second")
    request = json.loads(mine.write(mine.begin_turn().prompt))
    with lore.open(store, "s") as curator:
        curator.apply(event("knowledge", op="add", id="k2", title="Host", content="db1"))
    with pytest.raises(ConflictError):
        mine.assistant("answer")
    mine.reload()
    mine.user("third")
    texts = texts_of(mine.request())
    assert "db1" in texts[-2]
    assert texts[: len(texts_of(request))] == texts_of(request)


def test_reload_renames_held_items_everywhere(store, mine, theirs):
    say(theirs, "u1", "u2").save()
    mine.apply(
        message("u1"), message("u2"), message("a1", "", "assistant"), event("patch_text", uuid="a1", delta_text="x"),
        event("remove", uuids=["u2"]),
        event("compact_applied", uuid="d", trigger="manual", preserved_uuids=["u1"], summary="s"),
    )  # fmt: skip
    mine.reload()
    mine.save()
    assert items(stored(store)) == ["d", "u1", "u2", "u1-2"]
    assert_stored(mine)


def test_reload_keeps_no_item_that_others_removed(store, mine, theirs):
    say(theirs, "u1", "u2").save()
    mine.reload()
    for session, kept in ((theirs, ["u2"]), (mine, ["u1", "u2"])):
        session.apply(
            event("compact_applied", uuid=f"d-{kept[0]}", trigger="manual", preserved_uuids=kept, summary="s")
        )
    theirs.save()
    mine.reload()
    mine.save()
    assert (mine.problems, items(stored(store))[-1]) == ([], "u2")


CHANGING = {
    "user": lambda session: session.user("more"),
    "apply": lambda session: session.apply(message("u9")),
    "request": lambda session: session.request(),
    "request_async": lambda session: asyncio.run(session.request_async()),
    "assistant": lambda session: session.assistant("yes"),
    "assistant_async": lambda session: asyncio.run(session.assistant_async(answered())),
    "failed": lambda session: session.failed("busy"),
    "change": lambda session: session.change(model="claude-opus-5"),
    "begin_turn": lambda session: session.begin_turn(),
    "compact": lambda session: session.compact("earlier", keep=1),
    "save": lambda session: session.save(),
    "save_async": lambda session: asyncio.run(session.save_async()),
    "reload": lambda session: session.reload(),
    "log": lambda session: session.log(),
}


async def answered():
    return "yes"


@pytest.mark.parametrize("call", CHANGING.values(), ids=CHANGING)
def test_closed_session_refuses_every_change(call, tmp_path):
    """`user` was accepted, and lost; `save` named the store."""
    with lore.open(f"jsonl:{tmp_path}", "s", model="claude-sonnet-4-5") as session:
        session.user("one")
        session.request()
        session.assistant("done")
        session.user("two")
        session.request()
    before = session.state
    with pytest.raises(LoreError, match="session 's' is closed") as caught:
        call(session)
    assert caught.value.hint.startswith("open it again")
    assert (session.state, session.close()) == (before, None)
    assert session.messages()[0].text == "one"


def test_session_id_has_to_be_a_text():
    with pytest.raises(MisuseError) as caught:
        lore.open("memory:", 5, model="claude-opus-5")
    assert (caught.value.message, caught.value.hint) == ("session_id is an int", "give a text")
