"""The inserts of a chain in the order of their places, as an assembler follows them from turn to turn.

In: a chain, turn after turn. Out: what stays of each list. Rule: work goes by what changed, never by what there is,
but for deltas, of which there are few. Not safe between threads: one assembler follows one chain.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable
from operator import attrgetter
from typing import NamedTuple

from lore.model.inserts import Insert
from lore.model.state import Chain
from lore.model.vector import Vector

_ORDER = attrgetter("order")
BEHIND_ALL = 2**62  # a place that no entry of a timeline has


class UnchangedInserts(NamedTuple):
    """How many inserts of a list stay as they were, and the place of the first one behind them (else the largest)."""

    size: int
    place: int


class Ordered:
    """Inserts of one kind, in order."""

    def __init__(self) -> None:
        self._inserts: list[Insert] = []

    def change(self, gone: Iterable[Insert], new: Iterable[Insert]) -> UnchangedInserts:
        """Let some go and others come."""
        left, come = {insert.key: insert for insert in gone}, list(new)
        same = len(self._inserts)
        if left or come:
            same = bisect_left(self._inserts, min(map(_ORDER, (*left.values(), *come))), key=_ORDER)
            behind = [insert for insert in self._inserts[same:] if insert.key not in left]
            self._inserts[same:] = sorted((*behind, *come), key=_ORDER)
        return UnchangedInserts(same, self._inserts[same].place if same < len(self._inserts) else BEHIND_ALL)

    def since(self, count: int) -> list[Insert]:
        """Return the inserts behind the first `count`."""
        return self._inserts[count:]


class InsertChanges(NamedTuple):
    """What stays of both lists."""

    inserts: UnchangedInserts
    behind: UnchangedInserts


class Inserts:
    """The inserts that stand before entries (`all`), and those that stand `behind` results, in their message."""

    def __init__(self) -> None:
        self.all = Ordered()
        self.behind = Ordered()
        self._deltas: dict[int, Insert] = {}
        self._contexts: tuple[Vector[Insert], ...] = (Vector(), Vector())

    def follow(self, chain: Chain) -> InsertChanges | None:
        """Take a chain's inserts; None where nothing changed. Costs O(deltas + what differs)."""
        contexts = (chain.persisted, chain.outside)
        had, has = self._deltas, chain.deltas
        gone: list[Insert] = []
        new: list[Insert] = []
        if had is not has:
            gone = [insert for number, insert in had.items() if has.get(number) is not insert]
            new = [insert for number, insert in has.items() if had.get(number) is not insert]
        for before, now in zip(self._contexts, contexts, strict=True):
            if before is not now:
                same = before.common(now)
                gone += before.since(same)
                new += now.since(same)
        self._deltas, self._contexts = has, contexts
        if not gone and not new:
            return None
        front, behind = (
            ([insert for insert in gone if insert.behind is so], [insert for insert in new if insert.behind is so])
            for so in (False, True)
        )
        return InsertChanges(self.all.change(*front), self.behind.change(*behind))
