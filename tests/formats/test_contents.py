"""Texts of recorded contents."""

from __future__ import annotations

import json
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lore.formats import contents

ALPHABET = st.sampled_from(["a", "\u00e9", "\U0001f600", "\n", '"', "\\", "\u2028", " ", "u", "0"])


@given(st.text(ALPHABET, max_size=60), st.integers(1, 9))
def test_a_text_that_is_taken_in_pieces_is_the_whole_text(text, size):
    """It was cut at spaces alone, so a long text without any took four bytes for each of its characters."""
    before, contents._PIECE = contents._PIECE, size
    try:
        raw = json.dumps(text + "\u00e9", ensure_ascii=False).encode()
        assert contents.unescaped(raw) == (text + "\u00e9").encode()
    finally:
        contents._PIECE = before


def test_a_brotli_that_takes_no_bound_is_told_and_not_asked(monkeypatch):
    """Before 1.2 it has no `output_buffer_limit`: that ended a user's test run with a TypeError."""
    unpacker = SimpleNamespace(process=lambda data: data, is_finished=lambda: True)
    library = SimpleNamespace(Decompressor=lambda: unpacker, error=ValueError)
    monkeypatch.setattr(contents, "_installed", lambda *names: library)
    with pytest.raises(contents.ContentError, match=r"brotli>=1\.2"):
        contents._unpacked_brotli(b"x")
