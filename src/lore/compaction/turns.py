"""What each turn of a recorded session cost, and what it would have cost with a policy's compactions.

The recorded side is the recorded usage. A turn without usage gets a predicted one, from times and lifetimes, and is
marked as estimated. The other side is this usage without the pruned tokens (`usage_after_pruning`). The head (tools,
system prompt) is the part of the first usage beyond the timeline; the latest usage says how many bytes a token has.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from decimal import Decimal
from typing import NamedTuple

from msgspec import UNSET, Raw
from msgspec.structs import replace

from lore.cache.counts import ONE_HOUR, reason_to_doubt, total
from lore.cache.rules import DatedRules, Price, is_partial
from lore.compaction import costs as c
from lore.compaction.entries import head_tokens
from lore.judge.prices import sum_ints
from lore.model.events import Usage
from lore.model.results import UsageResult
from lore.model.results.compact import CompactedSide
from lore.model.state import Chain

_COUNTS = ("uncached_tokens", "read_tokens", "write_tokens", "output_tokens")


class TrialRequest(NamedTuple):
    """A recorded request, and how its prompt differs with the policy. Tokens are estimates of its timeline."""

    turn: int
    at: float | None
    model: str | None  # the one it asked: another may be chosen before its usage is known
    params: Raw
    pause: float | None  # seconds since the previous turn
    tokens: int  # as recorded
    removed: int  # of these, by the policy
    added: int  # in their place
    is_rewritten: bool  # it is the first request since a compaction of the policy


class TurnCost(NamedTuple):
    """What one turn was billed, or would have been billed with the policy."""

    tokens: int  # of its prompt
    usage: Usage | None  # recorded or predicted
    price: Price | None
    cost: Decimal | None
    is_partial: bool  # its output count is partial


class TurnCosts:
    """The costs of a session's turns: call `add` with each request once it has ended."""

    def __init__(self, rules: DatedRules) -> None:
        self.recorded: list[TurnCost] = []  # what each turn was billed
        self.compacted: list[TurnCost] = []  # what it would have been billed with the policy
        self.unbilled = 0  # turns without usage
        self.latest = c.CacheCosts(None)  # of the latest turn
        self.scale = c.TokenScale()  # of the latest turn
        self._rules = rules
        self._lifetime: float | None = None  # of the cache, as it was billed last

    def add(self, request: TrialRequest, chain: Chain) -> None:
        """Add a turn; `chain` is the recorded one at its end, with its usage."""
        request = request._replace(model=request.model or chain.model)
        is_measured = len(self.recorded) > self.unbilled  # the usage of an earlier turn is known
        usage = chain.last.usage if chain.last is not None and chain.last.turn == request.turn else None
        tokens = None if usage is None or reason_to_doubt(usage) else total(usage)
        if usage is None or tokens is None:
            self.unbilled += 1
            self.scale = self.scale if is_measured else c.TokenScale(head_tokens(chain))
            tokens = self.scale.prompt(request.tokens)
            previous = self.recorded[-1].tokens if self.recorded else None
            usage = predict_usage(tokens, previous, request.pause, self._cache_costs(request, tokens, None).lifetime)
        else:
            self.scale = c.TokenScale.of(tokens, request.tokens, self.scale.head if is_measured else None)
            self._lifetime = c.billed_lifetime(usage) or self._lifetime
        self.latest = self._cache_costs(request, tokens, usage)
        is_partial_count = usage is not None and is_partial(self._rules, usage.client)
        price = self.latest.price
        turn = TurnCost(tokens, usage, price, _input_cost(usage, price), is_partial_count)
        self.recorded.append(turn)
        self.compacted.append(self._with_policy(request, turn))

    def _with_policy(self, request: TrialRequest, turn: TurnCost) -> TurnCost:
        removed, added = (round(tokens * self.scale.rate) for tokens in (request.removed, request.added))
        size = max(0, turn.tokens - removed + added)
        price = self._cache_costs(request, size, turn.usage).price
        usage = None if turn.usage is None else usage_after_pruning(
            turn.usage, self.scale.head, removed, added, is_rewritten=request.is_rewritten
        )  # fmt: skip
        cost = None if turn.cost is None else _input_cost(usage, price)
        return TurnCost(size, usage, price, cost, turn.is_partial)

    def _cache_costs(self, request: TrialRequest, size: int, usage: Usage | None) -> c.CacheCosts:
        """Return the costs of a request whose prompt has `size` tokens."""
        return c.cache_costs(
            self._rules, request.model, request.at, size, usage=usage, params=request.params, lifetime=self._lifetime
        )

    def sum_side(self, turns: Sequence[TurnCost], *, is_estimated: bool = False) -> CompactedSide:
        """Return the sums of `recorded` or `compacted` turns; values that are unknown for a turn are left out."""
        usages = [turn.usage for turn in turns if turn.usage is not None]
        counts = {name: sum_ints([getattr(usage, name) for usage in usages]) for name in _COUNTS}
        by_price: defaultdict[str, Decimal] = defaultdict(Decimal)
        for turn in turns:
            if turn.usage is not None and turn.cost is not None and turn.price is not None:
                for kind, amount in turn.price.split(turn.usage)[0].items():
                    by_price[kind] += amount
        is_partial_count = any(turn.is_partial for turn in turns)
        return CompactedSide(
            figures="estimated" if is_estimated or self.unbilled else "recorded",
            prompt_tokens=sum(turn.tokens for turn in turns),
            largest_tokens=max((turn.tokens for turn in turns), default=0), cost=c.dollars(total_cost(turns)),
            billed=UsageResult(**counts, partial_output=True if is_partial_count else UNSET),
            by_price={kind: float(round(amount, 6)) for kind, amount in sorted(by_price.items())},
        )  # fmt: skip


