"""What compacting now costs and saves, under the cache of the session, and which moment is the better one.

In: tokens before and after, prices, whether the cache is warm. Out: US dollars, exact; what is not known is None.
The model: a prompt that stands in the cache is read, what is new is written; compacting keeps the head (tools, system
prompt) and writes the rest anew; what is older than its lifetime is gone, whether it was compacted or not. So
compacting while the cache is warm costs a write of what stays, and after a pause it saves one.
All of it is estimated: the next turns are taken to be like the ones before. Output costs the same both ways and is
left out. Costs O(1).
"""

from __future__ import annotations

from decimal import ROUND_CEILING, Decimal
from typing import Literal, NamedTuple

from lore.cache.lifetime import ONE_HOUR
from lore.cache.prices import Price
from lore.model.events import Event, TurnCanceled, TurnCompleted, TurnFailed, TurnStarted
from lore.model.turn import seconds

Moment = Literal["now", "later"]
FREE = Decimal(0)
LEAST, MOST = 0.25, 4.0  # how far bills may be from estimates, to be believed


class PromptSizes(NamedTuple):
    """A prompt in tokens: `before` and `after` a compaction, the `head` that both begin with (all of it where nothing
    was pruned), and by how many tokens it grows from one request to the next.
    """

    before: int
    after: int
    head: int = 0
    grown: int = 0


class Cache(NamedTuple):
    """Where a session is cached: what its tokens cost, and how long an entry lives (seconds; None: not known)."""

    price: Price | None
    lives: float | None = None

    def is_warm(self, pause: float | None) -> bool | None:
        """Tell whether what stood there is still read after a pause; None where that cannot be known."""
        return None if pause is None or self.lives is None else pause <= self.lives

    def cost(self, read: int, write: int) -> Decimal | None:
        """Return what it costs to read and to write so many tokens; where nothing is paid for writing, as uncached."""
        price = self.price
        if price is None:
            return None
        if not price.writes_are_charged:
            return price.cost(uncached=write, read=read, output=0)
        hour = write if self.lives is not None and self.lives >= ONE_HOUR else None
        return price.cost(uncached=0, read=read, write=write, write_1h=hour, output=0)


class BillScale(NamedTuple):
    """How a session's bills differ from estimates: its prompts have `head` tokens before the timeline, and `rate`
    tokens for each estimated one of it. Estimates stay estimates: a window is measured in them.
    """

    head: int = 0
    rate: float = 1.0

    @classmethod
    def of(cls, whole: int, estimate: int, head: int | None = None) -> BillScale:
        """Return the scale of a prompt that was billed as `whole`; `head` where it is known from earlier ones."""
        head = max(0, whole - estimate) if head is None else min(head, whole)
        return cls(head, min(MOST, max(LEAST, (whole - head) / estimate)) if estimate else 1.0)

    def prompt(self, estimate: int) -> int:
        """Return the tokens of a prompt whose timeline is estimated so long."""
        return self.head + round(estimate * self.rate)

    def estimated(self, tokens: int) -> int:
        """Return tokens as an estimate would count them."""
        return round(tokens / self.rate)


