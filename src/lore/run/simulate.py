"""`lore simulate`: recordings to predictions beside bills, turn by turn, once a cache; and as they might have been.

In: paths, rules, names of caches, changes as `KEY=VALUE`. Out: a `SimulateResult` a cache. Rules: a prediction is made
before its bill is looked at; a turn that another recording copied counts once; a drop of billed reads has a cause, or
what was ruled out; what is unknown is None. A change is simulated by the same models over the same recordings, and what
it saves is the difference of the two plays; nothing asked, the causes found are ranked from the one look at the files;
a bare `--what-if` plays every fix that can be simulated. Cost O(what is new in each turn) for transcripts, O(bytes)
for requests.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from decimal import Decimal
from functools import partial
from typing import NamedTuple, TypeAlias

from msgspec import UNSET
from msgspec.structs import replace

from lore.cache.base import Prediction
from lore.cache.bills import cached, met_read, position, total, unbelievable
from lore.cache.predictor import NO_CHANGE, Predictor, WhatIf
from lore.cache.prices import Price, is_partial
from lore.cache.registry import BROUGHT, CACHES, is_known, takes_breakpoints
from lore.cache.rules import DatedRules
from lore.cache.served import cache_of, is_transcript, served_by
from lore.cache.transcripts import Predicted
from lore.errors import LoreError, lacks_plug_in
from lore.formats.registry import lacks_of
from lore.judge import savings
from lore.judge.agreement import SimulatedSums, Transition, Unpriced
from lore.judge.base import CURRENCY, TurnVerdict, findings_of, paid_again, price_of
from lore.judge.ledger import Reliability
from lore.judge.savings import NotedSaving, Played, Run, played, turns_of
from lore.model.cause import Place
from lore.model.codes import Code, Problem, Reader
from lore.model.events import Usage
from lore.model.results import CauseResult, Finding, Interruption, UsageResult, VerdictResult
from lore.model.results.simulate import Cost, OutcomeResult, PredictedResult, Saving, SimulatedTurn, SimulateResult
from lore.model.turn import Turn
from lore.recording import corpus
from lore.recording.agents.projects import project_of
from lore.recording.base import Problems, Recording, UnrecognisedError, load_plugins
from lore.recording.inputs import Input, ahead, inputs
from lore.recording.opening import Options
from lore.recording.recent import nothing, nothing_new
from lore.report.redacted.findings import redacted_finding
from lore.report.sentences.findings import cause_result, nearly_random, not_in_logs, worded
from lore.run.checking.verdicts import InterruptedRunError, reader_of, verdicts
from lore.run.dated import PACKAGED, Dated
from lore.run.measured import MeasuredRun, read_logs
from lore.run.rules import output_note, stale

RANK = ""  # a change without a value: which fix saves most


class SimulateRequest(NamedTuple):
    """What to simulate: `caches` (none: whoever served a turn), `changes` as `KEY=VALUE` or `RANK`.

    `dated` says by which rules verdicts are made, `reader` whom fixes speak to (None: as the format says). `looked`:
    where recordings were looked for, if nobody named these; what is none there is passed over. With `redact` no cause
    carries content. Files that are not `wanted` are not opened. `progress` hears how many bytes of how many have been
    simulated, once more for each look that caches and changes need; `interrupted` is asked after every turn.
    `measured` names logs of the engines that served these recordings.
    """

    paths: list[str]
    caches: Sequence[str] = ()
    changes: Sequence[str] = ()
    dated: Dated = PACKAGED
    reader: Reader | None = None
    looked: tuple[str, ...] = ()
    redact: bool = False
    wanted: Callable[[Input], bool] | None = None
    progress: Callable[[int, int], None] | None = None
    interrupted: Callable[[], bool] = bool
    measured: Sequence[str] = ()


def simulate(request: SimulateRequest, options: Options, rules: DatedRules) -> Iterator[SimulateResult]:
    """Yield a result for each cache. Raises LoreError for what was named and is no recording.

    Where it is interrupted, what was simulated until then is the last result, and nothing is said of changes.
    """
    load_plugins()
    files = [file._replace(optional=bool(request.looked)) for file in inputs(request.paths, request.wanted)]
    once = any(file.stream for file in files)
    if once and (len(request.caches) > 1 or any(change != RANK for change in request.changes)):
        hint = "save it to a file: several caches and changes need more than one look"
        raise LoreError("standard input and pipes can be read once only", hint=hint)
    told = Problems()
    measured = read_logs(request.measured, files, options, told)
    caches = request.caches or (measured.cache,)
    changes = [(text, savings.change_of(text, request.caches)) for text in request.changes if text != RANK]
    for cache in caches:
        play = partial(_play, files, request, options, rules, cache, measured, told.kept)
        base = play(NO_CHANGE)
        if base.result.interrupted:
            yield base.result
            return
        try:
            yield _with_savings(base, play, changes, request, once=once)
        except InterruptedRunError:  # in the middle of a change: what any saves is not said
            yield replace(base.result, interrupted=Interruption(len(files), len(files)))
            return


simulate_recordings = simulate  # the public name: `lore.run.simulate` is this module


_Play: TypeAlias = Callable[[WhatIf], Run]


def _with_savings(
    base: Run, play: _Play, changes: list[tuple[str, WhatIf | None]], request: SimulateRequest, *, once: bool
) -> SimulateResult:  # fmt: skip
    """Return the result with what changes would have saved: those that were asked for, else the causes found."""
    saved, notes = list[Saving](), list(base.result.notes)
    for text, change in changes:
        saving, remarks = _saved(text, change, base, play)
        saved.append(saving)
        notes += remarks
    if RANK in request.changes:
        every, remarks = _every_fix(base, play, once=once)
        saved += every
        notes += remarks
    elif not request.changes:
        fixes = [noted for noted in savings.of_causes(base) if noted.saving.saves]
        saved += savings.in_order(noted.saving for noted in fixes)
        notes += [note for noted in fixes for note in noted.notes]
    if once or not request.changes:
        notes += savings.longer_life(base.result)
    return replace(base.result, what_if=saved, notes=notes)


def _saved(text: str, change: WhatIf | None, base: Run, play: _Play) -> NotedSaving:
    return savings.removed(base, text) if change is None else savings.compared(text, base, play(change))


def _every_fix(base: Run, play: _Play, *, once: bool) -> tuple[list[Saving], list[str]]:
    """Rank every fix that can be simulated, those that save nothing last, and say what cannot."""
    of_causes = list(savings.of_causes(base))
    found = [noted.saving for noted in of_causes]
    notes = [note for noted in of_causes for note in noted.notes]
    notes += savings.left_out(base)
    for text, there in ((savings.TTL, base.expired), (savings.AUTO, bool(base.bodies))):
        if there and once:
            notes.append(f"not simulated: {text}, since standard input and pipes can be read once only")
        elif there:
            saving, remarks = _saved(text, savings.change_of(text, ()), base, play)
            found.append(saving)
            notes += remarks
    return savings.in_order(found), notes


def _play(
    files: list[Input], request: SimulateRequest, options: Options, rules: DatedRules, cache: str | None,
    measured: MeasuredRun, told: Sequence[Problem], change: WhatIf,
) -> Run:  # fmt: skip
    sums, found, turns = SimulatedSums(), list(told), list[Played]()
    predictor = Predictor(rules, cache, change, None if options.counter is None else options.counter.count)
    simulation = Simulation(predictor, dated=request.dated, reader=request.reader, redact=request.redact)
    measuring = measured.play()
    recordings = done = read = 0
    size, stopped = sum(file.size for file in files), False
    for file in ahead(files):
        read += 1
        problems, shown = Problems(), corpus.show(file.path)
        try:
            if file.error is not None:
                raise file.error
            about = None if file.stream else project_of(corpus.open_head(file.path).head, file.path)
            recording = options.open(file.path, problems)
            for seen in measuring.follow(recording, simulation.recording(recording)):
                path = seen.result.path
                folder = about if path == shown else None  # of several files in one, none speaks for the others
                folder = folder or os.path.basename(os.path.dirname(os.path.abspath(path))) or "/"
                sums.add(seen.result, seen.row, seen.parts, folder)
                turns.append(seen.paid)
                if request.progress is not None:
                    request.progress(done + (seen.byte or 0), size)
                if stopped := request.interrupted():
                    break
            recordings += 1
        except UnrecognisedError:
            if file.named and not file.optional:
                raise
            options.log(f"{shown}: no recording, passed over")
        except LoreError as error:
            if file.named:
                raise
            problems.add(Problem(Code.UNREADABLE_FILE, error.message), shown)
            recordings += 1
        found.extend(problems.kept)
        done += file.size
        if stopped or (stopped := request.interrupted()):
            break
    if stopped and change is not NO_CHANGE:
        raise InterruptedRunError
    if not recordings and request.wanted is not None and not stopped:
        raise nothing_new(request.paths[0])
    if not recordings and request.looked and not stopped:
        raise nothing(request.looked)
    if not recordings and not stopped:
        hint = "lore simulate reads sessions and captures"
        raise LoreError(f"no recordings in {corpus.show(request.paths[0])}", hint=hint)
    as_of = None if rules.as_of is None else rules.as_of.isoformat()
    reliability = simulation.reliability.results()
    result = sums.result(cache, as_of, reliability, _notes(sums.turns, rules, simulation), found)
    result = replace(result, measured=measuring.result())
    if stopped:
        result = replace(result, interrupted=Interruption(read, len(files)))
    return Run(result, turns, predictor.touched, simulation.transcripts, simulation.bodies)


def _notes(turns: Sequence[SimulatedTurn], rules: DatedRules, simulation: Simulation) -> Iterator[str]:
    old = stale(rules, max((turn.at for turn in turns if turn.at is not None), default=None))
    if old is not None:
        yield old
    billed = {turn.path for turn in turns if turn.billed is not None}
    bare = sum(turn.path not in billed and turn.predicted.read_tokens is not None for turn in turns)
    if bare:
        yield f"counted with o200k_base: {turns_of(bare)} without a bill; other tokenizers differ by up to 35 %"
    unknown = sum(turn.cache is None for turn in turns)
    if unknown:
        yield f"not predicted: {turns_of(unknown)}; nothing says which cache served them (--cache NAME does)"
    for cache in sorted({turn.cache for turn in turns if turn.cache and not is_known(turn.cache)}):
        missing = lacks_plug_in(BROUGHT[cache], f"the cache {cache!r}").message
        yield f"not predicted: {turns_of(sum(turn.cache == cache for turn in turns))}; {missing}"
    for cache in sorted({turn.cache for turn in turns if turn.cache in CACHES and simulation.transcripts}):
        habit = rules.habits.find("no-sign", prompted=False, provider=CACHES[cache].provider)
        if habit is not None and habit.moves == "head" and habit.chance > _RANDOM:
            yield nearly_random(cache, habit.fell, habit.seen)
    for what, formats in simulation.lacks.items():
        if what:
            yield not_in_logs(formats, what)
    if simulation.unlike:
        yield f"not learned from: the bills of {turns_of(len(simulation.unlike))} ({simulation.unlike[0]})"
    yield from simulation.unpriced.notes()
    if simulation.copied:
        yield f"counted once: {turns_of(simulation.copied)} that other files hold as well"
    if simulation.partial:
        yield output_note(simulation.partial, rules)


_RANDOM = 1 / 3  # of requests that only append: a cache that falls more often is no ground for a prediction

# one play


class PlayedTurn(NamedTuple):
    """One turn of the answer: the row by which it is compared with its bill, what was paid at each price.

    `paid` is the turn as what-ifs play it again; `byte` where in its file it stands, `verdict` what was judged of it.
    """

    result: SimulatedTurn
    row: Transition | None
    parts: dict[str, Decimal]
    paid: Played
    byte: int | None
    verdict: TurnVerdict


class Simulation:
    """Predict recordings one after the other; what one leaves in a cache the next may find.

    `dated` says by which rules verdicts are made, `reader` whom fixes speak to (None: as the format says). With
    `redact` no cause carries content.
    """

    def __init__(
        self, predictor: Predictor, *, dated: Dated = PACKAGED, reader: Reader | None = None, redact: bool = False
    ) -> None:  # fmt: skip
        self._predictor = predictor
        self._worded: Callable[[Finding], Finding] = redacted_finding if redact else worded
        self._dated = dated
        self._reader: Reader | None = reader
        self._responses: set[str] = set()
        self._turns: dict[tuple[str, int], SimulatedTurn] = {}
        self.copied = 0
        self.unpriced = Unpriced(predictor.rules)
        self.partial = Counter[str]()  # turns whose output tokens are a part of the truth, by who noted them
        self.reliability = Reliability()
        self._formats: set[str] = set()
        self.lacks: dict[str, list[str]] = {}  # of their prompts, and the formats of such logs
        self.unlike: list[str] = []  # bills that are not learned from
        self.transcripts = self.bodies = 0  # turns that hold no breakpoints, and those that could

    def recording(self, recording: Recording) -> Iterator[PlayedTurn]:
        """Yield every turn of a recording, but copies of those that an earlier one had."""
        self._predictor.begin()
        place = Place(recording.shown, reader=reader_of(recording, self._reader))
        stood, positions = dict[str, int](), dict[str, int | None]()
        left_behind: dict[str, int | None] = {}
        for verdict, ended in verdicts(recording, self._dated.judge(quick=True), place, self._predictor.turn):
            for finding in ended:
                self._late(finding)
            if verdict is None:
                return
            turn, predicted = verdict.turn, verdict.foreseen
            if turn.basis is not None and recording.state.format not in self._formats:
                self._formats.add(recording.state.format)
                self.lacks.setdefault(lacks_of(recording.state.format), []).append(recording.state.format)
            assert predicted is not None, "every turn is predicted"
            left = stood.get(turn.chain) if predicted.situation is None else predicted.situation.cached
            again = played(verdict, predicted.prediction, left_behind.get(turn.chain))
            if not turn.failed:
                left_behind[turn.chain] = again.left
            if turn.usage is not None and not predicted.odd and (there := cached(turn.usage)) is not None:
                stood[turn.chain] = there
            before = positions.get(turn.chain)
            positions[turn.chain] = None if turn.usage is None or predicted.odd else position(turn.usage)
            if self._is_copy(turn):
                continue
            self.reliability.take(verdict, before)
            self._count(turn, predicted)
            predictor, size = self._predictor, predicted.prediction.total
            price = price_of(predictor.rules, turn, model=predictor.model, size=size)
            self.unpriced.take(turn, price, predictor.model)
            partial = turn.usage is not None and is_partial(predictor.rules, turn.usage.client)
            if partial and turn.usage is not None:
                self.partial[turn.usage.client] += 1
            causes = self._causes(verdict, place)
            result = _result(verdict, predicted, price, place, causes, partial=partial)
            self._turns[turn.chain, turn.number] = result
            parts = price.parts(turn.usage) if price and turn.usage and price.of(turn.usage) is not None else {}
            contradicted = _contradicted(turn, predicted)
            paid = again._replace(price=price, reader=place.reader, contradicted=contradicted)
            yield PlayedTurn(result, _row(turn, predicted, left), parts, paid, turn.byte, verdict)
        self._turns.clear()

    def _late(self, finding: Finding) -> None:
        """Add what was found in a whole chain to the turn that it is about."""
        turn = self._turns.get((finding.chain or "", finding.turn or 0))
        if turn is not None:
            turn.causes.append(cause_result(self._worded(finding)))

    def _causes(self, verdict: TurnVerdict, place: Place) -> list[CauseResult]:
        if verdict.pair is None:
            return []
        found = findings_of(verdict.pair, place.of(verdict.turn))
        leading = verdict.leading
        found.sort(key=lambda numbered: numbered[0] != leading)  # stable: the others stay in their order
        return [cause_result(self._worded(finding)) for _, finding in found]

    def _count(self, turn: Turn, predicted: Predicted) -> None:
        """Count a turn by what it holds, and as one of another size than its bill where its cache says so."""
        if is_transcript(turn):
            self.transcripts += 1
        elif takes_breakpoints(predicted.cache):
            self.bodies += 1
        if predicted.odd and turn.usage is not None and not unbelievable(turn.usage):
            self.unlike.append(f"turn {turn.number}: {predicted.odd}")

    def _is_copy(self, turn: Turn) -> bool:
        name = turn.response_id
        if not name:
            return False
        copied = name in self._responses
        self._responses.add(name)
        self.copied += copied
        return copied


def _contradicted(turn: Turn, predicted: Predicted) -> bool:
    """Tell whether a bill that can be, from the cache that is simulated, is not one of this body."""
    usage = turn.usage
    if not predicted.odd or usage is None or usage.contradiction or unbelievable(usage):
        return False
    return predicted.cache == cache_of(turn, served_by(turn))


def _result(
    verdict: TurnVerdict, predicted: Predicted, price: Price | None, place: Place, causes: list[CauseResult], *,
    partial: bool,
) -> SimulatedTurn:  # fmt: skip
    turn, prediction = verdict.turn, _bounded(predicted, verdict.turn.usage)
    usage, provider = turn.usage, turn.verdict
    return SimulatedTurn(
        turn=turn.number, chain=turn.chain, at=turn.at, model=turn.model, cache=predicted.cache or None,
        predicted=PredictedResult(
            read_tokens=prediction.read, write_tokens=prediction.write, uncached_tokens=prediction.uncached,
            confidence=prediction.confidence, reason=prediction.reason,
            probability=None if prediction.read is None else round(prediction.probability, _DIGITS),
            outcomes=_outcomes(prediction),
        ),
        billed=None if usage is None else UsageResult.of(usage, partial=partial),
        other_passes=UsageResult.sum_of(usage.iterations) if usage is not None and usage.iterations else UNSET,
        verdict=None if provider is None else VerdictResult(provider.reason, provider.missed_tokens, provider.source),
        causes=causes, cost=None if price is None else _cost(price, verdict, prediction),
        lost_tokens=verdict.lost_tokens, waste_tokens=verdict.wasted_tokens,
        unexplained_tokens=verdict.unexplained_tokens, foreseen=verdict.was_foreseen, line=turn.line,
        path=turn.file or place.path,
    )  # fmt: skip


_DIGITS = 4  # of a probability


def _outcomes(prediction: Prediction) -> list[OutcomeResult]:
    """Return what may be read; rounded, the first has what the others leave, so that the sum stays 1.

    First stands what is predicted: others within what is no drop of it count for it. Behind it the likeliest is first.
    """
    if prediction.read is None:
        return []
    if not prediction.outcomes:
        return [OutcomeResult(prediction.read, 1.0, prediction.reason)]
    first, *rest = prediction.outcomes
    rest.sort(key=lambda outcome: -outcome.probability)
    others = [OutcomeResult(read, round(probability, _DIGITS), why) for read, probability, why in rest]
    left = round(1.0 - sum(outcome.probability for outcome in others), _DIGITS)
    return [OutcomeResult(first.read, left, first.why), *others]


def _bounded(predicted: Predicted, usage: Usage | None) -> Prediction:
    """Return a prediction as it is shown: no read of it is above all that the request asked, by its bill.

    How large a request is says nothing of the cache. What is compared with the bill stays what was predicted.
    """
    prediction = predicted.prediction
    size = None if usage is None or predicted.odd else total(usage.first_pass)
    if (
        size is None
        or prediction.read is None
        or max([prediction.read, *(outcome.read for outcome in prediction.outcomes)]) <= size
    ):
        return prediction
    outcomes = tuple([outcome._replace(read=min(outcome.read, size)) for outcome in prediction.outcomes])
    if prediction.read <= size:
        return prediction._replace(outcomes=outcomes)
    hour = None if prediction.write_1h is None else 0
    return prediction._replace(read=size, write=0, uncached=0, write_1h=hour, outcomes=outcomes)


def _cost(price: Price, verdict: TurnVerdict, prediction: Prediction) -> Cost:
    usage = verdict.turn.usage
    output = 0 if usage is None else usage.first_pass.output_tokens
    tokens = Usage(prediction.uncached, prediction.read, prediction.write, output, None, prediction.write_1h)
    if usage is not None:  # later passes and tools are not predicted: they cost what they were billed
        tokens = _met_otherwise(usage, tokens)
    predicted = price.of(tokens)
    billed = None if usage is None else price.of(usage)
    return Cost(
        currency=CURRENCY, billed=None if billed is None else float(billed),
        predicted=None if predicted is None else float(predicted),
        waste=paid_again(price, usage, verdict.wasted_tokens),
        unexplained=paid_again(price, usage, verdict.unexplained_tokens),
    )  # fmt: skip


def _met_otherwise(usage: Usage, tokens: Usage) -> Usage:
    """Return a bill of which the pass that met what stood in the cache has other counts."""
    met = usage.first_pass
    if met is usage:
        return replace(tokens, iterations=usage.iterations, server_tools=usage.server_tools)
    passes = [iteration.with_counts(tokens) if iteration is met else iteration for iteration in usage.iterations]
    return replace(usage, iterations=tuple(passes))


def _row(turn: Turn, predicted: Predicted, stood: int | None) -> Transition | None:
    read = met_read(turn.usage)
    if predicted.odd or stood is None or read is None or not predicted.cache:
        return None
    prompted = predicted.situation is not None and predicted.situation.grown.prompted
    prediction = predicted.prediction
    return Transition(read, prediction.read, stood, prediction.falls_below(stood), prompted)
