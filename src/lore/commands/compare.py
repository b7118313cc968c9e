"""`lore compare`: two sides of recordings (folders, spans of time, versions, models, agents) and what differs.

A side is a path, or terms joined by commas that all hold: `KEY:VALUE`, `FROM..TO`. Requests are those that bare `lore`
sums, so that both agree; what a side holds twice counts once in it.
"""

from __future__ import annotations

import os
import re
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from operator import eq, ge, gt, le, lt
from typing import Annotated, NamedTuple

from msgspec.structs import replace

from lore.commands import common, flags
from lore.errors import LoreError, did_you_mean
from lore.formats.registry import READERS
from lore.judge.measures import RATIOS, compare_shares, measure, share_of
from lore.judge.sums import CauseLoss, Copies, LedgerRequest, Sums, group_losses, sum_losses
from lore.model.codes import Audience, fix_of
from lore.model.ledger import Ledger
from lore.model.results.overview import ComparedCause, ComparedSide, Comparison, SpendingCause
from lore.recording import filesystem
from lore.recording.agents.limits import plan_notes
from lore.recording.agents.logs import Surroundings, agent_named
from lore.recording.inputs import is_pattern
from lore.report.comparison import write_comparison
from lore.report.sentences import cause_in_words
from lore.run.arguments import parse_since, parse_until
from lore.run.checking.verdicts import CheckContext
from lore.run.spending.ledgers import Ledgers, Progress
from lore.run.spending.overview import Period, gather_logs, is_in_project, logged_work, requests_of
from lore.store.registry import is_store, mask_url

_SIDE = "A path, or KEY:VALUE (agent, model, version, client, gateway, project) or FROM..TO, joined by commas."


def run(
    left: Annotated[str, "A", _SIDE],
    right: Annotated[str, "B", "The other side."],
    paths: Annotated[list[str] | None, "--in", "Where recordings are; default: where agents keep them."] = None,
    no_cache: flags.NoCache = False,
    report: flags.Page = None,
    open_page: flags.Open = False,
    redact: flags.Redact = False,
    as_json: flags.AsJson = False,
    config: flags.Config = None,
    color: flags.Colour = None,
    verbose: flags.Verbose = False,
) -> int:
    """Compare two sides: tokens read and re-billed, and cost.

    It says which differences are more than chance; -v adds how sure that is (intervals of 95 %).

    Recordings or folders (lore compare before/ after/), a client's releases (version:<2.1.215 version:>=2.1.215),
    agents (agent:codex agent:pi), models, gateways (gateway:openrouter.ai gateway:none), spans of time (14d..7d 7d..).
    A span holds its last day: June is 2026-06-01..2026-06-30.
    """
    page = common.page_target(report, opens=open_page, name="compare", in_use=as_json)
    loaded, now = common.find_settings(config), time.time()
    sides = side_of(left, now), side_of(right, now)
    ledgers = common.ledgers_of(loaded, no_cache=no_cache, verbose=verbose, now=now)
    with common.progress(is_on=not verbose, colour=color, what="reading") as show, common.redact_errors(redact=redact):
        result = compare(common.surroundings(), *sides, ledgers, paths=paths or (), progress=show)
    result = common.redacted_if(redact, result)
    if page is None or page.path:
        common.answer(result, partial(write_comparison, verbose=verbose), as_json=as_json, color=color)
    if page is not None:
        from lore.commands.pages import write_pages
        from lore.report.html.page import introduce_comparison

        write_pages(page, introduce_comparison(result), [], CheckContext(), verbose=verbose, colour=color)
    return common.exit_code(result.failed)


_HINT = "a side is a path, KEY:VALUE (keys: {}) or FROM..TO (14d..7d, 2026-06-01..2026-06-30), several joined by commas"
_VERSION = re.compile(r"(<=|>=|<|>|=)?\s*v?(\d[\w.+-]*)")
_COMPARE = {"<": lt, "<=": le, ">": gt, ">=": ge, "=": eq}

Test = Callable[["LedgerRequest"], bool]


class SelectedSide(NamedTuple):
    """One side of a comparison."""

    name: str  # as it was typed
    path: str = ""  # empty: its recordings are those of the request
    tests: tuple[Test, ...] = ()  # that its requests pass


def side_of(text: str, now: float) -> SelectedSide:
    """Parse a side; raises LoreError if it is not one."""
    if filesystem.is_remote(text) or os.path.lexists(text) or is_pattern(text) or is_store(text):
        return SelectedSide(mask_url(text), text)
    tests, hint = list[Test](), _HINT.format(", ".join(_TESTS))
    for term in filter(None, (part.strip() for part in text.split(","))):
        key, colon, value = term.partition(":")
        if ".." in term and not colon:
            tests.append(_span(term, now))
        elif not colon or not value:
            raise LoreError(f"{term!r} is not a side of a comparison, and no such file exists", hint=hint)
        elif key in _TESTS:
            tests.append(_TESTS[key](value))
        else:
            raise LoreError(f"cannot compare by {key!r}", hint=did_you_mean(key, _TESTS, "keys"))
    if not tests:
        raise LoreError(f"{text!r} is not a side of a comparison", hint=hint)
    return SelectedSide(text, "", tuple(tests))


