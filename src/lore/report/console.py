"""The terminal: lines of safe text in colours, wrapped between words.

Colour is decided by the flag, then NO_COLOR, then FORCE_COLOR, then whether the stream is a terminal. Text from
recordings is data: it holds no markup, and invisible characters are shown by name. Lines are wrapped only on a
terminal; in a pipe or a file a sentence is one line, so that it can be searched. A word wider than the terminal (a
path, a command) is not broken, so that it can be copied.

rich draws on terminals and in colours; importing it takes 20 ms (measured 2026-11-27), which plain text does not need.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, TextIO, TypeAlias

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

    on_table: Callable[[Sequence[tuple[str, ...]]], None] | None = None  # receives the cells of tables instead

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
