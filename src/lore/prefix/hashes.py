"""Explain how two prompts differ of which a client noted hashes, and no text.

In: the hashes of two requests of one conversation and model, and how many requests the second comes behind the first.
Out: a cause for each section of which a hash moved, in the order of the prompt. Rules: a section that either of the two
says nothing of is not compared; of messages, the first point that both name and hash otherwise is where they part.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from lore.model.cause import Cause
from lore.model.codes import Code
from lore.model.differences import HashesMoved, Own
from lore.model.events import PromptHashes

NAMED = 64  # tools or segments of one change that are named


def hash_causes(left: PromptHashes, right: PromptHashes, turns: int) -> tuple[Cause, ...]:
    """Return what moved between two requests; what is seen by hash is strong, and not where a prompt's bytes parted."""
    found: list[Cause] = []
    if left.tools and right.tools:
        added, removed, changed, reordered = _moved(left.tools, right.tools)
        if added or removed:
            found.append(_cause(Code.TOOLS_ADDED_OR_REMOVED, HashesMoved("tools", turns, added, removed)))
        if changed:
            found.append(_cause(Code.TOOL_DEFINITION_CHANGED, HashesMoved("tools", turns, changed=changed)))
        if reordered:
            found.append(_cause(Code.TOOLS_REORDERED, HashesMoved("tools", turns, reordered=reordered)))
    if left.system and right.system and any(moved := _moved(left.system, right.system)):
        found.append(_cause(Code.PREFIX_MOVED, HashesMoved("system", turns, *moved)))
    known = dict(left.points)
    parted = next((index for index, value in sorted(right.points) if known.get(index, value) != value), None)
    if parted is not None:
        found.append(_cause(Code.PREFIX_MOVED, HashesMoved("messages", turns, message=parted)))
    return tuple(found)


class _Moved(NamedTuple):
    """Names of what came, went and has another hash; `reordered` counts what stayed, where that changed its order."""

    added: tuple[str, ...]
    removed: tuple[str, ...]
    changed: tuple[str, ...]
    reordered: int


def _moved(left: Sequence[tuple[str, str]], right: Sequence[tuple[str, str]]) -> _Moved:
    before, after = dict(left), dict(right)
    came, went = [name for name in after if name not in before], [name for name in before if name not in after]
    changed = [name for name, value in after.items() if before.get(name, value) != value]
    kept = [[name for name in side if name in before and name in after] for side in (before, after)]
    named = [tuple(names[:NAMED]) for names in (came, went, changed)]
    return _Moved(*named, reordered=len(kept[0]) if kept[0] != kept[1] else 0)


def _cause(code: Code, evidence: HashesMoved) -> Cause:
    section: Own = evidence.section
    return Cause(code, section, evidence, strength="strong")
