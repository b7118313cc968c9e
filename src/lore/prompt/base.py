"""What a dialect is, and what the layout hands to it.

A dialect turns units (what was said, in order, free of any request shape) into segments, segments into
a request body, and a request body into a prompt. Rules: `parse(write(p))` gives the segments of `p`;
segments that are read from a body are slices of it; content is always written as an array of blocks, so
that a mark never changes its shape.

How to add one: write a class with the members of `Dialect` in `dialects/`, add it to `DIALECTS` there
(or publish it under the entry-point group `lore.dialects`), run `lore.testing.DialectContract` on it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar, Literal, Protocol, TypeAlias

from msgspec import Raw, Struct

from lore.model.exchange import Fidelity
from lore.model.items import Block, ToolCall
from lore.model.prompt import Prompt, Segment

Role: TypeAlias = Literal["user", "assistant", "results", "system"]


class Unit(Struct, frozen=True, gc=False):
    """Something said: by the user, by the model (with the calls it makes), or by its tools (`results`)."""

    role: Role
    blocks: tuple[Block, ...] = ()
    calls: tuple[ToolCall, ...] = ()


class Rendered(Struct, frozen=True, gc=False):
    """A unit as segments, the number of messages they make, and what the dialect cannot express."""

    segments: tuple[Segment, ...]
    messages: int
    omitted: tuple[str, ...] = ()


class Memo:
    """Messages already parsed, so that a history which is sent again is parsed once and shared.

    Holds, for each position, the few latest messages seen there: memory is a few prompts, whatever the
    length of the recording. Compared by bytes; nothing is hashed.
    """

    KEEP = 4

    def __init__(self) -> None:
        self._seen: dict[int, list[tuple[bytes, tuple[Segment, ...]]]] = {}

    def get(self, index: int, raw: bytes, build: Callable[[], tuple[Segment, ...]]) -> tuple[Segment, ...]:
        """Return the segments of the message at `index`, built only if its bytes are new there."""
        seen = self._seen.setdefault(index, [])
        for known, segments in seen:
            if known == raw:
                return segments
        segments = build()
        seen.insert(0, (raw, segments))
        del seen[self.KEEP :]
        return segments


class Dialect(Protocol):
    """A request shape."""

    name: ClassVar[str]

    def recognises(self, body: dict[str, bytes]) -> bool:
        """Tell whether a body's members are of this shape."""
        ...

    def parse(self, body: bytes, fidelity: Fidelity, memo: Memo) -> Prompt:
        """Read a request body. Total: a part of an unknown shape is one segment. Cost O(bytes)."""
        ...

    def head(self, tools: tuple[Raw, ...], system: tuple[bytes, ...]) -> tuple[Segment, ...]:
        """Render tools (as given) and the system prompt (JSON strings)."""
        ...

    def first(self, head: tuple[Segment, ...]) -> int:
        """Return the number of messages that the head takes up."""
        ...

    def render(self, unit: Unit, index: int) -> Rendered:
        """Render a unit whose first message has this index."""
        ...

    def tail(self, text: str, messages: int, *, own_message: bool, last: Segment | None) -> tuple[Segment, ...]:
        """Render the volatile end: as a system message of its own, or as a block of the last message.

        `messages` counts the messages so far; `last` is the last segment before the tail.
        """
        ...

    def write(self, prompt: Prompt) -> bytes:
        """Write the request body."""
        ...
