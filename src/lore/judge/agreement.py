"""What simulated turns come to, how far predictions agree with bills, and why turns have no price.

In: turns in order, and one row a transition (two turns of a chain that were both billed). Out: the figures of
`lore simulate`. Rules: a copy of a turn (a fork repeats its responses) counts once; predictions are compared beside
the rule that needs no model, `read(n-1) + write(n-1)`, and one that says nothing is compared as that would be, so that
silence never pays; how likely a drop was said to be is scored as Brier does, the mean of the squared differences from
what came (1 or 0), beside the score of whoever always says the share of turns that fell; what is unknown of a turn is
left out of its sum and counted; money is added as exact decimals and rounded once.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from decimal import Decimal
from typing import NamedTuple

from msgspec import UNSET

from lore.cache.counts import DROP
from lore.cache.prices import Price, unknown_factors
from lore.cache.rules import DatedRules
from lore.cache.served import billed_by, is_transcript
from lore.judge.base import CURRENCY, added, date_of, exact, summed
from lore.model.codes import Problem
from lore.model.results import UsageResult, simulate
from lore.model.turn import Turn

SHARE = 0.02


class Transition(NamedTuple):
    """One transition, in tokens read: as billed, as predicted (None: nothing was said), as the naive rule says.

    `likely` is how likely a drop was said to be; `prompted`: it is a new prompt of the user.
    """

    billed: int
    predicted: int | None
    naive: int
    likely: float = 0.0
    prompted: bool = False

    @property
    def off(self) -> int:
        """By how much the prediction is off the bill; one that says nothing as the naive rule would be."""
        return abs((self.naive if self.predicted is None else self.predicted) - self.billed)

    @property
    def within(self) -> bool:
        """Whether that is within `SHARE` of the bill."""
        return self.off <= SHARE * self.billed

    @property
    def fell(self) -> bool:
        """Whether the bill shows a drop."""
        return self.billed < self.naive - DROP

    @property
    def foreseen(self) -> bool:
        """Whether a drop was predicted."""
        return self.predicted is not None and self.predicted < self.naive - DROP


def agreement_of(rows: Sequence[Transition]) -> simulate.AgreementResult:
    """Return counts, means (None where there was no transition), and Brier's score: 0 is perfect.

    Beside that stands the score of whoever always says the share of transitions that fell.
    """
    count, drops = len(rows), sum(row.fell for row in rows)
    share = drops / count if count else 0.0
    return simulate.AgreementResult(
        turns=count, exact=sum(row.off == 0 for row in rows), within_2_percent=sum(row.within for row in rows),
        mean_absolute_error_tokens=round(sum(row.off for row in rows) / count, 1) if count else None,
        naive_mean_absolute_error_tokens=round(sum(abs(row.naive - row.billed) for row in rows) / count, 1)
        if count else None,
        drops=drops, drops_predicted=sum(row.fell and row.foreseen for row in rows),
        false_drops=sum(row.foreseen and not row.fell for row in rows),
        brier_score=round(sum((row.likely - row.fell) ** 2 for row in rows) / count, 6) if count else None,
        base_brier_score=round(share * (1 - share), 6) if count else None,
        prompts=sum(row.prompted for row in rows),
        prompts_within_2_percent=sum(row.prompted and row.within for row in rows),
    )  # fmt: skip


GROUPS = ("cause", "model", "project", "day")


class SimulatedSums:
    """Sums that grow turn by turn."""

    def __init__(self) -> None:
        self.turns: list[simulate.SimulatedTurn] = []
        self._rows: list[Transition] = []
        self._groups: dict[tuple[str, str], list[simulate.SimulatedTurn]] = {}
        self._by_price: dict[str, Decimal] = {}

    def add(
        self, turn: simulate.SimulatedTurn, row: Transition | None, parts: Mapping[str, Decimal], project: str
    ) -> None:
        """Take a turn of a project, the row by which it is compared with its bill, what was paid at each price."""
        self.turns.append(turn)
        if row is not None:
            self._rows.append(row)
        for kind, paid in parts.items():
            self._by_price[kind] = self._by_price.get(kind, Decimal(0)) + paid
        for key in _keys(turn, project):
            self._groups.setdefault(key, []).append(turn)

    def result(
        self, cache: str | None, as_of: str | None, reliability: list[simulate.ReliabilityResult], notes: Iterable[str],
        problems: list[Problem],
    ) -> simulate.SimulateResult:  # fmt: skip
        """Return all of it; `cache` is the one that was asked for, else the one that all turns have."""
        caches = {turn.cache for turn in self.turns}
        named = cache or (caches.pop() if len(caches) == 1 else None)
        return simulate.SimulateResult(
            cache=named, rules=simulate.RulesUsed(as_of=as_of), turns=self.turns, totals=self._totals(),
            agreement=agreement_of(self._rows), groups=list(self._ranked()), reliability=reliability,
            what_if=[], notes=list(notes), problems=problems,
        )  # fmt: skip

    def _totals(self) -> simulate.SimulatedTotals:
        turns = self.turns
        costs = [turn.cost for turn in turns if turn.cost is not None]
        predicted = [turn.predicted for turn in turns]
        billed = [turn.billed for turn in turns if turn.billed is not None]
        others = [turn.other_passes for turn in turns if isinstance(turn.other_passes, UsageResult)]
        return simulate.SimulatedTotals(
            turns=len(turns),
            unbilled=len(turns) - len(billed),
            unpriced=sum(turn.cost is None or turn.cost.billed is None for turn in turns),
            predicted=UsageResult(
                uncached_tokens=added(found.uncached_tokens for found in predicted),
                read_tokens=added(found.read_tokens for found in predicted),
                write_tokens=added(found.write_tokens for found in predicted), output_tokens=None,
            ),
            billed=UsageResult.sum_of(billed),
            lost_tokens=sum(turn.lost_tokens or 0 for turn in turns if turn.cause and turn.cause.kind != "expected"),
            waste_tokens=sum(turn.waste_tokens or 0 for turn in turns),
            unexplained_tokens=sum(turn.unexplained_tokens or 0 for turn in turns),
            cost=simulate.Cost(
                currency=CURRENCY, billed=summed(cost.billed for cost in costs),
                predicted=summed(cost.predicted for cost in costs), waste=summed(cost.waste for cost in costs),
                unexplained=summed(cost.unexplained for cost in costs),
            ),
            by_price={kind: float(round(paid, 6)) for kind, paid in sorted(self._by_price.items())},
            partial_outputs=sum(bill.partial_output is True for bill in billed),
            other_passes=UsageResult.sum_of(others) if others else UNSET,
        )  # fmt: skip

    def _ranked(self) -> Iterator[simulate.GroupResult]:
        for by in GROUPS:
            found = {name: turns for (kind, name), turns in self._groups.items() if kind == by}
            order = sorted(found) if by == "day" else sorted(found, key=lambda name: (*_rank(found[name]), name))
            yield from (_group(by, name, found[name]) for name in order)


def _rank(turns: list[simulate.SimulatedTurn]) -> tuple[Decimal, Decimal, int]:
    """Order groups by what was paid again, then by what was paid, then by tokens that were lost."""
    costs = [turn.cost for turn in turns if turn.cost is not None]
    again, paid = sum(exact(cost.waste) for cost in costs), sum(exact(cost.billed) for cost in costs)
    return Decimal(-again), Decimal(-paid), -sum(turn.lost_tokens or 0 for turn in turns)


def _group(by: str, name: str, turns: list[simulate.SimulatedTurn]) -> simulate.GroupResult:
    costs = [turn.cost for turn in turns if turn.cost is not None]
    priced = any(cost.billed is not None for cost in costs)
    billed, waste, unexplained = (
        (summed(getattr(cost, kind) for cost in costs) or 0.0) if priced else None
        for kind in ("billed", "waste", "unexplained")
    )
    return simulate.GroupResult(
        by=by, name=name, turns=len(turns), lost_tokens=sum(turn.lost_tokens or 0 for turn in turns),
        waste_tokens=sum(turn.waste_tokens or 0 for turn in turns), billed=billed, waste=waste,
        unexplained_tokens=sum(turn.unexplained_tokens or 0 for turn in turns), unexplained=unexplained,
    )  # fmt: skip


def _keys(turn: simulate.SimulatedTurn, project: str) -> Iterator[tuple[str, str]]:
    if turn.cause is not None:
        yield "cause", turn.cause.code
    yield "model", turn.model or "unknown"
    yield "project", project
    if turn.at is not None:
        day = date_of(turn.at)
        yield "day", "unknown" if day is None else day.date().isoformat()


# why turns have no price

_SHOWN = 5  # names of one kind


class Unpriced:
    """Gather what is missing of turns that have no price."""

    def __init__(self, rules: DatedRules) -> None:
        self._rules = rules
        self._models: set[str] = set()
        self._factors: set[str] = set()
        self._tools: set[str] = set()

    def take(self, turn: Turn, price: Price | None, model: str | None) -> None:
        """Take a turn; `model` is the one that is asked for in the place of its own."""
        usage = turn.usage
        if price is not None:
            if usage is not None and usage.server_tools:
                self._tools |= {name for name, _ in usage.server_tools} - dict(price.tools).keys()
            return
        asked, where = None if is_transcript(turn) else turn.prompt.params, billed_by(turn)
        factors = unknown_factors(self._rules, where, model or turn.model, turn.at, usage, asked)
        self._factors |= set(factors)
        if not factors:
            name = turn.model or "turns that name no model"
            self._models.add(f"{name} at {where.platform}" if where.platform else name)

    def notes(self) -> Iterator[str]:
        """Say what is missing, and how to give it."""
        found = (
            ("no price is known for {0}", "", self._models),
            ("no price is known at {0}: what it multiplies prices by is unknown ({1})", "multiple_", self._factors),
            ("no price is known for the provider's tools {0} ({1})", "price_", self._tools),
        )
        for text, prefix, names in found:
            if names:
                shown = sorted(names)[:_SHOWN]
                rows = ", ".join(prefix + name for name in shown)
                yield text.format(", ".join(shown), rows) + ": a file of --rules-file can give one"
