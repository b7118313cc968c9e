"""The one error that lore raises on purpose; hints for misspelled names, and for what is not installed.

Everything else that escapes is a bug and ends in exit code 70. Standard library only.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

__all__ = ["LoreError", "MisuseError", "Where", "did_you_mean", "install_hint", "lacks_plug_in", "reason_of"]


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


def reason_of(error: Exception) -> str:
    """Return what the system says of an error, in lower case and without the file's name."""
    return str(getattr(error, "strerror", None) or error).lower()


class LoreError(Exception):
    """The user's input or configuration is at fault: one sentence, a place, what to do (`hint`, also in a traceback).

    `choices` are lines to choose from. `exit_code` is 2 (usage, configuration, unreadable input) unless a subclass
    says otherwise.
    """

    exit_code = 2

    def __init__(
        self, message: str, *, hint: str = "", where: Where | None = None, choices: tuple[str, ...] = ()
    ) -> None:  # fmt: skip
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.where = where
        self.choices = choices
        if hint and hint not in message:
            self.add_note(f"hint: {hint}")

    @property
    def advice(self) -> str:
        """The hint as a sentence; empty without one."""
        return f"{self.hint[:1].upper()}{self.hint[1:]}." if self.hint else ""


class MisuseError(LoreError, TypeError):
    """A program gave what a function of the library cannot take: an unknown field, or an object of the wrong type."""


def did_you_mean(name: str, choices: Iterable[str], otherwise: str = "known") -> str:
    """Return a hint that names what was most likely meant, else all that is known."""
    from difflib import get_close_matches  # noqa: PLC0415 - only for an error

    names = list(choices)
    if not names:
        return "there are none"
    near = get_close_matches(str(name)[:80], names, 1, 0.5)
    return f"did you mean {near[0]!r}?" if near else f"{otherwise}: {', '.join(names)}"


def kind_of(value: object) -> str:
    """Return the type of a value, with its article."""
    name = type(value).__name__
    return f"{'an' if name[:1].lower() in 'aeio' else 'a'} {name}"


def install_hint(extra: str) -> str:
    """Return how to install an extra, for a person with a clone of lore: with pipx, and with pip."""
    return f"in a clone of lore: pipx install --force '.[{extra}]', or pip install '.[{extra}]'"


def lacks_plug_in(plug_in: str, needed_for: str, extra: str = "") -> LoreError:
    """Return the error of an installation that lacks one of lore's own plug-ins, which may need an extra as well."""
    return LoreError(
        f"{needed_for} needs lore's plug-in {plug_in!r}, which this installation lacks",
        hint=install_hint(extra) if extra else "in a clone of lore: pipx install --force ., or pip install .",
    )
