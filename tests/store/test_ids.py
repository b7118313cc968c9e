"""Which ids and lines are taken, and which refused with a hint."""

import pytest

from helpers.each import each
from lore.formats.bounds import LONGEST, MOST_VALUES
from lore.store.base import StoreError
from lore.store.lines import good_id, good_line
from lore.testing.stores.odd import NO_IDS


@each(NO_IDS)
def test_what_cannot_is_refused(text):
    with pytest.raises(StoreError) as caught:
        good_id(text, "project id")
    assert "is no project id" in str(caught.value)
    assert "512 characters" in caught.value.hint


def test_what_is_refused_can_be_printed():
    with pytest.raises(StoreError) as caught:
        good_id("a\ud800" * 300)
    str(caught.value).encode()


def test_a_line_may_be_as_long_as_readers_take_it():
    longest = b'{"a":"' + b"x" * (LONGEST - 8) + b'"}'
    assert good_line(longest) == longest
    with pytest.raises(StoreError, match="12 MiB"):
        good_line(longest + b" ")


def test_a_crowded_line_is_refused():
    with pytest.raises(StoreError, match="values"):
        good_line(b'{"a":[' + b"1234," * (MOST_VALUES + 1) + b"1]}")
