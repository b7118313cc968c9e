"""The reader of OpenHands conversations: events, usage, results, condensations, damage."""

import pytest

from formats.agents import events, with_members
from formats.recorded import folded
from lore.model import events as e
from lore.model.canonical import text_of
from lore.model.codes import Code
from lore.model.items import AssistantMessage, CompactDivider, ImageBlock, RawBlock, ThinkingBlock, ToolCall
from lore.testing import ReaderContract
from lore_plugins.formats.openhands import OpenHands
from model.making import dumps
from plugins.formats.openhands import Talk, plain, text


def busy() -> Talk:
    """A conversation with refusals, a condensation, an interrupt and other uses of the model."""
    made = plain().user("more").action("c-3", "r-3").bill("r-3", 11_000, 10_400, 500)
    made.event("UserRejectObservation", tool_call_id="c-3", rejection_reason="no")
    made.action("c-4", "r-4").event("AgentErrorEvent", tool_call_id="c-4", error="no such tool")
    made.event("CondensationRequest", "environment", reason="manual")
    made.event("Condensation", "environment", forgotten_event_ids=["e2", "e3", "e4", "e5"], summary="So far.",
               summary_offset=2, llm_response_id="k-1").bill("k-1", 9_000, 8_000, use="condenser")  # fmt: skip
    made.event("InterruptEvent", "user").event("PauseEvent", "user").answer("on", "r-5").bill("r-5", 3_000, 2_000, 900)
    return made.bill("t-1", 50, 0, use="title").bill("s-1", 7, 0, use="task:t1").system("Another.", "SystemPromptEvent")


class TestContract(ReaderContract):
    reader = OpenHands
    samples = (plain().pack(), busy().pack(), busy().pack()[:-30])


def bills(made, chain="main"):
    """The usage of the requests of a chain: (uncached, read, written)."""
    found = [event for event in events(OpenHands, made.pack()) if isinstance(event, e.TurnCompleted)]
    usages = [event.usage or e.Usage() for event in found if event.chain == chain]
    return [(usage.uncached_tokens, usage.read_tokens, usage.write_tokens) for usage in usages]


def items(made):
    """The items of the main chain at the end; there may be no problem."""
    session = folded(OpenHands, made.pack())
    assert not session.problems
    return [entry.item for entry in session.state.main().entries]


def said(made):
    """The first text of each message, the id of each call."""
    return [
        item.call_id if isinstance(item, ToolCall) else text_of(bytes(item.blocks[0].text))
        for item in items(made)
        if not isinstance(item, CompactDivider)
    ]


def test_events_of_one_response_are_one_request():
    assert bills(plain()) == [(1_000, 0, 9_000), (100, 9_000, 1_400)]
    assert said(plain()) == ["what is here?", "I look.", "c-1", "c-2", "a file"]
    assert len({item.response_id for item in items(plain())[1:4]}) == 1
    starts = [event.at for event in events(OpenHands, plain().pack()) if isinstance(event, e.TurnStarted)]
    assert starts[0] == "2026-02-05T11:00:02.250Z"


def test_sums_of_chains_match_the_state():
    found = [event.usage for event in events(OpenHands, busy().pack()) if isinstance(event, e.TurnCompleted)]
    rows = [row for use, own in busy().uses.items() if use != "task:t1" for row in own["token_usages"]]
    whole = sum(sum(filter(None, (b.uncached_tokens, b.read_tokens, b.write_tokens))) for b in found if b is not None)
    assert len([bill for bill in found if bill is not None]) == len(rows)
    assert whole == sum(row["prompt_tokens"] for row in rows)
    assert bills(busy(), "utility-condenser") == [(1_000, 8_000, 0)]
    assert bills(busy(), "utility-title") == [(50, 0, 0)]


def test_the_session_starts_with_system_prompt_and_tools():
    first = events(OpenHands, plain().pack())[0]
    assert (first.session_id, first.model, first.dialect) == ("c-1", plain().model, "anthropic")
    assert b'"name":"terminal"' in bytes(first.tools[0])
    assert b'"name":"search"' in bytes(first.tools[1])
    assert b'"parameters":{' in bytes(first.tools[1])
    two = Talk("openai/gpt-5").system(dynamic_context=text("Today.")).user("hi").action("c", "r", origin="responses")
    first = events(OpenHands, two.pack())[0]
    assert (bytes(first.system), first.dialect) == (b'["You are OpenHands.","Today."]', "openai-chat")
    changes = [event for event in events(OpenHands, two.pack()) if isinstance(event, e.SessionChanged)]
    assert [event.dialect for event in changes] == ["openai-responses"]


def test_another_system_prompt_is_a_change():
    changes = [event for event in events(OpenHands, busy().pack()) if isinstance(event, e.SessionChanged)]
    assert [text_of(bytes(event.system)) for event in changes if event.tools is not None] == ["Another."]


