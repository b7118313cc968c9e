"""sidecode appends its divider after the kept items (001): a setting of lore.

How its event deltas are read are golden scripts (`tests/golden/scripts/sidecode.json`).
"""

from __future__ import annotations

import json

import pytest

from helpers.states import dump_state
from lore.compaction.base import Firing, TimelineCut
from lore.compaction.executor import compaction_events
from lore.prompt.base import Rules
from lore.session import Session, event
from lore.store.registry import open_store
from lore.store.session import StoredSession

AFTER = Rules(divider="after")


# 001: "keeps only `preservedUuids` and appends the divider": behind what is kept


def own_log(*, summary="so far"):
    """A log whose compaction keeps two of four items."""
    return [
        event("session_started", session_id="s", model="claude-opus-5"),
        *(event("append", item={"type": "user_message", "uuid": f"u{n}", "text": f"t{n}"}) for n in range(4)),
        event("turn_started", turn=1),
        event("compact_applied", uuid="d", trigger="auto", preserved_uuids=["u1", "u3"], summary=summary),
        event("append", item={"type": "user_message", "uuid": "u4", "text": "t4"}),
        event("turn_started", turn=2),
    ]


def uuids(session):
    return [entry.item.uuid for entry in session.state.main().entries]


def test_the_divider_stands_before_or_after_the_kept_items_as_it_is_set():
    """001: the divider is appended, behind the preserved items."""
    assert uuids(Session.restore(own_log())) == ["d", "u1", "u3", "u4"]
    assert uuids(Session.restore(own_log(), rules=AFTER)) == ["u1", "u3", "d", "u4"]


def test_the_summary_is_sent_where_the_divider_stands():
    session = Session.restore(own_log(), rules=AFTER)
    body = json.loads(session.write(session.assembled().prompt))
    assert [block["text"] for message in body["messages"] for block in message["content"]] == [
        "t1",
        "t3",
        "so far",
        "t4",
    ]


def test_cold_equals_live_with_a_divider_behind_for_a_cut_at_every_event():
    """001: the two reducers change at once."""
    log = own_log()
    live = Session.restore(log, rules=AFTER)
    for at in range(len(log)):
        cold = Session.restore(log[:at], rules=AFTER)
        for later in log[at:]:
            cold.apply(later)
        assert dump_state(cold.state) == dump_state(live.state), at


def test_a_divider_behind_a_tools_result_is_no_turn_of_the_user():
    """002, #634: behind a result a user's message of its own reads as a new turn."""
    call = {
        "type": "tool_call",
        "uuid": "c",
        "call_id": "c",
        "name": "n",
        "input": {},
        "status": "completed",
        "output": "o",
    }
    log = [
        event("session_started", session_id="s", model="gpt-5", dialect="openai-chat"),
        event("append", item={"type": "user_message", "uuid": "u", "text": "t"}),
        event("turn_started", turn=1),
        event("append", item=call),
        event("compact_applied", uuid="d", trigger="overflow", preserved_uuids=["c"], summary="so far"),
        event("turn_started", turn=2),
    ]
    session = Session.restore(log, rules=AFTER)
    messages = json.loads(session.write(session.assembled().prompt))["messages"]
    assert [message["role"] for message in messages[-2:]] == ["assistant", "tool"]
    assert "so far" in json.dumps(messages[-1])


def test_a_stored_session_folds_by_its_setting(desk):
    """001, 003: stores keep events; where the divider stands is the reader's setting."""
    with_rules = {"rules": AFTER}
    store = open_store("sqlite:k.db")
    header, *rest = own_log()
    stored = StoredSession.begin(store, header, **with_rules)
    stored.apply(*rest)
    stored.save()
    assert uuids(StoredSession.open(store, "s", **with_rules).session) == ["u1", "u3", "d", "u4"]
    assert uuids(StoredSession.open(store, "s").session) == ["d", "u1", "u3", "u4"]
    store.close()


@pytest.mark.parametrize("rules", [Rules(), AFTER], ids=["before", "after"])
def test_outside_context_stands_before_the_users_next_message_wherever_the_divider_is(rules):
    """004: a compaction puts outside context before the message that asks."""
    log = own_log()[:6]
    ask = event("append", item={"type": "user_message", "uuid": "ask", "text": "and now?"})
    session = Session.restore([*log, ask], rules=rules)
    firing = Firing("manual", TimelineCut(2))
    made = compaction_events(session.state, "main", firing, "so far", "news")
    for each in made:
        session.apply(each)
    (outside,) = session.state.main().outside
    assert session.state.main().entries[outside.place].item.uuid == "ask"
