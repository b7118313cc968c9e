"""What a report is, and the table of reports.

A report turns a result of `lore check` into text. How to add one: write a class with the members of
`Report` in its own file and add it to `REPORTS`.
"""

from __future__ import annotations

from typing import Protocol

from rich.console import Console

from lore.model.results import Checked


class Report(Protocol):
    """One form of a report."""

    def write(self, result: Checked, out: Console, *, verbose: bool) -> None:
        """Write the result; `verbose` includes what is only a note."""
        ...
