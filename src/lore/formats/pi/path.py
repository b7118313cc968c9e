"""The tree of a pi session, and the path through it that a prompt is made of.

In: entries in the order of the file, each with its parent's number. Out: which items go and which entries come again
when an entry does not follow the last one. Rules: numbers count from 1, 0 is the root; the leaf is the last entry; what
a prompt holds is the last compaction on the path (or reset), what that keeps, and what follows. Memory: a name and some
numbers an entry; the lines of the latest, up to `MOST_BYTES`, for what comes again on another branch.
"""

from __future__ import annotations

from typing import NamedTuple

from msgspec import Struct

from lore.formats.pi.messages import item_name

RESULT, COMPACTION, RESET = -1, -2, -3  # what an entry is that has no items of its own
MOST_BYTES = 8 * 1024 * 1024  # bytes of the latest lines, kept for what comes again on another branch


class PiTree(Struct):
    """All entries, and the path.

    By number: `names`, `parents`, `depths` on their branch from 0, `sizes` (how many items, or what else). `fold` is
    the place on the path of its last compaction or reset, -1 where there is none, `kept` that of the first entry which
    it keeps. `tails` names the items that compactions brought themselves. `lines` are the latest, oldest first.
    """

    names: list[str] = []
    parents: list[int] = []
    depths: list[int] = []
    sizes: list[int] = []
    path: list[int] = []
    fold: int = -1
    kept: int = -1
    tails: dict[int, tuple[str, ...]] = {}
    lines: dict[int, bytes] = {}
    line_bytes: int = 0

    @property
    def leaf(self) -> int:
        """The last entry of the path; 0: none."""
        return self.path[-1] if self.path else 0

    def add(self, name: str, line: bytes) -> int:
        """Put a new entry behind the leaf; return its number."""
        names, path = self.names, self.path
        names.append(name)
        self.parents.append(path[-1] if path else 0)
        self.depths.append(len(path))
        self.sizes.append(0)
        number = len(names)
        path.append(number)
        self.lines[number] = line
        self.line_bytes += len(line)
        if self.line_bytes > MOST_BYTES:
            self._forget()
        return number

    def _forget(self) -> None:
        """Let the older lines go, up to half of the bytes."""
        for number in list(self.lines):
            self.line_bytes -= len(self.lines.pop(number))
            if self.line_bytes <= MOST_BYTES // 2:
                break

    def line(self, number: int) -> bytes | None:
        """Return the line of an entry; None where it is not kept any more."""
        return self.lines.get(number)

    def is_on_path(self, number: int) -> bool:
        """Tell whether the path goes through an entry."""
        depth = self.depths[number - 1]
        return depth < len(self.path) and self.path[depth] == number

    def uuids(self, number: int) -> tuple[str, ...]:
        """Return the items that an entry made: of a result none, of a compaction its divider and its tail."""
        name, size = self.names[number - 1], self.sizes[number - 1]
        if size == COMPACTION:
            return (name, *self.tails.get(number, ()))
        return tuple([item_name(name, at) for at in range(size)])

    def uuids_of(self, numbers: list[int]) -> tuple[str, ...]:
        """Return the items of entries."""
        return tuple([uuid for number in numbers for uuid in self.uuids(number)])

    def size(self, number: int) -> int:
        """Return how many items an entry made, or what else it is."""
        return self.sizes[number - 1]

    def between(self, first: int, end: int) -> list[int]:
        """Return the entries of a part of the path that a compaction may keep: no compactions, no resets."""
        return [number for number in self.path[first:end] if self.size(number) > COMPACTION]

    def shown(self) -> list[int]:
        """Return what the timeline holds of the path."""
        if self.fold < 0:
            return self.path
        return [self.path[self.fold], *self.between(self.kept, self.fold), *self.path[self.fold + 1 :]]

    def way(self, parent: int) -> Way:
        """Return how the path gets to another leaf."""
        new: list[int] = []
        while parent and not self.is_on_path(parent):
            new.append(parent)
            parent = self.parents[parent - 1]
        keep = self.depths[parent - 1] + 1 if parent else 0
        while 0 < keep < len(self.path) and self.size(self.path[keep]) == RESULT:
            keep -= 1  # a call loses its result only with itself
            new.append(self.path[keep])
        new.reverse()
        folded = self.fold >= keep or any(self.size(number) <= COMPACTION for number in new)
        return Way(keep, new, folded)

    def cut(self, keep: int, new: list[int]) -> None:
        """Follow another way: the first entries stay."""
        self.path[keep:] = new


class Way(NamedTuple):
    """A way to another leaf: how much of the path stays, what comes behind it; `folded`: it crosses a compaction."""

    keep: int
    new: list[int]
    folded: bool
