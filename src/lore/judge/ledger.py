"""Verdicts in numbers: rows of a ledger, how reliably a provider reads, what a session that runs came to.

In: the verdicts of one recording in order, the dated rules. Out: a row each (`lore.model.ledger`); counts of pure
appends; what all rows come to (`lore.model.running`). Rules: a bill is split into parts that add up to it; what was
paid again is the difference between what was paid and the price of reading, for tokens of the leading cause, whatever
its kind; usage without a known price has no parts, and of usage without a count that
is charged the parts are a lower bound.

An append is a turn of which only the provider can have moved the prefix: nothing that the client does, no pause longer
than the cache lives, no compaction, and nothing that a provider leaves out of a prompt by rule; it was read where the
bill reads all that stood there but 2 % and one block. Of a session that runs, size, read and time are of the main
chain, of the last one where there is no main one; the words of the last break are left to whoever reports them.
Cost O(1) a turn.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from decimal import Decimal

from msgspec.structs import replace

from lore.cache.counts import DROP, block_tokens, capped_by_usage, first_pass_read, position, self_contradiction, total
from lore.cache.prices import MILLION, Price
from lore.cache.rules import DatedRules, Lifetime, lifetime_after
from lore.judge.base import TurnVerdict, date_of, exact, lasting_path, paid_again, price_of
from lore.judge.pair import is_remark
from lore.judge.spending import CauseSums, LedgerRequest, Sums
from lore.judge.witnesses import Tally
from lore.model.codes import UNEXPLAINED, Code, Reader
from lore.model.events import MAIN, SUMMED_COUNTS
from lore.model.evidence import Evidence, ModelChanged, Paused, Rerouted, RoutedElsewhere
from lore.model.ledger import CostParts, LedgerRow, Loss
from lore.model.results import UsageResult
from lore.model.results.overview import SpendingCause
from lore.model.results.simulate import ReliabilityResult
from lore.model.running import LastBreak, RunningTotals
from lore.model.turn import Turn

NAMES = 3  # of what a cause names

# the first that holds any
_LISTS = ("servers", "hooks", "names", "changed", "added", "removed", "loaded", "put_off", "ids")
_DIGITS = 9  # of a dollar


class LedgerRows:
    """Make the rows of one recording."""

    def __init__(self, rules: DatedRules) -> None:
        self._rules = rules
        self._stood: dict[str, int | None] = {}

    def row(self, verdict: TurnVerdict) -> LedgerRow:
        """Return the row of the next verdict."""
        turn, usage = verdict.turn, verdict.turn.usage
        stood = self._stood.get(turn.chain)
        self._stood[turn.chain] = None if usage is None or self_contradiction(usage) else position(usage)
        price = None if usage is None else price_of(self._rules, turn)
        counts = UsageResult.sum_of(() if usage is None else usage.passes)
        return LedgerRow(
            chain=turn.chain, number=turn.number, line=turn.line, at=turn.at, model=turn.answering_model,
            client="" if usage is None else usage.client, gateway=turn.call.endpoint.partition("/")[0],
            response_id=turn.response_id or "", prompt_tokens=None if usage is None else total(usage.first_pass),
            **{name: getattr(counts, name) for name in SUMMED_COUNTS}, billed=usage is not None and usage.has_input,
            spent=_spent(verdict, price), loss=_loss(verdict),
            appended=append_read(verdict, stood),
            compacted=any(change.cause == Code.COMPACTION for change in turn.changes), answered=turn.answered_at,
            is_inherited=bool(turn.call.inherited_from),
            at_least=price is not None and usage is not None and price.of(usage) is None,
            recorded=None if usage is None else usage.recorded,
        )  # fmt: skip


def _spent(verdict: TurnVerdict, price: Price | None) -> CostParts | None:
    """Split a cost into its parts, as far as counts and prices are known; None if nothing says what the prompt cost."""
    usage = verdict.turn.usage
    if usage is None or not usage.has_input:
        return None
    if price is None:
        return CostParts(0.0, 0.0, 0.0, 0.0, 0.0) if usage.is_empty else None
    parts = price.parts(usage)
    lost = capped_by_usage(usage, verdict.lost_tokens or 0)
    again = exact(paid_again(price, usage, lost))
    readable = lost * price.read / MILLION if again and price.read is not None else Decimal(0)
    context = sum((parts.get(kind, Decimal(0)) for kind in ("uncached", "write", "write_5m", "write_1h")), Decimal(0))
    known = {"uncached", "write", "write_5m", "write_1h", "read", "output"}
    tools = sum((paid for kind, paid in parts.items() if kind not in known), Decimal(0))
    return CostParts(*(
        round(float(part), _DIGITS)
        for part in (parts.get("read", Decimal(0)) + readable, context - again - readable,
                     parts.get("output", Decimal(0)), tools, again)
    ))  # fmt: skip


def _loss(verdict: TurnVerdict) -> Loss | None:
    number, lost = verdict.leading, verdict.lost_tokens
    if number is None or not lost:
        return None
    cause = verdict.causes[number]
    lives = cause.evidence.lifetime if isinstance(cause.evidence, Paused) else None
    return Loss(cause.code, cause.kind, capped_by_usage(verdict.turn.usage, lost), named_by(cause.evidence), lives)


def named_by(evidence: Evidence) -> tuple[str, ...]:
    """Return what evidence names: at most three of the servers, hooks or tools, two models, a field, a path."""
    if isinstance(evidence, ModelChanged):
        return tuple(model for model in (evidence.before, evidence.after) if model is not None)
    if isinstance(evidence, RoutedElsewhere):
        name = evidence.provider_after or evidence.deployment_after
    elif isinstance(evidence, Rerouted):
        name = evidence.host_after
    else:
        for names in (getattr(evidence, member, ()) for member in _LISTS):
            if names:
                return names[:NAMES]
        name = getattr(evidence, "field", None) or lasting_path(getattr(evidence, "path", None))
    return (name,) if name else ()


# how reliably a provider reads what stood in its cache: is it the client, or the provider?

SHARE = 0.02
# What a provider or its cache does by itself, though the prompt goes on.
_OWN = {*UNEXPLAINED, Code.READ_SHORT_OF_PREDICTION, Code.OLDER_ENTRY_SERVED, Code.IDLE_WITHIN_LIFETIME,
        Code.ERROR_BETWEEN}  # fmt: skip


class Reliability:
    """Counts of appends, and of those that were read."""

    def __init__(self) -> None:
        self._tallies: dict[tuple[str, str], Tally] = {}

    def take(self, verdict: TurnVerdict, stood: int | None) -> None:
        """Count a turn where it is a pure append to what `stood` in the cache, in tokens; None: not known."""
        was_read = append_read(verdict, stood)
        if was_read is None:
            return
        for key in _keys(verdict.turn):
            self._tallies[key] = self._tallies.get(key, Tally()).plus(fell=not was_read)

    def results(self) -> list[ReliabilityResult]:
        """Return a row a key, the whole first, then each dimension: hours in their order, the most frequent first."""
        order = {by: number for number, by in enumerate(("all", "model", "hour", "gateway", "key"))}
        rows = sorted(
            self._tallies.items(),
            key=lambda row: (order[row[0][0]], row[0][0] != "hour" and -row[1].seen, row[0][1]),
        )
        return [
            ReliabilityResult(by=by, name=name, appends=found.seen, read=found.seen - found.fell,
                              share=round((found.seen - found.fell) / found.seen, 4))
            for (by, name), found in rows
        ]  # fmt: skip


def append_read(verdict: TurnVerdict, stood: int | None) -> bool | None:
    """Tell whether a pure append read what `stood` in the cache, in tokens; None where it is none or no bill says."""
    read = first_pass_read(verdict.turn.usage)
    if not stood or read is None or not is_append(verdict):
        return None
    return read >= stood * (1 - SHARE) - block_tokens(verdict.turn)


def is_append(verdict: TurnVerdict) -> bool:
    """Tell whether only the provider can have moved the prefix of a turn.

    A transcript goes on by the same model and history, in time, with nothing left out by rule.
    """
    if not verdict.compared and verdict.pair is None:
        return False
    if any(cause.code not in _OWN and (not is_remark(cause) or cause.code == Code.TAIL_REPLACED)
           for cause in verdict.causes):  # fmt: skip
        return False
    seen = None if verdict.foreseen is None else verdict.foreseen.state
    if seen is None:
        return True
    if seen.unchanged < seen.entries or seen.head_changed or seen.model_changed or seen.changes:
        return False
    if seen.pause is not None and seen.lifetime is not None and seen.pause > seen.lifetime:
        return False
    stood = seen.cached or 0
    return not any(sign.name == "reasoning" and (sign.read_if_moved or 0) < stood - DROP for sign in seen.signals)


def _keys(turn: Turn) -> Iterator[tuple[str, str]]:
    yield "all", ""
    yield "model", turn.answering_model or "unknown"
    if turn.at is not None:
        time = date_of(turn.at)
        yield "hour", "unknown" if time is None else f"{time:%H}:00"
    host = turn.call.endpoint.partition("/")[0]
    if host:
        yield "gateway", host
    if turn.call.account:
        yield "key", turn.call.account


# what a session that runs came to

Worded = Callable[[SpendingCause], SpendingCause]


class RunningSums:
    """Sums of a session that grows; `worded` gives a cause its words."""

    def __init__(self, rules: Callable[[], DatedRules], worded: Worded) -> None:
        self._rules, self._worded = rules, worded
        self._rows: LedgerRows | None = None
        self._sums = Sums()
        self._lifetimes: dict[str, Lifetime] = {}
        self._last: TurnVerdict | None = None
        self.breaks: dict[int, LastBreak] = {}  # by the number of the request in the log

    def take(self, verdict: TurnVerdict, reader: Reader) -> LedgerRow:
        """Take the next verdict; return its row."""
        self._rows = self._rows or LedgerRows(self._rules())
        row, turn = self._rows.row(verdict), verdict.turn
        request = LedgerRequest(row, "", "", "", subagent=turn.chain != MAIN, at=row.at)
        self._sums.add(request)
        if row.loss is not None:
            self.breaks[self._sums.requests - 1] = self._break_of(request, reader)
        before = self._lifetimes.get(turn.chain, Lifetime())
        self._lifetimes[turn.chain] = lifetime_after(turn, before, self._rules)
        if turn.chain == MAIN or self._last is None or self._last.turn.chain != MAIN:
            self._last = verdict
        return row

    def _break_of(self, request: LedgerRequest, reader: Reader) -> LastBreak:
        causes = CauseSums()
        causes.add(request)
        loss, row = request.row.loss, request.row
        assert loss is not None
        cause = self._worded(causes.results(reader, unsure=loss.kind == "unattributable")[0])
        plain = self._worded(replace(cause, names=[], lifetime=None))
        return LastBreak(cause.code, cause.kind, row.number, row.at, cause.tokens, cause.dollars, cause.says,
                         plain.says, cause.fix)  # fmt: skip

    def result(self, format: str, session: str) -> RunningTotals:
        """Return what it came to."""
        sums = self._sums.result("")
        running = RunningTotals(
            format, session, requests=sums.requests, breaks=sums.breaks, paid_again_tokens=sums.paid_again_tokens,
            paid_again_dollars=sums.paid_again, unexplained_tokens=sums.unexplained_tokens,
            last_break=next(reversed(self.breaks.values()), None),
        )  # fmt: skip
        if self._last is None:
            return running
        turn, lives = self._last.turn, self._lifetimes[self._last.turn.chain]
        met = None if turn.usage is None else turn.usage.first_pass
        return running._replace(
            model=turn.answering_model, turn=turn.number,
            used_at=turn.at if turn.answered_at is None else turn.answered_at,
            prompt_tokens=None if met is None else total(met),
            read_tokens=None if met is None else met.read_tokens,
            stood=None if met is None else position(met), lifetime=lives.seconds, billed=lives.billed,
        )  # fmt: skip
