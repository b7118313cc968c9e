"""The protocol of a dialect (a request shape), what the layout hands to it, and the rules of assembly.

A dialect renders units (messages without any request shape) as segments, writes segments as a request body, and parses
a request body to a prompt. `parse(write(prompt))` returns the segments of `prompt`; segments that are read from a body
are slices of it; content is always written as an array of blocks, so that a breakpoint never changes its shape.

To add one, write a class with the members of `Dialect` in `dialects/`, add it to `DIALECTS` there (or publish it under
the entry-point group `lore.dialects`), and run `lore.testing.DialectContract` on it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Protocol, TypeAlias, cast

from msgspec import Raw, Struct, StructMeta

from lore.errors import LoreError, bad_name
from lore.model.items import Block, ToolCall
from lore.model.state import DividerPlace
from lore.model.turn import Fidelity, Memo, Prompt, Segment

Role: TypeAlias = Literal["user", "assistant", "results", "system"]


class Unit(Struct, frozen=True, gc=False):
    """A message of the user, the model (with the calls it makes), the system, or its tools (`results`)."""

    role: Role  # of the message
    blocks: tuple[Block, ...] = ()  # its content without calls
    calls: tuple[ToolCall, ...] = ()  # the calls that the model makes, or those whose results these are
    joins: bool = False  # it extends the last message, unless that is the model's
    origin: str = ""  # its source, for `lore assemble --explain`
    message: bytes = b""  # the provider's own message, if it was recorded
    before: tuple[int, ...] = ()  # for each call the number of blocks before it; empty: all of them

    @property
    def parts(self) -> Iterator[Block | ToolCall]:
        """The blocks and calls in the order of the response; all blocks come first if `before` is empty."""
        at = 0
        for call, count in zip(self.calls, self.before or (len(self.blocks),) * len(self.calls), strict=True):
            yield from self.blocks[at:count]
            at = count
            yield call
        yield from self.blocks[at:]


class Spot(Struct, frozen=True, gc=False):
    """The end of the messages, to which the next unit is rendered."""

    messages: int = 0  # messages so far
    role: str = ""  # the dialect's word for the role of the last one; empty without messages
    blocks: int = 0  # blocks of the last one


class Rendered(Struct, frozen=True, gc=False):
    """A rendered unit."""

    segments: tuple[Segment, ...]  # of the message or messages
    after: Spot  # the end of the messages with it
    omitted: tuple[str, ...] = ()  # names of what the dialect cannot express


class Capability(Struct, frozen=True):
    """Whether a dialect expresses a feature, and one sentence on how lore writes it, or what it writes instead."""

    expressed: bool  # whether the dialect has it
    answer: str  # how it is expressed, or what is written instead


def can(answer: str) -> Capability:
    """Return the capability of a dialect that expresses a feature."""
    return Capability(expressed=True, answer=answer)


def cannot(answer: str) -> Capability:
    """Return the capability of a dialect that does not express a feature."""
    return Capability(expressed=False, answer=answer)


SEVERAL_LEADING = "several leading system messages"
IN_CONVERSATION = "system messages in mid-conversation"
IN_LOOPS = "knowledge inside a tool loop"
AFTER_RESULTS = "after a tool's results"  # the origin of knowledge inside a tool loop ends with it

# The capabilities of most dialects, by feature.
USUAL: Mapping[str, Capability] = {
    SEVERAL_LEADING: cannot("they become blocks of one system prompt"),
    IN_CONVERSATION: can("on models with a dated row or named by system_in_conversation; else in the user's role"),
    IN_LOOPS: cannot("it waits for the user's next message"),
    "thinking": cannot("left out"),
    "images": cannot("left out"),
    "images in tool results": cannot("left out"),
    "messages of one role in a row": can("the API takes them"),
    "blocks of another provider": cannot("only their text is written"),
    "tools of another provider": can(
        "functions are rewritten with their schema; a provider's own tools stay as recorded: the API may refuse them"
    ),
    "parameters of another provider": cannot("written as recorded: the session's params must be the API's own"),
    "cache breakpoints": can("prompt_cache_breakpoint on input parts, on models with exact breakpoints"),
}
FEATURES = tuple(USUAL)


def expresses(dialect: Dialect, feature: str) -> bool:
    """Return whether a dialect's capabilities say that it expresses a feature."""
    return feature in dialect.capabilities and dialect.capabilities[feature].expressed


class CacheMark(Struct, frozen=True):
    """How a dialect writes a cache breakpoint for a model, and where the model's cache looks for one."""

    value: bytes  # JSON: the value alone of the member that asks for caching, such as `cache_control`
    on_tools: bool = True  # whether a tool may carry one
    look_back: int = 20  # positions before a breakpoint at which an earlier entry is found; 0: at the breakpoint only
    most: int = 4  # breakpoints that a request may carry
    options: str = ""  # the parameter with `value` as its value, without which the API sets one of them, in the tail


