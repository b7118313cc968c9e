"""Evidence of bytes: in what two successive prompts differ, as `lore.prefix` finds it; and what evidence is made of.

In: nothing. Out: values. Rules: those of `lore.model.evidence`. A plain `str` in evidence is an error (a
test looks at every struct); what is not marked as lore's own is content. An excerpt is masked (no credential of a known
pattern is in it) before it is cut. The name of a member or field that lore knows is its own word, another is content.
"""

from __future__ import annotations

import re
from typing import Annotated, Literal, TypeAlias

from msgspec import Meta, Struct

Content: TypeAlias = Annotated[str, Meta(extra={"field": "content"})]  # quoted from a recording
Name: TypeAlias = Annotated[str, Meta(extra={"field": "name"})]  # of a tool, server, hook, command, chain
JsonPath: TypeAlias = Annotated[str, Meta(extra={"field": "path"})]  # of a place inside a request body
Model: TypeAlias = Annotated[str, Meta(extra={"field": "model"})]
Own: TypeAlias = Annotated[str, Meta(extra={"field": "own"})]  # one of lore's own words
Number: TypeAlias = int | float  # as it was given: 20 is not said as 20.0, also where a result was stored between
_HUMP = re.compile(r"(?<=[a-z])(?=[A-Z])")

BlockKind: TypeAlias = Literal["text", "result", "call", "image", "thinking", "envelope", "other"]
# What varies in a text, or what the text is about; empty where nothing is known.
Varies: TypeAlias = Literal[
    "", "date", "directory", "token-count", "id", "temporary-path", "process-id", "counter", "repository", "memory"
]
# How equal content is in other bytes: a text or a block of it, the order of members, JSON's own spelling, a number's
# digits; in decoded text: HTML entities, newlines, Unicode forms, white space, JSON inside a text.
Spelling: TypeAlias = Literal[
    "shape", "member-order", "json", "number",
    "entities", "newlines", "unicode", "white-space", "inner-order", "inner-json",
]  # fmt: skip
ModelFamily: TypeAlias = Literal["claude", "openai", ""]
# From where a changed field costs: all of the prompt, what follows the tools, the messages, nothing.
CostsFrom: TypeAlias = Literal["all", "system", "messages", "nothing", "unknown"]
Setting: TypeAlias = Literal["generation", "tool-choice", "features", "output-schema"]


class EvidenceFact(Struct, frozen=True, tag_field="type", tag=lambda name: _HUMP.sub("-", name).lower()):
    """The base of evidence: in JSON its `type` is the name of the struct, in words joined by hyphens."""


class PartialPrompt(EvidenceFact, frozen=True):
    """The prompt continues a response that is not recorded whole: both may be the same there."""


class BehindBreakpoint(EvidenceFact, frozen=True):
    """What changed stands behind the last breakpoint."""


class TailWithoutBreakpoint(EvidenceFact, frozen=True):
    """The last message was rewritten and nothing before it has a breakpoint, where only those are read."""


class PromptParted(EvidenceFact, frozen=True):
    """The prompt is another from a place on, and nothing says why; or it ended so many segments early."""

    missing_segments: int = 0


class HeaderChanged(EvidenceFact, frozen=True):
    """Claude Code's billing header is another or comes and goes; `dropped`: the provider takes it out of the prompt."""

    dropped: bool = False
    change: Literal["changed", "added", "gone"] = "changed"


class ToolsChanged(EvidenceFact, frozen=True):
    """Tools of one kind of change, by name; `servers` are the MCP servers that they belong to."""

    added: tuple[Name, ...] = ()
    removed: tuple[Name, ...] = ()
    changed: tuple[Name, ...] = ()
    loaded: tuple[Name, ...] = ()  # deferred ones that came into the list
    put_off: tuple[Name, ...] = ()  # announced ones that were loaded or put off again
    reordered: int = 0  # how many tools stand in another order
    servers: tuple[Name, ...] = ()
    unnamed: int = 0  # how many more there are than are named


class HashesMoved(EvidenceFact, frozen=True):
    """What a client notes of prompts by hash is another than `turns` requests before: names of what moved, no text.

    `section` is tools, system (its segments) or messages, where `message` is the place behind which they part.
    """

    section: Own
    turns: int
    added: tuple[Name, ...] = ()
    removed: tuple[Name, ...] = ()
    changed: tuple[Name, ...] = ()
    reordered: int = 0
    message: int = 0


class TextChanged(EvidenceFact, frozen=True):
    """A text became another one in a place: `what` names the words that vary, if that is known."""

    path: JsonPath
    what: Varies
    before: Content
    after: Content


class BlockChanged(EvidenceFact, frozen=True):
    """A block or a message's envelope became another; `members` and `unknown_members` are those that differ."""

    path: JsonPath
    before: Content
    after: Content
    members: tuple[Own, ...] = ()
    unknown_members: tuple[Content, ...] = ()


class BlockMoved(EvidenceFact, frozen=True):
    """A block, text or message is gone, was put in before what was sent, or stands elsewhere."""

    path: JsonPath
    block: BlockKind
    change: Literal["gone", "added", "moved"]
    excerpt: Content
    topic: Varies = ""


class WrapperGone(EvidenceFact, frozen=True):
    """What a program put around a user's text is gone; the text is there. `holds` says what it was, by its labels."""

    path: JsonPath
    excerpt: Content
    holds: tuple[Own, ...] = ()


