"""What a template may cost: work and memory, counted and never timed, so that the answer is the same everywhere.

A unit of work is about one expression, or 64 characters handled. Rules: what an operation costs is charged
before it runs where it can amplify, after it where it cannot; a value that an operation would walk through
is walked here first, so a small graph of shared lists cannot stand for an endless tree; an object that is
no data (a function, a macro) has no text: it would show an address.
"""

from __future__ import annotations

from collections.abc import ItemsView, KeysView, ValuesView
from typing import Any, cast

from jinja2 import TemplateRuntimeError, Undefined

MAX_BITS = 4096  # of an integer: beyond it arithmetic is no longer cheap
MAX_DEPTH = 64  # of calls: macros, recursive loops, blocks
_CHARS = 64


class RefusedError(TemplateRuntimeError):
    """A template did what the sandbox does not allow."""


class Meter:
    """What is left of the work and of the characters that a rendering may make."""

    def __init__(self, work: int, made: int) -> None:
        self.work = work
        self.made = made
        self.depth = 0

    def step(self, work: int) -> None:
        """Charge work; raises RefusedError when none is left."""
        self.work -= abs(work)
        if self.work < 0:
            raise RefusedError("it does far more work than its input can need: a loop or a recursion without end?")

    def make(self, size: int) -> None:
        """Charge characters, or the 8 bytes of a list's item as 8."""
        self.made -= abs(size)
        if self.made < 0:
            raise RefusedError("it makes far more text than its input can need")
        self.step(1 + abs(size) // _CHARS)

    def enter(self) -> None:
        """Charge a call; raises RefusedError where calls nest too deeply."""
        self.step(2)
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise RefusedError(f"its macros or loops call each other more than {MAX_DEPTH} deep")

    def weigh(self, value: object) -> int:
        """Charge a walk through all of a value and return about how many characters it holds."""
        if type(value) is str:
            self.step(1 + len(value) // _CHARS)
            return len(value)
        total = 0
        left: list[object] = [value]
        while left:
            one = left.pop()
            size = self._open(one, left)
            self.step(2 + size // _CHARS)
            total += size
        return total

    def _open(self, one: object, left: list[object]) -> int:
        """Return the size of a value alone; what it holds goes to `left`."""
        if isinstance(one, str):
            return len(one)
        if one is None or isinstance(one, bool | float | Undefined):
            return 8
        if isinstance(one, int):
            return self.number(one)
        if isinstance(one, dict):
            table = cast("dict[Any, Any]", one)
            self.step(len(table))
            left += table.keys()
            left += table.values()
            return 2 + 4 * len(table)
        if isinstance(one, list | tuple | KeysView | ValuesView | ItemsView):
            items = cast("list[object]", one)
            self.step(len(items))
            left += items
            return 2 + 2 * len(items)
        if isinstance(one, range):
            return len(one)
        raise RefusedError(f"it uses a {type(one).__name__} as if it were data")

    def number(self, value: int) -> int:
        """Return the digits of an integer; raises RefusedError where it has too many."""
        if value.bit_length() > MAX_BITS:
            raise RefusedError("it computes with a number of more than a thousand digits")
        return 1 + value.bit_length() // 3
