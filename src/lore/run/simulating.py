"""`lore simulate`: recordings to predictions beside bills, turn by turn, with causes and money.

In: recordings, rules. Out: a `Simulated`. Rules: a prediction is made before its bill is looked at; a turn that another
recording copied counts once; a drop of billed reads has a cause, or what was ruled out; what is unknown is None.
Cost O(what is new in each turn) for transcripts, O(bytes) for requests.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from decimal import Decimal
from typing import NamedTuple

from lore.cache.base import Prediction
from lore.cache.drops import drop
from lore.cache.prices import Price
from lore.check.agreement import Row
from lore.check.bills import cached
from lore.check.chained import Chained
from lore.check.pairs import Pair, is_remark, lost_tokens
from lore.model.codes import CODES
from lore.model.events import Billed, OddBill
from lore.model.problems import Problem
from lore.model.results import BilledResult, VerdictResult
from lore.model.simulated import CostResult, PredictedResult, SimulatedTurn, WhyResult
from lore.model.turn import Turn
from lore.run.predicting import Predicted, Predictor, is_transcript, served_by
from lore.run.problems import Problems

CURRENCY = "USD"
_RANK = ("expected", "unattributable", "waste")


class Seen(NamedTuple):
    """One turn of the answer, the row by which it is compared with its bill, what was paid at each price."""

    result: SimulatedTurn
    row: Row | None
    parts: dict[str, Decimal]


class _Lost(NamedTuple):
    """Tokens that were in the prompt before and not read, and why."""

    tokens: int | None
    why: WhyResult | None


class Simulation:
    """Predict recordings one after the other; what one leaves in a cache the next may find."""

    def __init__(self, predictor: Predictor, problems: Problems | None = None) -> None:
        self._predictor = predictor
        self.problems = problems or Problems()
        self._responses: set[str] = set()
        self.copied = 0

    def turns(self, turns: Iterable[Turn], shown: str) -> Iterator[Seen]:
        """Yield every turn of a recording, but copies of those that an earlier one had."""
        self._predictor.begin()
        chained, stood = Chained(), dict[str, int]()
        for turn in turns:
            predicted = self._predictor.turn(turn)
            pair = None if predicted.situation is not None else chained.advance(turn)
            left = predicted.situation.stood if predicted.situation is not None else stood.get(turn.chain)
            if turn.usage is not None and not predicted.odd:
                there = cached(turn.usage)
                stood.update({} if there is None else {turn.chain: there})
            if self._is_copy(turn):
                continue
            odd = turn.usage.odd if isinstance(turn.usage, OddBill) else predicted.odd
            if odd:
                said = f"turn {turn.number} of {turn.chain}: a bill that is not learned from: {odd}"
                self.problems.add(Problem("LORE303", said), turn.file or shown, turn.line, turn.byte)
            price = self._price(turn, predicted.prediction)
            result = _result(turn, predicted, _lost(turn, predicted, pair, left), price, shown)
            parts = price.parts(turn.usage) if price and turn.usage and price.of(turn.usage) is not None else {}
            yield Seen(result, _row(turn, predicted, left), parts)

    def _is_copy(self, turn: Turn) -> bool:
        name = turn.response_id
        if not name:
            return False
        copied = name in self._responses
        self._responses.add(name)
        self.copied += copied
        return copied

    def _price(self, turn: Turn, said: Prediction) -> Price | None:
        """Return the prices of a turn; None where nobody knows them."""
        where, usage = served_by(turn), turn.usage
        size = said.total if usage is None else _size(usage)
        return self._predictor.rules.price(
            where.provider,
            self._predictor.model or turn.model,
            where.platform,
            turn.at,
            prompt_tokens=size,
            extras=_extras(turn),
        )


# What a request can ask for at another price, by parameter and value. A transcript does not hold parameters.
_EXTRAS = (
    ("speed", b'"fast"', "fast"), ("service_tier", b'"priority"', "fast"), ("service_tier", b'"fast"', "fast"),
    ("service_tier", b'"flex"', "flex"), ("inference_geo", b'"us"', "us"),
)  # fmt: skip


def _extras(turn: Turn) -> tuple[str, ...]:
    if is_transcript(turn):
        return ()
    params = turn.prompt.params
    return tuple([extra for name, value, extra in _EXTRAS if params.get(name) == value])


def _result(turn: Turn, predicted: Predicted, lost: _Lost, price: Price | None, shown: str) -> SimulatedTurn:
    usage, said, verdict = turn.usage, predicted.prediction, turn.verdict
    waste = 0 if lost.why is not None and lost.why.kind == "expected" else _within(lost.tokens, usage)
    return SimulatedTurn(
        turn=turn.number, chain=turn.chain, at=turn.at, model=turn.model, cache=predicted.cache or None,
        predicted=PredictedResult(
            read_tokens=said.read, write_tokens=said.write, fresh_tokens=said.fresh, confidence=said.confidence,
            reason=said.reason,
        ),
        billed=None if usage is None else BilledResult.of(usage),
        verdict=None if verdict is None else VerdictResult(verdict.reason, verdict.missed_tokens, verdict.source),
        cause=lost.why, cost=None if price is None else _cost(price, usage, said, waste), lost_tokens=lost.tokens,
        waste_tokens=waste, line=turn.line, path=turn.file or shown,
    )  # fmt: skip


def _cost(price: Price, usage: Billed | None, said: Prediction, waste: int | None) -> CostResult:
    output = 0 if usage is None else usage.output_tokens
    predicted = price.cost(fresh=said.fresh, read=said.read, write=said.write, write_1h=said.write_1h, output=output)
    billed = None if usage is None else price.of(usage)
    return CostResult(
        currency=CURRENCY, billed=None if billed is None else float(billed),
        predicted=None if predicted is None else float(predicted), waste=_paid_again(price, usage, waste),
    )  # fmt: skip


def _within(tokens: int | None, usage: Billed | None) -> int | None:
    """Return how many of lost tokens were paid again: a prompt that shrank was not billed for all of them."""
    if tokens is None or usage is None or usage.fresh_tokens is None:
        return tokens
    return min(tokens, max(0, usage.fresh_tokens + (usage.write_tokens or 0)))


def _size(usage: Billed) -> int | None:
    if usage.fresh_tokens is None:
        return None
    return usage.fresh_tokens + (usage.read_tokens or 0) + (usage.write_tokens or 0)


def _paid_again(price: Price, usage: Billed | None, tokens: int | None) -> float | None:
    """Return what tokens cost beyond their price when read: those that were written first, the rest as fresh."""
    if tokens is None or usage is None or price.fresh is None:
        return None
    if not tokens:
        return 0.0
    if price.read is None:
        return None
    hour = min(tokens, usage.write_1h_tokens or 0)
    short = min(tokens - hour, max(0, (usage.write_tokens or 0) - (usage.write_1h_tokens or 0)))
    read = price.read
    parts = (
        (hour, price.write_1h), (short, price.write_5m if price.write_5m is not None else price.write),
        (tokens - hour - short, price.fresh),
    )  # fmt: skip
    paid = sum((count * ((each if each is not None else price.fresh) - read) for count, each in parts), start=0 * read)
    return float(paid) / 1_000_000


def _row(turn: Turn, predicted: Predicted, stood: int | None) -> Row | None:
    usage = turn.usage
    if predicted.odd or stood is None or usage is None or usage.read_tokens is None or not predicted.cache:
        return None
    return Row(usage.read_tokens, predicted.prediction.read, stood)


def _lost(turn: Turn, predicted: Predicted, pair: Pair | None, stood: int | None) -> _Lost:
    """Return what a turn did not read of what stood in the cache, and why."""
    if predicted.situation is not None:
        found = None if predicted.odd else drop(predicted.situation, turn.usage, turn.verdict, turn.at)
        if found is None:
            return _Lost(None if turn.usage is None or stood is None else 0, None)
        evidence = "; ".join((found.evidence, *found.others))
        return _Lost(found.lost, _why(found.code, None, evidence, found.grade, found.ruled_out))
    if pair is None:
        return _Lost(None, None)
    weighed = [
        (_RANK.index(cause.kind), lost_tokens(pair, number)[0], number)
        for number, cause in enumerate(pair.causes)
        if not is_remark(cause)
    ]
    if not weighed:
        return _Lost(0, None)
    _, lost, number = max(weighed, key=lambda one: (one[0], one[1], -one[2]))
    cause = pair.causes[number]
    strength = "none" if cause.code == "LORE301" else "strong" if turn.fidelity == "wire" else "weak"
    return _Lost(lost, _why(cause.code, cause.section, cause.evidence, strength, (), cause.kind))


def _why(
    code: str, section: str | None, evidence: str, strength: str, ruled_out: tuple[str, ...], kind: str | None = None
) -> WhyResult:
    about = CODES[code]
    return WhyResult(
        code=code, name=about.name, kind=kind or about.kind, section=section,  # pyright: ignore[reportArgumentType]
        evidence=evidence, strength=strength, ruled_out=list(ruled_out),
    )  # fmt: skip
