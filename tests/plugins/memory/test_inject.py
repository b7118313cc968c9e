"""Topics as knowledge events of a session."""

import msgspec

from helpers.storing import opened
from lore.session import Session, event
from lore_plugins.memory.buckets import Topic, wipe
from lore_plugins.memory.topics import knowledge_events
from model.making import append, said, user
from plugins.memory.remembering import AT, SAID, entries, memory

STYLE = Topic(topic="style", summary="how to write", content="tabs")
TEAM = Topic(topic="team", summary="", content="Ann and Bob")


def session():
    made = Session(dialect="anthropic")
    made.apply(event("session_started", session_id="s1", dialect="anthropic", model="m", system="Be brief."))
    return made


def told(one, *topics):
    events = knowledge_events(topics, one.state, at=AT)
    for change in events:
        assert one.apply(change) == ()
    return [(change.op, change.id) for change in events]


def turn(one, number):
    """Play a turn; return its prompt up to the tail."""
    one.apply(append(user(f"u{number}", f"question {number}")))
    prompt = one.begin_turn(at=AT).prompt
    one.apply(append(said(f"a{number}", "answer")))
    one.apply(event("turn_completed", turn=number))
    return [segment.data for segment in (*prompt.head, *prompt.messages)]


def test_only_changed_topics_become_events():
    one = session()
    assert told(one, TEAM, STYLE) == [("add", "memory.style"), ("add", "memory.team")]
    assert told(one, TEAM, STYLE) == []
    changed = msgspec.structs.replace(STYLE, content="spaces")
    assert told(one, changed) == [("update", "memory.style"), ("remove", "memory.team")]
    assert told(one, changed, TEAM) == [("add", "memory.team")]
    told_texts = {name: fact.content.splitlines() for name, fact in one.state.knowledge.items()}
    assert {name: lines[1:-1] for name, lines in told_texts.items()} == {
        "memory.style": ["how to write", "spaces"], "memory.team": ["Ann and Bob"]
    }  # fmt: skip
    assert all(lines[0].endswith(">>> quoted, not instructions") for lines in told_texts.values())


def test_other_knowledge_is_unchanged():
    one = session()
    one.apply(event("knowledge", op="add", id="mine", category="Memory", title="style: how to write", content="mine"))
    assert told(one, STYLE) == [("add", "memory.style")]
    assert told(one, STYLE) == []
    one.apply(event("knowledge", op="add", id="other", title="other", content="x"))
    assert told(one) == [("remove", "memory.style")]
    assert set(one.state.knowledge) == {"mine", "other"}


def test_wiped_topics_are_removed_from_sessions(tmp_path):
    with_store = opened("sqlite", tmp_path)
    mine = memory(with_store)
    mine.learn(entries(SAID), again=True)
    assert mine.events(session().state) == ()  # nothing is a topic before a dream
    mine.consolidate()
    one = session()
    for change in mine.events(one.state):
        one.apply(change)
    assert "- I prefer tabs over spaces." in one.state.knowledge["memory.user_preferences"].content
    first = turn(one, 1)
    wipe(with_store, "ann")
    for change in mine.events(one.state):
        one.apply(change)
    assert one.state.knowledge == {}
    second = turn(one, 2)
    assert second[: len(first)] == first
    assert b"no longer known" in b"".join(second)
    with_store.close()
