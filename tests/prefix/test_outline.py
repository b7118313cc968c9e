"""Outlines: the same for every spelling of one content, and cheap."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from lore.model.turn import Segment
from lore.prefix.overlap import canonical_of, outline

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)


def segment(said: str) -> Segment:
    return Segment("messages", "messages[0].content[0]", said.encode("utf-8", "surrogatepass"))


@given(st.dictionaries(st.text(max_size=8), VALUES, max_size=5))
def test_every_spelling_of_a_block_has_one_outline(block):
    spellings = [
        json.dumps(block),
        json.dumps(block, ensure_ascii=False, indent=1),
        json.dumps(dict(reversed(block.items())), separators=(",", ":")),
        json.dumps(block).replace("/", "\\/"),
    ]
    segments = [segment(one) for one in spellings]
    assert len({canonical_of(one) for one in segments}) == 1
    assert len({outline(one) for one in segments} - {None}) <= 1  # None: not known cheaply
