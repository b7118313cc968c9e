"""Collect problems: all are counted, a bounded number of each code and file is kept."""

from __future__ import annotations

from collections import Counter

import msgspec

from lore.model.codes import Problem

KEPT = 20  # of each code in each file: a million bad lines must not cost a million records


class Problems:
    """The problems of one run."""

    def __init__(self) -> None:
        self.kept: list[Problem] = []
        self._taken = 0
        self.counts: Counter[tuple[str, str | None]] = Counter()

    def add(self, problem: Problem, file: str | None, line: int | None = None, byte: int | None = None) -> None:
        """Take a problem, with the place where it was met where it has none of its own."""
        self.counts[problem.code, file] += 1
        if self.counts[problem.code, file] <= KEPT:
            placed = msgspec.structs.replace(
                problem,
                file=problem.file or file,
                line=line if problem.line is None else problem.line,
                byte=byte if problem.byte is None else problem.byte,
            )
            self.kept.append(placed)

    def take(self) -> list[Problem]:
        """Return those kept since the last call."""
        start, self._taken = self._taken, len(self.kept)
        return self.kept[start:]

    @property
    def total(self) -> int:
        """How many there were, kept or not."""
        return sum(self.counts.values())