def _span(term: str, now: float) -> Test:
    begin, _, end = term.partition("..")
    first = parse_since(begin, now, "FROM of a span") if begin.strip() else float("-inf")
    last = parse_until(end, now, "TO of a span") if end.strip() else float("inf")
    if first >= last:
        raise LoreError(f"{term!r} ends before it begins", hint="the older end comes first: 14d..7d")
    return lambda request: request.at is not None and first <= request.at < last


def _version(value: str) -> Test:
    match = _VERSION.fullmatch(value)
    if match is None:
        raise LoreError(f"{value!r} is not a version", hint="version:2.1.215, version:>=2.1.215, version:<2.1.215")
    wanted_parts, matches = _parts(match[2]), _COMPARE[match[1] or "="]

    def test(request: LedgerRequest) -> bool:
        version = request.row.client.rpartition(" ")[2]
        if not version[:1].isdigit():
            return False
        parts = _parts(version)
        return parts[: len(wanted_parts)] == wanted_parts if match[1] is None else matches(parts, wanted_parts)

    return test


def _parts(version: str) -> list[tuple[bool, int, str]]:
    """Return the parts of a version in their order; a pre-release precedes its release."""
    release, _, prerelease = version.partition("-")
    numbers = [(True, int(part), "") if part.isdigit() else (False, 0, part) for part in release.split(".")]
    return [*numbers, (False, 0, prerelease)] if prerelease else numbers


def _agent(value: str) -> Test:
    title = agent_named(value).title
    return lambda request: request.agent == title


_TESTS: dict[str, Callable[[str], Test]] = {
    "agent": _agent,
    "model": lambda value: lambda request: (request.row.model or "").startswith(value),
    "version": _version,
    "client": lambda value: lambda request: request.row.client.startswith(value),
    "gateway": lambda value: lambda request: request.row.gateway == ("" if value == "none" else value),
    "project": lambda value: lambda request: is_in_project(request.project, value),
}

_MOST_NAMED = 3  # clients and models in a hint


def compare(
    surroundings: Surroundings, left: SelectedSide, right: SelectedSide, ledgers: Ledgers, *, paths: Sequence[str] = (),
    progress: Progress | None = None,
) -> Comparison:  # fmt: skip
    """Compare two sides. Raises LoreError if one of them has no request.

    `paths` are those of sides without a path; empty: where agents keep recordings.
    """
    sums = [_SideSums(side) for side in (left, right)]
    sources = [gather_logs(surroundings, (side.side.path,) if side.side.path else paths, None) for side in sums]
    files = {log.file.path: log.file for source in sources for log in source.logs}
    by_path = {file.path: ledger for file, ledger in ledgers.read(list(files.values()), progress)}
    copied = 0
    for side, source in zip(sums, sources, strict=True):
        copies, logged = Copies(), logged_work(log.file.path for log in source.logs)
        logs_by_path = {log.file.path: log for log in source.logs}
        for path, ledger in by_path.items():
            if (log := logs_by_path.get(path)) is not None:
                for request in requests_of(ledger, log, copies, logged):
                    side.add(request)
        copied += copies.count
        if side.is_empty:
            ledger = by_path.get(side.side.path)  # says why a file could not be read
            if ledger is not None and ledger.message is not None:
                raise LoreError(ledger.message, hint="`lore formats` lists what lore reads")
            hint = "lore sessions lists the recordings; --in PATH takes recordings from elsewhere"
            if (filled_side := next((side for side in sums if not side.is_empty), None)) is not None:
                names = [
                    name for counts in (filled_side.clients, filled_side.models)
                    for name in _most_first(counts)[:_MOST_NAMED]
                ]  # fmt: skip
                hint = f"{'there' if paths else 'in the recordings of agents here'} are {', '.join(names)}"
            raise LoreError(f"no requests match {side.side.name}", hint=hint)
    billed = [[group.result(name) for name, group in side.billed_sessions.items()] for side in sums]
    sessions = {path for side in sums for path in side.billed_sessions}
    logs = [(ledger.format, path) for path, ledger in by_path.items() if ledger.path in sessions]
    notes = plan_notes(logs)
    for side in sums:
        clients = sorted({name.partition(" ")[0] for name in side.clients})
        if "version:" in side.side.name and len(clients) > 1:  # each client counts its versions by itself
            names = ", ".join(clients)
            notes.append(f"{side.side.name} takes versions of {names}: name the agent, too (agent:NAME,version:…)")
            break
    failed = [f"{ledger.path}: {ledger.message}" for ledger in by_path.values() if ledger.message is not None]
    return Comparison(
        left=sums[0].result(), right=sums[1].result(),
        change=sums[1].change_since(sums[0]),
        measures=[measure(ratio, *billed) for ratio in RATIOS],
        causes=_compared_causes(sums, by_path.values()), files=len(by_path), kept=ledgers.taken, copied=copied,
        problems=sum(ledger.problems for ledger in by_path.values()),
        failed=[*(text for source in sources for text in source.failed), *failed],
        looked=list(dict.fromkeys(place for source in sources for place in source.looked)), notes=notes,
    )  # fmt: skip


