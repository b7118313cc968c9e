"""Sums over requests, for bare `lore`, `compare`, `watch` and pages: tokens, money, re-billed tokens and causes.

A verdict becomes a row (`lore.model.ledger`), rows become sums. The parts of a cost add up to it: of re-billed tokens,
the price of reading them is under `reading`, and the rest of their cost is an amount of its own. A request without
usage or price is counted, and is in no amount; if a count or a factor is unknown, the amount is a lower bound.

Amounts are added with `math.fsum`, so that the order of files changes nothing.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from decimal import Decimal
from math import fsum
from typing import Any, NamedTuple, get_args

from msgspec.structs import replace

from lore.cache.counts import ONE_HOUR, position, total
from lore.cache.rules import MILLION, DatedRules, Lifetime, Price, is_partial, lifetime_after
from lore.judge.agreement import was_append_read
from lore.judge.base import TurnVerdict
from lore.judge.findings import lasting_id, lasting_path
from lore.judge.prices import exact, paid_again, price_of, surcharge_of
from lore.model.codes import CODES, Audience, CauseKind, Code, actor_of, fix_of
from lore.model.events import MAIN, SUMMED_COUNTS, Usage
from lore.model.evidence import Evidence, ModelChanged, Paused, Rerouted, RoutedElsewhere
from lore.model.ledger import CostParts, LedgerRow, Loss, MissedRead, UnknownPart
from lore.model.results import Surcharge, UsageResult
from lore.model.results.overview import CauseSession, Spending, SpendingCause
from lore.model.running import LastBreak, RunningTotals

UNSURE = "unattributable"
# The sums of re-billed tokens by the kind of the leading cause, as `Spending` names them.
REBILLED: dict[CauseKind, str] = {"waste": "paid_again", UNSURE: "unexplained", "expected": "expected"}
NAMES = 3  # names in the evidence of a cause
_SUMMED_AT_ONCE = 256  # requests whose rows are held
AMOUNT_DIGITS = 6  # decimals of a sum in dollars
_ROW_DIGITS = 9  # of one request's


# rows


def make_row(verdict: TurnVerdict, rules: DatedRules) -> LedgerRow:
    """Return the row of a verdict."""
    turn, usage = verdict.turn, verdict.turn.usage
    price = None if usage is None else price_of(rules, turn)
    parts, is_whole = ({}, True) if price is None or usage is None else price.split(usage)
    is_plain = usage is not None and not usage.iterations
    counts = usage if is_plain else UsageResult.sum_of(() if usage is None else usage.passes)
    return LedgerRow(
        chain=turn.chain, number=turn.number, line=turn.line, at=turn.at, model=turn.answering_model,
        client="" if usage is None else usage.client, gateway=turn.call.endpoint.partition("/")[0],
        response_id=turn.response_id or "", prompt_tokens=None if usage is None else total(usage.first_pass),
        **{name: getattr(counts, name) for name in SUMMED_COUNTS}, billed=usage is not None and usage.is_billed,
        spent=_split_cost(verdict, price, parts), loss=_loss(verdict), appended=was_append_read(verdict),
        compacted=any(change.cause == Code.COMPACTION for change in turn.changes), answered=turn.answered_at,
        is_inherited=bool(turn.call.inherited_from),
        unknown=() if price is None or usage is None else tuple(_unknown_parts(usage, price, rules, is_whole=is_whole)),
        recorded=None if usage is None else usage.recorded, surcharge=surcharge_of(rules, turn, price),
    )  # fmt: skip


def _unknown_parts(usage: Usage, price: Price, rules: DatedRules, *, is_whole: bool) -> Iterator[UnknownPart]:
    """Yield what the cost of a request leaves out; `is_whole`: every count and its price are known."""
    passes = () if usage.is_sum else usage.passes  # a sum of several requests may lack any count
    lacks_output = any(counts.output_tokens is None for counts in passes)
    if lacks_output or is_partial(rules, usage.client):
        yield "output"
    if is_whole:
        return
    lacks_prompt = any(None in (counts.uncached_tokens, counts.read_tokens) for counts in passes)
    lacks_writes = price.has_write_price and any(counts.write_tokens is None for counts in passes)
    if lacks_prompt:
        yield "prompt"
    if lacks_writes:
        yield "writes"
    if not (lacks_output or lacks_prompt or lacks_writes):
        yield "price"


def _split_cost(verdict: TurnVerdict, price: Price | None, parts: dict[str, Decimal]) -> CostParts | None:
    """Return what a request cost, in five parts; None without usage, or without a price of what was used.

    `parts` are the dollars of each kind of its tokens and tools, as `Price.split` returns them; they are used up. What
    was re-billed is a part of its own, and is deducted from the context that was not read.
    """
    usage = verdict.turn.usage
    if usage is None or not usage.is_billed:
        return None
    if price is None:
        return CostParts(0.0, 0.0, 0.0, 0.0, 0.0) if usage.is_empty else None
    lost = verdict.lost_tokens or 0
    zero = Decimal(0)
    rebilled = exact(paid_again(price, usage, lost)) if lost else zero
    if_read = lost * price.read / MILLION if rebilled and price.read is not None else zero
    read, output = parts.pop("read", zero), parts.pop("output", zero)
    context = sum([parts.pop(kind, zero) for kind in ("uncached", "write", "write_5m", "write_1h")], zero)
    tools = sum(parts.values(), zero)
    amounts = read + if_read, context - rebilled - if_read, output, tools, rebilled
    return CostParts(*[round(float(amount), _ROW_DIGITS) if amount else 0.0 for amount in amounts])


def _loss(verdict: TurnVerdict) -> Loss | None:
    """Return the leading cause of a cache break; its tokens are 0 if no usage counts them."""
    cause = verdict.leading
    if cause is None:
        return None
    lifetime = cause.evidence.lifetime if isinstance(cause.evidence, Paused) else None
    names, detail = names_in(cause.evidence), cause.evidence.fix_detail()
    if f"{detail}-user" in CODES[cause.code].fixes:  # one fix for whatever it names
        names = ()
    else:
        detail = ""
    return Loss(cause.code, cause.kind, verdict.lost_tokens or 0, names, lifetime, detail)


def names_in(evidence: Evidence) -> tuple[str, ...]:
    """Return the names in evidence: at most three servers, hooks or tools, two models, or one host, field or path."""
    if isinstance(evidence, ModelChanged):
        return tuple(model for model in (evidence.before, evidence.after) if model is not None)
    if isinstance(evidence, RoutedElsewhere):
        name = evidence.provider_after or evidence.deployment_after or evidence.region_after
    elif isinstance(evidence, Rerouted):
        name = evidence.host_after
    else:
        lists = ("servers", "hooks", "names", "changed", "added", "removed", "loaded", "put_off", "ids")
        if names := next(filter(None, (getattr(evidence, member, ()) for member in lists)), ()):
            return names[:NAMES]
        name = getattr(evidence, "field", None) or lasting_path(getattr(evidence, "path", None))
    return (name,) if name else ()


# sums


class LedgerRequest(NamedTuple):
    """A row with its place."""

    row: LedgerRow
    session: str  # its path
    agent: str
    project: str
    subagent: bool  # its chain is not the main one
    at: float | None


class Copies:
    """Finds requests that an earlier recording holds."""

    def __init__(self) -> None:
        self._first: dict[str, str] = {}
        self.count = 0  # copies that were found

    def has(self, row: LedgerRow, recording: str) -> bool:
        """Remember a row, and return whether it is a copy of a request that another recording counts.

        It is one if its session was forked and holds the parent's requests, or if a recording that was asked about
        earlier has the same response id. A response that one recording holds twice is not a copy.
        """
        return self.has_response(row.response_id, recording, is_inherited=row.is_inherited)

    def has_response(self, response_id: str | None, recording: str, *, is_inherited: bool) -> bool:
        """Remember a response, and return whether it is a copy, as `has` does for its row."""
        copied, response_id = is_inherited, lasting_id(response_id)
        if response_id and not copied:
            copied = self._first.setdefault(response_id, recording) != recording
        self.count += copied
        return copied


class Sums:
    """Sums of requests that are added one by one. Rows are dropped once they are summed."""

    def __init__(self) -> None:
        self._added: list[LedgerRequest] = []  # not yet in the sums below
        self._sessions: set[str] = set()
        self._sizes: list[int] = []  # of prompts, for the median
        self._counts = Counter[str]()
        self._amounts: defaultdict[str, list[float]] = defaultdict(list)
        self._surcharges: defaultdict[str, list[float]] = defaultdict(list)  # by reason

    def add(self, request: LedgerRequest) -> None:
        """Add a request; it is in `requests` at once, and in the other sums after `sum_added`."""
        self._added.append(request)
        if len(self._added) == _SUMMED_AT_ONCE:
            self.sum_added()

    @staticmethod
    def joined(parts: Sequence[Sums]) -> Sums:
        """Return the sums of all parts; an only part itself, since most sessions have one."""
        if len(parts) == 1:
            return parts[0]
        whole = Sums()
        for part in parts:
            part.sum_added()
            whole._sessions |= part._sessions
            whole._sizes += part._sizes
            whole._counts.update(part._counts)
            for sums, amounts in ((whole._amounts, part._amounts), (whole._surcharges, part._surcharges)):
                for name, added in amounts.items():
                    sums[name] += added
        return whole

    @property
    def requests(self) -> int:
        """How many requests were added."""
        return self._counts["requests"] + len(self._added)

    @property
    def dollars(self) -> float | None:
        """The cost of all; None if no request has a price."""
        self.sum_added()
        if self.requests <= self._counts["unbilled"] + self._counts["unpriced"]:
            return None
        parts = ("reading", "context", "output", "tools", *REBILLED.values())
        return sum_of(amount for name in parts for amount in self._amounts[name])

    def sum_added(self) -> None:
        """Sum the requests that were added, column by column: that is three times as fast as row by row."""
        added, counts, amounts = self._added, self._counts, self._amounts
        if not added:
            return
        rows = [request.row for request in added]
        self._added = []
        self._sessions.update([request.session for request in added])
        self._sizes += [row.prompt_tokens for row in rows if row.prompt_tokens is not None]
        for name in SUMMED_COUNTS:
            counts[name] += sum([getattr(row, name) or 0 for row in rows])
        counts["requests"] += len(rows)
        counts["subagent_requests"] += sum([request.subagent for request in added])
        counts["compactions"] += sum([row.compacted for row in rows])
        counts["unbilled"] += sum([not row.billed for row in rows])
        counts["billed_requests"] += sum([row.read_tokens is not None for row in rows])
        counts["appends"] += sum([row.appended is not None for row in rows])
        counts["appends_read"] += sum([row.appended is True for row in rows])
        counts["unpriced"] += sum([row.billed and row.spent is None for row in rows])
        for unknown in [row.unknown for row in rows if row.unknown and row.billed and row.spent is not None]:
            counts.update(["at_least", *unknown])
        for loss, spent in [(row.loss, row.spent) for row in rows if row.loss is not None]:
            counts["breaks"] += 1
            counts[f"{REBILLED[loss.kind]}_tokens"] += loss.tokens
            counts["unpriced_tokens"] += loss.tokens if spent is None else 0
        for work in [work for row in rows for work in row.unlogged]:
            counts[f"absent_{work.kind}s"] += 1
            counts[f"absent_{work.kind}_tokens"] += work.tokens
        for recorded in [row.recorded for row in rows if row.recorded is not None]:
            counts["recorded_requests"] += 1 if recorded.requests is None else recorded.requests
            amounts["recorded_dollars"] += [] if recorded.dollars is None else [recorded.dollars]
            amounts["premium_requests"] += [] if recorded.premium_requests is None else [recorded.premium_requests]
        priced = [(request, request.row.spent) for request in added if request.row.spent is not None]
        for name in ("reading", "context", "output", "tools"):
            amounts[name] += [getattr(spent, name) for _, spent in priced]
        for request, spent in priced:
            if spent.again:
                loss = request.row.loss
                amounts[REBILLED["waste" if loss is None else loss.kind]].append(spent.again)
            if request.subagent:
                amounts["subagent_dollars"].append(spent.total)
        for name, more in [row.surcharge for row in rows if row.surcharge is not None]:
            self._surcharges[name].append(more)

    def result(self, name: str, title: str | None = None) -> Spending:
        """Return the sums; `title` is that of the session with this name."""
        dollars = self.dollars
        count_names = (
            "requests", "unbilled", "unpriced", "at_least", "billed_requests", *SUMMED_COUNTS, "breaks", "compactions",
            "appends", "appends_read", "subagent_requests", "recorded_requests", "unpriced_tokens",
            *(f"{kind}_tokens" for kind in REBILLED.values()), "absent_subagents", "absent_subagent_tokens",
            "absent_compactions", "absent_compaction_tokens",
        )  # fmt: skip
        costs = ("reading", "context", "output", "tools", *REBILLED.values(), "subagent_dollars")
        recorded = ("recorded_dollars", "premium_requests")
        sums: dict[str, Any] = {name: self._counts[name] for name in count_names}
        sums |= {name: None if dollars is None else sum_of(self._amounts[name]) for name in costs}
        sums |= {name: sum_of(self._amounts[name]) if self._amounts[name] else None for name in recorded}
        return Spending(
            name=name, sessions=len(self._sessions), dollars=dollars, title=title, **sums,
            median_prompt_tokens=sorted(self._sizes)[(len(self._sizes) - 1) // 2] if self._sizes else None,
            largest_prompt_tokens=max(self._sizes, default=None),
            unknown_parts={name: self._counts[name] for name in get_args(UnknownPart) if self._counts[name]},
            surcharges=[Surcharge(name, len(more), sum_of(more)) for name, more in sorted(self._surcharges.items())],
        )  # fmt: skip


class CauseSums:
    """Sums by cause; causes of one code that have the same names in their evidence are one."""

    def __init__(self) -> None:
        self._losses: dict[tuple[str, str, tuple[str, ...], float | None, str], list[CauseLoss]] = {}
        self._missed: defaultdict[tuple[str, str], list[CauseLoss]] = defaultdict(list)  # by code and detail

    def add(self, request: LedgerRequest) -> None:
        """Add a request, if it has a cache break, or is the first of those that could have read from a cache."""
        loss, missed = request.row.loss, request.row.missed
        if loss is not None:
            key = loss.code, loss.kind, loss.names, loss.lifetime, loss.detail
            self._losses.setdefault(key, []).append(CauseLoss.of(request))
        if missed is not None:
            self._missed[missed.code, missed.detail].append(CauseLoss(missed, request, missed.dollars, missed.requests))

    def results(
        self, audience: Audience, *, unsure: bool | None = None, worded: Worded = lambda cause: cause
    ) -> list[SpendingCause]:  # fmt: skip
        """Return the causes, the costliest first; `unsure`: only the unattributable ones (True), or the others.

        `worded` fills in the sentences of a cause: causes with the same sentences are one.
        """
        kept = [losses for key, losses in self._losses.items() if unsure is None or (key[1] == UNSURE) == unsure]
        causes = [worded(sum_losses(losses, audience)) for losses in group_losses(kept, audience, worded)]
        return sorted([cause for cause in causes if cause.tokens], key=_costliest_first)

    def every_loss(self) -> list[list[CauseLoss]]:
        """Return the losses of each cause, re-billed ones first, then those that could have been read from a cache."""
        return [*self._losses.values(), *self._missed.values()]

    def missed(self, audience: Audience) -> list[SpendingCause]:
        """Return why tokens were not read from a cache, the costliest cause first; none of them was re-billed."""
        return sorted([sum_losses(losses, audience) for losses in self._missed.values()], key=_costliest_first)


def _costliest_first(cause: SpendingCause) -> tuple[float, int, str, list[str]]:
    return -(cause.dollars or 0.0), -cause.tokens, cause.code, cause.names


class CauseLoss(NamedTuple):
    """What a cause cost in one request, or in several if it is about a whole chain."""

    cause: Loss | MissedRead
    request: LedgerRequest
    dollars: float | None  # None: unknown
    turns: int = 1

    @classmethod
    def of(cls, request: LedgerRequest) -> CauseLoss:
        """Return the loss of a request that has one."""
        loss, spent = request.row.loss, request.row.spent
        assert loss is not None, "asked of a request with a loss"
        return cls(loss, request, None if spent is None else spent.again)


Worded = Callable[[SpendingCause], SpendingCause]  # fills in the sentences of a cause


def group_losses(
    causes: Iterable[list[CauseLoss]], audience: Audience, worded: Worded
) -> list[list[CauseLoss]]:  # fmt: skip
    """Join the losses of causes that `worded` gives the same sentences; causes without sentences are left apart."""
    groups = defaultdict[tuple[object, ...], list[CauseLoss]](list)
    for number, losses in enumerate(causes):
        words = worded(sum_losses(losses, audience))
        groups[words.code, words.kind, words.says or number, words.fix] += losses
    return list(groups.values())


def sum_losses(losses: list[CauseLoss], audience: Audience) -> SpendingCause:
    """Return the sums of losses by one cause, without its words and commands."""
    first, paid = losses[0].cause, [lost.dollars for lost in losses if lost.dollars is not None]
    names, lifetime = (list(first.names), first.lifetime) if isinstance(first, Loss) else ([], None)
    is_longest = audience == "author" and (lifetime or 0) >= ONE_HOUR  # no longer lifetime can be asked for
    fix = CODES[first.code].fix_done if is_longest else fix_of(first.code, audience, first.kind, first.detail)
    by_session = defaultdict[str, list[CauseLoss]](list)
    for lost in losses:
        by_session[lost.request.session].append(lost)
    dollars, _, best, turns = max(
        (sum_of(lost.dollars or 0.0 for lost in some), sum(lost.cause.tokens for lost in some), name,
         sum(lost.turns for lost in some)) for name, some in by_session.items()
    )  # fmt: skip
    unpriced = sum(lost.cause.tokens for lost in losses if lost.dollars is None) if isinstance(first, Loss) else 0
    return SpendingCause(
        code=first.code, name=CODES[first.code].name, kind=first.kind, actor=actor_of(first.code, first.kind, audience),
        names=names, lifetime=lifetime, sessions=len(by_session), turns=sum(lost.turns for lost in losses),
        tokens=sum(lost.cause.tokens for lost in losses), dollars=sum_of(paid) if paid else None, says="", fix=fix,
        command="", unpriced_tokens=unpriced,
        most=CauseSession(best, by_session[best][0].request.project or None, dollars, turns),
    )  # fmt: skip


def rebilled_dollars(spending: Spending) -> float | None:
    """Return the cost of all re-billed tokens beyond the price of reading them; None if no price is known."""
    return None if spending.dollars is None else sum_of(getattr(spending, name) or 0.0 for name in REBILLED.values())


def rebilled_tokens(spending: Spending) -> int:
    """Return all re-billed tokens: as waste, as expected, and without a cause."""
    return sum(getattr(spending, f"{name}_tokens") for name in REBILLED.values())


_MANY = 100_000  # tokens, of which a working cache would have served some


def reads_nothing(spending: Spending) -> bool:
    """Return whether several requests with over 100,000 tokens of input in sum read none of them from a cache."""
    return spending.requests - spending.unbilled > 1 and not spending.read_tokens and spending.uncached_tokens > _MANY


def is_part(spending: Spending) -> bool:
    """Return whether the cost leaves out anything that requests cost."""
    return any((
        spending.at_least, spending.unpriced, spending.unbilled, spending.absent_subagents, spending.absent_compactions,
    ))  # fmt: skip


def sum_of(amounts: Iterable[float]) -> float:
    """Return the sum of amounts, rounded once, to six decimals."""
    return round(fsum(amounts), AMOUNT_DIGITS)


_SMALL = 0.05  # share of the largest loss: a break that lost less is not reported as the last one


class RunningSums:
    """Sums of a session that grows; `worded` fills in the sentences of a cause."""

    def __init__(self, rules: Callable[[], DatedRules], worded: Callable[[SpendingCause], SpendingCause]) -> None:
        self._rules, self._worded = rules, worded
        self._sums = Sums()
        self._lifetimes: dict[str, Lifetime] = {}
        self._last: TurnVerdict | None = None
        self.breaks: dict[int, LastBreak] = {}  # by the number of the request, from 0 in the order of `take`

    def take(self, verdict: TurnVerdict, audience: Audience) -> LedgerRow:
        """Add the next verdict; return its row."""
        row, turn = make_row(verdict, self._rules()), verdict.turn
        request = LedgerRequest(row, "", "", "", subagent=turn.chain != MAIN, at=row.at)
        self._sums.add(request)
        if row.loss is not None and row.loss.tokens:
            cause = self._worded(sum_losses([CauseLoss.of(request)], audience))
            plain = self._worded(replace(cause, names=[], lifetime=None))
            self.breaks[self._sums.requests - 1] = LastBreak(
                cause.code, cause.kind, row.number, row.at, cause.tokens, cause.dollars, cause.says, plain.says,
                cause.fix,
            )  # fmt: skip
        previous = self._lifetimes.get(turn.chain, Lifetime())
        self._lifetimes[turn.chain] = lifetime_after(turn, previous, self._rules)
        if turn.chain == MAIN or self._last is None or self._last.turn.chain != MAIN:
            self._last = verdict
        return row

    def result(self, format: str, session: str) -> RunningTotals:
        """Return the sums of all chains, and the size of the last request of the main one."""
        sums, most = self._sums.result(""), max((entry.lost_tokens for entry in self.breaks.values()), default=0)
        running = RunningTotals(
            format, session, requests=sums.requests, breaks=sums.breaks, paid_again_tokens=sums.paid_again_tokens,
            paid_again_dollars=sums.paid_again, unexplained_tokens=sums.unexplained_tokens,
            expected_tokens=sums.expected_tokens, rebilled_dollars=rebilled_dollars(sums),
            last_break=next((b for b in reversed(self.breaks.values()) if b.lost_tokens >= most * _SMALL), None),
        )  # fmt: skip
        if self._last is None:
            return running
        turn, lives = self._last.turn, self._lifetimes[self._last.turn.chain]
        first = None if turn.usage is None else turn.usage.first_pass
        return running._replace(
            model=turn.answering_model, turn=turn.number,
            used_at=turn.at if turn.answered_at is None else turn.answered_at,
            prompt_tokens=None if first is None else total(first),
            read_tokens=None if first is None else first.read_tokens,
            stood=None if first is None else position(first), lifetime=lives.seconds, billed=lives.billed,
        )  # fmt: skip
