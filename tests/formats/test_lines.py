"""Lines: cut at LF alone, offsets of the file, nothing lost."""

from __future__ import annotations

from time import process_time

import pytest

from lore.formats.bounds import is_crowded
from lore.formats.folders import read_members
from lore.formats.lines import Line, LineCutter, fault, split_joined
from lore.model.limits import RECORD_BYTES


def cut(*pieces):
    lines = LineCutter()
    return [*(line for piece in pieces for line in lines.feed(piece)), *lines.finish()]


def test_only_a_line_feed_ends_a_line():
    data = 'a\u2028b\u0085c\rd\n{"x":1}\n'.encode()
    assert [line.data for line in cut(data)] == ["a\u2028b\u0085c\rd".encode(), b'{"x":1}']


def test_blank_lines_are_counted_and_left_out():
    assert cut(b"\n \r\n{}\n") == [Line(3, 4, b"{}")]


def test_a_byte_order_mark_at_the_start_is_white_space():
    assert cut(b"\xef\xbb\xbf{}\n{}") == [Line(1, 3, b"{}"), Line(2, 6, b"{}", is_torn=True)]


def test_last_line_without_line_feed_is_torn():
    assert cut(b"a\nb") == [Line(1, 0, b"a"), Line(2, 2, b"b", is_torn=True)]


def test_any_cut_gives_the_same_lines():
    data = b"\xef\xbb\xbfone\r\n\ntwo\nthree"
    for place in range(len(data) + 1):
        assert cut(data[:place], data[place:]) == cut(data)


@pytest.mark.parametrize(
    ("line", "pieces"),
    [
        (b"{}{}", [b"{}", b"{}"]),
        (b'{"a":"}{"} \t[1]', [b'{"a":"}{"}', b"[1]"]),
        (b"{}", None),
        (b"{}{", None),
        (b"\xff{}{}", None),
        (b"", None),
    ],
)
def test_joined_values_are_cut_apart_and_nothing_else_is(line, pieces):
    assert split_joined(line) == pieces


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (b"{}", ""),
        (b"[1]", "not a JSON object"),
        (b"\xff", "bytes that are not UTF-8"),
        (b'"\xff\\ud83d"', "bytes that are not UTF-8"),
        (b'{"\\ud83d":' + b"[" * 100_000, "nested more than 1,000 levels deep"),
    ],
)
def test_a_fault_is_said_in_a_few_words(line, said):
    assert fault(line) == said


def test_the_fault_of_broken_json_is_one_short_line():
    assert 0 < len(fault(b'{"a":')) < 100


@pytest.fixture
def short(monkeypatch):
    """Lines of more than 5 bytes are too long."""
    monkeypatch.setattr(LineCutter, "limit", 5)


LONG = b"12345\n123456\n\xef\xbb\xbf{}\n1234567890123\n\nabc\n" + b"z" * 20


def test_a_line_that_is_too_long_is_given_without_its_bytes(short):
    assert cut(LONG) == [
        Line(1, 0, b"12345"),
        Line(2, 6, b""),
        Line(3, 13, b"\xef\xbb\xbf{}"),
        Line(4, 19, b""),
        Line(6, 34, b"abc"),
        Line(7, 38, b""),
    ]


def test_any_cut_passes_over_the_same_lines(short):
    for first in range(len(LONG) + 1):
        for second in range(first, len(LONG) + 1):
            assert cut(LONG[:first], LONG[first:second], LONG[second:]) == cut(LONG), (first, second)


def test_a_line_of_the_greatest_length_is_kept():
    data = b"x" * RECORD_BYTES + b"\n" + b"y" * (RECORD_BYTES + 1) + b"\n"
    assert [len(line.data) for line in LineCutter().feed(data)] == [RECORD_BYTES, 0]


def test_the_fault_of_a_line_without_bytes_is_its_length():
    assert fault(b"") == "longer than 12 MiB"


def test_a_record_is_crowded_by_values_and_not_by_the_commas_of_its_texts(monkeypatch):
    """Two million messages in 60 MB took 1.7 GB."""
    monkeypatch.setattr("lore.formats.bounds.FEW_BYTES", 10)
    texts = (b'["' + b'a,\\",' * 50 + b'"]', b'["' + b"," * 99)
    for raw, is_one in ((b"[" + b"1," * 50 + b"1]", True), *((text, False) for text in texts)):
        assert is_crowded(raw, 49) is is_one
        assert not is_crowded(raw, 5000)


def test_blank_lines_of_a_pack_cost_their_bytes():
    began = process_time()
    assert len(list(read_members([b'{"lore_pack":"a","name":"b"}\n' + b"\n" * 2**20]))) == 1
    assert process_time() - began < 4  # 14 seconds when each blank line copied what followed it
