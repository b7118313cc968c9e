"""Base class of the dialects with JSON bodies: read and write messages, tools and system prompts.

A message is one envelope segment (its members other than content, as they were spelled) and one segment for each
content block. Breakpoints are cut out of the bytes and kept in the segment.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from itertools import chain as chained
from itertools import groupby, takewhile
from typing import ClassVar, TypeAlias

from msgspec import Raw

from lore.model.canonical import encode, printable, text_of
from lore.model.deferred import pattern
from lore.model.jsonslice import array, element_ranges, member_ranges, object_of, raw_members, without_member
from lore.model.turn import Fidelity, Kind, Memo, Prompt, Section, Segment
from lore.model.vector import Vector
from lore.prompt.base import USUAL, CacheMark, Capability, Rendered, Spot
from lore.prompt.dialects import content as c

CACHE_CONTROL = "cache_control"
BREAKPOINT = "prompt_cache_breakpoint"  # OpenAI's, on content parts
COPILOT = "copilot_cache_control"  # for GitHub Copilot's gateway, on messages and tools; elsewhere it has no effect

# The members of a message whose elements are segments, in the order in which they are written. The value is written for
# a member without elements: these bytes, nothing (b""), or nothing because an empty one stays in the envelope (None).
Lists: TypeAlias = Mapping[str, bytes | None]
_EMPTY = pattern(rb"null|\[[ \t\r\n]*+\]")


class Body:
    """A dialect with JSON bodies; a subclass names the members, and writes tools and units."""

    name: ClassVar[str]  # of the dialect
    capabilities: ClassVar[Mapping[str, Capability]] = USUAL  # which features it can express, by feature
    prompt_members: ClassVar[tuple[str, ...]]  # members that are no parameters; the model is the first
    root: ClassVar[str] = "messages"  # the member that holds the messages
    lists: ClassVar[Lists] = {"content": None}  # the members of a message that are split into their elements
    keys: ClassVar[tuple[str, ...]] = ()  # members that are breakpoints
    recorded_kinds: ClassVar[frozenset[str]] = frozenset()  # kinds of block that `verbatim` takes; empty: it takes none
    writer: ClassVar[c.BlockWriter]  # writes blocks
    system_roles: ClassVar[tuple[str, ...]] = ()  # leading messages of these roles are the system part
    # The envelope of each system message, one for each text; None: the texts are in the member `system`.
    system_envelope: ClassVar[bytes | None] = None

    def tool(self, raw: bytes) -> bytes:
        """Return a tool's definition in this dialect's shape; a function in another dialect's shape is rewritten.

        Its name, description, schema and `strict` are kept. A provider's own tool stays as it is (in Chat Completions
        without `cache_control`). Dialects that write all tools in `head` do not define this.
        """
        raise NotImplementedError

    def system(self, members: dict[str, bytes]) -> list[Segment]:
        """Return the segments of the body's member for the system prompt, breakpoints cut out; empty without one."""
        return slice_list(members.get("system", b"null"), "system", "system", "text", "text", self.keys)

    def message(self, raw: bytes, path: str, section: Section) -> tuple[Segment, ...]:
        """Return the segments of a message: its envelope, then its content blocks and the elements of other `lists`."""
        return slice_object(raw, path, section, self.lists, self.keys)

    def parse(self, body: bytes, fidelity: Fidelity, memo: Memo) -> Prompt:
        """Parse a request body: tools, system prompt, messages. O(bytes).

        A member of unknown shape becomes one segment. Bytes that are not a JSON object give an empty prompt.
        """
        members = raw_members(body) or {}
        tools = members.get("tools", b"")
        parts = [members.get(name, b"") for name in self.prompt_members if name not in (self.root, "model")]
        head = memo.get(  # one tuple as long as its members stay the same, which other rooms compare by identity
            self.name, b"\0".join(parts),
            lambda: (*slice_list(tools, "tools", "tools", "tool", "opaque"), *self.system(members)),
        )  # fmt: skip
        return self.prompt_of(fidelity, members, head, memo)

    def prompt_of(self, fidelity: Fidelity, members: dict[str, bytes], head: Iterable[Segment], memo: Memo) -> Prompt:
        """Return the prompt of a body's `members`, whose tools and system prompt are sliced already (`head`).

        Leading messages of `system_roles` are added to the head.
        """
        system, messages = self._slice_messages(members.get(self.root, b""), memo)
        head = (*head, *system) if system else tuple(head)
        marks = [
            (at, part.breakpoint) for at, part in enumerate(chained(head, messages)) if part.breakpoint is not None
        ]
        model = members.get(self.prompt_members[0], b"null")
        return Prompt(
            dialect=self.name, fidelity=fidelity, head=head, messages=Vector(messages),
            model=None if model == b"null" else printable(text_of(model)),
            breakpoints=tuple([at for at, _ in marks]), breakpoint_values=tuple([value for _, value in marks]),
            auto_breakpoint=members.get(CACHE_CONTROL, b"null") != b"null",
            params={key: value for key, value in members.items() if key not in self.prompt_members},
        )  # fmt: skip

    def _slice_messages(self, raw: bytes, memo: Memo) -> tuple[list[Segment], list[Segment]]:
        """Return the segments of leading system messages and of the others; a value that is no array is one segment."""
        root, system, messages = self.root, list[Segment](), list[Segment]()
        if raw[:1] != b"[":
            return system, slice_list(raw, root, "messages", odd="block" if raw[:1] == b'"' else "opaque")
        raws = array(raw)
        leading = sum(1 for _ in takewhile(self._is_system, raws)) if self.system_roles else 0
        for index, message in enumerate(raws):
            path = f"{root}[{index}]"
            if index < leading:  # another key: the same message in the same place may follow others in another request
                system += memo.get(-1 - index, message, lambda r=message, p=path: self.message(r, p, "system"))
            else:
                messages += memo.get(index, message, lambda r=message, p=path: self.message(r, p, "messages"))
        return system, messages

    def _is_system(self, raw: bytes) -> bool:
        role = (raw_members(raw) or {}).get("role", b'""')
        return role.strip(b'"').decode("utf-8", "replace") in self.system_roles

    def head(self, tools: tuple[Raw, ...], system: tuple[bytes, ...]) -> tuple[Segment, ...]:
        """Return the segments of tools (rewritten by `tool`) and of the system prompt's texts (JSON strings).

        A text is one segment in the member `system`, or with `system_envelope` a message: its envelope and its text.
        """
        segments = slice_elements(map(self.tool, c.single_tools(tools)), "tools", "tools", "tool", (CACHE_CONTROL,))
        if self.system_envelope is None:
            return (*segments, *slice_elements(map(self.writer.text, system), "system", "system", "text"))
        for number, text in enumerate(system):
            path = f"{self.root}[{number}]"
            segments.append(Segment("system", path, self.system_envelope, kind="envelope"))
            segments += slice_elements([self.writer.text(text)], f"{path}.content", "system")
        return tuple(segments)

    def first(self, head: tuple[Segment, ...]) -> Spot:
        """Return the place of the first unit in the list of messages: after the system messages of `head`, if any."""
        leading = sum(1 for segment in head if segment.section == "system" and segment.kind == "envelope")
        return Spot(leading, "system") if self.system_envelope is not None and leading else Spot()

    def verbatim(self, message: bytes, place: Spot) -> Rendered | None:
        """Render a recorded message: sliced if it would be written with the same bytes, else as one segment.

        None if its content is neither a text nor a list of blocks whose kinds are all in `recorded_kinds`.
        """
        content = (raw_members(message) or {}).get("content", b"")
        kinds = [c.kind_of(raw_members(block) or {}) for block in array(content)] if content[:1] == b"[" else []
        if not (kinds or content[:1] == b'"') or not self.recorded_kinds or not self.recorded_kinds.issuperset(kinds):
            return None
        path = f"{self.root}[{place.messages}]"
        segments = self.message(message, path, "messages")
        if write_object(list(segments), self.lists) != message:
            segments = (Segment("messages", path, message, kind="opaque"),)
        return Rendered(segments, Spot(place.messages + 1))  # without a role, so that nothing is joined to it

    def breakpoint(self, model: str | None, ttl: str) -> CacheMark | None:
        """Return how a breakpoint of lifetime `ttl` is written for a model; None here: the API takes none."""
        return None

    def takes_breakpoint(self, segment: Segment) -> bool:
        """Return whether a segment may carry a breakpoint of lore's; never here."""
        return False

    def write(self, prompt: Prompt) -> bytes:
        """Return the request body: model, parameters, tools, system, messages with breakpoints, the tail last.

        Empty tools and system are left out.
        """
        segments = [*self.with_breakpoints(prompt), *prompt.tail]
        members, end = self.opening(prompt), len(prompt.head)
        for key, some in groupby(segments[:end], lambda segment: re.split(r"[\[.]", segment.path)[0]):
            group = list(some)
            if key == self.root:  # the system messages, which come last
                end -= len(group)
            else:
                members.append((key, group[0].data if group[0].path == key else write_list(group)))
        members.append((self.root, self.write_messages(segments[end:])))
        return object_of(dict(members))

    def opening(self, prompt: Prompt) -> list[tuple[str, bytes]]:
        """Return the first members of a body as (name, JSON): the model, if it has one, then the parameters."""
        model = [] if prompt.model is None else [(self.prompt_members[0], encode(prompt.model))]
        return [*model, *((key, value) for key, value in prompt.params.items() if key not in self.prompt_members)]

    def with_breakpoints(self, prompt: Prompt) -> list[Segment]:
        """Return the segments of head and messages with breakpoints in their bytes.

        The breakpoint of content that is no object (a message whose content is a string) goes to its message. OpenAI's
        dialects write `cache_control` as it is: gateways take it for models of another provider.
        """
        segments = [*prompt.head, *prompt.messages]
        for position, value in zip(prompt.breakpoints, prompt.breakpoint_values, strict=True):
            key = BREAKPOINT if BREAKPOINT in self.keys and b'"mode"' in value else CACHE_CONTROL
            while position >= 0 and segments[position].kind != "envelope" and segments[position].data[:1] != b"{":
                position -= 1
            if position < 0:
                continue
            segment, member = segments[position], encode(key) + b":" + value
            if segment.kind == "envelope":
                data = segment.data + b"," + member if segment.data else member
            else:
                data = segment.data[:-1] + (b"," if len(segment.data) > 2 else b"") + member + b"}"
            segments[position] = Segment(segment.section, segment.path, data, segment.kind)
        return segments

    def write_messages(self, segments: Iterable[Segment]) -> bytes:
        """Return the JSON array of messages that the segments belong to, or the JSON that was not an array."""
        messages = group_messages(segments)
        written = [write_object(message, self.lists) for message in messages]
        if messages and messages[0][0].path == self.root:  # no array was read
            if len(messages) == 1:
                return written[0]
            written[0] = b'{"role":"user","content":' + written[0] + b"}"  # a text, which other messages follow now
        return b"[" + b",".join(written) + b"]"


