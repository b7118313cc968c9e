"""What the dialects with a `messages` array have in common: reading and writing messages.

A message is one envelope segment (its members other than content, as they stand) and one segment a
content block. Marks are cut out of the bytes and kept beside them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import chain as chained
from typing import NamedTuple

from lore.model.canonical import encode
from lore.model.jsonslice import array, element_ranges, members, spans, table, without_member
from lore.model.prompt import Prompt, Section, Segment

MARK = "cache_control"
BREAKPOINT = "prompt_cache_breakpoint"  # OpenAI's, on content parts


class Unmarked(NamedTuple):
    """An object's bytes without its marks, and the mark that it had."""

    data: bytes
    mark: bytes | None


def unmark(raw: bytes, keys: tuple[str, ...] = (MARK,)) -> Unmarked:
    """Cut marks out of a block or tool, also out of the blocks that a tool result holds; the last one holds."""
    mark: bytes | None = None
    for key in keys:
        if key.encode() in raw:
            raw, found = _unmark(raw, key)
            mark = mark or found
    return Unmarked(raw, mark)


def _unmark(raw: bytes, key: str) -> Unmarked:
    marks = [raw[m.value : m.end] for m in members(raw) if m.key == key]
    data = without_member(raw, key) if marks else raw
    mark = next((one for one in reversed(marks) if one != b"null"), None)
    if key.encode() in data:
        for member in members(data):
            value = data[member.value : member.end]
            if member.key in ("content", "output") and value[:1] == b"[" and key.encode() in value:
                inside = _unmark_all(value, key)
                data = data[: member.value] + inside.data + data[member.end :]
                mark = mark or inside.mark
                break
    return Unmarked(data, mark)


def _unmark_all(value: bytes, key: str) -> Unmarked:
    """Cut the marks out of an array of blocks; the last one holds."""
    mark: bytes | None = None
    for start, end in reversed(element_ranges(value)):
        bare = _unmark(value[start:end], key)
        value = value[:start] + bare.data + value[end:]
        mark = mark or bare.mark
    return Unmarked(value, mark)


def with_marks(prompt: Prompt, key: Callable[[bytes], str] = lambda _: MARK) -> list[Segment]:
    """Return the segments of head and messages, the marked ones with their marks in their bytes.

    A mark on content that is no object (a message whose content is a string) goes to its message.
    """
    segments = [*prompt.head, *prompt.messages]
    for position, value in zip(prompt.marks, prompt.mark_values, strict=True):
        name = encode(key(value))
        while position >= 0 and not _takes_members(segments[position]):
            position -= 1
        if position < 0:
            continue
        one = segments[position]
        member = name + b":" + value
        if one.kind == "envelope":
            data = one.data + b"," + member if one.data else member
        else:
            data = one.data[:-1] + (b"," if len(one.data) > 2 else b"") + member + b"}"
        segments[position] = Segment(one.section, one.path, data, one.kind)
    return segments


def _takes_members(segment: Segment) -> bool:
    return segment.kind == "envelope" or segment.data[:1] == b"{"


def message(
    raw: bytes, path: str, section: Section, listed: tuple[str, ...] = ("content",), keys: tuple[str, ...] = (MARK,)
) -> tuple[Segment, ...]:
    """Slice a message: the envelope, then each element of the `listed` members, in that order."""
    found = spans(raw)
    if not found:
        return (Segment(section, path, raw, kind="opaque"),)
    inside = {m.key: raw[m.value : m.end] for m in found if m.key in listed}
    outer = [raw[m.start : m.end] for m in found if m.key not in inside and m.key not in keys]
    segments = [Segment(section, path, b",".join(outer), kind="envelope")]
    for key in listed:
        segments.extend(_content(inside.get(key, b"null"), f"{path}.{key}", section, keys))
    mark = next((raw[m.value : m.end] for m in found if m.key in keys), None)
    if mark is not None and mark != b"null":
        segments[-1].mark = mark
    return tuple(segments)


