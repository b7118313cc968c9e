"""Put the results of files together, in their order: what `lore check` answers about all of them.

A fork or a resumed session begins with a copy of its parent's history. So over one run each request
counts once: one that an earlier file had already (the same `response_id`) is a copy, which is counted as
such and nowhere else, and gives no finding; so is a compaction with uuid and time of an earlier file's
(a log that a person wrote has neither request ids nor times, and `d1` in each). What one file holds twice
is no copy. A fork may begin in the middle, and its name come first: the copy's comparison with the turn
before it then counts, since the first file has none. What is remembered for that is one id a request.

Copies go first, then what the baseline knows; what is left is settled.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping

from lore.judge.base import Place
from lore.judge.baseline import Known, Recorder, belongs
from lore.judge.policy import Budgets, Limited, Policy, over_budget
from lore.judge.tally import Cost, Costs, Found, Judged, costliest, settle
from lore.model.codes import Problem, Reader
from lore.model.results import Checked, Finding, Summary
from lore.run.check_file import FINDINGS_KEPT, FileResult
from lore.run.coverage import Extent

PROBLEMS_KEPT = 10_000  # in all: each file keeps few, but there may be many files


class Merged:
    """The results so far. `failed`: a finding is an error; `incomplete`: an input could not be judged.

    `extent` are the files that were looked at, by their places on every machine; `excused` counts what each
    exemption took out. Findings that `known` has are taken out, and all that a `recorder` takes for a baseline.
    """

    def __init__(self, known: Known | None = None, recorder: Recorder | None = None) -> None:
        self.summary = Summary()
        self.failed = False
        self.incomplete = False
        self.extent = Extent()
        self.excused: Counter[int] = Counter()
        self._known = known
        self._recorder = recorder
        self._costs: Costs = {}
        self._readers: set[Reader] = set()
        self._limited: dict[tuple[str, int], Summary] = {}
        self._findings: list[Finding] = []
        self._kept: Counter[str] = Counter()
        self._problems: list[Problem] = []
        self._sessions: set[str] = set()
        self._responses: dict[str, bool] = {}  # whether it was compared with the turn before it
        self._boundaries: set[tuple[str, str | None]] = set()

    def take(self, result: FileResult) -> None:
        """Add the next file's result."""
        dropped: set[int] = set()
        if any(one.response_id in self._responses for one in result.judged):
            _without_copies(result, self._responses, dropped)
        result.summary.compactions -= sum(one in self._boundaries for one in result.boundaries)
        for one in result.judged:
            if one.response_id:
                self._responses[one.response_id] = one.paired or self._responses.get(one.response_id, False)
        self._boundaries.update(one for one in result.boundaries if one[1] is not None)
        for one in result.judged:
            found = [self._compared(each, result, dropped) for each in one.found]
            self.failed = settle(found, result.summary, result.costs) or self.failed
        self._count(result)
        self.failed = self.failed or result.failed
        self.incomplete = self.incomplete or result.incomplete
        self.keep(one for place, one in enumerate(result.findings) if place not in dropped)
        self._problems.extend(result.problems[: PROBLEMS_KEPT - len(self._problems)])

    def _compared(self, one: Found, result: FileResult, dropped: set[int]) -> Found:
        """Take a finding out where the baseline knows it."""
        if one.out or not belongs(one.code, one.severity):
            return one
        if self._recorder is not None:
            if one.place >= 0:
                self._recorder.add(result.findings[one.place], result.key)
            self._recorder.count(one.fingerprint)
        elif self._known is None or not self._known.take(one.fingerprint):
            return one
        dropped.add(one.place)
        return one._replace(out="known")

    def _count(self, result: FileResult) -> None:
        """Add the counts. A session of several files counts once, a file without a session's id as one."""
        if result.summary.turns:
            self._readers.add(result.reader)
        for name in Summary.__struct_fields__:
            setattr(self.summary, name, getattr(self.summary, name) + getattr(result.summary, name))
        if result.session is not None and (not result.session or result.session not in self._sessions):
            self.summary.sessions += 1
            self._sessions.add(result.session)
        for key, cost in result.costs.items():
            self._costs[key] = self._costs.get(key, Cost()).plus(cost)
        for name, entry in zip(Limited._fields, result.ruling.limited, strict=True):
            sums = self._limited.setdefault((name, entry), Summary())
            for count in ("breaks", "expected", "lost_tokens"):
                setattr(sums, count, getattr(sums, count) + getattr(result.summary, count))
        (self.extent.whole if result.whole else self.extent.partly).add(result.key)
        self.excused.update(result.excused)

    def over(self, budgets: Budgets, policy: Policy, place: Place) -> Iterator[Finding]:
        """Find the sums that exceed a budget, of the run or of an entry of `per_path`."""
        for name in Limited._fields:
            sums = self._limited.get((name, -1), Summary())
            yield from over_budget(sums, _only(budgets, name), place)
            for entry, one in enumerate(policy.per_path):
                sums = self._limited.get((name, entry), Summary())
                yield from over_budget(sums, _only(one.budgets, name), Place(one.path), one.path)

    def keep(self, findings: Iterable[Finding]) -> None:
        """Add findings, as many as are kept."""
        for finding in findings:
            self._kept[finding.severity] += 1
            if self._kept[finding.severity] <= FINDINGS_KEPT:
                self._findings.append(finding)

    def _reader(self) -> Reader:
        return "user" if self._readers == {"user"} else "author"

    def checked(self, reader: Reader | None = None) -> Checked:
        """Return all results."""
        return Checked(
            summary=self.summary,
            top=costliest(self._costs, reader or self._reader()),
            findings=self._findings,
            problems=self._problems,
        )


def _only(budgets: Budgets, name: str) -> Budgets:
    return Budgets(**{name: getattr(budgets, name)})


def _without_copies(result: FileResult, compared: Mapping[str, bool], dropped: set[int]) -> None:
    """Take copied requests out of a file's result. A chain of which nothing is left was none."""
    sums, gone, left = result.summary, Counter[str](), list[Judged]()
    for one in result.judged:
        if one.response_id not in compared:
            left.append(one)
            continue
        gone[one.chain] += 1
        sums.turns -= 1
        sums.copied += 1
        if compared[one.response_id]:
            sums.pairs -= one.paired
            dropped.update(each.place for each in one.found)
            one = one._replace(found=())
        left.append(one)
    sums.chains -= sum(gone[name] == number for name, number in result.turns.items())
    result.judged = left
