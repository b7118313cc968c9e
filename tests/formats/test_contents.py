"""Texts of recorded contents."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from lore.formats import contents

ALPHABET = st.sampled_from(["a", "\u00e9", "\U0001f600", "\n", '"', "\\", "\u2028", " ", "u", "0"])


@given(st.text(ALPHABET, max_size=60), st.integers(1, 9))
def test_text_unescaped_in_pieces_is_whole(text, size):
    """It was cut at spaces alone, so a long text without any took four bytes for each of its characters."""
    before, contents._PIECE = contents._PIECE, size
    try:
        raw = json.dumps(text + "\u00e9", ensure_ascii=False).encode()
        assert contents.unescape(raw) == (text + "\u00e9").encode()
    finally:
        contents._PIECE = before
