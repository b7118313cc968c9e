"""What was measured of a cache beside what was predicted, turn by turn: bars on one scale, and the same as a table.

In: prompts with what was read of them. Out: bars and tables of a page.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from lore.report.html.blocks import Cell, PageTable, Strip, strip
from lore.report.plain import counted

DRAWN, LISTED = 60, 1_000  # rows that are bars, and that are rows of a table


class ReadRow(NamedTuple):
    """What was read of prompts of so many tokens: as it was measured, and as it was predicted (None: unknown)."""

    name: str
    tokens: int
    measured: int | None
    predicted: int | None


def measured_strips(rows: Sequence[ReadRow], word: str) -> tuple[Strip, ...]:
    """Draw two bars a row: what was measured, and what was predicted of the same prompt."""
    most = max((row.tokens for row in rows[:DRAWN]), default=0)
    return tuple([
        read_bar(f"{row.name}, {kind}", row.tokens, read, most)
        for row in rows[:DRAWN]
        for kind, read in ((word, row.measured), ("predicted", row.predicted))
        if read is not None and row.tokens
    ])  # fmt: skip


def read_bar(label: str, tokens: int, read: int, most: int) -> Strip:
    """Return a bar: what was read of so many tokens, on a scale up to `most`."""
    parts = (("read", float(min(read, tokens)), "read"), ("uncached", float(max(0, tokens - read)), "not read"))
    return strip(label, parts, float(most), f"{read:,} of {tokens:,} tokens read")


def table_of_cells(cells: Sequence[tuple[str, ...]]) -> PageTable:
    """Return rows of cells as a table, the first row its heads; columns of figures are aligned as such."""
    heads, *rows = cells
    figures = [column for column in range(1, len(heads)) if all(_is_figure(row[column]) for row in rows)]
    found: list[tuple[Cell, ...]] = [*rows]
    return PageTable(heads, found, frozenset(figures), sortable=len(rows) > 1)


def _is_figure(text: str) -> bool:
    return not text or text[-1:] in "%–" or text.lstrip("+-")[:1].isdigit()


def rows_not_drawn(rows: int) -> Iterator[str]:
    """Say how many rows are drawn if not all are."""
    if rows > DRAWN:
        yield f"the first {counted(DRAWN, 'row')} of {rows:,} are drawn: --json has all"
