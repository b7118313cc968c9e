"""When a session is learnt from: how much is new, whose it is, how long nobody has spoken.

In: events and entries. Out: what is to be learnt from, and when the last exchange of a person moved. Pure: the clock is
an argument. Rules: only exchanges that a person began count, so an agent that runs by itself is never learnt from, and
its ticks neither begin a pause nor end one; what is new begins behind a mark (the uuid of the last entry learnt from)
and is learnt from with the beginning of its exchange, since what an answer means depends on the question.
"""

from __future__ import annotations

from lore.compaction.activity import has_real_activity, is_real, needs_extraction
from lore.model.events import MAIN, Append, Event, TurnCompleted, TurnStarted
from lore.model.items import Item, UserMessage
from lore.model.state import Entry
from lore.model.turn import seconds
from lore.model.vector import Vector


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


def behind(entries: Vector[Entry], mark: str | None) -> list[Entry]:
    """Return the entries behind a mark; all, where it is not among them any more. Costs O(what is returned)."""
    return list(entries.since(_behind(entries, mark)))


def to_learn(entries: Vector[Entry], mark: str | None) -> list[Entry]:
    """Return what is to be learnt from: what is new, with the beginning of the exchange that the mark is in.

    Empty where no person began any of it.
    """
    place = _behind(entries, mark)
    found = list(entries.since(_begun(entries, place))) if place < len(entries) else []
    return found if has_real_activity(found) else []


def is_enough(entries: Vector[Entry], mark: str | None, window: int) -> bool:
    """Tell whether enough is new: `activity.needs_extraction` of what stands behind the mark."""
    return needs_extraction(behind(entries, mark), window)


def _behind(entries: Vector[Entry], mark: str | None) -> int:
    if mark is not None:
        for place in range(len(entries) - 1, -1, -1):
            if entries[place].item.uuid == mark:
                return place + 1
    return 0


def _begun(entries: Vector[Entry], place: int) -> int:
    """Return where a person's exchange begins that goes on at a place; the place itself where none does."""
    first = next((one for one in entries.since(place) if not _is_injected(one.item)), None)
    if first is None or _begins(first):
        return place
    for at in range(place - 1, -1, -1):
        if _begins(entries[at]):
            return at if is_real(entries[at].item) else place
    return place


def _begins(entry: Entry) -> bool:
    return isinstance(entry.item, UserMessage) and not _is_injected(entry.item)


def _is_injected(item: Item) -> bool:
    return isinstance(item, UserMessage) and item.source == "context_injection"
