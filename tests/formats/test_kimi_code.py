"""Kimi Code's logs: steps and their usage, the system prompt and tools, compactions, undo."""

from __future__ import annotations

import pytest

from formats.kimi import MODEL, Wire, plain, text, usage
from formats.recorded import ends, items
from lore.formats.agents.kimi import KimiCode
from lore.formats.registry import recognise
from lore.model.canonical import text_of
from lore.model.items import AssistantMessage, CompactDivider, ImageBlock, UserMessage
from lore.recording.opening import Options
from lore.testing import ReaderContract


def busy() -> Wire:
    """Return a log with reminders, an undo, compactions, a failed call, other tools and another effort."""
    made = plain().message("<system-reminder>", "injection").message("no").step(text("well"), usage=usage(300, 9_984))
    made.record("context.undo", count=1).record("turn.cancel", turnId=3).message("go on")
    made.step(text("look"), usage=usage(400, 10_112), calls=("c-2", "c-3")).result("c-2", "no such file", isError=True)
    made.result("c-3", [text("a"), {"type": "image_url", "imageUrl": {"url": "data:image/png;base64,QQ=="}}], note="n")
    made.record("micro_compaction.apply", cutoff=2).record("permission.set_mode", mode="manual")
    made.record("permission.set_mode", mode="yolo").record("llm.tools_snapshot", hash="h2", tools=[]).request("h2")
    made.record("full_compaction.begin", source="manual").record("usage.record", model=MODEL, usage=usage(900, 9_000))
    kept = {"summary": "So far.", "compactedCount": 7, "tokensBefore": 11_000, "tokensAfter": 900}
    made.record("context.apply_compaction", **kept, keptUserMessageCount=1).record("full_compaction.complete")
    return made.step(text("on"), usage=usage(2_000, 0)).record("context.clear").message("anew").step(text("hi"))


class TestContract(ReaderContract):
    reader = KimiCode
    samples = (plain().data(), busy().data(), busy().data()[:-1], busy().data().replace(b"\n", b"\r\n"))


def test_log_is_recognised_by_its_header():
    assert recognise(plain().data()) is KimiCode
    assert recognise(b'{"type":"metadata","protocol_version":"1.10"}\n{"timestamp":1,"message":{}}\n') is not KimiCode


def test_step_and_repeated_usage_are_one_request():
    assert ends(plain()) == [(10_000, 0, 10), (216, 9_984, 10)]
    assert not plain().folded().problems
    late = Wire().message("hi").step(text("a")).record("usage.record", model=MODEL, usage=usage(9, 0))
    assert late.folded().state.main().totals.uncached_tokens == 9


def test_prompt_with_system_and_tools_is_structural(tmp_path):
    (tmp_path / "wire.jsonl").write_bytes(plain().data())
    turns = list(Options().open(str(tmp_path / "wire.jsonl")).turns())
    assert [turn.fidelity for turn in turns] == ["structural", "reconstructed"]  # such prompts cannot hold thoughts
    assert {segment.section for segment in turns[1].prompt} >= {"tools", "system", "messages"}
    old = Wire("1.0").message("hi").step(text("a"), usage=usage(9, 0))
    (tmp_path / "old.jsonl").write_bytes(old.data())
    assert [turn.fidelity for turn in Options().open(str(tmp_path / "old.jsonl")).turns()] == ["reconstructed"]


def test_undo_removes_last_prompts_and_what_follows():
    made = plain().message("no").step(text("well"), usage=usage(300, 9_984))
    assert items(made.record("context.undo", count=1)) == items(plain())
    assert items(made.record("context.undo", count=9)) == items(plain())
    assert not items(made.record("context.clear"))


def test_older_compaction_replaces_first_messages():
    made = plain().record(
        "context.apply_compaction", summary="So far.", compactedCount=3, tokensBefore=9, tokensAfter=2
    )
    found = items(made)
    assert [type(item) for item in found] == [CompactDivider, AssistantMessage]
    assert text_of(bytes(found[0].summary)) == "So far."


def test_messages_have_sources_and_calls_arguments():
    made = Wire().message("a").message("b", "cron_job").message("c", "injection")
    call = {"type": "function", "id": "c-1", "function": {"name": "Read", "arguments": '{"path":1}'}}
    message = {"role": "assistant", "content": [], "toolCalls": [call]}
    made.record("context.append_message", message=message)
    made.record("context.append_message", message={"role": "tool", "toolCallId": "c-1", "content": [text("ok")]})
    found = items(made)
    assert [item.source for item in found[:3]] == ["user", "tick", "context_injection"]
    assert (bytes(found[3].input), text_of(bytes(found[3].output))) == (b'{"path":1}', "ok")
    picture = {"type": "image_url", "imageUrl": {"url": "data:image/png;base64,QQ=="}}
    shown = Wire().record("context.append_message", message={"role": "user", "content": [picture]})
    assert isinstance(items(shown)[0].blocks[0], ImageBlock)


HOSTILE = (
    {"type": "context.append_message"},
    {"type": "context.append_message", "message": {"role": "user", "content": 5}},
    {"type": "context.append_loop_event", "event": 5},
    {"type": "context.append_loop_event", "event": {"type": "of the future"}},
    {"type": "context.apply_compaction", "compactedCount": "x"},
    {"type": "usage.record", "usage": {"inputOther": "1"}},
    {"type": "of.the.future"},
    {"type": 7},
)


@pytest.mark.parametrize("line", HOSTILE, ids=str)
def test_malformed_line_is_kept_at_its_place(line):
    made = plain()
    made.lines.insert(2, line)
    session = made.folded()
    assert [end for end in ends(made) if end] == [(10_000, 0, 10), (216, 9_984, 10)]
    assert [problem.line for problem in session.problems] == [3], session.problems
    assert session.state.opaque == 1


def test_odd_times_and_counts_are_read():
    made = plain().record("context.undo", count=-1).event("content.part", stepUuid="lost", part=text("x"))
    made.lines[3]["time"] = 1e300
    made.lines[4]["time"] = "2026-07-29T00:00:00Z"
    made.record("context.apply_compaction", summary="s", compactedCount=10**9, keptUserMessageCount=-5)
    session = made.folded()
    assert not session.problems
    assert [type(entry.item) for entry in session.state.main().entries] == [CompactDivider, UserMessage]
