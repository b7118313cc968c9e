"""The reader of OpenCode's sessions: requests, usage, tools, compactions, pruned outputs, changed settings."""

from __future__ import annotations

import json
import re

import pytest

from formats.opencode import START, Export, compacted, plain
from formats.recorded import folded, items
from lore.formats.agents.opencode import OpenCode
from lore.formats.registry import recognise
from lore.model import events as e
from lore.model.canonical import text_of
from lore.model.items import AssistantMessage, CompactDivider, ImageBlock, ToolCall, UserMessage
from lore.recording.opening import Options
from lore.testing import ReaderContract, everything


def turns(made):
    """The bills of the main chain's requests: what was not read, what was, and the output."""
    found = [value for value in made.read() if isinstance(value, e.TurnCompleted | e.TurnFailed | e.TurnCanceled)]
    bills = [end.usage for end in found if end.chain == e.MAIN]
    return [bill and (bill.uncached_tokens, bill.read_tokens, bill.output_tokens) for bill in bills]


def busy() -> Export:
    """All that happens in one session."""
    made = compacted(tail_start_id="msg_004")
    made.user(
        "see",
        made.part("file", mime="image/png", url="data:image/png;base64,aGk="),
        agent="plan",
        tools={"bash": False},
    )
    made.answer(
        made.tool("c5", "long", time={"compacted": START + 95_000}), made.tool("c6", "x", status="error", error="no")
    )
    made.answer("on", providerID="anthropic", modelID="claude-opus-4-5").message(
        "user", [made.part("hologram"), made.part("subtask")]
    )
    made.answer("part", error={"name": "MessageAbortedError", "data": {}}, bill=(0, 0, 0)).message("system", [])
    return made.user("ä \ud83d").answer(made.tool("c7", status="running"))


class TestContract(ReaderContract):
    reader = OpenCode
    samples = (
        plain().data(),
        compacted().data(),
        busy().data(),
        busy().data()[:-40],
        json.dumps(json.loads(busy().data())).encode(),
    )


def test_export_is_recognised_by_its_session():
    assert recognise(plain().data()) is OpenCode
    assert recognise(b'{"info":{"slug":"s","projectID":"p"},"messages":[') is OpenCode
    assert recognise(b'{"info":{"model_stats":{}},"messages":[{"role":"user","content":"x"}]}') is not OpenCode


def test_placeholder_ids_of_redactor_are_different():
    made = Export().user("look")
    made.answer(made.tool("call_1", "first")).answer(made.tool("call_2", "second"))
    hidden = re.sub(rb'"(msg|prt|call)_[^"]*"', b'"REDACTED"', made.data())
    found = [read.value for read in everything(OpenCode(), hidden)]
    uuids = [value.item.uuid for value in found if isinstance(value, e.Append)]
    assert len(uuids) == len(set(uuids)) == 3
    calls = [value.item.call_id for value in found if isinstance(value, e.Append) and isinstance(value.item, ToolCall)]
    assert calls == [value.call_id for value in found if isinstance(value, e.PatchToolCall)]


def test_cost_of_step_or_message_is_recorded():
    made = plain().answer("c", cost=0.25)
    step = made.answer("d", cost=0.5).messages[-1]["parts"][-1]
    step["cost"] = 0.125
    bills = [value.usage for value in made.read() if isinstance(value, e.TurnCompleted)]
    assert [bill.recorded_dollars for bill in bills] == [None, None, 0.25, 0.125]


def test_message_without_step_is_not_request():
    made = plain().message("assistant", [], providerID="openai", modelID="gpt-5.4", tokens={"input": 0, "output": 0})
    assert len(turns(made)) == 2


def test_reasoning_counts_as_output_in_both_layouts():
    made = plain()
    tokens = {"input": 100, "output": 5, "reasoning": 7, "cache": {"read": 0, "write": 0}}
    for total, output in ((105, 5), (112, 12), (None, 5)):
        own = tokens if total is None else {**tokens, "total": total}
        made.messages[1]["info"]["tokens"] = made.messages[1]["parts"][-1]["tokens"] = own
        assert turns(made)[0] == (100, 0, output)


