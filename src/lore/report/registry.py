"""The table of reports, and what a report is."""

from __future__ import annotations

from typing import Protocol

from rich.console import Console

from lore.report.github import GitHub
from lore.report.html.report import Html
from lore.report.json_report import Json, JsonLines
from lore.report.junit import Junit
from lore.report.markdown import Markdown
from lore.report.sarif import Sarif
from lore.report.terminal import Reported, Terminal

__all__ = ["REPORTS", "Report", "Reported"]


class Report(Protocol):
    """One form of a report. `mixes`: it is made of lines, so that others may stand beside it in one stream."""

    mixes: bool

    def write(self, result: Reported, out: Console, *, verbose: bool) -> None:
        """Write the result; `verbose` includes what is only a note."""
        ...


REPORTS: dict[str, Report] = {
    "terminal": Terminal(),
    "json": Json(),
    "jsonl": JsonLines(),
    "markdown": Markdown(),
    "junit": Junit(),
    "sarif": Sarif(),
    "github": GitHub(),
    "html": Html(),
}
