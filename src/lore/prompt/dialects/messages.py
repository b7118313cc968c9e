"""What the dialects of JSON bodies have in common: reading and writing messages, tools, system prompts.

A message is one envelope segment (its members other than content, as they stand) and one segment a content block.
Breakpoints are cut out of the bytes and kept beside them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from itertools import chain as chained
from itertools import groupby, takewhile
from typing import ClassVar, NamedTuple, TypeAlias

from msgspec import Raw

from lore.model.canonical import encode, printable, text_of
from lore.model.jsonslice import array, element_ranges, members, object_of, table, without_member
from lore.model.turn import Fidelity, Kind, Memo, Prompt, Section, Segment
from lore.model.vector import Vector
from lore.prompt.base import USUAL, CacheMark, Capability, Rendered, Spot
from lore.prompt.dialects import content as c

CACHE_CONTROL = "cache_control"
BREAKPOINT = "prompt_cache_breakpoint"  # OpenAI's, on content parts

# The members of a message whose elements are segments, in the order written, and what is written where one
# has none: its bytes, nothing (b""), or nothing because an empty one was left in the envelope (None).
Lists: TypeAlias = Mapping[str, bytes | None]
_EMPTY = re.compile(rb"null|\[[ \t\r\n]*+\]")


class Body:
    """A dialect of JSON bodies; a subclass says what it calls things, and how tools and messages are written.

    `own` are the members that are no parameters, the model first; `root` is the one that holds the messages, `lists`
    their members that are segments, `keys` those that are breakpoints; messages of the `system_roles` that lead are the
    system part: a message for each text, which opens with `system_envelope`, or where that is None the member `system`.
    `said` are the kinds of block that a message as it was recorded may have; without any none is taken.
    """

    name: ClassVar[str]
    capabilities: ClassVar[Mapping[str, Capability]] = USUAL
    own: ClassVar[tuple[str, ...]]
    root: ClassVar[str] = "messages"
    lists: ClassVar[Lists] = {"content": None}
    keys: ClassVar[tuple[str, ...]] = ()
    said: ClassVar[frozenset[str]] = frozenset()
    words: ClassVar[c.BlockWriter]
    system_roles: ClassVar[tuple[str, ...]] = ()
    system_envelope: ClassVar[bytes | None] = None

    def tool(self, raw: bytes) -> bytes:
        """Return a tool in this shape; a function in another's is rewritten, its schema as it was spelled."""
        raise NotImplementedError

    def system(self, members: dict[str, bytes]) -> list[Segment]:
        """Slice the system prompt that stands in members of its own."""
        return listed(members.get("system", b"null"), "system", "system", "text", "text", self.keys)

    def message(self, raw: bytes, path: str, section: Section) -> tuple[Segment, ...]:
        """Slice a message."""
        return object_segments(raw, path, section, self.lists, self.keys)

    def parse(self, body: bytes, fidelity: Fidelity, memo: Memo) -> Prompt:
        members = table(body) or {}
        head = [*listed(members.get("tools", b""), "tools", "tools", "tool", "opaque"), *self.system(members)]
        return self.prompt_of(fidelity, members, head, memo)

    def prompt_of(self, fidelity: Fidelity, members: dict[str, bytes], head: list[Segment], memo: Memo) -> Prompt:
        """Return the prompt of a body's members, tools and system prompt having been sliced."""
        system, messages = self._sliced(members.get(self.root, b""), memo)
        head += system
        marked = [
            (at, part.breakpoint) for at, part in enumerate(chained(head, messages)) if part.breakpoint is not None
        ]
        model = members.get(self.own[0], b"null")
        return Prompt(
            dialect=self.name, fidelity=fidelity, head=tuple(head), messages=Vector(messages),
            model=None if model == b"null" else printable(text_of(model)),
            breakpoints=tuple([at for at, _ in marked]), breakpoint_values=tuple([value for _, value in marked]),
            auto_breakpoint=members.get(CACHE_CONTROL, b"null") != b"null",
            params={key: value for key, value in members.items() if key not in self.own},
        )  # fmt: skip

    def _sliced(self, raw: bytes, memo: Memo) -> tuple[list[Segment], list[Segment]]:
        """Slice leading system messages and the others; anything else than an array is one segment."""
        root, system, messages = self.root, list[Segment](), list[Segment]()
        if raw[:1] != b"[":
            return system, listed(raw, root, "messages", odd="block" if raw[:1] == b'"' else "opaque")
        raws = array(raw)
        leading = sum(1 for _ in takewhile(self._is_system, raws)) if self.system_roles else 0
        for index, message in enumerate(raws):
            path = f"{root}[{index}]"
            if index < leading:  # remembered apart: the same message at the same place may follow others elsewhere
                system += memo.get(-1 - index, message, lambda r=message, p=path: self.message(r, p, "system"))
            else:
                messages += memo.get(index, message, lambda r=message, p=path: self.message(r, p, "messages"))
        return system, messages

    def _is_system(self, raw: bytes) -> bool:
        role = (table(raw) or {}).get("role", b'""')
        return role.strip(b'"').decode("utf-8", "replace") in self.system_roles

    def head(self, tools: tuple[Raw, ...], system: tuple[bytes, ...]) -> tuple[Segment, ...]:
        found = segments_of(map(self.tool, c.apart(tools)), "tools", "tools", "tool", (CACHE_CONTROL,))
        if self.system_envelope is None:
            return (*found, *segments_of(map(self.words.text, system), "system", "system", "text"))
        for number, text in enumerate(system):
            path = f"{self.root}[{number}]"
            found.append(Segment("system", path, self.system_envelope, kind="envelope"))
            found += segments_of([self.words.text(text)], f"{path}.content", "system")
        return tuple(found)

    def first(self, head: tuple[Segment, ...]) -> Spot:
        leading = sum(1 for segment in head if segment.section == "system" and segment.kind == "envelope")
        return Spot(leading, "system") if self.system_envelope is not None and leading else Spot()

    def verbatim(self, message: bytes, place: Spot) -> Rendered | None:
        """Render a message as it was recorded: sliced where it would be written so again, else as one piece."""
        content = (table(message) or {}).get("content", b"")
        kinds = [c.kind_of(table(block) or {}) for block in array(content)] if content[:1] == b"[" else []
        if not self.said or not (kinds or content[:1] == b'"') or not self.said.issuperset(kinds):
            return None
        path = f"{self.root}[{place.messages}]"
        segments = self.message(message, path, "messages")
        if write_object(list(segments), self.lists) != message:
            segments = (Segment("messages", path, message, kind="opaque"),)
        return Rendered(segments, Spot(place.messages + 1))  # without a role: nothing is joined to it

    def breakpoint(self, model: str | None, ttl: str) -> CacheMark | None:
        return None

    def takes_breakpoint(self, segment: Segment) -> bool:
        return False

    def write(self, prompt: Prompt) -> bytes:
        segments = [*self.with_breakpoints(prompt), *prompt.tail]
        members, end = self.opening(prompt), len(prompt.head)
        for key, some in groupby(segments[:end], _member_of):
            found = list(some)
            if key == self.root:  # the system messages, which come last
                end -= len(found)
            else:
                members.append((key, found[0].data if found[0].path == key else joined(found)))
        members.append((self.root, self.write_messages(segments[end:])))
        return object_of(dict(members))

    def opening(self, prompt: Prompt) -> list[tuple[str, bytes]]:
        """Return the members that a body begins with: the model, then the parameters."""
        model = [] if prompt.model is None else [(self.own[0], encode(prompt.model))]
        return [*model, *((key, value) for key, value in prompt.params.items() if key not in self.own)]

    def with_breakpoints(self, prompt: Prompt) -> list[Segment]:
        """Return the segments of head and messages, breakpoints written into their bytes.

        A breakpoint on content that is no object (a message whose content is a string) goes to its message. OpenAI's
        shapes write one of another provider, which a gateway takes, as that one does.
        """
        segments = [*prompt.head, *prompt.messages]
        for position, value in zip(prompt.breakpoints, prompt.breakpoint_values, strict=True):
            key = BREAKPOINT if BREAKPOINT in self.keys and b'"mode"' in value else CACHE_CONTROL
            while position >= 0 and segments[position].kind != "envelope" and segments[position].data[:1] != b"{":
                position -= 1
            if position >= 0:
                segments[position] = marked(segments[position], encode(key) + b":" + value)
        return segments

    def write_messages(self, segments: Iterable[Segment]) -> bytes:
        """Write messages from segments."""
        messages = group_messages(segments)
        if messages and messages[0][0].path == self.root:  # no array was read
            return messages[0][0].data
        return b"[" + b",".join([write_object(message, self.lists) for message in messages]) + b"]"


