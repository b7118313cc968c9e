"""Explain how a list of tools became another: order, members, definitions, spelling, deferred loading.

In: the tools of both prompts. Out: causes, each at the place where it begins to cost. Rules: tools are known by
their names (of one name, by their number); each of the reasons is found, whatever else changed.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from itertools import pairwise
from typing import TypeAlias

from msgspec.structs import replace

from lore.model.canonical import printable, text_of
from lore.model.codes import Code
from lore.model.differences import EmptyMember, ToolsChanged
from lore.model.jsonslice import table
from lore.model.prompt import Segment
from lore.prefix.blocks import say_the_same, says_nothing
from lore.prefix.cause import Cause
from lore.prefix.overlap import same_content
from lore.prefix.texts import of_segments, of_values

NAMED = 64  # tools of one change that are named
_SERVER = re.compile(r"mcp__(.+?)__.")
_Key: TypeAlias = tuple[str, int]


def tool_causes(left: Sequence[Segment], right: Sequence[Segment], found: frozenset[str]) -> list[Cause]:
    """Return why two lists of tools differ; `found` are the names that the right prompt's messages have discovered."""
    if len(left) == len(right) and all(tool == other for tool, other in zip(left, right, strict=True)):
        return []
    left_keys, right_keys = _keys(left), _keys(right)
    there = {key: at for at, key in enumerate(right_keys)}
    causes = _members(left, right, left_keys, right_keys, found)
    kept = [(at, there[key]) for at, key in enumerate(left_keys) if key in there]
    if any(pair[1] > after[1] for pair, after in pairwise(kept)):
        first = next(pair[0] for pair, other in zip(kept, sorted(kept, key=lambda pair: pair[1]), strict=True)
                     if pair != other)  # fmt: skip
        causes.append(
            Cause(Code.TOOLS_REORDERED, "tools", ToolsChanged(reordered=len(kept)), first, path=left[first].path)
        )
    return [*causes, *_definitions(left, right, kept)]


def _keys(tools: Sequence[Segment]) -> list[_Key]:
    seen: Counter[str] = Counter()
    found: list[_Key] = []
    for tool in tools:
        name = name_of(tool)
        found.append((name, seen[name]))
        seen[name] += 1
    return found


def _members(
    left: Sequence[Segment], right: Sequence[Segment], left_keys: list[_Key], right_keys: list[_Key],
    found: frozenset[str],
) -> list[Cause]:  # fmt: skip
    """Tell what came, what went, and what was only loaded; each with where it begins to cost on the left."""
    known = {key: at for at, key in enumerate(left_keys)}
    there = set(right_keys)
    removed = [(at, left[at]) for at, key in enumerate(left_keys) if key not in there]
    added = [(_place(at, known, right_keys), right[at]) for at, key in enumerate(right_keys) if key not in known]
    causes: list[Cause] = []
    empty = next(((at, tool) for at, tool in (*removed, *added) if says_nothing(tool)), None)
    if empty is not None:
        causes.append(_empty(*empty))
        removed, added = ([one for one in some if not says_nothing(one[1])] for some in (removed, added))
    loaded = [one for one in (*removed, *added) if is_deferred(one[1]) or name_of(one[1]) in found]
    if loaded:
        at = min(at for at, _ in loaded)
        changed = tools_changed(loaded=[name_of(tool) for _, tool in loaded])
        causes.append(Cause(Code.DEFERRED_TOOLS_LOADED, "tools", changed, at, path=_path(left, at)))
    removed, added = ([one for one in some if one not in loaded] for some in (removed, added))
    if removed or added:
        at = min(at for at, _ in (*removed, *added))
        names = [[name_of(tool) for _, tool in some] for some in (added, removed)]
        changed = tools_changed(added=names[0], removed=names[1])
        causes.append(Cause(Code.TOOLS_ADDED_OR_REMOVED, "tools", changed, at, path=_path(left, at)))
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


def _place(at: int, known: dict[_Key, int], right_keys: list[_Key]) -> int:
    """Return where a tool that the right list alone has begins to cost on the left one."""
    while at > 0:
        at -= 1
        if right_keys[at] in known:
            return known[right_keys[at]] + 1
    return 0


def _path(left: Sequence[Segment], at: int) -> str:
    return left[at].path if at < len(left) else ""


def _definitions(left: Sequence[Segment], right: Sequence[Segment], kept: list[tuple[int, int]]) -> list[Cause]:
    changed: list[int] = []
    flipped: list[int] = []
    spelled: dict[str, Cause] = {}
    for at, other in kept:
        if left[at] == right[other]:
            continue
        cause = _respelled(left[at], right[other], at)
        if cause is not None:
            spelled.setdefault(cause.code, cause)
        else:
            (flipped if is_deferred(left[at]) != is_deferred(right[other]) else changed).append(at)
    causes = list(spelled.values())
    for code, places, change in (
        (Code.TOOL_DEFINITION_CHANGED, changed, "changed"),
        (Code.DEFERRED_TOOLS_LOADED, flipped, "put_off"),
    ):
        if places:
            evidence = tools_changed(**{change: [name_of(left[at]) for at in places]})
            causes.append(Cause(code, "tools", evidence, places[0], path=left[places[0]].path))
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


def is_deferred(tool: Segment) -> bool:
    """Tell whether a tool is only announced, and loaded when it is searched for."""
    if b'"defer_loading"' not in tool.data:
        return False
    own = table(tool.data) or {}
    inner = table(own.get("function", b"null")) or table(own.get("toolSpec", b"null")) or own
    return b"true" in (own.get("defer_loading"), inner.get("defer_loading"))


def name_of(tool: Segment) -> str:
    """Name a tool of any provider's shape."""
    own = table(b"{" + tool.data + b"}" if tool.kind == "envelope" else tool.data) or {}
    inner = table(own.get("function", b"null")) or table(own.get("toolSpec", b"null")) or own
    if "name" not in inner and "type" not in inner and len(own) == 1:  # one of the provider's own: its only member
        return printable(next(iter(own)))
    return printable(text_of(inner.get("name", inner.get("type", b'"(unnamed)"'))))
