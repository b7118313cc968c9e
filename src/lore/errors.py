"""The error that lore raises for faults of the user's input, with hints for misspelled names and missing packages.

Everything else that escapes is a bug and ends in exit code 70. Standard library only.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

__all__ = [
    "LoreError", "MisuseError", "Where", "bad_name", "did_you_mean", "install_hint", "lacks_plug_in", "nearest_name",
    "reason_of",
]  # fmt: skip


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
    """Return the operating system's message of an error, in lower case and without the file's name."""
    return str(getattr(error, "strerror", None) or error).lower()


class LoreError(Exception):
    """The user's input or configuration is at fault: one sentence, a place, and what to do (`hint`); `str()` has all.

    `choices` are lines to choose from. `own` replaces the message under `--redact`: a text, or True if the message
    quotes nothing of a recording (names of files are no content). `exit_code` is 2 (usage, configuration, unreadable
    input) unless a subclass says otherwise.
    """

    exit_code = 2

    def __init__(
        self, message: str, *, hint: str = "", where: Where | None = None, choices: tuple[str, ...] = (),
        own: str | bool = "",
    ) -> None:  # fmt: skip
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.where = where
        self.choices = choices
        self.own = message if own is True else own or ""

    def __str__(self) -> str:
        place = "" if self.where is None or str(self.where) in self.message else f" ({self.where})"
        return f"{self.message}{place}" + (f"\nhint: {self.hint}" if self.hint else "")

    @property
    def advice(self) -> str:
        """The hint as a sentence; empty without one."""
        return f"{self.hint[:1].upper()}{self.hint[1:]}." if self.hint else ""


class MisuseError(LoreError, TypeError):
    """A program called the library with an unknown field, or an object of the wrong type."""


def bad_name(where: str, name: str, names: Iterable[str]) -> MisuseError:
    """Return the MisuseError for an unknown field or argument `name` of `where`; it names the nearest of `names`."""
    what = "argument" if where.endswith("()") else "field"
    return MisuseError(f"{where} has no {what} {name!r}", hint=did_you_mean(name, names))


def did_you_mean(name: str, choices: Iterable[str], otherwise: str = "known") -> str:
    """Return a hint that names what was most likely meant, else all that is known."""
    names = list(choices)
    if not names:
        return "there are none"
    near = nearest_name(name, names, 0.6 if len(name) > 4 else 0.5)  # one wrong letter is half of a name of two
    if near is not None and len(name) <= 4 and near[:1] != name[:1]:  # another short word: foo is not roo
        near = None
    return f"{otherwise}: {', '.join(names)}" if near is None else f"did you mean {near!r}?"


def nearest_name(name: str, choices: Iterable[str], likeness: float = 0.6) -> str | None:
    """Return the choice that a misspelled name is nearest to; None if none is so like it (1: equal)."""
    from difflib import get_close_matches  # noqa: PLC0415 - only for an error

    return next(iter(get_close_matches(str(name)[:80], list(choices), 1, likeness)), None)


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