def group_messages(segments: Iterable[Segment]) -> list[list[Segment]]:
    """Return segments message by message: each envelope opens one, what follows belongs to it.

    A text that was all of a request's input, and that other requests continue, is a message without an envelope.
    """
    messages: list[list[Segment]] = []
    for segment in segments:
        is_next = not messages or messages[-1][0].path.partition(".")[0] != segment.path.partition(".")[0]
        if is_next or segment.kind in ("envelope", "opaque"):
            messages.append([])
        messages[-1].append(segment)
    return messages


def _member_of(segment: Segment) -> str:
    """Name the member of the body that a segment stands in."""
    return segment.path.partition("[")[0].partition(".")[0]


def marked(segment: Segment, mark: bytes) -> Segment:
    """Return a segment with its breakpoint written into its bytes, as the last member."""
    if segment.kind == "envelope":
        data = segment.data + b"," + mark if segment.data else mark
    else:
        data = segment.data[:-1] + (b"," if len(segment.data) > 2 else b"") + mark + b"}"
    return Segment(segment.section, segment.path, data, segment.kind)


class Stripped(NamedTuple):
    """An object's bytes without its breakpoints, and the breakpoint that it had."""

    data: bytes
    breakpoint: bytes | None


def strip_breakpoints(raw: bytes, keys: tuple[str, ...] = (CACHE_CONTROL,)) -> Stripped:
    """Cut breakpoints out of a block or tool, also out of the blocks that a tool result holds; the last one holds."""
    breakpoint = None
    for key in keys:
        if key.encode() in raw:
            raw, found = _strip(raw, key)
            breakpoint = breakpoint or found
    return Stripped(raw, breakpoint)


