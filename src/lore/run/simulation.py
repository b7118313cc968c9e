"""Predict the turns of recordings in one cache, and compare each prediction with the usage and the verdict.

A prediction is made before its usage is read. A turn that an earlier recording holds as well is predicted, since it
leaves entries in the cache, and not reported again. Cost O(new content of each turn) for transcripts, O(bytes) for
recorded requests.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from typing import NamedTuple

from msgspec import UNSET
from msgspec.structs import replace

from lore.cache.base import Prediction
from lore.cache.counts import cached, first_pass_read, position, reason_to_doubt, total
from lore.cache.predictor import Predictor
from lore.cache.prices import Price, is_partial
from lore.cache.registry import takes_breakpoints
from lore.cache.served import cache_of, is_transcript, served_by
from lore.cache.transcripts import Predicted
from lore.formats.registry import lacks_of
from lore.judge.agreement import Transition, Unpriced
from lore.judge.base import CURRENCY, TurnVerdict, findings_of, paid_again, price_of
from lore.judge.sums import Reliability
from lore.judge.what_if import PaidTurn, paid_turn
from lore.model.cause import Place
from lore.model.codes import Reader
from lore.model.events import Usage
from lore.model.results import CauseResult, Finding, UsageResult, VerdictResult, copy_fields
from lore.model.results.simulate import Cost, PredictedResult, SimulatedTurn
from lore.model.turn import Turn
from lore.recording.base import Recording
from lore.report.pair_figures import causes_of
from lore.run.checking.verdicts import reader_of, verdicts
from lore.run.dated import PACKAGED, Dated


class PlayedTurn(NamedTuple):
    """One simulated turn."""

    result: SimulatedTurn
    row: Transition | None  # the prediction and the usage; None if they cannot be compared
    parts: dict[str, Decimal]  # cost by kind of price
    paid: PaidTurn  # the turn as a what-if replays it
    verdict: TurnVerdict


@dataclass(slots=True)
class _ChainCache:
    """What the previous turns of a chain left in the cache, in tokens; None if unknown."""

    billed: int | None = None  # by the latest usage
    position: int | None = None  # of the previous request's last breakpoint, by its usage
    left: int | None = None  # by the usage of the previous request, else by its prediction

    def advance(self, turn: Turn, predicted: Predicted, paid: PaidTurn) -> None:
        """Update the cache with a turn."""
        usage = None if predicted.odd else turn.usage
        self.position = None if usage is None else position(usage)
        self.billed = self.billed if cached(usage) is None else cached(usage)
        self.left = self.left if turn.failed else paid.left


class Simulation:
    """Simulate recordings in order: what one leaves in the cache, the next may read.

    `reader` is the person that fixes address (None: chosen by the format). With `redact` no cause holds content.
    """

    def __init__(
        self, predictor: Predictor, *, dated: Dated = PACKAGED, reader: Reader | None = None, redact: bool = False
    ) -> None:  # fmt: skip
        self._predictor = predictor
        self._dated = dated
        self._reader: Reader | None = reader
        self._redact = redact
        self._responses: set[str] = set()  # ids of the responses seen so far
        self._turns: dict[tuple[str, int], SimulatedTurn] = {}  # of the current recording
        self._formats: set[str] = set()
        self.copied = 0  # turns that an earlier recording holds as well
        self.transcripts = 0  # turns of transcripts, which record no breakpoints
        self.bodies = 0  # turns whose requests can have breakpoints
        self.lacks: dict[str, list[str]] = {}  # parts of prompts that are not recorded, with the formats
        self.unlike: list[str] = []  # turns whose usage contradicts their body; the predictor ignores it
        self.partial = Counter[str]()  # turns with a part of the output tokens recorded, by client
        self.unpriced = Unpriced(predictor.rules)
        self.reliability = Reliability()

    def recording(self, recording: Recording) -> Iterator[PlayedTurn]:
        """Yield the recording's turns, skipping turns already seen in an earlier recording."""
        self._predictor.begin_recording()
        self._turns.clear()
        place = Place(recording.shown, reader=reader_of(recording, self._reader))
        chains, is_noted = defaultdict[str, _ChainCache](_ChainCache), False
        for verdict, late in verdicts(recording, self._dated.judge(quick=True), place, self._predictor.predict):
            for finding in late:
                self._add_cause(finding)
            if verdict is None:
                return
            turn, predicted, cache = verdict.turn, verdict.foreseen, chains[verdict.turn.chain]
            assert predicted is not None, "every turn is predicted"
            if turn.basis is not None and not is_noted:
                is_noted = True
                self._note_format(recording.state.format, turn)
            transition = _transition(turn, predicted, cache)
            paid, last_breakpoint = paid_turn(verdict, predicted.prediction, cache.left), cache.position
            cache.advance(turn, predicted, paid)
            if not self._is_copy(turn):
                self.reliability.take(verdict, last_breakpoint)
                yield self._played(verdict, predicted, transition, paid, place)

    def _played(
        self, verdict: TurnVerdict, predicted: Predicted, transition: Transition | None, paid: PaidTurn, place: Place
    ) -> PlayedTurn:  # fmt: skip
        """Return a turn that is not a copy, and count it."""
        turn, usage, predictor = verdict.turn, verdict.turn.usage, self._predictor
        price = price_of(predictor.rules, turn, model=predictor.model, size=predicted.prediction.total)
        partial = usage is not None and is_partial(predictor.rules, usage.client)
        self._count(turn, predicted, price, partial=partial)
        parts, is_whole = price.split(usage) if price and usage and usage.has_input else ({}, False)
        prediction = _limit_to_usage(predicted, usage)
        cost = _cost(price, verdict, prediction, sum(parts.values(), Decimal(0)), is_whole=is_whole)
        result = _result(
            verdict, predicted.cache, prediction, cost, place, self._causes(verdict, place), partial=partial
        )
        self._turns[turn.chain, turn.number] = result
        contradicted = (
            bool(predicted.odd) and usage is not None and not usage.contradiction and not reason_to_doubt(usage)
            and predicted.cache == cache_of(turn, served_by(turn))
        )  # fmt: skip
        paid = paid._replace(price=price, reader=place.reader, contradicted=contradicted)
        return PlayedTurn(result, transition, parts, paid, verdict)

    def _note_format(self, name: str, turn: Turn) -> None:
        if name not in self._formats:
            self._formats.add(name)
            self.lacks.setdefault(lacks_of(name, turn.basis), []).append(name)

    def _count(self, turn: Turn, predicted: Predicted, price: Price | None, *, partial: bool) -> None:
        if is_transcript(turn):
            self.transcripts += 1
        elif takes_breakpoints(predicted.cache):
            self.bodies += 1
        if predicted.odd and turn.usage is not None and not reason_to_doubt(turn.usage):
            self.unlike.append(f"turn {turn.number}: {predicted.odd}")
        if partial and turn.usage is not None:
            self.partial[turn.usage.client] += 1
        self.unpriced.take(turn, price, self._predictor.model)

    def _add_cause(self, finding: Finding) -> None:
        """Add a finding about a whole chain to the turn that it names."""
        turn = self._turns.get((finding.chain or "", finding.turn or 0))
        if turn is not None:
            turn.causes.extend(causes_of([finding], redact=self._redact))

    def _causes(self, verdict: TurnVerdict, place: Place) -> list[CauseResult]:
        """Return the causes of a turn, the leading one first."""
        if verdict.pair is None:
            return []
        findings = findings_of(verdict.pair, place.of(verdict.turn))
        findings.sort(key=lambda numbered: numbered[0] != verdict.leading)
        return causes_of((finding for _, finding in findings), redact=self._redact)

    def _is_copy(self, turn: Turn) -> bool:
        copied = bool(turn.call.inherited_from)
        if turn.response_id and not copied:
            copied = turn.response_id in self._responses
            self._responses.add(turn.response_id)
        self.copied += copied
        return copied


