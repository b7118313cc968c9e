"""What is made when it is first used: entries of registries, and regular expressions.

A command that needs one report imports no other. Compiling the patterns of all rooms takes 30 ms, and judging one small
file uses few of them; what every recording needs, or a hot loop, is compiled at once: this costs a look into a
dictionary more at each use.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, MutableMapping
from importlib import import_module
from typing import Any, AnyStr, Generic, TypeVar, cast

T = TypeVar("T")


class Places(MutableMapping[str, T], Generic[T]):
    """Values by name, of which some are still places (`module:name`, below `package`).

    Of what stands at a place `made` makes the value, once. Looking for a name, and listing them, imports nothing.
    """

    def __init__(
        self, package: str, places: dict[str, str], made: Callable[[Callable[[], T]], T] | None = None
    ) -> None:
        self._places = {name: f"{package}.{place}" for name, place in places.items()}
        self._made = made
        self._values: dict[str, T] = {}

    def __getitem__(self, name: str) -> T:
        if name in self._values:
            return self._values[name]
        module, _, inside = self._places[name].partition(":")
        found = getattr(import_module(module), inside)
        self._values[name] = value = cast("T", found) if self._made is None else self._made(found)
        return value

    def add_place(self, name: str, place: str) -> None:
        """Add a value by its whole import path, `module:name`."""
        self._places[name] = place

    def __setitem__(self, name: str, value: T) -> None:
        self._places.setdefault(name, "")
        self._values[name] = value

    def __delitem__(self, name: str) -> None:
        del self._places[name]
        self._values.pop(name, None)

    def __contains__(self, name: object) -> bool:
        return name in self._places

    def __iter__(self) -> Iterator[str]:
        return iter(self._places)

    def __len__(self) -> int:
        return len(self._places)


def pattern(text: AnyStr, flags: int = 0) -> re.Pattern[AnyStr]:
    """Return what `re.compile` would; a fault of it is raised at its first use."""
    return cast("re.Pattern[AnyStr]", _Uncompiled(text, flags))


class _Uncompiled:
    def __init__(self, text: str | bytes, flags: int) -> None:
        self._text, self._flags = text, flags

    def __getattr__(self, name: str) -> Any:
        found = getattr(re.compile(self._text, self._flags), name)
        setattr(self, name, found)
        return found

    def __reduce__(self) -> Any:
        return pattern, (self._text, self._flags)
