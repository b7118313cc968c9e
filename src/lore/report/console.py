"""The terminal: lines of safe text, colours, and lines that fit: wrapped between words or cut to what is left.

Rules: colour by flag, then NO_COLOR, then FORCE_COLOR, then whether it is one. Text from recordings is data: it never
carries markup, and control characters, escapes, zero-width and direction marks are shown as what they are instead of
being obeyed. Only a terminal has a width that lines keep to; in a pipe or a file a sentence is one line, whole, so that
it can be searched. A word wider than the room (a path, a command) stays whole, so that it can be copied.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, TextIO

from rich.cells import cell_len, set_cell_size
from rich.console import Console
from rich.text import Text

from lore.report.plain import uncommanded, visible

WIDTH = 100  # columns where there is no terminal to ask: the same text on every machine
_WORD = re.compile(r"\s*\S+\s*")
_DEEPER = 4  # columns, of what follows the first line
_NARROW = 24  # columns that text keeps however deep it is indented


def wants_colour(flag: bool | None, environment: Mapping[str, str], *, terminal: bool) -> bool:
    """Decide about colour."""
    if flag is not None:
        return flag
    if environment.get("NO_COLOR"):
        return False
    return bool(environment.get("FORCE_COLOR")) or terminal


class _Console(Console):
    wraps = False  # whether lines keep to its width

    def print(self, *objects: Any, **options: Any) -> None:
        """Print; a line that a terminal has no room for is wrapped, what follows indented by four more columns."""
        text = objects[0] if len(objects) == 1 and not options else None
        if not isinstance(text, Text):
            super().print(*objects, **options)
        elif self.wraps and cell_len(text.plain) > self.width:
            hang(self, text, len(text.plain) - len(text.plain.lstrip()) + _DEEPER)
        else:
            whole(self, text)

    def on_broken_pipe(self) -> None:
        """Leave a closed pipe to the command line, for which it is no error."""
        raise BrokenPipeError


def console(file: TextIO, *, colour: bool, terminal: bool, width: int | None = None) -> Console:
    """Make a console for a stream; without colour it writes plain text. `width`: of the terminal (None: as it says)."""
    made = _Console(
        file=file, force_terminal=colour, color_system="standard" if colour else None, no_color=not colour,
        width=width if terminal else WIDTH, highlight=False, markup=False, emoji=False, soft_wrap=True,
        legacy_windows=False,
    )  # fmt: skip
    made.wraps = terminal
    return made


def line(*parts: str | tuple[str, str]) -> Text:
    """Join text and (text, style) pairs into one line of safe text."""
    text = Text()
    for part in parts:
        shown, style = (part, "") if isinstance(part, str) else part
        text.append(visible(shown), style)
    return text


def whole(out: Console, text: Text) -> None:
    """Print a line as it is, however long; without colour that costs a twentieth of laying it out."""
    if out.no_color:
        out.file.write(uncommanded(text.plain) + "\n")  # its parts were safe, each alone
    else:
        Console.print(out, text, soft_wrap=True)


def hang(out: Console, text: Text, indent: int, *, width: int | None = None) -> None:
    """Print a line; where it exceeds the terminal's width (or `width`), wrap it, what follows indented so many columns.

    Cost O(characters).
    """
    room = width if width is not None else columns_of(out)
    if room is None or cell_len(text.plain) <= room:
        whole(out, text)
        return
    head, body = text[:indent], text[indent:]
    taken = max(indent, cell_len(head.plain))  # wide characters of the head take two columns
    for number, part in enumerate(body.divide(_breaks(body.plain, max(room - taken, _NARROW)))):
        part.rstrip()
        whole(out, (head if number == 0 else Text(" " * indent)).append_text(part))


def _breaks(text: str, columns: int) -> Iterator[int]:
    """Yield where words begin that the line of those before has no room for."""
    used = 0
    for word in _WORD.finditer(text):
        if used and used + cell_len(word[0].rstrip()) > columns:
            yield word.start()
            used = 0
        used += cell_len(word[0])


def columns_of(out: Console) -> int | None:
    """Return how wide lines may be; None where they are not for a terminal, and stay whole."""
    return out.width if isinstance(out, _Console) and out.wraps else None


def cut(text: str, columns: int) -> str:
    """Return the beginning of a text in so many columns, up to a whole word where one ends not too far before."""
    if cell_len(text) <= columns:
        return text
    start = set_cell_size(text, max(columns - 1, 0))
    end = start.rfind(" ") if text[len(start) : len(start) + 1] != " " else len(start)
    return start[: len(start) if end <= len(start) // 2 else end].rstrip(" ,;:") + "…"
