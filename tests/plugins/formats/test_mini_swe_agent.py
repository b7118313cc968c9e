"""The reader of mini-swe-agent's trajectories: messages, usage, damaged files."""

import json
from typing import Any

import pytest

from formats.agents import codes, events, folded, with_members
from helpers.recognising import recognise
from lore.model import events as e
from lore.model.codes import Code
from lore.model.items import AssistantMessage, ThinkingBlock, ToolCall, UserMessage
from lore.model.state import FoldedSession
from lore.testing import ReaderContract
from lore_plugins.formats.swe_agent import MiniSweAgent

INFO = {"model_stats": {"api_calls": 2}, "config": {"model": {"model_name": "deepseek/deepseek-chat"}}}
SYSTEM = {"role": "system", "content": "You solve tasks."}
TASK = {"role": "user", "content": "Fix it — now"}


def usage(whole: int, read: int, output: int = 7) -> dict[str, Any]:
    return {
        "prompt_tokens": whole, "completion_tokens": output, "total_tokens": whole + output,
        "prompt_tokens_details": {"cached_tokens": read}, "prompt_cache_hit_tokens": read,
        "prompt_cache_miss_tokens": whole - read,
    }  # fmt: skip


def answer(number: int, bill: dict[str, Any] | None, *commands: str, **more: Any) -> dict[str, Any]:
    """A message of the assistant that calls bash."""
    calls = [
        {
            "type": "function",
            "id": f"c{number}.{at}",
            "function": {"name": "bash", "arguments": json.dumps({"command": c})},
        }
        for at, c in enumerate(commands)
    ]
    response = {"id": f"r{number}", "created": 1_700_000_000 + 10 * number, "model": "deepseek-chat", "usage": bill}
    extra = {"response": response, "timestamp": 1_700_000_003.5 + 10 * number, "cost": 0.1}
    return {"role": "assistant", "content": f"step {number}", "tool_calls": calls or None, "extra": extra, **more}


def result(call: str, output: Any, at: float, **extra: Any) -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": call, "content": output, "extra": {"timestamp": at, **extra}}


def trajectory(*messages: Any, **info: Any) -> bytes:
    whole = {"info": {**INFO, "mini_version": "2.2.7", **info}, "messages": messages}
    return json.dumps({**whole, "trajectory_format": "mini-swe-agent-1.1", "instance_id": "x__y-1"}, indent=2).encode()


RUN = trajectory(
    SYSTEM, TASK, answer(1, usage(1000, 0), "ls", "pwd"), result("c1.0", "a\nb", 1_700_000_014.25),
    result("c1.1", "no", 1_700_000_014.5, exception_info="TimeoutError"), answer(2, usage(1100, 960), "echo done"),
    {"role": "exit", "content": "the patch", "extra": {"exit_status": "Submitted"}},
)  # fmt: skip
TEXT = json.dumps({
    "info": {"mini_version": "1.14.0", "config": {"model": {"model_name": "gpt-5-mini"}}},
    "messages": [
        SYSTEM, {"role": "user", "content": [{"type": "text", "text": "go"}], "timestamp": 1_700_000_000.5},
        {"role": "assistant", "content": "```bash\nls\n```", "timestamp": 1_700_000_002.0,
         "extra": {"response": {"id": "q", "usage": {"prompt_tokens": 50, "completion_tokens": 4}}}},
        {"role": "user", "content": "<output>a</output>", "timestamp": 1_700_000_003.0},
    ],
    "trajectory_format": "mini-swe-agent-1",
}).encode()  # fmt: skip
RESPONSES = trajectory(
    SYSTEM, TASK,
    {"object": "response", "id": "resp_1", "model": "gpt-5-mini", "output": [
        {"type": "reasoning", "encrypted_content": "eA==", "summary": []},
        {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "I look"}]},
        {"type": "function_call", "call_id": "f1", "name": "bash", "arguments": '{"command":"ls"}'},
     ], "usage": {"input_tokens": 90, "input_tokens_details": {"cached_tokens": 64}, "output_tokens": 9},
     "extra": {"timestamp": 1_700_000_001.0}},
    {"type": "function_call_output", "call_id": "f1", "output": "a", "extra": {"timestamp": 1_700_000_002.0}},
)  # fmt: skip


class TestContract(ReaderContract):
    reader = MiniSweAgent
    samples = (RUN, TEXT, RESPONSES)


def read(data: bytes) -> list[e.Event]:
    return events(MiniSweAgent, data)


def session(data: bytes) -> FoldedSession:
    """The session at the end of a file."""
    return folded(MiniSweAgent, data)


@pytest.mark.parametrize("other", [
    b'{"messages":[{"role":"user","content":"mini-swe-agent"}]}',
    b'{"info":{"mini_version":"2"}}',
    b'["mini_version"]',
])  # fmt: skip
def test_other_files_are_not_recognised(other):
    assert recognise(other) is not MiniSweAgent


def test_assistant_messages_are_requests():
    state = session(RUN)
    kinds = [type(entry.item) for entry in state.main().entries]
    assert kinds == [UserMessage, AssistantMessage, ToolCall, ToolCall, AssistantMessage, ToolCall]
    assert bytes(state.main().system) == b'"You solve tasks."'
    assert (state.main().model, state.dialect) == ("deepseek/deepseek-chat", "openai-chat")
    first, second = (found for found in read(RUN) if isinstance(found, e.TurnStarted))
    assert (first.turn, first.at) == (1, "2023-11-14T22:13:30.000Z")  # `created`, as the task has no time
    assert (second.turn, second.at) == (2, "2023-11-14T22:13:34.500Z")  # the time of the last result


