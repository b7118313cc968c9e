"""Explain how a list of tools became another: order, members, definitions, spelling, deferred loading; and how two
prompts differ of which a client noted hashes, and no text.

In: the tools of both prompts; or the hashes of two requests of one conversation and model, and how many requests the
second comes behind the first. Out: causes, each at the place where it begins to cost; by hash a cause for each section
of which one moved, in the order of the prompt. Rules: tools are known by their names (of one name, by their number);
each of the reasons is found, whatever else changed. By hash, a section that either of the two says nothing of is not
compared; of messages, the first point that both name and hash otherwise is where they part.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple, TypeAlias

from msgspec.structs import replace

from lore.model.canonical import printable, text_of
from lore.model.cause import Cause
from lore.model.codes import Code
from lore.model.differences import EmptyMember, HashesMoved, Own, ToolsChanged
from lore.model.events import PromptHashes
from lore.model.jsonslice import table
from lore.model.turn import Segment
from lore.prefix.blocks import say_the_same, says_nothing
from lore.prefix.overlap import same_content
from lore.prefix.texts import of_segments, of_values

NAMED = 64  # tools of one change, or segments, that are named
_SERVER = re.compile(r"mcp__(.+?)__.")
_Key: TypeAlias = tuple[str, int]


def tool_causes(left: Sequence[Segment], right: Sequence[Segment], found: frozenset[str]) -> list[Cause]:
    """Return why two lists of tools differ; `found` are the names that the right prompt's messages have discovered."""
    if list(left) == list(right):
        return []
    known, there = ({key: at for at, key in enumerate(_keys(tools))} for tools in (left, right))
    causes = _members(left, right, known, there, found)
    kept = [(at, there[key]) for key, at in known.items() if key in there]
    moved = [pair[0] for pair, other in zip(kept, sorted(kept, key=lambda pair: pair[1]), strict=True) if pair != other]
    if moved:
        causes.append(_at(left, moved[0], Code.TOOLS_REORDERED, ToolsChanged(reordered=len(kept))))
    return [*causes, *_definitions(left, right, kept)]


def _at(left: Sequence[Segment], at: int, code: Code, evidence: ToolsChanged) -> Cause:
    return Cause(code, "tools", evidence, at, path=left[at].path if at < len(left) else "")


def _keys(tools: Sequence[Segment]) -> list[_Key]:
    seen: Counter[str] = Counter()
    found: list[_Key] = []
    for name in map(name_of, tools):
        found.append((name, seen[name]))
        seen[name] += 1
    return found


def _members(
    left: Sequence[Segment], right: Sequence[Segment], known: dict[_Key, int], there: dict[_Key, int],
    found: frozenset[str],
) -> list[Cause]:  # fmt: skip
    """Tell what came, what went, and what was only loaded; each with where it begins to cost on the left."""
    removed = [(at, left[at]) for key, at in known.items() if key not in there]
    added: list[tuple[int, Segment]] = []
    begins = 0  # where what comes next in the right list begins to cost: behind the one before it
    for key, at in there.items():
        if key in known:
            begins = known[key] + 1
        else:
            added.append((begins, right[at]))
    causes: list[Cause] = []
    empty = next(((at, tool) for at, tool in (*removed, *added) if says_nothing(tool)), None)
    if empty is not None:
        causes.append(_empty(*empty))
        removed, added = ([change for change in some if not says_nothing(change[1])] for some in (removed, added))
    put_off = [change for change in (*removed, *added) if is_deferred(change[1])]
    if put_off:
        names = [[name_of(tool) for _, tool in some if is_deferred(tool)] for some in (added, removed)]
        evidence = tools_changed(added=names[0], removed=names[1])
        cause = _at(left, min(at for at, _ in put_off), Code.DEFERRED_TOOLS_LOADED, evidence)
        causes.append(replace(cause, override="expected", qualifiers=("outside-the-prefix",)))  # they move nothing
    removed, added = ([change for change in some if change not in put_off] for some in (removed, added))
    loaded = [change for change in (*removed, *added) if name_of(change[1]) in found]
    if loaded:
        evidence = tools_changed(loaded=[name_of(tool) for _, tool in loaded])
        causes.append(_at(left, min(at for at, _ in loaded), Code.DEFERRED_TOOLS_LOADED, evidence))
    removed, added = ([change for change in some if change not in loaded] for some in (removed, added))
    if removed or added:
        names = [[name_of(tool) for _, tool in some] for some in (added, removed)]
        evidence = tools_changed(added=names[0], removed=names[1])
        causes.append(_at(left, min(at for at, _ in (*removed, *added)), Code.TOOLS_ADDED_OR_REMOVED, evidence))
    return causes