def usage_after_pruning(
    usage: Usage, head: int, removed: int, added: int, *, is_rewritten: bool = False
) -> Usage | None:
    """Return the usage of a turn whose prompt has `added` tokens in place of `removed` ones, after the head.

    `is_rewritten`: it is the first prompt since the compaction. None if `usage` does not say how long its prompt was.
    """
    tokens = total(usage)
    if tokens is None:
        return None
    if removed == added == 0 and not is_rewritten:
        return usage
    head = min(head, tokens)
    removed = min(removed, tokens - head)
    size, read = tokens - removed + added, usage.read_tokens or 0
    read_after_removed = read - head - removed
    if is_rewritten or read_after_removed < 0 or read_after_removed == removed == 0:
        read = min(read, head)
    else:
        read += added - removed
    if usage.write_tokens is None:
        return replace(usage, read_tokens=read, uncached_tokens=size - read)
    uncached = min(usage.uncached_tokens or 0, size - read)
    write = size - read - uncached
    if not usage.write_tokens and usage.uncached_tokens:  # nothing was cached: no breakpoints, or too short a prompt
        uncached, write = uncached + write, 0
    hour = usage.write_1h_tokens
    if hour:
        hour = write * hour // usage.write_tokens if usage.write_tokens else write
    short = None if usage.write_5m_tokens is None else write - (hour or 0)
    return replace(
        usage, read_tokens=read, uncached_tokens=uncached, write_tokens=write, write_1h_tokens=hour,
        write_5m_tokens=short,
    )  # fmt: skip


def predict_usage(size: int, previous: int | None, pause: float | None, lifetime: float | None) -> Usage | None:
    """Return the probable usage of a prompt of `size` tokens; None if it cannot be predicted.

    `previous` is the length of the previous prompt, None for a chain's first one.
    """
    read = 0
    if previous is not None:
        if pause is None or lifetime is None:
            return None
        read = min(previous, size) if pause <= lifetime else 0
    hour = size - read if lifetime == ONE_HOUR else None
    return Usage(uncached_tokens=0, read_tokens=read, write_tokens=size - read, write_1h_tokens=hour)


def total_cost(turns: Iterable[TurnCost]) -> Decimal | None:
    """Return what turns cost, as far as it is known; None if no cost is known."""
    costs = [turn.cost for turn in turns if turn.cost is not None]
    return sum(costs, start=c.FREE) if costs else None


def _input_cost(usage: Usage | None, price: Price | None) -> Decimal | None:
    """Return the cost of a usage, without output if that count is unknown."""
    if usage is None or price is None:
        return None
    return price.of(usage if usage.output_tokens is not None else replace(usage, output_tokens=0))
