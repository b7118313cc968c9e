"""lore's own log: every kind, the slow lane, damage."""

import json

import pytest

from helpers.each import each
from lore.formats.lore_log import LoreLog
from lore.model import events as e
from lore.model.codes import Problem
from lore.testing import ReaderContract, everything
from model.making import header, log, record, said, user

CALL = {"type": "tool_call", "uuid": "t", "call_id": "c", "name": "n", "input": {}}
RECORDS = [
    header(tools=[{"name": "t"}], attachments=["a"], params={"x": 1}, user_id="u", project_id="p"),
    record("session_changed", system=["a", "b"]),
    record("layer", name="l", when="every_turn", text="t"),
    record("append", item=user("u1", "é\u2028"), at="2026-01-01T00:00:00Z", agent_id="x", id=7),
    record(
        "append",
        item={"type": "user_message", "uuid": "u2", "blocks": [{"type": "image", "media_type": "i", "data": "A"}]},
    ),
    record("append", item=said("a1")),
    record("append", item={"type": "compact_divider", "uuid": "d0", "trigger": "manual", "pruned": 3}),
    record("append", item={"type": "opaque", "uuid": "o", "record": {"x": 1}}),
    record("patch_text", uuid="a1", delta_text="!"),
    record("append", item={**CALL, "status": "running"}),
    record("patch_tool_call", call_id="c", status="completed", output=[{"type": "text", "text": "o"}]),
    record("tool_result_cleared", call_ids=["c"], placeholder="gone"),
    record("remove", uuids=["o"]),
    record("compact_started", trigger="gap", pre_tokens=1),
    record("compact_applied", uuid="d", trigger="gap", preserved_uuids=["u1"], summary="S"),
    record("turn_started", turn=1, context={"extra": "e"}),
    record("turn_completed", turn=1, usage={"read_tokens": 1, "write_5m_tokens": 2}, verdict={"reason": "r"}),
    record("turn_started", turn=2),
    record("turn_failed", turn=2, error="e"),
    record("turn_started", turn=3),
    record("turn_canceled", turn=3),
    record("knowledge", op="add", id="k", category="c", title="t", content="x"),
    record(
        "prompt_delta", seq=1, selector={"target": "messages", "insert_at": 2}, content=[{"role": "user", "text": "d"}]
    ),
    record("context_persisted", turn=3, insert_at=2, content="p"),
    record("cache_reset", reason="r"),
    record("observed", name="effort", names=["a"], removed=["b"], before="low", after="high"),
    record("saved", size=9, after=1, base="cd" * 32, log=7, digest="ab" * 32, leaf_id="u1", metadata={"a": 1},
           byte=7, check="00000000"),
    record("opaque", record={"any": "thing"}),
]  # fmt: skip


class TestContract(ReaderContract):
    reader = LoreLog
    samples = (log(*RECORDS), log(*RECORDS).replace(b"\n", b"\r\n")[:-2], b"\xef\xbb\xbf" + log(*RECORDS[:4]))


def read(data):
    return [item.value for item in everything(LoreLog(), data)]


def codes(data):
    return [value.code for value in read(data) if isinstance(value, Problem)]


def test_written_events_are_read_back():
    values = read(log(*RECORDS))
    assert read(b"".join(e.encode(value) + b"\n" for value in values)) == values


@each([
    record("append"),
    record("append", item={"type": "novel", "uuid": "u"}),
    record("append", item=user("u") | {"text": 3}),
    record("append", item={"type": "user_message", "uuid": "u", "blocks": [{"type": "text", "text": 3}]}),
    record("append", item={"type": "compact_divider", "uuid": "d", "trigger": "x", "summary": 3}),
    record("append", item={**CALL, "output": [{"type": "x"}]}),
    record("append", item={**CALL, "output": [{"type": "text", "text": 1}]}),
    record("patch_text", uuid="u", delta_text=None),
    record("patch_tool_call", call_id="c", status="odd"),
    record("patch_tool_call", call_id="c", status="failed", output=7),
    record("tool_result_cleared", call_ids=["c"], placeholder=[]),
    record("turn_started", turn="1"),
    record("session_changed", system=[1]),
    record("session_changed", system={}),
    record("session_changed", params=[]),
    record("layer", name="l", when="every_turn", text={}),
    record("compact_applied", uuid="d", trigger="x", summary=[]),
])  # fmt: skip
def test_malformed_records_are_opaque_problems(odd):
    values = read(log(header(), odd))
    assert [type(value) for value in values[1:]] == [Problem, e.OpaqueEvent]
    assert values[1].code == "LORE207"
    assert json.loads(bytes(values[2].record)) == odd


@pytest.mark.parametrize("odd", [record("novelty", x=1), {"no": "kind"}, {"kind": 3}])
def test_unknown_kinds_are_opaque_problems(odd):
    values = read(log(header(), odd))
    assert (values[1].code, type(values[2])) == ("LORE203", e.OpaqueEvent)


@pytest.mark.parametrize(
    ("data", "code"),
    [(b"{nope}\n", "LORE201"), (b'{"kind":"app', "LORE202"), (b"[1]\n", "LORE201"), (b'{"kind":"\xff"}\n', "LORE201")],
)
def test_broken_lines_are_problems_at_their_place(data, code):
    first = log(header())
    problem = next(value for value in read(first + data) if isinstance(value, Problem))
    assert (problem.code, problem.line, problem.byte) == (code, 2, len(first))


@each("head, is_recognised", [
    (log(header()), True),
    (b"\n\n" + log(header()), True),
    (log(record("append", item=user("u"))), True),
    (log(record("novelty")), False),
    (log({"messages": []}), False),
    (b"", False),
    (b"\xff\n", False),
])  # fmt: skip
def test_logs_are_recognised_by_their_first_record(head, is_recognised):
    assert LoreLog.recognises(head) is is_recognised
