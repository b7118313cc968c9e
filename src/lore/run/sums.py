"""Put simulated turns together: totals, what each cause, model, project and day cost, how far predictions are off.

In: turns in order. Out: a `Simulated`. Rules: what is unknown of a turn is left out of its sum and counted; money is
added as exact decimals and rounded once.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from decimal import Decimal

from lore.judge.agreement import Agreement, Row, agreement
from lore.judge.money import CURRENCY, exact, summed
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

GROUPS = ("cause", "model", "project", "day")


class Sums:
    """Sums that grow turn by turn."""

    def __init__(self) -> None:
        self.turns: list[SimulatedTurn] = []
        self._agreement = Agreement()
        self._groups: dict[tuple[str, str], _Group] = {}
        self._by_price: dict[str, Decimal] = {}

    def add(self, turn: SimulatedTurn, row: Row | None, parts: Mapping[str, Decimal]) -> None:
        """Take a turn, the row by which it is compared with its bill, what was paid at each price."""
        self.turns.append(turn)
        if row is not None:
            self._agreement = self._agreement.plus(agreement((row,)))
        for kind, paid in parts.items():
            self._by_price[kind] = self._by_price.get(kind, Decimal(0)) + paid
        for key in _keys(turn):
            self._groups.setdefault(key, _Group()).add(turn)

    def result(self, cache: str | None, as_of: str | None, notes: Iterable[str], problems: list[Problem]) -> Simulated:
        """Return all of it; `cache` is the one that was asked for, else the one that all turns have."""
        caches = {turn.cache for turn in self.turns}
        named = cache or (caches.pop() if len(caches) == 1 else None)
        return Simulated(
            cache=named, rules=RulesUsed(as_of=as_of), turns=self.turns, totals=self._totals(),
            agreement=_agreed(self._agreement), groups=list(self._ranked()), what_if=[], notes=list(notes),
            problems=problems,
        )  # fmt: skip

    def _totals(self) -> SimulatedTotals:
        turns = self.turns
        costs = [turn.cost for turn in turns if turn.cost is not None]
        predicted = [turn.predicted for turn in turns]
        billed = [turn.billed for turn in turns if turn.billed is not None]
        return SimulatedTotals(
            turns=len(turns),
            unbilled=len(turns) - len(billed),
            unpriced=sum(turn.cost is None or turn.cost.billed is None for turn in turns),
            predicted=BilledResult(
                _known(found.uncached_tokens for found in predicted), _known(found.read_tokens for found in predicted),
                _known(found.write_tokens for found in predicted), None,
            ),
            billed=BilledResult(
                _known(bill.uncached_tokens for bill in billed), _known(bill.read_tokens for bill in billed),
                _known(bill.write_tokens for bill in billed), _known(bill.output_tokens for bill in billed),
            ),
            lost_tokens=sum(turn.lost_tokens or 0 for turn in turns),
            waste_tokens=sum(turn.waste_tokens or 0 for turn in turns),
            unexplained_tokens=sum(turn.unexplained_tokens or 0 for turn in turns),
            cost=CostResult(
                currency=CURRENCY, billed=summed(cost.billed for cost in costs),
                predicted=summed(cost.predicted for cost in costs), waste=summed(cost.waste for cost in costs),
                unexplained=summed(cost.unexplained for cost in costs),
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
            self.paid += exact(turn.cost.billed)
            self.paid_again += exact(turn.cost.waste)

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
        try:
            yield "day", datetime.fromtimestamp(turn.at, UTC).date().isoformat()
        except (ValueError, OverflowError, OSError):  # a clock that no calendar holds
            yield "day", "unknown"


def _known(counts: Iterable[int | None]) -> int | None:
    """Add what is known; None where nothing is."""
    known = [count for count in counts if count is not None]
    return sum(known) if known else None


def _agreed(found: Agreement) -> AgreementResult:
    errors = [None if mean is None else round(mean, 1) for mean in (found.mean_error, found.naive_mean_error)]
    return AgreementResult(
        turns=found.turns, exact=found.exact, within_2_percent=found.within, mean_absolute_error_tokens=errors[0],
        naive_mean_absolute_error_tokens=errors[1], drops=found.drops, drops_predicted=found.foreseen,
        false_drops=found.false_drops,
    )  # fmt: skip
