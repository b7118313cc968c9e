"""Lines: cut at LF alone, offsets of the file, nothing lost."""

from time import process_time

import pytest

from helpers.each import each
from lore.formats.folders import read_members
from lore.formats.lines import Line, LineCutter, fault, is_crowded, read_records, split_joined


def cut(*pieces):
    lines = LineCutter()
    return [*(line for piece in pieces for line in lines.feed(piece)), *lines.finish()]


def test_only_line_feed_ends_a_line():
    data = 'a\u2028b\u0085c\rd\n{"x":1}\n'.encode()
    assert [line.data for line in cut(data)] == ["a\u2028b\u0085c\rd".encode(), b'{"x":1}']


def test_byte_order_mark_is_white_space():
    assert cut(b"\xef\xbb\xbf{}\n{}") == [Line(1, 3, b"{}"), Line(2, 6, b"{}", is_torn=True)]


def test_last_line_without_line_feed_is_torn():
    assert cut(b"a\nb") == [Line(1, 0, b"a"), Line(2, 2, b"b", is_torn=True)]


def test_any_cut_gives_the_same_lines():
    data = b"\xef\xbb\xbfone\r\n\ntwo\nthree"
    for place in range(len(data) + 1):
        assert cut(data[:place], data[place:]) == cut(data)


@each("line, pieces", [
    (b"{}{}", [b"{}", b"{}"]),
    (b'{"a":"}{"} \t[1]', [b'{"a":"}{"}', b"[1]"]),
    (b"{}", None),
    (b"{}{", None),
    (b"\xff{}{}", None),
    (b"", None),
])  # fmt: skip
def test_only_joined_values_are_split(line, pieces):
    assert split_joined(line) == pieces


@pytest.mark.parametrize(("line", "message"), [
    (b"{}", ""),
    (b"[1]", "not a JSON object"),
    (b"\xff", "bytes that are not UTF-8"),
    (b'"\xff\\ud83d"', "bytes that are not UTF-8"),
    (b'{"\\ud83d":' + b"[" * 100_000, "nested more than 1,000 levels deep"),
])  # fmt: skip
def test_fault_is_short(line, message):
    assert fault(line) == message


@pytest.fixture
def short(monkeypatch):
    """Lines of more than 5 bytes are too long."""
    monkeypatch.setattr(LineCutter, "limit", 5)


LONG = b"12345\n123456\n\xef\xbb\xbf{}\n1234567890123\n\nabc\n" + b"z" * 20


def test_too_long_line_has_no_bytes(short):
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


def test_commas_in_texts_crowd_no_record(monkeypatch):
    """Two million messages in 60 MB took 1.7 GB."""
    monkeypatch.setattr("lore.formats.lines.FEW_BYTES", 10)
    texts = (b'["' + b'a,\\",' * 50 + b'"]', b'["' + b"," * 99)
    for raw, is_one in ((b"[" + b"1," * 50 + b"1]", True), *((text, False) for text in texts)):
        assert is_crowded(raw, 49) is is_one
        assert not is_crowded(raw, 5000)


def test_blank_lines_of_a_pack_cost_their_bytes():
    began = process_time()
    assert len(list(read_members([b'{"lore_pack":"a","name":"b"}\n' + b"\n" * 2**20]))) == 1
    assert process_time() - began < 4  # 14 seconds when each blank line copied what followed it


def test_printed_record_after_lines_is_whole_in_pieces():
    data = b'{"a":1}\n{\n  "b": 2\n}\n'
    for cut in range(len(data) + 1):
        records = [line.data for lines in read_records([data[:cut], data[cut:]]) for line in lines]
        assert records == [b'{"a":1}', b'{\n  "b": 2\n}'], cut
