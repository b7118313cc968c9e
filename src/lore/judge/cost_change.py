"""Why requests cost more or less than earlier ones, in parts that add up to the difference."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from lore.judge.sums import AMOUNT_DIGITS, rebilled_dollars, sum_of
from lore.model.results.overview import CostChange, Spending

_SAME_MODEL = 0.05  # of the tokens of a side


def change_of_cost(before: Mapping[str, Spending], after: Mapping[str, Spending]) -> CostChange | None:
    """Return why requests cost more or less than earlier ones, both as sums by model; None if a cost is unknown.

    The rest, which is input at list prices and not re-billed, is a product of requests, tokens of a prompt and dollars
    of a token: each part changes one factor and takes the factors before it from the later requests. A few prompts of
    a model say nothing of its rate: it counts as the same model only if both sides sent a share of their tokens to it.
    If some requests are priced in part, which is mostly their output, the output of no request is counted.
    """
    old, new = (_cost_factors(models.values()) for models in (before, after))
    if old is None or new is None:
        return None
    if any(side.at_least for models in (before, after) for side in models.values()):
        old, new = (side._replace(dollars=side.dollars - side.output, output=0.0) for side in (old, new))
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
        "requests": (new.requests - old.requests) * old.dollars / old.requests,
        "models": mixed - new.tokens * old.rate, "prompts": length * old.rate, "tokens": new.tokens * new.rate - mixed,
        "output": new.output - old.output / old.requests * new.requests,
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
