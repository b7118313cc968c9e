"""`lore simulate`: predictions and usage turn by turn, for each cache; and savings of changes.

A change is simulated by the same models over the same recordings, and saves the difference between the two
simulations. Without `--what-if` the fixes of the causes found are ranked, which needs no second simulation; a bare
`--what-if` also simulates the changes that do.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from msgspec.structs import replace

from lore.cache.falls import fall_table
from lore.cache.predictor import NO_CHANGE, Predictor, WhatIf
from lore.cache.registry import BROUGHT, CACHES
from lore.cache.rules import DatedRules
from lore.errors import LoreError, lacks_plug_in
from lore.judge import what_if
from lore.judge.agreement import SimulatedSums
from lore.judge.what_if import NotedSaving, PaidTurn, SimulatedRun, turns_of
from lore.model.codes import Code, Problem
from lore.model.results import Interruption
from lore.model.results.simulate import SimulatedTurn, SimulateResult
from lore.recording import corpus
from lore.recording.agents.logs import project_of
from lore.recording.base import Problems, UnrecognisedError, load_plugins
from lore.recording.inputs import Input, ahead, inputs, join_bodies, open_input
from lore.report.sentences.findings import describe_missing, describe_random_cache
from lore.run.checking.check import EVERY_FILE, CheckRun
from lore.run.checking.verdicts import CheckContext, InterruptedRunError
from lore.run.measured import MeasuredRun, Measuring, read_logs
from lore.run.recent import no_recordings
from lore.run.rules import output_note, stale
from lore.run.simulation import PlayedTurn, Simulation

RANK = ""  # a change without a value: rank every fix


def simulate(
    paths: list[str], context: CheckContext, run: CheckRun = EVERY_FILE, *, caches: Sequence[str] = (),
    changes: Sequence[str] = (), measured: Sequence[str] = (),
) -> Iterator[SimulateResult]:  # fmt: skip
    """Yield a result for each of the caches (none: for the cache that served each turn).

    `changes` are `KEY=VALUE` or `RANK`, `measured` the logs of the engines that served these recordings. Raises
    LoreError for a named file that is not a recording. If the run is interrupted, the last result holds the turns up to
    there, and no savings.
    """
    load_plugins()
    options = context.options
    listed = [replace(file, optional=run.pass_over) for file in inputs(paths, run.wanted)]
    files = join_bodies(listed, options.format)
    once = any(file.stream for file in files)
    if once and (len(caches) > 1 or any(change != RANK for change in changes)):
        hint = "save it to a file: several caches and changes need more than one look"
        raise LoreError("standard input and pipes can be read once only", hint=hint)
    problems = Problems()
    logs = read_logs(measured, files, options, problems)
    made = [(text, what_if.change_of(text, caches)) for text in changes if text != RANK]
    for cache in caches or (None if logs is None else logs.cache,):
        simulator = _Simulator(paths[0], context, run, changes, files, cache, logs, problems.kept)
        base = simulator.run()
        if base.result.interrupted:
            yield base.result
            return
        try:
            yield _with_savings(base, simulator, made, once=once)
        except InterruptedRunError:
            yield replace(base.result, interrupted=Interruption(len(files), len(files)))
            return


simulate_recordings = simulate  # the public name: `lore.run.simulate` is this module


class _Simulator(NamedTuple):
    """Simulates the same files in one cache, as they were recorded and with changes."""

    path: str  # the first that was named
    context: CheckContext
    callbacks: CheckRun
    asked: Sequence[str]  # changes, as they were named
    files: Sequence[Input]
    cache: str | None
    measured: MeasuredRun | None
    problems: Sequence[Problem]  # of the logs of engines

    def run(self, change: WhatIf = NO_CHANGE) -> SimulatedRun:
        """Simulate all files; raises InterruptedRunError if a change is not simulated to the end."""
        context, rules, counter = self.context, self.context.dated.rules(), self.context.options.counter
        predictor = Predictor(rules, self.cache, change, None if counter is None else counter.count)
        simulation = Simulation(predictor, dated=context.dated, reader=context.reader, redact=context.redact)
        measuring = None if self.measured is None else self.measured.play()
        sums, turns, found = SimulatedSums(), list[PaidTurn](), list(self.problems)
        size, begun, done, recordings, stopped = sum(file.size for file in self.files), 0, 0, 0, False
        for file in ahead(self.files):
            begun, problems = begun + 1, Problems()
            try:
                for turn, project in self._turns(file, problems, simulation, measuring):
                    sums.add(turn.result, turn.row, turn.parts, project)
                    turns.append(turn.paid)
                    self.callbacks.report(size, done, turn.verdict.turn.byte or 0)
                recordings += 1
            except InterruptedRunError:
                stopped = True
            except LoreError as error:
                recordings += self._skip(file, error, problems)
            found.extend(problems.kept)
            done += file.size
            if stopped or (stopped := self.callbacks.is_interrupted()):
                break
        if stopped and change is not NO_CHANGE:
            raise InterruptedRunError
        if not recordings and not stopped:
            raise no_recordings(self.path, self.callbacks.looked, by_time=self.callbacks.wanted is not None)
        as_of = None if rules.as_of is None else rules.as_of.isoformat()
        notes = _notes(sums.turns, rules, simulation)
        result = sums.result(self.cache, as_of, simulation.reliability.results(), notes, found)
        if measuring is not None:
            result = replace(result, measured=measuring.result())
        if stopped:
            result = replace(result, interrupted=Interruption(begun, len(self.files)))
        return SimulatedRun(result, turns, predictor.change_counts, simulation.transcripts, simulation.bodies)

    def _skip(self, file: Input, error: LoreError, problems: Problems) -> int:
        """Return 1 for a recording that could not be read, 0 for a file of another kind; raise if it was named."""
        is_other = isinstance(error, UnrecognisedError)
        if file.named and not (is_other and file.optional):
            raise error
        if is_other:
            self.context.options.log(f"{corpus.show(file.path)}: not a recording, skipped")
            return 0
        problems.add(Problem(Code.UNREADABLE_FILE, error.message), corpus.show(file.path))
        return 1

    def _turns(
        self, file: Input, problems: Problems, simulation: Simulation, measuring: Measuring | None
    ) -> Iterator[tuple[PlayedTurn, str]]:
        """Yield the turns of a file, each with its project."""
        if file.error is not None:
            raise file.error
        opened, shown = None if file.together else corpus.open_head(file.path), corpus.show(file.path)
        project = None if opened is None or file.stream else project_of(opened.head, file.path)
        recording = open_input(file, self.context.options, problems, opened)
        played = simulation.recording(recording)
        for turn in played if measuring is None else measuring.follow(recording, played):
            path = turn.result.path
            known = project if path == shown else None  # a recording of several files names no project
            yield turn, known or os.path.basename(os.path.dirname(os.path.abspath(path))) or "/"


def _with_savings(
    base: SimulatedRun, simulator: _Simulator, changes: Sequence[tuple[str, WhatIf | None]], *, once: bool
) -> SimulateResult:  # fmt: skip
    """Return the result with the savings of the changes that were asked for, else of the causes found."""
    asked, saved, notes = simulator.asked, list[NotedSaving](), list[str]()
    ranked = list(what_if.rank_causes(base)) if RANK in asked or not asked else []
    for text, change in changes:  # a cause (without change) needs no second simulation
        without = change is None
        saved.append(
            what_if.without_causes(base, text) if without else what_if.compare_runs(text, base, simulator.run(change))
        )
    if RANK in asked:
        for text, applies in ((what_if.TTL, base.expired), (what_if.AUTO, bool(base.bodies))):
            if applies and once:
                notes.append(f"not simulated: {text}, since standard input and pipes can be read once only")
            elif applies:
                run = simulator.run(what_if.change_of(text, ()) or NO_CHANGE)
                ranked.append(what_if.compare_runs(text, base, run))
        notes = [*what_if.describe_left_out(base), *notes]
    elif not asked:
        ranked = [(saving, words) for saving, words in ranked if saving.saves]
    if once or not asked:
        notes += what_if.suggest_longer_life(base.result)
    every = [*(note for _, words in (*saved, *ranked) for note in words), *notes]
    fixes = [saving for saving, _ in ranked]
    fixes.sort(key=lambda saving: (-(saving.saved or 0.0), -saving.tokens, saving.change))
    return replace(base.result, what_if=[*(saving for saving, _ in saved), *fixes], notes=[*base.result.notes, *every])


def _notes(turns: Sequence[SimulatedTurn], rules: DatedRules, simulation: Simulation) -> Iterator[str]:
    """Yield what limits the result."""
    old = stale(rules, max((turn.at for turn in turns if turn.at is not None), default=None))
    if old is not None:
        yield old
    billed = {turn.path for turn in turns if turn.billed is not None}
    bare = sum(turn.path not in billed and turn.predicted.read_tokens is not None for turn in turns)
    if bare:
        yield f"counted with o200k_base: {turns_of(bare)} without usage; other tokenizers differ by up to 35 %"
    unknown = sum(turn.cache is None for turn in turns)
    if unknown:
        yield f"not predicted: {turns_of(unknown)} of an unknown provider (--cache NAME chooses a cache)"
    for cache in sorted({turn.cache for turn in turns if turn.cache and turn.cache not in CACHES}):
        missing = lacks_plug_in(BROUGHT[cache], f"the cache {cache!r}").message
        yield f"not predicted: {turns_of(sum(turn.cache == cache for turn in turns))}; {missing}"
    for cache in sorted({turn.cache for turn in turns if turn.cache in CACHES and simulation.transcripts}):
        counted = fall_table().random.get(CACHES[cache].provider)
        if counted is not None:
            yield describe_random_cache(cache, counted.fell, counted.seen)
    for what, formats in simulation.lacks.items():
        if what:
            yield describe_missing(formats, what)
    if simulation.unlike:
        yield f"not learned from: usage of {turns_of(len(simulation.unlike))} ({simulation.unlike[0]})"
    yield from simulation.unpriced.notes()
    if simulation.copied:
        yield f"counted once: {turns_of(simulation.copied)} that other files hold as well"
    if simulation.partial:
        yield output_note(simulation.partial, rules)
