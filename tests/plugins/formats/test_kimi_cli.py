"""The reader of Kimi CLI's sessions: both files together and alone, rotated files, usage, subagents, damage."""

import json

import pytest

from formats.agents import codes, events
from formats.kimi import text
from formats.recorded import folded
from helpers.recognising import recognise
from lore.formats.agents.kimi import KimiCode
from lore.formats.folders import CONTEXT, WIRE
from lore.model import events as e
from lore.model.canonical import text_of
from lore.model.codes import Code
from lore.model.items import AssistantMessage, CompactDivider, ToolCall, UserMessage
from lore.testing import ReaderContract
from lore_plugins.formats.kimi_cli import KimiCli, KimiCliSession
from plugins.formats.kimi_session import KimiSession, counts, lines, plain


def busy() -> KimiSession:
    """A session with calls, a revert, compactions, an interrupted answer and a cleared history."""
    made = plain().user("more").step(text("ok"), usage=counts(300, 10_112), calls=("c-2", "c-3"))
    made.revert(3, "take care").step(text("again"), usage=counts(100, 10_112)).compact("So far.")
    made.step(text("on"), usage=counts(2_000, 0)).user("x").step(usage=counts(50, 2_000), calls=("c-9",), lost=True)
    made.compact("Less.", manual=True).step(text("y"), usage=counts(900, 0))
    return made.clear().user("anew").step(text("hi"), usage=counts(500, 100))


class TestFiles(ReaderContract):
    reader = KimiCli
    samples = (busy().files()[WIRE], busy().files()["context_1.jsonl"], plain().files()[CONTEXT][:-9])


class TestFolders(ReaderContract):
    reader = KimiCliSession
    samples = (busy().pack(), plain().pack()[:-30], plain().pack(**{WIRE: b""}))


def bills(reader, data, chain="main"):
    """The usage of each request: (uncached, read, output)."""
    found = [event for event in events(reader, data) if isinstance(event, e.TurnCompleted) and event.chain == chain]
    usages = [event.usage or e.Usage() for event in found]
    return [(usage.uncached_tokens, usage.read_tokens, usage.output_tokens) for usage in usages]


def items(reader, data):
    """The items of the main chain at the end; there may be no problem."""
    session = folded(reader, data)
    assert not session.problems
    return [entry.item for entry in session.state.main().entries]


def texts(items):
    """The first text of each message, the id of each call."""
    return [item.call_id if isinstance(item, ToolCall) else text_of(bytes(item.blocks[0].text)) for item in items]


def counted(made):
    """The usage in the wire file, read with plain json."""
    usages = [line["message"]["payload"].get("token_usage") for line in made.wire[1:]]
    names = ("input_other", "input_cache_read", "output")
    return [tuple(usage[name] for name in names) for usage in usages if usage]


def test_other_logs_are_not_recognised():
    assert recognise(b'{"role":"user","content":"hi"}\n') is not KimiCli
    assert recognise(b'{"timestamp":1,"message":"hi"}\n') is not KimiCli
    assert recognise(b'{"type":"metadata","protocol_version":"1.5","created_at":1}\n') is KimiCode


def test_each_usage_record_is_one_request():
    made = busy()
    assert bills(KimiCliSession, made.pack()) == counted(made) == bills(KimiCli, lines(made.wire))
    del made.aside[1]
    assert bills(KimiCliSession, made.pack()) == counted(made)
    made.aside, made.context = [], []
    assert bills(KimiCliSession, made.pack()) == counted(made)


def test_messages_come_from_the_context_file():
    prompt, answer, called, last = items(KimiCliSession, plain().pack())
    assert isinstance(prompt, UserMessage)
    assert isinstance(last, AssistantMessage)
    assert (called.call_id, bytes(called.input), called.status) == ("c-1", b'{"path": "c-1"}', "completed")
    assert b"<system>Done.</system>" in bytes(called.output)
    assert answer.response_id == called.response_id != last.response_id
    assert text_of(bytes(folded(KimiCliSession, plain().pack()).state.main().system)) == "You are Kimi."


def test_requests_have_times_and_response_ids():
    starts = [event.at for event in events(KimiCliSession, plain().pack()) if isinstance(event, e.TurnStarted)]
    ends = [event for event in events(KimiCliSession, plain().pack()) if isinstance(event, e.TurnCompleted)]
    assert starts == ["2026-06-24T10:01:42.250Z", "2026-06-24T10:01:48.250Z"]
    assert [(end.at, end.response_id) for end in ends][1] == ("2026-06-24T10:01:50.250Z", "chatcmpl-2")
    unbilled = events(KimiCliSession, plain().step(text("and"), usage=None).pack())
    assert [event.at for event in unbilled if isinstance(event, e.TurnStarted)][2] == "2026-06-24T10:01:51.250Z"


def test_revert_removes_messages_after_the_checkpoint():
    made = plain().user("more").step(text("ok"), usage=counts(300, 10_112), calls=("c-2",)).revert(3, "take care")
    found = items(KimiCliSession, made.pack())
    assert texts(found[:-1]) == texts(items(KimiCliSession, plain().pack()))
    assert found[-1].source == "context_injection"


def test_compaction_keeps_summary_and_last_messages():
    made = plain().user("more").compact("So far.", manual=True)
    found = items(KimiCliSession, made.pack())
    assert [type(item) for item in found] == [CompactDivider, AssistantMessage, UserMessage]
    assert (found[0].trigger, text_of(bytes(found[0].summary)).endswith("\nSo far.")) == ("manual", True)
    divider, *kept = items(KimiCli, lines(made.wire))
    assert isinstance(divider, CompactDivider)
    assert texts(kept) == ["Let me look.", "I look.", "c-1", "a file"]
    called = plain().compact("So far.").step(text("a"), usage=counts(9, 9), calls=("c-4",)).compact("Less.", kept=1)
    assert [type(item) for item in items(KimiCliSession, called.pack())] == [CompactDivider, AssistantMessage, ToolCall]


