"""Where durable deltas stand: the ten cases of the gateway that had them first, on `safe` and end to end.

A call and its result are one entry here, so the cases count entries where the gateway counted messages.
"""

from __future__ import annotations

import json

import pytest
from msgspec import Raw

from helpers.strategies import shapes
from helpers.strategies.sessions import Agent
from lore.model.events import PromptDelta
from lore.model.items import AssistantMessage, ToolCall, UserMessage
from lore.model.state import Entry
from lore.model.vector import Vector
from lore.prompt.planning import safe


def entries(shape: str) -> Vector[Entry]:
    """One letter an entry: user, injected, assistant, call; letters without a space between are one response."""
    found = []
    for group, word in enumerate(shape.split(), 1):
        for letter in word:
            found.append(Entry(_item(letter, len(found)), 1, group))
    return Vector(found)


def _item(letter, number):
    text, uuid = Raw(b'"x"'), f"{letter}{number}"
    match letter:
        case "u":
            return UserMessage(uuid, text)
        case "i":
            return UserMessage(uuid, text, source="context_injection")
        case "a":
            return AssistantMessage(uuid, text)
        case _:
            return ToolCall(uuid, f"c{number}", "read", Raw(b"{}"), status="running" if letter == "p" else "completed")


@pytest.mark.parametrize(
    ("shape", "desired", "place"),
    [
        ("u c", 2, 1),  # a completed pair
        ("u p", 2, 1),  # a pending call at the end
        ("u ccc", 3, 1),  # parallel calls
        ("u acc", 2, 1),  # words and calls of one response
        ("u c c", 2, 1),  # two turns with calls
        ("u c c c", 3, 1),
        ("u a u", 2, 2),  # text alone: unchanged
        ("u a u", 1, 1),
        ("u a", 9, 1),  # never last
        ("u a c u", 3, 3),  # directly before a real user message, also behind a result
        ("u c i", 2, 1),  # an injected message is not one
        ("", 0, 0),
        ("u", 0, 0),
    ],
)
def test_safe_gives_the_last_place_where_text_may_stand(shape, desired, place):
    assert safe(entries(shape), desired) == place


@pytest.mark.parametrize("shape", ["u c", "u p a", "u ccc u", "u a c i u", "a u", "i", "ccc"])
def test_a_safe_place_is_safe_again(shape):
    known = entries(shape)
    for desired in range(len(known) + 2):
        place = safe(known, desired)
        assert safe(known, place) == place
        assert place <= max(0, len(known) - 1)


def test_a_floor_is_never_left():
    assert safe(entries("u c c c"), 3, 2) == 2


# end to end: deltas of a foreign log, at the places that it names


def _order(turn):
    found = [*turn.prompt.messages, *turn.prompt.tail]
    return [shapes.text_of(one) or "-" for one in found if one.kind != "envelope"]


def _three(dialect, places):
    """A log whose deltas come after its items, before anything was sent."""
    agent = Agent(dialect)
    for number in range(10):
        agent.user(f"m{number}")
    for number, place in enumerate(places):
        selector = {"target": "messages", "insert_at": place}
        agent.do("prompt_delta", seq=number, selector=selector, content=[{"role": "user", "text": "ABC"[number] * 2}])
    return agent


@pytest.mark.parametrize("dialect", shapes.NAMES)
@pytest.mark.parametrize("count", [2, 3])
def test_blocks_at_one_place_keep_their_order(dialect, count):
    turn = _three(dialect, [4] * count).turn()
    assert _order(turn)[3 : 5 + count] == ["m3", *["AA", "BB", "CC"][:count], "m4"]


@pytest.mark.parametrize("dialect", shapes.NAMES)
def test_distinct_places_count_the_original_history(dialect):
    """Positions once drifted with every block put in before them: AA before m2, BB before m5, CC before m8."""
    said = _order(_three(dialect, [2, 5, 8]).turn())
    assert said == ["m0", "m1", "AA", "m2", "m3", "m4", "BB", "m5", "m6", "m7", "CC", "m8", "m9"]


@pytest.mark.parametrize("dialect", shapes.NAMES)
def test_same_and_distinct_places_mixed(dialect):
    said = _order(_three(dialect, [5, 2, 5]).turn())
    assert said == ["m0", "m1", "BB", "m2", "m3", "m4", "AA", "CC", "m5", "m6", "m7", "m8", "m9"]


@pytest.mark.parametrize("dialect", shapes.NAMES)
def test_blocks_that_are_nudged_to_one_place_keep_their_order(dialect):
    """Same-index blocks once flipped their order, for each was placed in the array that held the one before."""
    agent = Agent(dialect)
    agent.user("m0")
    agent.calls(2)
    agent.user("m1")
    for number, place in enumerate([2, 1]):
        selector = {"target": "messages", "insert_at": place}
        agent.do("prompt_delta", seq=number, selector=selector, content=[{"role": "user", "text": "AB"[number] * 2}])
    said = [one for one in _order(agent.turn()) if one in ("m0", "AA", "BB", "m1")]
    assert said == ["m0", "AA", "BB", "m1"]


