"""Corrections of a verdict: losses that cost nothing, prices, values that alternate.

Each function takes a pair and the state of its chain, and returns the pair. Their order is in `lore.judge.rules`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from msgspec import Struct, field
from msgspec.structs import asdict, replace

from lore.cache import counts
from lore.cache.prices import MILLION, Price
from lore.cache.rules import DatedRules, minimum_tokens
from lore.cache.served import is_transcript
from lore.judge.base import TurnVerdict, paid_again, price_of
from lore.judge.pairs.pair import Pair, is_remark, lost_tokens
from lore.judge.requests.request_laws import MOST, UNDERRATED, needs_breakpoints
from lore.model import evidence as e
from lore.model.cause import Cause, Qualifier
from lore.model.codes import Code
from lore.model.differences import ToolsChanged
from lore.model.events import Usage
from lore.model.turn import Turn

HIGHEST_MINIMUM = 6144  # tokens: of some models on Vertex; no provider documents a higher one (2026-10)
DAY = 86_400.0  # seconds
PACE = 600.0  # seconds that a chain has to last before its cost a day is reported
SMALL = 0.01  # the share of a prompt whose loss is no more than worth a note
_Values: TypeAlias = tuple[tuple[object, ...], tuple[object, ...]]  # the values before and after


class ChainState(Struct):
    """What the corrections remember of one chain."""

    rules: Callable[[], DatedRules]  # returns the dated rules in force
    began: float | None = None  # when its first recorded request with a time was sent
    tails: int = 0  # tails that were replaced since then
    cached: int | None = None  # tokens that its latest request left in the cache; None: unknown
    # by code, segment and path: the latest change
    changes: dict[tuple[str, int, str], _Values] = field(default_factory=dict[tuple[str, int, str], _Values])


# what cost nothing


def drop_loss_below_minimum(pair: Pair, state: ChainState) -> Pair:
    """Return the pair without a loss if one of the prompts is shorter than its model caches, or nothing was marked.

    A prompt that was cached all the same, whatever its length, shows that the minimum does not hold.
    """
    if not pair.is_break:
        return pair
    if _is_unmarked(pair):
        causes = [_excuse(cause, "nothing-lost", override="expected", lost=0) for cause in pair.causes]
        return replace(pair, causes=tuple(causes))
    minimum = minimum_tokens(state.rules(), pair.previous) or 0
    if counts.cached(pair.previous.usage) and counts.prompt_tokens(pair.previous.usage) < minimum:
        return pair
    sides = ((pair.previous, pair.bytes.previous), (pair.current, pair.bytes.current))
    if not any(_is_below_minimum(turn, size, state.rules) for turn, size in sides):
        return pair
    causes = [replace(_excuse(cause, "under-minimum"), lost=0) for cause in pair.causes]
    return replace(pair, causes=tuple(causes), uncacheable=True)


def _is_unmarked(pair: Pair) -> bool:
    """Return whether the cache needs breakpoints, the previous request has none, and usage shows nothing cached."""
    if any(counts.cached(turn.usage) != 0 for turn in (pair.previous, pair.current)) or counts.bills_writes(
        pair.previous
    ):
        return False
    prompt = pair.previous.prompt
    if prompt.breakpoints or prompt.auto_breakpoint or prompt.fidelity not in ("wire", "parsed"):
        return False  # a normalised body has lost its breakpoints
    return needs_breakpoints(pair.previous)


def _is_below_minimum(turn: Turn, size: int, rules: Callable[[], DatedRules]) -> bool:
    """Return whether a prompt of `size` bytes is shorter than its model caches.

    Usage says how long it was; without usage its length is estimated from bytes, with a margin.
    """
    billed = counts.prompt_tokens(turn.usage)
    tokens = billed or size / counts.BYTES_PER_TOKEN * UNDERRATED
    if not 0 < tokens < MOST or counts.cached(turn.usage) or tokens >= (minimum_tokens(rules(), turn) or 0):
        return False
    has_all_bytes = turn.basis is None and not turn.prompt.partial and not counts.has_unseen(turn.prompt)
    return bool(billed) or has_all_bytes


def drop_unread_below_minimum(pair: Pair, state: ChainState) -> Pair:
    """Return a log's pair without a "nothing was read" cause if the previous prompt may be too short to be cached.

    If the model's minimum is unknown, the highest of any provider counts.
    """
    if counts.first_pass_read(pair.current.usage) != 0 or not is_transcript(pair.current):
        return pair
    minimum = minimum_tokens(state.rules(), pair.previous)
    if counts.prompt_tokens(pair.previous.usage) >= (HIGHEST_MINIMUM if minimum is None else minimum):
        return pair
    causes = [cause for cause in pair.causes if not isinstance(cause.evidence, e.NothingRead)]
    return replace(pair, causes=tuple(causes))


def excuse_small_loss(pair: Pair, _: ChainState) -> Pair:
    """Return the pair with `little-lost` causes if usage shows that it lost less than a block, or 1 % of the prompt.

    The larger of both is the limit. Causes keep their kind and become notes; a loss of less than a block costs nothing,
    and is expected. Only usage that reports writes shows so small a loss.
    """
    usage, lead = pair.current.usage, TurnVerdict(pair.current, pair).leading
    if lead is None or usage is None or counts.first_pass_read(usage) is None or not counts.bills_writes(pair.previous):
        return pair
    tokens, _source = lost_tokens(pair, lead)
    block = counts.block_tokens(pair.previous)
    limit = max(block, SMALL * counts.prompt_tokens(usage.first_pass))
    if pair.short is None or tokens >= limit or isinstance(lead.evidence, e.NothingRead | e.ProviderSaid):
        return pair
    qualifier: Qualifier = "under-minimum" if pair.uncacheable else "little-lost"
    changes: dict[str, Any] = {"override": "expected"} if pair.uncacheable or tokens < block else {}
    return replace(pair, causes=tuple([_excuse(cause, qualifier, **changes) for cause in pair.causes]))


def _excuse(cause: Cause, qualifier: Qualifier, **changes: Any) -> Cause:
    """Return the cause of a break with a qualifier, and other fields; unchanged if it is expected already."""
    if cause.kind == "expected" or is_remark(cause):
        return cause
    return replace(cause, qualifiers=tuple(dict.fromkeys((*cause.qualifiers, qualifier))), **changes)


# prices


def add_prices(pair: Pair, state: ChainState) -> Pair:
    """Return the pair with its price if tokens were lost, and dollars in a replaced tail or a cold compaction.

    A replaced tail is counted in the state. A recorded request without usage has the price of its estimated size.
    """
    turn, daily = pair.current, _count_tails_a_day(pair, state)
    lost = TurnVerdict(turn, pair).lost_tokens
    is_priced = daily or (lost and (turn.usage is not None or turn.basis is None))
    size = round(pair.bytes.current / pair.bytes_per_token)
    price = price_of(state.rules(), turn, size=size) if is_priced else None
    if price is None:
        return pair
    causes = tuple([_add_costs(cause, price, daily, turn.usage, lost) for cause in pair.causes])
    priced_as = _estimate_usage(turn, size, lost) if turn.usage is None and lost else None
    return replace(pair, causes=causes, price=price, priced_as=priced_as)


def _estimate_usage(turn: Turn, size: int, lost: int) -> Usage:
    """Return the usage of a request of `size` tokens that wrote the `lost` ones again if it has breakpoints."""
    written = lost if turn.prompt.breakpoints or turn.prompt.auto_breakpoint else 0
    hour = written if counts.asked_lifetime(turn) == counts.ONE_HOUR else 0
    return Usage(size - written, 0, written, write_1h_tokens=hour, write_5m_tokens=written - hour)


def _count_tails_a_day(pair: Pair, state: ChainState) -> float:
    """Count the pair's replaced tail; return how many the chain has a day, 0 without one or in a short chain."""
    at = pair.current.at
    if state.began is None or at is None or all(cause.code != Code.TAIL_REPLACED for cause in pair.causes):
        return 0.0
    state.tails += 1
    lasted = at - state.began
    return state.tails / lasted * DAY if lasted >= PACE else 0.0


