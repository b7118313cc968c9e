"""Readers, dialects, rules, caches, stores and reports that other packages publish under lore's entry-point groups.

Loaded once, when a command begins to read. A plug-in never replaces what lore has under the same name;
one that cannot be loaded is an error that names it.
"""

from __future__ import annotations

from functools import cache
from importlib.metadata import entry_points
from typing import Any

from lore.cache.registry import CACHES
from lore.errors import LoreError
from lore.formats.registry import READERS
from lore.judge.base import RULES
from lore.prompt.dialects import DIALECTS
from lore.store.registry import GROUP, STORES

# A reader, store or cache model is published as its class; a dialect or rule is made by calling what is published.
_GROUPS: dict[str, tuple[dict[str, Any], bool]] = {
    "lore.formats": (READERS, False),
    "lore.dialects": (DIALECTS, True),
    "lore.rules": (RULES, True),
    "lore.caches": (CACHES, False),
    GROUP: (STORES, False),
}


@cache
def load() -> None:
    """Fill the registries; raises LoreError for a plug-in that cannot be loaded."""
    for group, (registry, call) in _GROUPS.items():
        register(group, registry, call=call)


def register(group: str, registry: dict[str, Any], *, call: bool) -> None:
    """Add one group's plug-ins to a registry."""
    for point in entry_points(group=group):
        if point.name in registry:
            continue
        try:
            found = point.load()
            registry[point.name] = found() if call else found
        except Exception as error:  # noqa: BLE001 - anything may be wrong with code of others
            raise LoreError(
                f"the plug-in {point.name!r} ({group}) cannot be loaded: {error}", hint=f"mend or remove {point.value}"
            ) from None
