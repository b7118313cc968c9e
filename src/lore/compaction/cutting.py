"""Where a compaction cuts: which entries stay.

In: entries, how many messages are to stay. Out: a cut. Rules: what stays are the last messages (dividers and opaque
items are counted as none: they say nothing, and stay or go with their neighbours); one response stays together, its
text and its parallel calls, however many messages that is; a call that is still running is held with its response;
what no model has answered yet stays, whoever said it. A cut that takes no message away is none.
"""

from __future__ import annotations

from lore.compaction.activity import Entries, calls_tools, is_message
from lore.compaction.base import Cut
from lore.model.items import AssistantMessage, CompactDivider, ToolCall, UserMessage
from lore.model.state import Entry
from lore.prompt.speakers import is_real


def cut(entries: Entries, keep_recent: int) -> Cut | None:
    """Return the cut that keeps at least the last messages; None where it would take none away. Costs O(entries)."""
    place = _whole(entries, min(_wanted(entries, keep_recent), _unanswered(entries)))
    held = _held(entries, place)
    if not any(is_message(entry.item) for entry in _gone(entries, place, held)):
        return None
    return Cut(place, held, _exchange(entries, place))


def pruned(entries: Entries, made: Cut) -> tuple[Entry, ...]:
    """Return the entries that go, oldest first."""
    return tuple(_gone(entries, made.place, made.held))


def kept(entries: Entries, made: Cut) -> tuple[Entry, ...]:
    """Return the entries that stay, in their order."""
    return (*[entries[place] for place in made.held], *[entries[at] for at in range(made.place, len(entries))])


def opening(entries: Entries, made: Cut) -> tuple[Entry, ...]:
    """Return those of the entries that go which begin the exchange whose end stays."""
    if made.exchange is None:
        return ()
    held = set(made.held)
    return tuple([entries[at] for at in range(made.exchange, made.place) if at not in held])


def _gone(entries: Entries, place: int, held: tuple[int, ...]) -> list[Entry]:
    stay = set(held)
    return [entry for at, entry in zip(range(place), entries, strict=False) if at not in stay]


def _wanted(entries: Entries, keep_recent: int) -> int:
    """Return the place of the first message to keep; the end where none is kept."""
    left, place = keep_recent, len(entries)
    while left > 0 and place > 0:
        place -= 1
        left -= is_message(entries[place].item)
    return place


def _unanswered(entries: Entries) -> int:
    """Return where what no model has answered begins: what was said last, or the results of the last response."""
    place = len(entries)
    for at in range(len(entries) - 1, -1, -1):
        item = entries[at].item
        if isinstance(item, AssistantMessage | ToolCall):
            return at if place == len(entries) and calls_tools(entries, at) else place
        if isinstance(item, UserMessage):
            place = at
    return place


def _whole(entries: Entries, place: int) -> int:
    """Return the beginning of the response that a place is in."""
    while 0 < place < len(entries) and entries[place].group == entries[place - 1].group:
        place -= 1
    return place


def _held(entries: Entries, place: int) -> tuple[int, ...]:
    """Return the places of the responses before this one with a call that is still running."""
    running = {
        entry.group
        for _, entry in zip(range(place), entries, strict=False)
        if isinstance(entry.item, ToolCall) and entry.item.status == "running"
    }
    return tuple([at for at in range(place) if entries[at].group in running]) if running else ()


def _exchange(entries: Entries, place: int) -> int | None:
    """Return where the exchange begins that a place falls into; None where it is the beginning of one, or of none.

    Of one whose beginning an earlier compaction took, that is where the rest of it begins.
    """
    if place == len(entries) or is_real(entries[place].item):
        return None
    for at in range(place - 1, -1, -1):
        if is_real(entries[at].item):
            return at
        if isinstance(entries[at].item, CompactDivider):
            return at + 1
    return None
