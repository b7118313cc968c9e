"""Turns of a session log that read nothing, as the one before: the bill did not fall, and the cache was missed again.

In: successive turns of one cache that takes no breakpoints, of which the log goes on. Out: a cause for each, and what
it lost. Rules: what any turn read of the same history may be read again: that much was lost; where nothing of it was
ever read, nobody knows what was kept, and no tokens are said to be lost; a pause longer than the cache is known to live
explains it; a prompt shorter than what the model caches is no miss, nor is one of which that is not known and which is
shorter than the highest minimum that any provider documents.
"""

from __future__ import annotations

from msgspec.structs import replace

from lore.cache.bills import DROP, bills_writes, cached, met_read, prompt_tokens
from lore.judge.losses import Pair
from lore.judge.unexplained import unexplained
from lore.judge.witnesses import PairContext, expired, parallel
from lore.model.cause import Cause
from lore.model.evidence import NothingRead
from lore.model.turn import Turn

HIGHEST_MINIMUM = 6144  # tokens: of some models on Vertex; no provider documents a higher one (2026-10)


def reads_nothing(left: Turn, right: Turn) -> bool:
    """Tell whether a bill reads nothing of a log that goes on, and the bill before it read nothing to speak of."""
    if right.basis is None or met_read(right.usage) != 0 or right.changes:
        return False
    there = cached(left.usage)
    if there is None or there > DROP or not prompt_tokens(left.usage) or bills_writes(left) or bills_writes(right):
        return False
    return of_one_cache(left, right) and right.extends(left)


def of_one_cache(left: Turn, right: Turn) -> bool:
    """Tell whether two turns of a log were asked of one model, and the same provider answered."""
    return (left.model, left.call.answered_by) == (right.model, right.call.answered_by)


def cause_of(context: PairContext) -> Cause | None:
    """Return why a turn read nothing; None where its cache may have breakpoints, or its history is another."""
    seen = context.situation
    if seen is None or not seen.implicit or seen.same < seen.size or seen.moved_head or seen.other_model:
        return None
    return expired(context) or parallel(context) or unexplained(context)


def above_minimum(pair: Pair, minimum: int | None) -> Pair:
    """Return a pair without the cause that nothing was read where so short a prompt may not be cached at all."""
    if prompt_tokens(pair.left.usage) >= (HIGHEST_MINIMUM if minimum is None else minimum):
        return pair
    left = [number for number, cause in enumerate(pair.causes) if not isinstance(cause.evidence, NothingRead)]
    return replace(pair, causes=tuple([pair.causes[number] for number in left]),
                   lost=tuple([pair.lost[number] for number in left]))  # fmt: skip
