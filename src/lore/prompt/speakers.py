"""Whose a user's message is: a user's by its form, and a person's or a scheduler's by what it says.

In: an item. Out: whether it is one. Rules: what came from a user by its source may still be a scheduler's: two texts
are known that its messages begin with.
"""

from __future__ import annotations

from msgspec import Raw

from lore.model.canonical import text_of
from lore.model.items import Item, TextBlock, UserMessage, is_absent, is_blank

TICKS = ("[AUTONOMOUS TICK]", "[SCHEDULED TICK]")


def is_from_user(item: Item) -> bool:
    """Tell whether an item is a message that came from a user, and says something."""
    if type(item) is not UserMessage or item.source != "user":
        return False
    if item.blocks is None:
        return not is_absent(item.text) and not is_blank(item.text)
    return any(type(one) is not TextBlock or not is_blank(one.text) for one in item.blocks)


def is_real(item: Item) -> bool:
    """Tell whether a person said it."""
    return is_from_user(item) and isinstance(item, UserMessage) and not _is_tick(item)


def _is_tick(item: UserMessage) -> bool:
    if item.blocks is None:
        return begins_as_tick(item.text)
    first = next((one for one in item.blocks if isinstance(one, TextBlock)), None)
    return first is not None and begins_as_tick(first.text)


def begins_as_tick(text: Raw) -> bool:
    """Tell whether a JSON string begins as a scheduler's message does. O(1) for nearly all."""
    start = bytes(memoryview(text)[1:65]).lstrip(b" ")[:1]
    return start in (b"", b"[", b"\\") and text_of(bytes(text)).lstrip().startswith(TICKS)
