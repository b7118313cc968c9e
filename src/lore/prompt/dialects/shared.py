"""What the dialects have in common: reading and writing messages, tools, the results of calls.

A message is one envelope segment (its members other than content, as they stand) and one segment a
content block. Breakpoints are cut out of the bytes and kept beside them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from itertools import chain as chained
from itertools import takewhile
from typing import NamedTuple, TypeAlias

from lore.model.canonical import encode, printable, text_of
from lore.model.jsonslice import array, element_ranges, spans, table, without_member
from lore.model.prompt import Fidelity, Kind, Prompt, Section, Segment
from lore.model.vector import Vector
from lore.prompt.base import Memo, Place, Rendered

CACHE_CONTROL = "cache_control"
BREAKPOINT = "prompt_cache_breakpoint"  # OpenAI's, on content parts

# The members of a message whose elements are segments, in the order written, and what is written where one
# has none: its bytes, nothing (b""), or nothing because an empty one was left in the envelope (None).
Shape: TypeAlias = Mapping[str, bytes | None]
CONTENT: Shape = {"content": b"[]"}
_EMPTY = re.compile(rb"null|\[[ \t\r\n]*+\]")


class Stripped(NamedTuple):
    """An object's bytes without its breakpoints, and the breakpoint that it had."""

    data: bytes
    breakpoint: bytes | None


def strip_breakpoints(raw: bytes, keys: tuple[str, ...] = (CACHE_CONTROL,)) -> Stripped:
    """Cut breakpoints out of a block or tool, also out of the blocks that a tool result holds; the last one holds."""
    breakpoint: bytes | None = None
    for key in keys:
        if key.encode() in raw:
            raw, found = _strip(raw, key)
            breakpoint = breakpoint or found
    return Stripped(raw, breakpoint)


def _strip(raw: bytes, key: str) -> Stripped:
    breakpoints = [raw[m.value : m.end] for m in spans(raw) if m.key == key]
    data = without_member(raw, key) if breakpoints else raw
    breakpoint = next((one for one in reversed(breakpoints) if one != b"null"), None)
    if key.encode() in data:
        for member in spans(data):
            value = data[member.value : member.end]
            if member.key in ("content", "output") and value[:1] == b"[" and key.encode() in value:
                inside = _strip_all(value, key)
                data = data[: member.value] + inside.data + data[member.end :]
                breakpoint = breakpoint or inside.breakpoint
                break
    return Stripped(data, breakpoint)


def _strip_all(value: bytes, key: str) -> Stripped:
    """Cut the breakpoints out of an array of blocks; the last one holds."""
    breakpoint: bytes | None = None
    for start, end in reversed(element_ranges(value)):
        bare = _strip(value[start:end], key)
        value = value[:start] + bare.data + value[end:]
        breakpoint = breakpoint or bare.breakpoint
    return Stripped(value, breakpoint)


def with_breakpoints(prompt: Prompt, key: Callable[[bytes], str] = lambda _: CACHE_CONTROL) -> list[Segment]:
    """Return the segments of head and messages, breakpoints written into their bytes.

    A breakpoint on content that is no object (a message whose content is a string) goes to its message.
    """
    segments = [*prompt.head, *prompt.messages]
    for position, value in zip(prompt.breakpoints, prompt.breakpoint_values, strict=True):
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


def breakpoint_key(value: bytes) -> str:
    """Name the member that OpenAI's shapes write a breakpoint as: a gateway to another provider takes that one's."""
    return BREAKPOINT if b'"mode"' in value else CACHE_CONTROL


def message(
    raw: bytes, path: str, section: Section, shape: Shape = CONTENT, keys: tuple[str, ...] = (CACHE_CONTROL,)
) -> tuple[Segment, ...]:
    """Slice a message: the envelope, then each element of the members that its shape lists, in that order."""
    found = spans(raw)
    if not found:
        return (Segment(section, path, raw, kind="opaque"),)
    inside = {m.key: raw[m.value : m.end] for m in found if m.key in shape}
    inside = {key: value for key, value in inside.items() if shape[key] is not None or not _EMPTY.fullmatch(value)}
    outer = [raw[m.start : m.end] for m in found if m.key not in inside and m.key not in keys]
    segments = [Segment(section, path, b",".join(outer), kind="envelope")]
    for key in shape:
        segments.extend(listed(inside.get(key, b"null"), f"{path}.{key}", section, keys=keys))
    breakpoint = next((raw[m.value : m.end] for m in found if m.key in keys), None)
    if breakpoint is not None and breakpoint != b"null":
        segments[-1].breakpoint = breakpoint
    return tuple(segments)