def group_messages(segments: Iterable[Segment]) -> list[list[Segment]]:
    """Return the segments of each message. An envelope, an opaque segment or another path begins a message.

    A text that was the whole input of a request, and that other requests continue, is a message without an envelope.
    """
    messages: list[list[Segment]] = []
    for segment in segments:
        is_next = not messages or messages[-1][0].path.partition(".")[0] != segment.path.partition(".")[0]
        if is_next or segment.kind in ("envelope", "opaque"):
            messages.append([])
        messages[-1].append(segment)
    return messages


def strip_breakpoints(raw: bytes, keys: tuple[str, ...] = (CACHE_CONTROL,)) -> tuple[bytes, bytes | None]:
    """Return a block or tool without breakpoints, also in the blocks of a tool result, and the last one that it had.

    A member of `null` is removed as well, but is no breakpoint, nor is Copilot's.
    """
    breakpoint = None
    for key in keys:
        if key.encode() in raw:
            raw, last = _strip(raw, key)
            breakpoint = breakpoint or (None if key == COPILOT else last)
    return raw, breakpoint


def _strip(raw: bytes, key: str) -> tuple[bytes, bytes | None]:
    breakpoints = [raw[m.value : m.end] for m in member_ranges(raw) if m.key == key]
    data = without_member(raw, key) if breakpoints else raw
    breakpoint = next((value for value in reversed(breakpoints) if value != b"null"), None)
    if key.encode() in data:
        for member in member_ranges(data):
            value = data[member.value : member.end]
            if member.key in ("content", "output") and value[:1] == b"[" and key.encode() in value:
                for start, end in reversed(element_ranges(value)):
                    inside, inner = _strip(value[start:end], key)
                    value = value[:start] + inside + value[end:]
                    breakpoint = breakpoint or inner
                data = data[: member.value] + value + data[member.end :]
                break
    return data, breakpoint


