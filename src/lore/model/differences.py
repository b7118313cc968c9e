"""Evidence of bytes: in what two successive prompts differ, as `lore.prefix` finds it.

In: nothing. Out: values. Rules: those of `lore.model.evidence`. An excerpt is masked (no credential of a known
pattern is in it) before it is cut.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

from lore.model.fields import Content, Fact, JsonPath, Name, Own


class Words(Fact, frozen=True):
    """A difference in words. To be replaced by a struct of its own."""

    text: Content


class PartialPrompt(Fact, frozen=True):
    """The prompt continues a response that is not recorded whole: both may be the same there."""


class BehindBreakpoint(Fact, frozen=True):
    """What changed stands behind the last breakpoint."""


class TailWithoutBreakpoint(Fact, frozen=True):
    """The last message was rewritten and nothing before it has a breakpoint, where only those are read."""


class HeaderChanged(Fact, frozen=True):
    """Claude Code's billing header is another; `dropped`: the provider takes it out of the prompt."""

    dropped: bool = False


class ToolsChanged(Fact, frozen=True):
    """Tools of one kind of change, by name; `servers` are the MCP servers that they belong to."""

    added: tuple[Name, ...] = ()
    removed: tuple[Name, ...] = ()
    changed: tuple[Name, ...] = ()
    loaded: tuple[Name, ...] = ()  # deferred ones that came into the list
    put_off: tuple[Name, ...] = ()  # announced ones that were loaded or put off again
    reordered: int = 0  # how many tools stand in another order
    servers: tuple[Name, ...] = ()


class TextChanged(Fact, frozen=True):
    """A text became another one in a place: `what` names the words that vary, if that is known."""

    path: JsonPath
    what: Own
    before: Content
    after: Content


class BlockMoved(Fact, frozen=True):
    """A block, text or message is gone, was put in before what was sent, or stands elsewhere."""

    path: JsonPath
    block: Own  # text, thinking, image, result, message …
    change: Literal["gone", "added", "moved", "changed"]
    excerpt: Content = ""
    topic: Own = ""


Difference: TypeAlias = (
    Words
    | PartialPrompt
    | BehindBreakpoint
    | TailWithoutBreakpoint
    | HeaderChanged
    | ToolsChanged
    | TextChanged
    | BlockMoved
)
