"""Slicing JSON gives exact pieces of its text; lenient decoding reads lone surrogates and camelCase into structs."""

import json

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from helpers.each import each
from helpers.work import calls
from lore.model import events as e
from lore.model import jsonslice
from lore.model.items import TextBlock, ToolCall, UserMessage, blocks_of
from lore.model.jsonslice import (
    array,
    check_text,
    element_ranges,
    first_element,
    is_json,
    leaf_in,
    member_ranges,
    members_at,
    raw_members,
    value_at,
    without_member,
)
from lore.model.lenient import convert

# `\ud83d` is half of an emoji, `\\ud83d` a backslash and five letters; `\ue83d` and its like are characters that
# replace surrogates while msgspec slices.
PIECES = (
    "a", "d83d", '\\"', "\\\\", "\\ud83d", "\\uD83D", "\\ude00", "\\ue83d", "\\uEabc", "\\u0041", "\\n", "{", "]", ",",
    "é", "😀", "\ue83d",
)  # fmt: skip
TEXTS = st.lists(st.sampled_from(PIECES), max_size=4).map(lambda pieces: '"' + "".join(pieces) + '"')
VALUES = st.recursive(
    TEXTS | st.sampled_from(("1", "null", "1.0", "3e-5")),
    lambda inner: (
        st.lists(inner, max_size=3).map(lambda values: "[ " + " , ".join(values) + "]")
        | st.lists(st.tuples(TEXTS, inner), max_size=3).map(
            lambda pairs: "{" + ",\n".join(f"{key} : {value}" for key, value in pairs) + " }"
        )
    ),
    max_leaves=8,
)


@given(st.lists(st.tuples(TEXTS, VALUES), max_size=4), st.sampled_from(["", " "]))
def test_members_are_exact_slices_of_an_object(pairs, space):
    raw = (space + "{" + ", ".join(f"{key}:{value}" for key, value in pairs) + "}" + space).encode()
    found = member_ranges(raw)
    assert [raw[member.value : member.end].decode() for member in found] == [value.strip() for _, value in pairs]
    assert [raw[member.start : member.value].decode() for member in found] == [f"{key}:" for key, _ in pairs]
    assert raw_members(raw) == {member.key: raw[member.value : member.end] for member in found}
    assert [member.key for member in found] == [key for key, _ in json.loads(raw, object_pairs_hook=list)]


@given(st.lists(VALUES, max_size=4))
def test_elements_are_exact_slices_of_an_array(values):
    raw = (" [" + " ,".join(values) + " ]").encode()
    assert [element.decode() for element in array(raw)] == values
    assert [raw[start:end].decode() for start, end in element_ranges(raw)] == values
    assert first_element(raw.strip()).decode() == (values[0] if values else "")


@each([b"", b"{", b'{"a":}', b'{"a":NaN}', b"{} x", b"\xff", b'{"a":"\xff"}', b'{"a":"\\x"}', b'{"a":"\\ud83d" x}'])
def test_text_that_is_not_json_has_no_table(raw):
    assert raw_members(raw) is None
    assert not is_json(raw)


@pytest.mark.parametrize("raw", [b"[1]", b'"a"', b"1", b' ["\\ud83d"]'])
def test_json_that_is_no_object_has_no_table(raw):
    assert (raw_members(raw), is_json(raw), member_ranges(raw)) == (None, True, [])


@pytest.mark.parametrize("raw", [b"{}", b"1", b"", b'"[1]"'])
def test_json_that_is_no_array_has_no_elements(raw):
    assert (array(raw), element_ranges(raw), first_element(raw)) == ([], [], b"")


def test_nesting_of_1000_levels_is_json():
    assert is_json(b"[" * 1000 + b"]" * 1000)
    assert not is_json(b"[" * 1100 + b"]" * 1100)


@pytest.mark.parametrize("text", [b"{", b'{"a":}', b"{}{}", b'{"a":"\\uzzzz"}'])
def test_broken_json_without_surrogates_is_parsed_once(text, monkeypatch):
    monkeypatch.setattr(jsonslice, "decode", pytest.fail)
    assert raw_members(text) is None


@pytest.mark.parametrize("raw", [b'{"x":"\\ud83d"' + b',"k":1' * 5000 + b"}", b'["\\ud83d"' + b",1" * 5000 + b"]"])
def test_one_lone_surrogate_costs_no_scan_of_tokens(raw):
    raw_members(b'{"x":"\\ud83d"}')  # compiles the deferred patterns
    assert calls(lambda: raw_members(raw)) < 100
    assert calls(lambda: array(raw)) < len(raw)


