"""The terminal: lines of safe text in colours, wrapped between words or cut to the width of the terminal.

Colour is decided by the flag, then NO_COLOR, then FORCE_COLOR, then whether the stream is a terminal. Text from
recordings is data: it holds no markup, and invisible characters are shown by name. Lines are wrapped only on a
terminal; in a pipe or a file a sentence is one line, so that it can be searched. A word wider than the terminal (a
path, a command) is not broken, so that it can be copied.

rich is imported for Markdown, screens and progress bars only: importing its console takes 20 ms (measured 2026-11-27).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING, TextIO

from lore.model.deferred import pattern
from lore.report.plain import uncommanded, visible

if TYPE_CHECKING:
    import rich.console

WIDTH = 100  # columns without a terminal: the same text on every machine
_WORD = pattern(r"\s*\S+\s*")
_DEEPER = 4  # columns, of what follows the first line
_NARROW = 24  # columns that text keeps however deep it is indented
_STYLES = {
    "bold": "1", "dim": "2", "italic": "3", "underline": "4", "red": "31", "green": "32", "yellow": "33", "blue": "34",
    "magenta": "35", "cyan": "36",
}  # fmt: skip


def wants_colour(flag: bool | None, environment: Mapping[str, str], *, terminal: bool) -> bool:
    """Decide about colour."""
    if flag is not None:
        return flag
    if environment.get("NO_COLOR"):
        return False
    return bool(environment.get("FORCE_COLOR")) or terminal


class StyledLine:
    """Text in parts, each with its style: names of `_STYLES`."""

    def __init__(self, text: str = "", style: str = "") -> None:
        self._parts = [(text, style)]

    @property
    def plain(self) -> str:
        """The text alone."""
        return "".join([text for text, _ in self._parts])

    def append(self, text: str, style: str = "") -> StyledLine:
        """Add text at the end; return the line."""
        self._parts.append((text, style))
        return self

    def extend(self, other: StyledLine) -> StyledLine:
        """Add the parts of another line at the end; return the line."""
        self._parts += other._parts
        return self

    def between(self, start: int, end: int) -> StyledLine:
        """Return the part from one character to another."""
        found, at = StyledLine(), 0
        for text, style in self._parts:
            found.append(text[max(start - at, 0) : max(end - at, 0)], style)
            at += len(text)
        return found

    def stripped(self) -> StyledLine:
        """Return the line without spaces at its end."""
        return self.between(0, len(self.plain.rstrip()))

    def coloured(self) -> str:
        """Return the text with the escapes of a terminal."""
        return "".join([
            f"\x1b[{';'.join([_STYLES[word] for word in style.split()])}m{text}\x1b[0m" if text and style else text
            for text, style in self._parts
        ])  # fmt: skip


class Console:
    """Writes lines to a stream. `wraps`: it is a terminal, and lines keep to its width."""

    on_table: Callable[[Sequence[tuple[str, ...]]], None] | None = None  # receives the cells of tables instead

    def __init__(self, file: TextIO, *, colour: bool, wraps: bool, width: int) -> None:
        self.file, self.colour, self.wraps, self.width = file, colour, wraps, width

    def print(self, text: StyledLine | str = "") -> None:
        """Print a line; if it is too long for a terminal, wrap it, following lines indented by four more columns."""
        shown = text if isinstance(text, StyledLine) else line(text)
        if self.wraps and width_of(shown.plain) > self.width:
            hang(self, shown, len(shown.plain) - len(shown.plain.lstrip()) + _DEEPER)
        else:
            whole(self, shown)

    @cached_property
    def rich(self) -> rich.console.Console:
        """The same stream as a console of rich, for Markdown and whatever a plug-in's report draws with it."""
        from rich.console import Console as RichConsole  # noqa: PLC0415

        return RichConsole(
            file=self.file, force_terminal=self.colour, color_system="standard" if self.colour else None,
            no_color=not self.colour, width=self.width, highlight=False, markup=False, emoji=False,
            legacy_windows=False,
        )  # fmt: skip


def console(file: TextIO, *, colour: bool, terminal: bool, width: int | None = None) -> Console:
    """Return a console for a stream; without colour it writes plain text. `width`: of the terminal (None: ask it)."""
    return Console(file, colour=colour, wraps=terminal, width=(width or _terminal_width()) if terminal else WIDTH)


def _terminal_width() -> int:
    columns = os.environ.get("COLUMNS", "")
    if columns.isdigit() and int(columns):
        return int(columns)
    for descriptor in range(3):  # standard input, output or error: one of them may be a file
        try:
            return os.get_terminal_size(descriptor).columns or WIDTH
        except OSError:
            continue
    return WIDTH


def width_of(text: str) -> int:
    """Return how many columns of a terminal a text takes."""
    if text.isascii() and text.isprintable():
        return len(text)
    from rich.cells import cell_len  # noqa: PLC0415 - slow to import, and most texts are plain

    return cell_len(text)


def line(*parts: str | tuple[str, str]) -> StyledLine:
    """Join text and (text, style) pairs into one line of safe text."""
    text = StyledLine()
    for part in parts:
        shown, style = (part, "") if isinstance(part, str) else part
        text.append(visible(shown), style)
    return text


def whole(out: Console, text: StyledLine) -> None:
    """Print a line as it is, however long."""
    # Each part was safe alone; joined they may form a command of a CI runner.
    out.file.write((text.coloured() if out.colour else uncommanded(text.plain)) + "\n")


def hang(out: Console, text: StyledLine, indent: int, *, width: int | None = None) -> None:
    """Print a line; if it exceeds the terminal's width (or `width`), wrap it, following lines indented."""
    room = width if width is not None else columns_of(out)
    plain = text.plain
    if room is None or width_of(plain) <= room:
        whole(out, text)
        return
    taken = max(indent, width_of(plain[:indent]))  # wide characters of the head take two columns
    cuts = [indent + cut for cut in _breaks(plain[indent:], max(room - taken, _NARROW))]
    for number, (start, end) in enumerate(pairwise([0, *cuts, len(plain)])):
        part = text.between(start, end)
        whole(out, (part if number == 0 else StyledLine(" " * indent).extend(part)).stripped())


def _breaks(text: str, columns: int) -> Iterator[int]:
    """Yield where words begin that the line of those before has no room for."""
    used = 0
    for word in _WORD.finditer(text):
        if used and used + width_of(word[0].rstrip()) > columns:
            yield word.start()
            used = 0
        used += width_of(word[0])


def columns_of(out: Console) -> int | None:
    """Return the columns of the terminal; None for a pipe or a file."""
    return out.width if out.wraps else None


def cut(text: str, columns: int) -> str:
    """Return the beginning of a text that fits into the columns, up to a whole word if one ends nearby."""
    if width_of(text) <= columns:
        return text
    from rich.cells import set_cell_size  # noqa: PLC0415 - as above

    start = set_cell_size(text, max(columns - 1, 0))
    end = start.rfind(" ") if text[len(start) : len(start) + 1] != " " else len(start)
    return start[: len(start) if end <= len(start) // 2 else end].rstrip(" ,;:") + "…"
