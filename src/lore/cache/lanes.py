"""What a level model remembers of one model's part of a conversation, and how that part grows.

In: timelines, earliest first, and what bills told of them. Out: how much two timelines share and what stands behind
that, in bytes and positions; tokens of bytes; the positions that are known. Rules: content is measured and never
decoded, an image is counted and not measured; a run of calls of one response counts as one position where the rule of
the day says so (`reach.lookback`). Tokens come from bytes by a rate that earlier bills calibrate; what the model said
is taken from its billed output where that can be (early versions of Claude Code recorded counts of a response that
had just begun). Costs O(new entries).

A lane is what one model was sent on one chain. Its anchors are known positions: after so many entries of the timeline
stand so many tokens, kept for so long. They ascend in entries and tokens; what is popped was changed, has expired or
was shown not to be there, and never comes back, so that all work is O(turns).

The head (tools and system, which a transcript does not hold) has two sizes: `floor`, what is read where the lane's own
entries are of no use (expired, other tools), since other sessions keep it; and `head`, what is read where only history
changed. The floor is what the lane's first turn read, then what was read after an expiry, another system prompt or a
compaction of the log: a drop whose cause is a guess says nothing of it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import islice
from typing import NamedTuple

from lore.cache.bills import BYTES_PER_TOKEN, GRACE, ONE_HOUR, POSITIONS, lookback
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

IMAGE_TOKENS = 1_500  # about what a picture of the largest useful size costs, by Anthropic's documentation
_LEAST, _MOST = 1.0, 16.0  # bytes a token
_WEIGHT = 2_000.0  # tokens' worth of the rate that holds before anything was learned
_SCARCE = 16.0  # bytes a token: an output count below that share of what is visible is a count of its beginning
_ENVELOPE = 600  # bytes of a record that no prompt holds
_IMAGE = b'"type":"image"'
_LOOKED_AT = 256  # bytes at the beginning of an output or block that say what it is
_REASONING = re.compile(rb'"type"\s*:\s*"(?:reasoning|redacted_thinking)"')
_FAR = 200  # entries behind a position that are surely more than `POSITIONS`


class Growth(NamedTuple):
    """What stands behind an earlier prompt: `spoken` and `given` in bytes (by the model, to it), `images`, `positions`.

    `prompted` says that a user's message is among it, `thought` how much of what was spoken is thinking, `thinking`
    whether any of it is, though nothing of it was recorded.
    """

    spoken: int = 0
    given: int = 0
    images: int = 0
    positions: int = 0
    prompted: bool = False
    thought: int = 0
    thinking: bool = False


def growth(entries: Vector[Entry], start: int, at: float | None) -> Growth:
    """Measure what stands behind the first `start` entries; `at` is when it was asked."""
    runs = lookback(at).runs
    spoken = thought = given = images = positions = 0
    prompted, thinks, group = False, False, -1
    for entry in islice(entries.since(start), FORECAST_ENTRIES):
        item = entry.item
        if isinstance(item, ToolCall):
            size = len(item.output) + len(item.error)
            spoken += len(item.input) + len(item.name)
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
                size = _bytes(blocks)
                spoken += size
                positions += len(blocks)
                thinking = [block for block in blocks if type(block) is not TextBlock and _is_thinking(block)]
                if thinking:
                    thinks, positions = True, positions - len(thinking)
                    thought += _bytes(thinking) if len(thinking) < len(blocks) else size
            case UserMessage():
                blocks = (TextBlock(item.text),) if item.blocks is None else item.blocks
                given += _bytes(blocks)
                images += sum([isinstance(block, ImageBlock) for block in blocks])
                positions += len(blocks)
                prompted = prompted or item.source != "context_injection"
            case CompactDivider():
                given += len(item.summary)
                positions += 1
            case OpaqueItem():
                given += max(0, len(item.record) - _ENVELOPE)
    return Growth(spoken, given, images, positions, prompted, thought, thinks)


def _is_thinking(block: Block) -> bool:
    if isinstance(block, RawBlock):
        return _REASONING.search(block.json, 0, _LOOKED_AT) is not None
    return isinstance(block, ThinkingBlock)


def _bytes(blocks: Iterable[Block]) -> int:
    """Measure blocks; an image is counted and not measured."""
    found = 0
    for block in blocks:
        match block:
            case TextBlock():
                found += len(block.text)
            case ThinkingBlock():
                found += max(0, len(block.text) - 2) or len(block.signature or "")  # that stands for what is left out
            case RawBlock():
                found += len(block.json)
            case ImageBlock():
                pass
    return found


class Rate:
    """Bytes a token of what came in, and of what the model said."""

    __slots__ = ("_bytes", "_of_answers", "_tokens")

    def __init__(self) -> None:
        self._bytes, self._tokens = BYTES_PER_TOKEN * _WEIGHT, _WEIGHT
        self._of_answers = 0.0

    @property
    def bytes_per_token(self) -> float:
        """The rate of what came in as it was learned so far."""
        return min(_MOST, max(_LEAST, self._bytes / self._tokens))

    def spoken_tokens(self, size: int) -> int:
        """Estimate so many bytes of an answer, rather too low: what is read of it is no more than stands there.

        By the most bytes a token of the answers that bills told apart, else as what came in.
        """
        return round(size / (self._of_answers or self.bytes_per_token))

    def learn_answer(self, size: int, tokens: int) -> None:
        """Take how many tokens an answer alone has."""
        if tokens > 0 and _LEAST <= size / tokens <= _MOST:
            self._of_answers = max(self._of_answers, size / tokens)

    def answer_tokens(self, grown: Growth, output: int | None) -> int:
        """Return the tokens of the answer before the turn, as they stand in the prompt."""
        if output is not None and output * _SCARCE >= grown.spoken:
            return output
        return self.spoken_tokens(grown.spoken)

    def tokens(self, grown: Growth, output: int | None) -> int:
        """Estimate by how many tokens a prompt grew."""
        given = round(grown.given / self.bytes_per_token) + grown.images * IMAGE_TOKENS
        return self.answer_tokens(grown, output) + given

    def learn(self, grown: Growth, output: int | None, tokens: int) -> None:
        """Take by how many tokens it grew; what bytes cannot explain teaches nothing."""
        given = tokens - self.answer_tokens(grown, output) - grown.images * IMAGE_TOKENS
        if given > 0 and _LEAST / 2 <= grown.given / given <= _MOST * 2:
            self._bytes += grown.given
            self._tokens += given


class Anchor(NamedTuple):
    """A known position: `tokens` stand after `size` entries; `lifetime` in seconds, None where not known."""

    size: int
    tokens: int
    lifetime: float | None = None

    def died(self, pause: float) -> bool:
        """Tell whether it is too old after a pause; where its lifetime is not known, nothing says that it died."""
        return self.lifetime is not None and pause > self.lifetime * GRACE


class ModelLane:
    """One model's part of a chain.

    `fresh`: its first turn held no answer yet, so that what it read was the head; `least` is then the least that any
    turn since then, or since a compaction that left something, read, those after an expiry aside: no change of history
    alone reads less. `breakpoints`: entries stand at some, a look-up goes back so many positions from one, and a read
    shows up to where they are kept; elsewhere every beginning of what was sent can be read, and where not all of it is,
    often what was read before (`latest`, the latest read of anything).
    """

    def __init__(self, *, breakpoints: bool = True) -> None:
        self.breakpoints = breakpoints
        self.anchors: list[Anchor] = []
        self.entries: Vector[Entry] = Vector()
        self.rest: tuple[object, ...] = ()
        self.used: float | None = None
        self.total: int | None = None
        self.whole_answers = True  # what was billed as output stood in the next prompt
        self.floor: int | None = None
        self.known_head: int | None = None
        self.first: int | None = None
        self.opening = 0
        self.fresh = False
        self.least: int | None = None
        self.latest: int | None = None
        self.guessed = False
        self.rate = Rate()

    @property
    def top(self) -> Anchor | None:
        """The last position that is known."""
        return self.anchors[-1] if self.anchors else None

    @property
    def head(self) -> int:
        """What is read where all history changed: as learned, else what was there at first, else a guess."""
        if self.known_head is not None:
            return self.known_head
        return self.floor or max(0, (self.first or 0) - self.opening)

    @property
    def left_by_falls(self) -> int:
        """Where a fall without breakpoints is foreseen: at what was read last, else at the head."""
        return self.head if self.latest is None else self.latest

    def at(self, size: int) -> Anchor | None:
        """Return the last known position within the first `size` entries, and forget those behind it."""
        while self.anchors and self.anchors[-1].size > size:
            self.anchors.pop()
        return self.top

    def before(self, size: int) -> Anchor | None:
        """Return the last known position within the first `size` entries, where a later one may hold again."""
        return next((anchor for anchor in reversed(self.anchors) if anchor.size <= size), None)

    def behind(self, size: int) -> int | None:
        """Return the tokens at the first known position behind the head, within the first `size` entries."""
        first = next((anchor for anchor in self.anchors if anchor.size), None)
        return None if first is None or first.size > size else first.tokens

    def gone(self, size: int, pause: float | None) -> int | None:
        """Return the tokens at the first position within `size` entries that a pause outlasts, as it does the last."""
        if pause is None or not self.anchors or not self.anchors[-1].died(pause):
            return None
        return next((anchor.tokens for anchor in self.anchors if 0 < anchor.size <= size and anchor.died(pause)), None)

    def outlive(self, pause: float) -> Anchor | None:
        """Return the last position that is still kept after a pause, and forget what died behind it.

        Where nothing says how long an entry at a breakpoint lives, it is no longer than the longest that can be had.
        """
        past = self.breakpoints and pause > ONE_HOUR * GRACE
        while self.anchors and (past or self.anchors[-1].died(pause)):
            self.anchors.pop()
        return self.top

    def positions(self, anchor: Anchor, at: float | None) -> int:
        """Count the positions behind one that is known; where they are surely too many, no more exactly than that.

        0 where none are looked back.
        """
        if not self.breakpoints:
            return 0
        far = len(self.entries) - anchor.size
        return far if far > _FAR else growth(self.entries, anchor.size, at).positions

    def left(self, size: int, at: float | None) -> int:
        """Return the position that is left where all behind `size` entries changed: the head where it is too far."""
        left = self.before(size)
        if left is None or self.positions(left, at) > POSITIONS:
            return self.head
        return max(left.tokens, self.head)

    def answer_tokens(self, grown: Growth, output: int | None) -> int:
        """Return the tokens of the answer before a prompt; its thinking is among them where that stays."""
        if self.whole_answers:
            return self.rate.answer_tokens(grown, output)
        return self.rate.spoken_tokens(grown.spoken - grown.thought)

    def put(self, anchor: Anchor) -> None:
        """Add a position at the end; what it contradicts goes."""
        while self.anchors and (self.anchors[-1].size >= anchor.size or self.anchors[-1].tokens > anchor.tokens):
            self.anchors.pop()
        self.anchors.append(anchor)

    def shown(self, read: int) -> None:
        """Take that no more than this was read: what stands behind it is not there, unless it was sent again now."""
        while self.breakpoints and self.anchors and self.anchors[-1].tokens > read:
            self.anchors.pop()


class WaitingText(NamedTuple):
    """Text that came since the last prompt of the user and may be moved at the next one, behind `size` entries.

    `names` are what put it in, `version` the client's.
    """

    size: int
    names: tuple[str, ...]
    version: str


class ChainLevels:
    """What is remembered of one chain.

    `block` is how many tokens are read at a time, `lives` how many seconds what was written lives (None: not known),
    `charges` whether a bill showed that what is written is billed apart.
    `shown` are the signs that it showed so far, `waiting` the text that waits for the next prompt, by its sign.
    """

    def __init__(self, *, charges: bool = False) -> None:
        self.lanes: dict[str | None, ModelLane] = {}
        self.model: str | None = None
        self.begun = False
        self.stood: int | None = None
        self.total: int | None = None
        self.uncached = 0
        self.output: int | None = None
        self.lives: float | None = None
        self.block = 1
        self.charges = charges
        self.shown: set[str] = set()
        self.waiting: dict[str, WaitingText] = {}
