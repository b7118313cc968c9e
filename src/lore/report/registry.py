"""The table of reports."""

from __future__ import annotations

from lore.report.base import Report
from lore.report.json_report import Json
from lore.report.terminal import Terminal

REPORTS: dict[str, Report] = {"terminal": Terminal(), "json": Json()}
