"""The table of reports, and what a report is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from lore.model.deferred import Registry

if TYPE_CHECKING:
    from lore.report.console import Console
    from lore.report.forms.terminal import Reported


class Report(Protocol):
    """One form of a report."""

    mixes: bool  # it consists of lines, so others may be written to the same stream

    def write(self, result: Reported, out: Console, *, verbose: bool) -> None:
        """Write the result; `verbose` includes notes."""
        ...


REPORTS = Registry[Report](
    {
        "terminal": "lore.report.forms.terminal:Terminal",
        "json": "lore.report.forms.json_report:Json",
        "jsonl": "lore.report.forms.json_report:JsonLines",
        "markdown": "lore.report.forms.markdown:Markdown",
        "junit": "lore.report.forms.junit:Junit",
        "sarif": "lore.report.forms.sarif:Sarif",
        "github": "lore.report.forms.github:GitHub",
        "html": "lore.report.html.page:Html",
    },
    make=lambda report: report(),
)
