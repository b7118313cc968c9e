"""Predict the turns of recordings in a cache, and compare each prediction with the usage and the verdict.

`Simulation` takes recordings one after another, in the order of `by_start`. A prediction is made before its usage is
read. A turn that an earlier recording has, too, is predicted, since it leaves entries in the cache, and not reported
again. Cost O(new content of each turn) for transcripts, O(bytes) for recorded requests.

`simulate` makes a simulation of all files for each cache, and one more for each change (`--what-if`) that needs it: the
change saves the difference. Without changes the fixes of the causes found are ranked, from the first simulation alone;
a bare `--what-if` ranks also changes that need another one. Logs of engines (`--measured`) are read by a plug-in.
"""

from __future__ import annotations

import os
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from decimal import Decimal
from typing import Any, NamedTuple

from msgspec import UNSET
from msgspec.structs import replace

from lore.cache.base import Prediction
from lore.cache.counts import LONG_PROMPT, cached, first_pass_read, reason_to_doubt
from lore.cache.falls import fall_table
from lore.cache.predictor import NO_CHANGE, Predictor, WhatIf
from lore.cache.registry import BROUGHT, CACHES, takes_breakpoints
from lore.cache.rules import DatedRules, Price, is_partial, recorded_output
from lore.cache.served import cache_of, is_transcript, served_by
from lore.cache.transcripts import Predicted
from lore.errors import LoreError, lacks_plug_in
from lore.formats.registry import lacks_of
from lore.judge import what_if
from lore.judge.agreement import MissingPrices, Reliability, SimulatedSums, Transition
from lore.judge.base import TurnVerdict
from lore.judge.findings import leading_of, turn_findings
from lore.judge.prices import CURRENCY, paid_again, price_of, speed_surcharge, surcharge_of
from lore.judge.sums import Copies, Sums
from lore.judge.what_if import NotedSaving, PaidTurn, SimulatedRun, make_paid_turn
from lore.model.cause import Place
from lore.model.codes import Audience, Code, Problem
from lore.model.events import SUMMED_COUNTS, Usage
from lore.model.fact import count_of, join_names
from lore.model.ledger import UnloggedWork
from lore.model.results import Interruption, Surcharge, UsageResult, VerdictResult, copy_fields
from lore.model.results.simulate import Cost, PredictedResult, SimulatedTurn, SimulateResult
from lore.recording import corpus, inputs
from lore.recording.agents.limits import plan_notes
from lore.recording.agents.logs import project_of
from lore.recording.base import Problems, Recording, load_plugins
from lore.report.commands import compaction_advice
from lore.report.overview import describe_missing_cost
from lore.report.redacted import causes_of, digest, redacted_model
from lore.report.sentences import describe_missing, describe_random_cache
from lore.report.simulation import engine_measures
from lore.run.arguments import no_recordings
from lore.run.checking.check import EVERY_FILE, CheckRun
from lore.run.checking.verdicts import CheckContext, InterruptedRunError, audience_of, verdicts
from lore.run.rules import PACKAGED, Dated
from lore.run.spending.overview import absent_work, logged_work, sum_absent


class PlayedTurn(NamedTuple):
    """One simulated turn."""

    result: SimulatedTurn
    row: Transition | None  # the predicted and the billed read; None if they cannot be compared
    parts: dict[str, Decimal]  # cost by kind of price
    paid: PaidTurn  # the turn as a what-if replays it
    verdict: TurnVerdict


