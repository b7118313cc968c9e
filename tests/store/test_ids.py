"""Which ids and lines are taken, and which refused with a hint."""

import pytest

from helpers.each import each
from lore.formats.bounds import LONGEST, MOST_VALUES
from lore.model.canonical import encode
from lore.store.base import StoreError
from lore.store.lines import good_id, good_line, good_notes, read_header
from lore.testing.stores.odd import IDS, LINES, NO_IDS, NO_LINES


@each(IDS)
def test_what_can_be_printed_is_an_id(text):
    assert good_id(text) == text


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


@each(LINES)
def test_a_line_is_returned_as_it_is(line):
    assert good_line(line) == line


@each(NO_LINES)
def test_what_no_reader_takes_is_refused(line):
    with pytest.raises(StoreError, match="no line of a log") as caught:
        good_line(line)
    assert caught.value.hint


def test_a_line_may_be_as_long_as_readers_take_it():
    longest = b'{"a":"' + b"x" * (LONGEST - 8) + b'"}'
    assert good_line(longest) == longest
    with pytest.raises(StoreError, match="12 MiB"):
        good_line(longest + b" ")


def test_a_crowded_line_is_refused():
    with pytest.raises(StoreError, match="values"):
        good_line(b'{"a":[' + b"1234," * (MOST_VALUES + 1) + b"1]}")


def test_a_line_is_copied():
    mine = bytearray(b"{}")
    assert type(good_line(mine)) is bytes


def test_notes_that_not_every_store_can_keep_are_refused():
    good_notes(None, None)
    good_notes("u1", "2026-01-01T00:00:00Z", None)
    with pytest.raises(StoreError, match="leaf id"):
        good_notes("")
    with pytest.raises(StoreError, match="time"):
        good_notes(None, "a\0b")


def test_a_time_that_not_every_store_can_keep_is_left_out():
    times = ("now", None, "a\0b", "")
    headers = [read_header(encode({"kind": "session_started", "session_id": "s", "at": at})) for at in times]
    assert [header.at for header in headers] == ["now", None, None, None]
