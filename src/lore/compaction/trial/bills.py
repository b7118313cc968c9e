"""What a turn would have been billed if its prompt had been compacted before.

In: the bill of a turn as it was recorded, what had been pruned by then and what stood in its place. Out: another bill.
Rules: the prompt is taken as head, what was pruned, the rest; the recorded bill says up to where the cache was read,
and so whether the pruned part was read (then it is not read any more) or written (nor is it then written); the first
turn after a compaction reads the head at most. What was answered stays the same. All of it is estimated, from
recorded counts; a count that is not known stays unknown. Costs O(1).
"""

from __future__ import annotations

from typing import NamedTuple

from msgspec.structs import replace

from lore.cache.bills import total
from lore.cache.lifetime import ONE_HOUR
from lore.model.events import Billed


class PromptChange(NamedTuple):
    """How a prompt differs from the recorded one, in tokens: `head` comes first in both, then `removed` of the
    recorded one or `added` in their place, `new` of them sent for the first time. `rewritten`: it is the first since
    the compaction.
    """

    head: int
    removed: int
    added: int
    rewritten: bool = False
    new: int = 0


def rebilled(bill: Billed, change: PromptChange) -> Billed | None:
    """Return what the turn would have been billed; None where the bill does not say how long its prompt was."""
    whole = total(bill)
    if whole is None:
        return None
    if change.removed == change.added == 0 and not change.rewritten:
        return bill
    head = min(change.head, whole)
    removed = min(change.removed, whole - head)
    size, read = whole - removed + change.added, bill.read_tokens or 0
    past = read - head - removed  # how far behind what was pruned the cache was read
    if change.rewritten or past < 0 or past == removed == 0:
        read = min(read, head)
    else:
        read += change.added - change.new - removed
    return _split(bill, read, size)


def _split(bill: Billed, read: int, size: int) -> Billed:
    """Return a bill of so many tokens, `read` of them read; what is not written is uncached, as in the recorded one."""
    if bill.write_tokens is None:
        return replace(bill, read_tokens=read, uncached_tokens=size - read)
    uncached = min(bill.uncached_tokens or 0, size - read)
    write = size - read - uncached
    if (
        not bill.write_tokens and bill.uncached_tokens
    ):  # nothing was cached: it is sent without breakpoints, or is too short
        uncached, write = uncached + write, 0
    hour = bill.write_1h_tokens
    if hour:
        hour = write * hour // bill.write_tokens if bill.write_tokens else write
    short = None if bill.write_5m_tokens is None else write - (hour or 0)
    return replace(
        bill,
        read_tokens=read,
        uncached_tokens=uncached,
        write_tokens=write,
        write_1h_tokens=hour,
        write_5m_tokens=short,
    )


def foreseen(size: int, stood: int | None, pause: float | None, lives: float | None) -> Billed | None:
    """Return what a turn without a bill was probably billed: all that stood in the cache is read while it lives.

    `stood` is None for a chain's first turn. None where nobody knows how long it lives, or how long the pause was.
    """
    if stood is None:
        read = 0
    elif pause is None or lives is None:
        return None
    else:
        read = min(stood, size) if pause <= lives else 0
    write = size - read
    hour = write if lives is not None and lives == ONE_HOUR else None
    return Billed(uncached_tokens=0, read_tokens=read, write_tokens=write, write_1h_tokens=hour)