class Simulation:
    """Simulate recordings in order: what one leaves in the cache, the next may read.

    `audience` is the audience for fixes (None: chosen by the format). With `redact` no cause holds content.
    """

    def __init__(
        self, predictor: Predictor, *, dated: Dated = PACKAGED, audience: Audience | None = None, redact: bool = False
    ) -> None:  # fmt: skip
        self._predictor, self._dated = predictor, dated
        self._audience: Audience | None = audience
        self.redact = redact
        self.copies, self._recordings = Copies(), 0
        self._turns: dict[tuple[str, int], SimulatedTurn] = {}  # of the current recording
        self.transcripts = 0  # turns of transcripts, which record no breakpoints
        self.bodies = 0  # turns whose requests can have breakpoints
        self.lacks: dict[str, list[str]] = {}  # parts of prompts that are not recorded, with the formats
        self.contradicting: list[str] = []  # turns whose usage contradicts their body; the predictor ignores it
        self.partial = Counter[str]()  # turns with a part of the output tokens recorded, by client
        self.unpriced = MissingPrices(predictor.rules)
        self.reliability = Reliability()
        self.unlogged: list[tuple[str, UnloggedWork]] = []  # a recording, and work that it mentions and does not hold

    def recording(self, recording: Recording) -> Iterator[PlayedTurn]:
        """Yield the recording's turns, skipping turns already seen in an earlier recording."""
        self._predictor.begin_recording()
        self._turns.clear()
        self._recordings += 1
        place = Place(recording.shown, audience=audience_of(recording, self._audience))
        # What the previous turns of each chain left in the cache, in tokens: by the latest usage that is not in doubt,
        # and by the previous turn's usage, else by its prediction.
        chains, billed, left, is_noted = set[str](), dict[str, int](), dict[str, int | None](), False
        for verdict, findings in verdicts(recording, self._dated.judge(quick=True), place, self._predictor.predict):
            for finding in findings:  # about a whole chain: its cause is added to the turn that it names
                if (cause_turn := self._turns.get((finding.chain or "", finding.turn or 0))) is not None:
                    cause_turn.causes.extend(causes_of([finding], redact=self.redact))
            if verdict is None:
                works: dict[str, UnloggedWork] = getattr(recording.reader, "unlogged", {})
                self.unlogged += [(recording.shown, work) for name, work in works.items() if name not in chains]
                return
            turn, predicted = verdict.turn, verdict.predicted
            assert predicted is not None, "every turn is predicted"
            chains.add(turn.chain)
            if turn.basis is not None and not is_noted:
                is_noted = True
                name = recording.state.format
                if not any(name in formats for formats in self.lacks.values()):
                    self.lacks.setdefault(lacks_of(name, turn.basis), []).append(name)
            state, read, transition = predicted.state, first_pass_read(turn.usage), None
            available = billed.get(turn.chain) if state is None else state.cached
            if not predicted.doubt and available is not None and read is not None and predicted.cache:
                prompted = state is not None and state.grown.prompted
                transition = Transition(read, predicted.prediction.read, available, prompted)
            paid = make_paid_turn(verdict, predicted.prediction, left.get(turn.chain))
            if not predicted.doubt and (tokens := cached(turn.usage)) is not None:
                billed[turn.chain] = tokens
            if not turn.failed:
                left[turn.chain] = paid.cached_tokens
            inherited = bool(turn.call.inherited_from)
            if not self.copies.has_response(turn.response_id, str(self._recordings), is_inherited=inherited):
                self.reliability.take(verdict)
                yield self._make_played_turn(verdict, predicted, transition, paid, place)

    def _make_played_turn(
        self, verdict: TurnVerdict, predicted: Predicted, transition: Transition | None, paid: PaidTurn, place: Place
    ) -> PlayedTurn:  # fmt: skip
        """Return the result of a turn that is not a copy, and count it."""
        turn, usage, predictor = verdict.turn, verdict.turn.usage, self._predictor
        price = price_of(predictor.rules, turn, model=predictor.model, size=predicted.prediction.total)
        partial = usage is not None and is_partial(predictor.rules, usage.client)
        if is_transcript(turn):
            self.transcripts += 1
        elif takes_breakpoints(predicted.cache):
            self.bodies += 1
        contradicted = False
        if predicted.doubt and usage is not None and not reason_to_doubt(usage):
            self.contradicting.append(f"{turn.file or place.path} turn {turn.number}: {predicted.doubt}")
            contradicted = not usage.contradiction and predicted.cache == cache_of(turn, served_by(turn))
        if partial and usage is not None:
            self.partial[usage.client] += 1
        self.unpriced.add(turn, price, predictor.model)
        parts, is_whole = price.split(usage) if price and usage and usage.is_billed else ({}, False)
        prediction = predicted.limited_to(usage)
        cost = _cost(price, verdict, prediction, sum(parts.values(), Decimal(0)), is_whole=is_whole and not partial)
        surcharge = None if cost is None or predictor.model else surcharge_of(predictor.rules, turn, price)
        if cost is not None and price is not None and surcharge is not None:
            cost = replace(cost, surcharges=[Surcharge(surcharge[0], 1, surcharge[1])])
            paid = paid._replace(speed=speed_surcharge(predictor.rules, turn, price))
        result = _result(verdict, predicted.cache, prediction, cost, place, partial=partial, redact=self.redact)
        self._turns[turn.chain, turn.number] = result
        paid = paid._replace(price=price, audience=place.audience, contradicted=contradicted)
        return PlayedTurn(result, transition, parts, paid, verdict)