def slice_elements(
    raws: Iterable[bytes], path: str, section: Section, kind: Kind = "block", keys: tuple[str, ...] = (), first: int = 0
) -> list[Segment]:
    """Return a segment for each element, numbered from `first`, breakpoints (members `keys`) cut out of its bytes."""
    segments: list[Segment] = []
    for number, raw in enumerate(raws, first):
        data, breakpoint = strip_breakpoints(raw, keys)
        segments.append(Segment(section, f"{path}[{number}]", data, kind, breakpoint))
    return segments


def slice_object(raw: bytes, path: str, section: Section, lists: Lists, keys: tuple[str, ...]) -> tuple[Segment, ...]:
    """Return the segments of an object: the envelope (its other members), then those of its members in `lists`.

    These come in the order of `lists`: a segment for each element of an array, one for any other value. A null or empty
    array gives none; it stays in the envelope if its value in `lists` is None, else it is left out. A breakpoint (a
    member of `keys`) of the object itself goes to its last segment. Text that is not an object, and an
    empty object, is one opaque segment.
    """
    members = member_ranges(raw)
    if not members:
        return (Segment(section, path, raw, kind="opaque"),)
    inside = {m.key: raw[m.value : m.end] for m in members if m.key in lists}
    inside = {key: value for key, value in inside.items() if lists[key] is not None or not _EMPTY.fullmatch(value)}
    outer = [raw[m.start : m.end] for m in members if m.key not in inside and m.key not in keys]
    segments = [Segment(section, path, b",".join(outer), kind="envelope")]
    for key in lists:
        segments += slice_list(inside.get(key, b"null"), f"{path}.{key}", section, keys=keys)
    breakpoint = next((raw[m.value : m.end] for m in members if m.key in keys and m.key != COPILOT), b"null")
    if breakpoint != b"null":
        segments[-1].breakpoint, segments[-1].is_marked_by_message = breakpoint, True
    return tuple(segments)


