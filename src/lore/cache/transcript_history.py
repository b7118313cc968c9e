"""What the usage of earlier turns has shown of a transcript: positions in tokens, the sizes of the head, rates.

Usage says how many tokens of the prompt were cached after which entry of the timeline. The head (tools and system
prompt, which a transcript does not hold) has two sizes: the part that other sessions keep when the chain's own entries
are of no use (`shared_head`), and the read when only the history changed (`head`).
"""

from __future__ import annotations

from collections import deque

from msgspec import Struct

from lore.cache.counts import GRACE, ONE_HOUR, position, total
from lore.cache.growth import TokenRate, growth
from lore.cache.lookback import POSITIONS
from lore.model.events import Usage
from lore.model.state import Entry
from lore.model.vector import Vector

_MOST_ENTRIES = 200  # entries that surely have more than `POSITIONS` positions


class Position(Struct, frozen=True):
    """A place in the prompt whose tokens usage has shown."""

    entries: int  # of the timeline before it
    tokens: int  # of the prompt before it
    lifetime: float | None = None  # seconds; None: unknown

    def has_expired(self, pause: float) -> bool:
        """Return whether a pause (seconds) exceeds its lifetime and 2 % grace; an unknown one never expires."""
        return self.lifetime is not None and pause > self.lifetime * GRACE


class ModelHistory:
    """One model's part of a chain, and what its usage has shown."""

    def __init__(self, *, breakpoints: bool = True) -> None:
        self.breakpoints = breakpoints  # entries are at breakpoints, and a lookup goes back a number of positions
        self.positions: list[Position] = []  # ascending; those that changed or expired are removed for good
        self.entries: Vector[Entry] = Vector()
        self.recorded_head: tuple[object, ...] = ()  # what the log says of tools and system prompt
        self.used: float | None = None  # when the latest answer began
        self.total: int | None = None  # tokens of the latest prompt
        self.shared_head: int | None = None
        self.known_head: int | None = None
        self.first: int | None = None  # tokens that were cached after the first turn
        self.opening = 0  # estimated tokens of the first turn's history
        self.is_new = False  # its first turn held no answer, so that its read was the head
        self.min_read: int | None = None
        self.latest_read: int | None = None
        self.estimated = False  # the last position is an estimate: the latest usage was missing
        self.rate = TokenRate()

    @property
    def last(self) -> Position | None:
        """The known position with the most entries; None: there is none."""
        return self.positions[-1] if self.positions else None

    @property
    def head(self) -> int:
        """The tokens that are read if all of the history changed: tools and system prompt, estimated if not known."""
        if self.known_head is not None:
            return self.known_head
        return self.shared_head or max(0, (self.first or 0) - self.opening)

    def cut(self, entries: int) -> Position | None:
        """Forget the positions with more than `entries` entries before them; return the last one that remains."""
        while self.positions and self.positions[-1].entries > entries:
            self.positions.pop()
        return self.last

    def within(self, entries: int) -> Position | None:
        """Return the last position with at most `entries` entries before it; None: there is none."""
        return next((place for place in reversed(self.positions) if place.entries <= entries), None)

    def first_within(self, entries: int) -> int | None:
        """Return the tokens at the first position that has any entries before it.

        None if there is no such position, or if it has more than `entries` before it.
        """
        first = next((place for place in self.positions if place.entries), None)
        return None if first is None or first.entries > entries else first.tokens

    def first_expired(self, entries: int, pause: float | None) -> int | None:
        """Return the tokens at the first expired position with 1 to `entries` entries before it.

        None without one, or if the last position has not expired after the `pause` (seconds; None: unknown).
        """
        if pause is None or not self.positions or not self.positions[-1].has_expired(pause):
            return None
        within = (place for place in self.positions if 0 < place.entries <= entries)
        return next((place.tokens for place in within if place.has_expired(pause)), None)

    def expire(self, pause: float) -> Position | None:
        """Forget the last positions that `pause` seconds ended, with breakpoints all in an hour; return the last."""
        past = self.breakpoints and pause > ONE_HOUR * GRACE
        while self.positions and (past or self.positions[-1].has_expired(pause)):
            self.positions.pop()
        return self.last

    def positions_after(self, place: Position, at: float | None) -> int:
        """Count the lookback positions between a place and the end (entries, if over 200); 0 without breakpoints."""
        if not self.breakpoints:
            return 0
        distance = len(self.entries) - place.entries
        return distance if distance > _MOST_ENTRIES else growth(self.entries, place.entries, at).positions

    def read_within(self, entries: int, at: float | None) -> int:
        """Return the tokens read if all after the first `entries` changed: those at the last position within them.

        The head's if there is no such position, if it has fewer, or if the end is beyond the lookback from it.
        """
        place = self.within(entries)
        if place is None or self.positions_after(place, at) > POSITIONS:
            return self.head
        return max(place.tokens, self.head)

    def add(self, place: Position) -> None:
        """Add a position at the end, after forgetting those with as many entries or more, or with more tokens."""
        while self.positions and (self.positions[-1].entries >= place.entries or self.last_tokens > place.tokens):
            self.positions.pop()
        self.positions.append(place)

    @property
    def last_tokens(self) -> int:
        """The prompt tokens before the last known position; 0 without one."""
        return self.positions[-1].tokens if self.positions else 0