def _result(
    verdict: TurnVerdict, cache: str, prediction: Prediction, cost: Cost | None, place: Place, *, partial: bool,
    redact: bool,
) -> SimulatedTurn:  # fmt: skip
    """Return a turn as it is reported; its leading cause comes first."""
    turn, usage = verdict.turn, verdict.turn.usage
    findings = [] if verdict.pair is None else turn_findings(verdict.pair, place.of(turn))
    leading = leading_of(findings)
    findings.sort(key=lambda finding: finding is not leading)
    return SimulatedTurn(
        turn=turn.number, chain=turn.chain, at=turn.at, model=turn.model, cache=cache or None,
        predicted=PredictedResult(
            read_tokens=prediction.read, write_tokens=prediction.write, uncached_tokens=prediction.uncached,
            confidence=prediction.confidence, reason=prediction.reason,
        ),
        billed=None if usage is None else UsageResult.of(usage, partial=partial),
        other_passes=UsageResult.of_other_passes(usage),
        verdict=None if turn.verdict is None else copy_fields(VerdictResult, turn.verdict),
        causes=causes_of(findings, redact=redact), cost=cost,
        lost_tokens=verdict.lost_tokens, waste_tokens=verdict.wasted_tokens,
        unexplained_tokens=verdict.unexplained_tokens, foreseen=verdict.was_foreseen, line=turn.line,
        path=turn.file or place.path,
    )  # fmt: skip


def _cost(
    price: Price | None, verdict: TurnVerdict, prediction: Prediction, paid: Decimal, *, is_whole: bool
) -> Cost | None:  # fmt: skip
    """Return the cost of a turn, as far as counts and prices are known; None if nothing is known of it.

    `paid` is what its usage costs; `is_whole`: no count or price is missing, and the output is not recorded in part.
    """
    usage = verdict.turn.usage
    recorded = usage.recorded_dollars or UNSET if usage is not None else UNSET
    if price is None:
        billed = 0.0 if usage is not None and usage.is_billed and usage.is_empty else None
        if recorded is UNSET and billed is None:
            return None
        return Cost(currency=CURRENCY, billed=billed, predicted=None, waste=None, recorded=recorded)
    output = 0 if usage is None else usage.first_pass.output_tokens
    tokens = Usage(prediction.uncached, prediction.read, prediction.write, output, None, prediction.write_1h)
    is_sum = usage is not None and usage.is_sum  # so that no request can be predicted
    if usage is not None:  # later passes and tools cost the billed amount
        first = usage.first_pass
        passes = [part.with_counts(tokens) if part is first else part for part in usage.iterations]
        whole = replace(tokens, server_tools=usage.server_tools) if first is usage else usage
        tokens = replace(whole, iterations=usage.iterations if first is usage else tuple(passes))
    predicted = None if is_sum else price.of(tokens)
    is_billed = usage is not None and usage.is_billed
    return Cost(
        currency=CURRENCY, billed=float(paid) if is_billed else None,
        predicted=None if predicted is None else float(predicted),
        waste=paid_again(price, usage, verdict.wasted_tokens),
        unexplained=paid_again(price, usage, verdict.unexplained_tokens),
        at_least=True if is_billed and not is_whole else UNSET, recorded=recorded,
    )  # fmt: skip


