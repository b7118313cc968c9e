"""Entry points of lore's groups that installed packages publish, lore's own plug-ins among them.

A group is named `lore.SOMETHING` (`lore.commands`, `lore.formats`, …). The lists of entry points are read directly:
importing `importlib.metadata` and reading six groups with it takes 60 ms with 160 packages, this takes 3. Only if a
package may be elsewhere than in a folder (an archive, another importer) the standard library is used.

lore's own plug-ins are packages of `lore_plugins`, which comes in the same distribution. An installation without that
package has none of them, and nothing is published for them then.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, MutableMapping
from functools import lru_cache
from importlib import import_module
from importlib.machinery import PathFinder
from importlib.util import find_spec
from typing import Any, NamedTuple

from lore.errors import LoreError

__all__ = ["EntryPoint", "entry_points", "register_plugins"]

_INFO = (".dist-info", ".egg-info", "egg-info")


class EntryPoint(NamedTuple):
    """An entry point of a package."""

    group: str
    name: str
    value: str  # "package.module:attribute"

    def load(self) -> Any:
        """Import the module and return the attribute; raises what the import raises."""
        module, _, attribute = self.value.partition(":")
        target: Any = import_module(module)
        for name in filter(None, attribute.split(".")):
            target = getattr(target, name)
        return target


def register_plugins(
    group: str, registry: MutableMapping[str, Any], *, call: bool = False, add: Callable[[str, Any], None] | None = None
) -> None:
    """Add one group's plug-ins to a registry, by `add` if it is given; `call` if they are functions that make one.

    A plug-in never replaces a row of the same name. Raises LoreError for one that cannot be loaded.
    """
    for point in entry_points(group):
        if point.name in registry:
            continue
        try:
            plugin = point.load()
            (add or registry.__setitem__)(point.name, plugin() if call else plugin)
        except Exception as error:  # noqa: BLE001 - anything may be wrong with code of others
            raise LoreError(
                f"the plug-in {point.name!r} ({group}) cannot be loaded: {error}",
                hint=f"repair or remove {point.value}",
            ) from None


def entry_points(group: str) -> list[EntryPoint]:
    """Return what installed packages publish under a group; lore's own plug-ins only if they can be imported."""
    return [point for point in _all_published(tuple(sys.path)) if point.group == group]


@lru_cache(maxsize=1)
def _all_published(folders: tuple[str, ...]) -> tuple[EntryPoint, ...]:
    if any(hasattr(finder, "find_distributions") and finder is not PathFinder for finder in sys.meta_path):
        points = _from_metadata()
    else:
        try:
            points = _from_folders(folders)
        except NotADirectoryError:  # an archive
            points = _from_metadata()
    others = [point for point in points if not point.value.startswith("lore_plugins.")]
    try:
        has_own = len(others) < len(points) and find_spec("lore_plugins") is not None
    except ImportError:
        has_own = False
    return tuple(points if has_own else others)


def _from_metadata() -> list[EntryPoint]:
    from importlib.metadata import distributions  # noqa: PLC0415 - slow to import

    packages = {package.name: package.entry_points for package in reversed(list(distributions()))}  # the first one wins
    return [
        EntryPoint(point.group, point.name, point.value)
        for points in reversed(packages.values())
        for point in points
        if point.group.startswith("lore.")
    ]


def _from_folders(folders: tuple[str, ...]) -> list[EntryPoint]:
    """Return the entry points of packages in these folders; of a package that is there twice, those of the first."""
    packages: dict[str, list[EntryPoint]] = {}
    for folder in folders:
        try:
            names = sorted(os.listdir(folder or os.curdir))
        except NotADirectoryError:
            raise
        except OSError:
            continue
        for name in names:
            if name.lower().endswith(_INFO):
                package = name.partition("-")[0].lower()
                points = _read(os.path.join(folder, name, "entry_points.txt"))
                if points:
                    packages.setdefault(package, points)
    return [point for points in packages.values() for point in points]


def _read(path: str) -> list[EntryPoint]:
    """Return the entry points of lore's groups in a package's list, which is an INI file; empty if it has none."""
    try:
        with open(path, "rb") as file:
            data = file.read()
    except OSError:
        return []
    points: list[EntryPoint] = []
    group = ""
    for line in map(str.strip, data.decode("utf-8", "replace").splitlines() if b"[lore." in data else ()):
        if line.startswith("["):
            group = line.strip("[]")
        elif group.startswith("lore.") and "=" in line and not line.startswith(("#", ";")):
            name, _, value = line.partition("=")
            points.append(EntryPoint(group, name.strip(), value.partition("[")[0].strip()))
    return points