class MessagesGone(EvidenceFact, frozen=True):
    """So many messages side by side are gone, from `first` to `last`; the excerpt is of the first."""

    count: int
    first: JsonPath
    last: JsonPath
    excerpt: Content


class Respelled(EvidenceFact, frozen=True):
    """The same content is in other bytes."""

    path: JsonPath
    spelling: Spelling
    before: Content | None = None
    after: Content | None = None


class EmptyMember(EvidenceFact, frozen=True):
    """Members that hold nothing come or go; `whole`: all of a block or tool; `templated`: a template may see it."""

    path: JsonPath
    whole: bool = False
    templated: bool = False


class IdChanged(EvidenceFact, frozen=True):
    """Only these members differ, which name a call or an item."""

    path: JsonPath
    of: Literal["call", "item"]
    members: tuple[Own, ...]


class ThinkingChanged(EvidenceFact, frozen=True):
    """Thinking that was sent; `members` and `unknown_members` are what differs of the message that carries it."""

    path: JsonPath
    change: Literal["changed", "signature", "gone", "added", "moved"]
    members: tuple[Own, ...] = ()
    unknown_members: tuple[Content, ...] = ()


class ImageChanged(EvidenceFact, frozen=True):
    """An image has other bytes, became something else, is gone or was put in; `in-result`: of a tool's result."""

    path: JsonPath
    change: Literal["bytes", "replaced", "gone", "added", "in-result"]


class ResultRewritten(EvidenceFact, frozen=True):
    """A tool's result has other content; `cleared` is what the session recorded of it."""

    path: JsonPath
    before: Content
    after: Content
    cleared: Content | None = None


class ResultSentEarly(EvidenceFact, frozen=True):
    """A call was sent before it had its result."""

    path: JsonPath


class ParameterChanged(EvidenceFact, frozen=True):
    """A field beside the content, or `member` of it that lore does not know, has another value; None: left out."""

    field: Own
    before: Content | None
    after: Content | None
    setting: Setting
    family: ModelFamily
    level: CostsFrom
    member: Content | None = None


class BetasChanged(EvidenceFact, frozen=True):
    """Beta features that are asked for in a header."""

    added: tuple[Name, ...]
    removed: tuple[Name, ...]
    family: ModelFamily
    level: CostsFrom


Difference: TypeAlias = (
    PartialPrompt | BehindBreakpoint | TailWithoutBreakpoint | PromptParted | HeaderChanged | ToolsChanged | HashesMoved
    | TextChanged | BlockChanged | BlockMoved | WrapperGone | MessagesGone | Respelled | EmptyMember | IdChanged
    | ThinkingChanged | ImageChanged | ResultRewritten | ResultSentEarly | ParameterChanged | BetasChanged
)  # fmt: skip


# One request alone: what its shape says of a cache, whatever was sent before or billed

# Why nothing takes a breakpoint: what it stands on, the lifetime it asks for, or that the cache has none.
Unmarkable: TypeAlias = Literal[
    "empty-text", "thinking", "deferred-tool", "message", "not-input", "lifetime", "automatic-cache", "section",
    "model", "other-api", "inside-result",
]  # fmt: skip
# Text that programs write into prompts and that is often another one in the next request, session or project.
VaryingKind: TypeAlias = Literal[
    "date", "clock", "directory", "id", "temporary-path", "process-id", "token-count", "repository"
]
RequestSetting: TypeAlias = Literal[
    "key-too-long", "retention-shorter", "retention-replaced", "reasoning-not-returned", "truncation",
    "cached-content-beside",
]  # fmt: skip


class BreakpointNotTaken(EvidenceFact, frozen=True):
    """A breakpoint that does not count; `value` is the lifetime, section, model or member that is the reason."""

    reason: Unmarkable
    value: Content = ""


class LifetimesOutOfOrder(EvidenceFact, frozen=True):
    """A breakpoint that asks to live longer than one before it, in seconds; `before` is where that one stands."""

    seconds: float
    seconds_before: float
    before: JsonPath


class BreakpointsApart(EvidenceFact, frozen=True):
    """Positions between a breakpoint and what stands before it, of so many that are looked back.

    `step`: those that the latest step appended; else those between the last two breakpoints of the request.
    """

    positions: int
    allowed: int
    step: bool


class VaryingText(EvidenceFact, frozen=True):
    """Text before the history of a kind that often varies."""

    kind: VaryingKind
    excerpt: Content = ""


class ToolsUnsorted(EvidenceFact, frozen=True):
    """Tools that do not stand in the order of their names: the first that comes too late, and the one before it."""

    tools: int
    before: Name
    name: Name


class ImageBeforeText(EvidenceFact, frozen=True):
    """Images in the first message before text of about so many tokens."""

    images: int
    tokens: int


class CacheKeyMissing(EvidenceFact, frozen=True):
    """No `prompt_cache_key`; so many requests a minute of one beginning reach one machine (None: not known)."""

    per_minute: int | None


class CacheSetting(EvidenceFact, frozen=True):
    """A field of the request that works against its cache, and its value; `limit` is the most that is allowed."""

    setting: RequestSetting
    value: Content = ""
    limit: int | None = None


RequestFact: TypeAlias = (
    BreakpointNotTaken | LifetimesOutOfOrder | BreakpointsApart | VaryingText | ToolsUnsorted | ImageBeforeText
    | CacheKeyMissing | CacheSetting
)  # fmt: skip
