"""Compare two sides: recordings, spans of time, versions, models, agents: what `lore compare` answers.

In: two sides as they are written, where recordings without a path are looked for. Out: a `Comparison`. Rules: a side is
a path, or terms joined by commas that all hold: `KEY:VALUE`, `FROM..TO`; requests are those of the ledgers that bare
`lore` sums (`ledgers.py`, `overview.py`), so that both say the same; what a side holds twice counts once in it.
"""

from __future__ import annotations

import os
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from operator import eq, ge, gt, le, lt
from typing import NamedTuple

from msgspec.structs import replace

from lore.errors import LoreError, did_you_mean
from lore.judge.measures import RATIOS, compared_shares, measure, share_of
from lore.judge.sums import CauseSums, Copies, LedgerRequest, Sums
from lore.model.results.overview import ComparedCause, ComparedSide, Comparison, Spending, SpendingCause
from lore.recording import filesystem
from lore.recording.agents.logs import Agent, Surroundings, agent_named
from lore.recording.inputs import is_pattern
from lore.report.sentences.spending import cause_in_words
from lore.run.recent import since
from lore.run.spending.ledgers import Ledgers, Progress
from lore.run.spending.overview import gathered, is_of, requests_of
from lore.store.registry import is_store, mask_url

HINT = "a side is a path, KEY:VALUE (keys: {}) or FROM..TO (14d..7d, 2026-06-01..2026-07-01), several joined by commas"
_MOST_NAMED = 3  # clients and models of a side
_VERSION = re.compile(r"(<=|>=|<|>|=)?\s*v?(\d[\w.+-]*)")
_COMPARE = {"<": lt, "<=": le, ">": gt, ">=": ge, "=": eq}

Test = Callable[[LedgerRequest], bool]


class SelectedSide(NamedTuple):
    """One side: its text, the path that it names (empty: none), and the tests of its requests."""

    name: str
    path: str = ""
    tests: tuple[Test, ...] = ()
    agent: Agent | None = None


def side_of(text: str, now: float) -> SelectedSide:
    """Parse a side; raises LoreError if it is not one."""
    if filesystem.is_remote(text) or os.path.lexists(text) or is_pattern(text) or is_store(text):
        return SelectedSide(mask_url(text), text)
    tests, agent = list[Test](), None
    for term in filter(None, (part.strip() for part in text.split(","))):
        key, colon, value = term.partition(":")
        if ".." in term and not colon:
            tests.append(_span(term, now))
        elif not colon or not value:
            raise LoreError(f"{term!r} is no side of a comparison, and no such file is there", hint=_hint())
        elif key == "agent":
            agent = agent_named(value)
        elif key in _TESTS:
            tests.append(_TESTS[key](value))
        else:
            raise LoreError(f"{key!r} is nothing to compare by", hint=did_you_mean(key, ("agent", *_TESTS), "keys"))
    if not tests and agent is None:
        raise LoreError(f"{text!r} is no side of a comparison", hint=_hint())
    return SelectedSide(text, "", tuple(tests), agent)


def _hint() -> str:
    return HINT.format(", ".join(("agent", *_TESTS)))


def _span(term: str, now: float) -> Test:
    begin, _, end = term.partition("..")
    first = since(begin, now) if begin.strip() else float("-inf")
    last = since(end, now) if end.strip() else float("inf")
    if first >= last:
        raise LoreError(f"{term!r} ends before it begins", hint="the older end comes first: 14d..7d")
    return lambda request: request.at is not None and first <= request.at < last


def _version(value: str) -> Test:
    match = _VERSION.fullmatch(value)
    if match is None:
        raise LoreError(f"{value!r} is no version", hint="version:2.1.215, version:>=2.1.215, version:<2.1.215")
    wanted, compare = _parts(match[2]), _COMPARE[match[1] or "="]

    def test(request: LedgerRequest) -> bool:
        known = request.row.client.rpartition(" ")[2]
        if not known[:1].isdigit():
            return False
        parts = _parts(known)
        return parts[: len(wanted)] == wanted if match[1] is None else compare(parts, wanted)

    return test


def _parts(version: str) -> list[tuple[bool, int, str]]:
    """Return the parts of a version in their order; a pre-release precedes its release."""
    release, _, before = version.partition("-")
    numbers = [(True, int(part), "") if part.isdigit() else (False, 0, part) for part in release.split(".")]
    return [*numbers, (False, 0, before)] if before else numbers


_TESTS: dict[str, Callable[[str], Test]] = {
    "model": lambda value: lambda request: (request.row.model or "").startswith(value),
    "version": _version,
    "client": lambda value: lambda request: request.row.client.startswith(value),
    "gateway": lambda value: lambda request: request.row.gateway == ("" if value == "none" else value),
    "project": lambda value: lambda request: is_of(request.project, value),
}


class CompareRequest(NamedTuple):
    """What to compare; recordings of sides without a path lie at `paths` (none: those of agents here)."""

    left: SelectedSide
    right: SelectedSide
    paths: tuple[str, ...] = ()
    jobs: int = 1


