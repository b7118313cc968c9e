"""What a page is made of: paragraphs, tables and strips, before they are markup.

In: figures and texts. Out: values that the templates write. A strip is a bar of parts on one scale.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple, TypeAlias

from lore.model.fact import format_money

WIDTH = 1000  # units of a strip


class PageLink(NamedTuple):
    """Text that leads to a place in the page, or to a page beside it; lore makes the address, no recording does."""

    text: str
    href: str

    @property
    def style(self) -> str:
        """No colour stands before it."""
        return ""


class Swatch(NamedTuple):
    """Text behind the colour that it has in a strip."""

    text: str
    style: str


Cell: TypeAlias = str | PageLink | Swatch


class PageTable(NamedTuple):
    """A table; `numbers` are the columns that hold figures, `sortable`: a click on a head sorts it."""

    heads: tuple[str, ...]
    rows: list[tuple[Cell, ...]]
    numbers: frozenset[int] = frozenset()
    sortable: bool = False


class StripPart(NamedTuple):
    """A part of a strip: where it begins and how wide it is, in units; what it is."""

    style: str
    begin: int
    width: int
    text: str


class Strip(NamedTuple):
    """A bar: its label, its parts, the same in words."""

    label: str
    parts: list[StripPart]
    words: str


class PageBlock(NamedTuple):
    """A part of a page: a heading, paragraphs, bars, a table; what is `folded` is opened by a click.

    `compact` bars have their labels beside them.
    """

    title: str = ""
    lines: tuple[str, ...] = ()
    strips: tuple[Strip, ...] = ()
    table: PageTable | None = None
    folded: bool = False
    folded_table: bool = False
    compact: bool = False


def strip(label: str, parts: Iterable[tuple[str, float, str]], whole: float, words: str = "") -> Strip:
    """Lay out parts (style, size, text) behind one another; `whole` is the size of the full width."""
    found: list[StripPart] = []
    done = 0.0
    for style, size, text in parts:
        begin, done = done, done + max(0.0, size)
        places = [round(min(1.0, part / whole) * WIDTH) if whole else 0 for part in (begin, done)]
        if places[1] > places[0]:
            found.append(StripPart(style, places[0], places[1] - places[0], text))
    return Strip(label, found, words)


def count(number: int | None) -> str:
    """Return a count with its thousands parted; a dash where it is unknown."""
    return "–" if number is None else f"{number:,}"


def amount_of(dollars: float | None) -> str:
    """Return an amount; a dash where it is unknown."""
    return "–" if dollars is None else format_money(dollars)
