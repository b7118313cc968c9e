"""Measures of two sides, and whether they differ by more than chance (`lore compare`).

A measure is a ratio of sums over the billed requests of sessions. Requests of one session depend on each other, so its
interval is that of a ratio estimator over sessions (linearised variance, Student's t; Cochran, Sampling Techniques,
1977, chapter 6). With fewer than five sessions a share of requests has Wilson's interval (1927) over requests, an
amount none. Two sides differ if the interval of their difference excludes 0 (MOVER-D of Zou and Donner, 2008); with
fewer than five events, or with one session on a side, nothing is said. All intervals are 95 %.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from math import isclose, sqrt
from typing import NamedTuple

from lore.judge.sums import AMOUNT_DIGITS, rebilled_dollars, sum_of
from lore.model.results.overview import CostChange, Interval, Measure, MeasureSide, Outcome, Spending

_DIGITS = 6  # decimals of shares and amounts
SESSIONS = 5  # from which on the spread between sessions says something
LEAST_SESSIONS = 2  # of each side, from which on anything is said: requests of one session depend on each other
EVENTS = 5  # of both sides together, from which on shares are compared
Z = 1.959964
_T = (12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145,
      2.131, 2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045,
      2.042)  # fmt: skip


class Ratio(NamedTuple):
    """A measure: its name and unit, and the members of `Spending` whose sums are divided (`-NAME` is subtracted).

    `share`: it counts requests, so that it lies between 0 and 1. If output, counts or prices of requests are known in
    part only, `whole` leaves out their sessions, and `floor` makes the value a lower bound.
    """

    name: str
    unit: str
    top: tuple[str, ...]
    bottom: tuple[str, ...]
    share: bool = False
    whole: bool = False
    floor: bool = False


PROMPT = ("uncached_tokens", "read_tokens", "write_tokens")
_PRICED = ("requests", "-unpriced")
RATIOS: tuple[Ratio, ...] = (
    Ratio("share_read", "share", ("read_tokens",), PROMPT),
    Ratio("breaks", "share", ("breaks",), ("requests",), share=True),
    Ratio("reliability", "share", ("appends_read",), ("appends",), share=True),
    Ratio("prompt", "tokens", PROMPT, ("requests",)),
    Ratio("output", "tokens", ("output_tokens",), ("requests",), whole=True),
    Ratio("money", "dollars", ("dollars",), _PRICED, floor=True),
    Ratio("paid_again", "dollars", ("paid_again", "expected", "unexplained"), _PRICED),
)


def _count(spending: Spending, names: tuple[str, ...]) -> float | None:
    """Return the sum of members; None if one of them is unknown."""
    total = 0.0
    for name in names:
        value: float | None = getattr(spending, name.lstrip("-"))
        if value is None:
            return None
        total += -value if name.startswith("-") else value
    return total


def measure(ratio: Ratio, left: Sequence[Spending], right: Sequence[Spending]) -> Measure:
    """Compare a ratio of two sides, each given as the sums of the billed requests of its sessions."""
    first, second = _side(ratio, left), _side(ratio, right)
    difference = _difference(first, second)
    return Measure(
        name=ratio.name, unit=ratio.unit, left=first, right=second,
        difference=None if first.value is None or second.value is None else round(second.value - first.value, _DIGITS),
        interval=difference, outcome=_outcome(ratio, first, second, difference),
    )  # fmt: skip


def share_of(events: int, trials: int, sessions: int) -> MeasureSide:
    """Return a share of the requests of `sessions` sessions with Wilson's interval; None without requests."""
    if not trials:
        return MeasureSide(None, events, trials, sessions, None)
    return MeasureSide(round(events / trials, _DIGITS), events, trials, sessions, _wilson(events, trials))


def compare_shares(left: MeasureSide, right: MeasureSide) -> Outcome:
    """Return how two shares of requests differ."""
    return _outcome(Ratio("", "share", (), (), share=True), left, right, _difference(left, right))


def _side(ratio: Ratio, sessions: Sequence[Spending]) -> MeasureSide:
    fractions = [
        (top, bottom)
        for sums in sessions
        if not (ratio.whole and sums.at_least)
        and (top := _count(sums, ratio.top)) is not None
        and (bottom := _count(sums, ratio.bottom)) is not None
        and bottom > 0
    ]
    tops, bottoms = sum(top for top, _ in fractions), sum(bottom for _, bottom in fractions)
    if not bottoms:
        return MeasureSide(None, 0, 0, 0, None)
    value, free, interval = tops / bottoms, len(fractions) - 1, None
    squares = sum((top - value * bottom) ** 2 for top, bottom in fractions)
    if len(fractions) >= SESSIONS and not isclose(squares, 0.0, abs_tol=1e-18):  # else sessions do not differ at all
        student = _T[free - 1] if free <= len(_T) else Z * (1 + (Z * Z + 1) / (4 * free))
        half = student * sqrt(len(fractions) / free * squares) / bottoms
        low, high = max(0.0, value - half), value + half
        high = min(high, 1.0) if ratio.unit == "share" else high
        interval = Interval(round(low, _DIGITS), round(high, _DIGITS), "sessions")
    if interval is None and ratio.share:
        interval = _wilson(round(tops), round(bottoms))
    at_least = ratio.floor and any(sums.at_least for sums in sessions)
    return MeasureSide(round(value, _DIGITS), round(tops, _DIGITS), round(bottoms), len(fractions), interval, at_least)


