"""Which dated rules hold in a run."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, NamedTuple

from lore.cache.base import Simulate

if TYPE_CHECKING:
    from lore.cache.rules import DatedRules
    from lore.judge.judge import Judge


class Dated(NamedTuple):
    """Which dated rules verdicts are made by; small enough to travel. `path`: a user's file; empty: the packaged ones.

    `tolerance` is the share of a prompt by which a billed read may fall short of its prediction; `labels` are those of
    a program's own text that the settings add (`check.tail_labels`).
    """

    path: str = ""
    tolerance: float = Simulate().tolerance
    labels: tuple[str, ...] = ()

    def known(self) -> None:
        """Raise LoreError if the user's file of rules cannot be read."""
        if self.path:
            dated(self.path)

    def rules(self) -> DatedRules:
        """Return the rules; they are read once a process."""
        return dated(self.path)

    def judge(self, *, quick: bool = False) -> Judge:
        """Make a judge of one recording; rules are read when they are first asked for."""
        from lore.judge.judge import Judge  # noqa: PLC0415 - not needed if all is known

        return Judge(self.rules, tolerance=self.tolerance, quick=quick, labels=self.labels)


PACKAGED = Dated()


@cache
def dated(path: str) -> DatedRules:
    """Return the rules in force, read once a process."""
    from lore.run.rules import load  # noqa: PLC0415 - what most recordings never need is loaded when it is asked

    return load(path or None)
