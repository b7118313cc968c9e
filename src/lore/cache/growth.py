"""How a request grew over what an earlier one of its chain held, by its timeline: places, bytes, positions.

In: two timelines. Out: how much they share, and what stands behind that. Rules: content is measured and never
decoded, an image is counted and not measured; costs O(new entries). Blocks of thinking are no positions; a run
of calls, or of results, of one response counts once where the rule of the day says so (`lookback.RULES`).
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice
from typing import NamedTuple, TypeAlias, cast

from msgspec import Raw

from lore.cache.lookback import RULES
from lore.model.items import (
    AssistantMessage,
    Block,
    CompactDivider,
    ImageBlock,
    Item,
    OpaqueItem,
    RawBlock,
    TextBlock,
    ThinkingBlock,
    ToolCall,
    UserMessage,
)  # fmt: skip
from lore.model.prompt import Segment
from lore.model.state import Entry
from lore.model.turn import Turn
from lore.model.vector import Vector

IMAGE_TOKENS = 1_500  # about what a picture of the largest useful size costs, by Anthropic's documentation
MOST_ENTRIES = 4_000  # looked at for one turn; more only where a long history was changed at its beginning
_ENVELOPE = 600  # bytes of a record that no prompt holds
_IMAGE = b'"type":"image"'
_LOOKED_AT = 256


History: TypeAlias = "Vector[Entry | Segment]"  # of a recording that holds the prompt itself: its segments


class Growth(NamedTuple):
    """What stands behind an earlier prompt: `spoken` and `given` in bytes (by the model, to it), `images`, `positions`.

    `prompted` says that a user's message is among it.
    """

    spoken: int = 0
    given: int = 0
    images: int = 0
    positions: int = 0
    prompted: bool = False


class Line(NamedTuple):
    """What a turn's prompt is made of: its history, and all before that."""

    entries: History
    rest: tuple[object, ...]


def timeline(turn: Turn) -> Line:
    """Return what a turn's prompt is made of; the prompt itself is made only where nothing else is known of it."""
    if turn.basis is None:
        return Line(cast("History", turn.prompt.messages), turn.prompt.head)
    return Line(cast("History", turn.basis.entries), turn.basis.rest[1:])


def shared(left: History, right: History) -> int:
    """Count the leading entries that both hold."""
    return len(left) if right.begins_with(left) else left.common(right)


def growth(entries: History, start: int, at: float | None) -> Growth:
    """Measure what stands behind the first `start` entries; `at` is when it was asked."""
    runs = runs_collapse(at)
    spoken = given = images = positions = 0
    prompted, group = False, -1
    for one in islice(entries.since(start), MOST_ENTRIES):
        item = one.item if isinstance(one, Entry) else one
        part = _part(item)
        spoken, given, images = spoken + part.spoken, given + part.given, images + part.images
        call = one.group if isinstance(one, Entry) and isinstance(item, ToolCall) else -1
        positions += 0 if runs and call == group != -1 else part.positions
        group = call
        prompted = prompted or part.prompted
    return Growth(spoken, given, images, positions, prompted)


def runs_collapse(at: float | None) -> bool:
    """Tell whether a run of calls counts as one position at that time."""
    return (RULES[-1] if at is None else [one for one in RULES if one.since <= max(at, 0.0)][-1]).runs


def _part(item: Item | Segment) -> Growth:
    """Measure one item, or one segment of a prompt."""
    match item:
        case ToolCall():
            got, pictures = _output(item)
            return Growth(_size(item.input) + len(item.name), got, pictures, 2)
        case AssistantMessage():
            blocks = (TextBlock(item.text),) if item.blocks is None else item.blocks
            thinking = sum(isinstance(block, ThinkingBlock) for block in blocks)
            return Growth(spoken=_bytes(blocks), positions=len(blocks) - thinking)
        case UserMessage():
            blocks = (TextBlock(item.text),) if item.blocks is None else item.blocks
            pictures = sum(isinstance(block, ImageBlock) for block in blocks)
            return Growth(0, _bytes(blocks), pictures, len(blocks), item.source != "context_injection")
        case CompactDivider():
            return Growth(given=_size(item.summary), positions=1)
        case OpaqueItem():
            return Growth(given=max(0, _size(item.record) - _ENVELOPE))
        case Segment():
            envelope = item.kind == "envelope"
            return Growth(given=len(item.data), positions=not envelope, prompted=envelope and b'"user"' in item.data)


def _output(item: ToolCall) -> tuple[int, int]:
    size = _size(item.output) + _size(item.error)
    if size > _LOOKED_AT and _IMAGE in bytes(memoryview(item.output)[:_LOOKED_AT]):
        return 0, 1
    return size, 0


def _bytes(blocks: Iterable[Block]) -> int:
    return sum(_of_block(block) for block in blocks)


def _of_block(block: Block) -> int:
    match block:
        case ImageBlock():
            return 0
        case RawBlock():
            return _size(block.json)
        case ThinkingBlock():
            return _size(block.text) + len(block.signature or "")
        case TextBlock():
            return _size(block.text)


def _size(raw: Raw) -> int:
    return memoryview(raw).nbytes
