"""The public names of a room, imported when they are first used.

A room's `__init__` lists them twice: imported below `TYPE_CHECKING` for type checkers, and by module for
`public_names`; a test holds the two together. Plug-ins import nothing else of lore.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any

__all__ = ["public_names"]


def public_names(room: str, modules: Mapping[str, str], whole: Mapping[str, str] | None = None) -> Callable[[str], Any]:
    """Return the `__getattr__` of a room, which also knows `__all__`.

    `modules` maps each module of the room to its public names, separated by spaces. `whole` maps a public name to the
    module that it stands for.
    """
    places = {name: (f"{room}.{module}", name) for module, names in modules.items() for name in names.split()}
    places |= {name: (f"{room}.{module}", "") for name, module in (whole or {}).items()}

    def get(name: str) -> Any:
        if name == "__all__":
            return sorted(places)
        if name not in places:
            raise AttributeError(f"module {room!r} has no attribute {name!r}")
        module, attribute = places[name]
        found = import_module(module)
        return getattr(found, attribute) if attribute else found

    return get