def test_router_names_who_answered():
    message = answer(1, usage(9, 0))
    message["extra"]["response"]["provider"] = "Google AI Studio"
    (turn,) = (found for found in read(trajectory(TASK, message)) if isinstance(found, e.TurnStarted))
    assert turn.call is not None
    assert turn.call.answered_by == "Google AI Studio"


def test_usage_separates_cached_input():
    bills = [found.usage for found in read(RUN) if isinstance(found, e.TurnCompleted)]
    client = "mini-swe-agent 2.2.7"
    assert bills == [e.Usage(1000, 0, None, 7, client=client), e.Usage(140, 960, None, 7, client=client)]


def test_results_belong_to_their_calls():
    calls = [entry.item for entry in session(RUN).main().entries if isinstance(entry.item, ToolCall)]
    assert [(call.status, bytes(call.output)) for call in calls] == [
        ("completed", b'"a\\nb"'), ("failed", b'"no"'), ("running", b"null"),
    ]  # fmt: skip
    assert [bytes(call.input) for call in calls] == [
        b'{"command": "ls"}', b'{"command": "pwd"}', b'{"command": "echo done"}',
    ]  # fmt: skip


def test_run_without_tools_has_only_messages():
    state = session(TEXT)
    assert [type(entry.item) for entry in state.main().entries] == [UserMessage, AssistantMessage, UserMessage]
    (bill,) = (found.usage for found in read(TEXT) if isinstance(found, e.TurnCompleted))
    assert bill == e.Usage(50, None, None, 4, client="mini-swe-agent 1.14.0")


def test_responses_api_output_becomes_items():
    state = session(RESPONSES)
    items = [entry.item for entry in state.main().entries]
    assert [type(item) for item in items] == [UserMessage, AssistantMessage, AssistantMessage, ToolCall]
    assert b'"reasoning"' in bytes(items[1].blocks[0].json)
    assert (items[3].call_id, bytes(items[3].output)) == ("f1", b'"a"')
    (bill,) = (found.usage for found in read(RESPONSES) if isinstance(found, e.TurnCompleted))
    assert (bill.uncached_tokens, bill.read_tokens) == (26, 64)


def test_reasoning_is_thinking():
    state = session(trajectory(SYSTEM, TASK, answer(1, usage(9, 0), reasoning_content="hm")))
    said = state.main().entries[1].item
    assert said.blocks[0] == ThinkingBlock(said.blocks[0].text)
    assert bytes(said.blocks[0].text) == b'"hm"'


def test_response_names_the_model():
    data = trajectory(SYSTEM, TASK, answer(1, usage(9, 0)), config=None)
    assert session(data).main().model == "deepseek-chat"


@pytest.mark.parametrize(
    "message",
    [
        {"role": 7, "content": "x"}, {"role": "user", "content": {"a": 1}}, {"role": "oracle"}, {},
        {"object": "response", "output": "none"},
    ],
)  # fmt: skip
def test_malformed_message_is_kept_as_opaque(message):
    data = trajectory(SYSTEM, TASK, message, answer(1, usage(9, 0)))
    assert len(codes(MiniSweAgent, data)) == 1
    assert any(isinstance(found, e.OpaqueEvent) for found in read(data))
    assert sum(isinstance(found, e.TurnCompleted) for found in read(data)) >= 1


@pytest.mark.parametrize("bill", [None, [], "many", {}, {"prompt_tokens": "x"}])
def test_unusable_usage_is_unknown(bill):
    (found,) = (
        found for found in read(trajectory(SYSTEM, TASK, answer(1, bill))) if isinstance(found, e.TurnCompleted)
    )
    assert found.usage is None


def test_cached_beyond_input_gives_no_negative_count():
    data = trajectory(SYSTEM, TASK, answer(1, {**usage(10, 0), "prompt_tokens_details": {"cached_tokens": 64}}))
    (found,) = (found for found in read(data) if isinstance(found, e.TurnCompleted))
    assert found.usage is not None
    assert found.usage.uncached_tokens is not None
    assert found.usage.uncached_tokens >= 0


@pytest.mark.parametrize(
    "value", [None, True, -1, "x", [], {"a": {}}, 1e300, 10**400], ids=lambda value: str(value)[:9]
)
def test_wrong_types_raise_no_error(value):
    for data in with_members(RUN, value):
        events(MiniSweAgent, data)


def test_truncated_file_gives_what_it_has():
    cut = RUN[: RUN.index(b'"exit"')]
    assert codes(MiniSweAgent, cut) == [Code.TORN_LAST_LINE]
    assert sum(isinstance(found, e.TurnCompleted) for found in read(cut)) == 2


def test_arguments_that_are_no_object_are_kept():
    message = answer(1, usage(9, 0), "ls")
    message["tool_calls"][0]["function"]["arguments"] = "not json"
    (call,) = (
        entry.item
        for entry in session(trajectory(SYSTEM, TASK, message)).main().entries
        if isinstance(entry.item, ToolCall)
    )
    assert json.loads(bytes(call.input)) == {"arguments": "not json"}
