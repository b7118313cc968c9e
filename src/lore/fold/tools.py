"""The order of tools that change in mid-session: those that were sent keep their places, late ones come last."""

from __future__ import annotations

from msgspec import Raw

from lore.model.canonical import text_of
from lore.model.jsonslice import table


def late_last(known: tuple[Raw, ...], given: tuple[Raw, ...]) -> tuple[Raw, ...]:
    """Return the given tools in the order of the known ones, by name; new ones behind, as they were given."""
    places = {name_of(tool): place for place, tool in reversed(list(enumerate(known)))}
    return tuple(sorted(given, key=lambda tool: places.get(name_of(tool), len(known))))


def name_of(tool: Raw) -> str:
    """Return a tool's name; a tool without one goes by its text."""
    own = table(bytes(tool)) or {}
    inner = table(own.get("function", b"null")) or own
    return text_of(inner.get("name", bytes(tool)))
