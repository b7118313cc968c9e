"""Reports: results to text, JSON, and other forms. They say; they do not judge."""

from typing import TYPE_CHECKING

from lore.exports import public_names

if TYPE_CHECKING:
    # isort: off
    from lore.report.commands import in_shell as in_shell
    from lore.report.console import Console as Console, TableColumn as TableColumn, line as line
    from lore.report.console import write_table as write_table
    from lore.report.forms.base import render as render
    from lore.report.plain import count_of as count_of, quote as quote, turn_of as turn_of
    from lore.report.plain import visible as visible, when as when
    from lore.report.redacted import redacted_result as redacted_result
    from lore.report.sentences import describe_missing as describe_missing
    from lore.report.simulation import billed_reads as billed_reads, draw as draw
    from lore.report.simulation import write_simulated as write_simulated
    from lore.report.status_line import percent as percent
    from lore.report.timeline import short as short

__getattr__ = public_names(__name__)
