"""Judge recordings turn by turn: the loop of every command about turns, and the check of one file.

`verdicts` is that loop. `judge_file` runs it over a file and adds up the result; `map_files` calls such a function for
many files, in several processes if that is worth it. `CheckContext` holds what the settings and options say.
"""

from __future__ import annotations

import os
import re
from array import array
from collections.abc import Callable, Generator, Iterator
from contextlib import suppress
from functools import lru_cache
from typing import TYPE_CHECKING, TypeVar

from msgspec import Struct, field
from msgspec.structs import replace

from lore.cache.counts import self_contradiction, too_few_tokens
from lore.errors import LoreError
from lore.files import relative
from lore.formats.documents import end_of_value
from lore.formats.registry import READERS, lacks_of
from lore.judge.base import TurnVerdict
from lore.judge.judge import Judge
from lore.judge.policy import EVERYTHING, NO_POLICY, Policy, Ruling
from lore.judge.totals import FileResult, FileTotals, unseen_tokens
from lore.model.cause import Place
from lore.model.codes import Audience, Code, Problem
from lore.model.deferred import pattern, sha256
from lore.model.jsonslice import value_at
from lore.model.ledger import Ledger
from lore.model.limits import RECORD_BYTES
from lore.model.results import Finding, UnrecordedParts
from lore.model.turn import Turn
from lore.recording import corpus, filesystem
from lore.recording.agents.companions import session_of
from lore.recording.base import Problems, Recording, UnrecognisedError, collected_seldom, load_plugins
from lore.recording.inputs import Input, ahead, fetched_ahead, is_passed_over, open_input, start_of, written_at
from lore.recording.opening import Options
from lore.run.rules import PACKAGED, Dated

if TYPE_CHECKING:
    from lore.cache.transcripts import Predicted
    from lore.config import Loaded


R = TypeVar("R")

_LINE = pattern(rb"^[ \t]*", re.MULTILINE)
_BEGINNING = 2048  # bytes that identify a recording without a session id, with the rest of their line
SMALL = 8 * 1024 * 1024  # bytes in all that are judged before a second process would have started


class InterruptedRunError(Exception):
    """The user interrupted the run; raised by a callback for progress."""


def verdicts(
    recording: Recording, judge: Judge, place: Place, predict: Callable[[Turn], Predicted] | None = None
) -> Iterator[tuple[TurnVerdict | None, list[Finding]]]:
    """Yield the verdict of each turn, with the findings of the chains that ended before it.

    The last item has no verdict, only the findings of the chains that were still open.
    """
    for turn in recording.turns():
        too_few = too_few_tokens(turn)
        if contradiction := too_few or self_contradiction(turn.usage):
            text = f"turn {turn.number} of {turn.chain}: impossible usage: {contradiction}"
            problem = Problem(Code.BILL_CONTRADICTS_BODY, text)
            recording.problems.add(problem, turn.file or recording.shown, turn.line, turn.byte)
        if too_few:  # the bytes decide
            turn = replace(turn, usage=None)  # noqa: PLW2901
        ended_chains = recording.forgotten()
        chain_findings = judge.forget(ended_chains, place) if ended_chains else []
        yield judge.turn(turn, None if predict is None else predict(turn)), chain_findings
    yield None, judge.finish(place)


def audience_of(recording: Recording, audience: Audience | None) -> Audience:
    """Return the audience for fixes: the user of an agent that wrote a transcript, else the author."""
    return audience or ("user" if recording.events and recording.reader.name != "lore" else "author")


def place_of(path: str, root: str) -> Place:
    """Return where a file's findings are reported; its key is relative to `root`, the current folder if empty."""
    return Place(corpus.show(path), key_of(path, root))


def key_of(path: str, root: str) -> str:
    """Return a path relative to a folder, its parts joined by `/`; stored and remote sessions keep their names."""
    if path == corpus.STDIN or filesystem.is_remote(path) or corpus.is_stored(path):
        return corpus.show(path)
    return corpus.show(relative(path, root).replace(os.sep, "/"))


