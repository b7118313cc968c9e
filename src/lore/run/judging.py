"""Judge one file: what `lore check` does with each, here or in a process of its own.

In: an input and how it is judged. Out: what was found, small enough to travel between processes, as if
the file stood alone. Each request that has a name (`response_id`) is told apart, so that those which
another file had already can be taken out afterwards (`run.merging`).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from lore import corpus
from lore.check.base import Place
from lore.check.budgets import Budgets, below_reuse
from lore.check.pairs import Pair, Pairs, lost_tokens
from lore.check.rules import BUILT_IN, RULES
from lore.errors import LoreError
from lore.model.problems import Problem
from lore.model.results import Finding, Summary
from lore.model.turn import Turn
from lore.run import plugins
from lore.run.inputs import Input
from lore.run.memory import collected_seldom
from lore.run.options import Options
from lore.run.problems import Problems
from lore.run.recording import Recording, UnrecognisedError

FINDINGS_KEPT = 10_000  # of each severity: a longer report is read by nobody; the summary counts all
UNJUDGED = ("LORE210", "LORE222", "LORE223")  # requests were recorded, and could not be judged
_STAND_IN = re.compile(r"line-\d+$")  # what a reader calls a record without a name: another file has it, too


class How(NamedTuple):
    """How files are judged."""

    options: Options
    budgets: Budgets


class Request(NamedTuple):
    """What one request with a name added to the result: `found` is a half-open range of the findings.

    `bust` is the worst kind of its causes, empty where it is none; `failed`: it has a finding of severity
    error, kept or not.
    """

    response_id: str
    chain: str
    found: tuple[int, int]
    paired: bool
    bust: str
    lost_tokens: int
    failed: bool


@dataclass(slots=True)
class FileResult:
    """What judging one file gave.

    `session` is its id (empty: it has none; None: it was not judged to its end); `turns` counts the turns
    of each chain of a session log; `boundaries` are the uuids and times of its compactions; `log` is what
    is still to be said; `failed` says that something apart from `requests` is an error; `error` is set
    where the file was named and cannot be judged.
    """

    summary: Summary = field(default_factory=Summary)
    session: str | None = None
    turns: Counter[str] = field(default_factory=Counter[str])
    findings: list[Finding] = field(default_factory=list[Finding])
    requests: list[Request] = field(default_factory=list[Request])
    boundaries: list[tuple[str, str | None]] = field(default_factory=list[tuple[str, str | None]])
    problems: list[Problem] = field(default_factory=list[Problem])
    log: list[str] = field(default_factory=list[str])
    failed: bool = False
    incomplete: bool = False
    error: LoreError | None = None


def judge_file(file: Input, how: How, told: Callable[[int], None] | None = None) -> FileResult:
    """Judge a file; `told` hears how many bytes of it have been judged. Cost O(its bytes)."""
    plugins.load()
    with collected_seldom():
        judge = _Judge(how, corpus.show(file.path))
        judge.take(file, told)
        return judge.result


def judge_apart(file: Input, how: How) -> FileResult:
    """Judge a file in a process of its own: what is to be said comes with the result."""
    said: list[str] = []
    result = judge_file(file, How(replace(how.options, log=said.append), how.budgets))
    result.log = said
    return result


def unjudged(path: str, reason: str, how: How) -> FileResult:
    """Return what is known of a file or folder that could not be judged."""
    judge = _Judge(how, corpus.show(path))
    judge.unreadable(reason)
    return judge.result


class _Judge:
    """Judge one file; its result grows."""

    def __init__(self, how: How, shown: str) -> None:
        self.result = FileResult()
        self._budgets = how.budgets
        self._options = how.options
        self._shown = shown
        self._place = Place(shown)
        self._kept: Counter[str] = Counter()
        self._failed = False  # whether a finding since the last look is an error
        # Where only lore's own rules look, and none at every pair, a pair without a cause need not be made.
        self._quickly = how.budgets.min_reuse is None and RULES.keys() <= BUILT_IN

    def take(self, file: Input, told: Callable[[int], None] | None) -> None:
        problems = Problems()
        try:
            recording = self._options.open(file.path, problems)
            self._judge(recording, problems, told)
        except UnrecognisedError as error:
            if file.named:
                self.result.error = error
                return
            self.result.summary.skipped += 1
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
        problems.add(Problem("LORE215", reason), self._shown)
        self._damage(problems)

    def _judge(self, recording: Recording, problems: Problems, told: Callable[[int], None] | None) -> None:
        result = self.result
        chains: dict[str, Pairs] = {}
        events = recording.events  # only these name their requests
        for turn in recording.turns():
            pairs = chains.get(turn.chain)
            if pairs is None:
                pairs = chains[turn.chain] = Pairs()
                result.summary.chains += 1
            if events:
                result.turns[turn.chain] += 1
            else:
                for name in recording.forgotten():
                    chains.pop(name, None)
            extension = pairs.extended(turn) if self._quickly else None
            if extension is None:
                self._turn(turn, pairs.advance(turn), quiet=False)
            else:
                self._turn(turn, extension.pair, quiet=extension.pair is None)
            if told is not None:
                told(turn.byte or 0)
        result.session = recording.state.id
        result.boundaries = [one for one in recording.boundaries if not _STAND_IN.match(one[0])]
        result.summary.files += 1
        result.summary.compactions += len(recording.boundaries)
        result.incomplete = any(problems.counts[code, recording.shown] for code in UNJUDGED)
        self._damage(problems)

    def _turn(self, turn: Turn, pair: Pair | None, *, quiet: bool) -> None:
        """Count a turn and judge its pair; `quiet` says that there is one of which nothing is to be said."""
        result, summary = self.result, self.result.summary
        summary.turns += 1
        first, bust, lost = len(result.findings), "", 0
        paired = quiet or pair is not None
        summary.pairs += paired
        if pair is not None:
            if pair.bust:
                bust = pair.worst
                summary.busts += 1
                setattr(summary, bust, getattr(summary, bust) + 1)
                if bust != "expected":
                    lost = max(lost_tokens(pair, n)[0] for n in range(len(pair.causes)))
                    summary.lost_tokens += lost
            self._keep(self._findings(pair))
        failed, self._failed = self._failed, False
        name = turn.response_id
        if name is None or (name.startswith("line-") and _STAND_IN.match(name)):
            result.failed = result.failed or failed
        else:
            found = first, len(result.findings)
            result.requests.append(Request(name, turn.chain, found, paired, bust, lost, failed))

    def _findings(self, pair: Pair) -> Iterator[Finding]:
        for rule in RULES.values():
            yield from rule.pair(pair, self._place)
        yield from below_reuse(pair, self._budgets, self._place)

    def _damage(self, problems: Problems) -> None:
        self.result.summary.problems += problems.total
        counts = {code: number for (code, _), number in problems.counts.items()}
        for rule in RULES.values():
            self._keep(rule.problems(problems.kept, counts, self._place))
        self.result.problems.extend(problems.kept)
        self.result.failed = self.result.failed or self._failed

    def _keep(self, findings: Iterable[Finding]) -> None:
        for finding in findings:
            self._failed = self._failed or finding.severity == "error"
            self._kept[finding.severity] += 1
            if self._kept[finding.severity] <= FINDINGS_KEPT:
                self.result.findings.append(finding)
