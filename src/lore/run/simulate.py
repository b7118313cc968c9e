"""`lore simulate`: predictions and usage turn by turn, for each cache; and savings of changes.

A change is simulated by the same models over the same recordings, and saves the difference between the two
simulations. Without `--what-if` the fixes of the causes found are ranked, which needs no second simulation; a bare
`--what-if` also simulates the changes that do.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from msgspec.structs import replace

from lore.cache.falls import random_reads
from lore.cache.predictor import NO_CHANGE, Predictor, WhatIf
from lore.cache.registry import BROUGHT, CACHES, is_known
from lore.cache.rules import DatedRules
from lore.errors import LoreError, lacks_plug_in
from lore.judge import what_if
from lore.judge.agreement import SimulatedSums
from lore.judge.what_if import NotedSaving, PaidTurn, SimulatedRun, turns_of
from lore.model.codes import Code, Problem, Reader
from lore.model.results import Interruption
from lore.model.results.simulate import Saving, SimulatedTurn, SimulateResult
from lore.recording import corpus
from lore.recording.agents.logs import project_of
from lore.recording.base import Problems, UnrecognisedError, load_plugins
from lore.recording.inputs import Input, ahead, inputs
from lore.recording.joining import join_bodies, open_input
from lore.recording.opening import Options
from lore.report.sentences.findings import describe_missing, describe_random_cache
from lore.run.checking.verdicts import InterruptedRunError
from lore.run.dated import PACKAGED, Dated
from lore.run.measured import MeasuredRun, Measuring, read_logs
from lore.run.recent import nothing, nothing_new
from lore.run.rules import output_note, stale
from lore.run.simulation import PlayedTurn, Simulation

RANK = ""  # a change without a value: rank every fix
# If requests that only append lose the cache more often, its predictions are guesses.


class SimulateRequest(NamedTuple):
    """What to simulate."""

    paths: list[str]
    caches: Sequence[str] = ()  # none: the cache that served each turn
    changes: Sequence[str] = ()  # `KEY=VALUE`, or `RANK`
    dated: Dated = PACKAGED  # the rules for verdicts
    reader: Reader | None = None  # the person that fixes address; None: chosen by the format
    looked: tuple[str, ...] = ()  # where recordings were looked for, if none were named; other files there are skipped
    redact: bool = False  # causes hold no content
    wanted: Callable[[Input], bool] | None = None  # files to open; None: all
    progress: Callable[[int, int], None] | None = None  # called with bytes simulated and bytes in all
    interrupted: Callable[[], bool] | None = None  # called after each turn
    measured: Sequence[str] = ()  # logs of the engines that served these recordings

    def is_interrupted(self) -> bool:
        """Return whether the user interrupted the run."""
        return self.interrupted is not None and self.interrupted()


def simulate(request: SimulateRequest, options: Options, rules: DatedRules) -> Iterator[SimulateResult]:
    """Yield a result for each cache. Raises LoreError for a named file that is not a recording.

    If the run is interrupted, the last result holds the turns up to there, and no savings.
    """
    load_plugins()
    listed = [file._replace(optional=bool(request.looked)) for file in inputs(request.paths, request.wanted)]
    files = join_bodies(listed, options.format)
    once = any(file.stream for file in files)
    if once and (len(request.caches) > 1 or any(change != RANK for change in request.changes)):
        hint = "save it to a file: several caches and changes need more than one look"
        raise LoreError("standard input and pipes can be read once only", hint=hint)
    problems = Problems()
    measured = read_logs(request.measured, files, options, problems)
    caches = request.caches or (measured.cache,)
    changes = [(text, what_if.change_of(text, request.caches)) for text in request.changes if text != RANK]
    for cache in caches:
        simulator = _Simulator(request, options, rules, files, cache, measured, problems.kept)
        base = simulator.run()
        if base.result.interrupted:
            yield base.result
            return
        try:
            yield _with_savings(base, simulator, changes, once=once)
        except InterruptedRunError:
            yield replace(base.result, interrupted=Interruption(len(files), len(files)))
            return


simulate_recordings = simulate  # the public name: `lore.run.simulate` is this module


class _Simulator(NamedTuple):
    """Simulates the same files in one cache, as they were recorded and with changes."""

    request: SimulateRequest
    options: Options
    rules: DatedRules
    files: Sequence[Input]
    cache: str | None
    measured: MeasuredRun
    problems: Sequence[Problem]  # of the logs of engines

    def run(self, change: WhatIf = NO_CHANGE) -> SimulatedRun:
        """Simulate all files; raises InterruptedRunError if a change is not simulated to the end."""
        request, options = self.request, self.options
        count = None if options.counter is None else options.counter.count
        predictor = Predictor(self.rules, self.cache, change, count)
        simulation = Simulation(predictor, dated=request.dated, reader=request.reader, redact=request.redact)
        sums, turns, found, measuring = SimulatedSums(), list[PaidTurn](), list(self.problems), self.measured.play()
        size, begun, done, recordings, stopped = sum(file.size for file in self.files), 0, 0, 0, False
        for file in ahead(self.files):
            begun += 1
            problems = Problems()
            try:
                for turn, project in self._turns(file, problems, simulation, measuring):
                    sums.add(turn.result, turn.row, turn.parts, project)
                    turns.append(turn.paid)
                    if request.progress is not None:
                        request.progress(done + (turn.byte or 0), size)
                    if stopped := request.is_interrupted():
                        break
                recordings += 1
            except UnrecognisedError:
                if file.named and not file.optional:
                    raise
                options.log(f"{corpus.show(file.path)}: no recording, passed over")
            except LoreError as error:
                if file.named:
                    raise
                problems.add(Problem(Code.UNREADABLE_FILE, error.message), corpus.show(file.path))
                recordings += 1
            found.extend(problems.kept)
            done += file.size
            if stopped or (stopped := request.is_interrupted()):
                break
        if stopped and change is not NO_CHANGE:
            raise InterruptedRunError
        if not recordings and not stopped:
            raise _no_recordings(request)
        as_of = None if self.rules.as_of is None else self.rules.as_of.isoformat()
        notes = _notes(sums.turns, self.rules, simulation)
        result = sums.result(self.cache, as_of, simulation.reliability.results(), notes, found)
        result = replace(result, measured=measuring.result())
        if stopped:
            result = replace(result, interrupted=Interruption(begun, len(self.files)))
        return SimulatedRun(result, turns, predictor.change_counts, simulation.transcripts, simulation.bodies)

    def _turns(
        self, file: Input, problems: Problems, simulation: Simulation, measuring: Measuring
    ) -> Iterator[tuple[PlayedTurn, str]]:
        """Yield the turns of a file, each with its project."""
        if file.error is not None:
            raise file.error
        project = None if file.stream or file.together else project_of(corpus.open_head(file.path).head, file.path)
        recording = open_input(file, self.options, problems)
        for turn in measuring.follow(recording, simulation.recording(recording)):
            path = turn.result.path
            known = project if path == corpus.show(file.path) else None  # a recording of several files names no project
            yield turn, known or os.path.basename(os.path.dirname(os.path.abspath(path))) or "/"


def _no_recordings(request: SimulateRequest) -> LoreError:
    if request.wanted is not None:
        return nothing_new(request.paths[0])
    if request.looked:
        return nothing(request.looked)
    hint = "lore simulate reads sessions and captures"
    return LoreError(f"no recordings in {corpus.show(request.paths[0])}", hint=hint)


# what changes would have saved


def _with_savings(
    base: SimulatedRun, simulator: _Simulator, changes: Sequence[tuple[str, WhatIf | None]], *, once: bool
) -> SimulateResult:  # fmt: skip
    """Return the result with the savings of the changes that were asked for, else of the causes found."""
    asked, found = simulator.request.changes, [_saving_of(text, change, base, simulator) for text, change in changes]
    notes = [*base.result.notes, *(note for saving in found for note in saving.notes)]
    saved = [saving.saving for saving in found]
    if RANK in asked:
        ranked, remarks = _rank_fixes(base, simulator, once=once)
        saved += ranked
        notes += remarks
    elif not asked:
        fixes = [noted for noted in what_if.rank_causes(base) if noted.saving.saves]
        saved = what_if.sort_savings(noted.saving for noted in fixes)
        notes += [note for noted in fixes for note in noted.notes]
    if once or not asked:
        notes += what_if.suggest_longer_life(base.result)
    return replace(base.result, what_if=saved, notes=notes)


def _saving_of(text: str, change: WhatIf | None, base: SimulatedRun, simulator: _Simulator) -> NotedSaving:
    if change is None:  # a cause: the turns are simulated already
        return what_if.without_causes(base, text)
    return what_if.compare_runs(text, base, simulator.run(change))


def _rank_fixes(base: SimulatedRun, simulator: _Simulator, *, once: bool) -> tuple[list[Saving], list[str]]:
    """Return the savings of every fix that can be simulated, and notes on those that cannot."""
    fixes = list(what_if.rank_causes(base))
    notes = [note for noted in fixes for note in noted.notes] + list(what_if.describe_left_out(base))
    for text, applies in ((what_if.TTL, base.expired), (what_if.AUTO, bool(base.bodies))):
        if applies and once:
            notes.append(f"not simulated: {text}, since standard input and pipes can be read once only")
        elif applies:
            fixes.append(_saving_of(text, what_if.change_of(text, ()), base, simulator))
            notes += fixes[-1].notes
    return what_if.sort_savings(noted.saving for noted in fixes), notes


# notes


def _notes(turns: Sequence[SimulatedTurn], rules: DatedRules, simulation: Simulation) -> Iterator[str]:
    """Yield what limits the result."""
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
        counted = random_reads().get(CACHES[cache].provider)
        if counted is not None:
            yield describe_random_cache(cache, counted.fell, counted.seen)
    for what, formats in simulation.lacks.items():
        if what:
            yield describe_missing(formats, what)
    if simulation.unlike:
        yield f"not learned from: the bills of {turns_of(len(simulation.unlike))} ({simulation.unlike[0]})"
    yield from simulation.unpriced.notes()
    if simulation.copied:
        yield f"counted once: {turns_of(simulation.copied)} that other files hold as well"
    if simulation.partial:
        yield output_note(simulation.partial, rules)
