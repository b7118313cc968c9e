"""Values that alternate: a turn that changes something back to what it was before the previous change.

In: the causes of each turn of one chain. Out: the same causes, those that alternate with the qualifier `alternates`.
A change from A to B and back to A is known from its second change on. Only settings, models and tools are compared.
"""

from __future__ import annotations

from typing import TypeAlias

from msgspec.structs import asdict, replace

from lore.judge.pair import Pair, is_remark
from lore.model.cause import Cause
from lore.model.differences import ToolsChanged
from lore.model.evidence import Evidence

_Change: TypeAlias = tuple[tuple[object, ...], tuple[object, ...]]  # what was there before, and after


class Alternation:
    """Follow the changes of one chain."""

    def __init__(self) -> None:
        self._latest: dict[tuple[str, int, str], _Change] = {}  # by code, segment and path

    def mark(self, pair: Pair) -> Pair:
        """Return the pair with its alternating causes marked."""
        causes = tuple(map(self._marked, pair.causes))
        return pair if causes == pair.causes else replace(pair, causes=causes)

    def _marked(self, cause: Cause) -> Cause:
        change = None if is_remark(cause) else change_of(cause.evidence)
        if change is None:
            return cause
        key = cause.code, cause.position, cause.path
        earlier = self._latest.get(key)
        self._latest[key] = change
        if earlier != (change[1], change[0]):
            return cause
        return replace(cause, qualifiers=(*cause.qualifiers, "alternates"))


def change_of(evidence: Evidence) -> _Change | None:
    """Return what evidence shows before and after a change; None if it does not show both."""
    if isinstance(evidence, ToolsChanged):
        is_swap = not (evidence.changed or evidence.reordered or evidence.unnamed)
        return (evidence.removed, evidence.added) if is_swap and (evidence.removed or evidence.added) else None
    if evidence.quoted_change() is not None:  # text may come back by chance, as a list of recent files does
        return None
    fields = asdict(evidence)
    before = tuple([value for name, value in fields.items() if name == "before" or name.endswith("_before")])
    after = tuple([value for name, value in fields.items() if name == "after" or name.endswith("_after")])
    return (before, after) if before and before != after and not _counts(before) else None


def _counts(values: tuple[object, ...]) -> bool:
    """Return whether the values are numbers, which may repeat by chance."""
    return all(isinstance(value, int | float) for value in values)
