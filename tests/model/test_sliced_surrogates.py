"""Objects and arrays with half characters, which msgspec refuses: sliced as exactly as others, and as fast."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from helpers.work import calls
from lore.model.jsonslice import array, element_ranges, members, sliced, table

PIECES = (
    "a",
    "d83d",
    "\\\\",
    "\\ud83d",
    "\\uD83D",
    "\\ude00",
    "\\ue83d",
    "\\uEabc",
    "\\u0041",
    "\\n",
    "{",
    "]",
    "é",
    "😀",
    "\ue83d",
)
TEXTS = st.lists(st.sampled_from(PIECES)).map(lambda pieces: '"' + "".join(pieces) + '"')
VALUES = st.recursive(
    TEXTS | st.sampled_from(("1", "null", "1.0")),
    lambda inner: (
        st.lists(inner).map(lambda found: "[" + ", ".join(found) + "]")
        | st.lists(st.tuples(TEXTS, inner)).map(
            lambda found: "{" + ",".join(f"{key} :{value}" for key, value in found) + "}"
        )
    ),
    max_leaves=8,
)


@given(st.lists(st.tuples(TEXTS, VALUES)))
def test_an_object_is_sliced_as_by_its_tokens(found):
    raw = ("{" + ", ".join(f"{key}: {value}" for key, value in found) + " }").encode()
    assert json.loads(raw) is not None
    last = {member.key: raw[member.value : member.end] for member in members(raw)}
    assert sliced(raw) == last
    assert table(raw) == last


@given(st.lists(VALUES))
def test_an_array_is_sliced_as_by_its_tokens(found):
    raw = ("[" + " ,".join(found) + "]").encode()
    assert array(raw) == [raw[start:end] for start, end in element_ranges(raw)]


@pytest.mark.parametrize("raw", [b'{"x":"\\ud83d"' + b',"k":1' * 5000 + b"}", b'["\\ud83d"' + b",1" * 5000 + b"]"])
def test_half_a_character_does_not_cost_a_look_at_every_token(raw):
    """One key that came a hundred thousand times beside half a character cost 110 times what a parser takes."""
    assert calls(lambda: sliced(raw)) < 100
    assert calls(lambda: array(raw)) < len(raw)
