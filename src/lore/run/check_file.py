"""Judge one file: what `lore check` does with each, here or in a process of its own.

In: an input and how it is judged. Out: what was found, small enough to travel between processes, as if
the file stood alone. Each request that has a name (`response_id`) is told apart, so that those which
another file had already can be taken out afterwards (`run.merging`); with a baseline, every finding.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from msgspec import structs

from lore.errors import LoreError
from lore.judge.policy import Budgets, Policy, Ruling
from lore.judge.rules import RULES, damage
from lore.judge.tally import Costs, Decided, Found, Judged, decide, judge_pair, settle
from lore.judge.verdict import Verdict
from lore.model.codes import Code, Problem, Reader
from lore.model.results import Finding, Summary
from lore.recording import corpus, plugins
from lore.recording.base import Problems, Recording, UnrecognisedError, collected_seldom
from lore.recording.inputs import Input, place_of
from lore.recording.opening import Options
from lore.run.verdicts import PACKAGED, Dated, reader_of, verdicts

FINDINGS_KEPT = 10_000  # of each severity: a longer report is read by nobody; the summary counts all
UNJUDGED = (
    Code.REQUEST_NOT_JUDGED,
    Code.UNDECODABLE_REQUEST,
    Code.REQUEST_NOT_KEPT,
)  # requests were recorded, and could not be judged
UNREAD = (
    *UNJUDGED,
    Code.UNREADABLE_LINE,
    Code.MALFORMED_RECORD,
    Code.LINE_TOO_LONG,
    Code.CAPTURE_TOO_LARGE,
    Code.CASSETTE_REFUSED,
    Code.ARCHIVE_REFUSED,
)  # so may be more of a file
_STAND_IN = re.compile(r"line-\d+$")  # what a reader calls a record without a name: another file has it, too


class CheckConfig(NamedTuple):
    """How files are judged: paths in settings and fingerprints are relative to `root`.

    `compared`: there is a baseline, so that every finding may yet be taken out, and none is settled here. `dated` says
    by which rules, `reader` whom findings speak to (None: as the format says).
    """

    options: Options
    budgets: Budgets
    policy: Policy = Policy()
    root: str = ""
    compared: bool = False
    dated: Dated = PACKAGED
    reader: Reader | None = None


@dataclass(slots=True)
class FileResult:
    """What judging one file gave.

    `session` is its id (empty: it has none; None: it was not judged to its end); `whole` says that all of it
    was, or that it is no recording; `turns` counts the turns
    of each chain of a session log; `boundaries` are the uuids and times of its compactions; `log` is what
    is still to be said; `judged` are the turns that are not settled, `failed` says that something else is an
    error; `costs` is what causes cost; `excused` counts what each exemption took out; `error` is set where the
    file was named and cannot be judged.
    """

    path: str = ""
    key: str = ""
    ruling: Ruling = Ruling()
    reader: Reader = "author"
    summary: Summary = field(default_factory=Summary)
    session: str | None = None
    whole: bool = False
    turns: Counter[str] = field(default_factory=Counter[str])
    findings: list[Finding] = field(default_factory=list[Finding])
    judged: list[Judged] = field(default_factory=list[Judged])
    costs: Costs = field(default_factory=Costs)
    excused: Counter[int] = field(default_factory=Counter[int])
    boundaries: list[tuple[str, str | None]] = field(default_factory=list[tuple[str, str | None]])
    problems: list[Problem] = field(default_factory=list[Problem])
    log: list[str] = field(default_factory=list[str])
    failed: bool = False
    incomplete: bool = False
    error: LoreError | None = None


def judge_file(file: Input, how: CheckConfig, told: Callable[[int], None] | None = None) -> FileResult:
    """Judge a file; `told` hears how many bytes of it have been judged. Cost O(its bytes)."""
    plugins.load()
    with collected_seldom():
        judge = _Judge(how, file.path)
        judge.take(file, told)
        return judge.result


def judge_apart(file: Input, how: CheckConfig) -> FileResult:
    """Judge a file in a process of its own: what is to be said comes with the result."""
    said: list[str] = []
    result = judge_file(file, how._replace(options=replace(how.options, log=said.append)))
    result.log = said
    return result


def unjudged(path: str, reason: str, how: CheckConfig) -> FileResult:
    """Return what is known of a file or folder that could not be judged."""
    judge = _Judge(how, path)
    judge.unreadable(reason)
    return judge.result


class _Judge:
    """Judge one file; its result grows."""

    def __init__(self, how: CheckConfig, path: str) -> None:
        self._options = how.options
        self._compared = how.compared
        self._shown = corpus.show(path)
        self._place = place_of(path, how.root)
        self._ruling = how.policy.ruling(self._place.key, how.budgets)
        self.result = FileResult(path=self._shown, key=self._place.key, ruling=self._ruling)
        self._kept: Counter[str] = Counter()
        self._prints: set[str] = set()  # of findings kept, where there is a baseline
        self._dated = how.dated
        self._reader: Reader | None = how.reader
        # Where no rule of others and no budget looks at every pair, a pair without a cause need not be made.
        self._quickly = self._ruling.min_reuse is None and not RULES

    def take(self, file: Input, told: Callable[[int], None] | None) -> None:
        problems = Problems()
        try:
            recording = self._options.open(file.path, problems)
            self._judge(recording, problems, told)
        except UnrecognisedError as error:
            if file.named and not file.optional:
                self.result.error = error
                return
            self.result.summary.skipped += 1
            self.result.whole = True
            self._options.log(f"{self._shown}: no recording, passed over")
        except LoreError as error:
            if file.named:
                self.result.error = error
                return
            self._damage(problems)  # what was met before it could not be read on
            self.unreadable(error.message)

    def unreadable(self, reason: str) -> None:
        """Count something that could not be read."""
        self.result.incomplete = True
        problems = Problems()
        problems.add(Problem(Code.UNREADABLE_FILE, reason), self._shown)
        self._damage(problems)

    def _judge(self, recording: Recording, problems: Problems, told: Callable[[int], None] | None) -> None:
        result, events = self.result, recording.events
        self._place = structs.replace(self._place, reader=reader_of(recording, self._reader))
        result.reader = self._place.reader
        judge = self._dated.judge(quick=self._quickly)
        for verdict, ended in verdicts(recording, judge, self._place):
            self._ended(ended)
            if verdict is None:
                break
            if events:
                result.turns[verdict.turn.chain] += 1
            self._turn(verdict, events=events)
            result.summary.chains = judge.chains
            if told is not None:
                told(verdict.turn.byte or 0)
        result.session = recording.state.id
        result.boundaries = [one for one in recording.boundaries if not _STAND_IN.match(one[0])]
        result.summary.files += 1
        result.summary.compactions += len(recording.boundaries)
        result.incomplete = any(problems.counts[code, recording.shown] for code in UNJUDGED)
        result.whole = not any(code in UNREAD for code, _ in problems.counts)
        self._damage(problems)

    def _turn(self, verdict: Verdict, *, events: bool) -> None:
        """Count a turn, and decide about what was found."""
        summary, turn, pair = self.result.summary, verdict.turn, verdict.pair
        summary.turns += 1
        summary.pairs += verdict.compared
        if pair is not None and not events:
            summary.compactions += any(cause.code == Code.COMPACTION for cause in pair.causes)
        found = () if pair is None else self._keep(judge_pair(pair, self._place.of(turn), self._ruling))
        name = turn.response_id or ""
        self._settle(Judged("" if _STAND_IN.match(name) else name, turn.chain, verdict.compared, found))

    def _ended(self, findings: Iterable[Finding]) -> None:
        """Decide about what was found in chains that ended."""
        for finding in findings:
            kept = self._keep([decide(finding, self._ruling)])
            self._settle(Judged("", finding.chain or "", paired=False, found=kept))

    def _settle(self, judged: Judged) -> None:
        """Count what was found, unless it may yet be taken out."""
        result = self.result
        if judged.response_id or (self._compared and judged.found):
            result.judged.append(judged)
        elif settle(judged.found, result.summary, result.costs):
            result.failed = True

    def _damage(self, problems: Problems) -> None:
        self.result.summary.problems += problems.total
        counts = {code: number for (code, _), number in problems.counts.items()}
        found = [*damage(problems.kept, counts, self._place)]
        found += [one for rule in RULES.values() for one in rule.problems(problems.kept, counts, self._place)]
        self._settle(Judged("", "", paired=False, found=self._keep(decide(one, self._ruling) for one in found)))
        self.result.problems.extend(problems.kept)

    def _keep(self, decided: Iterable[Decided]) -> tuple[Found, ...]:
        """Keep findings, as many as are kept; with a baseline, one of each fingerprint at least."""
        found: list[Found] = []
        for finding, one, by in decided:
            if by >= 0:
                self.result.excused[by] += 1
            place = -1
            if not one.out:
                self._kept[one.severity] += 1
                new = self._compared and one.fingerprint not in self._prints
                if new or self._kept[one.severity] <= FINDINGS_KEPT:
                    place = len(self.result.findings)
                    self.result.findings.append(finding)
                if new:
                    self._prints.add(one.fingerprint)
            found.append(one._replace(place=place))
        return tuple(found)