_LEAST_SAVING = 0.001  # of the cost: nobody changes a setting for less
RANK = ""  # a bare `--what-if`: rank every fix


def simulate(
    paths: list[str], context: CheckContext, run: CheckRun = EVERY_FILE, *, caches: Sequence[str] = (),
    changes: Sequence[str] = (), measured: Sequence[str] = (),
) -> Iterator[SimulateResult]:  # fmt: skip
    """Yield a result for each of the caches; without any, one for the caches that served the turns.

    `changes` are `KEY=VALUE` or `RANK`, `measured` paths of logs of the engines that served these recordings. Raises
    LoreError for a wrong change, cache or log, and if no named file is a recording. If the run is interrupted, the last
    result holds the turns up to there, and no savings.
    """
    load_plugins()
    options = context.options
    all_files = [replace(file, optional=run.pass_over) for file in inputs.inputs(paths, run.accepts)]
    all_files = inputs.join_bodies(inputs.drop_copies(all_files, options), options.format)
    files = inputs.by_start(all_files, lambda file: file)
    has_stream = any(file.stream for file in files)
    if has_stream and (len(caches) > 1 or any(change != RANK for change in changes)):
        hint = "save it to a file: several caches and changes need more than one look"
        raise LoreError("standard input and pipes can be read once only", hint=hint)
    problems = Problems()
    engines = engine_measures()
    if engines is None and measured:
        raise lacks_plug_in("engines", "--measured")
    logs = None if engines is None else engines.read(measured, files, options, problems)
    what_ifs = [(text, what_if.parse_change(text, caches)) for text in changes if text != RANK]
    for cache in caches or (None if logs is None else logs.cache,):
        simulator = _Simulator(paths[0], context, run, changes, files, cache, logs, problems.kept)
        base = simulator.run()
        if base.result.interrupted:
            yield base.result
            return
        try:
            yield _with_savings(base, simulator, what_ifs, has_stream=has_stream)
        except InterruptedRunError:
            yield replace(base.result, interrupted=Interruption(len(files), len(files)))
            return


