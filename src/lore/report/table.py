"""Tables on a terminal, drawn by rich without borders. In a pipe or a file each row is one line, whatever its width."""

from __future__ import annotations

from collections.abc import Container, Sequence
from typing import NamedTuple, TypeAlias

from lore.report.console import Console, columns_of, width_of
from lore.report.plain import uncommanded, visible

Cell: TypeAlias = str | tuple[str, str]  # text, or text and its style
_GAP = 2  # columns between two cells
_WIDE = 10_000  # columns of a pipe
_SENTENCE = 24  # columns in which a sentence can be read


class TableColumn(NamedTuple):
    """A column of a table. The last column is wrapped where a terminal is narrow, unless it holds numbers."""

    head: str
    right: bool = False  # its cells are numbers
    drop: int = 0  # on a narrow terminal the column with the highest is left out first; 0: never
    wraps: bool = False  # its cells are sentences


def write_table(
    columns: Sequence[TableColumn], rows: Sequence[Sequence[Cell]], out: Console, *, head: bool = True
) -> None:  # fmt: skip
    """Write a table. Texts are data: they hold no markup, and invisible characters are shown."""
    from rich.table import Table
    from rich.text import Text

    shown, room = _columns_that_fit(columns, rows, out), columns_of(out)
    fits = room is None or _least_width(columns, rows, shown) <= room
    table = Table(box=None, show_header=head, header_style="", pad_edge=False, padding=(0, _GAP, 0, 0))
    for place in shown:
        column = columns[place]
        table.add_column(
            Text(column.head, "bold"), justify="right" if column.right else "left", overflow="fold",
            no_wrap=fits and not _is_wrapped(columns, place),
        )  # fmt: skip
    for row in rows:
        cells = [(cell, "") if isinstance(cell, str) else cell for cell in (row[place] for place in shown)]
        table.add_row(*(Text(visible(text), style) for text, style in cells))
    terminal = out.rich
    terminal.width = room or _WIDE
    with terminal.capture() as captured:
        terminal.print(table)
    terminal.width = out.width
    for text in captured.get().splitlines():
        out.file.write(uncommanded(text).rstrip() + "\n")


def _is_wrapped(columns: Sequence[TableColumn], place: int) -> bool:
    return columns[place].wraps or (place == len(columns) - 1 and not columns[place].right)


def _columns_that_fit(
    columns: Sequence[TableColumn], rows: Sequence[Sequence[Cell]], out: Console
) -> list[int]:  # fmt: skip
    """Return the places of the columns for which the terminal has room."""
    room, shown = columns_of(out), list(range(len(columns)))
    droppable = sorted((place for place in shown if columns[place].drop), key=lambda place: columns[place].drop)
    while room is not None and droppable and _least_width(columns, rows, shown) > room:
        shown.remove(droppable.pop())
    return shown


def _least_width(columns: Sequence[TableColumn], rows: Sequence[Sequence[Cell]], shown: Sequence[int]) -> int:
    """Return the width of the table if sentences are wrapped and nothing else is."""
    widths: list[int] = []
    for place in shown:
        texts = [
            columns[place].head,
            *(cell if isinstance(cell, str) else cell[0] for cell in (r[place] for r in rows)),
        ]
        longest = max(width_of(visible(text)) for text in texts)
        widths.append(min(longest, _SENTENCE) if _is_wrapped(columns, place) else longest)
    return sum(widths) + _GAP * (len(shown) - 1)


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