def tools_changed(**names: Sequence[str]) -> ToolsChanged:
    """Name tools by what became of them, with the MCP servers that they belong to."""
    servers = [found[1] for some in names.values() for name in some if (found := _SERVER.match(name))]
    unnamed = sum(max(0, len(some) - NAMED) for some in names.values())
    made = ToolsChanged(servers=tuple(dict.fromkeys(servers))[:NAMED], unnamed=unnamed)
    return replace(made, **{change: tuple(some[:NAMED]) for change, some in names.items()})


def _empty(at: int, tool: Segment) -> Cause:
    evidence = EmptyMember(tool.path, whole=True)
    return Cause(Code.SERIALISATION_CHANGED, "tools", evidence, at, "expected", tool.path, respelled=True)


def _definitions(left: Sequence[Segment], right: Sequence[Segment], kept: list[tuple[int, int]]) -> list[Cause]:
    changed: list[int] = []
    flipped: list[int] = []
    spelled: dict[Code, Cause] = {}
    for at, other in kept:
        if left[at] == right[other]:
            continue
        cause = _respelled(left[at], right[other], at)
        if cause is not None:
            spelled.setdefault(cause.code, cause)
        else:
            (flipped if is_deferred(left[at]) != is_deferred(right[other]) else changed).append(at)
    causes = list(spelled.values())
    if changed:
        evidence = tools_changed(changed=[name_of(left[at]) for at in changed])
        causes.append(_at(left, changed[0], Code.TOOL_DEFINITION_CHANGED, evidence))
    if flipped:
        evidence = tools_changed(put_off=[name_of(left[at]) for at in flipped])
        causes.append(_at(left, flipped[0], Code.DEFERRED_TOOLS_LOADED, evidence))
    return causes


def _respelled(left: Segment, right: Segment, at: int) -> Cause | None:
    """Find a definition that says the same; None for one that does not."""
    if same_content(left, right):
        return of_segments(left, right).cause("tools", at, left.path)
    if say_the_same(left, right):
        return _empty(at, left)
    if is_deferred(left) != is_deferred(right):
        return None
    found = of_values(left.data, right.data)
    return None if found is None else found.cause("tools", at, left.path)


def _inner(own: dict[str, bytes]) -> dict[str, bytes]:
    """Return the members of a tool's definition, which OpenAI and Bedrock put into another object."""
    return table(own.get("function", b"null")) or table(own.get("toolSpec", b"null")) or own


def is_deferred(tool: Segment) -> bool:
    """Tell whether a tool is only announced, and loaded when it is searched for."""
    if b'"defer_loading"' not in tool.data:
        return False
    own = table(tool.data) or {}
    return b"true" in (own.get("defer_loading"), _inner(own).get("defer_loading"))


def name_of(tool: Segment) -> str:
    """Name a tool of any provider's shape."""
    own = table(tool.json) or {}
    inner = _inner(own)
    if "name" not in inner and "type" not in inner and len(own) == 1:  # one of the provider's own: its only member
        return printable(next(iter(own)))
    return printable(text_of(inner.get("name", inner.get("type", b'"(unnamed)"'))))


# prompts by hash


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