def _wilson(events: int, trials: int) -> Interval:
    share, squared = events / trials, Z * Z
    middle, scale = share + squared / (2 * trials), 1 + squared / trials
    half = Z * sqrt(share * (1 - share) / trials + squared / (4 * trials * trials))
    low, high = max(0.0, (middle - half) / scale), min(1.0, (middle + half) / scale)
    return Interval(round(low, _DIGITS), round(high, _DIGITS), "requests")


def _difference(left: MeasureSide, right: MeasureSide) -> Interval | None:
    """Return the interval of the right side's value less the left's: each limit from the nearest limits of both."""
    if left.value is None or right.value is None or left.interval is None or right.interval is None:
        return None
    middle = right.value - left.value
    low = middle - sqrt((right.value - right.interval.low) ** 2 + (left.interval.high - left.value) ** 2)
    high = middle + sqrt((right.interval.high - right.value) ** 2 + (left.value - left.interval.low) ** 2)
    unit = "sessions" if left.interval.over == right.interval.over == "sessions" else "requests"
    return Interval(round(low, _DIGITS), round(high, _DIGITS), unit)


def _outcome(ratio: Ratio, left: MeasureSide, right: MeasureSide, difference: Interval | None) -> Outcome:
    if left.value is None or right.value is None:
        return "unknown"
    events, trials = left.events + right.events, left.trials + right.trials
    few = ratio.share and min(events, trials - events) < EVENTS
    if difference is None or few or min(left.sessions, right.sessions) < LEAST_SESSIONS:
        return "too-few"
    if (difference.low > 0 and left.at_least) or (difference.high < 0 and right.at_least):
        return "unknown"  # the smaller value may be larger than its lower bound
    return "higher" if difference.low > 0 else "lower" if difference.high < 0 else "no-difference"


_SAME_MODEL = 0.05  # of the tokens of a side


def change_of_cost(before: Mapping[str, Spending], after: Mapping[str, Spending]) -> CostChange | None:
    """Return why requests cost more or less than earlier ones, both as sums by model; None if a cost is unknown.

    The rest, which is input at list prices and not re-billed, is a product of requests, tokens of a prompt and dollars
    of a token: each part changes one factor and takes the factors before it from the later requests. A few prompts of
    a model say nothing of its rate: it counts as the same model only if both sides sent a share of their tokens to it.
    If some requests are priced in part, which is mostly their output, output is a part as a whole: its amount in a
    request is unknown.
    """
    old, new = (_cost_factors(models.values()) for models in (before, after))
    if old is None or new is None:
        return None
    output = new.output - old.output / old.requests * new.requests
    cost = old.dollars  # of the earlier requests, which grows with their number
    if any(side.at_least for models in (before, after) for side in models.values()):
        output, cost = new.output - old.output, old.dollars - old.output
    rates: dict[str, float] = {}  # earlier ones, of the models that both sides use
    for name in before.keys() & after.keys():
        earlier, later = _cost_factors([before[name]]), _cost_factors([after[name]])
        if earlier is not None and later is not None:
            is_used = earlier.tokens >= _SAME_MODEL * old.tokens and later.tokens >= _SAME_MODEL * new.tokens
            rates |= {name: earlier.rate} if is_used else {}
    mixed = 0.0  # the later input at the earlier rates
    for name, sums in after.items():
        if (later := _cost_factors([sums])) is not None:
            mixed += later.tokens * rates.get(name, later.rate)
    length = new.tokens - old.tokens / old.requests * new.requests
    parts = {
        "requests": (new.requests - old.requests) * cost / old.requests,
        "models": mixed - new.tokens * old.rate, "prompts": length * old.rate, "tokens": new.tokens * new.rate - mixed,
        "output": output,
        "surcharges": new.surcharge - old.surcharge / old.requests * new.requests,
        "rebilled": new.rebilled - old.rebilled / old.requests * new.requests,
    }  # fmt: skip
    rounded = {name: round(part, AMOUNT_DIGITS) for name, part in parts.items()}
    return CostChange(dollars=round(new.dollars - old.dollars, AMOUNT_DIGITS), **rounded)


class _CostFactors(NamedTuple):
    """What the cost of requests is made of, in dollars."""

    requests: int  # with a known cost
    tokens: int  # of their prompts
    dollars: float
    rebilled: float
    surcharge: float
    output: float  # with tools that the provider ran, without their share of surcharges

    @property
    def rate(self) -> float:
        """Dollars of a token of a prompt, without the re-billed part and surcharges."""
        return (self.dollars - self.rebilled - self.surcharge - self.output) / self.tokens


def _cost_factors(spending: Iterable[Spending]) -> _CostFactors | None:
    """Return the factors of a cost; None if no request has a price, or no prompt a size."""
    priced = [part for part in spending if part.dollars is not None]
    tokens = sum(part.uncached_tokens + part.read_tokens + part.write_tokens for part in priced)
    if not tokens:
        return None
    dollars = sum_of(part.dollars or 0.0 for part in priced)
    surcharge = sum_of(more.dollars for part in priced for more in part.surcharges)
    output = sum_of((part.output or 0.0) + (part.tools or 0.0) for part in priced)
    return _CostFactors(
        sum(part.requests - part.unbilled - part.unpriced for part in priced), tokens, dollars,
        sum_of(rebilled_dollars(part) or 0.0 for part in priced), surcharge,
        output * (1 - surcharge / dollars) if dollars else 0.0,
    )  # fmt: skip
