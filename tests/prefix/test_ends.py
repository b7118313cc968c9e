"""Ends: which earlier request a prompt goes on from, who had it last, and that looking costs what is new."""

from __future__ import annotations

from msgspec.structs import replace

from lore.model.limits import ENDED_REQUESTS
from lore.model.turn import Call
from lore.prefix import request_ends as module
from lore.prefix.request_ends import RequestEnds
from model.making import assistant, body, parsed, turn

TOOLS = [{"name": "ls", "description": "List.", "input_schema": {}}]
TALK = ("a", assistant("b"), "c", assistant("d"), "e", assistant("f"), "g")


def on(number, upto, *, tools=None, chain="main", **fields):
    made = parsed(body(*TALK[:upto], **({"tools": tools} if tools else {})))
    return replace(turn(made, number, **fields), chain=chain)


def taken(*turns):
    ends = RequestEnds()
    return [ends.add(one) for one in turns]


def test_the_last_request_of_a_chain_is_not_named():
    assert taken(on(1, 1), on(2, 3), on(3, 5)) == [None, None, None]


def test_an_earlier_request_is_named_with_who_had_it_last():
    *_, found = taken(on(1, 1, tools=TOOLS), on(2, 3, tools=TOOLS), on(3, 3), on(4, 5, tools=TOOLS))
    assert found is not None
    assert (found.turn.number, found.used.number) == (2, 2)
    *_, found = taken(on(1, 1, tools=TOOLS), on(2, 1), on(3, 3, tools=TOOLS))
    assert found is not None
    assert (found.turn.number, found.used.number) == (1, 1)


def test_a_request_to_another_place_or_model_is_no_beginning():
    elsewhere = Call("eu.example.com/v1/messages")
    assert taken(on(1, 1, tools=TOOLS, call=elsewhere), on(2, 1), on(3, 3, tools=TOOLS))[-1] is None


def test_the_first_request_of_a_chain_goes_on_from_none():
    assert taken(on(1, 1), on(2, 3), on(1, 3, chain="fork"))[-1] is None


def test_only_the_latest_ends_are_kept():
    ends = RequestEnds()
    first = on(1, 1, tools=TOOLS)
    ends.add(first)
    for number in range(ENDED_REQUESTS):
        ends.add(replace(turn(parsed(body(f"task {number}"))), chain=f"chain-{number}"))
    ends.add(on(2, 1))
    assert ends.add(on(3, 3, tools=TOOLS)) is None


def test_what_a_chain_sent_before_is_not_hashed_again(monkeypatch):
    hashed = []

    def counted(prompt, position, *, tail):
        found = list(module_since(prompt, position, tail=tail))
        hashed.append(len(found))
        return found

    module_since = module.iterate_from
    monkeypatch.setattr(module, "iterate_from", counted)
    taken(*(on(number, upto) for number, upto in enumerate(range(1, 8, 2), 1)))
    assert len(set(hashed[1:])) == 1  # an answer and a question, however long the history
