"""Explain how one list of tools became another: order, members, definitions, spelling, deferred loading.

Tools are known by their names. Each reason is reported, whatever else changed, at the place of the previous list from
which it costs. Also here: how two prompts differ if the client recorded only their hashes.
"""

from __future__ import annotations

from collections.abc import Container, Sequence

from msgspec import Struct
from msgspec.structs import replace

from lore.model.canonical import printable, text_of
from lore.model.cause import Cause
from lore.model.codes import Code
from lore.model.deferred import pattern
from lore.model.differences import EmptyMember, HashesMoved, ToolsChanged
from lore.model.events import PromptHashes
from lore.model.fact import Own
from lore.model.jsonslice import raw_members
from lore.model.turn import Segment
from lore.prefix.blocks import differ_in_empty_members, is_empty
from lore.prefix.overlap import excerpt_pair, has_same_content
from lore.prefix.texts import is_reordered, name_segment_spelling, name_value_spelling

NAMED = 64  # tools of one change, or segments, that evidence names
_MCP_SERVER = pattern(r"mcp__(.+?)__.")
_WORD = pattern(rb"\\.|\w+")  # or what JSON escapes


class _ToolChange(Struct, frozen=True):
    """A tool that only one list has."""

    position: int  # in the previous list; of an added tool: after the tool that it follows
    tool: Segment  # its definition
    is_added: bool  # only the current list has it


def explain_tools(previous: Sequence[Segment], current: Sequence[Segment], discovered: Container[str]) -> list[Cause]:
    """Return why two lists of tools differ, empty if they are equal; `discovered` names those that searches found."""
    places, new_places = ({tool_name(tool): at for at, tool in enumerate(tools)} for tools in (previous, current))
    changes = [_ToolChange(at, previous[at], is_added=False) for name, at in places.items() if name not in new_places]
    position = 0
    for name, at in new_places.items():
        if name in places:
            position = places[name] + 1
        else:
            changes.append(_ToolChange(position, current[at], is_added=True))
    causes = _explain_members(previous, changes, discovered)
    shared = [(at, new_places[name]) for name, at in places.items() if name in new_places]
    in_new_order = sorted(shared, key=lambda pair: pair[1])
    moved = [pair[0] for pair, other in zip(shared, in_new_order, strict=True) if pair != other]
    if moved:
        causes.append(_cause_at(previous, moved[0], Code.TOOLS_REORDERED, ToolsChanged(reordered=len(shared))))
    return [*causes, *_explain_definitions(previous, current, shared)]


def _cause_at(previous: Sequence[Segment], at: int, code: str, evidence: ToolsChanged) -> Cause:
    return Cause(code, "tools", evidence, at, path=previous[at].path if at < len(previous) else "")


def _explain_members(
    previous: Sequence[Segment], changes: list[_ToolChange], discovered: Container[str]
) -> list[Cause]:
    """Return the causes of tools that came or went: empty, deferred, loaded or put off, or really other tools."""
    causes: list[Cause] = []
    empty, deferred, loaded, others = list[_ToolChange](), list[_ToolChange](), list[_ToolChange](), list[_ToolChange]()
    for change in changes:
        is_loaded = tool_name(change.tool) in discovered
        kind = deferred if is_deferred(change.tool) else loaded if is_loaded else others
        (empty if is_empty(change.tool) else kind).append(change)
    if empty:
        causes.append(_empty_tool(empty[0].position, empty[0].tool))
    if deferred:
        cause = _members_cause(previous, Code.DEFERRED_TOOLS_LOADED, deferred)
        causes.append(replace(cause, override="expected", qualifiers=("outside-the-prefix",)))
    if loaded:
        added, removed = (
            [tool_name(change.tool) for change in loaded if change.is_added is is_added] for is_added in (True, False)
        )
        evidence = _tools_evidence(loaded=added, put_off=removed)
        first = min(change.position for change in loaded)
        causes.append(_cause_at(previous, first, Code.DEFERRED_TOOLS_LOADED, evidence))
    if others:
        causes.append(_members_cause(previous, Code.TOOLS_ADDED_OR_REMOVED, others))
    return causes


def _members_cause(previous: Sequence[Segment], code: str, changes: list[_ToolChange]) -> Cause:
    added = [tool_name(change.tool) for change in changes if change.is_added]
    removed = [tool_name(change.tool) for change in changes if not change.is_added]
    evidence = _tools_evidence(added=added, removed=removed)
    return _cause_at(previous, min(change.position for change in changes), code, evidence)


def _tools_evidence(**names: Sequence[str]) -> ToolsChanged:
    """Return evidence that names tools by what became of them, and the MCP servers that they belong to."""
    matches = [_MCP_SERVER.match(name) for changed in names.values() for name in changed]
    servers = dict.fromkeys(match[1] for match in matches if match)
    unnamed = sum(max(0, len(changed) - NAMED) for changed in names.values())
    evidence = ToolsChanged(servers=tuple(servers)[:NAMED], unnamed=unnamed)
    return replace(evidence, **{change: tuple(changed[:NAMED]) for change, changed in names.items()})


