"""Fakes of modules that an engine imports but its cache never uses, so that a tree is importable without kernels.

Every name of such a module is a class that does nothing. Used only in the oracle's own process.
"""

import importlib.abc
import importlib.machinery
import sys
import types
from collections.abc import Iterable, Sequence


class _Named(type):
    """Classes whose every attribute is a class like them."""

    def __getattr__(cls, name: str) -> type:
        if name.startswith("__"):
            raise AttributeError(name)
        return StandIn

    def __or__(cls, other: object) -> type:
        return cls

    __ror__ = __or__

    def __getitem__(cls, key: object) -> type:
        return cls


class StandIn(metaclass=_Named):
    """Accepts all arguments and does nothing; as a decorator it returns the decorated function."""

    def __init__(self, *args: object, **keywords: object) -> None:
        pass

    def __call__(self, *args: object, **keywords: object) -> object:
        return args[0] if len(args) == 1 and callable(args[0]) else self

    def __getattr__(self, name: str) -> object:
        if name.startswith("__"):
            raise AttributeError(name)
        return StandIn()


class _Module(types.ModuleType):
    __path__: Sequence[str] = []

    def __getattr__(self, name: str) -> type:
        if name.startswith("__"):
            raise AttributeError(name)
        return StandIn


class _Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    def __init__(self, names: Iterable[str]) -> None:
        self._names = tuple(names)

    def find_spec(self, fullname: str, path: object = None, target: object = None):
        if any(fullname == name or fullname.startswith(name + ".") for name in self._names):
            return importlib.machinery.ModuleSpec(fullname, self, is_package=True)
        return None

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> types.ModuleType:
        return _Module(spec.name)

    def exec_module(self, module: types.ModuleType) -> None:
        pass


def stand_in(*names: str) -> None:
    """Replace these modules by fakes from now on."""
    sys.meta_path.insert(0, _Finder(names))
