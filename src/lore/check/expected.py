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
from lore.check.bills import cached
from lore.check.compacted import moved_behind, replaced, summed_up
from lore.model.prompt import Prompt
from lore.model.turn import Turn
from lore.prefix.causes import Cause
from lore.prefix.likeness import is_models, same_head
from lore.prefix.overlap import Overlap
from lore.prefix.purpose import begins_user_turn

SOON = 3.0  # seconds after a request within which an older entry may be served


class PairContext(NamedTuple):
    """A pair before it is judged.

    `fell` as `bills.fall` says; `lives` how long what the left wrote lives; `positions` the tokens at the
    breakpoints of the turns before the left, the latest last; `billed` says that the two follow one another.
    """

    left: Turn
    right: Turn
    found: Overlap
    fell: int | None
    lives: float | None
    positions: tuple[int, ...]
    billed: bool


def by_shape(facts: PairContext) -> Cause | None:
    """Return the expected cause that the messages show: a restart, a compaction, a rewind."""
    left, right, found = facts.left, facts.right, facts.found
    if left.chain != right.chain and right.given_up == left.chain:
        number = sum(one.section == "tools" for one in left.prompt.head)
        said = f"the client dropped all {number} tools as a new user turn began, its system prompt unchanged"
        return Cause("LORE154", "tools", said, found.common)
    if found.covered or right.changes or right.fidelity in ("reconstructed", "rendered"):
        return None
    mine, theirs = left.prompt, right.prompt
    if mine.dialect != theirs.dialect:
        return None
    begin = mine.messages.common(theirs.messages)
    if begin == len(mine.messages):
        return None
    if not same_head(mine, theirs):
        return moved_behind(mine, theirs, found.common)
    return summed_up(mine, theirs, begin) or _rewound(mine, theirs, begin) or replaced(mine, theirs, begin)


def _rewound(left: Prompt, right: Prompt, begin: int) -> Cause | None:
    """Tell whether the right goes back to an earlier message of the user and says something else from there."""
    mine = _turn_at(left, begin)
    theirs = _turn_at(right, begin)
    if mine is None or mine != theirs or not begins_user_turn(right):
        return None
    rest = [one for one in right.messages.since(mine) if one.kind == "envelope"]
    gone = [one for one in left.messages.since(mine) if one.kind == "envelope"]
    if any(is_models(one) for one in rest) or not any(is_models(one) for one in gone):
        return None
    old = {one.data for one in left.messages.since(mine) if one.kind != "envelope"}
    if any(one.data in old for one in right.messages.since(mine) if one.kind != "envelope"):
        return None
    return Cause(
        "LORE143", "messages", f"{len(gone)} messages were taken back, and another one asked", len(left.head) + begin
    )


def _turn_at(prompt: Prompt, place: int) -> int | None:
    """Return where the message of the user begins that a place is in; None for another message."""
    if place >= len(prompt.messages):
        return None
    while place > 0 and prompt.messages[place].kind != "envelope":
        place -= 1
    one = prompt.messages[place]
    return place if one.kind == "envelope" and b'"user"' in one.data else None


def by_time(facts: PairContext, *, goes_on: bool) -> Cause | None:
    """Return the expected cause that times show: expiry, a start in parallel, an older entry that was served.

    `goes_on` says that the bytes explain no break.
    """
    if not facts.billed:
        return None
    return _expired(facts) or _parallel(facts) or (_older(facts) if goes_on else None)


def _expired(facts: PairContext) -> Cause | None:
    gone = expiry(facts.left, facts.right, facts.lives, missed=bool(facts.fell))
    if gone is None:
        return None
    paused = f"{duration(gone.pause)} since the last turn; the cache lives {duration(gone.lifetime)}"
    return Cause("LORE128", None, paused)


def started_in_parallel(left: Turn, right: Turn) -> float | None:
    """Return how many seconds before the left's response began the right was asked; None where it was not."""
    begun = left.answered_at
    if begun is None or right.at is None or left.at is None or left.answered_at == left.at:
        return None
    early = begun - right.at
    return early if early > 0 and right.at >= left.at - _HOUR else None


_HOUR = 3600.0  # clocks of two machines may differ, and a recording may be put together from several


def _parallel(facts: PairContext) -> Cause | None:
    early = started_in_parallel(facts.left, facts.right)
    if early is None:
        return None
    said = f"asked {duration(early)} before the response that writes the entry began: nothing could be read yet"
    return Cause("LORE129", None, said)


def _older(facts: PairContext) -> Cause | None:
    """Tell whether the entry before the last one was served, as happens within seconds."""
    soon, read = since(facts.left, facts.right), facts.right.usage and facts.right.usage.read_tokens
    if soon is None or not 0 <= soon <= SOON or not read:
        return None
    if read not in facts.positions or read == cached(facts.left.usage):
        return None
    said = (
        f"asked {duration(soon)} after the request before; {read:,} tokens were read: "
        "exactly the breakpoint before the last"
    )
    return Cause("LORE155", None, said)


def since(left: Turn, right: Turn) -> float | None:
    """Return the seconds from the left's answer (its request where that is not known) to the right's request."""
    begun = left.answered_at if left.answered_at is not None else left.at
    return None if begun is None or right.at is None else right.at - begun


def duration(seconds: float) -> str:
    """Say a time in the unit that a person would."""
    if seconds < 10 and seconds != round(seconds):
        return f"{seconds:.1f} s"
    if seconds < 120:
        return f"{seconds:.0f} s"
    if seconds < 7200:
        minutes, rest = divmod(round(seconds), 60)
        return f"{minutes} min {rest} s" if rest else f"{minutes} min"
    return f"{seconds / 3600:.1f} h"
