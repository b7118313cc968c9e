"""A recording's verdicts, one a turn: the loop that every command which speaks of turns runs; and of one file's, sums.

In: an opened recording, who predicts (None: transcripts' levels alone). Out: verdicts in the order of the turns, and
the findings of chains as they end; or what they come to in one file, judged here or in a process of its own.
Cost: O(bytes of the recording).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

from msgspec.structs import replace

from lore.cache.counts import self_contradiction
from lore.cache.transcripts import Predicted
from lore.errors import LoreError
from lore.formats.registry import READERS, lacks_of
from lore.judge.base import TurnVerdict
from lore.judge.judge import Judge
from lore.judge.policy import Budgets, Policy, Ruling
from lore.judge.totals import FileResult, FileTotals, unseen_tokens
from lore.model.cause import Place
from lore.model.codes import Code, Problem, Reader
from lore.model.ledger import Ledger
from lore.model.results import Finding, UnrecordedParts
from lore.model.turn import Turn
from lore.recording.base import Problems, Recording, UnrecognisedError, collected_seldom, load_plugins
from lore.recording.inputs import Input, place_of, written_at
from lore.recording.opening import Options
from lore.run.dated import PACKAGED, Dated


class InterruptedRunError(Exception):
    """A run that was interrupted goes no further; whoever hears of progress raises it."""


class VerdictStep(NamedTuple):
    """The next verdict (None: there are no more turns), and what was found in chains that ended before it."""

    verdict: TurnVerdict | None
    ended: list[Finding]


def verdicts(
    recording: Recording, judge: Judge, place: Place, predict: Callable[[Turn], Predicted] | None = None
) -> Iterator[VerdictStep]:
    """Judge a recording; the last step has no verdict, and what was found in the chains that were left.

    A bill that contradicts itself is a problem of the recording.
    """
    for turn in recording.turns():
        odd = self_contradiction(turn.usage)
        if odd:
            text = f"turn {turn.number} of {turn.chain}: a bill that cannot be: {odd}"
            problem = Problem(Code.BILL_CONTRADICTS_BODY, text)
            recording.problems.add(problem, turn.file or recording.shown, turn.line, turn.byte)
        over = recording.forgotten()
        ended = judge.forget(over, place) if over else []
        yield VerdictStep(judge.turn(turn, None if predict is None else predict(turn)), ended)
    yield VerdictStep(None, judge.finish(place))


def reader_of(recording: Recording, chosen: Reader | None) -> Reader:
    """Return whom findings speak to: the user of an agent whose transcript it is, else the author."""
    return chosen or ("user" if recording.events and recording.reader.name != "lore" else "author")


class CheckConfig(NamedTuple):
    """How files are judged: paths in settings and fingerprints are relative to `root`.

    `compared`: there is a baseline, so that every finding may yet be taken out, and none is settled here. `dated` says
    by which rules, `reader` whom findings speak to (None: as the format says). `redact`: results carry no content;
    `tabled`: they have the recording's ledger.
    """

    options: Options
    budgets: Budgets
    policy: Policy = Policy()
    root: str = ""
    compared: bool = False
    dated: Dated = PACKAGED
    reader: Reader | None = None
    redact: bool = False
    tabled: bool = False

    def ruling(self, key: str) -> Ruling:
        """Return what holds for the file of this key."""
        return self.policy.ruling(key, self.budgets)


def judge_file(file: Input, config: CheckConfig, progress: Callable[[int], None] | None = None) -> FileResult:
    """Judge a file; `progress` hears how many bytes of it have been judged. Cost O(its bytes).

    If `progress` raises InterruptedRunError, what was judged until then is the result, and the file is not whole.
    """
    load_plugins()
    place, problems = place_of(file.path, config.root), Problems()
    totals = FileTotals(place, config.ruling(place.key), compared=config.compared)
    result = totals.result
    try:
        if file.error is None:
            _judge(file, totals, config, problems, progress)
        else:
            _leave_unread(file, totals, config, file.error)
    except LoreError as error:
        unrecognised = isinstance(error, UnrecognisedError)
        if file.named and not (unrecognised and file.optional):
            result.error = error
        elif unrecognised:
            result.summary.skipped += 1
            result.whole = True
            config.options.log(f"{place.path}: no recording, passed over")
        else:
            totals.damage(problems.kept, problems.counts)  # what was met before it could not be read on
            _leave_unread(file, totals, config, error)
    if config.redact:
        from lore.report.redacted.findings import redacted_error, redacted_finding, redacted_problem  # noqa: PLC0415 - few runs redact

        result.findings = list(map(redacted_finding, result.findings))
        result.problems = list(map(redacted_problem, result.problems))
        result.error = None if result.error is None else redacted_error(result.error)
    return result


def _leave_unread(file: Input, totals: FileTotals, config: CheckConfig, error: LoreError) -> None:
    totals.unreadable(error.message)
    if config.tabled:
        totals.result.ledger = Ledger(totals.place.path, written=written_at(file), message=error.message)


def _judge(
    file: Input, totals: FileTotals, config: CheckConfig, problems: Problems, progress: Callable[[int], None] | None
) -> None:
    """Judge the turns of a file into `totals`; raises LoreError if it cannot be read."""
    with collected_seldom():
        if config.tabled:
            from lore.run.spending.ledgers import LedgerMaker  # noqa: PLC0415 - few runs write tables

            made = LedgerMaker(file, config.options, config.dated.rules(), problems)
            _judge_turns(made.recording, totals, config, progress, made.add)
            totals.result.ledger = made.ledger()
        else:
            _judge_turns(config.options.open(file.path, problems), totals, config, progress)


def _judge_turns(
    recording: Recording, totals: FileTotals, config: CheckConfig, progress: Callable[[int], None] | None,
    hear: Callable[[TurnVerdict], None] | None = None,
) -> None:  # fmt: skip
    result, events = totals.result, recording.events
    result.reader = reader_of(recording, config.reader)
    totals.place = replace(totals.place, reader=result.reader)
    judge = config.dated.judge(quick=not totals.wants_every_pair)
    stopped = False
    for verdict, ended in verdicts(recording, judge, totals.place):
        if ended:
            totals.ended(ended)
        if verdict is None:
            break
        if hear is not None:
            hear(verdict)
        totals.turn(verdict, events=events)
        if verdict.turn.basis is not None and result.unseen is None and config.options.completion is None:
            result.unseen = unseen_of(recording, verdict.turn)
        result.summary.chains = judge.chains
        try:
            if progress is not None:
                progress(verdict.turn.byte or 0)
        except InterruptedRunError:  # what chains come to is not known, so nothing is said of whole ones
            stopped = True
            break
    problems = recording.problems
    totals.finish(recording.state.id, recording.boundaries, problems.kept, problems.counts)
    result.whole = result.whole and not stopped


def unseen_of(recording: Recording, turn: Turn) -> UnrecordedParts | None:
    """Say what a log of this format lacks of its prompts; None where the format does not say it."""
    what, sealed = lacks_of(recording.state.format), getattr(READERS.get(recording.state.format), "sealed", "")
    return UnrecordedParts(recording.state.format, what, 1, unseen_tokens(turn), sealed) if what else None
