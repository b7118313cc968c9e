"""What one request would cost: the tokens that a cache would keep, for how long, and the price of sending it again.

The cache model predicts the request sent twice, half a minute apart, without looking at its recorded usage. Tokens are
estimated from bytes, or counted by a tokenizer. Nothing is predicted if it is unknown who serves the request, or if its
beginning is not recorded. Cost: O(segments).
"""

from __future__ import annotations

from msgspec import Struct
from msgspec.structs import replace

from lore.cache.base import Prediction
from lore.cache.breakpoint_rules import seconds
from lore.cache.counts import asked_lifetime, has_unseen, lifetime_of, sent_tokens
from lore.cache.prices import Price
from lore.cache.registry import cache_named, takes_breakpoints
from lore.cache.rules import DatedRules
from lore.cache.served import Served, cache_of, served_by
from lore.cache.tree import estimated_positions
from lore.cache.views import Count, View, Views
from lore.judge.base import price_of
from lore.judge.requests.request_laws import path_at
from lore.model.events import Usage
from lore.model.turn import Prompt, Turn

SECOND = 30.0  # seconds after the first request: no cache forgets so soon
NEAR = 1.35  # an estimate may be too high by this factor
_VIEW = View(placement="body", drops=True)  # in the order of the prompt's segments


class MarkedPlace(Struct, frozen=True):
    """A breakpoint."""

    path: str
    tokens: int  # up to it
    lifetime: float | None  # seconds that its entry lives; None: unknown


class Outlook(Struct, frozen=True):
    """What a request would cost if it were sent, and sent again. Tokens are estimated, money is in US dollars."""

    cache: str  # the model of the cache; empty: unknown
    where: Served
    tokens: int
    cached: int | None = None  # tokens that the second request would read; None: unknown
    until: str = ""  # the path of the last segment that is read completely
    minimum: int | None = None  # tokens below which the model caches nothing
    lifetime: float | None = None
    marks: tuple[MarkedPlace, ...] = ()
    sure: bool = False  # False: too near the minimum to tell, or the prompt has content that its bytes do not show
    confidence: str = "ceiling"
    first: float | None = None  # the cost of the first request
    second: float | None = None
    uncached: float | None = None  # the cost without any cache


class Sized(Struct, frozen=True):
    """A request and its size."""

    turn: Turn
    upto: list[int]  # tokens up to and with each segment
    where: Served
    cache: str  # the model of the cache; empty: unknown
    marked: bool  # the cache keeps entries at breakpoints
    counter: Count | None = None  # what counted its tokens; None: they are estimated from bytes

    @property
    def prompt(self) -> Prompt:
        """The request's content."""
        return self.turn.prompt

    @property
    def last(self) -> int:
        """The last segment that could be cached: the last breakpoint's, or the prompt's."""
        prompt = self.prompt
        if self.marked and prompt.breakpoints and not prompt.auto_breakpoint and self.cache != "openai-breakpoint":
            return prompt.breakpoints[-1]
        return len(self.upto) - 1

    def readable_tokens(self, at: int) -> int:
        """Return the tokens that can still be read if the segment at a position changes.

        If only breakpoints have entries, that is up to the last one before it.
        """
        if not self.marked:
            return self.upto[at - 1] if at > 0 else 0
        return max((self.upto[place] for place in self.prompt.breakpoints if place < at), default=0)

    def tokens(self, start: int, end: int) -> int:
        """Return the tokens of the segments from `start` up to and with `end`."""
        return max(0, self.upto[end] - (self.upto[start - 1] if start > 0 else 0)) if self.upto else 0


