"""Lines: cut at LF alone, offsets of the file, nothing lost."""

from __future__ import annotations

import pytest

from lore.formats.lines import Line, Lines, fault, split_joined


def cut(*pieces):
    lines = Lines()
    return [*(line for piece in pieces for line in lines.feed(piece)), *lines.finish()]


def test_only_a_line_feed_ends_a_line():
    data = 'a\u2028b\u0085c\rd\n{"x":1}\n'.encode()
    assert [line.data for line in cut(data)] == ["a\u2028b\u0085c\rd".encode(), b'{"x":1}']


def test_blank_lines_are_counted_and_left_out():
    assert cut(b"\n \r\n{}\n") == [Line(3, 4, b"{}")]


def test_a_byte_order_mark_at_the_start_is_white_space():
    assert cut(b"\xef\xbb\xbf{}\n{}") == [Line(1, 3, b"{}"), Line(2, 6, b"{}")]


def test_the_last_line_needs_no_end():
    assert cut(b"a\nb") == [Line(1, 0, b"a"), Line(2, 2, b"b")]


def test_any_cut_gives_the_same_lines():
    data = b"\xef\xbb\xbfone\r\n\ntwo\nthree"
    for place in range(len(data) + 1):
        assert cut(data[:place], data[place:]) == cut(data)


def test_what_is_pending_is_one_piece():
    lines = Lines()
    for piece in (b"a", b"", b"b", b"c"):
        lines.feed(piece)
    assert lines.pending == b"abc"


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
        (b'{"\\ud83d":' + b"[" * 100_000, "nested too deeply"),
    ],
)
def test_a_fault_is_said_in_a_few_words(line, said):
    assert fault(line) == said


def test_the_fault_of_broken_json_is_one_short_line():
    assert 0 < len(fault(b'{"a":')) < 100
