"""Timelines in a few words, for tests of what sums them up."""

from msgspec import Raw

from lore.model.canonical import encode
from lore.model.items import NULL, AssistantMessage, CompactDivider, ToolCall, UserMessage
from lore.model.state import Entry


def raw(value):
    """A value as JSON text."""
    return Raw(encode(value))


def user(text, source="user", **more):
    """A user's message."""
    return Entry(UserMessage(f"u-{hash_of(text)}", text=raw(text), source=source, **more), 0, 0)


def assistant(text, **more):
    """The assistant's message."""
    return Entry(AssistantMessage(f"a-{hash_of(text)}", text=raw(text), **more), 0, 0)


def call(name, arguments, answer="ok", status="completed", **more):
    """A call with its result."""
    output = NULL if answer is None else raw(answer)
    ident = f"c-{hash_of(name + repr(arguments))}"
    return Entry(ToolCall(ident, ident, name, raw(arguments), status=status, output=output, **more), 0, 0)


def divider(summary):
    """What a compaction left."""
    return Entry(CompactDivider("d", "manual", summary=raw(summary), pruned=3), 0, 0)


def talk(count, size=40):
    """Return `count` messages, a user's and an assistant's in turn, each of `size` characters."""
    return tuple(
        [(assistant if number % 2 else user)(f"message {number} ".ljust(size, "x")) for number in range(count)]
    )


def hash_of(text):
    """A name for a text that is the same in every process."""
    return sum(text.encode("utf-8", "replace")) * 1000 + len(text)
