"""Registries whose entries are imported when they are asked for: a command that needs one report reads no other."""

from __future__ import annotations

from collections.abc import Callable, Iterator, MutableMapping
from importlib import import_module
from typing import Generic, TypeVar, cast

T = TypeVar("T")


class Places(MutableMapping[str, T], Generic[T]):
    """Values by name, of which some are still places (`module:name`, below `package`).

    Of what stands at a place `made` makes the value, once. Looking for a name, and listing them, imports nothing.
    """

    def __init__(
        self, package: str, places: dict[str, str], made: Callable[[Callable[[], T]], T] | None = None
    ) -> None:
        self._package = package
        self._places = dict(places)
        self._made = made
        self._values: dict[str, T] = {}

    def __getitem__(self, name: str) -> T:
        if name in self._values:
            return self._values[name]
        module, _, inside = self._places[name].partition(":")
        found = getattr(import_module(f"{self._package}.{module}"), inside)
        self._values[name] = value = cast("T", found) if self._made is None else self._made(found)
        return value

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
