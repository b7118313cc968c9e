"""What every cache model is: asked before a turn is billed, told afterwards.

In: requests in the order in which they were asked. Out: a `Prediction` each. Rules: `predict` never sees the
turn's own usage; `learn` is called once after it, with the usage or None; tokens are whole numbers, and
read + write + uncached = total.

How to add one: write a class with the members of `CacheModel` and of `CacheKind`, whose constructor takes a `Look` and
its options by keyword, publish it under the entry-point group `lore.caches`, and run `lore.testing.CacheContract` on
it; one of lore's own is a row of `CACHES` in `registry.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal, NamedTuple, Protocol, TypeAlias

from msgspec import Struct

from lore.cache.counts import DROP
from lore.model.events import Usage
from lore.model.turn import Section

Confidence: TypeAlias = Literal["exact", "rule", "ceiling"]
CONFIDENCES: tuple[Confidence, ...] = ("exact", "rule", "ceiling")


class Outcome(NamedTuple):
    """What a request may read, in tokens; how likely that is, from 0 to 1; and why it would be so."""

    read: int
    probability: float
    why: str


def alternatives(first: Outcome, fall: Outcome) -> tuple[Outcome, ...]:
    """Return two outcomes, the likelier one first: `fall` is as likely as it says, `first` otherwise."""
    if fall.read >= first.read or fall.probability <= 0:
        return (first._replace(probability=1.0),)
    both = (first._replace(probability=1.0 - fall.probability), fall)
    return both if both[0].probability >= fall.probability else both[::-1]


class Prediction(NamedTuple):
    """What a cache would do with one request, in tokens; all None where nothing can be said.

    `write_1h` is the part of `write` that lives an hour. `reason` says in a few words what decided. `outcomes` are all
    that may be read, first the one that is predicted, about which most is likely; their probabilities sum to 1. Empty
    where the model knows of one alone.
    """

    read: int | None
    write: int | None
    uncached: int | None
    confidence: Confidence
    reason: str = ""
    write_1h: int | None = None
    outcomes: tuple[Outcome, ...] = ()

    @property
    def probability(self) -> float:
        """How likely about `read` is read, within what is no drop; 1 where the model knows of one outcome alone."""
        if self.read is None or not self.outcomes:
            return 1.0
        return sum(outcome.probability for outcome in self.outcomes if abs(outcome.read - self.read) <= DROP)

    def falls_below(self, stood: int) -> float:
        """Return how likely the read falls short of what stood there by more than `DROP`."""
        if not self.outcomes:
            return float(self.read is not None and self.read < stood - DROP)
        return sum(outcome.probability for outcome in self.outcomes if outcome.read < stood - DROP)

    def fitted(self) -> Prediction:
        """Return the prediction with parts that can be: none below 0, none above what is asked, in sum all of it.

        The size of a request is what its model took it for: the positions that earlier bills told, and behind them an
        estimate at the rates that those bills taught; never the request's own bill.
        """
        if self.read is None or self.write is None or self.uncached is None:
            return self
        total = max(0, self.read + self.write + self.uncached)
        read = min(max(0, self.read), total)
        write = min(max(0, self.write), total - read)
        hour = None if self.write_1h is None else min(max(0, self.write_1h), write)
        if (read, write, hour) == (self.read, self.write, self.write_1h) and self.uncached >= 0:
            return self
        outcomes = tuple([outcome._replace(read=min(max(0, outcome.read), total)) for outcome in self.outcomes])
        return self._replace(read=read, write=write, uncached=total - read - write, write_1h=hour, outcomes=outcomes)

    @property
    def total(self) -> int | None:
        """The whole prompt."""
        if self.read is None or self.write is None or self.uncached is None:
            return None
        return self.read + self.write + self.uncached


UNKNOWN = Prediction(None, None, None, "ceiling", "unknown")


class Breakpoint(NamedTuple):
    """A cache breakpoint behind the piece at `place`; `lifetime` in seconds, None where the provider decides."""

    place: int
    lifetime: float | None = None


class Piece(NamedTuple):
    """One piece of a request, in the provider's render order.

    `data` and `section` tell it from others; `kind` is "call", "result", "thinking", "image", "envelope" (what a
    message is before its content) or "" (text); `tokens` is its exact count, None where it has to be estimated:
    from `counted`, what another tokenizer counts, else from its bytes.
    """

    data: bytes
    section: Section
    kind: str = ""
    tokens: int | None = None
    counted: int | None = None


class Request(NamedTuple):
    """One request as a cache sees it.

    The first `same` pieces are those of the chain's request before it. `at`, `answered` (when the response
    began) and `ended` (when it was whole) are seconds since the epoch. `space` separates what is never shared
    (account, cache key, salt); `salts` holds, by section, what enters the prefix at that section's beginning
    besides its text (parameters that invalidate it). `breakpoints` ascend. `output` is what was generated, where
    that is known.
    `cached` names an object at the provider that holds what stands before the pieces (Gemini's `cachedContent`).
    `recorded` are the breakpoints that its bill is about, where `breakpoints` are otherwise than recorded.
    `priority` is what the client gave it among others, the higher the longer kept; `slot` the number of the server's
    slot that it asks for.
    """

    chain: str
    pieces: Sequence[Piece]
    same: int = 0
    breakpoints: tuple[Breakpoint, ...] = ()
    model: str | None = None
    at: float | None = None
    answered: float | None = None
    space: bytes = b""
    salts: tuple[tuple[Section, bytes], ...] = ()
    output: Sequence[Piece] = ()
    cached: bytes = b""
    recorded: tuple[Breakpoint, ...] | None = None
    ended: float | None = None
    priority: int = 0
    slot: int | None = None


# rule, model, time -> number; `habit:SIGN`: how likely that is, where it was counted
Look: TypeAlias = Callable[[str, str | None, float | None], float | None]


class CacheModel(Protocol):
    """A model of one provider's or engine's prompt cache, made with a look-up of dated rules and with options."""

    def predict(self, request: Request) -> Prediction:
        """Say what the cache would do, and remember what it would keep. Cost O(pieces behind `same`)."""
        ...

    def learn(self, usage: Usage | None) -> str:
        """Take what was billed for the request that was predicted last; return how it contradicts the request."""
        ...


class CacheKind(Protocol):
    """What stands in `CACHES`: called with a look-up of the rules of its `provider` and `options`, it makes a model."""

    @property
    def name(self) -> str: ...  # noqa: D102

    @property
    def provider(self) -> str: ...  # noqa: D102

    @property
    def options(self) -> tuple[str, ...]: ...  # noqa: D102


class Simulate(Struct, frozen=True, forbid_unknown_fields=True):
    """How prompts are simulated: the settings of `[simulate]`. Money is in US dollars, always.

    `rules`: a file of rows that are put over the packaged ones; a relative path begins at the settings file.
    `caches`: names of cache models; empty: chosen from provider and model. `tolerance`: by what share of the
    prompt a billed read may fall short of its prediction.
    """

    rules: str | None = None
    caches: tuple[str, ...] = ()
    tolerance: float = 0.02

    def fault(self) -> str:
        """Say what is wrong with these settings; empty where nothing is."""
        if self.rules is not None and not self.rules.strip():
            return "rules is empty: name a file"
        if any(not name.strip() for name in self.caches):
            return "caches holds an empty name"
        if not 0 <= self.tolerance < 1:
            return f"tolerance is {self.tolerance}, and not a share from 0 to below 1"
        return ""
