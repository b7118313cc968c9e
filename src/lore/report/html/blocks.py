"""The parts of a page as plain values: paragraphs, bars and tables. The template turns them into markup."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

SHOWN_BARS = 60  # of a block
SHOWN_ROWS = 1_000  # of a table
_SHORT = 24  # characters of a text that is not wrapped


class BarPart(NamedTuple):
    """A part of a bar; parts of one style have the same words in all bars of a block."""

    style: str
    size: float
    words: str


class PageBar(NamedTuple):
    """A bar. All bars of a block have one scale."""

    label: str
    parts: tuple[BarPart, ...]

    @property
    def size(self) -> float:
        """The sum of its parts."""
        return sum(part.size for part in self.parts)


class PageTable(NamedTuple):
    """A table."""

    heads: tuple[str, ...]
    rows: Sequence[tuple[str, ...]]

    @property
    def styles(self) -> list[str]:
        """Return the style of each column: n for figures, s for short texts, else none."""
        columns = [[row[column] for row in self.rows] for column in range(len(self.heads))]
        return [
            "n" if all(map(_is_figure, cells)) else "s" if max(map(len, cells)) <= _SHORT else "" for cells in columns
        ]


class PageBlock(NamedTuple):
    """A part of a page: a heading, paragraphs, bars and a table."""

    title: str = ""
    lines: tuple[str, ...] = ()  # indents are kept
    bars: tuple[PageBar, ...] = ()
    table: PageTable | None = None
    folded: bool = False  # it is closed until it is clicked


class Intro(NamedTuple):
    """The beginning of a page: the answer of a command, before its sessions."""

    title: str
    heading: str
    lead: str
    blocks: tuple[PageBlock, ...] = ()


def table_of(cells: Sequence[tuple[str, ...]]) -> PageTable | None:
    """Return cells as a table; the first row has the heads. None without other rows."""
    return PageTable(cells[0], cells[1 : SHOWN_ROWS + 1]) if len(cells) > 1 else None


def key_of(bars: Sequence[PageBar]) -> dict[str, str]:
    """Return the styles in bars with their words."""
    return {part.style: part.words for bar in bars for part in bar.parts if part.words}


def _is_figure(text: str) -> bool:
    return not text or text[-1:] in "%–-" or text.removeprefix("at least ").lstrip("<+-~$")[:1].isdigit()
