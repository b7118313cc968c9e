"""Evidence of one request alone: what its shape says of a cache, whatever was sent before or billed.

In: nothing. Out: values. Rules: those of `lore.model.evidence`, whose union these belong to.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

from lore.model.differences import Content, EvidenceFact, JsonPath, Name

# Why nothing takes a breakpoint: what it stands on, the lifetime it asks for, or that the cache has none.
Unmarkable: TypeAlias = Literal[
    "empty-text", "thinking", "deferred-tool", "message", "not-input", "lifetime", "automatic-cache"
]
# Text that programs write into prompts and that is often another one in the next request, session or project.
VaryingKind: TypeAlias = Literal[
    "date", "clock", "directory", "id", "temporary-path", "process-id", "token-count", "repository"
]
Setting: TypeAlias = Literal[
    "key-too-long", "retention-shorter", "retention-replaced", "reasoning-not-returned", "truncation",
    "cached-content-beside",
]  # fmt: skip


class BreakpointNotTaken(EvidenceFact, frozen=True):
    """A breakpoint where none counts; `value` is the lifetime that it asks for, where that is the reason."""

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

    setting: Setting
    value: Content = ""
    limit: int | None = None


RequestFact: TypeAlias = (
    BreakpointNotTaken | LifetimesOutOfOrder | BreakpointsApart | VaryingText | ToolsUnsorted | ImageBeforeText
    | CacheKeyMissing | CacheSetting
)  # fmt: skip
