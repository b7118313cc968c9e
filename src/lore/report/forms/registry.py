"""The table of reports, and what a report is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from msgspec import Struct

from lore.model.deferred import Registry

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from lore.report.console import Console
    from lore.report.forms.terminal import Reported


class Report(Protocol):
    """One form of a report."""

    can_share_stdout: bool  # it consists of lines, so others may be written to the same stream

    def write(self, result: Reported, out: Console, *, verbose: bool) -> None:
        """Write the result; `verbose` includes notes."""
        ...


class TextReport(Struct, frozen=True):
    """A report whose lines a function yields."""

    lines: Callable[[Reported, bool], Iterable[str]]  # given a result, and whether it includes notes
    can_share_stdout: bool = False

    def write(self, result: Reported, out: Console, *, verbose: bool) -> None:
        """Write the lines."""
        for text in self.lines(result, verbose):
            out.file.write(text + "\n")


REPORTS = Registry[Report](
    {
        "terminal": "lore.report.forms.terminal:Terminal",
        "json": "lore.report.forms.json_report:JSON",
        "jsonl": "lore.report.forms.json_report:JSON_LINES",
        "markdown": "lore.report.forms.markdown:MARKDOWN",
        "junit": "lore.report.forms.junit:Junit",
        "sarif": "lore.report.forms.sarif:SARIF",
        "github": "lore.report.forms.github:GITHUB",
        "html": "lore.report.html.page:HTML",
    },
    make=lambda report: report() if isinstance(report, type) else report,
)
