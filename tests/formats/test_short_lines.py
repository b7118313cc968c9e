"""Lines that are too short for a record: the first are read, the others counted, and none is lost without a word."""

from __future__ import annotations

import pytest

from hostile.formats import recording
from lore.formats import lines
from lore.formats.base import Read
from lore.formats.lines import Lines, ShortLines
from lore.formats.registry import READERS
from lore.model.codes import Code, Problem
from lore.recording.base import Problems, Recording
from lore.testing import everything

SHORT = (b"{", b"{}", b"1", b"x", b"\x00", b"\xff", b'{"a":1}', b"  [", b"\t", b"", b"\r", b"{}{}")


@pytest.fixture(autouse=True)
def few(monkeypatch):
    monkeypatch.setattr(lines, "SHORT_LINES", 3)


def crowd(kind: str, count: int = 40) -> bytes:
    """Return a recording with short lines of many kinds in its middle."""
    first, *rest = recording(kind).splitlines(keepends=True)
    return b"".join([first, *(SHORT[at % len(SHORT)] + b"\n" for at in range(count)), *rest])


def counts(line: bytes) -> bool:
    """Tell whether a line is one that may be counted only: short, not blank, and no object with a member."""
    text = line.strip(b" \t\r")
    return len(line) < 20 and bool(text) and not (text[:1] == b"{" and text[-1:] == b"}" and b'"' in text)


def passed(reads: list[Read]) -> list[Read]:
    return [read for read in reads if isinstance(read.value, Problem) and "shorter than" in read.value.message]


@pytest.mark.parametrize("kind", ["lore", "claude-code", "bodies", "proxy"])
def test_short_lines_behind_the_first_are_one_problem_that_counts_them(kind):
    data = crowd(kind)
    name = {"bodies": "bodies", "proxy": "proxy"}.get(kind, kind)
    found = passed(everything(READERS[name](), data))
    written = [(at, line) for at, line in enumerate(data.split(b"\n"), 1) if counts(line)]
    assert [(read.times, read.line) for read in found] == [(len(written) - 3, written[3][0])]
    assert data.split(b"\n")[found[0].line - 1] == data[found[0].byte :].partition(b"\n")[0]


def test_what_stands_behind_short_lines_is_read():
    """A document ends where too many of its entries are short; a log goes on."""
    whole = [read.value for read in everything(READERS["lore"](), recording("lore"))]
    among = [read.value for read in everything(READERS["lore"](), crowd("lore")) if not isinstance(read.value, Problem)]
    assert whole[-3:] == among[-3:]


@pytest.mark.parametrize("size", [1, 2, 7, 64])
@pytest.mark.parametrize("kind", ["lore", "claude-code", "bodies"])
def test_short_lines_are_counted_however_a_file_is_cut(kind, size):
    data, reader, found = crowd(kind), READERS[kind](), list[Read]()
    for start in range(0, len(data), size):
        found += reader.feed(data[start : start + size])
    assert [*found, *reader.finish()] == everything(READERS[kind](), data)


def test_a_run_counts_its_problems_and_shows_where_they_begin():
    data, problems = crowd("lore", 400), Problems()
    list(Recording("x", READERS["lore"](), iter([data]), problems).reads())
    short = sum(map(counts, data.split(b"\n")))
    assert problems.counts[Code.UNREADABLE_LINE, "x"] + problems.counts[Code.UNKNOWN_RECORD, "x"] >= short - 3
    assert any("shorter than 20 bytes" in problem.message for problem in problems.kept)


def test_a_short_record_is_kept_however_many_there_are():
    """Heartbeats (`{"kind":"ping"}`) were counted as unreadable from the thousandth on, and a conversion lost them."""
    log = recording("lore") + b'{"kind":"ping"}\n{\n {"a":1} \n{}\n' * 10
    found = everything(READERS["lore"](), log)
    assert sum(isinstance(read.value, Problem) and read.value.code == Code.UNKNOWN_RECORD for read in found) >= 10
    assert [read.times for read in passed(found)] == [10 * 2 - 3]


def test_there_is_an_end_to_short_records_too(monkeypatch):
    monkeypatch.setattr(lines, "SHORT_OBJECTS", 5)
    log = recording("lore") + b'{"kind":"ping"}\n' * 20
    found = everything(READERS["lore"](), log)
    assert [read.times for read in passed(found)] == [15]
    pieces, reader = [], READERS["lore"]()
    for at in range(0, len(log), 7):
        pieces += reader.feed(log[at : at + 7])
    assert [*pieces, *reader.finish()] == found


def test_lines_of_any_text_are_given_whatever_their_length():
    assert [line.data for line in Lines().feed(b"a\n" * 5)] == [b"a"] * 5
    assert [line.data for line in Lines(short=ShortLines(2)).feed(b"a\n" * 5)] == [b"a"] * 2


def test_blank_lines_are_no_short_ones():
    short = ShortLines(0)
    assert Lines(short=short).feed(b"\n \n\t\r\n" * 9 + b"x\n \ny\n" + b" " * 30 + b"\n") == []
    assert (short.passed, short.number, short.byte) == (2, 28, 54)
