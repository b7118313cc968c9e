"""How recordings are read: what the command line says, passed along."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from lore.prompt.assemble import Policy
from lore.run.problems import Problems
from lore.run.recording import Recording
from lore.tokens.base import TokenCounter


def silent(_: str) -> None:
    """Say nothing."""


@dataclass(frozen=True, slots=True)
class Options:
    """Format and dialect override recognition; `counter` is None where no tokens are asked for.

    `log` is told what was read and decided.
    """

    format: str | None = None
    dialect: str | None = None
    policy: Policy = "system"
    counter: TokenCounter | None = None
    log: Callable[[str], None] = silent

    def open(self, path: str, problems: Problems | None = None) -> Recording:
        """Open a recording; raises LoreError where it cannot be read or recognised."""
        recording = Recording(path, format=self.format, dialect=self.dialect, policy=self.policy, problems=problems)
        self.log(f"{recording.shown}: read as {recording.reader.name}")
        return recording
