"""Expected causes that a pair of requests shows by itself: they come before any other.

In: two successive requests of a chain, what they share, their bills. Out: the cause, or None. Rules: the
recording says it (times, bills, the shape of the messages), never a guess; what would explain a break alone
is looked for only where there is one.

Sources: measured over billed recordings (an entry just written is not yet readable within about 3 seconds:
the breakpoint before it is read instead); the providers' documentation (an entry can be read once the response
that writes it has begun).
"""

from __future__ import annotations

from typing import NamedTuple

from lore.cache.lifetime import expiry
from lore.cache.turn_context import SOON, Situation
from lore.judge.bills import cached
from lore.judge.compacted import moved_behind, replaced, summed_up
from lore.model.codes import Code
from lore.model.evidence import ChainRestarted, MessagesTakenBack, OlderEntry, ParallelStart, Paused
from lore.model.prompt import Prompt
from lore.model.turn import Turn
from lore.prefix.causes import Cause
from lore.prefix.likeness import is_models, same_head
from lore.prefix.overlap import Overlap
from lore.prefix.purpose import begins_user_turn


class PairContext(NamedTuple):
    """Two successive turns before they are judged.

    `fell` is the bill's fall in tokens (`bills.fall`); `lives` the seconds that what the left wrote lives;
    `positions` the tokens at the breakpoints of the turns before the left, the latest last; `billed`: the two follow
    one another, so that their bills compare. `situation` is what a transcript's level model knew before the bill.
    """

    left: Turn
    right: Turn
    found: Overlap
    fell: int | None
    lives: float | None
    positions: tuple[int, ...]
    billed: bool
    situation: Situation | None = None


def by_shape(context: PairContext) -> Cause | None:
    """Return the expected cause that the messages show: a restart, a compaction, a rewind."""
    left, right, found = context.left, context.right, context.found
    if left.chain != right.chain and right.given_up == left.chain:
        number = sum(segment.section == "tools" for segment in left.prompt.head)
        return Cause(Code.CHAIN_RESTARTED, "tools", ChainRestarted(number), found.common)
    if found.covered or right.changes or right.fidelity in ("reconstructed", "rendered"):
        return None
    before, after = left.prompt, right.prompt
    if before.dialect != after.dialect:
        return None
    begin = before.messages.common(after.messages)
    if begin == len(before.messages):
        return None
    if not same_head(before, after):
        return moved_behind(before, after, found.common)
    return summed_up(before, after, begin) or _rewound(before, after, begin) or replaced(before, after, begin)


def _rewound(left: Prompt, right: Prompt, begin: int) -> Cause | None:
    """Tell whether the right goes back to an earlier message of the user and says something else from there."""
    start = _turn_at(left, begin)
    if start is None or start != _turn_at(right, begin) or not begins_user_turn(right):
        return None
    rest = [segment for segment in right.messages.since(start) if segment.kind == "envelope"]
    gone = [segment for segment in left.messages.since(start) if segment.kind == "envelope"]
    if any(map(is_models, rest)) or not any(map(is_models, gone)):
        return None
    old = {segment.data for segment in left.messages.since(start) if segment.kind != "envelope"}
    if any(segment.data in old for segment in right.messages.since(start) if segment.kind != "envelope"):
        return None
    return Cause(Code.REWIND, "messages", MessagesTakenBack(len(gone)), len(left.head) + begin)


def _turn_at(prompt: Prompt, place: int) -> int | None:
    """Return where the message of the user begins that a place is in; None for another message."""
    if place >= len(prompt.messages):
        return None
    while place > 0 and prompt.messages[place].kind != "envelope":
        place -= 1
    one = prompt.messages[place]
    return place if one.kind == "envelope" and b'"user"' in one.data else None


def expired(context: PairContext) -> Cause | None:
    """Return that what the left wrote had expired; an entry that the bill shows unread died without any grace."""
    gone = expiry(context.left, context.right, context.lives, missed=bool(context.fell))
    if gone is None or not context.billed:
        return None
    return Cause(Code.CACHE_EXPIRED, "time", Paused(gone.pause, gone.lifetime), strength="strong")


def started_in_parallel(left: Turn, right: Turn) -> float | None:
    """Return how many seconds before the left's response began the right was sent; None where it was not."""
    begun = left.answered_at
    if begun is None or right.at is None or left.at is None or left.answered_at == left.at:
        return None
    early = begun - right.at
    return early if early > 0 and right.at >= left.at - _HOUR else None


_HOUR = 3600.0  # clocks of two machines may differ, and a recording may be put together from several


def parallel(context: PairContext) -> Cause | None:
    """Return that the right was sent before the entry that it would read was written."""
    early = started_in_parallel(context.left, context.right) if context.billed else None
    return None if early is None else Cause(Code.PARALLEL_START, "time", ParallelStart(early), strength="strong")


def older_entry(context: PairContext) -> Cause | None:
    """Return that exactly the entry before the last one was served, as happens within seconds."""
    soon, read = since(context.left, context.right), context.right.usage and context.right.usage.read_tokens
    if soon is None or not 0 <= soon <= SOON or not read or not context.billed:
        return None
    earlier = None if context.situation is None else context.situation.earlier
    if (read not in context.positions and read != earlier) or read == cached(context.left.usage):
        return None
    return Cause(Code.OLDER_ENTRY_SERVED, "time", OlderEntry(soon, read), strength="strong")


def since(left: Turn, right: Turn) -> float | None:
    """Return the seconds from the left's answer (its request where that is not known) to the right's request."""
    begun = left.answered_at if left.answered_at is not None else left.at
    return None if begun is None or right.at is None else right.at - begun
