"""A prompt: the content of one request in the provider's render order, as segments.

Order: tools, system, messages, tail. Rules: a segment holds exact bytes and a path; a cache breakpoint is a
fact about it and never part of its bytes; JSON punctuation between segments counts nowhere.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain as chained
from typing import Literal, TypeAlias

from msgspec import Struct

from lore.model.vector import Vector

Fidelity: TypeAlias = Literal["wire", "parsed", "structural", "reconstructed", "rendered"]
Section: TypeAlias = Literal["tools", "system", "messages"]
Kind: TypeAlias = Literal["tool", "text", "envelope", "block", "opaque"]

NO_RESULT = b'"[no result recorded]"'  # what stands for the result of a call that was sent without one


class Segment(Struct, eq=False, gc=False):
    """The smallest piece that diverges or not.

    `section`, `path` (`messages[3].content[0]`) and `data` (its exact bytes); `kind` says whether it is
    one tool, text of the system prompt, a message's envelope, a content block, or a whole message of no
    known shape; `breakpoint` is the cache breakpoint set on it, as JSON. Segments are equal when section, kind
    and bytes are: the path moves when history is pruned, and a breakpoint is not content.
    """

    section: Section
    path: str
    data: bytes
    kind: Kind = "block"
    breakpoint: bytes | None = None
    origin: str = ""

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if not isinstance(other, Segment):
            return NotImplemented
        return self.data == other.data and self.kind == other.kind and self.section == other.section

    def __ne__(self, other: object) -> bool:
        return not self == other  # a Struct's own knows nothing of __eq__ above

    def __hash__(self) -> int:
        return hash((self.data, self.kind, self.section))

    @property
    def json(self) -> bytes:
        """Its bytes as JSON: what an envelope holds are members."""
        return b"{" + self.data + b"}" if self.kind == "envelope" else self.data

    def __repr__(self) -> str:
        return f"Segment({self.path} {self.data!r})"


class Prompt(Struct, frozen=True):
    """One request's content. `head` is tools and system; `tail` is the volatile end lore added.

    `breakpoints` are the positions of segments with a breakpoint, counted over head and messages, `breakpoint_values`
    the breakpoints themselves, as JSON; `auto_breakpoint` says that the request asks for automatic caching; `params`
    are the request's other fields, as JSON; `partial` says that the request continues others which the recording
    does not hold, so that its beginning is missing; `dropped` is text that the provider takes out, so that it
    is no part of the head.
    """

    dialect: str
    fidelity: Fidelity
    model: str | None = None
    head: tuple[Segment, ...] = ()
    messages: Vector[Segment] = Vector()
    tail: tuple[Segment, ...] = ()
    breakpoints: tuple[int, ...] = ()
    breakpoint_values: tuple[bytes, ...] = ()
    auto_breakpoint: bool = False
    params: dict[str, bytes] = {}
    partial: bool = False
    dropped: bytes = b""

    def __len__(self) -> int:
        return len(self.head) + len(self.messages) + len(self.tail)

    def __iter__(self) -> Iterator[Segment]:
        return chained(self.head, self.messages, self.tail)

    def at(self, position: int) -> Segment | None:
        """Return the segment at a position over head, messages and tail; None past the end."""
        for part in (self.head, self.messages, self.tail):
            if position < len(part):
                return part[position]
            position -= len(part)
        return None

    @property
    def tools(self) -> int:
        """Count the tools, which stand first."""
        return sum(1 for segment in self.head if segment.section == "tools")

    @property
    def stable(self) -> int:
        """Count the segments before the tail."""
        return len(self.head) + len(self.messages)
