"""Which earlier request a prompt continues, and which request used that prefix last."""

from __future__ import annotations

from msgspec.structs import replace

from lore.model.limits import ENDED_REQUESTS
from lore.model.turn import Call
from lore.prefix import request_ends
from lore.prefix.request_ends import RequestEnds
from model.making import assistant, body, parsed, turn

TOOLS = [{"name": "ls", "description": "List.", "input_schema": {}}]
TALK = ("a", assistant("b"), "c", assistant("d"), "e", assistant("f"), "g")


def request(number, messages, *, tools=None, chain="main", **fields):
    prompt = parsed(body(*TALK[:messages], **({"tools": tools} if tools else {})))
    return replace(turn(prompt, number, **fields), chain=chain)


def last_end(*requests):
    ends = RequestEnds()
    return [ends.add(one) for one in requests][-1]


def test_a_chain_that_grows_continues_its_last_request():
    assert last_end(request(1, 1), request(2, 3), request(3, 5)) is None


def test_returning_tools_continue_the_earlier_request():
    end = last_end(request(1, 1, tools=TOOLS), request(2, 3, tools=TOOLS), request(3, 3), request(4, 5, tools=TOOLS))
    assert (end.turn.number, end.used.number) == (2, 2)
    end = last_end(request(1, 1, tools=TOOLS), request(2, 1), request(3, 3, tools=TOOLS))
    assert (end.turn.number, end.used.number) == (1, 1)


def test_another_endpoint_is_another_cache():
    elsewhere = Call("eu.example.com/v1/messages")
    assert last_end(request(1, 1, tools=TOOLS, call=elsewhere), request(2, 1), request(3, 3, tools=TOOLS)) is None


def test_first_request_of_a_chain_continues_none():
    assert last_end(request(1, 1), request(2, 3), request(1, 3, chain="fork")) is None


def test_only_the_latest_ends_are_kept():
    others = [replace(turn(parsed(body(f"task {n}"))), chain=f"chain-{n}") for n in range(ENDED_REQUESTS)]
    assert last_end(request(1, 1, tools=TOOLS), *others, request(2, 1), request(3, 3, tools=TOOLS)) is None


def test_repeated_segments_are_hashed_once(monkeypatch):
    hashed, original = [], request_ends.iterate_from

    def count(prompt, position, *, tail):
        segments = list(original(prompt, position, tail=tail))
        hashed.append(len(segments))
        return segments

    monkeypatch.setattr(request_ends, "iterate_from", count)
    last_end(*(request(number, messages) for number, messages in enumerate(range(1, 8, 2), 1)))
    assert len(set(hashed[1:])) == 1  # an answer and a question, however long the history