def compare(
    here: Surroundings, request: CompareRequest, ledgers: Ledgers, progress: Progress | None = None
) -> Comparison:  # fmt: skip
    """Compare two sides. Raises LoreError if one of them has no request."""
    sides = (request.left, request.right)
    found = [gathered(here, (side.path,) if side.path else request.paths, None) for side in sides]
    logs = {log.file.path: log for side in found for log in side.logs}
    made = {
        file.path: ledger
        for file, ledger in ledgers.each([log.file for log in logs.values()], progress, request.jobs)
    }  # fmt: skip
    sums = [_SideSums(side) for side in sides]
    for total, there in zip(sums, found, strict=True):
        for log in there.logs:
            if (ledger := made.get(log.file.path)) is not None:
                total.take(requests_of(ledger, log, total.copies))
        if not total.sums.requests:
            raise LoreError(f"there are no requests of {total.side.name}", hint=_there(sums, request.paths))
    left, right = (total.billed_sessions() for total in sums)
    failed = [f"{ledger.path}: {ledger.message}" for ledger in made.values() if ledger.message is not None]
    return Comparison(
        left=sums[0].result(), right=sums[1].result(), measures=[measure(ratio, left, right) for ratio in RATIOS],
        causes=_causes(*sums), files=len(made), kept=ledgers.taken, copied=sum(total.copies.count for total in sums),
        problems=sum(ledger.problems for ledger in made.values()),
        failed=[*(text for there in found for text in there.failed), *failed],
        looked=list(dict.fromkeys(place for there in found for place in there.looked)), notes=_mixed(sums),
    )  # fmt: skip


def _there(sums: Sequence[_SideSums], paths: Sequence[str]) -> str:
    """Return which clients and models there are, for the error about a side without requests."""
    seen = next((total for total in sums if total.sums.requests), None)
    where = "there" if paths else "in the recordings of agents here"
    if seen is None:
        return "lore sessions lists the recordings; --in PATH takes recordings from elsewhere"
    return f"{where} are {', '.join([*seen.named('client'), *seen.named('model')])}"


def _mixed(sums: Sequence[_SideSums]) -> list[str]:
    """Return a note if one side has versions of several clients, which count them independently."""
    for total in sums:
        clients = sorted({name.partition(" ")[0] for name in total.seen["client"]})
        if "version:" in total.side.name and len(clients) > 1:
            return [
                f"{total.side.name} takes versions of {', '.join(clients)}: name the agent, too (agent:NAME,version:…)"
            ]
    return []


class _SideSums:
    """What the requests of a side come to: all together, by cause, and the billed ones by session.

    Measures and shares are of billed requests alone, numerator and denominator: what one without a bill would have
    read or lost is an estimate.
    """

    def __init__(self, side: SelectedSide) -> None:
        self.side, self.copies, self.sums, self.causes = side, Copies(), Sums(), CauseSums()
        self.billed = 0
        self.broken: dict[str, int] = defaultdict(int)  # billed requests with a break, by its code
        self._billed_sessions: dict[str, Sums] = defaultdict(Sums)
        self._times: list[float] = []
        self.seen: dict[str, dict[str, int]] = {"client": {}, "model": {}}

    def take(self, requests: Iterable[LedgerRequest]) -> None:
        """Add those that are of this side."""
        for request in requests:
            if self.side.agent is not None and request.agent != self.side.agent.title:
                continue
            if all(test(request) for test in self.side.tests):
                self._add(request)

    def _add(self, request: LedgerRequest) -> None:
        self.sums.add(request)
        self.causes.add(request)
        if request.row.billed:
            self._add_billed(request)
        if request.at is not None:
            self._times.append(request.at)
        for name, value in (("client", request.row.client), ("model", request.row.model)):
            if value:
                self.seen[name][value] = self.seen[name].get(value, 0) + 1

    def _add_billed(self, request: LedgerRequest) -> None:
        self.billed += 1
        self._billed_sessions[request.session].add(request)
        if request.row.loss is not None:
            self.broken[request.row.loss.code] += 1

    def named(self, kind: str) -> list[str]:
        seen = self.seen[kind]
        return sorted(seen, key=lambda name: (-seen[name], name))[:_MOST_NAMED]

    def billed_sessions(self) -> list[Spending]:
        return [sums.result(name) for name, sums in self._billed_sessions.items()]

    def result(self) -> ComparedSide:
        return ComparedSide(
            name=self.side.name, first=min(self._times, default=None), last=max(self._times, default=None),
            clients=self.named("client"), models=self.named("model"), spending=self.sums.result(self.side.name),
        )  # fmt: skip


def _causes(left: _SideSums, right: _SideSums) -> list[ComparedCause]:
    """Compare how often each code was met, those that differ most in money for a request first."""
    found: list[tuple[float, ComparedCause]] = []
    sides = [(total, _by_code(total)) for total in (left, right)]
    trials = [max(1, total.billed) for total, _ in sides]
    for code in sorted({code for _, causes in sides for code in causes}):
        shares = [share_of(total.broken.get(code, 0), total.billed) for total, _ in sides]
        paid = [_dollars(causes.get(code, [])) for _, causes in sides]
        some = next(cause for _, causes in sides for cause in causes.get(code, []))
        words = cause_in_words(replace(some, names=[], lifetime=None))
        weight = abs((paid[0] or 0.0) / trials[0] - (paid[1] or 0.0) / trials[1])
        compared = ComparedCause(
            code=code, name=some.name, kind=some.kind, says=words.says, fix=words.fix, left=shares[0],
            right=shares[1], left_dollars=paid[0], right_dollars=paid[1], outcome=compared_shares(*shares),
        )  # fmt: skip
        found.append((weight, compared))
    return [compared for _, compared in sorted(found, key=lambda pair: (-pair[0], pair[1].code))]


def _by_code(total: _SideSums) -> dict[str, list[SpendingCause]]:
    causes: dict[str, list[SpendingCause]] = defaultdict(list)
    for unsure in (False, True):
        for cause in total.causes.results("user", unsure=unsure):
            causes[cause.code].append(cause)
    return causes


def _dollars(causes: Sequence[SpendingCause]) -> float | None:
    known = [cause.dollars for cause in causes if cause.dollars is not None]
    return round(sum(known), 6) if known else None
