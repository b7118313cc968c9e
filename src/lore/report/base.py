"""What a report is, and how findings are put in order for one.

A report turns a result of `lore check` into text. How to add one: write a class with the members of
`Report` in its own file and add it to `REPORTS` (or publish it under the entry-point group
`lore.reports`, where it is called to make one).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from rich.console import Console

from lore.model.results import Checked, Finding

_ORDER = ("error", "warning", "note")


class Report(Protocol):
    """One form of a report. `mixes`: it is made of lines, so that others may stand beside it in one stream."""

    mixes: bool

    def write(self, result: Checked, out: Console, *, verbose: bool) -> None:
        """Write the result; `verbose` includes what is only a note."""
        ...


def shown(findings: Iterable[Finding], *, verbose: bool) -> list[Finding]:
    """Return the findings that a report shows: all, or without notes."""
    return [one for one in findings if verbose or one.severity != "note"]


def worst_first(findings: Iterable[Finding]) -> list[Finding]:
    """Return findings by severity, then by what they cost; those that are alike as they were found."""
    return sorted(findings, key=lambda one: (_ORDER.index(one.severity), -(one.lost_tokens or 0)))