class _Simulator(NamedTuple):
    """Simulates the same files in one cache, as they were recorded and with changes."""

    path: str  # the first that was named
    context: CheckContext
    job: CheckRun
    change_texts: Sequence[str]  # changes as typed
    files: Sequence[inputs.Input]
    cache: str | None  # None: the one that served each turn
    measured: Any  # of the logs of engines, as `lore.report.simulation` says; None: there are none
    problems: Sequence[Problem]  # of the logs of engines

    def run(self, change: WhatIf = NO_CHANGE) -> SimulatedRun:
        """Simulate all files; raises InterruptedRunError if a change is not simulated to the end."""
        context, rules, counter = self.context, self.context.dated.rules(), self.context.options.counter
        predictor = Predictor(rules, self.cache, change, None if counter is None else counter.count)
        simulation = Simulation(predictor, dated=context.dated, audience=context.audience, redact=context.redact)
        measuring = None if self.measured is None else self.measured.play()
        sums, turns, all_problems = SimulatedSums(), list[PaidTurn](), list(self.problems)
        problem_count = len(all_problems)
        size, count, done_bytes, recordings, stopped = sum(file.size for file in self.files), 0, 0, 0, False
        for file in inputs.ahead(self.files):
            count, problems = count + 1, Problems()
            try:
                for turn, project in self._turns(file, problems, simulation, measuring):
                    sums.add(turn.result, turn.row, turn.parts, project)
                    turns.append(turn.paid)
                    self.job.report(size, done_bytes, turn.verdict.turn.byte or 0)
                recordings += 1
            except InterruptedRunError:
                stopped = True
            except LoreError as error:
                if inputs.is_passed_over(file, error):
                    context.options.log(f"{corpus.show(file.path)}: not a recording, skipped")
                    problems = Problems()  # it has none: it was only taken for one at first
                elif file.is_only:
                    raise
                else:
                    recordings += 1
                    problems.add(Problem(Code.UNREADABLE_FILE, error.message), corpus.show(file.path))
            all_problems.extend(problems.kept)
            problem_count += problems.total
            done_bytes += file.size
            if stopped or (stopped := self.job.is_interrupted()):
                break
        if stopped and change is not NO_CHANGE:
            raise InterruptedRunError
        if not recordings and not stopped:
            raise no_recordings(self.path, self.job.looked, by_time=self.job.accepts is not None)
        as_of = None if rules.as_of is None else rules.as_of.isoformat()
        logged = logged_work(file.path for file in self.files)  # other subagents and summaries are in no file
        works = [work for session, found in simulation.unlogged for work in absent_work([found], session, logged)]
        sums_of_absent = sum_absent({work.name: work for work in works}.values())
        absent = describe_missing_cost(replace(Sums().result(""), **sums_of_absent))
        notes = [*_notes(sums.turns, rules, simulation), *filter(None, [absent])]
        result = sums.result(self.cache, as_of, simulation.reliability.results(), notes, all_problems, problem_count)
        if absent and result.totals.cost.billed is not None:
            cost = replace(result.totals.cost, at_least=True)
            result = replace(result, totals=replace(result.totals, cost=cost))
        if measuring is not None:
            result = replace(result, measured=measuring.result())
        if stopped:
            result = replace(result, interrupted=Interruption(count, len(self.files)))
        return SimulatedRun(result, turns, predictor.change_counts, simulation.bodies)

    def _turns(
        self, file: inputs.Input, problems: Problems, simulation: Simulation, measuring: Any
    ) -> Iterator[tuple[PlayedTurn, str]]:
        """Yield the turns of a file, each with its project."""
        if file.error is not None:
            raise file.error
        opened, label = None if file.together else corpus.open_head(file.path), corpus.show(file.path)
        project = None if opened is None or file.stream else project_of(opened.head, file.path)
        recording = inputs.open_input(file, self.context.options, problems, opened)
        played = simulation.recording(recording)
        for turn in played if measuring is None else measuring.follow(recording, played):
            path = turn.result.path
            turn_project = project if path == label else None  # a recording of several files names no project
            yield turn, turn_project or os.path.basename(os.path.dirname(os.path.abspath(path))) or "/"


def _with_savings(
    base: SimulatedRun, simulator: _Simulator, changes: Sequence[tuple[str, WhatIf | None]], *, has_stream: bool
) -> SimulateResult:  # fmt: skip
    """Return the result with the savings of the requested changes; without any, of removing each cause that cost."""
    change_texts, saved, notes = simulator.change_texts, list[NotedSaving](), list[str]()
    ranked = list(what_if.list_savings(base)) if RANK in change_texts or not change_texts else []
    for text, change in changes:
        if change is not None:
            saved.append(what_if.compare_runs(text, base, simulator.run(change)))
        elif text.lstrip().startswith("speed"):
            saved.append(what_if.compute_speed_saving(base))
        else:
            saved.append(what_if.compute_cause_saving(base, text))
    if RANK in change_texts:
        for text in base.worth_trying:
            if has_stream:
                notes.append(f"not simulated: {text}, since standard input and pipes can be read once only")
            else:
                run = simulator.run(what_if.parse_change(text, ()) or NO_CHANGE)
                ranked.append(what_if.compare_runs(text, base, run))
        notes = [*what_if.describe_left_out(base), *notes]
        if not saved and not ranked and not has_stream:
            notes.insert(0, "no saving found: no fix and no setting that --what-if simulates saves anything here")
    elif not change_texts:
        cost = base.result.totals.cost
        least = _LEAST_SAVING * (cost.billed or cost.predicted or 0.0)
        ranked = [entry for entry in ranked if entry[0].saves and (entry[0].saved is None or entry[0].saved >= least)]
    if has_stream or not change_texts:
        notes += what_if.suggest_longer_life(base.result)
    texts = [*(note for _, words in (*saved, *ranked) for note in words), *notes]
    fixes = [saving for saving, _ in ranked]
    fixes.sort(key=lambda saving: (-(saving.saved or 0.0), -saving.tokens, saving.change))
    return replace(base.result, what_if=[*(saving for saving, _ in saved), *fixes], notes=[*base.result.notes, *texts])


