"""The table of reports, and what a report is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from lore.model.deferred import Places

if TYPE_CHECKING:
    from rich.console import Console

    from lore.report.forms.terminal import Reported


class Report(Protocol):
    """One form of a report. `mixes`: it is made of lines, so that others may stand beside it in one stream."""

    mixes: bool

    def write(self, result: Reported, out: Console, *, verbose: bool) -> None:
        """Write the result; `verbose` includes what is only a note."""
        ...


REPORTS: Places[Report] = Places(
    "lore.report",
    {
        "terminal": "forms.terminal:Terminal",
        "json": "forms.json_report:Json",
        "jsonl": "forms.json_report:JsonLines",
        "markdown": "forms.markdown:Markdown",
        "junit": "forms.junit:Junit",
        "sarif": "forms.sarif:Sarif",
        "github": "forms.github:GitHub",
        "html": "html.intros:Html",
    },
    made=lambda report: report(),
)