def test_total_below_its_parts_is_contradiction():
    made = plain()
    made.messages[2]["parts"][-1]["tokens"]["total"] = 90
    found = [value.usage for value in made.read() if isinstance(value, e.TurnCompleted)][1]
    assert found is not None
    assert found.contradiction


def test_turns_have_dialect_of_their_provider(tmp_path):
    path = tmp_path / "a.json"
    made = plain().user("go").answer("x", providerID="anthropic", modelID="claude-opus-4-5")
    path.write_bytes(made.user("go").answer("y", providerID="github-copilot", modelID="claude-sonnet-4.6").data())
    found = [turn.dialect for turn in Options().open(str(path)).turns()]
    assert found == ["openai-responses", "openai-responses", "anthropic", "openai-chat"]


def test_text_file_is_in_prompt_as_text():
    made = Export()
    read = made.part("file", mime="text/plain", filename="a.ts", url="file:///w/a.ts")
    shown = made.part("text", text="<content>", synthetic=True)
    hidden = made.part("text", text="not this", ignored=True)
    image = made.part("file", mime="image/png", url="data:image/png;base64,aGk=")
    made.user("see", read, shown, hidden, image)
    blocks = items(made)[0].blocks
    assert [text_of(bytes(block.text)) for block in blocks[:2]] == ["see", "<content>"]
    assert isinstance(blocks[2], ImageBlock)
    assert len(blocks) == 3


def test_compaction_keeps_messages_from_its_tail():
    made = compacted(tail_start_id="msg_004")
    assert [type(item) for item in items(made)][:3] == [CompactDivider, UserMessage, AssistantMessage]
    assert [text_of(bytes(item.blocks[0].text)) for item in items(made)[1:]] == ["two", "b", "go on", "c"]


def test_failed_compaction_changes_nothing():
    made = compacted()
    made.messages[6]["info"]["error"] = {"name": "APIError", "data": {}}
    assert not [item for item in items(made) if isinstance(item, CompactDivider)]


def test_reverted_messages_are_removed_at_the_end():
    made = plain().user("wrong").answer("no")
    made.info["revert"] = {"messageID": "msg_004"}
    assert len(turns(made)) == 3
    assert len(items(made)) == 5


def test_unknown_part_is_problem_and_rest_is_read():
    made = plain().message("user", [made_part := plain().part("hologram")]).message("system", [])
    problems = [problem.message for problem in made.folded().problems]
    assert made_part["type"] in problems[0]
    assert "'system'" in problems[1]
    assert len(turns(made)) == 2


def test_messages_of_opencode_2_are_opaque():
    info = {"id": "ses_1", "slug": "s", "version": "2.0.0", "time": {"created": START}}
    made = folded(
        OpenCode, json.dumps({"info": info, "messages": [{"id": "m", "type": "user", "text": "hi"}]}).encode()
    )
    assert ([problem.code for problem in made.problems], made.state.opaque) == (["LORE207"], 1)


def test_torn_document_is_read_up_to_its_end():
    data = plain().data()
    made = folded(OpenCode, data[: data.rfind(b'"a file"')])
    assert len(made.state.main().entries) == 4
    assert [problem.code for problem in made.problems]


@pytest.mark.parametrize("value", [None, 1, "x", [], {}, -1, 10**400, "\ud800", [{}], {"type": 1}])
def test_hostile_values_never_raise(value):
    for key in ("id", "role", "time", "tokens", "model", "tools", "error", "summary", "modelID", "agent", "system"):
        made = compacted()
        for message in made.messages:
            message["info"][key] = value
        folded(OpenCode, json.dumps({"info": made.info, "messages": made.messages}).encode())
    for key in ("type", "id", "text", "state", "callID", "metadata", "tokens", "url", "auto", "tail_start_id"):
        made = compacted()
        for message in made.messages:
            for part in message["parts"]:
                part[key] = value
        folded(OpenCode, json.dumps({"info": made.info, "messages": made.messages}).encode())
    for key in ("id", "version", "time", "revert", "parentID"):
        folded(OpenCode, Export(**{key: value}).user("a").data())
    folded(OpenCode, json.dumps({"info": value, "messages": [value, {"info": value, "parts": value}]}).encode())
