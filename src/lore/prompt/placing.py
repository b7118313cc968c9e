"""Where text that lore adds may stand between the entries of a timeline.

Rules: never last; never inside a response or between a call and its result; behind a tool's result only
directly before a real user message, for a model reads it there as the user's next turn (that once made
a model repeat itself until its context was full). Source: the two systems that did this before.
"""

from __future__ import annotations

from lore.model.items import ToolCall
from lore.model.state import Chain, Entry
from lore.model.vector import Vector
from lore.prompt.speakers import is_from_user


def anchor(chain: Chain) -> int | None:
    """Return the place of the last real user message that no request has sent; None where there is none."""
    entries = chain.entries
    for place in range(len(entries) - 1, chain.sent - 1, -1):
        if is_from_user(entries[place].item):
            return place
    return None


def safe(entries: Vector[Entry], desired: int, floor: int = 0) -> int:
    """Return the last place up to `desired` where text may stand; not before `floor`, where it may have to wait."""
    place = max(floor, min(desired, len(entries) - 1))
    while place > floor and not fits(entries, place):
        place -= 1
    return place


def fits(entries: Vector[Entry], place: int) -> bool:
    """Tell whether text may stand before the entry at a place."""
    if place >= len(entries):
        return False
    if place == 0 or is_from_user(entries[place].item):
        return True
    group = entries[place - 1].group
    if entries[place].group == group:
        return False
    while place > 0 and entries[place - 1].group == group:
        place -= 1
        if isinstance(entries[place].item, ToolCall):
            return False
    return True