class _SideSums(Period):
    """Sums over the requests of one side.

    Measures and shares count billed requests only, in numerator and denominator: what others would have read
    or lost is an estimate.
    """

    def __init__(self, side: SelectedSide) -> None:
        super().__init__()
        self.side = side
        self.billed_sessions: defaultdict[str, Sums] = defaultdict(Sums)  # of billed requests
        self.billed = 0  # requests
        self.clients, self.models = Counter[str](), Counter[str]()
        self._times: list[float] = []

    def add(self, request: LedgerRequest) -> None:
        """Add a request if it passes the side's tests."""
        if not all(test(request) for test in self.side.tests):
            return
        super().add(request)
        row = request.row
        if row.billed:
            self.billed += 1
            self.billed_sessions[request.session].add(request)
        self._times += [] if request.at is None else [request.at]
        self.clients.update(filter(None, [row.client]))
        self.models.update(filter(None, [row.model]))

    def result(self) -> ComparedSide:
        return ComparedSide(
            name=self.side.name, first=min(self._times, default=None), last=max(self._times, default=None),
            clients=_most_first(self.clients), models=_most_first(self.models), spending=self.total(self.side.name),
        )  # fmt: skip


def _most_first(counts: Counter[str]) -> list[str]:
    return sorted(counts, key=lambda name: (-counts[name], name))


def _compared_causes(sides: Sequence[_SideSums], ledgers: Iterable[Ledger]) -> list[ComparedCause]:
    """Compare how often each cause occurred, those first that differ most in money for a request.

    Fixes address the user if an agent's session log is compared, else the author.
    """
    readers = [READERS.get(ledger.format) for ledger in ledgers if ledger.format != "lore"]
    is_log = any(reader is not None and reader.yields == "events" for reader in readers)
    audience: Audience = "user" if is_log else "author"
    causes: defaultdict[tuple[object, ...], _BothSides] = defaultdict(lambda: ([], []))
    for number, side in enumerate(sides):
        for losses in group_losses(side.cause_sums.every_loss(), audience, _in_words):
            cause = _in_words(sum_losses(losses, audience))
            if cause.tokens:
                causes[cause.code, cause.kind, cause.says][number].extend([(cause, loss) for loss in losses])
    compared: list[tuple[float, ComparedCause]] = []
    for both in causes.values():
        words = next(cause for cause, _ in (*both[0], *both[1]))
        if any(cause.fix != words.fix for cause, _ in (*both[0], *both[1])):  # then the fix is that of the code
            words = _in_words(replace(words, fix=fix_of(words.code, audience, words.kind)))
        broken = [sum(loss.turns for _, loss in found if loss.request.row.billed) for found in both]
        shares = [
            share_of(count, side.billed, len(side.billed_sessions)) for count, side in zip(broken, sides, strict=True)
        ]
        amounts = [[loss.dollars for _, loss in found if loss.dollars is not None] for found in both]
        paid = [round(sum(dollars), 6) if dollars else None for dollars in amounts]
        costs = [(dollars or 0.0) / max(1, side.billed) for dollars, side in zip(paid, sides, strict=True)]
        result = ComparedCause(
            code=words.code, name=words.name, kind=words.kind, says=words.says, fix=words.fix, left=shares[0],
            right=shares[1], left_dollars=paid[0], right_dollars=paid[1], outcome=compare_shares(*shares),
        )  # fmt: skip
        compared.append((abs(costs[0] - costs[1]), result))
    return [result for _, result in sorted(compared, key=lambda pair: (-pair[0], pair[1].code, pair[1].kind))]


_BothSides = tuple[list[tuple[SpendingCause, CauseLoss]], list[tuple[SpendingCause, CauseLoss]]]


def _in_words(cause: SpendingCause) -> SpendingCause:
    """Return a cause with its words, without the names and the lifetime in its evidence."""
    return cause_in_words(replace(cause, names=[], lifetime=None))