def sized_of(turn: Turn, cache: str | None = None, count: Count | None = None) -> Sized:
    """Measure a request; `cache` overrides who serves it, which is unknown for rendered text.

    `count` counts tokens, by the tokenizer of the model. No size is larger than its share of the usage.
    """
    where = served_by(turn) if cache is None else Served(cache_named(cache).provider, "")
    name = cache or ("" if turn.prompt.fidelity == "rendered" else cache_of(turn, where))
    upto = list(estimated_positions(Views(_VIEW, count).iterate_pieces(turn.prompt)))
    billed = sent_tokens(turn.usage)
    if upto and 0 < billed < upto[-1]:
        upto = [tokens * billed // upto[-1] for tokens in upto]
    if name == "qwen-implicit" and (turn.prompt.breakpoints or turn.prompt.auto_breakpoint):
        name = "qwen"
    return Sized(turn, upto, where, name, takes_breakpoints(name), count)


def outlook_of(sized: Sized, rules: DatedRules) -> Outlook:
    """Predict the request sent, and sent again."""
    turn, prompt, where, at = sized.turn, sized.prompt, sized.where, sized.turn.at
    tokens = sized.upto[-1] if sized.upto else 0
    rule = "lifetime_implicit" if sized.cache == "qwen-implicit" else "lifetime"
    lifetime = rules.number(rule, where.provider, turn.model, where.platform, at)
    default = None if lifetime is None else float(lifetime)
    values = zip(prompt.breakpoints, prompt.breakpoint_values, strict=False)
    marks = [MarkedPlace(path_at(prompt, at), sized.upto[at], lifetime_of(value) or default) for at, value in values]
    unknown = Outlook(sized.cache, where, tokens, marks=tuple(marks))
    if not sized.cache or prompt.partial or (prompt.fidelity == "structural" and sized.marked):
        return unknown
    if at is None and rules.as_of is not None:
        at = seconds(rules.as_of)
    call = replace(turn.call, status=None)
    blank = replace(turn, usage=None, verdict=None, response_id=None, sent=at, answered=None, call=call)
    from lore.cache.predictor import Predictor  # noqa: PLC0415 - `check` asks for no outlook

    predictor = Predictor(rules, sized.cache, count=sized.counter)
    predictor.begin_recording()
    first = predictor.predict(blank).prediction
    repeat = replace(blank, number=turn.number + 1, sent=None if at is None else at + SECOND)
    second = predictor.predict(repeat).prediction
    rule = "minimum_implicit" if sized.cache == "qwen-implicit" else "minimum_tokens"
    least = rules.number(rule, where.provider, turn.model, where.platform, at)
    first, second = (_limit(prediction, sent_tokens(turn.usage), int(least or 0)) for prediction in (first, second))
    if second.read is None:
        return unknown
    price = price_of(rules, turn, size=tokens) if where == served_by(turn) else None
    size = sized.upto[sized.last] if sized.upto else 0
    near = sized.counter is None and least is not None and size < float(least) * NEAR
    ends = {*prompt.breakpoints, sized.last} if sized.marked else range(len(sized.upto))
    fitting = [end for end in ends if end < len(sized.upto) and sized.upto[end] <= second.read + 1]
    return replace(unknown,
        cached=second.read, until=path_at(prompt, max(fitting)) if second.read and fitting else "",
        minimum=None if least is None else int(least),
        lifetime=(asked_lifetime(turn) if sized.marked else None) or default, sure=not near and not has_unseen(prompt),
        confidence=second.confidence, first=_cost(price, first), second=_cost(price, second),
        uncached=_cost(price, Prediction(0, 0, tokens, "ceiling")),
    )  # fmt: skip


def _limit(prediction: Prediction, billed: int, least: int) -> Prediction:
    """Return a prediction that fits the billed tokens of the prompt (0: unknown), of which `least` are cached."""
    total = prediction.total
    if not billed or total is None or total <= billed:
        return prediction
    read, write, hour = (
        round((part or 0) * billed / total) for part in (prediction.read, prediction.write, prediction.write_1h)
    )
    if read + write < least:
        read = write = hour = 0
    return replace(prediction, read=read, write=write, uncached=billed - read - write,
                   write_1h=None if prediction.write_1h is None else hour)  # fmt: skip


def _cost(price: Price | None, prediction: Prediction) -> float | None:
    if price is None or prediction.uncached is None or prediction.read is None or prediction.write is None:
        return None
    paid = price.of(Usage(prediction.uncached, prediction.read, prediction.write, 0, None, prediction.write_1h))
    return None if paid is None else round(float(paid), 6)
