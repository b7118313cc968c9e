"""Sums over simulated turns, how far predictions agree with usage, and why turns have no price.

Predictions are compared with a rule that needs no model: everything read or written by the previous turn is read again.
A turn without a prediction counts as that rule predicts it, so that giving no prediction never improves the score.
Money is added as exact decimals and rounded once.

`Reliability` counts how often a provider reads what its cache holds, over appends: turns whose prefix only the provider
can have lost, since the causes found for them name no change by the client.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from decimal import Decimal
from typing import NamedTuple

from msgspec import UNSET

from lore.cache.counts import DROP, block_tokens, first_pass_read
from lore.cache.rules import DatedRules, Price, unknown_factors
from lore.cache.served import billed_by, is_transcript
from lore.judge.base import TurnVerdict
from lore.judge.pairs.pair import Tally, is_remark
from lore.judge.prices import CURRENCY, date_of, exact, sum_ints, sum_known
from lore.model.codes import UNEXPLAINED, CauseKind, Code, Problem
from lore.model.results import Surcharge, UsageResult, simulate
from lore.model.results.simulate import ReliabilityResult
from lore.model.turn import Turn

_CLOSE = 0.02  # share of the billed read by which a close prediction may be off
_GROUPS = ("cause", "model", "project", "day")


class Transition(NamedTuple):
    """Two successive turns of a chain that both have usage: tokens that the second one read."""

    billed: int
    predicted: int | None  # None: no prediction
    naive: int  # tokens that the previous turn left in the cache
    prompted: bool = False  # the second turn brings a new prompt of the user


def measure_agreement(rows: Sequence[Transition]) -> simulate.AgreementResult:
    """Return how far predictions are from usage; without rows the means are unknown."""
    count = len(rows)

    def mean(values: Iterable[int]) -> float | None:
        return round(sum(values) / count, 1) if count else None

    errors = [abs((row.naive if row.predicted is None else row.predicted) - row.billed) for row in rows]
    close = [tokens <= _CLOSE * row.billed for tokens, row in zip(errors, rows, strict=True)]
    fell = [row.billed < row.naive - DROP for row in rows]
    foreseen = [row.predicted is not None and row.predicted < row.naive - DROP for row in rows]
    drops = list(zip(fell, foreseen, strict=True))
    return simulate.AgreementResult(
        turns=count, exact=errors.count(0), within_2_percent=sum(close), mean_absolute_error_tokens=mean(errors),
        naive_mean_absolute_error_tokens=mean(abs(row.naive - row.billed) for row in rows), drops=sum(fell),
        drops_predicted=drops.count((True, True)), false_drops=drops.count((False, True)),
        prompts=sum(row.prompted for row in rows),
        prompts_within_2_percent=sum(row.prompted and near for row, near in zip(rows, close, strict=True)),
    )  # fmt: skip


class SimulatedSums:
    """Sums that grow turn by turn."""

    def __init__(self) -> None:
        self.turns: list[simulate.SimulatedTurn] = []
        self._rows: list[Transition] = []
        self._groups: dict[tuple[str, str, CauseKind | None], list[simulate.SimulatedTurn]] = {}
        self._by_price: dict[str, Decimal] = {}

    def add(
        self, turn: simulate.SimulatedTurn, row: Transition | None, parts: Mapping[str, Decimal], project: str
    ) -> None:
        """Add a turn; `row` is None if its prediction has no usage to compare, `parts` its dollars by kind of price."""
        self.turns.append(turn)
        if row is not None:
            self._rows.append(row)
        for kind, paid in parts.items():
            self._by_price[kind] = self._by_price.get(kind, Decimal(0)) + paid
        keys: list[tuple[str, str, CauseKind | None]] = [
            ("model", turn.model or "unknown", None), ("project", project, None)
        ]  # fmt: skip
        if turn.cause is not None:
            keys.append(("cause", turn.cause.code, turn.cause.kind))
        if turn.at is not None:
            day = date_of(turn.at)
            keys.append(("day", "unknown" if day is None else day.date().isoformat(), None))
        for key in keys:
            self._groups.setdefault(key, []).append(turn)

    def result(
        self, cache: str | None, as_of: str | None, reliability: list[simulate.ReliabilityResult], notes: Iterable[str],
        problems: list[Problem], problem_count: int,
    ) -> simulate.SimulateResult:  # fmt: skip
        """Return the result; without a `cache` it names the one that all turns have, else none.

        `problems` are those that were kept of `problem_count`. Groups: days in their order, others by re-billed cost,
        cost, and lost tokens.
        """
        caches = {turn.cache for turn in self.turns}
        groups: list[simulate.GroupResult] = []
        for by in _GROUPS:
            ranked = [_group(*key, turns) for key, turns in self._groups.items() if key[0] == by]
            ranked.sort(key=lambda group: group.name)
            if by != "day":
                ranked.sort(
                    key=lambda group: (
                        -exact(group.waste), -exact(group.rebilled), -exact(group.billed), -group.lost_tokens,
                    )
                )  # fmt: skip
            groups += ranked
        return simulate.SimulateResult(
            cache=cache or (caches.pop() if len(caches) == 1 else None), rules=simulate.RulesUsed(as_of=as_of),
            turns=self.turns, totals=self._totals(problem_count), agreement=measure_agreement(self._rows),
            groups=groups, reliability=reliability, what_if=[], notes=list(notes), problems=problems,
        )  # fmt: skip

    def _totals(self, problems: int) -> simulate.SimulatedTotals:
        turns = self.turns
        billed = [turn.billed for turn in turns if turn.billed is not None]
        others = [turn.other_passes for turn in turns if isinstance(turn.other_passes, UsageResult)]
        return simulate.SimulatedTotals(
            turns=len(turns),
            problems=problems,
            unbilled=len(turns) - len(billed),
            unpriced=sum(turn.cost is None or turn.cost.billed is None for turn in turns),
            predicted=UsageResult(
                uncached_tokens=sum_ints(turn.predicted.uncached_tokens for turn in turns),
                read_tokens=sum_ints(turn.predicted.read_tokens for turn in turns),
                write_tokens=sum_ints(turn.predicted.write_tokens for turn in turns), output_tokens=None,
            ),
            billed=UsageResult.sum_of(billed),
            lost_tokens=sum(turn.lost_tokens or 0 for turn in turns if turn.cause and turn.cause.kind != "expected"),
            waste_tokens=sum(turn.waste_tokens or 0 for turn in turns),
            unexplained_tokens=sum(turn.unexplained_tokens or 0 for turn in turns),
            cost=_sum_costs(turns),
            by_price={kind: float(round(paid, 6)) for kind, paid in sorted(self._by_price.items())},
            partial_outputs=sum(bill.partial_output is True for bill in billed),
            other_passes=UsageResult.sum_of(others) if others else UNSET,
        )  # fmt: skip


def _sum_costs(turns: Iterable[simulate.SimulatedTurn]) -> simulate.Cost:
    turns = list(turns)
    costs = [turn.cost for turn in turns if turn.cost is not None]
    billed = sum_known(cost.billed for cost in costs)
    # a sum of several requests, which is no usage of its turn, has the cost of the requests before it
    sums = [
        number for number, turn in enumerate(turns, 1) if turn.other_passes
        and (turn.billed is None or turn.billed.uncached_tokens is turn.billed.read_tokens is None)
    ]  # fmt: skip
    start = max(sums, default=0)
    is_part = any(turn.cost is None or turn.cost.billed is None for turn in turns[start:]) or any(
        cost.at_least is True for cost in costs
    )
    surcharges: dict[str, list[Surcharge]] = {}
    for part in [part for cost in costs for part in cost.surcharges or ()]:
        surcharges.setdefault(part.name, []).append(part)
    return simulate.Cost(
        currency=CURRENCY, billed=billed,
        **{name: sum_known(getattr(cost, name) for cost in costs) for name in ("predicted", "waste", "unexplained")},
        at_least=True if billed is not None and is_part else UNSET,
        recorded=sum_known(cost.recorded or None for cost in costs) or UNSET,
        surcharges=[
            Surcharge(name, sum(part.requests for part in parts), sum_known(part.dollars for part in parts) or 0.0)
            for name, parts in surcharges.items()
        ] or UNSET,
    )  # fmt: skip


def _group(by: str, name: str, kind: CauseKind | None, turns: list[simulate.SimulatedTurn]) -> simulate.GroupResult:
    cost = _sum_costs(turns)
    priced = cost.billed is not None
    return simulate.GroupResult(
        by=by, name=name, turns=len(turns), lost_tokens=sum(turn.lost_tokens or 0 for turn in turns),
        waste_tokens=sum(turn.waste_tokens or 0 for turn in turns), billed=cost.billed,
        waste=(cost.waste or 0.0) if priced else None,
        unexplained_tokens=sum(turn.unexplained_tokens or 0 for turn in turns),
        unexplained=(cost.unexplained or 0.0) if priced else None, kind=kind,
        rebilled=sum_known(turn.cause.lost_dollars for turn in turns if turn.cause is not None and turn.lost_tokens),
    )  # fmt: skip


_NAMES_SHOWN = 5  # of one kind


class MissingPrices:
    """Collects the reasons why turns have no price."""

    def __init__(self, rules: DatedRules) -> None:
        self._rules = rules
        self._models: set[tuple[str | None, str]] = set()  # with their platforms
        self._factors: set[str] = set()
        self._tools: set[str] = set()

    def add(self, turn: Turn, price: Price | None, model: str | None) -> None:
        """Note why a turn, or a tool of the provider in it, has no price; `model` replaces the model that it names."""
        usage = turn.usage
        if price is not None:
            if usage is not None and usage.server_tools:
                self._tools |= {name for name, _ in usage.server_tools} - dict(price.tools).keys()
            return
        if usage is not None and usage.is_empty:
            return  # it cost nothing, whatever the model
        params, where = None if is_transcript(turn) else turn.prompt.params, billed_by(turn)
        factors = unknown_factors(self._rules, where, model or turn.model, turn.at, usage, params)
        self._factors |= set(factors)
        if not factors:
            self._models.add((turn.model, where.platform))

    def notes(self, of_model: Callable[[str], str] = str, of_tool: Callable[[str], str] = str) -> Iterator[str]:
        """Yield notes on missing prices, and how to supply them; names are written as `of_model` and `of_tool` say."""
        models = {
            f"{of_model(name) if name else 'turns that name no model'}{f' at {platform}' if platform else ''}"
            for name, platform in self._models
        }
        kinds = (
            ("no price is known for {0}", "", models),
            ("no price is known at {0}: its price factor is unknown ({1})", "multiple_", self._factors),
            ("no price is known for the provider's tools {0} ({1})", "price_", set(map(of_tool, self._tools))),
        )
        for text, prefix, names in kinds:
            if names:
                listed = sorted(names)[:_NAMES_SHOWN]
                rows = ", ".join(prefix + name for name in listed)
                yield text.format(", ".join(listed), rows) + ": a file of --rules-file can give one"


_SHORT = 0.02  # share of the cached prompt by which a complete read may be smaller
# Causes that are the provider's alone.
_OF_PROVIDER = {*UNEXPLAINED, Code.READ_SHORT_OF_PREDICTION, Code.OLDER_ENTRY_SERVED, Code.ERROR_BETWEEN}

_NO_APPEND = (Code.TAIL_REPLACED, Code.REWIND)  # remarks on prompts that do not begin with all of the previous one


class Reliability:
    """Counts appends, and how many of them were read, by model, hour, gateway and key."""

    def __init__(self) -> None:
        self._tallies: dict[tuple[str, str], Tally] = {}

    def take(self, verdict: TurnVerdict) -> None:
        """Count a turn, if it is an append."""
        was_read, turn = was_append_read(verdict), verdict.turn
        if was_read is None:
            return
        keys = [("all", ""), ("model", turn.answering_model or "unknown")]
        if turn.at is not None:
            time = date_of(turn.at)
            keys.append(("hour", "unknown" if time is None else f"{time.hour:02}:00"))
        keys += [("gateway", host)] if (host := turn.call.endpoint.partition("/")[0]) else []
        keys += [("key", turn.call.account)] if turn.call.account else []
        for key in keys:
            self._tallies[key] = self._tallies.get(key, Tally()).plus(fell=not was_read)

    def results(self) -> list[ReliabilityResult]:
        """Return a row for the whole, then for each model, hour, gateway and key; the most frequent first."""
        order = ("all", "model", "hour", "gateway", "key")
        rows = sorted(
            self._tallies.items(),
            key=lambda row: (order.index(row[0][0]), row[0][0] != "hour" and -row[1].times, row[0][1]),
        )
        return [
            ReliabilityResult(by=by, name=name, appends=tally.times, read=tally.times - tally.fell,
                              share=round((tally.times - tally.fell) / tally.times, 4))
            for (by, name), tally in rows
        ]  # fmt: skip


def was_append_read(verdict: TurnVerdict) -> bool | None:
    """Return whether an append read the tokens in the cache, within 2 % and a block; None if unknown or no append.

    Predictions are not used: `lore compare` makes them only for turns whose read fell, `lore simulate` for all.
    """
    read, cached = first_pass_read(verdict.turn.usage), verdict.cached
    if not cached or read is None or (not verdict.compared and verdict.pair is None):
        return None
    for cause in verdict.causes:
        if cause.code not in _OF_PROVIDER and (not is_remark(cause) or cause.code in _NO_APPEND):
            return None
    return read >= cached * (1 - _SHORT) - block_tokens(verdict.turn)
