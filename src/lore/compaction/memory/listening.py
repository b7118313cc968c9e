"""When to learn from a session: how much is new, since when the user has been silent.

In: events and entries. Out: what is to be learnt from, and when the last exchange of a person moved. Pure: the clock is
an argument. Rules: only exchanges that a person began count, so an agent that runs by itself is never learnt from, and
its ticks neither begin a pause nor end one; what is new begins behind a mark and is learnt from with the
beginning of its exchange, since what an answer means depends on the question; outside context is never learnt from.

A mark says up to where a session was learnt from: digests of a few of its entries, kept with what was remembered. It is
small however long the session is, and holds for these entries alone, so that another session of the same name is new
as a whole. A rewind takes the last entries away: the others still stand for what was learnt before them.
"""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import sha256
from typing import NamedTuple, TypeAlias

from lore.compaction.activity import Entries, has_real_activity, needs_extraction
from lore.model.events import MAIN, Append, Event, TurnCompleted, TurnStarted
from lore.model.items import Item, UserMessage
from lore.model.state import Entry
from lore.model.turn import seconds
from lore.prompt.layout import is_real

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


class Silence:
    """Follows the events of one session: how often a person's exchange has moved, and when last.

    `last` is in seconds since 1970, None where no event says when it was.
    """

    def __init__(self) -> None:
        self.moves = 0
        self.last: float | None = None
        self._is_real = False

    def feed(self, event: Event) -> None:
        """Take the session's next event. O(1)."""
        if not isinstance(event, Append | TurnStarted | TurnCompleted) or event.chain != MAIN:
            return
        if isinstance(event, Append):
            if _is_injected(event.item):
                return
            if isinstance(event.item, UserMessage):
                self._is_real = is_real(event.item)
            self.moves += self._is_real
        at = seconds(event.at) if self._is_real else None
        self.last = self.last if at is None else at


class Given(NamedTuple):
    """Entries to learn from; the first `old` of them were learnt from before, and say what the others answer."""

    entries: Iterable[Entry] = ()
    old: int = 0


NOTHING = Given()


def to_learn(entries: Entries, mark: Mark | None, stop: int | None = None) -> Given:
    """Return what is to be learnt from: what is new before a place, with the beginning of the exchange that goes on.

    `NOTHING` where no person began any of it. Costs O(what is returned).
    """
    place, end = behind(entries, mark), len(entries) if stop is None else stop
    if place >= end:
        return NOTHING
    begun = _begun(entries, place)
    old, new = (
        [entries[at] for at in range(*ends) if not _is_injected(entries[at].item)]
        for ends in ((begun, place), (place, end))
    )
    return Given([*old, *new], len(old)) if new and has_real_activity([*old, *new]) else NOTHING


def is_enough(entries: Entries, mark: Mark | None, window: int) -> bool:
    """Tell whether enough is new: `activity.needs_extraction` of what stands behind the mark."""
    return needs_extraction([entries[at] for at in range(behind(entries, mark), len(entries))], window)


def _begun(entries: Entries, place: int) -> int:
    """Return where a person's exchange begins that goes on at a place; the place itself where none does."""
    first = next((at for at in range(place, len(entries)) if not _is_injected(entries[at].item)), None)
    if first is None or _begins(entries[first]):
        return place
    for at in range(place - 1, -1, -1):
        if _begins(entries[at]):
            return at if is_real(entries[at].item) else place
    return place


def _begins(entry: Entry) -> bool:
    return isinstance(entry.item, UserMessage) and not _is_injected(entry.item)


def _is_injected(item: Item) -> bool:
    return isinstance(item, UserMessage) and item.source == "context_injection"
