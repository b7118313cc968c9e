"""The public names of a room, imported when they are first used.

A room's `__init__` imports each below `TYPE_CHECKING`, `as` the name itself; `public_names` reads that list from the
source of the module. Plug-ins import nothing else of lore.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from functools import cache
from importlib import import_module
from typing import Any

__all__ = ["public_names"]


def public_names(room: str) -> Callable[[str], Any]:
    """Return the `__getattr__` of a room, which also knows `__all__`."""

    def get(name: str) -> Any:
        try:  # `from lore.model import events` asks here before it imports the module
            return import_module(f"{room}.{name}")
        except ModuleNotFoundError as error:
            if error.name != f"{room}.{name}":
                raise
        places = _places_in(room)
        if name == "__all__":
            return sorted(places)
        if name not in places:
            raise AttributeError(f"module {room!r} has no attribute {name!r}")
        module, attribute = places[name]
        value = getattr(__import__(module, fromlist=[attribute]), attribute)
        return vars(sys.modules[room]).setdefault(name, value)  # an import statement asks twice

    return get


@cache
def _places_in(room: str) -> dict[str, tuple[str, str]]:
    """Return the module of each public name, and its name there."""
    with open(str(sys.modules[room].__file__), encoding="utf-8") as file:
        statements = re.findall(r"^    from (\S+) import (\([^)]*\)|[^#\n]*)", file.read(), re.MULTILINE)
    return {
        public: (module, name) for module, names in statements for name, public in re.findall(r"(\w+) as (\w+)", names)
    }