class CheckContext(Struct, frozen=True):
    """How recordings are checked. Paths in settings and fingerprints are relative to `root`."""

    policy: Policy = NO_POLICY
    settings: str = ""  # the file of the policy
    root: str = ""  # empty: the current folder
    baseline: str = ""  # path of the baseline; empty: no baseline
    renews_baseline: bool = False  # a new baseline is written
    redact: bool = False  # results hold no content
    option_ruling: Ruling = EVERYTHING  # `--select` and `--ignore`, which limit what this run looks for
    dated: Dated = PACKAGED
    audience: Audience | None = None  # the audience for fixes; None: chosen by the format
    options: Options = field(default_factory=Options)
    with_ledgers: bool = False  # results have the recording's ledger

    @classmethod
    def of(cls, loaded: Loaded) -> CheckContext:
        """Return how the settings say that recordings are checked; paths in them begin at their file."""
        settings, file, check = loaded.settings, loaded.file, loaded.settings.check
        return cls(
            policy=check, settings="" if file is None else corpus.show(relative(file)),
            root="" if file is None else os.path.dirname(file), dated=Dated.of(loaded), audience=check.reader,
            options=Options(rules=settings.assemble),
        )  # fmt: skip

    def is_exempted(self, key: str) -> bool:
        """Return whether an exemption names a file: it is counted first, so that copies of its requests are not."""
        return bool(self.policy.exempt_paths.numbers(key))

    def check_names(self) -> None:
        """Raise LoreError for an unknown code in the settings, or a file of rules that cannot be read."""
        self.policy.check_selectors(f"{self.settings}: check." if self.settings else "check.")
        self.dated.check_file()

    def complete(self, finding: Finding) -> Finding:
        """Return a finding with its line, and without content if this run redacts."""
        finding = with_line(finding)
        if not self.redact:
            return finding
        from lore.report.redacted import redacted_finding  # noqa: PLC0415 - few runs redact

        return redacted_finding(finding)


def map_files(
    files: list[Input], jobs: int, run_locally: Callable[[Input], R], run_in_worker: Callable[[Input], R],
    progress: Callable[[int], None] | None = None,
) -> Generator[R]:  # fmt: skip
    """Yield what `run_locally` returns for each file, in the order of the files.

    If there is much to read, up to `jobs` processes call `run_in_worker`, which can be pickled, like its results;
    meanwhile `progress` is called with the bytes done.
    """
    costs_more = sum(file.size for file in files) < SMALL or fetched_ahead(files)  # than other processes would save
    processes = 1 if costs_more else min(jobs, sum(not file.stream for file in files))
    if processes <= 1:
        yield from map(run_locally, ahead(files))
        return
    from lore.run.checking.pool import ProcessPool  # noqa: PLC0415 - few runs have enough to read

    yield from ProcessPool(processes, run_locally, run_in_worker, progress).results(files)


def judge_file(file: Input, context: CheckContext, progress: Callable[[int], None] | None = None) -> FileResult:
    """Judge a file; `progress` is called with the bytes judged.

    If `progress` raises InterruptedRunError, the result holds the turns up to there, and the file is not whole.
    """
    load_plugins()
    place, problems = place_of(file.path, context.root), Problems()
    totals = FileTotals(place, context.policy.ruling(place.key), context.complete)
    result = totals.result
    result.start = start_of(file)
    try:
        if file.error is not None:
            raise file.error
        with collected_seldom():
            _judge(file, totals, context, problems, progress)
    except LoreError as error:
        if is_passed_over(file, error):
            result.summary.skipped += 1
            result.is_complete = True
            context.options.log(f"{place.path}: not a recording, skipped")
        elif file.is_only:
            result.error = error
        else:
            is_damaged = isinstance(error, UnrecognisedError) and error.is_damaged
            totals.add_problems(problems.kept, problems.counts)  # of the part that was read
            totals.add_unreadable(error.message, error.advice if is_damaged else "")
            if context.with_ledgers:
                result.ledger = Ledger(place.path, written=written_at(file), message=error.message)
    if context.redact:
        from lore.report.redacted import redacted_error, redacted_problem  # noqa: PLC0415 - few runs redact

        result.problems = list(map(redacted_problem, result.problems))
        result.error = None if result.error is None else redacted_error(result.error)
    return result


