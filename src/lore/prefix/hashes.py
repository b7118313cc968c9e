"""Explain how two prompts differ of which a client noted hashes, and no text.

In: the hashes of two requests of one conversation and model, and how many requests the second comes behind the first.
Out: a cause for each section of which a hash moved, in the order of the prompt. Rules: a section that either of the two
says nothing of is not compared; of messages, the first point that both name and hash otherwise is where they part.
"""

from __future__ import annotations

from collections.abc import Sequence

from lore.model.cause import Cause
from lore.model.codes import Code
from lore.model.differences import HashesMoved, Own
from lore.model.events import PromptHashes

NAMED = 64  # tools or segments of one change that are named


def hash_causes(left: PromptHashes, right: PromptHashes, turns: int) -> tuple[Cause, ...]:
    """Return what moved between two requests; what is seen by hash is strong, and not where a prompt's bytes parted."""
    found: list[Cause] = []
    if left.tools and right.tools:
        found += _tools(left.tools, right.tools, turns)
    if left.system and right.system:
        found += _system(left.system, right.system, turns)
    known = dict(left.points)
    parted = next((index for index, value in sorted(right.points) if known.get(index, value) != value), None)
    if parted is not None:
        found.append(_cause(Code.PREFIX_MOVED, HashesMoved("messages", turns, message=parted)))
    return tuple(found)


Pairs = Sequence[tuple[str, str]]


def _tools(left: Pairs, right: Pairs, turns: int) -> list[Cause]:
    before, after = dict(left), dict(right)
    added, removed = _only(after, before), _only(before, after)
    changed = _named([name for name, value in after.items() if before.get(name, value) != value])
    kept = [[name for name in side if name in before and name in after] for side in (before, after)]
    found: list[Cause] = []
    if added or removed:
        found.append(_cause(Code.TOOLS_ADDED_OR_REMOVED, HashesMoved("tools", turns, added, removed)))
    if changed:
        found.append(_cause(Code.TOOL_DEFINITION_CHANGED, HashesMoved("tools", turns, changed=changed)))
    if kept[0] != kept[1]:
        found.append(_cause(Code.TOOLS_REORDERED, HashesMoved("tools", turns, reordered=len(kept[0]))))
    return found


def _system(left: Pairs, right: Pairs, turns: int) -> list[Cause]:
    before, after = dict(left), dict(right)
    added, removed = _only(after, before), _only(before, after)
    changed = _named([name for name, value in after.items() if before.get(name, value) != value])
    kept = [[name for name in side if name in before and name in after] for side in (before, after)]
    reordered = len(kept[0]) if kept[0] != kept[1] else 0
    if not (added or removed or changed or reordered):
        return []
    return [_cause(Code.PREFIX_MOVED, HashesMoved("system", turns, added, removed, changed, reordered))]


def _only(these: dict[str, str], others: dict[str, str]) -> tuple[str, ...]:
    return _named([name for name in these if name not in others])


def _named(names: list[str]) -> tuple[str, ...]:
    return tuple(names[:NAMED])


def _cause(code: Code, evidence: HashesMoved) -> Cause:
    section: Own = evidence.section
    return Cause(code, section, evidence, strength="strong")
