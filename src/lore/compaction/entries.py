"""Count what the entries of a timeline hold: messages, calls, and estimated tokens.

A message is a user's, the model's, or a tool call with its result. Tokens are estimated: UTF-8 bytes of content divided
by four, and a fixed count for an image or a document.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import takewhile
from typing import TypeAlias

from msgspec import Raw

from lore.model import items as i
from lore.model.state import Chain, Entry
from lore.model.vector import Vector
from lore.prompt.layout import is_real

Entries: TypeAlias = Vector[Entry] | Sequence[Entry]
BYTES_PER_TOKEN = 4  # an estimate: UTF-8 bytes of content
IMAGE_TOKENS = 1_600  # about the most that an image costs which providers do not scale down
_IMAGE = IMAGE_TOKENS * BYTES_PER_TOKEN
_QUOTE = ord('"')


def is_message(item: i.Item) -> bool:
    """Return whether an item is a message, not a divider or an opaque item."""
    return not isinstance(item, i.CompactDivider | i.OpaqueItem)


def is_injected(item: i.Item) -> bool:
    """Return whether an item is text that a program wrote as the user."""
    return isinstance(item, i.UserMessage) and item.source == "context_injection"


def has_real_activity(entries: Entries) -> bool:
    """Return whether a person said anything in these entries."""
    return any(is_real(entry.item) for entry in entries)


def count_messages(entries: Entries) -> int:
    """Count the messages."""
    return sum(is_message(entry.item) for entry in entries)


def calls_tools(entries: Entries, last: int) -> bool:
    """Return whether the response that ends at a place asked for tools."""
    group = entries[last].group
    response = takewhile(lambda at: entries[at].group == group, range(last, -1, -1))
    return any(isinstance(entries[at].item, i.ToolCall) for at in response)


def tokens_of(entries: Entries) -> int:
    """Estimate how many tokens these entries are in a prompt. Costs O(entries)."""
    return tokens_of_size(sum(bytes_of(entry) for entry in entries))


def tokens_of_size(size: int) -> int:
    """Estimate the tokens of `size` bytes, rounded up."""
    return -(-size // BYTES_PER_TOKEN)


class TimelineSizes:
    """Estimates for a growing timeline. Not safe between threads."""

    def __init__(self) -> None:
        self._entries: Vector[Entry] = Vector()
        self._sums = [0]  # bytes before each entry

    def tokens_of(self, entries: Vector[Entry], count: int | None = None) -> int:
        """Return the tokens of all entries, or of the first `count`. Costs O(what changed since the last call)."""
        same = self._entries.common(entries)
        del self._sums[same + 1 :]
        for entry in entries.since(same):
            self._sums.append(self._sums[-1] + bytes_of(entry))
        self._entries = entries
        return tokens_of_size(self._sums[-1 if count is None else count])


def head_tokens(chain: Chain) -> int:
    """Estimate the tokens beside a chain's messages: tools, system prompt, knowledge and layers, also in deltas."""
    pinned = "".join(fact.title + fact.content for fact in chain.pinned or ())
    added = (*(layer.text for layer in chain.pinned_layers), *(delta.content for delta in chain.deltas.values()))
    raws = (chain.system, *(chain.tools or ()), *added)
    return tokens_of_size(sum(map(_size, raws)) + len(pinned.encode("utf-8", "replace")))


def bytes_of(entry: Entry) -> int:
    """Return the size of an entry's content in a prompt, in UTF-8 bytes as JSON spells it."""
    item = entry.item
    match item:
        case i.UserMessage() | i.AssistantMessage():
            return _size(item.text) if item.blocks is None else sum(map(_block_size, item.blocks))
        case i.ToolCall():
            result = item.output if i.is_absent(item.error) else item.error
            text = b"" if i.is_absent(result) else bytes(result)
            has_image = b'"image"' in text or b'"base64"' in text
            blocks = result_blocks(text) if has_image else None
            size = _size(result) if blocks is None else sum(map(_block_size, blocks))
            return len(item.name) + _size(item.input) + size
        case i.CompactDivider():
            return _size(item.summary)
        case i.OpaqueItem():
            return 0


def _size(raw: Raw) -> int:
    if i.is_absent(raw):
        return 0
    view = memoryview(raw)
    return view.nbytes - 2 if view[0] == _QUOTE else view.nbytes


def result_blocks(raw: bytes) -> Sequence[i.Block] | None:
    """Return the blocks of a call's result; None if it is a text, or other JSON."""
    try:
        return i.blocks_of(raw) if raw[:1] == b"[" else None
    except (ValueError, RecursionError):
        return None


def _block_size(block: i.Block) -> int:
    match block:
        case i.TextBlock() | i.ThinkingBlock():
            return _size(block.text)
        case i.ImageBlock():
            return _IMAGE
        case i.RawBlock():
            data = bytes(block.json)
            return min(len(data), _IMAGE) if b'"base64"' in data else len(data)