@pytest.mark.parametrize("dialect", shapes.NAMES)
@pytest.mark.parametrize("place", range(6))
def test_a_stale_place_inside_a_pair_keeps_call_and_result(dialect, place):
    """A frozen index once stood between call and result, and an orphan filter then dropped the call, every turn."""
    agent = Agent(dialect)
    agent.user("m0")
    agent.calls(2)
    agent.answer("m1")
    agent.user("m2")
    agent.do("prompt_delta", seq=0, selector={"target": "messages", "insert_at": place}, content="AA")
    for _ in range(3):
        said = [one for one in shapes.parts(dialect, agent.turn().body) if one.kind != "output"]
        begin = next(at for at, one in enumerate(said) if one.kind == "call")
        first, second = (one.text for one in said[begin : begin + 2])
        assert [(one.kind, one.text) for one in said[begin : begin + 4]] == [
            ("call", first), ("call", second), ("result", first), ("result", second)
        ]  # fmt: skip
        assert [one.kind for one in said].count("call") == [one.kind for one in said].count("result") == 2
        assert sum(one.text == "AA" for one in said) == 1
        assert said[-1].text == "m2"


@pytest.mark.parametrize("way", ["dump", "log", None])
def test_a_nudged_position_is_persisted_once_with_all_its_fields(way):
    """It was once computed anew in each turn; a writer that built the selector anew lost `mut`, and all fired again."""
    agent = Agent()
    agent.user("m0")
    agent.calls(2)
    agent.user("m1")
    selector = {"target": "messages", "insertAt": 2, "mut": {"changed": [{"id": "k", "h": "x"}]}, "debounceAt": 17}
    agent.do("prompt_delta", seq=0, selector=selector, content=[{"role": "user", "text": "AA"}])
    nudge, _ = agent.turn().events
    assert json.loads(bytes(nudge.selector)) == {**selector, "insertAt": 1}
    body = agent.turns[-1].body
    if way:
        agent.restart(way)
    again = agent.turn()
    assert again.new == ["TurnStarted"]
    assert again.body == body


def test_unknown_fields_keep_their_bytes_when_a_position_moves():
    agent = Agent()
    agent.user("m0")
    agent.answer()
    raw = Raw(b'{ "target" : "messages", "x":1.0e0, "insert_at": 7,"\\u00fc":[ 1 ] }')
    agent.session.apply(PromptDelta(seq=0, selector=raw, content=Raw(b'"AA"')))
    nudge, _ = agent.turn().events
    assert bytes(nudge.selector) == '{"target":"messages","x":1.0e0,"insert_at":1,"ü":[ 1 ]}'.encode()


@pytest.mark.parametrize(
    "selector",
    [
        {}, [], "x", None, {"target": "messages"}, {"target": "system", "insert_at": 0},
        {"target": "messages", "insert_at": -1}, {"target": "messages", "insert_at": 1.5},
        {"target": "messages", "insert_at": "1"}, {"target": "messages", "insert_at": 10**30},
    ],
)  # fmt: skip
def test_a_corrupt_selector_is_skipped_and_counted(selector):
    agent = Agent()
    codes = agent.do("prompt_delta", seq=0, selector=selector, content="AA")
    agent.user()
    assert codes == ("LORE214",)
    assert not agent.turn().deltas


@pytest.mark.parametrize("content", [None, 5, "", [], {}, [5], [{"role": "tool", "text": "x"}], [{"role": "user"}]])
def test_corrupt_content_is_skipped_and_counted(content):
    agent = Agent()
    codes = agent.do("prompt_delta", seq=0, selector={"target": "messages", "insert_at": 0}, content=content)
    agent.user()
    assert codes == ("LORE214",)
    assert not agent.turn().deltas


def test_a_corrupt_row_hurts_no_other():
    agent = Agent()
    for number, selector in enumerate([{}, {"target": "messages", "insert_at": 0}, {"target": "messages"}]):
        agent.do("prompt_delta", seq=number, selector=selector, content=[{"role": "user", "text": f"n{number}"}])
    agent.user()
    assert _order(agent.turn())[0] == "n1"


@pytest.mark.parametrize("content", ["AA", {"role": "user", "text": "AA"}, [{"role": "user", "text": "AA"}]])
def test_every_shape_of_content_is_read(content):
    agent = Agent()
    agent.do("prompt_delta", seq=0, selector={"target": "messages", "insert_at": 0}, content=content)
    agent.user("m0")
    assert _order(agent.turn())[:2] == ["AA", "m0"]


def test_a_later_record_replaces_the_selector_and_never_the_content():
    agent = Agent()
    agent.user("m0")
    agent.user("m1")
    selector = {"target": "messages", "insert_at": 0}
    agent.do("prompt_delta", seq=0, selector=selector, content="AA")
    assert agent.do("prompt_delta", seq=0, selector={**selector, "insert_at": 1}, content="BB") == ("LORE214",)
    assert _order(agent.turn())[:3] == ["m0", "AA", "m1"]


def test_a_delta_that_was_sent_does_not_move():
    agent = Agent()
    selector = {"target": "messages", "insert_at": 0}
    agent.user("m0")
    agent.do("prompt_delta", seq=0, selector=selector, content="AA")
    before = agent.turn()
    agent.user("m1")
    assert agent.do("prompt_delta", seq=0, selector={**selector, "insert_at": 1}) == ("LORE214",)
    assert agent.turn().stable[: len(before.stable)] == before.stable


def test_a_place_outside_the_history_is_a_counted_problem():
    agent = Agent()
    agent.user("m0")
    agent.user("m1")
    codes = agent.do("prompt_delta", seq=0, selector={"target": "messages", "insert_at": 99}, content="AA")
    assert codes == ("LORE214",)
    assert _order(agent.turn())[:3] == ["m0", "AA", "m1"]
