"""The reader of openfang's message lines: sources of messages, calls and results, times."""

import json
from functools import partial

import pytest

from formats import agents
from lore.model.events import Append, SessionStarted, TurnStarted
from lore.model.items import AssistantMessage, ImageBlock, ThinkingBlock, ToolCall, UserMessage
from lore.testing import ReaderContract, everything
from lore_plugins.formats.openfang import OpenFang
from model.making import dumps
from plugins.formats import openfang

BLOCKS = [
    openfang.line("user", [
        {"type": "text", "text": "see"}, {"type": "image", "media_type": "image/png", "data": "aGk="},
    ]),
    openfang.line("assistant", [
        {"type": "thinking", "thinking": "hm", "signature": "sig"}, {"type": "text", "text": "I look"},
        openfang.call("c1"), openfang.call("c2"),
    ]),
    openfang.line("user", [openfang.result("c1", "one"), openfang.result("c2", "no", is_error=True)]),
]  # fmt: skip
AS_BLOCKS = b"".join(dumps(one) + b"\n" for one in BLOCKS)


class TestContract(ReaderContract):
    reader = OpenFang
    samples = (openfang.LINES, AS_BLOCKS)


def lines(*messages) -> bytes:
    return b"".join(dumps(one) + b"\n" for one in messages)


codes = partial(agents.codes, OpenFang)
folded = partial(agents.folded, OpenFang)


def items(data: bytes):
    return [entry.item for entry in folded(data).main().entries]


@pytest.mark.parametrize(
    "other",
    [
        b'{"role":"user","content":"hi"}\n', b'{"role":"user","content":"hi","timestamp":"x","uuid":"u"}\n',
        b'{"role":"tool","content":"hi","timestamp":"x"}\n', b'{"role":"user","timestamp":"x"}\n', b"[1]\n",
    ],
)  # fmt: skip
def test_other_files_are_not_recognised(other):
    assert not OpenFang.recognises(other)


@pytest.mark.parametrize(
    ("message", "source"),
    [
        ({"content": "hi"}, "user"), ({"content": "hi", "source": "context_injection"}, "context_injection"),
        ({"content": "[AUTONOMOUS TICK] go"}, "tick"), ({"content": "\n [SCHEDULED TICK] go"}, "tick"),
        ({"content": openfang.REFRESH}, "context_injection"), ({"content": "[Context refresh]"}, "user"),
        ({"content": "[System: 12 earlier messages were removed due to context overflow."}, "context_injection"),
        ({"content": "[Session compacted: 9 messages removed."}, "context_injection"),
        ({"content": [{"type": "text", "text": "[SCHEDULED TICK] go"}]}, "tick"),
    ],
)  # fmt: skip
def test_source_of_each_message_is_known(message, source):
    (item,) = items(lines({"role": "user", "timestamp": "t", **message}))
    assert isinstance(item, UserMessage)
    assert item.source == source


def test_escaped_tick_is_recognised():
    data = dumps(openfang.line("user", "X", 0)).replace(b'"X"', rb'"\n[SCHEDULED TICK] go"') + b"\n"
    assert items(data)[0].source == "tick"


def test_calls_have_results_in_both_shapes():
    for data, names in ((openfang.LINES, ["t1"]), (AS_BLOCKS, ["c1", "c2"])):
        calls = [item for item in items(data) if isinstance(item, ToolCall)]
        assert [call.call_id for call in calls] == names
        assert all(call.status != "running" for call in calls)
    first, second = (item for item in items(AS_BLOCKS) if isinstance(item, ToolCall))
    assert (first.status, second.status, bytes(second.output)) == ("completed", "failed", b'"no"')


def test_repeated_call_id_means_the_latest_call():
    twice = [
        openfang.line("assistant", "", 0, tool_use=[openfang.call("same")]),
        openfang.line("user", "", 1, tool_use=[openfang.result("same", "one")]),
        openfang.line("assistant", "", 2, tool_use=[openfang.call("same")]),
        openfang.line("user", "", 3, tool_use=[openfang.result("same", "two")]),
    ]
    assert [bytes(item.output) for item in items(lines(*twice))] == [b'"one"', b'"two"']


def test_thinking_and_images_are_blocks():
    shown, thought = items(AS_BLOCKS)[:2]
    assert isinstance(shown, UserMessage)
    assert isinstance(thought, AssistantMessage)
    assert isinstance((shown.blocks or ())[1], ImageBlock)
    assert isinstance((thought.blocks or ())[0], ThinkingBlock)


def test_a_leading_system_message_is_the_system_prompt():
    data = lines(openfang.line("system", "You help.", 0), *openfang.TALK)
    assert bytes(folded(data).system) == b'"You help."'
    assert len(items(data)) == len(items(openfang.LINES))


def test_one_time_on_all_lines_is_ignored():
    mirror = lines(*[{**one, "timestamp": "2026-08-02T00:00:00+00:00"} for one in openfang.TALK])
    starts = [one.value.at for one in everything(OpenFang(), mirror) if isinstance(one.value, TurnStarted)]
    assert starts[1:] == [None] * 3
    begun = [one.value.at for one in everything(OpenFang(), mirror) if isinstance(one.value, Append | SessionStarted)]
    assert [at for at in begun[2:] if at is not None] == []


@pytest.mark.parametrize(
    ("odd", "code"),
    [
        ({"role": "tool", "content": "x"}, "LORE203"), ({"role": "user", "content": 7}, "LORE207"),
        ({"role": "system", "content": "late"}, "LORE203"), ({"role": 7, "content": "x"}, "LORE203"),
    ],
)  # fmt: skip
def test_unknown_messages_are_opaque_problems(odd, code):
    data = lines(openfang.TALK[0], odd)
    assert codes(data) == [code]


def test_text_keeps_its_escapes():
    data = dumps(openfang.line("user", "X", 0)).replace(b'"X"', rb'"\u00e9\/\ud83d"') + b"\n"
    (item,) = items(data)
    assert bytes((item.blocks or ())[0].text) == rb'"\u00e9\/\ud83d"'


def test_message_may_have_an_id():
    (item,) = items(lines({**openfang.TALK[0], "msg_id": "abc"}))
    assert item.uuid == "abc"
    assert json.loads(dumps(openfang.TALK[0]))["role"] == "user"