class Rhythm:
    """When requests of a session went out: how many come before the cache goes cold."""

    def __init__(self) -> None:
        self._pauses: list[float] = []
        self._last: float | None = None
        self.requests = 0

    def feed(self, event: Event) -> None:
        """Take the session's next event."""
        if not isinstance(event, TurnStarted | TurnCompleted | TurnFailed | TurnCanceled):
            return
        at = seconds(event.at)
        if isinstance(event, TurnStarted):
            self.requests += 1
            pause = None if at is None else self.pause(at)
            if pause is not None:
                self._pauses.append(pause)
        self._last = self._last if at is None else at

    def pause(self, now: float) -> float | None:
        """Return how long the session has been silent by now, in seconds; None where no time is known."""
        return None if self._last is None else now - self._last

    def until(self, lives: float) -> int:
        """Return how many requests come, on average, before a pause that is longer than entries live; at least 1."""
        cold = sum(pause > lives for pause in self._pauses)
        return max(1, self.requests // (1 + cold))


class Weighed(NamedTuple):
    """What the input of the next `turns` requests costs `without` compacting now and `compacted`, with `summary`:
    what its own request costs. None is unknown.
    """

    turns: int
    without: Decimal | None
    compacted: Decimal | None
    summary: Decimal | None

    @property
    def saved(self) -> Decimal | None:
        """Dollars saved, negative if it costs more; None where any part is unknown."""
        if self.without is None or self.compacted is None or self.summary is None:
            return None
        return self.without - self.compacted - self.summary


class Choice(NamedTuple):
    """The better moment, and what the next requests cost where it is compacted `now`, or `later`, in a cold cache.

    `cost` is that of the moment chosen: never above the other. Where one is unknown, all that is known is `now`.
    """

    moment: Moment
    cost: Decimal | None
    now: Decimal | None
    later: Decimal | None


def stretch(size: int, stands: int, grown: int, turns: int, cache: Cache) -> Decimal | None:
    """Return what `turns` requests cost that begin with `size` tokens, `stands` of them in the cache.

    Each adds `grown` tokens and reads all that the one before left.
    """
    if turns <= 0:
        return FREE
    rest = turns - 1
    read = stands + rest * (size + grown) + grown * rest * (rest - 1) // 2
    return cache.cost(read, size - stands + grown * turns)


def weigh(sizes: PromptSizes, cache: Cache, turns: int, *, warm: bool, summary: Decimal | None = FREE) -> Weighed:
    """Weigh compacting now against not compacting, over the next requests."""
    grown = sizes.grown
    without = stretch(sizes.before, sizes.before if warm else 0, grown, turns, cache)
    compacted = stretch(sizes.after, _kept(sizes) if warm else 0, grown, turns, cache)
    return Weighed(turns, without, compacted, summary)


def pays_after(sizes: PromptSizes, cache: Cache, *, warm: bool, summary: Decimal | None = FREE) -> int | None:
    """Return after how many requests compacting now has cost no more than going on; None: never, or not known."""
    first, second = (weigh(sizes, cache, turns, warm=warm, summary=summary).saved for turns in (1, 2))
    if first is None or second is None:
        return None
    if first >= 0:
        return 1
    each = second - first
    return None if each <= 0 else 1 + int((-first / each).to_integral_value(ROUND_CEILING))


def cheapest(
    sizes: PromptSizes, cache: Cache, turns: int, until: int, *, warm: bool, summary: Decimal | None = FREE
) -> Choice:  # fmt: skip
    """Choose between compacting now and when the cache has gone cold anyway, `until` requests from here.

    In a cache that is cold already, now is that moment.
    """
    until, grown = min(until, turns), sizes.grown
    cold = turns - until
    begun = _sum(
        stretch(sizes.after, _kept(sizes) if warm else 0, grown, until, cache),
        stretch(sizes.after + grown * until, 0, grown, cold, cache), summary,
    )  # fmt: skip
    waited = _sum(
        stretch(sizes.before, sizes.before if warm else 0, grown, until, cache),
        stretch(sizes.after, 0, grown, cold, cache), summary if cold else FREE,
    )  # fmt: skip
    if begun is None or waited is None or begun <= waited:
        return Choice("now", begun, begun, waited)
    return Choice("later", waited, begun, waited)


def summary_cost(price: Price | None, read: int, answered: int) -> Decimal | None:
    """Return what a model is paid for a summary, by the tokens that it reads and writes; None without a price."""
    return None if price is None else price.cost(uncached=read, read=0, write=0, output=answered)


def _kept(sizes: PromptSizes) -> int:
    return min(sizes.head, sizes.before, sizes.after)


def _sum(*parts: Decimal | None) -> Decimal | None:
    known = [part for part in parts if part is not None]
    return sum(known, start=FREE) if len(known) == len(parts) else None
