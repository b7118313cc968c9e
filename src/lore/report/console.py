"""The terminal: lines of safe text in colours, wrapped between words, and tables without borders.

Colour is decided by the flag, then NO_COLOR, then FORCE_COLOR, then whether the stream is a terminal. Text from
recordings is data: it holds no markup, and invisible characters are shown by name. Lines are wrapped only on a
terminal; in a pipe or a file a sentence is one line, so that it can be searched. A word wider than the terminal (a
path, a command) is not broken, so that it can be copied. A row of a table is one line, unless the terminal is too
narrow for it: then rich wraps its cells.

rich draws on terminals and in colours; importing it takes 20 ms (measured 2026-11-27), which plain text does not need.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple, TextIO, TypeAlias

from lore.model.deferred import pattern
from lore.report.plain import escape_commands, visible

if TYPE_CHECKING:
    import rich.console

WIDTH = 100  # columns without a terminal: the same text on every machine
_WORD = pattern(r"\s*\S+\s*")
_DEEPER = 4  # columns, of what follows the first line
_NARROW = 24  # columns that text keeps however deep it is indented
Line: TypeAlias = list[tuple[str, str]]  # parts of a line of safe text, each with its style


def wants_colour(flag: bool | None, environment: Mapping[str, str], *, terminal: bool) -> bool:
    """Return whether to write colours: by the flag, else NO_COLOR, FORCE_COLOR, or whether it is a terminal."""
    if flag is not None:
        return flag
    if environment.get("NO_COLOR"):
        return False
    return bool(environment.get("FORCE_COLOR")) or terminal


class Console:
    """Writes lines to a stream: without colour plain text, and to a `terminal` lines that keep to its width.

    `width`: of the terminal; None: ask it.
    """

    on_table: Callable[[Sequence[TableColumn], Sequence[tuple[str, ...]]], None] | None = None  # takes tables instead

    def __init__(self, file: TextIO, *, colour: bool, terminal: bool, width: int | None = None) -> None:
        self.file, self._colour, self._terminal, self._width = file, colour, terminal, width

    @cached_property
    def rich(self) -> rich.console.Console:
        """The same stream as a console of rich, for Markdown and whatever a plug-in's report draws with it."""
        from rich.console import Console as RichConsole  # noqa: PLC0415

        return RichConsole(
            file=self.file, force_terminal=self._colour, color_system="standard" if self._colour else None,
            no_color=not self._colour, width=self._width if self._terminal else WIDTH, highlight=False, markup=False,
            emoji=False, legacy_windows=False,
        )  # fmt: skip

    @property
    def room(self) -> int | None:
        """The columns of the terminal; None for a pipe or a file."""
        return self.rich.width if self._terminal else None

    @property
    def is_page(self) -> bool:
        """Whether the lines become part of a page, whose readers cannot give options."""
        return self.on_table is not None

    def hint(self, text: str, option: str) -> None:
        """Print a remark, and on a terminal which option shows more."""
        self.print(line((text if self.is_page else f"{text} ({option})", "dim")))

    def print(self, text: Line | str = "", *, indent: int | None = None) -> None:
        """Print a line; if it is too long for a terminal, wrap it.

        `indent`: columns before the following lines; None: four more than before the first.
        """
        parts = line(text) if isinstance(text, str) else text
        room, plain = self.room, plain_text(parts)
        if room is None or width_of(plain) <= room:
            self.print_whole(parts)
            return
        from rich.text import Text  # noqa: PLC0415

        indent = len(plain) - len(plain.lstrip()) + _DEEPER if indent is None else indent
        full_text = Text.assemble(*parts)
        head_width = max(indent, width_of(plain[:indent]))  # wide characters of the head take two columns
        lines = full_text[indent:].divide(_breaks(plain[indent:], max(room - head_width, _NARROW)))
        for number, part in enumerate(lines):
            wrapped = (Text(" " * indent) if number else full_text[:indent]) + part
            wrapped.rstrip()
            self._draw(wrapped)

    def print_whole(self, text: Line) -> None:
        """Print a line as it is, however long: a command is copied from one line."""
        if not self._colour:
            # Parts that are safe one by one may form a command of a CI runner when joined.
            self.file.write(escape_commands(plain_text(text)) + "\n")
            return
        from rich.text import Text  # noqa: PLC0415

        self._draw(Text.assemble(*text))

    def _draw(self, text: rich.console.RenderableType) -> None:
        self.rich.print(text, soft_wrap=True)


def line(*parts: str | tuple[str, str]) -> Line:
    """Join text and (text, style) pairs into one line of safe text."""
    return [(visible(part), "") if isinstance(part, str) else (visible(part[0]), part[1]) for part in parts]


def plain_text(parts: Line) -> str:
    """Return the text of a line without its styles."""
    return "".join([text for text, _ in parts])


def _breaks(text: str, columns: int) -> Iterator[int]:
    """Yield the places of the words at which a new line has to begin."""
    used = 0
    for word in _WORD.finditer(text):
        if used and used + width_of(word[0].rstrip()) > columns:
            yield word.start()
            used = 0
        used += width_of(word[0])


def width_of(text: str) -> int:
    """Return how many columns of a terminal a text takes."""
    if text.isascii() and text.isprintable():
        return len(text)
    from rich.cells import cell_len  # noqa: PLC0415 - slow to import, and most texts are plain

    return cell_len(text)


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
        out.on_table(columns, [tuple(map(_text, row)) for row in rows])
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