class Dialect(Protocol):
    """A request shape. It may have these methods, too:

    - `verbatim(message: bytes, place: Spot) -> Rendered | None`: render a recorded message byte for byte; None if it is
      not of this API.
    - `finish(prompt: Prompt) -> Prompt`: make the final prompt of a whole assembled one, as chat templates do. Costs
      O(prompt); raises LoreError if it cannot be made.
    - `cache_key_member(model: str | None) -> str | None`: the body's member for a key by which the API routes requests,
      so that those with the same beginning find its cache; None if the model's API takes none.
    - `late_system() -> Does | None`: what its chat template does with a system message at the end; None if it cannot
      be tried (`system_messages.py`).
    """

    name: ClassVar[str]  # as sessions and options name it
    capabilities: ClassVar[Mapping[str, Capability]]  # by feature

    def recognises(self, body: dict[str, bytes]) -> bool:
        """Return whether a body with these members is of this shape."""
        ...

    def parse(self, body: bytes, fidelity: Fidelity, memo: Memo) -> Prompt:
        """Parse a request body. Total: a part of an unknown shape is one segment. Cost O(bytes)."""
        ...

    def head(self, tools: tuple[Raw, ...], system: tuple[bytes, ...]) -> tuple[Segment, ...]:
        """Return the segments of tools (definitions as recorded) and of the system prompt's texts (JSON strings)."""
        ...

    def first(self, head: tuple[Segment, ...]) -> Spot:
        """Return where the first unit begins: after the messages that `head` already has."""
        ...

    def render(self, unit: Unit, place: Spot) -> Rendered:
        """Return a unit's segments, the end of the messages with it, and names of what the dialect cannot express.

        It has no segments if the dialect can express nothing of it.
        """
        ...

    def breakpoint(self, model: str | None, ttl: str) -> CacheMark | None:
        """Return how a breakpoint with this lifetime is written for a model; None if it takes none."""
        ...

    def takes_breakpoint(self, segment: Segment) -> bool:
        """Return whether lore may put a breakpoint on a segment: never on empty text, thinking, an envelope."""
        ...

    def write(self, prompt: Prompt) -> bytes:
        """Return the request body with the prompt's breakpoints and its tail."""
        ...


Policy: TypeAlias = Literal["system", "user", "persist"]
POLICIES: tuple[Policy, ...] = ("system", "user", "persist")
BreakpointSource: TypeAlias = Literal["lore", "recorded", "none"]
Ttl: TypeAlias = Literal["5m", "1h"]


if TYPE_CHECKING:
    _RejectUnknown = StructMeta  # a type checker reads the fields
else:

    class _RejectUnknown(StructMeta):
        """Makes a struct raise MisuseError for an unknown keyword, which names the nearest field."""

        def __call__(self, *values: Any, **fields: Any) -> Any:
            for name in fields:
                if name not in self.__struct_fields__:
                    raise bad_name(f"{self.__name__}()", name, self.__struct_fields__)
            return super().__call__(*values, **fields)


class Rules(Struct, frozen=True, forbid_unknown_fields=True, metaclass=_RejectUnknown):
    """How prompts are assembled: the settings of `[assemble]` in `lore.toml`. Raises LoreError for a wrong value."""

    # Where a turn's volatile context goes: the last user message (`user`); the same, but the words of the agent's
    # author in a system message at the end if the model takes one there (`system`); or the history (`persist`).
    tail: Policy = "system"
    knowledge_tokens: int = 400  # budget of the entries of a delta, estimated
    removals: bool = True  # whether a change that only removes entries makes a delta
    announce_token: bool = False  # whether [session] is also written if nothing was known at the first turn
    max_loop_turns: int = 20  # turns of a tool loop after which a delta may follow the last result; 0: never
    system_in_conversation: tuple[str, ...] = ()  # patterns of models that take system messages in mid-conversation
    one_system_message: tuple[str, ...] = ()  # patterns of models that take only one leading system message
    breakpoints: BreakpointSource = "lore"  # whose cache breakpoints a prompt carries: lore's, the recorded ones, none
    head_ttl: Ttl = "5m"  # lifetime asked for tools and system prompt
    ttl: Ttl = "5m"  # lifetime asked for the history
    bos_token: str = ""  # what chat templates get as bos_token
    eos_token: str = ""  # and as eos_token
    divider: DividerPlace = "before"  # where a compaction puts its divider: before or after the items that it keeps

    def __post_init__(self) -> None:
        if fault := self.fault():
            raise LoreError(fault)

    def fault(self) -> str | None:
        """Return a sentence about the first wrong value; None if all are right."""
        for name, choices in _CHOICES.items():
            if getattr(self, name) not in choices:
                return f"{name} is {getattr(self, name)!r}, expected one of {', '.join(choices)}"
        for name in ("knowledge_tokens", "max_loop_turns"):
            if type(getattr(self, name)) is not int:
                return f"{name} has to be a whole number"
        if self.knowledge_tokens < 1:
            return "knowledge_tokens must be at least 1"
        if self.max_loop_turns < 0:
            return "max_loop_turns must not be negative; 0 means never"
        for name in ("system_in_conversation", "one_system_message"):
            models: object = getattr(self, name)  # of a text each letter would be a pattern
            listed = cast("list[object]", models) if isinstance(models, list | tuple) else None
            if listed is None or not all(isinstance(model, str) for model in listed):
                return f"{name} has to be a list of models"
            if not all(listed):
                return f"{name} names models: an empty text matches none"
        if (self.head_ttl, self.ttl) == ("5m", "1h"):
            return "head_ttl must not be shorter than ttl: a longer-lived breakpoint comes first"
        return None


_CHOICES: dict[str, tuple[str, ...]] = {
    "tail": POLICIES, "breakpoints": ("lore", "recorded", "none"), "head_ttl": ("5m", "1h"), "ttl": ("5m", "1h"),
    "divider": ("before", "after"),
}  # fmt: skip