def test_condensation_replaces_events_by_a_summary():
    assert said(busy()) == ["what is here?", "So far.", "a file", "more", "c-3", "c-4", "on"]
    found = {item.call_id: item for item in items(busy()) if isinstance(item, ToolCall)}
    assert [(call.status, text_of(bytes(call.output))) for call in found.values()] == [
        ("failed", "Action rejected: no"),
        ("failed", "no such tool"),
    ]
    first = plain().event("Condensation", forgotten_event_ids=["e1"], summary="So far.", summary_offset=1)
    assert said(first) == ["So far.", "I look.", "c-1", "c-2", "a file"]
    again = first.event("Condensation", forgotten_event_ids=["e7-summary", "e4"], llm_response_id="?")
    assert said(again) == ["c-2", "a file"]  # a call is removed with its result
    last = plain().event("Condensation", forgotten_event_ids=["e6"], summary="So far.", summary_offset=99)
    assert said(last)[-1] == "So far."
    triggers = [event.trigger for event in events(OpenHands, busy().pack()) if isinstance(event, e.CompactApplied)]
    assert triggers == ["manual"]


def test_results_are_as_the_model_saw_them():
    own = {"exit_code": 1, "working_dir": "/w", "py_interpreter_path": "/p", "prefix": "[below]\n", "suffix": "\n[end]"}
    image = {"type": "image", "image_urls": ["data:image/png;base64,QQ==", "https://x/y.png"]}
    made = plain().action("c-3", "r-3").result("c-3", "out", metadata=own, is_error=True)
    made.action("c-4", "r-4").result("c-4", content=[text("a"), image]).event("ConversationErrorEvent", code="LLMError")
    found = {item.call_id: item for item in items(made) if isinstance(item, ToolCall)}
    told = "[below]\\nout\\n[end]\\n[Current working directory: /w]\\n[Python interpreter: /p]"
    assert found["c-3"].status == "failed"
    assert (told + "\\n[Command finished with exit code 1]").encode() in bytes(found["c-3"].output)
    assert bytes(found["c-4"].output).count(b'"type":') == 4
    assert [event.name for event in events(OpenHands, made.pack()) if isinstance(event, e.Observed)] == ["api-error"]


def test_thoughts_and_extensions_are_blocks():
    thinking = [{"type": "thinking", "thinking": "hm", "signature": "s"}, {"type": "redacted_thinking", "data": "x"}]
    item = {"id": "rs_1", "summary": ["so"], "encrypted_content": "y"}
    made = plain().user("skilled", "user", "Use the skill.").user("a hook", "hook")
    made.answer("a", "r-3", thinking_blocks=thinking).answer(
        "b", "r-4", reasoning_content="so", responses_reasoning_item=item
    )
    skilled, hook, first, second = items(made)[-4:]
    assert (len(skilled.blocks), hook.source) == (2, "context_injection")
    assert [type(block) for block in first.blocks[:2]] == [ThinkingBlock, RawBlock]
    assert [type(block) for block in second.blocks[:2]] == [ThinkingBlock, RawBlock]
    assert b'"summary_text"' in bytes(second.blocks[1].json)
    image = plain()
    image.events[1]["llm_message"]["content"] = [{"type": "image", "image_urls": ["data:image/png;base64,QQ=="]}]
    assert isinstance(items(image)[0].blocks[0], ImageBlock)


def test_acp_agents_count_cached_input_separately():
    assert bills(plain().answer("x", "r-3").bill("r-3", 10, 90))[-1] == (None, 90, 0)
    odd = [
        event.usage for event in events(OpenHands, plain().bill("z", 5, 6).pack()) if isinstance(event, e.TurnCompleted)
    ]
    assert odd[-1] is not None
    assert odd[-1].contradiction
    behind = Talk("gpt-5", kind="ACPAgent").user("hi").answer("x", "r-1").bill("r-1", 10, 90)
    assert bills(behind) == [(10, 90, None)]


def test_a_conversation_without_bills_or_state_is_read():
    made = plain()
    made.uses = {"agent": {"token_usages": [{"prompt_tokens": "1"}]}}
    session = folded(OpenHands, made.pack())
    assert [problem.code for problem in session.problems] == [Code.MALFORMED_RECORD]
    assert bills(made) == [(None, None, None)] * 2
    assert len(session.state.main().entries) == 5
    assert [type(entry.item) for entry in folded(OpenHands, plain().pack(state=b"{")).state.main().entries][
        -1
    ] is AssistantMessage


@pytest.mark.parametrize(
    "data", [b"", b"{", b"[1]", b"\x00\xff", b'{"kind":"of the future","id":"x"}', b'{"kind":5}', b"{}"]
)
def test_unreadable_event_is_one_problem(data):
    made = plain().event("PauseEvent")
    session = folded(OpenHands, made.pack(e7=data))
    assert len(session.problems) == 1
    assert len(session.state.main().entries) == 5


@pytest.mark.parametrize("value", [None, 5, "x", [], {}, [5], {"a": 5}, -1])
def test_wrong_types_raise_no_error(value):
    for number in (0, 1, 2, 4):
        for data in with_members(dumps(busy().events[number]), value):
            assert folded(OpenHands, plain().pack(**{f"e{number}": data})).state is not None
    for data in with_members(plain().state(), value):
        assert folded(OpenHands, plain().pack(state=data)).state is not None
