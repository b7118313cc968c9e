"""Corrections of a verdict: what cost nothing, what alternates, and prices.

They are made after the causes are known, in the order of `Judge.turn`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from msgspec.structs import asdict, replace

from lore.cache import counts
from lore.cache.prices import MILLION, Price
from lore.cache.rules import DatedRules, minimum_tokens
from lore.judge.base import TurnVerdict, paid_again
from lore.judge.pairs.pair import Pair, is_remark, lost_tokens
from lore.judge.requests.request_laws import MOST, UNDERRATED, needs_breakpoints
from lore.model import evidence as e
from lore.model.cause import Cause, Qualifier
from lore.model.differences import ToolsChanged
from lore.model.events import Usage
from lore.model.evidence import ColdCompaction, NothingRead, ProviderSaid, TailReplaced

HIGHEST_MINIMUM = 6144  # tokens: of some models on Vertex; no provider documents a higher one (2026-10)

_Values: TypeAlias = tuple[tuple[object, ...], tuple[object, ...]]  # the values before and after


class Alternation:
    """Marks causes of one chain that change a setting, a model or tools back to their value before the last change.

    A change from A to B and back to A is known from its second change on; the fix is to keep one of the two.
    """

    def __init__(self) -> None:
        self._latest: dict[tuple[str, int, str], _Values] = {}  # by code, segment and path

    def mark(self, pair: Pair) -> Pair:
        """Return the pair with its alternating causes marked."""
        return replace(pair, causes=tuple(map(self._marked, pair.causes)))

    def _marked(self, cause: Cause) -> Cause:
        change = None if is_remark(cause) or "alternates" in cause.qualifiers else change_of(cause.evidence)
        if change is None:
            return cause
        key = cause.code, cause.position, cause.path
        earlier, self._latest[key] = self._latest.get(key), change
        return replace(cause, qualifiers=(*cause.qualifiers, "alternates")) if earlier == change[::-1] else cause


def change_of(evidence: e.Evidence) -> _Values | None:
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


def add_costs(cause: Cause, price: Price, daily: float, usage: Usage | None, lost: int | None) -> Cause:
    """Return the cause with dollars in its evidence, if it is a replaced tail or a cold compaction.

    A tail gets its cost a day at `daily` replaced tails a day (0: unknown). A compaction that was requested
    after the cache had expired ("cold") gets its cost, and the cost if the `lost` tokens had been read ("warm").
    """
    evidence = cause.evidence
    if isinstance(evidence, TailReplaced) and daily and price.uncached is not None:
        dollars = round(evidence.tokens * (daily * float(price.uncached / MILLION)), 6)
        return replace(cause, evidence=replace(evidence, dollars_a_day=dollars))
    if not isinstance(evidence, ColdCompaction) or usage is None or usage.iterations:
        return cause
    paid = price.of(replace(usage, output_tokens=0, server_tools=()))
    again = paid_again(price, usage, lost)
    if paid is None or again is None:
        return cause
    warm = round(float(paid) - again, 6)
    return replace(cause, evidence=replace(evidence, dollars=round(float(paid), 6), warm_dollars=warm))


def drop_loss_below_minimum(pair: Pair, rules: Callable[[], DatedRules]) -> Pair:
    """Return the pair without a loss if one of the prompts is shorter than its model caches, or nothing was marked.

    Usage says how long a prompt was, and whether it was cached all the same. Without usage it is estimated from bytes,
    with a margin.
    """
    if not pair.is_break:
        return pair
    if _is_unmarked(pair):
        return replace(pair, causes=tuple([
            cause if is_remark(cause) or cause.kind == "expected"
            else replace(cause, lost=0, override="expected", qualifiers=(*cause.qualifiers, "nothing-lost"))
            for cause in pair.causes
        ]))  # fmt: skip
    least = minimum_tokens(rules(), pair.left) or 0
    if counts.cached(pair.left.usage) and counts.prompt_tokens(pair.left.usage) < least:
        return pair
    for turn, size in ((pair.left, pair.bytes.previous), (pair.right, pair.bytes.current)):
        billed = counts.prompt_tokens(turn.usage)
        tokens = billed or size / counts.BYTES_PER_TOKEN * UNDERRATED
        if not 0 < tokens < MOST or counts.cached(turn.usage) or tokens >= (minimum_tokens(rules(), turn) or 0):
            continue
        if not billed and (turn.basis is not None or turn.prompt.partial or counts.has_unseen(turn.prompt)):
            continue  # its bytes are not all of it
        causes = tuple([
            replace(cause, lost=0) if is_remark(cause) or cause.kind == "expected"
            else replace(cause, lost=0, qualifiers=(*cause.qualifiers, "under-minimum"))
            for cause in pair.causes
        ])  # fmt: skip
        return replace(pair, causes=causes, uncacheable=True)
    return pair


def _is_unmarked(pair: Pair) -> bool:
    """Return whether the cache needs breakpoints, the previous request has none, and usage shows nothing cached."""
    prompt = pair.left.prompt
    if any(counts.cached(turn.usage) != 0 for turn in (pair.left, pair.right)) or counts.bills_writes(pair.left):
        return False
    if prompt.breakpoints or prompt.auto_breakpoint or prompt.fidelity not in ("wire", "parsed"):
        return False  # a normalised body has lost its breakpoints
    return needs_breakpoints(pair.left)


SMALL = 0.01  # the share of a prompt whose loss is no more than worth a note


def excuse_small_loss(pair: Pair) -> Pair:
    """Return the pair with expected causes if usage shows that it lost less than a block, or 1 % of the prompt.

    Only usage that reports writes shows so small a loss.
    """
    usage, lead = pair.right.usage, TurnVerdict(pair.right, pair).leading
    if lead is None or usage is None or counts.first_pass_read(usage) is None or not counts.bills_writes(pair.left):
        return pair
    tokens, _ = lost_tokens(pair, lead)
    limit = max(counts.block_tokens(pair.left), SMALL * counts.prompt_tokens(usage.first_pass))
    if pair.short is None or tokens >= limit or isinstance(lead.evidence, NothingRead | ProviderSaid):
        return pair
    qualifier: Qualifier = "under-minimum" if pair.uncacheable else "little-lost"
    causes = [
        cause if cause.kind == "expected" or is_remark(cause)
        else replace(cause, override="expected", qualifiers=tuple(dict.fromkeys((*cause.qualifiers, qualifier))))
        for cause in pair.causes
    ]  # fmt: skip
    return replace(pair, causes=tuple(causes))


def drop_unread_below_minimum(pair: Pair, minimum: int | None) -> Pair:
    """Return the pair without a "nothing was read" cause if the previous prompt may be too short to be cached.

    `minimum` is the model's; if it is unknown, the highest of any provider counts.
    """
    if counts.prompt_tokens(pair.left.usage) >= (HIGHEST_MINIMUM if minimum is None else minimum):
        return pair
    return replace(pair, causes=tuple([cause for cause in pair.causes if not isinstance(cause.evidence, NothingRead)]))
