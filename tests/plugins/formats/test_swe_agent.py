"""The reader of SWE-agent's trajectories: queries, elided observations, files without queries."""

import json

import pytest

from formats.agents import codes, events, folded, with_members
from lore.model import events as e
from lore.model.codes import Code
from lore.model.items import AssistantMessage, ToolCall, UserMessage
from lore.testing import ReaderContract
from lore_plugins.formats.swe_agent import SweAgent

SYSTEM = {"role": "system", "content": "You are a programmer.", "agent": "main", "message_type": "system_prompt"}
TASK = {
    "role": "user",
    "content": [{"type": "text", "text": "Mend it"}],
    "agent": "main",
    "message_type": "observation",
}


def said(number: int) -> dict:
    call = {
        "id": f"c{number}",
        "type": "function",
        "function": {"name": "bash", "arguments": json.dumps({"command": "ls"})},
    }
    return {"role": "assistant", "content": f"a{number}", "tool_calls": [call], "message_type": "action"}


def seen(number: int, text: str | None = None) -> dict:
    return {
        "role": "tool",
        "content": text or f"o{number}",
        "tool_call_ids": [f"c{number}"],
        "message_type": "observation",
    }


def _text(text: str) -> dict:
    return {"role": "user", "content": text}


def step(number: int, *query: dict) -> dict:
    return {
        "action": "ls", "observation": f"o{number}", "response": f"a{number}", "thought": "t", "execution_time": 0.1,
        "state": {"open_file": ""}, **({"query": list(query)} if query else {}), "extra_info": {},
    }  # fmt: skip


def run(*steps: dict) -> bytes:
    stats = {"model_stats": {"tokens_sent": 9, "api_calls": len(steps)}}
    return json.dumps({"trajectory": steps, "history": [SYSTEM], "info": stats}, indent=1).encode()


WHOLE = run(
    step(1, SYSTEM, TASK), step(2, SYSTEM, TASK, said(1), seen(1)),
    step(3, SYSTEM, TASK, said(1), seen(1), said(2), seen(2)),
)  # fmt: skip
OLD = run(step(1), step(2))


class TestContract(ReaderContract):
    reader = SweAgent
    samples = (WHOLE, OLD)


def items(data: bytes):
    return [entry.item for entry in folded(SweAgent, data).main().entries]


def test_query_is_the_prompt():
    state = folded(SweAgent, WHOLE)
    assert bytes(state.main().system) == b'"You are a programmer."'
    found = items(WHOLE)
    assert [type(item) for item in found] == [
        UserMessage, AssistantMessage, ToolCall, AssistantMessage, ToolCall, AssistantMessage, UserMessage,
    ]  # fmt: skip
    assert [bytes(item.output) for item in found if isinstance(item, ToolCall)] == [b'"o1"', b'"o2"']
    ends = [event for event in events(SweAgent, WHOLE) if isinstance(event, e.TurnCompleted)]
    assert [(end.turn, end.usage) for end in ends] == [(1, None), (2, None), (3, None)]


def test_a_file_without_queries_has_answers_and_observations():
    assert [type(item) for item in items(OLD)] == [AssistantMessage, UserMessage] * 2
    assert len([event for event in events(SweAgent, OLD) if isinstance(event, e.TurnStarted)]) == 2


def test_elided_observations_are_removed():
    data = run(
        step(1, SYSTEM, TASK), step(2, SYSTEM, TASK, said(1), _text("o1")),
        step(3, SYSTEM, TASK, said(1), _text("elided"), said(2), _text("o2")),
    )  # fmt: skip
    texts = [bytes(item.blocks[0].text) for item in items(data) if not isinstance(item, ToolCall)]
    assert texts == [b'"Mend it"', b'"a1"', b'"elided"', b'"a2"', b'"o2"', b'"a3"', b'"o3"']
    assert [type(event) for event in events(SweAgent, data)].count(e.Remove) == 1


@pytest.mark.parametrize(
    "value", [None, True, -1, "x", [], {"a": {}}, 1e300, 10**400], ids=lambda value: str(value)[:9]
)
def test_wrong_types_raise_no_error(value):
    for data in with_members(WHOLE, value):
        events(SweAgent, data)


def test_malformed_step_is_a_problem():
    data = run(step(1, SYSTEM, TASK), {"response": "a", "query": 7}, step(3))
    assert codes(SweAgent, data) == [Code.MALFORMED_RECORD]


def test_truncated_file_is_a_problem():
    assert Code.TORN_LAST_LINE in codes(SweAgent, WHOLE[: WHOLE.index(b'"history"') - 40])
