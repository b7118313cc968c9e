"""JSON that msgspec refuses is decoded into the same structs."""

from __future__ import annotations

import msgspec
import pytest

from lore.model import events as e
from lore.model.items import TextBlock, ToolCall, UserMessage, blocks_of
from lore.model.lenient import convert


def test_camel_case_keys_are_read_and_unknown_ones_skipped():
    event = convert(b'{"kind":"turn_started","turn":3,"agentId":"a1","novel":[1,{"x":2}]}', e.TurnStarted)
    assert event == e.TurnStarted(turn=3, agent_id="a1")


def test_content_with_a_lone_surrogate_is_an_exact_slice():
    item = convert(b'{"type":"user_message","uuid":"u","text": "cut \\ud83d" }', UserMessage)
    assert bytes(item.text) == b'"cut \\ud83d"'


def test_item_is_chosen_by_its_tag_in_camel_case():
    item = b'{"type":"toolCall","uuid":"u","callId":"c","name":"n","input":{},"status":"failed"}'
    event = convert(b'{"kind":"append","item":' + item + b"}", e.Append)
    assert event.item == ToolCall("u", "c", "n", msgspec.Raw(b"{}"), "failed")


def test_lists_and_optional_values_are_read():
    raw = b'{"session_id":"s","tools":[{"a":1},2],"attachments":["x"],"system":["\\ud83d"],"model":null,"v":1}'
    event = convert(raw, e.SessionStarted)
    assert [bytes(tool) for tool in event.tools] == [b'{"a":1}', b"2"]
    assert (event.attachments, event.model) == (("x",), None)


def test_blocks_with_a_lone_surrogate_are_read():
    assert blocks_of(b'[{"type":"text","text":"\\ud83d"}]') == (TextBlock(msgspec.Raw(b'"\\ud83d"')),)


class _Row(msgspec.Struct, frozen=True):
    flag: bool = False
    share: float = 0.0
    table: dict[str, int] = {}
    pair: tuple[int, msgspec.Raw] | None = None


def test_tables_and_pairs_are_read():
    row = convert(b'{"flag":true,"share":1,"table":{"\\ud83d":2},"pair":[1,"\\ud83d"]}', _Row)
    assert row == _Row(flag=True, share=1.0, table={"\ud83d": 2}, pair=(1, msgspec.Raw(b'"\\ud83d"')))


@pytest.mark.parametrize(
    ("raw", "kind"),
    [
        (b'{"turn":"3"}', e.TurnStarted),
        (b'{"turn":true}', e.TurnStarted),
        (b"{}", e.TurnStarted),
        (b"[]", e.TurnStarted),
        (b'{"turn":1', e.TurnStarted),
        (b'{"turn":1,"context":NaN}', e.TurnStarted),
        (b'{"uuid":"u","text":"x","blocks":{}}', UserMessage),
        (b'{"uuid":"\\ud83d","text":"x"}', UserMessage),
        (b'{"call_id":"c","status":"odd"}', e.PatchToolCall),
        (b'{"item":{"type":"novel","uuid":"u"}}', e.Append),
        (b'{"item":3}', e.Append),
        (b'{"session_id":"s","attachments":"x"}', e.SessionStarted),
        (b"\xff", e.TurnStarted),
        (b'{"flag":1}', _Row),
        (b'{"share":true}', _Row),
        (b'{"table":[]}', _Row),
        (b'{"pair":[1]}', _Row),
    ],
)
def test_wrong_types_and_broken_text_raise_value_error(raw, kind):
    with pytest.raises(ValueError):  # noqa: PT011 - msgspec and the JSON parsers raise subclasses of their own
        convert(raw, kind)


def test_written_default_is_left_out_as_msgspec_does():
    """msgspec recognises a default by identity, so one event could be saved in two spellings."""
    raw = b'{"type":"tool_call","uuid":"t","call_id":"c","name":"n","input":{},"status":"running"%s}'
    slow, fast = convert(raw % b',"novel":1', ToolCall), msgspec.json.decode(raw % b"", type=ToolCall)
    assert msgspec.json.encode(slow) == msgspec.json.encode(fast)