def test_cleared_history_starts_again():
    made = plain()
    made.system = "You are another."
    made.clear().user("anew")
    assert texts(items(KimiCliSession, made.pack())) == ["anew"]
    assert text_of(bytes(folded(KimiCliSession, made.pack()).state.main().system)) == "You are another."
    made.step(text("a"), usage=counts(9, 9))
    assert len(items(KimiCli, lines(made.wire))) == 2


def test_interrupted_answer_is_billed_but_not_kept():
    made = plain().user("x").step(usage=counts(50, 2_000), calls=("c-9",), lost=True)
    assert len(bills(KimiCliSession, made.pack())) == 3
    assert isinstance(items(KimiCliSession, made.pack())[-1], UserMessage)
    assert "interrupt" in [event.name for event in events(KimiCliSession, made.pack()) if isinstance(event, e.Observed)]


def test_context_file_alone_has_output_tokens():
    assert bills(KimiCli, lines(plain().context)) == [(None, None, 10), (None, None, 10)]
    late = [line for line in plain().context if line["role"] != "_usage"]
    assert bills(KimiCli, lines(late)) == [(None, None, None)] * 2
    behind = plain()
    behind.context = [line for at, line in enumerate(behind.context) if line["role"] != "_usage" or at in (6, 12)]
    assert bills(KimiCliSession, behind.pack()) == counted(behind)


def test_wire_file_alone_gives_a_timeline():
    prompt, thought, spoken, called, answer = items(KimiCli, lines(plain().wire))
    assert (prompt.source, thought.response_id) == ("user", spoken.response_id)
    assert text_of(json.loads(bytes(called.output))[0]["text"].encode()) == "<system>Done.</system>"
    assert isinstance(answer, AssistantMessage)
    old = KimiSession(version=None).user("hi").step(text("a"), usage=counts(9, 0))
    assert recognise(lines(old.wire)) is KimiCli


def test_older_client_logs_subagents_in_session_file():
    made = plain()
    inner = {"type": "StatusUpdate", "payload": {"token_usage": counts(7, 3), "message_id": "m"}}
    made.event("SubagentEvent", task_tool_call_id="c-1", event={"type": "StepBegin", "payload": {"n": 1}})
    made.event("SubagentEvent", task_tool_call_id="c-1", event=inner)
    made.event("SubagentEvent", parent_tool_call_id="c-1", agent_id="a1", subagent_type="coder", event=inner)
    assert bills(KimiCliSession, made.pack(), "agent-c-1") == [(7, 3, 10)]
    assert len(bills(KimiCliSession, made.pack())) == 2


def test_response_id_reveals_the_dialect():
    made = plain().event("StepRetry", n=1).event("StatusUpdate", plan_mode=True)
    made.event("StatusUpdate", token_usage=counts(1, 2, write=0), message_id="msg_1")
    found = events(KimiCliSession, made.pack())
    assert [event.dialect for event in found if isinstance(event, e.SessionChanged) and event.dialect] == ["anthropic"]
    signs = [(event.name, event.after) for event in found if isinstance(event, e.Observed)]
    assert signs == [("api-error", ""), ("permission-mode", "plan")]


HOSTILE = (
    {"timestamp": 1, "message": {"type": "of the future", "payload": {}}},
    {"timestamp": 1, "message": {"type": "StatusUpdate", "payload": {"token_usage": {"output": "1"}}}},
    {"timestamp": 1, "message": {"type": "StatusUpdate", "payload": 5}},
    {"timestamp": 1, "message": 5},
    {"timestamp": 1},
    {"role": "of the future", "content": 5},
    {"role": "user", "content": 5},
    {"role": 5},
    {},
)


@pytest.mark.parametrize("line", HOSTILE, ids=str)
def test_malformed_line_is_kept_with_its_place(line):
    made = plain()
    (made.context if "role" in line else made.wire).insert(2, line)
    session = folded(KimiCliSession, made.pack())
    assert [problem.line for problem in session.problems] == [3], session.problems
    assert bills(KimiCliSession, made.pack()) == [(10_000, 0, 10), (216, 9_984, 10)]


def test_odd_values_and_torn_ends_are_read():
    made = plain()
    inner = {"type": "SubagentEvent", "payload": {"event": {"type": "SubagentEvent", "payload": {}}}}
    made.wire.append({"timestamp": 1e300, "message": inner})
    made.context.append({"role": "_usage", "token_count": -5})
    made.context.append({"role": "_checkpoint", "id": 10**30})
    assert not folded(KimiCliSession, made.pack()).problems
    torn = made.files()[CONTEXT][:-20]
    assert codes(KimiCliSession, made.pack(**{CONTEXT: torn})) == [Code.TORN_LAST_LINE]
    assert codes(KimiCliSession, made.pack(**{WIRE: made.files()[WIRE][:-20]})) == [Code.TORN_LAST_LINE]


def test_history_may_be_cleared_within_a_step():
    """Regression: the reader raised IndexError."""
    made = KimiSession().event("TurnBegin", user_input="hi").event("StepBegin", n=1).event("ContentPart", **text("one"))
    made.event("TurnBegin", user_input="/clear").event("TurnBegin", user_input="anew")
    data = lines(made.event("ContentPart", **text("two")).wire)
    texts = [event.item for event in events(KimiCli, data) if isinstance(event, e.Append)]
    assert [type(item) for item in texts] == [UserMessage, AssistantMessage, AssistantMessage]