def _strip(raw: bytes, key: str) -> Stripped:
    breakpoints = [raw[m.value : m.end] for m in members(raw) if m.key == key]
    data = without_member(raw, key) if breakpoints else raw
    breakpoint = next((value for value in reversed(breakpoints) if value != b"null"), None)
    if key.encode() in data:
        for member in members(data):
            value = data[member.value : member.end]
            if member.key in ("content", "output") and value[:1] == b"[" and key.encode() in value:
                for start, end in reversed(element_ranges(value)):
                    inside = _strip(value[start:end], key)
                    value = value[:start] + inside.data + value[end:]
                    breakpoint = breakpoint or inside.breakpoint
                data = data[: member.value] + value + data[member.end :]
                break
    return Stripped(data, breakpoint)


def segments_of(
    raws: Iterable[bytes], path: str, section: Section, kind: Kind = "block", keys: tuple[str, ...] = (), first: int = 0
) -> list[Segment]:
    """Return a segment for each element of a list, the breakpoints of these members beside its bytes."""
    found: list[Segment] = []
    for number, raw in enumerate(raws, first):
        data, breakpoint = strip_breakpoints(raw, keys)
        found.append(Segment(section, f"{path}[{number}]", data, kind, breakpoint))
    return found


def object_segments(
    raw: bytes, path: str, section: Section, lists: Lists, keys: tuple[str, ...]
) -> tuple[Segment, ...]:
    """Slice an object: the envelope, then each element of its lists, in their order."""
    found = members(raw)
    if not found:
        return (Segment(section, path, raw, kind="opaque"),)
    inside = {m.key: raw[m.value : m.end] for m in found if m.key in lists}
    inside = {key: value for key, value in inside.items() if lists[key] is not None or not _EMPTY.fullmatch(value)}
    outer = [raw[m.start : m.end] for m in found if m.key not in inside and m.key not in keys]
    segments = [Segment(section, path, b",".join(outer), kind="envelope")]
    for key in lists:
        segments += listed(inside.get(key, b"null"), f"{path}.{key}", section, keys=keys)
    breakpoint = next((raw[m.value : m.end] for m in found if m.key in keys), b"null")
    if breakpoint != b"null":
        segments[-1].breakpoint, segments[-1].is_marked_by_message = breakpoint, True
    return tuple(segments)


