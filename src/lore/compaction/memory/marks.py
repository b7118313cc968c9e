"""Up to where a session was learnt from: a mark that is kept with what was remembered.

In: a timeline. Out: digests of a few of its entries, and the place behind the latest of them that is still there.
Rules: a mark is small however long the session is and whatever its ids are; it holds for the entries that it was made
of alone, so that another session of the same name is new as a whole. A rewind takes the last entries away: those
further back still stand for what was learnt before them, so that little is learnt twice.
"""

from __future__ import annotations

from hashlib import sha256
from typing import TypeAlias

from lore.compaction.activity import Entries

Mark: TypeAlias = tuple[str, ...]

BACK = (1, 2, 5, 17, 65, 257)  # how far from the end the entries stand that are noted
DIGITS = 16


def mark_of(entries: Entries, stop: int | None = None) -> Mark:
    """Return the mark of having learnt from all entries before a place; empty where there are none."""
    end = len(entries) if stop is None else stop
    return tuple([_digest(entries[end - back].item.uuid) for back in BACK if back <= end])


def behind(entries: Entries, mark: Mark | None) -> int:
    """Return the place behind a mark; 0 where nothing of it is left. Costs O(what is behind)."""
    noted = frozenset(mark or ())
    for place in range(len(entries) - 1, -1, -1) if noted else ():
        if _digest(entries[place].item.uuid) in noted:
            return place + 1
    return 0


def _digest(uuid: str) -> str:
    return sha256(uuid.encode("utf-8", "surrogatepass")).hexdigest()[:DIGITS]
