"""The table of reports."""

from __future__ import annotations

from lore.report.console import Report
from lore.report.github import GitHub
from lore.report.json_report import Json, JsonLines
from lore.report.junit import Junit
from lore.report.markdown import Markdown
from lore.report.sarif import Sarif
from lore.report.terminal import Terminal

REPORTS: dict[str, Report] = {
    "terminal": Terminal(),
    "json": Json(),
    "jsonl": JsonLines(),
    "markdown": Markdown(),
    "junit": Junit(),
    "sarif": Sarif(),
    "github": GitHub(),
}
