"""Judge recordings: what `lore check` answers.

In: paths. Out: a summary, findings, problems. Rules: files of a folder that are no recordings are passed
over and counted; a file that a folder holds and that cannot be read makes the run incomplete; one that
was named is an error. Findings come in the order of the files and of their lines.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from lore import corpus
from lore.check.base import Place
from lore.check.budgets import Budgets, below_reuse, over_budget
from lore.check.pairs import Pair, Pairs, lost_tokens
from lore.check.rules import RULES
from lore.errors import LoreError
from lore.model.problems import Problem
from lore.model.results import Checked, Finding, Summary
from lore.run import plugins
from lore.run.memory import collected_seldom
from lore.run.options import Options
from lore.run.problems import Problems
from lore.run.recording import Recording, UnrecognisedError, reader_named

FINDINGS_KEPT = 10_000  # of each severity: a longer report is read by nobody; the summary counts all


class Outcome(NamedTuple):
    """The result, whether a finding is an error, and whether an input could not be judged."""

    result: Checked
    failed: bool
    incomplete: bool


class _Input(NamedTuple):
    path: str
    named: bool


def check(paths: list[str], budgets: Budgets, options: Options) -> Outcome:
    """Judge every recording under these paths; raises LoreError for one that was named and is none."""
    plugins.load()
    if options.format is not None:
        reader_named(options.format)
    judge = _Judge(budgets, options)
    empty: list[str] = []
    for path in paths:
        before = judge.summary.files
        with collected_seldom():
            for entry in judge.inputs(path):
                judge.take(entry)
        if judge.summary.files == before and os.path.isdir(path):
            empty.append(path)
    if empty and not judge.summary.files and not judge.incomplete:
        hint = "`lore check` reads session logs and request bodies"
        raise LoreError(f"no recordings in {corpus.show(empty[0])}", hint=hint)
    return judge.outcome(corpus.show(paths[0]))


class _Judge:
    def __init__(self, budgets: Budgets, options: Options) -> None:
        self.summary = Summary()
        self.incomplete = False
        self._failed = False
        self._budgets = budgets
        self._options = options
        self._findings: list[Finding] = []
        self._kept: Counter[str] = Counter()
        self._problems: list[Problem] = []

    def inputs(self, path: str) -> Iterator[_Input]:
        """Yield a file, or the files below a folder; folders that cannot be read make the run incomplete."""
        if path == corpus.STDIN or not os.path.isdir(path):
            yield _Input(path, named=True)
            return
        for file in corpus.files_below(path, self._unreadable):
            yield _Input(file, named=False)

    def _unreadable(self, path: str, error: LoreError) -> None:
        self.incomplete = True
        problems = Problems()
        problems.add(Problem("LORE215", error.message), corpus.show(path))
        self._damage(problems, Place(corpus.show(path)))

    def take(self, entry: _Input) -> None:
        problems = Problems()
        try:
            recording = self._options.open(entry.path, problems)
            self._judge(recording, problems)
        except UnrecognisedError:
            if entry.named:
                raise
            self.summary.skipped += 1
            self._options.log(f"{corpus.show(entry.path)}: no recording, passed over")
        except LoreError as error:
            if entry.named:
                raise
            self._damage(problems, Place(corpus.show(entry.path)))  # what was met before it could not be read on
            self._unreadable(entry.path, error)

    def _judge(self, recording: Recording, problems: Problems) -> None:
        place, summary = Place(recording.shown), self.summary
        chains: dict[str, Pairs] = {}
        for turn in recording.turns():
            summary.turns += 1
            pair = chains.setdefault(turn.chain, Pairs()).advance(turn)
            if pair is not None:
                self._keep(self._pair(pair, place))
        summary.files += 1
        summary.sessions += 1
        summary.chains += len(chains)
        summary.compactions += recording.compactions
        self.incomplete = self.incomplete or bool(problems.counts["LORE210", recording.shown])
        self._damage(problems, place)

    def _pair(self, pair: Pair, place: Place) -> Iterator[Finding]:
        summary = self.summary
        summary.pairs += 1
        if pair.bust:
            summary.busts += 1
            setattr(summary, pair.worst, getattr(summary, pair.worst) + 1)
            if pair.worst != "expected":
                summary.lost_tokens += max(lost_tokens(pair, n)[0] for n in range(len(pair.causes)))
        for rule in RULES.values():
            yield from rule.pair(pair, place)
        yield from below_reuse(pair, self._budgets, place)

    def _damage(self, problems: Problems, place: Place) -> None:
        self.summary.problems += problems.total
        counts = {code: number for (code, _), number in problems.counts.items()}
        for rule in RULES.values():
            self._keep(rule.problems(problems.kept, counts, place))
        self._problems.extend(problems.kept)

    def _keep(self, findings: Iterable[Finding]) -> None:
        for finding in findings:
            self._failed = self._failed or finding.severity == "error"
            self._kept[finding.severity] += 1
            if self._kept[finding.severity] <= FINDINGS_KEPT:
                self._findings.append(finding)

    def outcome(self, path: str) -> Outcome:
        self._keep(over_budget(self.summary, self._budgets, Place(path)))
        return Outcome(
            Checked(summary=self.summary, findings=self._findings, problems=self._problems),
            self._failed,
            self.incomplete,
        )