def _content(value: bytes, path: str, section: Section, keys: tuple[str, ...]) -> Iterable[Segment]:
    if value == b"null":
        return
    if value[:1] != b"[":
        yield Segment(section, path, value)
        return
    for number, block in enumerate(array(value)):
        data, mark = unmark(block, keys)
        yield Segment(section, f"{path}[{number}]", data, mark=mark)


def tools(raw: bytes) -> list[Segment]:
    """Slice an array of tools; anything else that stands in its place is one segment."""
    if raw and raw[:1] != b"[" and raw != b"null":
        return [Segment("tools", "tools", raw, kind="opaque")]
    found: list[Segment] = []
    for number, tool in enumerate(array(raw) if raw[:1] == b"[" else []):
        data, mark = unmark(tool)
        found.append(Segment("tools", f"tools[{number}]", data, kind="tool", mark=mark))
    return found


def role_of(raw: bytes) -> str:
    """Return a message's role; empty where it has none."""
    role = (table(raw) or {}).get("role", b'""')
    return role.strip(b'"').decode("utf-8", "replace")


class Marks(NamedTuple):
    """Positions of marked segments, counted over head and messages, and their marks."""

    positions: tuple[int, ...]
    values: tuple[bytes, ...]


def marks_of(head: Iterable[Segment], messages: Iterable[Segment]) -> Marks:
    """Return the marks that segments were read with."""
    found = [(place, one.mark) for place, one in enumerate(chained(head, messages)) if one.mark is not None]
    return Marks(tuple([place for place, _ in found]), tuple([mark for _, mark in found]))


def opening(prompt: Prompt, head: Iterable[Segment]) -> list[tuple[str, bytes]]:
    """Return the members that a body begins with: the model, the parameters, the tools (of the head to be written)."""
    members_: list[tuple[str, bytes]] = []
    if prompt.model is not None:
        members_.append(("model", encode(prompt.model)))
    members_.extend(prompt.params.items())
    listed = [one for one in head if one.section == "tools"]
    if listed and listed[0].kind == "opaque":
        members_.append(("tools", listed[0].data))
    elif listed:
        members_.append(("tools", b"[" + b",".join(one.data for one in listed) + b"]"))
    return members_


def write_messages(segments: Iterable[Segment], listed: tuple[str, ...] = ("content",)) -> bytes:
    """Write messages from segments: each envelope opens one, what follows belongs to it."""
    written: list[bytes] = []
    current: list[Segment] = []
    for segment in segments:
        if segment.kind in ("envelope", "opaque") and current:
            written.append(_message(current, listed))
            current = []
        current.append(segment)
    if current:
        written.append(_message(current, listed))
    return b"[" + b",".join(written) + b"]"


def _message(segments: list[Segment], listed: tuple[str, ...]) -> bytes:
    envelope, rest = segments[0], segments[1:]
    if envelope.kind != "envelope":
        return envelope.data
    parts = [envelope.data] if envelope.data else []
    for key in listed:
        own = [one for one in rest if list_of(one) == key]
        if len(own) == 1 and own[0].path.endswith(f".{key}"):
            parts.append(f'"{key}":'.encode() + own[0].data)
        elif own or (key == "content" and len(listed) == 1):
            parts.append(f'"{key}":['.encode() + b",".join(one.data for one in own) + b"]")
        elif key == "content":
            parts.append(b'"content":null')
    return b"{" + b",".join(parts) + b"}"


def list_of(segment: Segment) -> str:
    """Name the member of its message that a segment stands in: `content`, `tool_calls`."""
    return segment.path.rpartition(".")[2].partition("[")[0]


def write_body(members_: Iterable[tuple[str, bytes]]) -> bytes:
    """Write an object from encoded members, in order."""
    return b"{" + b",".join(encode(key) + b":" + value for key, value in members_) + b"}"
