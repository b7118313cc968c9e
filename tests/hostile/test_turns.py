"""Sessions that were made to cost at each turn: work is counted at two sizes, and grows as the log does."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from cli.running import lore
from helpers.matrix import crossed
from helpers.work import calls
from lore.formats.registry import READERS
from lore.testing import everything

HEADER = {"kind": "session_started", "session_id": "s", "model": "claude-x"}


def user(uuid: str, **content: Any) -> dict[str, Any]:
    return {"kind": "append", "item": {"type": "user_message", "uuid": uuid, **content}}


def turn(number: int) -> dict[str, Any]:
    return {"kind": "turn_started", "turn": number}


def call(number: int) -> dict[str, Any]:
    item = {"type": "tool_call", "uuid": f"t{number}", "call_id": f"c{number}", "name": "n", "input": {}, "output": "o"}
    return {"kind": "append", "item": item}


def giant_message(size: int) -> list[dict[str, Any]]:
    blocks = [{"type": "text", "text": f"{number}"} for number in range(size)]
    return [HEADER, user("u", blocks=blocks), *(turn(number) for number in range(1, size))]


def calls_before(size: int) -> list[dict[str, Any]]:
    events: list[dict[str, Any]] = [HEADER, user("u", text="x"), *map(call, range(size))]
    for number in range(1, size):
        said = {"kind": "append", "item": {"type": "assistant_message", "uuid": f"a{number}", "text": "x"}}
        events += [said, turn(number)]
    return events


def many_tools(size: int) -> list[dict[str, Any]]:
    tools = [{"name": f"t{number}", "description": "d", "input_schema": {}} for number in range(size)]
    return [{**HEADER, "tools": tools}, user("u", text="x"), *(turn(number) for number in range(1, size))]


SHAPES: dict[str, Callable[[int], list[dict[str, Any]]]] = {
    "turns after a message of many blocks": giant_message,
    "turns after many calls": calls_before,
    "turns with many tools": many_tools,
}


@pytest.mark.usefixtures("desk")
@crossed("name, command", SHAPES, ["check", "simulate"])
def test_turn_costs_its_new_items_only(name, command):
    """The last message was looked through at each turn, all calls, all tools: n turns of n blocks cost their square."""
    counted: list[int] = []
    for size in (60, 120, 240):
        with open(f"{size}.jsonl", "w", encoding="utf-8") as file:
            file.writelines(json.dumps(event) + "\n" for event in SHAPES[name](size))
        counted.append(calls(lambda size=size: lore(command, f"{size}.jsonl", "--json")))
    _, second, third = counted  # the first includes imports
    assert third <= 2.4 * second


def test_spans_that_share_attributes_cost_each_its_own():
    """A resource's attributes were copied for each of its spans: 320 KB took 200 MB and 46 times a parser."""

    def spans(size: int) -> bytes:
        shared = [{"key": f"k{number}", "value": {"stringValue": "v"}} for number in range(size)]
        scopes = [{"spans": [{"name": "x", "attributes": []}] * size}]
        return json.dumps({"resourceSpans": [{"resource": {"attributes": shared}, "scopeSpans": scopes}]}).encode()

    reader = READERS["otel-genai"]
    everything(reader(), spans(2))
    first, second = (calls(lambda size=size: everything(reader(), spans(size))) for size in (300, 600))
    assert second <= 2.2 * first
    found = everything(reader(), spans(2).replace(b'"k1"', b'"gen_ai.request.model"'))
    assert len(found) == 2  # each span has the shared attributes


@pytest.mark.usefixtures("desk")
def test_repeated_removal_of_first_item_costs_little():
    """Each such removal renumbered all later items: 2 MB of them took a minute."""
    counted: list[int] = []
    for size in (100, 200, 400):
        removals = ({"kind": "remove", "uuids": [f"u{number}"]} for number in range(size))
        events = [HEADER, *(user(f"u{number}", text="x") for number in range(size)), *removals]
        with open(f"{size}.jsonl", "w", encoding="utf-8") as file:
            file.writelines(json.dumps(event) + "\n" for event in events)
        counted.append(calls(lambda size=size: lore("fold", f"{size}.jsonl", "--json")))
    _, second, third = counted
    assert third <= 2.4 * second
