"""Reports: results to text, JSON, and other forms. They say; they do not judge."""

from typing import TYPE_CHECKING

from lore.exports import public_names

if TYPE_CHECKING:
    from lore.report.commands import in_shell as in_shell
    from lore.report.forms.json_report import render as render
    from lore.report.plain import counted as counted
    from lore.report.plain import local_time as local_time
    from lore.report.plain import visible as visible
    from lore.report.sentences.evidence import money_of as money_of
    from lore.report.sentences.findings import worded as worded
    from lore.report.sentences.running import worded_break as worded_break
    from lore.report.status_line import percent as percent

__all__ = [
    "counted",
    "in_shell",
    "local_time",
    "money_of",
    "percent",
    "render",
    "visible",
    "worded",
    "worded_break",
]
__getattr__ = public_names(
    __name__,
    {
        "commands": ("in_shell",),
        "forms.json_report": ("render",),
        "plain": (
            "counted",
            "local_time",
            "visible",
        ),
        "sentences.evidence": ("money_of",),
        "sentences.findings": ("worded",),
        "sentences.running": ("worded_break",),
        "status_line": ("percent",),
    },
)
