"""The reader of OpenCode's sessions: requests, usage, tools, compactions, pruned outputs, changed settings."""

import json
import re
from pathlib import Path

from formats.opencode import START, Export, compacted, plain
from formats.recorded import folded
from helpers.recognising import recognise
from lore.formats.agents.opencode import OpenCode, OpenCodeRun
from lore.model import events as e
from lore.model.items import ToolCall
from lore.testing import ReaderContract, everything


def turns(log):
    """Return the usage of the main chain's requests: uncached, read and output tokens."""
    ends = [value for value in log.read() if isinstance(value, e.TurnCompleted | e.TurnFailed | e.TurnCanceled)]
    bills = [end.usage for end in ends if end.chain == e.MAIN]
    return [bill and (bill.uncached_tokens, bill.read_tokens, bill.output_tokens) for bill in bills]


def busy() -> Export:
    """All that happens in one session."""
    export = compacted(tail_start_id="msg_004")
    export.user(
        "see",
        export.part("file", mime="image/png", url="data:image/png;base64,aGk="),
        agent="plan",
        tools={"bash": False},
    )
    export.answer(
        export.tool("c5", "long", time={"compacted": START + 95_000}),
        export.tool("c6", "x", status="error", error="no"),
    )
    export.answer("on", providerID="anthropic", modelID="claude-opus-4-5").message(
        "user", [export.part("hologram"), export.part("subtask")]
    )
    export.answer("part", error={"name": "MessageAbortedError", "data": {}}, bill=(0, 0, 0)).message("system", [])
    return export.user("ä \ud83d").answer(export.tool("c7", status="running"))


class TestContract(ReaderContract):
    reader = OpenCode
    samples = (
        plain().data(),
        compacted().data(),
        busy().data(),
        busy().data()[:-40],
        json.dumps(json.loads(busy().data())).encode(),
    )


def test_provider_of_an_answer_is_signal():
    export = Export().user("a").answer("b").user("c").answer("d", providerID="github-copilot")
    export.user("e").answer("f", providerID="openai", error={"name": "APIError"})
    signs = [value for value in export.read() if isinstance(value, e.Observed) and value.name == "provider"]
    assert [(sign.before, sign.after) for sign in signs] == [("openai", "github-copilot")]


def test_list_of_messages_has_the_export_turns():
    """OpenCode's server answers with the messages alone."""
    messages = json.loads(plain().data())["messages"]
    for data in (json.dumps(messages), json.dumps({"messages": messages, "info": {}}, indent=2)):
        assert recognise(data.encode()) is OpenCode
        values = [read.value for read in everything(OpenCode(), data.encode())]
        ids = [
            [end.response_id for end in ends if isinstance(end, e.TurnCompleted)] for ends in (values, plain().read())
        ]
        assert ids[0] == ids[1] != []


def test_export_is_recognised_by_its_session():
    assert recognise(plain().data()) is OpenCode
    assert recognise(b'{"info":{"slug":"s","projectID":"p"},"messages":[') is OpenCode
    assert recognise(b'{"info":{"model_stats":{}},"messages":[{"role":"user","content":"x"}]}') is not OpenCode


def test_placeholder_ids_of_redactor_are_different():
    export = Export().user("look")
    export.answer(export.tool("call_1", "first")).answer(export.tool("call_2", "second"))
    hidden = re.sub(rb'"(msg|prt|call)_[^"]*"', b'"REDACTED"', export.data())
    values = [read.value for read in everything(OpenCode(), hidden)]
    uuids = [value.item.uuid for value in values if isinstance(value, e.Append)]
    assert len(uuids) == len(set(uuids)) == 3
    calls = [value.item.call_id for value in values if isinstance(value, e.Append) and isinstance(value.item, ToolCall)]
    assert calls == [value.call_id for value in values if isinstance(value, e.PatchToolCall)]


def test_torn_document_is_read_up_to_its_end():
    data = plain().data()
    session = folded(OpenCode, data[: data.rfind(b'"a file"')])
    assert len(session.state.main().entries) == 4
    assert [problem.code for problem in session.problems] == ["LORE202"]


RUN = (Path(__file__).parents[2] / "fixtures/opencode/run.jsonl").read_bytes()


class TestRunContract(ReaderContract):
    reader = OpenCodeRun
    samples = (RUN, RUN[:-1], RUN.splitlines(keepends=True)[0])


def test_each_step_of_run_is_a_request():
    error = b'{"type":"error","timestamp":1788246099000,"sessionID":"s","error":{"name":"APIError","data":{}}}\n'
    unfinished = b"".join(RUN.splitlines(keepends=True)[:2])
    reads = [read.value for read in everything(OpenCodeRun(), RUN + error + unfinished)]
    kinds = [type(value) for value in reads if isinstance(value, e.TurnCompleted | e.TurnFailed)]
    assert kinds == [e.TurnCompleted] * 3 + [e.TurnFailed, e.TurnCompleted]
    bills = [read.usage and read.usage.read_tokens for read in reads if isinstance(read, e.TurnCompleted)]
    assert bills == [0, 11_852, 11_992, None]