def listed(
    raw: bytes,
    path: str,
    section: Section,
    kind: Kind = "block",
    odd: Kind = "block",
    keys: tuple[str, ...] = (CACHE_CONTROL,),
) -> list[Segment]:
    """Slice an array: a segment of this kind an element; what stands in its place is one of the `odd` kind."""
    if raw in (b"", b"null"):
        return []
    if raw[:1] != b"[":
        return [Segment(section, path, raw, odd)]
    found: list[Segment] = []
    for number, element in enumerate(array(raw)):
        data, breakpoint = strip_breakpoints(element, keys)
        found.append(Segment(section, f"{path}[{number}]", data, kind, breakpoint))
    return found


def tools(raw: bytes) -> list[Segment]:
    """Slice an array of tools; anything else that stands in its place is one segment."""
    return listed(raw, "tools", "tools", "tool", "opaque")


class Sliced(NamedTuple):
    """The segments of leading system messages, and those of the others."""

    system: list[Segment]
    messages: list[Segment]


def sliced(
    raw: bytes,
    root: str,
    memo: Memo,
    build: Callable[[bytes, str, Section], tuple[Segment, ...]] = message,
    system: tuple[str, ...] = (),
) -> Sliced:
    """Slice an array of messages; anything else that stands in its place is one segment.

    Messages of the `system` roles that lead are the system part.
    """
    if raw[:1] != b"[":
        return Sliced([], listed(raw, root, "messages", odd="block" if raw[:1] == b'"' else "opaque"))
    raws = array(raw)
    leading = sum(1 for _ in takewhile(lambda one: role_of(one) in system, raws)) if system else 0
    made = Sliced([], [])
    for index, one in enumerate(raws):
        path = f"{root}[{index}]"
        if index < leading:  # remembered apart: the same message at the same place may follow others elsewhere
            made.system.extend(memo.get(-1 - index, one, lambda r=one, p=path: build(r, p, "system")))
        else:
            made.messages.extend(memo.get(index, one, lambda r=one, p=path: build(r, p, "messages")))
    return made


def role_of(raw: bytes) -> str:
    """Return a message's role; empty where it has none."""
    role = (table(raw) or {}).get("role", b'""')
    return role.strip(b'"').decode("utf-8", "replace")


class BreakpointPositions(NamedTuple):
    """Positions of segments with breakpoints, counted over head and messages, and the breakpoints."""

    positions: tuple[int, ...]
    values: tuple[bytes, ...]


def breakpoints_of(head: Iterable[Segment], messages: Iterable[Segment]) -> BreakpointPositions:
    """Return the breakpoints that segments were read with."""
    found = [(place, one.breakpoint) for place, one in enumerate(chained(head, messages)) if one.breakpoint is not None]
    return BreakpointPositions(tuple([place for place, _ in found]), tuple([breakpoint for _, breakpoint in found]))


def prompt_of(
    name: str,
    fidelity: Fidelity,
    body: Mapping[str, bytes],
    head: list[Segment],
    messages: list[Segment],
    own: tuple[str, ...],
) -> Prompt:
    """Return the prompt of a body's segments. Of its `own` members the first is the model, none a parameter."""
    breakpoints = breakpoints_of(head, messages)
    model = body.get(own[0], b"null")
    return Prompt(
        dialect=name, fidelity=fidelity, head=tuple(head), messages=Vector(messages),
        model=None if model == b"null" else printable(text_of(model)),
        breakpoints=breakpoints.positions, breakpoint_values=breakpoints.values,
        auto_breakpoint=body.get(CACHE_CONTROL, b"null") != b"null",
        params={key: value for key, value in body.items() if key not in own},
    )  # fmt: skip


