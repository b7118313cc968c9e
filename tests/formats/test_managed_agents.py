"""Session events of Anthropic's Managed Agents."""

from pathlib import Path
from typing import Any

import pytest

from formats.recorded import folded
from helpers.recognising import recognise
from lore.formats.agents.managed_agents import ManagedAgents, ManagedAgentsList
from lore.testing import ReaderContract
from model.making import Fold, dumps

FIXTURES = Path(__file__).parents[2] / "fixtures/managed-agents"
EVENTS, LIST = (FIXTURES / "session.jsonl").read_bytes(), (FIXTURES / "list.json").read_bytes()
LINES = EVENTS.splitlines(keepends=True)


class TestLines(ReaderContract):
    reader = ManagedAgents
    samples = (EVENTS, EVENTS[:-1], b"".join(LINES[1:]))


class TestList(ReaderContract):
    reader = ManagedAgentsList
    samples = (LIST, b"[" + b",".join(LINES[1:]) + b"]")


def event(kind: str, event_id: str, second: int | None = 1, **fields: Any) -> dict[str, Any]:
    at = None if second is None else f"2026-11-20T10:00:{second:02}Z"
    return {"type": kind, "id": event_id, "processed_at": at, **fields}


def says(text: str) -> list[dict[str, str]]:
    return [{"type": "text", "text": text}]


def fold(*events: dict[str, Any]) -> Fold:
    return folded(ManagedAgents, b"".join(dumps(event) + b"\n" for event in events))


@pytest.mark.parametrize("data", [EVENTS, b"".join(LINES[1:]), b'{"data":[%b],"next_page":null}\n' % LINES[2].strip()])
def test_events_on_lines_are_recognised(data):
    assert recognise(data) is ManagedAgents


def test_list_of_the_api_is_recognised():
    assert recognise(LIST) is ManagedAgentsList
    assert recognise(b'{"data":[{"type":"message","processed_at":"x"}]}') is None


def test_events_of_subagents_threads_are_left_out():
    copied = event("agent.tool_use", "t-1", name="read", input={}, session_thread_id="sthr_1")
    assert not fold(event("user.message", "m-1", content=[]), copied).state.main().entries


def test_unknown_and_malformed_events_are_kept():
    session = fold(event("agent.telepathy", "x-1"), event("agent.message", "x-2", content=7))
    assert [problem.line for problem in session.problems] == [1, 2]


def test_malformed_event_of_a_page_hides_no_other():
    session = fold(
        {"data": [event("agent.message", "x-1", content=7), event("user.message", "x-2", content=says("y"))]}
    )
    assert len(session.state.main().entries) == 1