def _transition(turn: Turn, predicted: Predicted, cache: _ChainCache) -> Transition | None:
    """Return the prediction next to the usage; None if they cannot be compared."""
    available = cache.billed if predicted.state is None else predicted.state.cached
    read = first_pass_read(turn.usage)
    if predicted.odd or available is None or read is None or not predicted.cache:
        return None
    prompted = predicted.state is not None and predicted.state.grown.prompted
    return Transition(read, predicted.prediction.read, available, prompted)


def _result(
    verdict: TurnVerdict, cache: str, prediction: Prediction, cost: Cost | None, place: Place,
    causes: list[CauseResult], *, partial: bool,
) -> SimulatedTurn:  # fmt: skip
    turn, usage = verdict.turn, verdict.turn.usage
    return SimulatedTurn(
        turn=turn.number, chain=turn.chain, at=turn.at, model=turn.model, cache=cache or None,
        predicted=PredictedResult(
            read_tokens=prediction.read, write_tokens=prediction.write, uncached_tokens=prediction.uncached,
            confidence=prediction.confidence, reason=prediction.reason,
        ),
        billed=None if usage is None else UsageResult.of(usage, partial=partial),
        other_passes=UsageResult.of_other_passes(usage),
        verdict=None if turn.verdict is None else copy_fields(VerdictResult, turn.verdict),
        causes=causes, cost=cost, lost_tokens=verdict.lost_tokens, waste_tokens=verdict.wasted_tokens,
        unexplained_tokens=verdict.unexplained_tokens, foreseen=verdict.was_foreseen, line=turn.line,
        path=turn.file or place.path,
    )  # fmt: skip


