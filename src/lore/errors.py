"""The one error that lore raises on purpose.

Everything else that escapes is a bug and ends in exit code 70. Standard library only.
"""

from __future__ import annotations

from typing import NamedTuple


class Where(NamedTuple):
    """A place in an input: file name, 1-based line, 0-based byte; unknown parts are None."""

    file: str | None = None
    line: int | None = None
    byte: int | None = None

    def __str__(self) -> str:
        place = self.file or "<input>"
        if self.line is not None:
            place += f":{self.line}"
        return place if self.byte is None else f"{place}, byte {self.byte}"


class LoreError(Exception):
    """The user's input or configuration is at fault: one sentence, a place, what to do.

    `exit_code` is 2 (usage, configuration, unreadable input) unless a subclass says otherwise.
    """

    exit_code = 2

    def __init__(self, message: str, *, hint: str = "", where: Where | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.where = where
