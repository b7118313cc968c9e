"""What a dialect is, and what the layout hands to it.

A dialect turns units (what was said, in order, free of any request shape) into segments, segments into
a request body, and a request body into a prompt. Rules: `parse(write(p))` gives the segments of `p`;
segments that are read from a body are slices of it; content is always written as an array of blocks, so
that a breakpoint never changes its shape.

How to add one: write a class with the members of `Dialect` in `dialects/`, add it to `DIALECTS` there
(or publish it under the entry-point group `lore.dialects`), run `lore.testing.DialectContract` on it.

`Rules` are the settings of `[assemble]` in `lore.toml`, the same for the library.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import ClassVar, Literal, NamedTuple, Protocol, TypeAlias, runtime_checkable

from msgspec import Raw, Struct

from lore.model.items import Block, ToolCall
from lore.model.state import DividerPlace
from lore.model.turn import Fidelity, Memo, Prompt, Segment

Role: TypeAlias = Literal["user", "assistant", "results", "system"]


class Unit(Struct, frozen=True, gc=False):
    """Something said: by the user, by the model (with the calls it makes), or by its tools (`results`).

    With `joins` it extends the last message where that is not the model's, instead of opening one;
    `origin` says where it came from; `message` is the provider's own message that was recorded of it, if there is one;
    `before` has for each call how many of the blocks stand before it, where it is not all of them.
    """

    role: Role
    blocks: tuple[Block, ...] = ()
    calls: tuple[ToolCall, ...] = ()
    joins: bool = False
    origin: str = ""
    message: bytes = b""
    before: tuple[int, ...] = ()

    @property
    def parts(self) -> Iterator[Block | ToolCall]:
        """Blocks and calls in the order in which they were said."""
        at = 0
        for call, count in zip(self.calls, self.before or (len(self.blocks),) * len(self.calls), strict=True):
            yield from self.blocks[at:count]
            at = count
            yield call
        yield from self.blocks[at:]


class Spot(Struct, frozen=True, gc=False):
    """Where the next unit goes: messages so far, the last one's role and number of blocks.

    The role is the dialect's own word for it, empty where there is no message.
    """

    messages: int = 0
    role: str = ""
    blocks: int = 0


class Rendered(Struct, frozen=True, gc=False):
    """A unit as segments, the place behind them, and what the dialect cannot express."""

    segments: tuple[Segment, ...]
    after: Spot
    omitted: tuple[str, ...] = ()


class Capability(NamedTuple):
    """Whether a dialect expresses a feature, and what lore does (or needs) in one sentence."""

    expressed: bool
    answer: str


def can(answer: str) -> Capability:
    """Return the answer of a dialect that expresses a feature."""
    return Capability(expressed=True, answer=answer)


def cannot(answer: str) -> Capability:
    """Return the answer of a dialect that has no place for a feature."""
    return Capability(expressed=False, answer=answer)


SEVERAL_LEADING = "several leading system messages"
IN_CONVERSATION = "system messages in mid-conversation"
IN_LOOPS = "knowledge inside a tool loop"
BEHIND = "behind a tool's results"  # what the origin of such a text ends with

# What most dialects answer, by feature.
USUAL = {
    SEVERAL_LEADING: cannot("one system prompt holds them all, each as a block of its own"),
    IN_CONVERSATION: can("on models with a dated row or named by system_in_conversation; else in the user's role"),
    IN_LOOPS: cannot("it waits for the user's next message"),
    "thinking": cannot("left out"),
    "images": cannot("left out"),
    "images in tool results": cannot("left out"),
    "messages of one role in a row": can("the API takes them"),
    "blocks of another provider": cannot("their text where they have one, else left out"),
    "tools of another provider": can(
        "functions are rewritten, their schema as spelled; a provider's own as recorded: the API may refuse them"
    ),
    "parameters of another provider": cannot("written as recorded: the session's params must be the API's own"),
    "cache breakpoints": can("prompt_cache_breakpoint on input parts, on models with exact breakpoints"),
}
FEATURES = tuple(USUAL)


def answers(own: Mapping[str, Capability]) -> Mapping[str, Capability]:
    """Return a dialect's own answers, with the usual ones for the other features."""
    return {**USUAL, **own}


def expresses(dialect: Dialect, feature: str) -> bool:
    """Tell whether a dialect says that it expresses a feature."""
    return feature in dialect.capabilities and dialect.capabilities[feature].expressed


class CacheMark(NamedTuple):
    """How a dialect writes a cache breakpoint for a model, and where the model's cache looks for one."""

    value: bytes  # JSON
    on_tools: bool = True  # whether a tool may carry one
    look_back: int = 20  # positions before a breakpoint at which an earlier entry is found; 0: at the breakpoint only
    most: int = 4  # breakpoints that a request may carry


