"""Put the results of files together, in their order: what `lore check` answers about all of them.

A fork or a resumed session begins with a copy of its parent's history. So over one run each request
counts once: one that an earlier file had already (the same `response_id`) is a copy, which is counted as
such and nowhere else, and gives no finding; so is a compaction with uuid and time of an earlier file's
(a log that a person wrote has neither request ids nor times, and `d1` in each). What one file holds twice
is no copy. A fork may begin in the middle, and its name come first: the copy's comparison with the turn
before it then counts, since the first file has none. What is remembered for that is one id a request.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from lore.model.problems import Problem
from lore.model.results import Checked, Finding, Summary
from lore.run.judging import FINDINGS_KEPT, FileResult, Request

PROBLEMS_KEPT = 10_000  # in all: each file keeps few, but there may be many files


class Merged:
    """The results so far. `failed`: a finding is an error; `incomplete`: an input could not be judged."""

    def __init__(self) -> None:
        self.summary = Summary()
        self.failed = False
        self.incomplete = False
        self._findings: list[Finding] = []
        self._kept: Counter[str] = Counter()
        self._problems: list[Problem] = []
        self._sessions: set[str] = set()
        self._responses: dict[str, bool] = {}  # whether it was compared with the turn before it
        self._boundaries: set[tuple[str, str | None]] = set()

    def take(self, result: FileResult) -> None:
        """Add the next file's result."""
        copies = [one for one in result.requests if one.response_id in self._responses]
        if copies:
            _without(result, copies, self._responses)
        result.summary.compactions -= sum(one in self._boundaries for one in result.boundaries)
        for one in result.requests:
            self._responses[one.response_id] = one.paired or self._responses.get(one.response_id, False)
        self._boundaries.update(one for one in result.boundaries if one[1] is not None)
        self._count(result)
        self.failed = self.failed or result.failed or any(one.failed for one in result.requests)
        self.incomplete = self.incomplete or result.incomplete
        self.keep(result.findings)
        self._problems.extend(result.problems[: PROBLEMS_KEPT - len(self._problems)])

    def _count(self, result: FileResult) -> None:
        """Add the counts. A session of several files counts once, a file without a session's id as one."""
        for name in Summary.__struct_fields__:
            setattr(self.summary, name, getattr(self.summary, name) + getattr(result.summary, name))
        if result.session is not None and (not result.session or result.session not in self._sessions):
            self.summary.sessions += 1
            self._sessions.add(result.session)

    def keep(self, findings: Iterable[Finding]) -> None:
        """Add findings, as many as are kept."""
        for finding in findings:
            self.failed = self.failed or finding.severity == "error"
            self._kept[finding.severity] += 1
            if self._kept[finding.severity] <= FINDINGS_KEPT:
                self._findings.append(finding)

    def checked(self) -> Checked:
        """Return all results."""
        return Checked(summary=self.summary, findings=self._findings, problems=self._problems)


def _without(result: FileResult, copies: list[Request], compared: Mapping[str, bool]) -> None:
    """Take copied requests out of a file's result. A chain of which nothing is left was none."""
    sums, gone = result.summary, Counter(one.chain for one in copies)
    sums.turns -= len(copies)
    sums.copied += len(copies)
    again = [one for one in copies if compared[one.response_id]]
    for one in again:
        sums.pairs -= one.paired
        sums.lost_tokens -= one.lost_tokens
        if one.bust:
            sums.busts -= 1
            setattr(sums, one.bust, getattr(sums, one.bust) - 1)
    sums.chains -= sum(gone[name] == number for name, number in result.turns.items())
    known = {one.response_id for one in again}
    result.requests = [one._replace(failed=False) if one.response_id in known else one for one in result.requests]
    dropped = {place for one in again for place in range(*one.found)}
    result.findings = [one for place, one in enumerate(result.findings) if place not in dropped]
