"""What a transcript shows of its prompts: how they grew, and what usage says of cached places, the head and rates.

Content is measured in bytes and never decoded; images are counted. Tokens come from bytes by a rate that billed turns
calibrate. Usage says how many tokens of the prompt were cached after which entry of the timeline. The head (tools and
system prompt, which a transcript does not hold) has two sizes: the part that other sessions keep when the chain's own
entries are of no use (`shared_head`), and the read when only the history changed (`head`). Cost: O(new entries).

Sources: an image of the largest useful size costs about 1,500 tokens (Anthropic's documentation); early versions of
Claude Code recorded the output count of a response that had just begun.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import islice

from msgspec import Struct

from lore.cache.counts import BYTES_PER_TOKEN, FIVE_MINUTES, GRACE, ONE_HOUR, position, total
from lore.cache.lookback import POSITIONS, lookback_rule
from lore.model import items as i
from lore.model.events import Usage
from lore.model.limits import FORECAST_ENTRIES
from lore.model.state import Entry
from lore.model.vector import Vector

IMAGE_TOKENS = 1_500
_FEWEST, _MOST = 1.0, 16.0  # bytes per token: other rates are not believed
_WEIGHT = 2_000.0  # tokens' worth of the rate that holds before any turn was billed
_ENVELOPE = 600  # bytes of a record that no prompt holds
_IMAGE = b'"type":"image"'
_LOOKED_AT = 256  # bytes at the beginning of an output or block that show its kind
_REASONING = re.compile(rb'"type"\s*:\s*"(?:reasoning|redacted_thinking)"')


class Growth(Struct, frozen=True):
    """The entries of a timeline that follow an earlier prompt."""

    answer_bytes: int = 0  # by the model: texts, thinking, calls
    input_bytes: int = 0  # everything else
    images: int = 0  # in results and messages
    positions: int = 0  # as a breakpoint's lookback counts them
    prompted: bool = False  # a message of the user is among them, or one of the client after a finished answer
    has_thinking: bool = False  # thinking is among them, though its text may not be recorded
    thinking_bytes: int = 0  # of `answer_bytes`
    thinking_as_text: bool = False  # thinking is among them as text, which no request to OpenAI returns to the model


def growth(entries: Vector[Entry], start: int, at: float | None) -> Growth:
    """Measure the entries after the first `start`, `FORECAST_ENTRIES` at most; positions as counted at `at`."""
    runs = lookback_rule(at).runs
    answer = input_bytes = images = positions = thinking = 0
    prompted, thinks, as_text, answered, group = False, False, False, False, -1
    for entry in islice(entries.since(start), FORECAST_ENTRIES):
        item = entry.item
        if type(item) is i.ToolCall:
            size = len(item.output) + len(item.error)
            answer += len(item.input) + len(item.name)
            answered = False
            if size > _LOOKED_AT and _IMAGE in bytes(memoryview(item.output)[:_LOOKED_AT]):
                images += 1
            else:
                input_bytes += size
            positions += 0 if runs and entry.group == group != -1 else 2
            group = entry.group
            continue
        group = -1
        if type(item) is i.AssistantMessage:
            blocks = (i.TextBlock(item.text),) if item.blocks is None else item.blocks
            answer += _bytes(blocks)
            thoughts = [
                block for block in blocks
                if type(block) is i.ThinkingBlock
                or (type(block) is i.RawBlock and _REASONING.search(block.json, 0, _LOOKED_AT))
            ]  # fmt: skip
            positions += len(blocks) - len(thoughts)
            thinking += _bytes(thoughts)
            thinks, answered = thinks or bool(thoughts), True
            as_text = as_text or any(type(block) is i.ThinkingBlock for block in thoughts)
        elif type(item) is i.UserMessage:
            blocks = (i.TextBlock(item.text),) if item.blocks is None else item.blocks
            input_bytes += _bytes(blocks)
            images += sum([type(block) is i.ImageBlock for block in blocks])
            positions += len(blocks)
            prompted = prompted or answered or item.source != "context_injection"
        elif type(item) is i.CompactDivider:
            input_bytes += len(item.summary)
            positions += 1
        elif type(item) is i.OpaqueItem:
            input_bytes += max(0, len(item.record) - _ENVELOPE)
    return Growth(answer, input_bytes, images, positions, prompted, thinks, thinking, as_text)


def _bytes(blocks: Iterable[i.Block]) -> int:
    """Return the bytes of blocks without images."""
    size = 0
    for block in blocks:
        if type(block) is i.TextBlock:
            size += len(block.text)
        elif type(block) is i.ThinkingBlock:
            size += max(0, len(block.text) - 2) or len(block.signature or "")  # it replaces a text left out
        elif type(block) is i.RawBlock:
            size += len(block.json)
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
        input_tokens = round(grown.input_bytes / self.bytes_per_token) + grown.images * IMAGE_TOKENS
        return self.answer_tokens(grown, output) + input_tokens

    def learn(self, grown: Growth, output: int | None, tokens: int) -> None:
        """Learn the rate of input from a step by `tokens`; a step outside 0.5 to 32 bytes a token is ignored."""
        input_tokens = tokens - self.answer_tokens(grown, output) - grown.images * IMAGE_TOKENS
        if input_tokens > 0 and _FEWEST / 2 <= grown.input_bytes / input_tokens <= _MOST * 2:
            self._bytes += grown.input_bytes
            self._tokens += input_tokens


_MOST_ENTRIES = 200  # entries that surely have more than `POSITIONS` positions


class CachedPlace(Struct, frozen=True):
    """A place in the prompt up to which it was cached, by usage."""

    entries: int  # of the timeline before it
    tokens: int  # of the prompt before it
    lifetime: float | None = None  # seconds; None: unknown

    def has_expired(self, pause: float) -> bool:
        """Return whether a pause (seconds) exceeds its lifetime and 2 % grace; an unknown one never expires."""
        return self.lifetime is not None and pause > self.lifetime * GRACE


class ModelHistory:
    """One model's part of a chain: its timeline, and what usage has shown of its cache."""

    def __init__(self, *, breakpoints: bool = True) -> None:
        self.breakpoints = breakpoints  # entries are at breakpoints, and a lookup goes back a number of positions
        self.places: list[CachedPlace] = []  # ascending; those that changed or expired are forgotten for good
        self.entries: Vector[Entry] = Vector()
        self.recorded_head: tuple[object, ...] = ()  # what the log says of tools and system prompt
        self.used: float | None = None  # when the latest answer began
        self.total: int | None = None  # tokens of the latest prompt
        self.shared_head: int | None = None  # read if the head changed: what other sessions keep in the cache
        self.known_head: int | None = None  # read when only the history changed
        self.first: int | None = None  # tokens that were cached after the first turn
        self.opening = 0  # estimated tokens of the first turn's history
        self.is_new = False  # its first turn held no answer, so that its read was the head
        self.min_read: int | None = None  # the least that is read if only the history changed
        self.latest_read: int | None = None  # not 0
        self.is_estimated = False  # the last place is an estimate: the latest usage was missing
        self.rate = TokenRate()

    @property
    def last(self) -> CachedPlace | None:
        """The cached place with the most entries before it; None: no place is known."""
        return self.places[-1] if self.places else None

    @property
    def head(self) -> int:
        """The tokens that are read if all of the history changed: tools and system prompt, estimated if not known."""
        if self.known_head is not None:
            return self.known_head
        return self.shared_head or max(0, (self.first or 0) - self.opening)

    def last_within(self, entries: int) -> CachedPlace | None:
        """Return the last cached place with at most `entries` entries before it; None: no such place."""
        return next((place for place in reversed(self.places) if place.entries <= entries), None)

    def first_expired(self, entries: int, pause: float | None) -> int | None:
        """Return the tokens at the first expired place with 1 to `entries` entries before it.

        None without one, or if the last place has not expired after the `pause` (seconds; None: unknown).
        """
        if pause is None or not self.places or not self.places[-1].has_expired(pause):
            return None
        places = (place for place in self.places if 0 < place.entries <= entries)
        return next((place.tokens for place in places if place.has_expired(pause)), None)

    def positions_after(self, place: CachedPlace, at: float | None) -> int:
        """Return how many positions of a breakpoint's lookback lie between a place and the end of the timeline.

        If more than 200 entries lie between them, their number is returned instead: they surely are more positions than
        a lookback reaches. 0 for a cache without breakpoints.
        """
        if not self.breakpoints:
            return 0
        distance = len(self.entries) - place.entries
        return distance if distance > _MOST_ENTRIES else growth(self.entries, place.entries, at).positions

    def read_within(self, entries: int, at: float | None) -> int:
        """Return the tokens read if everything after the first `entries` entries changed.

        These are the tokens at the last cached place within them. It is `head` instead if there is no such place, if
        `head` is larger, or if the lookback from the end of the timeline does not reach that place.
        """
        place = self.last_within(entries)
        if place is None or self.positions_after(place, at) > POSITIONS:
            return self.head
        return max(place.tokens, self.head)

    def cut(self, entries: int) -> CachedPlace | None:
        """Forget the places with more than `entries` entries before them; return the last one that remains."""
        while self.places and self.places[-1].entries > entries:
            self.places.pop()
        return self.last

    def expire(self, pause: float | None, seen: float | None = None) -> CachedPlace | None:
        """Forget the places at the end that expired in a pause (seconds; None: unknown); return the last that remains.

        After more than an hour all are forgotten. A cache without breakpoints forgets none, because the next request
        writes everything again: the result is None if the last place expired. There `seen`, the seconds that most
        entries were measured to live, is used instead of the promised lifetime.
        """
        last = self.last
        if last is None or pause is None:
            return last
        if not self.breakpoints:
            return None if (pause > seen if seen else last.has_expired(pause)) else last
        while self.places and (pause > ONE_HOUR * GRACE or self.places[-1].has_expired(pause)):
            self.places.pop()
        return self.last

    def add(self, place: CachedPlace) -> None:
        """Add a place at the end, after forgetting those with the same entries or more, or with more tokens."""
        while self.last and (self.last.entries >= place.entries or self.last.tokens > place.tokens):
            self.places.pop()
        self.places.append(place)

    def learn_places(self, usage: Usage, unchanged: int, lifetime: float | None) -> None:
        """Add the cached places that a turn's usage shows; its entries live `lifetime` seconds.

        Places after the first `unchanged` entries, and with breakpoints those with more tokens than were read, are
        forgotten. The end of the timeline is a cached place; if writes have two lifetimes, so is the place where the
        one-hour part ends. Unknown counts add none.
        """
        first_read, end = usage.first_pass.read_tokens or 0, position(usage)
        self.cut(unchanged)
        while self.breakpoints and self.last and self.last.tokens > first_read:  # what follows it is not cached
            self.places.pop()
        self.latest_read = first_read or self.latest_read
        hour, short = usage.write_1h_tokens or 0, usage.write_5m_tokens or 0
        if hour and short:
            entries = self.last.entries + 1 if self.last else 0
            self.add(CachedPlace(entries, (usage.read_tokens or 0) + hour, ONE_HOUR))
        if end is not None:
            self.add(CachedPlace(len(self.entries), end, FIVE_MINUTES if short and lifetime is not None else lifetime))
        self.total, self.is_estimated = total(usage), False

    def learn_first(self, usage: Usage, grown: Growth) -> None:
        """Learn the head from the first pass of the first turn, whose whole history is `grown`."""
        read = usage.read_tokens or 0
        self.first, self.opening = position(usage), self.rate.tokens(grown, None)
        head = max(0, (self.first or 0) - self.opening)  # more than tools and system is history read again
        self.shared_head = read if read <= head + self.opening // 2 else head
        # a recording without any history begins in the middle: its first read was more than the head
        self.is_new = bool(self.entries) and not grown.answer_bytes
        self.min_read = read if self.is_new and self.shared_head == read else None

    def learn_fall(self, reason: str, read: int, *, fell: bool) -> None:
        """Learn the heads, and the least read, from a read and the reason of the prefix that was expected."""
        shared, expired, compacted = self.shared_head or 0, reason == "expiry", reason == "compaction"
        is_early_place = read in [place.tokens for place in self.places[:4]]
        all_expired = expired and not (self.places and self.breakpoints)
        if fell and (reason == "session-changed" or all_expired or (compacted and read < shared)):
            self.shared_head = read
        elif fell and not expired and shared < read <= (self.first or 0) and not is_early_place:
            # a fall below the known head, whose cause is uncertain, changed the head itself
            self.known_head = read if compacted else max(read, self.known_head or 0)
        if compacted:
            self.min_read = read or None  # all of the history is new, so the head alone is read
        elif fell and self.min_read is not None and not expired:
            self.min_read = min(self.min_read, read)
