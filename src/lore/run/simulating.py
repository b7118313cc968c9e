"""`lore simulate`: recordings to predictions beside bills, turn by turn, with causes and money.

In: recordings, rules. Out: a `Simulated`. Rules: a prediction is made before its bill is looked at; a turn that another
recording copied counts once; a drop of billed reads has a cause, or what was ruled out; what is unknown is None.
Cost O(what is new in each turn) for transcripts, O(bytes) for requests.
"""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from typing import NamedTuple

from lore.cache.base import Prediction
from lore.cache.bills import Price
from lore.cache.levels import Predicted
from lore.cache.predictor import Predictor
from lore.cache.rules import is_transcript, served_by
from lore.judge.agreement import Row
from lore.judge.base import Place
from lore.judge.bills import cached
from lore.judge.counterfactual import Played, played
from lore.judge.money import paid_again
from lore.judge.rules import findings_of
from lore.judge.verdict import Verdict
from lore.model.codes import Code, Problem, Reader
from lore.model.events import Billed, OddBill
from lore.model.results import BilledResult, CauseResult, Finding, VerdictResult
from lore.model.results_simulate import CostResult, PredictedResult, SimulatedTurn
from lore.model.turn import Turn
from lore.recording.base import Problems, Recording
from lore.report.sentences import cause_result, worded
from lore.run.verdicts import PACKAGED, Dated, reader_of, verdicts

CURRENCY = "USD"


class Seen(NamedTuple):
    """One turn of the answer, the row by which it is compared with its bill, what was paid at each price.

    `played` is the turn as what-ifs play it again, `price` at what prices, `reader` whom its fixes speak to.
    """

    result: SimulatedTurn
    row: Row | None
    parts: dict[str, Decimal]
    verdict: Verdict
    played: Played
    price: Price | None
    reader: Reader


class Simulation:
    """Predict recordings one after the other; what one leaves in a cache the next may find.

    `dated` says by which rules verdicts are made, `reader` whom their fixes speak to (None: as the format says).
    """

    def __init__(
        self, predictor: Predictor, problems: Problems | None = None, *, dated: Dated = PACKAGED,
        reader: Reader | None = None,
    ) -> None:  # fmt: skip
        self._predictor = predictor
        self._dated = dated
        self._chosen: Reader | None = reader
        self.problems = problems or Problems()
        self._responses: set[str] = set()
        self._turns: dict[tuple[str, int], SimulatedTurn] = {}
        self.copied = 0
        self.transcripts = self.marked = 0  # turns that hold no breakpoints, and those that do

    def recording(self, recording: Recording) -> Iterator[Seen]:
        """Yield every turn of a recording, but copies of those that an earlier one had."""
        self._predictor.begin()
        place = Place(recording.shown, reader=reader_of(recording, self._chosen))
        stood: dict[str, int] = {}
        left_behind: dict[str, int | None] = {}
        for verdict, ended in verdicts(recording, self._dated.judge(quick=True), place, self._predictor.turn):
            for finding in ended:
                self._late(finding)
            if verdict is None:
                return
            turn, predicted = verdict.turn, verdict.foreseen
            assert predicted is not None, "every turn is predicted"
            left = stood.get(turn.chain) if predicted.situation is None else predicted.situation.stood
            again = played(verdict, predicted.prediction, left_behind.get(turn.chain))
            if not turn.failed:
                left_behind[turn.chain] = again.left
            if turn.usage is not None and not predicted.odd and (there := cached(turn.usage)) is not None:
                stood[turn.chain] = there
            if self._is_copy(turn):
                continue
            self._count(turn)
            odd = turn.usage.odd if isinstance(turn.usage, OddBill) else predicted.odd
            if odd:
                said = f"turn {turn.number} of {turn.chain}: a bill that is not learned from: {odd}"
                self.problems.add(
                    Problem(Code.BILL_CONTRADICTS_BODY, said), turn.file or recording.shown, turn.line, turn.byte
                )
            price = self._price(turn, predicted.prediction)
            result = _result(verdict, predicted, price, place)
            self._turns[turn.chain, turn.number] = result
            parts = price.parts(turn.usage) if price and turn.usage and price.of(turn.usage) is not None else {}
            yield Seen(result, _row(turn, predicted, left), parts, verdict, again, price, place.reader)
        self._turns.clear()

    def _late(self, finding: Finding) -> None:
        """Add what was found in a whole chain to the turn that it is about."""
        turn = self._turns.get((finding.chain or "", finding.turn or 0))
        if turn is not None:
            turn.causes.append(cause_result(worded(finding)))

    def _count(self, turn: Turn) -> None:
        if is_transcript(turn):
            self.transcripts += 1
        elif turn.prompt.breakpoints or turn.prompt.auto_breakpoint:
            self.marked += 1

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


def _result(verdict: Verdict, predicted: Predicted, price: Price | None, place: Place) -> SimulatedTurn:
    turn, said = verdict.turn, predicted.prediction
    usage, provider = turn.usage, turn.verdict
    return SimulatedTurn(
        turn=turn.number, chain=turn.chain, at=turn.at, model=turn.model, cache=predicted.cache or None,
        predicted=PredictedResult(
            read_tokens=said.read, write_tokens=said.write, uncached_tokens=said.uncached, confidence=said.confidence,
            reason=said.reason,
        ),
        billed=None if usage is None else BilledResult.of(usage),
        verdict=None if provider is None else VerdictResult(provider.reason, provider.missed_tokens, provider.source),
        causes=causes_of(verdict, place), cost=None if price is None else _cost(price, verdict, said),
        lost_tokens=verdict.lost_tokens, waste_tokens=verdict.wasted_tokens,
        unexplained_tokens=verdict.unexplained_tokens, foreseen=verdict.was_foreseen, line=turn.line,
        path=turn.file or place.path,
    )  # fmt: skip


def causes_of(verdict: Verdict, place: Place) -> list[CauseResult]:
    """Return the causes of a verdict, the leading one first."""
    if verdict.pair is None:
        return []
    found = findings_of(verdict.pair, place.of(verdict.turn))
    leading = verdict.leading
    found.sort(key=lambda numbered: numbered[0] != leading)  # stable: the others stay in their order
    return [cause_result(worded(finding)) for _, finding in found]


def _cost(price: Price, verdict: Verdict, said: Prediction) -> CostResult:
    usage = verdict.turn.usage
    output = 0 if usage is None else usage.output_tokens
    predicted = price.of(Billed(said.uncached, said.read, said.write, output, None, said.write_1h))
    billed = None if usage is None else price.of(usage)
    return CostResult(
        currency=CURRENCY, billed=None if billed is None else float(billed),
        predicted=None if predicted is None else float(predicted),
        waste=paid_again(price, usage, verdict.wasted_tokens),
        unexplained=paid_again(price, usage, verdict.unexplained_tokens),
    )  # fmt: skip


def _size(usage: Billed) -> int | None:
    if usage.uncached_tokens is None:
        return None
    return usage.uncached_tokens + (usage.read_tokens or 0) + (usage.write_tokens or 0)


def _row(turn: Turn, predicted: Predicted, stood: int | None) -> Row | None:
    usage = turn.usage
    if predicted.odd or stood is None or usage is None or usage.read_tokens is None or not predicted.cache:
        return None
    return Row(usage.read_tokens, predicted.prediction.read, stood)