def opening(prompt: Prompt, own: tuple[str, ...]) -> list[tuple[str, bytes]]:
    """Return the members that a body begins with: the model (the first of its `own`), then the parameters."""
    model = [] if prompt.model is None else [(own[0], encode(prompt.model))]
    return [*model, *((key, value) for key, value in prompt.params.items() if key not in own)]


def tool_list(segments: Iterable[Segment]) -> list[tuple[str, bytes]]:
    """Return the member `tools`, if there are any."""
    found = [one for one in segments if one.section == "tools"]
    if not found:
        return []
    return [("tools", found[0].data if found[0].kind == "opaque" else joined(found))]


def joined(segments: Iterable[Segment]) -> bytes:
    """Write segments as an array."""
    return b"[" + b",".join([one.data for one in segments]) + b"]"


def write_messages(segments: Iterable[Segment], root: str = "messages", shape: Shape = CONTENT) -> bytes:
    """Write messages from segments: each envelope opens one, what follows belongs to it."""
    written: list[bytes] = []
    current: list[Segment] = []
    for segment in segments:
        if segment.path == root:  # no array was read
            return segment.data
        if segment.kind in ("envelope", "opaque") and current:
            written.append(write_message(current, shape))
            current = []
        current.append(segment)
    if current:
        written.append(write_message(current, shape))
    return b"[" + b",".join(written) + b"]"


def write_message(segments: list[Segment], shape: Shape) -> bytes:
    """Write one message; an envelope without members may be missing."""
    first = segments[0]
    if first.kind == "opaque":
        return first.data
    parts = [first.data] if first.kind == "envelope" and first.data else []
    rest = segments[1:] if first.kind == "envelope" else segments
    for key, empty in shape.items():
        own = [one for one in rest if list_of(one) == key]
        if len(own) == 1 and own[0].path.endswith(f".{key}"):
            parts.append(f'"{key}":'.encode() + own[0].data)
        elif own:
            parts.append(f'"{key}":'.encode() + joined(own))
        elif empty:
            parts.append(f'"{key}":'.encode() + empty)
    return b"{" + b",".join(parts) + b"}"


def list_of(segment: Segment) -> str:
    """Name the member of its message that a segment stands in: `content`, `tool_calls`."""
    return segment.path.rpartition(".")[2].partition("[")[0]


def write_body(members_: Iterable[tuple[str, bytes]]) -> bytes:
    """Write an object from encoded members, in order."""
    return b"{" + b",".join(encode(key) + b":" + value for key, value in members_) + b"}"


class Writing:
    """Segments being rendered at a place, message by message, and what was left out."""

    def __init__(self, root: str, place: Place) -> None:
        self.root = root
        self.place = place
        self.segments: list[Segment] = []
        self.omitted: list[str] = []

    def open(self, role: str, envelope: bytes, parts: list[bytes], key: str = "content") -> None:
        """Begin a message."""
        path = f"{self.root}[{self.place.messages}]"
        self.segments.append(Segment("messages", path, envelope, kind="envelope"))
        self.place = Place(self.place.messages + 1, role)
        self.extend(parts, key)

    def extend(self, parts: list[bytes], key: str = "content") -> None:
        """Add blocks to the last message; what was recorded with a breakpoint is content without it."""
        path = f"{self.root}[{self.place.messages - 1}].{key}"
        first = self.place.blocks
        bare = [strip_breakpoints(part, (CACHE_CONTROL, BREAKPOINT)) for part in parts]
        made = [
            Segment("messages", f"{path}[{n}]", one.data, breakpoint=one.breakpoint)
            for n, one in enumerate(bare, first)
        ]
        self.segments += made
        self.place = Place(self.place.messages, self.place.role, first + len(parts))

    def merge(self, role: str, parts: list[bytes], key: str = "content") -> None:
        """Add blocks to the last message if it has this role, else begin one: for APIs whose roles alternate."""
        if parts and self.place.role == role:
            self.extend(parts, key)
        elif parts:
            self.open(role, f'"role":"{role}"'.encode(), parts, key)

    def item(self, role: str, segments: tuple[Segment, ...]) -> None:
        """Add a whole message that was sliced."""
        self.segments += segments
        self.place = Place(self.place.messages + 1, role)

    def done(self) -> Rendered:
        """Return what was rendered."""
        return Rendered(tuple(self.segments), self.place, tuple(self.omitted))
