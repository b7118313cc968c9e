"""The library: a session that an agent keeps."""

from __future__ import annotations

import json

import pytest

from lore import Session, event
from lore.errors import LoreError
from lore.model.events import ContextPersisted, PromptDelta, TurnStarted
from lore.prompt.settings import Rules


def user(uuid, text):
    return event("append", item={"type": "user_message", "uuid": uuid, "text": text})


def begun(**fields):
    return Session.restore([event("session_started", session_id="s-1", model="claude-opus-5", **fields)])


@pytest.mark.parametrize(
    ("rules", "said"),
    [
        (Rules(tail="bottom"), "tail 'bottom' is none of system, user, persist"),  # type: ignore[arg-type]
        (Rules(marks="all"), "marks 'all' is none of lore, recorded, none"),  # type: ignore[arg-type]
        (Rules(ttl="1d"), "ttl '1d' is none of 5m, 1h"),  # type: ignore[arg-type]
        (Rules(ttl="1h"), "head_ttl must not be shorter than ttl: a longer-lived mark comes first"),
        (Rules(knowledge_tokens=0), "knowledge_tokens must be at least 1"),
    ],
)
def test_rules_that_cannot_be_are_an_error(rules, said):
    with pytest.raises(LoreError) as caught:
        Session(rules=rules)
    assert caught.value.message == said


def test_an_unknown_dialect_is_an_error_that_names_the_known_ones():
    with pytest.raises(LoreError) as caught:
        Session(dialect="klingon")
    assert caught.value.hint.endswith("anthropic, openai-chat, openai-responses, gemini, template")


@pytest.mark.parametrize("context", [{"current_time": 5}, {"memory_recall": [1]}, {"working_context": ["a"]}])
def test_a_context_of_the_wrong_type_is_an_error_and_changes_nothing(context):
    session = begun()
    session.apply(user("u1", "hello"))
    before = session.dump()
    with pytest.raises(LoreError, match="context "):
        session.begin_turn(context)
    assert session.dump() == before


@pytest.mark.parametrize(
    ("kind", "fields"),
    [("append", {}), ("append", {"item": {"type": "user_message"}}), ("knowledge", {"op": "add"}), ("klingon", {})],
)
def test_an_event_that_no_reader_would_take_is_an_error(kind, fields):
    with pytest.raises(LoreError):
        event(kind, **fields)


def test_tools_without_an_order_are_ordered_by_name():
    tools = {name: {"name": name, "input_schema": {}} for name in ("write", "read")}
    body = json.loads(Session().write(begun(tools=tools).assembled().prompt))
    assert [one["name"] for one in body["tools"]] == ["read", "write"]


def test_problems_of_a_restored_log_are_counted():
    session = begun()
    odd = PromptDelta(seq=0, selector=event("opaque", record={"target": "system"}).record)  # type: ignore[union-attr]
    assert [one.code for one in session.apply(odd)] == ["LORE214"]
    session.apply(event("knowledge", op="update", id="nobody", content="x"))
    assert [one.code for one in session.problems] == ["LORE214", "LORE204"]


def test_context_that_history_holds_already_is_not_said_again_by_another_policy():
    """A log written under `persist` and opened under `user` once said the last turn's context twice."""
    session = Session(rules=Rules(tail="persist"))
    log = [event("session_started", session_id="s", model="m"), user("u1", "hello")]
    for one in log:
        session.apply(one)
    log += session.begin_turn({"current_time": "09:00"}).events
    assert [type(one) for one in log[2:]] == [ContextPersisted, TurnStarted]
    again = Session.restore(log, rules=Rules(tail="user"))
    assert again.write(again.assembled().prompt).count(b"09:00") == 1


def test_loading_what_is_no_session_is_an_error():
    with pytest.raises(LoreError):
        Session.load(b"nothing")
