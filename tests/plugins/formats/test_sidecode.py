"""sidecode's deltas: missing fields, recognition, turns and usage."""

import json
from pathlib import Path

from helpers.each import each
from helpers.recognising import recognise
from helpers.states import step
from lore.model.codes import Problem
from lore.model.items import ImageBlock, RawBlock, TextBlock, UserMessage
from lore.model.results import UsageResult
from lore.model.state import FoldedSession
from lore.testing import ReaderContract, everything
from lore_plugins.formats.sidecode import Sidecode

SESSION = (Path(__file__).parents[3] / "fixtures/sidecode/session.jsonl").read_bytes()


def log(*records):
    return b"".join(json.dumps(record).encode() + b"\n" for record in records)


def user(uuid="u1", text="hi", **more):
    return {"kind": "append", "item": {"type": "user_message", "uuid": uuid, "text": text, **more}}


def said(uuid, text="yes", **more):
    return {"kind": "append", "item": {"type": "assistant_message", "uuid": uuid, "text": text, **more}}


def call(call_id="c1", tag="type", **more):
    item = {tag: "tool_call", "callId": call_id, "name": "Bash", "summary": "ls", "status": "running", **more}
    return {"kind": "append", "item": item}


def patched(call_id="c1", **more):
    return {"kind": "patch_tool_call", "callId": call_id, "status": "completed", "error": None, "detail": {}, **more}


START = {"kind": "turn_started"}


def ended(**usage):
    return {"kind": "turn_completed", "usage": usage}


def events(*records):
    return [read.value for read in everything(Sidecode(), log(*records)) if not isinstance(read.value, Problem)]


def folded(*records):
    state = FoldedSession(format="sidecode")
    for event in events(*records):
        state = step(state, event).state
    return state


class TestContract(ReaderContract):
    reader = Sidecode
    samples = (SESSION, log(user(), START, said("a1"), call(), patched(), ended(inputTokens=1)))


@each([
    (user(), START),
    (call(),),
    (user(kind="user_message"),),
    ({"kind": "append", "item": {"kind": "user_message", "uuid": "u", "text": "t"}},),
    ({"kind": "patch_text", "uuid": "a", "deltaText": "t"},),
    (user(), {"kind": "compact_started"}),
    (said("a1", stopReason=None),),
])  # fmt: skip
def test_deltas_are_recognised_by_what_they_lack(records):
    assert recognise(log(*records)) is Sidecode


@each([
    ({"kind": "session_started", "v": 1, "session_id": "s"}, user(), START),
    (user(), {"kind": "turn_started", "turn": 1}),
    (START, {"kind": "assistant_text", "text": "hello"}),
    (START, {"kind": "turn_completed"}),
    (START, {"kind": "turn_completed", "inputTokens": 3}),
    (user(), {**START, "source": "cli"}),
    ({"kind": "append", "item": {"kind": "row", "uuid": "u"}},),
    ({"kind": "append", "item": "text"},),
    ({"type": "user", "message": {"role": "user", "content": "hi"}},),
])  # fmt: skip
def test_other_json_lines_are_not_recognised(records):
    assert recognise(log(*records)) is not Sidecode


def test_usage_of_several_answers_is_a_sum():
    usage = ended(inputTokens=1, outputTokens=2, cacheReadInputTokens=3, cacheCreationInputTokens=4)
    records = (user(), START, said("a1"), call(), patched(), said("a2"), usage)
    bill = events(*records)[-1].usage
    assert (bill.read_tokens, bill.first_pass.read_tokens) == (None, None)
    totals = UsageResult.sum_of(bill.passes)
    assert (totals.uncached_tokens, totals.read_tokens, totals.write_tokens, totals.output_tokens) == (1, 3, 4, 2)


def test_null_stop_reason_means_interrupted():
    stopped, unknown, done = events(
        said("a1", stopReason=None), said("a2"), said("a3", stopReason="end_turn")
    )  # fmt: skip
    assert [event.item.stop_reason for event in (stopped, unknown, done)] == ["interrupted", None, "end_turn"]


def test_images_are_blocks_after_the_text():
    (event,) = events(user(images=[{"mediaType": "image/png", "data": "AAAA"}, {"path": "x.png"}]))
    assert isinstance(event.item, UserMessage)
    assert [type(block) for block in event.item.blocks] == [TextBlock, ImageBlock, RawBlock]
