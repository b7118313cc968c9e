"""Judge recordings: what `lore check` answers.

In: paths. Out: a summary, findings, problems. Rules: files of a folder that are no recordings are passed
over and counted; a file that a folder holds and that cannot be read makes the run incomplete; one that
was named is an error. Findings come in the order of the files and of their lines.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import NamedTuple

from lore import corpus
from lore.check.base import Place
from lore.check.budgets import Budgets, below_reuse, over_budget
from lore.check.pairs import Pair, Pairs
from lore.check.rules import RULES, lost_tokens
from lore.errors import LoreError
from lore.model.problems import Problem
from lore.model.results import Checked, Finding, Summary
from lore.run import plugins
from lore.run.options import Options
from lore.run.problems import Problems
from lore.run.recording import Recording, UnrecognisedError

FINDINGS_KEPT = 10_000  # a report longer than this is read by nobody; the summary counts all


class Outcome(NamedTuple):
    """The result, and whether every input could be judged."""

    result: Checked
    incomplete: bool


class _Input(NamedTuple):
    path: str
    named: bool


def check(paths: list[str], budgets: Budgets, options: Options, log: Callable[[str], None]) -> Outcome:
    """Judge every recording under these paths; raises LoreError for one that was named and is none."""
    plugins.load()
    judge = _Judge(budgets, options, log)
    for path in paths:
        before = judge.summary.files
        for entry in _inputs(path):
            judge.take(entry)
        if judge.summary.files == before and not judge.incomplete and os.path.isdir(path):
            raise LoreError(
                f"no recordings in {corpus.show(path)}", hint="`lore check` reads session logs and request bodies"
            )
    return judge.outcome(corpus.show(paths[0]))


def _inputs(path: str) -> Iterator[_Input]:
    if path != corpus.STDIN and os.path.isdir(path):
        for file in corpus.files_below(path):
            yield _Input(file, named=False)
    else:
        yield _Input(path, named=True)


class _Judge:
    def __init__(self, budgets: Budgets, options: Options, log: Callable[[str], None]) -> None:
        self.summary = Summary()
        self.incomplete = False
        self._budgets = budgets
        self._options = options
        self._log = log
        self._findings: list[Finding] = []
        self._problems: list[Problem] = []

    def take(self, entry: _Input) -> None:
        problems = Problems()
        try:
            recording = self._options.open(entry.path, problems)
            self._log(f"{recording.shown}: {recording.reader.name}")
            self._judge(recording, problems)
        except UnrecognisedError:
            if entry.named:
                raise
            self.summary.skipped += 1
            self._log(f"{corpus.show(entry.path)}: no recording, passed over")
        except LoreError as error:
            if entry.named:
                raise
            self.incomplete = True
            problems.add(Problem("LORE215", error.message), corpus.show(entry.path))
            self._damage(problems, Place(corpus.show(entry.path)))

    def _judge(self, recording: Recording, problems: Problems) -> None:
        place, summary = Place(recording.shown), self.summary
        chains: dict[str, Pairs] = {}
        found: list[Finding] = []
        for turn in recording.turns():
            summary.turns += 1
            pair = chains.setdefault(turn.chain, Pairs()).advance(turn)
            if pair is not None:
                found.extend(self._pair(pair, place))
        summary.files += 1
        summary.sessions += 1
        summary.chains += len(chains)
        summary.compactions += recording.compactions
        self._keep(found)
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
        room = max(0, FINDINGS_KEPT - len(self._findings))
        self._findings.extend(islice(findings, room))

    def outcome(self, path: str) -> Outcome:
        self._findings.extend(over_budget(self.summary, self._budgets, Place(path)))
        return Outcome(Checked(self.summary, self._findings, self._problems), self.incomplete)


def failed(result: Checked) -> bool:
    """Tell whether a finding weighs as an error."""
    return any(finding.severity == "error" for finding in result.findings)
