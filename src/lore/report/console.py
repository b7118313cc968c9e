"""The terminal: colour by flag, then NO_COLOR, then FORCE_COLOR, then whether it is one.

Rules: text from recordings is data: it never carries markup, and control characters, escapes, zero-width
and direction marks are shown as what they are instead of being obeyed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Protocol, TextIO

from rich.console import Console
from rich.text import Text

from lore.model.results import Checked, Finding
from lore.report.plain import uncommanded, visible

WIDTH = 100  # where there is no terminal to ask: the same text on every machine


def wants_colour(flag: bool | None, environment: Mapping[str, str], *, terminal: bool) -> bool:
    """Decide about colour."""
    if flag is not None:
        return flag
    if environment.get("NO_COLOR"):
        return False
    return bool(environment.get("FORCE_COLOR")) or terminal


class _Console(Console):
    def print(self, *objects: Any, **options: Any) -> None:
        """Print; a line without colour is written as it is, which costs a twentieth of laying it out."""
        if self.no_color and not options and len(objects) == 1 and isinstance(objects[0], Text):
            self.file.write(uncommanded(objects[0].plain) + "\n")  # its parts were safe, each alone
        else:
            super().print(*objects, **options)

    def on_broken_pipe(self) -> None:
        """Leave a closed pipe to the command line, for which it is no error."""
        raise BrokenPipeError


def console(file: TextIO, *, colour: bool, terminal: bool) -> Console:
    """Make a console for a stream; without colour it writes plain text."""
    return _Console(
        file=file, force_terminal=colour, color_system="standard" if colour else None, no_color=not colour,
        width=None if terminal else WIDTH, highlight=False, markup=False, emoji=False, soft_wrap=True,
        legacy_windows=False,
    )  # fmt: skip


def line(*parts: str | tuple[str, str]) -> Text:
    """Join text and (text, style) pairs into one line of safe text."""
    text = Text()
    for part in parts:
        shown, style = (part, "") if isinstance(part, str) else part
        text.append(visible(shown), style)
    return text


_ORDER = ("error", "warning", "note")


class Report(Protocol):
    """One form of a report. `mixes`: it is made of lines, so that others may stand beside it in one stream."""

    mixes: bool

    def write(self, result: Checked, out: Console, *, verbose: bool) -> None:
        """Write the result; `verbose` includes what is only a note."""
        ...


def shown(findings: Iterable[Finding], *, verbose: bool) -> list[Finding]:
    """Return the findings that a report shows: all, or without notes."""
    return [finding for finding in findings if verbose or finding.severity != "note"]


def worst_first(findings: Iterable[Finding]) -> list[Finding]:
    """Return findings by severity, then by what they cost; those that are alike as they were found."""
    return sorted(findings, key=lambda finding: (_ORDER.index(finding.severity), -(finding.lost_tokens or 0)))