def slice_list(
    raw: bytes, path: str, section: Section, kind: Kind = "block", odd: Kind = "block",
    keys: tuple[str, ...] = (CACHE_CONTROL,),
) -> list[Segment]:  # fmt: skip
    """Return a segment of `kind` for each element of an array; another value is one segment of kind `odd`.

    No segments for null or b"".
    """
    if raw in (b"", b"null"):
        return []
    return (
        slice_elements(array(raw), path, section, kind, keys) if raw[:1] == b"[" else [Segment(section, path, raw, odd)]
    )


def write_list(segments: Iterable[Segment]) -> bytes:
    """Return the data of the segments (blocks or tools, not envelopes) as a JSON array, breakpoints left out."""
    return b"[" + b",".join([segment.data for segment in segments]) + b"]"


def write_object(segments: list[Segment], lists: Lists) -> bytes:
    """Return one message's JSON: members of its envelope, if it has one, then its `lists` (with their empty values)."""
    first = segments[0]
    if first.kind == "opaque" or (first.kind != "envelope" and first.path.isalpha()):  # a text is the whole input
        return first.data
    blocks = segments[1:] if first.kind == "envelope" else segments
    values: dict[str, bytes] = {}
    for key in lists:
        elements = [segment for segment in blocks if segment.path.rpartition(".")[2].partition("[")[0] == key]
        if elements:
            is_value = len(elements) == 1 and elements[0].path.endswith(f".{key}")
            values[key] = elements[0].data if is_value else write_list(elements)
    parts = [first.data] if first.kind == "envelope" and first.data else []
    contents = ((key, values.get(key, empty)) for key, empty in lists.items())
    parts += [encode(key) + b":" + content for key, content in contents if content]
    return b"{" + b",".join(parts) + b"}"


class Writing:
    """Renders a unit message by message: the segments so far, and the names of omitted parts.

    A breakpoint that was recorded inside a block (a member of these `keys`) is kept in its segment.
    """

    def __init__(self, root: str, place: Spot, keys: tuple[str, ...] = (CACHE_CONTROL, BREAKPOINT)) -> None:
        self.root = root
        self.place = place
        self.keys = keys
        self.segments: list[Segment] = []
        self.omitted: list[str] = []

    def open(self, role: str, envelope: bytes, parts: list[bytes], key: str = "content") -> None:
        """Begin a message: an envelope of these members, then a block for each part. `role` is for a later `merge`."""
        path = f"{self.root}[{self.place.messages}]"
        self.segments.append(Segment("messages", path, envelope, kind="envelope"))
        self.place = Spot(self.place.messages + 1, role)
        self.extend(parts, key)

    def extend(self, parts: list[bytes], key: str = "content") -> None:
        """Add blocks at the end of the last message's member `key`."""
        place = self.place
        path = f"{self.root}[{place.messages - 1}].{key}"
        self.segments += slice_elements(parts, path, "messages", keys=self.keys, first=place.blocks)
        self.place = Spot(place.messages, place.role, place.blocks + len(parts))

    def merge(self, role: str, parts: list[bytes], key: str = "content") -> None:
        """Add blocks to the last message if it has this role, else begin one: for APIs whose roles alternate."""
        if parts and self.place.role == role:
            self.extend(parts, key)
        elif parts:
            self.open(role, f'"role":"{role}"'.encode(), parts, key)

    def finish(self) -> Rendered:
        """Return the segments, the place after them, and the names of omitted parts."""
        return Rendered(tuple(self.segments), self.place, tuple(self.omitted))
