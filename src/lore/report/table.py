"""Tables without borders. A row is one line, unless the terminal is too narrow for it: then rich wraps its cells."""

from __future__ import annotations

from collections.abc import Container, Sequence
from typing import NamedTuple, TypeAlias

from lore.report.console import Console, line, width_of
from lore.report.plain import escape_commands, visible

Cell: TypeAlias = str | tuple[str, str]  # text, or text and its style
_GAP = 2  # columns between two cells
_SENTENCE = 20  # columns in which a sentence can be read


class TableColumn(NamedTuple):
    """A column of a table. The last column is wrapped where a terminal is narrow, unless it holds numbers."""

    head: str
    right: bool = False  # its cells are numbers
    drop: int = 0  # on a narrow terminal the column with the highest is left out first; 0: never
    wraps: bool = False  # its cells are sentences


def write_table(
    columns: Sequence[TableColumn], rows: Sequence[Sequence[Cell]], out: Console, *, notes: Sequence[Sequence[str]] = ()
) -> None:  # fmt: skip
    """Write a table; `notes` are whole lines to write after each row, such as paths that can be copied.

    Texts are data: they hold no markup, and invisible characters are shown.
    """
    if out.on_table is not None:
        out.on_table([tuple([column.head for column in columns]), *(tuple(map(_text, row)) for row in rows)])
        return
    room, places = out.room, list(range(len(columns)))
    widths = [
        max(map(width_of, (column.head, *(visible(_text(row[place])) for row in rows))))
        for place, column in enumerate(columns)
    ]
    is_wrapped = [column.wraps or (column is columns[-1] and not column.right) for column in columns]

    def least_width() -> int:
        parts = (min(widths[place], _SENTENCE) if is_wrapped[place] else widths[place] for place in places)
        return sum(parts) + _GAP * (len(places) - 1)

    droppable = sorted((place for place in places if columns[place].drop), key=lambda place: columns[place].drop)
    while room is not None and droppable and least_width() > room:
        places.remove(droppable.pop())
    fixed_widths = {place: widths[place] for place in places if not is_wrapped[place]}
    if room is not None and least_width() > room:
        fixed_widths = {}  # every cell is wrapped
    heads: Sequence[Cell] = [(column.head, "bold") for column in columns]
    is_narrow = room is not None and sum(widths[place] + _GAP for place in places) - _GAP > room
    if is_narrow and not notes:
        _draw(columns, places, fixed_widths, [heads, *rows], out)
    else:
        for row, lines in zip([heads, *rows], [(), *(notes or [()] * len(rows))], strict=True):
            if is_narrow:
                _draw(columns, places, fixed_widths, [row], out)
            else:
                _write_row(columns, places, widths, row, out)
            for text in lines:
                out.print(line((text, "dim")))
    if omitted := [column.head for place, column in enumerate(columns) if place not in places]:
        out.print(line((f"not shown at this width: {', '.join(omitted)}", "dim")))


def _text(cell: Cell) -> str:
    return cell if isinstance(cell, str) else cell[0]


def _write_row(
    columns: Sequence[TableColumn], places: Sequence[int], widths: Sequence[int], row: Sequence[Cell], out: Console
) -> None:  # fmt: skip
    """Write a row whose columns have these widths."""
    parts: list[tuple[str, str]] = []
    for place in places:
        ((text, style),) = line(row[place])
        padding = " " * (widths[place] - width_of(text)), ""
        parts += [padding, (text, style)] if columns[place].right else [(text, style), padding]
        parts.append((" " * _GAP, ""))
    while parts and not parts[-1][0].strip():
        parts.pop()
    out.print_whole(parts)


def _draw(
    columns: Sequence[TableColumn], places: Sequence[int], widths: dict[int, int], rows: Sequence[Sequence[Cell]],
    out: Console,
) -> None:  # fmt: skip
    """Draw rows on a narrow terminal; columns in `widths` are never wrapped, and have this width in every table."""
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, show_header=False, pad_edge=False, padding=(0, _GAP, 0, 0))
    for place in places:
        table.add_column(
            justify="right" if columns[place].right else "left", overflow="fold", no_wrap=place in widths,
            width=widths.get(place),
        )  # fmt: skip
    for row in rows:
        table.add_row(*(Text.assemble(*line(row[place])) for place in places))
    with out.rich.capture() as captured:
        out.rich.print(table)
    for text in captured.get().splitlines():
        out.file.write(escape_commands(text).rstrip() + "\n")


def align_columns(rows: Sequence[Sequence[str]], right: Container[int]) -> list[str]:
    """Return rows as lines of columns, each as wide as its longest cell; `right` are those of numbers."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(
            cell.rjust(width) if place in right else cell.ljust(width)
            for place, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]
