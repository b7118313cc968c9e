"""Put simulated turns together: totals, what each cause, model, project and day cost, how far predictions are off.

In: turns in order. Out: a `Simulated`. Rules: what is unknown of a turn is left out of its sum and counted; money is
added as exact decimals and rounded once.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from decimal import Decimal

from lore.judge.agreement import Agreement, agreement
from lore.model.codes import Problem
from lore.model.results import BilledResult
from lore.model.results_simulate import (
    AgreementResult,
    CostResult,
    GroupResult,
    RulesUsed,
    Simulated,
    SimulatedTotals,
    SimulatedTurn,
)
from lore.run.simulating import CURRENCY, Seen

GROUPS = ("cause", "model", "project", "day")
_COUNTS = ("uncached_tokens", "read_tokens", "write_tokens", "output_tokens")


class Sums:
    """Sums that grow turn by turn."""

    def __init__(self) -> None:
        self.turns: list[SimulatedTurn] = []
        self._agreement = Agreement()
        self._groups: dict[tuple[str, str], _Group] = {}
        self._by_price: dict[str, Decimal] = {}

    def add(self, seen: Seen) -> None:
        """Take a turn."""
        self.turns.append(seen.result)
        if seen.row is not None:
            self._agreement = self._agreement.plus(agreement((seen.row,)))
        for kind, paid in seen.parts.items():
            self._by_price[kind] = self._by_price.get(kind, Decimal(0)) + paid
        for key in _keys(seen.result):
            self._groups.setdefault(key, _Group()).add(seen.result)

    def result(self, cache: str | None, as_of: str | None, notes: Iterable[str], problems: list[Problem]) -> Simulated:
        """Return all of it; `cache` is the one that was asked for, else the one that all turns have."""
        caches = {one.cache for one in self.turns}
        named = cache or (caches.pop() if len(caches) == 1 else None)
        return Simulated(
            cache=named, rules=RulesUsed(as_of=as_of), turns=self.turns, totals=self._totals(),
            agreement=_agreed(self._agreement), groups=list(self._ranked()), what_if=[], notes=list(notes),
            problems=problems,
        )  # fmt: skip

    def _totals(self) -> SimulatedTotals:
        turns = self.turns
        costs = [one.cost for one in turns if one.cost is not None]
        return SimulatedTotals(
            turns=len(turns),
            unbilled=sum(one.billed is None for one in turns),
            unpriced=sum(one.cost is None or one.cost.billed is None for one in turns),
            predicted=_counts([one.predicted for one in turns]),
            billed=_counts([one.billed for one in turns if one.billed is not None]),
            lost_tokens=sum(one.lost_tokens or 0 for one in turns),
            waste_tokens=sum(one.waste_tokens or 0 for one in turns),
            unexplained_tokens=sum(one.unexplained_tokens or 0 for one in turns),
            cost=CostResult(
                currency=CURRENCY, billed=money(one.billed for one in costs),
                predicted=money(one.predicted for one in costs), waste=money(one.waste for one in costs),
                unexplained=money(one.unexplained for one in costs),
            ),
            by_price={kind: float(round(paid, 6)) for kind, paid in sorted(self._by_price.items())},
        )  # fmt: skip

    def _ranked(self) -> Iterator[GroupResult]:
        for by in GROUPS:
            found = [(name, group) for (kind, name), group in self._groups.items() if kind == by]
            found.sort(key=lambda one: (-one[1].paid_again, -one[1].paid, -one[1].lost, one[0]))
            yield from (group.result(by, name) for name, group in found)


class _Group:
    """What turns that have something in common cost."""

    def __init__(self) -> None:
        self.turns = self.lost = self.wasted = 0
        self.paid = self.paid_again = Decimal(0)
        self.priced = False

    def add(self, turn: SimulatedTurn) -> None:
        self.turns += 1
        self.lost += turn.lost_tokens or 0
        self.wasted += turn.waste_tokens or 0
        if turn.cost is not None:
            self.priced = self.priced or turn.cost.billed is not None
            self.paid += _exact(turn.cost.billed)
            self.paid_again += _exact(turn.cost.waste)

    def result(self, by: str, name: str) -> GroupResult:
        return GroupResult(
            by=by, name=name, turns=self.turns, lost_tokens=self.lost, waste_tokens=self.wasted,
            billed=float(round(self.paid, 6)) if self.priced else None,
            waste=float(round(self.paid_again, 6)) if self.priced else None,
        )  # fmt: skip


def _keys(turn: SimulatedTurn) -> Iterator[tuple[str, str]]:
    if turn.cause is not None:
        yield "cause", turn.cause.code
    yield "model", turn.model or "unknown"
    yield "project", os.path.basename(os.path.dirname(os.path.abspath(turn.path))) or "/"
    if turn.at is not None:
        yield "day", _day(turn.at)


def _day(at: float) -> str:
    """Return the day in UTC; a clock that no calendar holds is no day."""
    try:
        return datetime.fromtimestamp(at, UTC).date().isoformat()
    except (ValueError, OverflowError, OSError):
        return "unknown"


def _counts(found: Iterable[object]) -> BilledResult:
    sums: dict[str, int | None] = dict.fromkeys(_COUNTS)
    for one in found:
        for name in _COUNTS:
            count = getattr(one, name, None)
            if count is not None:
                sums[name] = (sums[name] or 0) + count
    return BilledResult(*(sums[name] for name in _COUNTS))


def money(parts: Iterable[float | None]) -> float | None:
    """Add what is known; None where nothing is."""
    known = [_exact(part) for part in parts if part is not None]
    return float(round(sum(known, start=Decimal(0)), 6)) if known else None


def _exact(part: float | None) -> Decimal:
    return Decimal(0) if part is None else Decimal(repr(part))


def _agreed(found: Agreement) -> AgreementResult:
    return AgreementResult(
        turns=found.turns, exact=found.exact, within_2_percent=found.within,
        mean_absolute_error_tokens=_rounded(found.mean_error),
        naive_mean_absolute_error_tokens=_rounded(found.naive_mean_error), drops=found.drops,
        drops_predicted=found.foreseen, false_drops=found.false_drops,
    )  # fmt: skip


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 1)
