"""What Claude Code's lines and their blocks are called in lore's timeline, also where they have no uuid."""

from __future__ import annotations

from lore.formats.claude_records import Record
from lore.formats.lines import Line


def name_of(record: Record, line: Line) -> str:
    """Name the item of a line."""
    return record.uuid or f"line-{line.number}"


def item_name(uuid: str, number: int) -> str:
    """Name the item of a line's content block."""
    return f"{uuid}:{number}" if number else uuid


def first_line(error: BaseException) -> str:
    """Return the beginning of what an error says."""
    return str(error).partition("\n")[0][:120]