@each("raw, bare", [
    (b'{"m":1,"a":2,"b":3}', b'{"a":2,"b":3}'),
    (b'{"a":2,"m":{"x":[1,2]},"b":3}', b'{"a":2,"b":3}'),
    (b'{"a":2,"b":3,"m":1}', b'{"a":2,"b":3}'),
    (b'{"m":1,"m":2}', b"{}"),
    (b'{"a":1,"m":1,"m":2}', b'{"a":1}'),
    (b'{"m":1,"a":{"m":2},"m":3}', b'{"a":{"m":2}}'),
    (b'{"a": 2, "m": 1}', b'{"a": 2}'),
    (b'{"m": 1, "a": 2}', b'{"a": 2}'),
    (b'{"a":1}', b'{"a":1}'),
])  # fmt: skip
def test_member_is_cut_out_with_its_comma(raw, bare):
    assert without_member(raw, "m") == bare


def _leaf_by_descent(raw, offset):
    path, base = "", 0
    while True:
        ranges = [(f".{member.key}", member.value, member.end) for member in member_ranges(raw)]
        ranges += [(f"[{number}]", *place) for number, place in enumerate(element_ranges(raw))]
        inner = next((place for place in ranges if place[1] <= offset < place[2]), None)
        if inner is None:
            return path, base
        path, base, offset, raw = path + inner[0], base + inner[1], offset - inner[1], raw[inner[1] : inner[2]]


@given(VALUES.filter(str.isascii).filter(lambda text: "\\u" not in text))
def test_leaf_is_the_innermost_value_around_a_byte(text):
    raw = text.encode()
    assert [leaf_in(raw, at) for at in range(len(raw))] == [_leaf_by_descent(raw, at) for at in range(len(raw))]


@pytest.mark.parametrize(
    ("path", "value"),
    [("messages[1].content[0]", b'"b"'), ("messages[2]", None), ("model", None), ("", b"{"), ("messages[0][1]", None)],
)
def test_value_is_found_by_its_path(path, value):
    raw = b'{"messages": [{"content": ["a"]}, {"content": [{"cachePoint": 1}, "b"]}]}'
    found = value_at(raw, path, "cachePoint")
    assert found is None if value is None else raw[slice(*found)].startswith(value)


@pytest.mark.parametrize("data", ["aé€😀z".encode() * 5, b"abc\xff", b"\xed\xa0\xbd", b"\x80"])
@pytest.mark.parametrize("size", [1, 2, 7])
def test_text_is_checked_in_pieces_as_a_whole(data, size, monkeypatch):
    monkeypatch.setattr(jsonslice, "_PIECE", size)
    for end in range(len(data) + 1):
        try:
            data[:end].decode()
        except UnicodeDecodeError:
            with pytest.raises(UnicodeDecodeError):
                check_text(data[:end])
        else:
            check_text(data[:end])


def test_camel_case_keys_are_read_others_skipped():
    event = convert(b'{"kind":"turn_started","turn":3,"agentId":"a1","novel":[1,{"x":2}]}', e.TurnStarted)
    assert event == e.TurnStarted(turn=3, agent_id="a1")


def test_content_with_lone_surrogate_is_exact_slice():
    item = convert(b'{"type":"user_message","uuid":"u","text": "cut \\ud83d" }', UserMessage)
    assert bytes(item.text) == b'"cut \\ud83d"'


def test_item_is_chosen_by_camel_case_tag():
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


@each("raw, kind", [
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
    (b'["\\ud83d",' + b"[" * 1_500 + b"]" * 1_501, _Row),
])  # fmt: skip
def test_wrong_types_and_broken_text_raise_value_error(raw, kind):
    with pytest.raises(ValueError):  # noqa: PT011 - msgspec and the JSON parsers raise subclasses of their own
        convert(raw, kind)


def test_members_at_path_are_those_of_inner_object():
    assert members_at(b'{"a":{"b":{"c": 1}}}', "a", "b") == members_at({"a": b'{"c": 1}'}, "a") == {"c": b"1"}
    assert members_at(b'{"a":[1]}', "a", "b") == members_at({}, "a") == members_at(b"[]") == {}


def test_written_default_is_left_out_as_msgspec_does():
    """msgspec recognises a default by identity, so one event could be saved in two spellings."""
    raw = b'{"type":"tool_call","uuid":"t","call_id":"c","name":"n","input":{},"status":"running"%s}'
    slow, fast = convert(raw % b',"novel":1', ToolCall), msgspec.json.decode(raw % b"", type=ToolCall)
    assert msgspec.json.encode(slow) == msgspec.json.encode(fast)