def _add_costs(cause: Cause, price: Price, daily: float, usage: Usage | None, lost: int | None) -> Cause:
    """Return the cause with dollars in its evidence, if it is a replaced tail or a cold compaction.

    A tail gets its cost a day at `daily` replaced tails a day (0: unknown). A compaction that was requested
    after the cache had expired ("cold") gets its cost, and the cost if the `lost` tokens had been read ("warm").
    """
    evidence = cause.evidence
    if isinstance(evidence, e.TailReplaced) and daily and price.uncached is not None:
        dollars = round(evidence.tokens * (daily * float(price.uncached / MILLION)), 6)
        return replace(cause, evidence=replace(evidence, dollars_a_day=dollars))
    if not isinstance(evidence, e.ColdCompaction) or usage is None or usage.iterations:
        return cause
    paid = price.of(replace(usage, output_tokens=0, server_tools=()))
    rebilled = paid_again(price, usage, lost)
    if paid is None or rebilled is None:
        return cause
    warm = round(float(paid) - rebilled, 6)
    return replace(cause, evidence=replace(evidence, dollars=round(float(paid), 6), warm_dollars=warm))


# what alternates


def mark_alternating(pair: Pair, state: ChainState) -> Pair:
    """Return the pair with a mark on changes of a setting, a model or tools back to the value before the last change.

    The state remembers the changes. One from A to B and back to A is known from its second change on; the fix is to
    keep one of the two.
    """
    return replace(pair, causes=tuple([_mark_alternating(cause, state.changes) for cause in pair.causes]))


def _mark_alternating(cause: Cause, latest: dict[tuple[str, int, str], _Values]) -> Cause:
    change = None if is_remark(cause) or "alternates" in cause.qualifiers else _change_of(cause.evidence)
    if change is None:
        return cause
    key = cause.code, cause.position, cause.path
    earlier, latest[key] = latest.get(key), change
    return replace(cause, qualifiers=(*cause.qualifiers, "alternates")) if earlier == change[::-1] else cause


def _change_of(evidence: e.Evidence) -> _Values | None:
    """Return what evidence shows before and after a change; None if it does not show both."""
    if isinstance(evidence, ToolsChanged):
        is_swap = not (evidence.changed or evidence.reordered or evidence.unnamed)
        return (evidence.removed, evidence.added) if is_swap and (evidence.removed or evidence.added) else None
    if evidence.quoted_change() is not None:  # text may come back by chance, as a list of recent files does
        return None
    fields = asdict(evidence)
    before = tuple([value for name, value in fields.items() if name == "before" or name.endswith("_before")])
    after = tuple([value for name, value in fields.items() if name == "after" or name.endswith("_after")])
    may_repeat_by_chance = all(isinstance(value, int | float) for value in before)
    return None if may_repeat_by_chance or before == after else (before, after)