class Signal(Struct, frozen=True):
    """A signal of the log that may make the read fall."""

    name: str  # a key of `model.state.SIGNS`, `reasoning` or `first-without-thinking`
    version: str = ""  # of the client; empty: unknown
    is_first: bool = False  # no earlier turn of the chain showed this signal
    is_delayed: bool = False  # an earlier turn showed it; its text may move now, at the user's next prompt
    entries: int = 0  # entries of the timeline before its text, if it is delayed
    names: tuple[str, ...] = ()  # what added its text, if it is delayed
    read_if_moved: int | None = None  # tokens that can still be read if the client moves its text; None: only the head


class ChainHistory:
    """One chain, with a history for each model that it asked."""

    def __init__(self, *, charges: bool = False) -> None:
        self.models: dict[str | None, ModelHistory] = {}
        self.model: str | None = None  # the latest
        self.begun = False
        self.cached: int | None = None  # tokens that the latest turn left in the cache
        self.total: int | None = None  # tokens of the latest prompt
        self.uncached = 0
        self.added = 0  # tokens of the latest turn that had not been cached: input, writes, output
        self.output: int | None = None
        self.lifetime: float | None = None  # seconds that the latest entries live
        self.least_lifetime: float | None = None  # seconds that they surely live, in a cache without breakpoints
        self.block = 1  # tokens that are read at a time
        self.charges = charges  # usage has shown that writes are billed apart
        self.shown: set[str] = set()  # signals so far
        self.waiting: dict[str, Signal] = {}  # those whose text may be moved at the next prompt of the user, by name
        self.had_hidden_request = False
        self.reads_output = False  # the previous answer is read, too
        self.drops_thinking = False  # thinking is left out of prompts from the user's next prompt on
        self.client = ""  # name and version of the program that noted the latest usage
        self.head_expires = False  # with this client tools and system prompt expire with the conversation
        self.prompts = 0  # of the user, after the first request
        self.thought = False  # thinking is in the log
        self.stays: deque[bool] = deque(maxlen=6)  # whether the latest reads repeat the read before them


def add_positions(chain: ChainHistory, history: ModelHistory, unchanged: int, usage: Usage) -> None:
    """Add the positions that a turn's usage shows, and set its token counts in `chain` and `history`.

    Positions after the first `unchanged` entries, or (with breakpoints) above the read, are forgotten.
    """
    first_pass = usage.first_pass
    read, end, size = usage.read_tokens or 0, position(usage), len(history.entries)
    history.cut(unchanged)
    shown = first_pass.read_tokens or 0
    while history.breakpoints and history.last_tokens > shown:  # what follows it is not cached
        history.positions.pop()
    history.latest_read = first_pass.read_tokens or history.latest_read
    hour, short = usage.write_1h_tokens or 0, usage.write_5m_tokens or 0
    if hour and short:
        last = history.last
        history.add(Position((0 if last is None else last.entries + 1), read + hour, ONE_HOUR))
    if end is not None:
        lives = None if chain.lifetime is None else (300.0 if short else chain.lifetime)
        history.add(Position(size, end, lives))
    history.estimated = False
    chain.cached, chain.output = end, usage.output_tokens
    chain.total = history.total = total(usage)
    chain.added = (usage.uncached_tokens or 0) + (usage.write_tokens or 0) + (usage.output_tokens or 0)
    chain.uncached = usage.uncached_tokens if usage.uncached_tokens is not None else chain.uncached