def _judge(
    file: Input, totals: FileTotals, context: CheckContext, problems: Problems, progress: Callable[[int], None] | None
) -> None:
    """Judge the turns of a file into `totals`; raises LoreError if it cannot be read."""
    result, ledger = totals.result, None
    opened = corpus.open_head(file.path) if context.with_ledgers else None
    recording = open_input(file, context.options, problems, opened)
    if opened is not None:
        from lore.run.spending.ledgers import LedgerMaker  # noqa: PLC0415 - few runs write tables

        ledger = LedgerMaker(file, recording, opened.head, context.dated.rules())
    totals.place = replace(totals.place, audience=audience_of(recording, context.audience))
    judge = context.dated.judge(quick=not totals.wants_every_pair)
    is_interrupted = False
    try:
        for verdict, chain_findings in verdicts(recording, judge, totals.place):
            totals.add_findings(chain_findings)
            if ledger is not None:
                ledger.add_missed(chain_findings)
            if verdict is None:
                break
            totals.turn(verdict, is_log=recording.events)
            result.summary.chains = judge.chain_count
            result.unseen = result.unseen or _unrecorded_parts(recording, verdict.turn)
            if ledger is not None:
                ledger.add(verdict)
            if progress is not None:
                progress(verdict.turn.byte or 0)
    except InterruptedRunError:  # chains may continue, so there are no findings about whole ones
        is_interrupted = True
    result.summary.files += max(0, len(file.together) - 1)
    result.session_path = session_of(file.path) or file.path
    totals.finish(recording.state.id, recording.boundaries, recording.problems.kept, recording.problems.counts)
    result.is_complete = result.is_complete and not is_interrupted
    if context.baseline and not file.stream:
        with suppress(LoreError):  # a folder without a session id has no beginning
            result.content = recording.state.id or sha256(_beginning(file.path))
    result.paths = [corpus.show(path) for path in file.together or (file.path,)]
    if ledger is not None:
        result.ledger = ledger.ledger(result.unseen)


def _unrecorded_parts(recording: Recording, turn: Turn) -> UnrecordedParts | None:
    """Return the parts of a log's prompts that its format does not record; None if it records all."""
    name = recording.state.format
    if turn.basis is None or not (what := lacks_of(name, turn.basis)):
        return None
    return UnrecordedParts(name, what, 1, unseen_tokens(turn), getattr(READERS.get(name), "sealed", ""))


def _beginning(path: str) -> bytes:
    """Return the first bytes of a file up to the end of a line, so that they hold the whole first request."""
    data = next(corpus.pieces(path), b"")
    return data[: data.find(b"\n", _BEGINNING) + 1] or data


def with_line(finding: Finding) -> Finding:
    """Return an error or warning at the line of its place in the request, if its JSON record has several lines."""
    path, line = finding.path, finding.line
    if line is None or not finding.json_path or finding.severity == "note" or not path.endswith((".json", ".har")):
        return finding
    try:
        document, starts = _document(path, filesystem.status(path).written)
    except (LoreError, OSError, ValueError):  # not a file that can be read again
        return finding
    if line >= len(starts):  # the record is in one line, and may be the whole document: looking costs its length
        return finding
    from lore.formats.captures.layouts import BODIES, COMMON  # noqa: PLC0415 - few recordings are such documents

    start = starts[line - 1]
    record = document[start : end_of_value(memoryview(document), start) or start]
    for body in ("", *(f"{path}." for path in (*COMMON.request, *BODIES.request))):
        if (span := value_at(record, f"{body}{finding.json_path}")) is not None:
            return replace(finding, line=line + record.count(b"\n", 0, span[0]))
    return finding


@lru_cache(maxsize=1)  # it may have many findings
def _document(path: str, written: float | None) -> tuple[bytes, array[int]]:  # noqa: ARG001 - it changes with the file
    """Return the bytes of a file, none if it is too long, and where the text of each line begins. Raises LoreError."""
    data = b""
    for piece in corpus.pieces(path):
        data = data + piece if len(data) + len(piece) <= RECORD_BYTES else b""
        if not data:
            break
    return data, array("I", (match.end() for match in _LINE.finditer(data)))