def _notes(turns: Sequence[SimulatedTurn], rules: DatedRules, simulation: Simulation) -> Iterator[str]:
    """Yield notes on the limits of the result: old rules, turns without usage, caches that are not simulated."""
    newest = max((turn.at for turn in turns if turn.at is not None), default=None)
    if rules.is_older_than(newest):
        yield f"recorded after {rules.as_of}, the day of the rules and prices: they may have changed since"
    billed = {turn.path for turn in turns if turn.billed is not None}
    unbilled = sum(turn.path not in billed and turn.predicted.read_tokens is not None for turn in turns)
    if unbilled:
        which = f"{count_of(unbilled, 'turn')} without usage"
        yield f"counted with o200k_base: {which}; other tokenizers differ by up to 35 %"
    unknown_count = sum(turn.cache is None for turn in turns)
    if unknown_count:
        yield f"not predicted: {count_of(unknown_count, 'turn')} of an unknown provider (--cache NAME chooses a cache)"
    for cache in sorted({turn.cache for turn in turns if turn.cache and turn.cache not in CACHES}):
        missing = lacks_plug_in(BROUGHT[cache], f"the cache {cache!r}").message
        yield f"not predicted: {count_of(sum(turn.cache == cache for turn in turns), 'turn')}; {missing}"
    for cache in sorted({turn.cache for turn in turns if turn.cache in CACHES and simulation.transcripts}):
        falls = fall_table().random.get(CACHES[cache].provider)
        if falls is not None:
            yield describe_random_cache(cache, falls.fell, falls.seen)
    for what, formats in simulation.lacks.items():
        if what:
            yield describe_missing(formats, what)
    if simulation.contradicting:
        which = count_of(len(simulation.contradicting), "turn")
        yield f"not learned from: usage of {which} ({simulation.contradicting[0]})"
    yield from simulation.unpriced.notes(*(redacted_model, digest) if simulation.redact else ())
    yield from plan_notes(("", path) for path in dict.fromkeys(turn.path for turn in turns))
    if simulation.copies.count:
        yield f"not counted: {count_of(simulation.copies.count, 'turn')} inherited or copied from other sessions"
    shares = defaultdict[str, list[str]](list)  # clients by the share of the output that they noted
    for client in sorted(simulation.partial):
        share = recorded_output(rules, client)
        shares[f"about {100 * share:.0f} %" if isinstance(share, Decimal) else "an unknown part"].append(client)
    if shares:
        noted = "; ".join(f"{part} by {join_names(clients, 2)}" for part, clients in shares.items())
        which = count_of(simulation.partial.total(), "turn")
        yield f"output is recorded in part in {which}, so its cost is too low ({noted})"
    billed_turns = ((turn.path, turn.billed) for turn in turns if turn.billed is not None and simulation.transcripts)
    sizes = ((path, sum(getattr(billed, name) or 0 for name in SUMMED_COUNTS[:3])) for path, billed in billed_turns)
    hits = Counter(path for path, size in sizes if size > LONG_PROMPT)
    for path, count in hits.most_common(1):
        yield from (f"{purpose}: {command}" for command, purpose in compaction_advice(count, path))