def listed(
    raw: bytes, path: str, section: Section, kind: Kind = "block", odd: Kind = "block",
    keys: tuple[str, ...] = (CACHE_CONTROL,),
) -> list[Segment]:  # fmt: skip
    """Slice an array: a segment of this kind an element; what stands in its place is one of the `odd` kind."""
    if raw in (b"", b"null"):
        return []
    return segments_of(array(raw), path, section, kind, keys) if raw[:1] == b"[" else [Segment(section, path, raw, odd)]


def joined(segments: Iterable[Segment]) -> bytes:
    """Write segments as an array."""
    return b"[" + b",".join([segment.data for segment in segments]) + b"]"


def write_object(segments: list[Segment], lists: Lists) -> bytes:
    """Write one message; an envelope without members may be missing."""
    first = segments[0]
    if first.kind == "opaque" or (first.kind != "envelope" and first.path.isalpha()):  # a text is the whole input
        return first.data
    rest = segments[1:] if first.kind == "envelope" else segments
    held: dict[str, bytes] = {}
    for key in lists:
        own = [segment for segment in rest if segment.path.rpartition(".")[2].partition("[")[0] == key]
        if own:
            alone = len(own) == 1 and own[0].path.endswith(f".{key}")
            held[key] = own[0].data if alone else joined(own)
    parts = [first.data] if first.kind == "envelope" and first.data else []
    contents = ((key, held.get(key, empty)) for key, empty in lists.items())
    parts += [encode(key) + b":" + content for key, content in contents if content]
    return b"{" + b",".join(parts) + b"}"


class Writing:
    """Segments being rendered at a place, message by message, and what was left out.

    What was recorded with a breakpoint is content without it: that of these `keys` is kept beside it.
    """

    def __init__(self, root: str, place: Spot, keys: tuple[str, ...] = (CACHE_CONTROL, BREAKPOINT)) -> None:
        self.root = root
        self.place = place
        self.keys = keys
        self.segments: list[Segment] = []
        self.omitted: list[str] = []

    def open(self, role: str, envelope: bytes, parts: list[bytes], key: str = "content") -> None:
        """Begin a message."""
        path = f"{self.root}[{self.place.messages}]"
        self.segments.append(Segment("messages", path, envelope, kind="envelope"))
        self.place = Spot(self.place.messages + 1, role)
        self.extend(parts, key)

    def extend(self, parts: list[bytes], key: str = "content") -> None:
        """Add blocks to the last message."""
        place = self.place
        path = f"{self.root}[{place.messages - 1}].{key}"
        self.segments += segments_of(parts, path, "messages", keys=self.keys, first=place.blocks)
        self.place = Spot(place.messages, place.role, place.blocks + len(parts))

    def merge(self, role: str, parts: list[bytes], key: str = "content") -> None:
        """Add blocks to the last message if it has this role, else begin one: for APIs whose roles alternate."""
        if parts and self.place.role == role:
            self.extend(parts, key)
        elif parts:
            self.open(role, f'"role":"{role}"'.encode(), parts, key)

    def done(self) -> Rendered:
        """Return what was rendered."""
        return Rendered(tuple(self.segments), self.place, tuple(self.omitted))
