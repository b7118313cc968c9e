"""Session events of Anthropic's Managed Agents."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from formats.recorded import folded
from lore.formats.agents.managed_agents import ManagedAgents, ManagedAgentsList
from lore.formats.registry import recognise
from lore.model.canonical import text_of
from lore.model.events import TurnCompleted
from lore.model.items import CompactDivider, ToolCall, UserMessage
from lore.testing import ReaderContract, everything
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


def usage(uncached: int = 9, read: int = 0, write: int = 0, output: int = 5) -> dict[str, int]:
    return {
        "input_tokens": uncached, "cache_read_input_tokens": read, "cache_creation_input_tokens": write,
        "output_tokens": output,
    }  # fmt: skip


def says(text: str) -> list[dict[str, str]]:
    return [{"type": "text", "text": text}]


def fold(*events: dict[str, Any]) -> Fold:
    return folded(ManagedAgents, b"".join(dumps(one) + b"\n" for one in events))


def ends(data: bytes) -> list[TurnCompleted]:
    reads = everything(ManagedAgents(), data)
    return [read.value for read in reads if isinstance(read.value, TurnCompleted)]


@pytest.mark.parametrize("data", [EVENTS, b"".join(LINES[1:]), b'{"data":[%b],"next_page":null}\n' % LINES[2].strip()])
def test_events_on_lines_are_recognised(data):
    assert recognise(data) is ManagedAgents


def test_list_of_the_api_is_recognised():
    assert recognise(LIST) is ManagedAgentsList
    assert recognise(b'{"data":[{"type":"message","processed_at":"x"}]}') is None


def test_result_of_every_tool_completes_its_call():
    kinds = {
        "tool_use_id": ("agent.tool_use", "agent.tool_result"),
        "mcp_tool_use_id": ("agent.mcp_tool_use", "agent.mcp_tool_result"),
        "custom_tool_use_id": ("agent.custom_tool_use", "user.custom_tool_result"),
    }
    events = []
    for key, (call, done) in kinds.items():
        events.append(event(call, key, name="read", input={"path": "a"}))
        result = {"content": says("text of a"), "is_error": key == "tool_use_id", key: key}
        events.append(event(done, f"{key}-done", **result))
    calls = [entry.item for entry in fold(*events).state.main().entries]
    assert all(isinstance(call, ToolCall) for call in calls)
    assert [call.status for call in calls] == ["failed", "completed", "completed"]
    assert {text_of(bytes(call.output)) for call in calls} == {"text of a"}


def test_queued_message_is_part_of_the_next_request():
    queued = event("user.message", "m-1", None, content=says("stop"))
    start = event("span.model_request_start", "s-1")
    late = event("user.message", "m-1", 3, content=says("stop"))
    (entry,) = fold(queued, start).state.main().entries
    assert isinstance(entry.item, UserMessage)
    assert len(fold(queued, late, start).state.main().entries) == 1


def test_compaction_prunes_all_that_came_before():
    entries = folded(ManagedAgents, EVENTS).state.main().entries
    assert isinstance(entries[0].item, CompactDivider)
    assert len(entries) == 2


def test_ends_alone_are_requests():
    end = event("span.model_request_end", "e-1", model_request_start_id="s-1", model_usage=usage(read=40))
    assert [found.usage.read_tokens for found in ends(dumps(end) + b"\n")] == [40]


def test_grader_has_a_chain_of_its_own():
    graded = event("span.outcome_evaluation_end", "o-1", outcome_evaluation_start_id="o-0", usage=usage(read=7))
    start = event("span.model_request_start", "s-1")
    state = fold(event("user.define_outcome", "d-1", description="a report"), start, graded).state
    assert [name for name, chain in state.chains.items() if chain.turns] == ["main", "utility-outcome"]
    assert len(state.main().entries) == 1


def test_events_of_subagents_threads_are_left_out():
    copied = event("agent.tool_use", "t-1", name="read", input={}, session_thread_id="sthr_1")
    assert not fold(event("user.message", "m-1", content=[]), copied).state.main().entries


def test_unknown_and_malformed_events_are_kept():
    session = fold(event("agent.telepathy", "x-1"), event("agent.message", "x-2", content=7))
    assert session.state.opaque == 2
    assert [problem.line for problem in session.problems] == [1, 2]


def test_malformed_event_of_a_page_hides_no_other():
    session = fold(
        {"data": [event("agent.message", "x-1", content=7), event("user.message", "x-2", content=says("y"))]}
    )
    assert (session.state.opaque, len(session.state.main().entries)) == (1, 1)