def _empty_tool(at: int, tool: Segment) -> Cause:
    evidence = EmptyMember(tool.path, whole=True)
    return Cause(Code.SERIALISATION_CHANGED, "tools", evidence, at, "expected", tool.path, respelled=True)


def _explain_definitions(
    previous: Sequence[Segment], current: Sequence[Segment], shared: list[tuple[int, int]]
) -> list[Cause]:
    """Return how tools differ that both lists have: in spelling, in content, or in being deferred."""
    changed: list[int] = []
    is_shuffled = True  # the words of each changed tool are only in another order
    deferral_changed: list[int] = []
    spelled: dict[str, Cause] = {}
    for at, new_at in shared:
        old, new = previous[at], current[new_at]
        if old == new:
            continue
        spelling = name_segment_spelling(old, new) if has_same_content(old, new) else None
        if spelling is None and differ_in_empty_members(old, new):
            spelled.setdefault(Code.SERIALISATION_CHANGED, _empty_tool(at, old))
            continue
        if spelling is None and is_deferred(old) != is_deferred(new):
            deferral_changed.append(at)
            continue
        spelling = spelling or name_value_spelling(old.data, new.data)
        if spelling is not None:
            spelled.setdefault(spelling.code, spelling.cause("tools", at, old.path))
        else:
            changed.append(at)
            is_shuffled = is_shuffled and is_reordered(_WORD.findall(old.data), _WORD.findall(new.data))
    causes = list(spelled.values())
    if changed:
        evidence = _tools_evidence(changed=[tool_name(previous[at]) for at in changed])
        before, after = excerpt_pair(previous[changed[0]], current[dict(shared)[changed[0]]])
        evidence = replace(evidence, shuffled=is_shuffled, before=before, after=after)
        causes.append(_cause_at(previous, changed[0], Code.TOOL_DEFINITION_CHANGED, evidence))
    if deferral_changed:
        evidence = _tools_evidence(put_off=[tool_name(previous[at]) for at in deferral_changed])
        causes.append(_cause_at(previous, deferral_changed[0], Code.DEFERRED_TOOLS_LOADED, evidence))
    return causes


def _definition(members: dict[str, bytes]) -> dict[str, bytes]:
    """Return the members of a tool's definition, which OpenAI and Bedrock nest in another object."""
    return raw_members(members.get("function", b"null")) or raw_members(members.get("toolSpec", b"null")) or members


def is_deferred(tool: Segment) -> bool:
    """Return whether a tool is only announced, and loaded when a search finds it."""
    if b'"defer_loading"' not in tool.data:
        return False
    members = raw_members(tool.data) or {}
    return b"true" in (members.get("defer_loading"), _definition(members).get("defer_loading"))


def tool_name(tool: Segment) -> str:
    """Return the name of a tool of any provider's shape, else its type, else `(unnamed)`."""
    members = raw_members(tool.json) or {}
    definition = _definition(members)
    if "name" not in definition and "type" not in definition and len(members) == 1:  # one of the provider's own tools
        return printable(next(iter(members)))
    return printable(text_of(definition.get("name", definition.get("type", b'"(unnamed)"'))))


# Prompts by hash


def explain_hashes(previous: PromptHashes, current: PromptHashes, turns: int) -> tuple[Cause, ...]:
    """Return what changed between two requests of one conversation, by the hashes that the client recorded.

    `turns` is how many requests lie between them. A section is compared if both requests have hashes of it. Messages
    differ from the first point that both name with another hash. The strength is `strong`: the bytes are not known.
    """
    differences: list[tuple[str, HashesMoved]] = []
    if previous.tools and current.tools:
        moved = _compare_hashes("tools", turns, previous.tools, current.tools)
        unchanged = HashesMoved("tools", turns)
        differences += [
            (Code.TOOLS_ADDED_OR_REMOVED, replace(unchanged, added=moved.added, removed=moved.removed)),
            (Code.TOOL_DEFINITION_CHANGED, replace(unchanged, changed=moved.changed)),
            (Code.TOOLS_REORDERED, replace(unchanged, reordered=moved.reordered)),
        ]
    if previous.system and current.system:
        differences.append((Code.PREFIX_MOVED, _compare_hashes("system", turns, previous.system, current.system)))
    differences = [(code, moved) for code, moved in differences if moved != HashesMoved(moved.section, turns)]
    points = dict(previous.points)
    message = next((place for place, value in sorted(current.points) if points.get(place, value) != value), None)
    if message is not None:
        differences.append((Code.PREFIX_MOVED, HashesMoved("messages", turns, message=message)))
    return tuple([Cause(code, moved.section, moved, strength="strong") for code, moved in differences])


def _compare_hashes(
    section: Own, turns: int, previous: Sequence[tuple[str, str]], current: Sequence[tuple[str, str]]
) -> HashesMoved:
    """Return how the named hashes of a section differ."""
    before, after = dict(previous), dict(current)
    added, removed = [name for name in after if name not in before], [name for name in before if name not in after]
    changed = [name for name, value in after.items() if before.get(name, value) != value]
    old_order, new_order = [name for name in before if name in after], [name for name in after if name in before]
    name_lists = [tuple(names[:NAMED]) for names in (added, removed, changed)]
    return HashesMoved(section, turns, *name_lists, reordered=len(old_order) if old_order != new_order else 0)
