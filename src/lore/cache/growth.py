"""By how much a prompt grew from one turn of a transcript to the next, in bytes, positions and tokens.

Content is measured and never decoded; images are counted. Tokens come from bytes by a rate that billed turns calibrate.
Cost: O(new entries).

Sources: an image of the largest useful size costs about 1,500 tokens (Anthropic's documentation); early versions of
Claude Code recorded the output count of a response that had just begun.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import islice

from msgspec import Struct

from lore.cache.counts import BYTES_PER_TOKEN
from lore.cache.lookback import lookback
from lore.model.items import (
    AssistantMessage,
    Block,
    CompactDivider,
    ImageBlock,
    OpaqueItem,
    RawBlock,
    TextBlock,
    ThinkingBlock,
    ToolCall,
    UserMessage,
)  # fmt: skip
from lore.model.limits import FORECAST_ENTRIES
from lore.model.state import Entry
from lore.model.vector import Vector

IMAGE_TOKENS = 1_500
_FEWEST, _MOST = 1.0, 16.0  # bytes per token: other rates are not believed
_WEIGHT = 2_000.0  # tokens' worth of the rate that holds before any turn was billed
_ENVELOPE = 600  # bytes of a record that no prompt holds
_IMAGE = b'"type":"image"'
_LOOKED_AT = 256  # bytes at the beginning of an output or block that say what it is
_REASONING = re.compile(rb'"type"\s*:\s*"(?:reasoning|redacted_thinking)"')


class Growth(Struct, frozen=True):
    """The entries of a timeline that follow an earlier prompt."""

    answer_bytes: int = 0  # by the model: texts, thinking, calls
    input_bytes: int = 0  # everything else
    images: int = 0  # in results and messages
    positions: int = 0  # as a breakpoint's lookback counts them
    prompted: bool = False  # a message of the user is among them, or one of the client after a finished answer
    has_thinking: bool = False  # thinking is among them, though its text may not be recorded


def growth(entries: Vector[Entry], start: int, at: float | None) -> Growth:
    """Measure the entries after the first `start`, `FORECAST_ENTRIES` at most.

    `at` (seconds since the epoch; None: the latest rule) selects the rule by which positions are counted.
    """
    runs = lookback(at).runs
    answer = given = images = positions = 0
    prompted, thinks, answered, group = False, False, False, -1
    for entry in islice(entries.since(start), FORECAST_ENTRIES):
        item = entry.item
        if isinstance(item, ToolCall):
            size = len(item.output) + len(item.error)
            answer += len(item.input) + len(item.name)
            answered = False
            if size > _LOOKED_AT and _IMAGE in bytes(memoryview(item.output)[:_LOOKED_AT]):
                images += 1
            else:
                given += size
            positions += 0 if runs and entry.group == group != -1 else 2
            group = entry.group
            continue
        group = -1
        match item:
            case AssistantMessage():
                blocks = (TextBlock(item.text),) if item.blocks is None else item.blocks
                answer += _bytes(blocks)
                thoughts = sum([type(block) is not TextBlock and _is_thinking(block) for block in blocks])
                positions += len(blocks) - thoughts
                thinks, answered = thinks or thoughts > 0, True
            case UserMessage():
                blocks = (TextBlock(item.text),) if item.blocks is None else item.blocks
                given += _bytes(blocks)
                images += sum([isinstance(block, ImageBlock) for block in blocks])
                positions += len(blocks)
                prompted = prompted or answered or item.source != "context_injection"
            case CompactDivider():
                given += len(item.summary)
                positions += 1
            case OpaqueItem():
                given += max(0, len(item.record) - _ENVELOPE)
    return Growth(answer, given, images, positions, prompted, thinks)


def _is_thinking(block: Block) -> bool:
    if isinstance(block, RawBlock):
        return _REASONING.search(block.json, 0, _LOOKED_AT) is not None
    return isinstance(block, ThinkingBlock)


def _bytes(blocks: Iterable[Block]) -> int:
    """Return the bytes of blocks without images."""
    size = 0
    for block in blocks:
        match block:
            case TextBlock():
                size += len(block.text)
            case ThinkingBlock():
                size += max(0, len(block.text) - 2) or len(block.signature or "")  # it replaces a text left out
            case RawBlock():
                size += len(block.json)
            case ImageBlock():
                pass
    return size


class TokenRate:
    """Bytes per token of one model's part of a conversation."""

    def __init__(self) -> None:
        self._bytes, self._tokens = BYTES_PER_TOKEN * _WEIGHT, _WEIGHT

    @property
    def bytes_per_token(self) -> float:
        """The rate of input (not of answers), from 1 to 16; 4 before anything was learned."""
        return min(_MOST, max(_FEWEST, self._bytes / self._tokens))

    def answer_tokens(self, grown: Growth, output: int | None) -> int:
        """Return the tokens of an answer as it is in the next prompt: its billed count `output`.

        If `output` is unknown, or too small for the text (16 bytes a token), the bytes are estimated instead.
        """
        if output is not None and output * _MOST >= grown.answer_bytes:
            return output
        return round(grown.answer_bytes / self.bytes_per_token)

    def tokens(self, grown: Growth, output: int | None) -> int:
        """Estimate by how many tokens a prompt grew: the answer (as `answer_tokens`), other bytes, 1,500 an image."""
        given = round(grown.input_bytes / self.bytes_per_token) + grown.images * IMAGE_TOKENS
        return self.answer_tokens(grown, output) + given

    def learn(self, grown: Growth, output: int | None, tokens: int) -> None:
        """Update the rate of input from a step that grew the prompt by `tokens`.

        Steps outside 0.5 to 32 bytes a token are ignored.
        """
        given = tokens - self.answer_tokens(grown, output) - grown.images * IMAGE_TOKENS
        if given > 0 and _FEWEST / 2 <= grown.input_bytes / given <= _MOST * 2:
            self._bytes += grown.input_bytes
            self._tokens += given
