"""Slicing JSON: ranges of the input, exact, without decoding."""

from __future__ import annotations

import json
import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lore.model.jsonslice import array, check_text, element_ranges, leaf_in, members, table, without_member

OBJECTS = [
    b"{}",
    b"{ }",
    b'{"a":1}',
    b' { "a" : [1, {"b":","}] , "c":"}" } ',
    b'{"a":{"a":{"a":"\\""}},"b":[]}',
    b'{"a":1,"a":2}',
    b'{"\\u0061":1,"\\"":2}',
    b'{"a":"\\ud83d","k":3}',
    '{"é":"ü","日本":[1,2]}'.encode(),
    b'{"a":"\\\\","b":"\\\\\\""}',
    b'{\n  "a": 1.0,\n  "b": 3e-5\n}',
]


@pytest.mark.parametrize("raw", OBJECTS)
def test_members_are_ranges_whose_values_decode_to_the_object(raw):
    found = members(raw)
    assert {m.key: json.loads(raw[m.value : m.end]) for m in found} == json.loads(raw)


@pytest.mark.parametrize("raw", OBJECTS)
def test_a_table_holds_the_slices_of_the_values(raw):
    held = table(raw)
    assert held is not None
    assert {key: json.loads(value) for key, value in held.items()} == json.loads(raw)


@pytest.mark.parametrize("raw", [b"", b"[1]", b'"a"', b"{", b'{"a":}', b"{} x", b"\xff", b'{"a":"\xff"}', b'{"a":NaN}'])
def test_what_is_no_object_has_no_table(raw):
    assert table(raw) is None


def test_duplicate_keys_are_all_found_and_the_last_one_holds_in_a_table():
    raw = b'{"a":1,"a":"\\ud83d"}'
    assert [m.key for m in members(raw)] == ["a", "a"]
    assert table(raw) == {"a": b'"\\ud83d"'}


@pytest.mark.parametrize("raw", [b"[]", b"[ ]", b'[1,"],[",{"a":[2]} , null]', b" [ [ ] , [1] ] ", b'["\\ud83d", 1]'])
def test_elements_are_the_slices_of_an_array(raw):
    assert [json.loads(one) for one in array(raw)] == json.loads(raw)
    assert array(raw) == [raw[start:end] for start, end in element_ranges(raw)]


@pytest.mark.parametrize("raw", [b"{}", b"1", b"", b'"[1]"'])
def test_what_is_no_array_has_no_elements(raw):
    assert element_ranges(raw) == []
    assert array(raw) == []


@pytest.mark.parametrize(
    ("raw", "bare"),
    [
        (b'{"m":1,"a":2,"b":3}', b'{"a":2,"b":3}'),
        (b'{"a":2,"m":{"x":[1,2]},"b":3}', b'{"a":2,"b":3}'),
        (b'{"a":2,"b":3,"m":1}', b'{"a":2,"b":3}'),
        (b'{"m":1}', b"{}"),
        (b'{"m":1,"m":2}', b"{}"),
        (b'{"a":1,"m":1,"m":2}', b'{"a":1}'),
        (b'{"m":1,"a":{"m":2},"m":3}', b'{"a":{"m":2}}'),
        (b'{"a": 2, "m": 1}', b'{"a": 2}'),
        (b'{"m": 1, "a": 2}', b'{"a": 2}'),
        (b'{"a":1}', b'{"a":1}'),
    ],
)
def test_a_member_is_cut_out_with_its_comma(raw, bare):
    assert without_member(raw, "m") == bare


def test_a_leaf_in_deep_nesting_costs_one_path():
    raw = b'{"a":[' * 500 + b"1" + b"]}" * 500  # as deep as a parser goes
    tracemalloc.start()
    try:
        assert leaf_in(raw, raw.index(b"1")).path == ".a[0]" * 500
        assert tracemalloc.get_traced_memory()[1] < 100_000
    finally:
        tracemalloc.stop()


def _leaf_by_descent(raw, offset):
    """What `leaf_in` answers, found by going down level by level."""
    path, base = "", 0
    while True:
        ranges = [(f".{one.key}", one.value, one.end) for one in members(raw)]
        ranges += [(f"[{number}]", *found) for number, found in enumerate(element_ranges(raw))]
        inner = next((one for one in ranges if one[1] <= offset < one[2]), None)
        if inner is None:
            return path, base
        path, base, offset, raw = path + inner[0], base + inner[1], offset - inner[1], raw[inner[1] : inner[2]]


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.sampled_from(['a,"b', "x:{[", ""]),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["a", "b,", 'c"', "d:["]), inner),
        max_leaves=8,
    ),
    st.sampled_from([None, 1]),
)
def test_a_leaf_is_the_one_that_slicing_each_value_finds(value, indent):
    raw = json.dumps(value, indent=indent).encode()
    assert [tuple(leaf_in(raw, at)) for at in range(len(raw))] == [_leaf_by_descent(raw, at) for at in range(len(raw))]


@pytest.mark.parametrize("size", [1, 2, 3, 7])
@pytest.mark.parametrize("data", ["a\u00e9\u20ac\U0001f600z".encode() * 5, b"abc\xff", b"\xed\xa0\xbd", b"\x80"])
def test_text_that_is_looked_at_in_pieces_is_judged_like_the_whole(data, size, monkeypatch):
    monkeypatch.setattr("lore.model.jsonslice._PIECE", size)
    for end in range(len(data) + 1):
        try:
            data[:end].decode()
        except UnicodeDecodeError:
            with pytest.raises(UnicodeDecodeError):
                check_text(data[:end])
        else:
            check_text(data[:end])