class Dialect(Protocol):
    """A request shape."""

    name: ClassVar[str]
    capabilities: ClassVar[Mapping[str, Capability]]

    def recognises(self, body: dict[str, bytes]) -> bool:
        """Tell whether a body's members are of this shape."""
        ...

    def parse(self, body: bytes, fidelity: Fidelity, memo: Memo) -> Prompt:
        """Read a request body. Total: a part of an unknown shape is one segment. Cost O(bytes)."""
        ...

    def head(self, tools: tuple[Raw, ...], system: tuple[bytes, ...]) -> tuple[Segment, ...]:
        """Render tools (as given) and the system prompt (JSON strings)."""
        ...

    def first(self, head: tuple[Segment, ...]) -> Spot:
        """Return the place behind the head."""
        ...

    def render(self, unit: Unit, place: Spot) -> Rendered:
        """Render a unit at a place. A unit that nothing can be said of renders as nothing."""
        ...

    def breakpoint(self, model: str | None, ttl: str) -> CacheMark | None:
        """Return how a breakpoint is written for this model; None where it has none."""
        ...

    def takes_breakpoint(self, segment: Segment) -> bool:
        """Tell whether a breakpoint may stand on a segment: never on empty text, thinking, an envelope."""
        ...

    def write(self, prompt: Prompt) -> bytes:
        """Write the request body, with the prompt's breakpoints."""
        ...


@runtime_checkable
class Verbatim(Protocol):
    """A dialect that takes messages of its own API as they were recorded."""

    def verbatim(self, message: bytes, place: Spot) -> Rendered | None:
        """Render a message at a place, to the byte; None where it is not this API's."""
        ...


@runtime_checkable
class Finishing(Protocol):
    """A dialect whose prompts cannot be made unit by unit: each whole prompt goes through `finish`."""

    def finish(self, prompt: Prompt) -> Prompt:
        """Return the prompt as it is sent. Costs O(prompt) a turn; raises LoreError where it cannot be made."""
        ...


@runtime_checkable
class KeyedCaching(Protocol):
    """A dialect whose API routes requests by a key, so that those with the same beginning find its cache."""

    def cache_key_member(self, model: str | None) -> str | None:
        """Return the body's member that holds the key; None if the model's API takes none."""
        ...


Policy: TypeAlias = Literal["system", "user", "persist"]
POLICIES: tuple[Policy, ...] = ("system", "user", "persist")
BreakpointSource: TypeAlias = Literal["lore", "recorded", "none"]
Ttl: TypeAlias = Literal["5m", "1h"]


class Rules(Struct, frozen=True, forbid_unknown_fields=True):
    """Where volatile context goes, how much a delta may say, which cache breakpoints are set.

    `tail`: a system message where the model takes one (`system`), the user's last message (`user`), or written into
    history (`persist`). `system_in_conversation` names models (shell patterns, in any case) that take one and that lore
    does not know, `one_system_message` those whose leading system messages have to be one. `knowledge_tokens` is the
    budget of a delta's entries, estimated; `removals` says that a change which only takes entries back gives a delta
    too. `max_loop_turns`: in a tool loop of so many turns a delta may stand behind the last result, where the dialect
    has a place for it; 0 means never. `announce_token` puts `[session]`, with the token of such deltas, into the system
    prompt of sessions that know nothing yet, too. `breakpoints`: lore's own, the recorded ones, or none; `head_ttl` is
    the lifetime asked for tools and system prompt, `ttl` for the rest. `bos_token` and `eos_token` are what chat
    templates get under these names. `divider` says where a compaction's divider, and with it the summary, stands:
    `before` the items that were kept, or `after` them; a session keeps the place in its state.
    """

    tail: Policy = "system"
    knowledge_tokens: int = 400
    removals: bool = True
    announce_token: bool = False
    max_loop_turns: int = 20
    system_in_conversation: tuple[str, ...] = ()
    one_system_message: tuple[str, ...] = ()
    breakpoints: BreakpointSource = "lore"
    head_ttl: Ttl = "5m"
    ttl: Ttl = "5m"
    bos_token: str = ""
    eos_token: str = ""
    divider: DividerPlace = "before"

    def fault(self) -> str | None:
        """Say what cannot be; None where all can."""
        for name, known in _KNOWN.items():
            if getattr(self, name) not in known:
                return f"{name} {getattr(self, name)!r} is none of {', '.join(known)}"
        for name in ("knowledge_tokens", "max_loop_turns"):
            if type(getattr(self, name)) is not int:
                return f"{name} has to be a whole number"
        if self.knowledge_tokens < 1:
            return "knowledge_tokens must be at least 1"
        if self.max_loop_turns < 0:
            return "max_loop_turns must not be negative; 0 means never"
        for name in ("system_in_conversation", "one_system_message"):
            if isinstance(getattr(self, name), str):  # each of its letters would be a pattern
                return f"{name} has to be a list of models"
            if not all(getattr(self, name)):
                return f"{name} names models: an empty text fits none"
        if (self.head_ttl, self.ttl) == ("5m", "1h"):
            return "head_ttl must not be shorter than ttl: a longer-lived breakpoint comes first"
        return None


_KNOWN: dict[str, tuple[str, ...]] = {
    "tail": POLICIES, "breakpoints": ("lore", "recorded", "none"), "head_ttl": ("5m", "1h"), "ttl": ("5m", "1h"),
    "divider": ("before", "after"),
}  # fmt: skip
