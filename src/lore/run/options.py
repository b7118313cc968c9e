"""How recordings are read: what the command line says, passed along."""

from __future__ import annotations

from dataclasses import dataclass

from lore.prompt.assemble import Policy
from lore.run.problems import Problems
from lore.run.recording import Recording
from lore.tokens.base import TokenCounter


@dataclass(frozen=True, slots=True)
class Options:
    """Format and dialect override recognition; `counter` is None where no tokens are asked for."""

    format: str | None = None
    dialect: str | None = None
    policy: Policy = "system"
    counter: TokenCounter | None = None

    def open(self, path: str, problems: Problems | None = None) -> Recording:
        """Open a recording; raises LoreError where it cannot be read or recognised."""
        return Recording(path, format=self.format, dialect=self.dialect, policy=self.policy, problems=problems)