def _limit_to_usage(predicted: Predicted, usage: Usage | None) -> Prediction:
    """Return the prediction as it is shown: no read is larger than the prompt, by its usage.

    The size of a request says nothing about the cache, so the comparison with the usage keeps the original.
    """
    prediction = predicted.prediction
    size = None if usage is None or predicted.odd else total(usage.first_pass)
    if size is None or prediction.read is None or prediction.read <= size:
        return prediction
    return replace(prediction, read=size, write=0, uncached=0, write_1h=None if prediction.write_1h is None else 0)


def _cost(
    price: Price | None, verdict: TurnVerdict, prediction: Prediction, paid: Decimal, *, is_whole: bool
) -> Cost | None:  # fmt: skip
    """Return the cost of a turn, as far as counts and prices are known; None if nothing is known of it.

    `paid` is what its usage costs, `is_whole`: of all counts.
    """
    usage = verdict.turn.usage
    recorded = usage.recorded_dollars or UNSET if usage is not None else UNSET
    if price is None:
        billed = 0.0 if usage is not None and usage.has_input and usage.is_empty else None
        if recorded is UNSET and billed is None:
            return None
        return Cost(currency=CURRENCY, billed=billed, predicted=None, waste=None, recorded=recorded)
    output = 0 if usage is None else usage.first_pass.output_tokens
    tokens = Usage(prediction.uncached, prediction.read, prediction.write, output, None, prediction.write_1h)
    predicted = price.of(tokens if usage is None else _with_first_pass(usage, tokens))
    has_input = usage is not None and usage.has_input
    return Cost(
        currency=CURRENCY, billed=float(paid) if has_input else None,
        predicted=None if predicted is None else float(predicted),
        waste=paid_again(price, usage, verdict.wasted_tokens),
        unexplained=paid_again(price, usage, verdict.unexplained_tokens),
        at_least=True if has_input and not is_whole else UNSET, recorded=recorded,
    )  # fmt: skip


def _with_first_pass(usage: Usage, counts: Usage) -> Usage:
    """Return usage with other counts of its first pass: later passes and tools cost the billed amount."""
    first = usage.first_pass
    if first is usage:
        return replace(counts, iterations=usage.iterations, server_tools=usage.server_tools)
    passes = [part.with_counts(counts) if part is first else part for part in usage.iterations]
    return replace(usage, iterations=tuple(passes))
