"""Tables of text that fit a terminal: columns are left out, rows stand on several lines, words stay whole.

Rules: a column is as wide as its widest cell; in a pipe every column stands, on one line. Where a terminal is too
narrow, columns that may go are left out first, then a row goes on below, indented, at the same columns in every row;
where that takes more than two lines, cells follow one another like words. The last column may be a sentence or a path:
it is wrapped in its place, or stands below its row.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence
from typing import NamedTuple, TypeAlias

from rich.cells import cell_len

from lore.report.console import Console, StyledLine, columns_of, hang, joined, line

Cell: TypeAlias = str | tuple[str, str]
_GAP = 2  # columns between two cells
_DEEPER = 4  # columns, of what stands below a row's first line
_LINES = 2  # of a row in columns
_SENTENCE = 24  # columns that a sentence is given beside the others


class TableColumn(NamedTuple):
    """A column: its head, whether its cells stand at its right end; the highest `drop` goes first, 0 never."""

    head: str
    right: bool = False
    drop: int = 0


class TextTable:
    """Lays rows out; `rows` are all that will be written. With `flows` the last column is text of any length."""

    def __init__(
        self, columns: Sequence[TableColumn], rows: Iterable[Sequence[Cell]], out: Console, *, flows: bool = True
    ) -> None:  # fmt: skip
        self._columns, self._out, self._flows = columns, out, flows
        texts = [[line(cell).plain for cell in row] for row in ([column.head for column in columns], *rows)]
        self._widths = [max(map(cell_len, cells)) for cells in zip(*texts, strict=True)]
        room = columns_of(out)
        shown = list(range(len(columns) - flows))
        self._beside = True
        if room is not None:
            beside = self._beside_needs([text[-1] for text in texts]) if flows else 0
            stays = [number for number in shown if not columns[number].drop]
            self._beside = self._wide(stays) + beside <= room
            needed = beside if self._beside else 0
            for number in sorted(set(shown) - set(stays), key=lambda number: -columns[number].drop):
                if self._wide(shown) + needed > room:
                    shown.remove(number)
        self._lines = self._packed(shown, room)

    def write_head(self) -> None:
        """Write the heads of the columns."""
        self.write([column.head for column in self._columns], "bold")

    def write(self, cells: Sequence[Cell], style: str = "") -> None:
        """Write a row; a style of the row holds where a cell has none of its own."""
        if len(self._lines) > _LINES:
            words = [_styled(cell, style) for cell in cells]
            hang(self._out, joined(" " * _GAP, [word for word in words if word.plain]), _DEEPER)
            return
        rows = [self._line(number, cells, style) for number in range(len(self._lines))]
        flowing = _styled(cells[-1], style) if self._flows else line()
        indent = _DEEPER
        if flowing.plain and self._beside:
            indent = cell_len(rows[-1].plain) + _GAP
            rows[-1].append(" " * _GAP).extend(flowing)
        elif flowing.plain:
            rows.append(line(" " * _DEEPER).extend(flowing))
        for row in rows[:-1]:
            self._out.print(row.stripped())
        hang(self._out, rows[-1].stripped(), indent)

    def _line(self, number: int, cells: Sequence[Cell], style: str) -> StyledLine:
        row = line(" " * _DEEPER if number else "")
        for place, column in enumerate(self._lines[number]):
            text = _styled(cells[column], style)
            space = line(" " * (self._widths[column] - cell_len(text.plain)))
            row.append(" " * _GAP if place else "")
            row.extend(space.extend(text) if self._columns[column].right else text.extend(space))
        return row

    def _beside_needs(self, cells: Sequence[str]) -> int:
        """Return how many columns the last cells need to stand beside the others: their longest word, some of each."""
        word = max((cell_len(word) for text in cells for word in text.split()), default=0)
        return max(word, min(max(map(cell_len, cells), default=0), _SENTENCE)) + _GAP

    def _wide(self, columns: Sequence[int]) -> int:
        return sum(self._widths[column] for column in columns) + _GAP * max(len(columns) - 1, 0)

    def _packed(self, columns: Sequence[int], room: int | None) -> list[list[int]]:
        """Share columns out to lines, the last ones first: what names a row stands alone rather than its numbers."""
        lines: list[list[int]] = [[]]
        for column in reversed(columns):
            if room is not None and lines[0] and self._wide([column, *lines[0]]) > room - _DEEPER:
                lines.insert(0, [])
            lines[0].insert(0, column)
        return lines if room is None or self._wide(columns) > room else [list(columns)]


def _styled(cell: Cell, style: str) -> StyledLine:
    return line((cell, style) if isinstance(cell, str) else cell)


def write_table(
    columns: Sequence[TableColumn],
    rows: Sequence[Sequence[Cell]],
    out: Console,
    *,
    head: bool = True,
    flows: bool = True,
) -> None:
    """Write a whole table; see `TextTable`."""
    table = TextTable(columns, rows, out, flows=flows)
    if head:
        table.write_head()
    for row in rows:
        table.write(row)


def aligned(rows: Sequence[Sequence[str]], right: Container[int]) -> list[str]:
    """Return rows as lines of columns, each as wide as its longest cell; `right` are those of numbers."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(
            cell.rjust(width) if place in right else cell.ljust(width)
            for place, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]
