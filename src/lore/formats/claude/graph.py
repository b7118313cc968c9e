"""The records of a Claude Code log as a graph: each names its parent, usually the record before it.

A log may have cycles, missing parents and copies, so a walk visits a record at most once.
"""

from __future__ import annotations

from collections.abc import Iterable

from lore.formats.lines import Line
from lore.model.limits import BRANCH_WALKS


class RecordGraph:
    """The parents of all records of a log."""

    def __init__(self) -> None:
        self.parents: dict[str, str | None] = {}
        self.missing: dict[str, list[Line]] = {}  # parents that no record has so far: the records that name them
        self.walked = 0  # records that compactions were followed over

    def add(self, uuid: str, parent: str | None, line: Line) -> None:
        """Add a record."""
        self.parents[uuid] = parent
        if parent is not None and parent not in self.parents:
            self.missing.setdefault(parent, []).append(Line(line.number, line.byte, b""))
        if self.missing:
            self.missing.pop(uuid, None)

    def path(self, head: str | None, tail: str | None) -> set[str] | None:
        """Return the records from `tail` up to its ancestor `head`; None if the tail does not lead there.

        Also None if too many were walked over already, so that the work is linear in the records.
        """
        at, path, has_arrived = tail, set[str](), False
        most = BRANCH_WALKS * len(self.parents) - self.walked
        while not has_arrived and at is not None and at not in path and at in self.parents and len(path) < most:
            path.add(at)
            has_arrived = at == head
            at = self.parents[at]
        self.walked += len(path)
        return path if has_arrived else None

    def branch(self, root: str, other: str, records: Iterable[str]) -> list[str]:
        """Return `root` and those of the records after it that descend from it, but not from `other`."""
        below, beside = {root}, {other}
        for uuid in records:
            path: dict[str, None] = {}
            at: str | None = uuid
            while at is not None and at not in below and at not in beside and at not in path:
                path[at] = None
                at = self.parents.get(at)
            (below if at in below else beside).update(path)
        return [root, *(uuid for uuid in records if uuid in below)]
