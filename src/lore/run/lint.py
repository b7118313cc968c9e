"""Examine request bodies one by one: what `lore lint` answers.

The result has the latest request of each conversation with its outlook, and the findings about any request, each kind
at a place once. If findings leave nothing of any request to be read from a cache, they are errors: exit code 1.
Memory: the latest requests of `LINTED_CONVERSATIONS` conversations of a file.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import NamedTuple

import msgspec
from msgspec.structs import replace

from lore.cache.served import Served, served_by
from lore.errors import LoreError
from lore.judge.base import damage, finding
from lore.judge.lint import Defect, Linter, is_refused
from lore.judge.outlook import Outlook
from lore.judge.policy import Budgets, Ruling
from lore.judge.totals import UNJUDGED
from lore.model.canonical import encode
from lore.model.cause import Place
from lore.model.codes import CODES, Code, Problem
from lore.model.jsonslice import value_at
from lore.model.limits import LINTED_CONVERSATIONS
from lore.model.results import Finding
from lore.model.results.lint import LintBreakpoint, LintRequest, LintResult, LintSummary
from lore.model.turn import Exchange, Turn
from lore.recording import corpus
from lore.recording.base import Problems, Recording, UnrecognisedError, load_plugins
from lore.recording.inputs import Input, inputs
from lore.recording.joining import join_bodies, open_input
from lore.recording.opening import Options
from lore.recording.requests import RequestRecording
from lore.report.forms.lint import worded_lint
from lore.report.redacted.findings import redacted_error
from lore.run.checking.verdicts import CheckContext, place_of

_NUMBERS = str.maketrans("", "", "0123456789")
_HINT = "`lore lint` reads request bodies and captures of them: `lore assemble PATH | lore lint -` for a session"


class LintOutcome(NamedTuple):
    """The result, whether a finding is an error, and whether an input could not be judged."""

    result: LintResult
    failed: bool
    incomplete: bool


class _Asked(NamedTuple):
    """A request."""

    turn: Turn
    body: bytes  # empty if it continues another request, so that paths do not count in it alone
    stakes: Mapping[str, int | None] = MappingProxyType({})  # by the codes of its findings; None: a note, or unknown
    refused: bool = False  # the provider refuses it


class _LintFinding(NamedTuple):
    """The finding of a kind that has most at stake."""

    finding: Finding
    requests: int  # in how many requests it was seen
    where: Served = Served("", "")  # who serves the request


class Lint:
    """Look at the requests of a run, file by file. `model` is taken where a body names none."""

    def __init__(
        self, options: Options, context: CheckContext, *, cache: str | None = None, model: str | None = None
    ) -> None:  # fmt: skip
        self._options, self._context, self._model = options, context, model
        rules = context.dated.rules()
        self._as_of = rules.as_of
        count = None if options.counter is None else options.counter.count
        self._linter = Linter(rules, context.dated.labels, cache, count)
        self.summary = LintSummary()
        self.incomplete = False
        self._rows: list[LintRequest] = []
        self._found: dict[tuple[object, ...], _LintFinding] = {}
        self._problems: list[Problem] = []
        self._preventing: list[set[str]] = []  # for each row: the codes of findings that leave nothing to be read

    def file(self, file: Input, name: corpus.Name | None = None) -> None:
        """Look at one file, or the request of it that `name` names; raises LoreError for one that was named."""
        place, problems = place_of(file.path, self._context.root), Problems()
        place = replace(place, reader=self._context.reader or "author")
        ruling = self._context.policy.ruling(place.key, Budgets())
        if file.error is not None:
            self._unreadable(file.error.message, place, ruling)
            return
        try:
            recording = open_input(file, self._options, problems)
            if recording.events:
                raise UnrecognisedError(f"{recording.shown} is a session log, and holds no requests", hint=_HINT)
            self._recording(recording, file, place, ruling, name)
            self._damage(problems, place, ruling)
        except LoreError as error:
            if file.named and not (isinstance(error, UnrecognisedError) and file.optional):
                raise
            if isinstance(error, UnrecognisedError):
                self.summary.skipped += 1
                self._options.log(f"{place.path}: no requests, passed over")
            else:
                self._damage(problems, place, ruling)
                self._unreadable(error.message, place, ruling)

    def result(self) -> LintResult:
        """Return the findings so far, in words."""
        order = ("error", "warning", "note")
        redact = self._context.redact
        preventing = set[str]().union(*self._preventing) if all(self._preventing) else set[str]()
        for key, found in self._found.items():
            if found.finding.severity == "warning" and found.finding.code in preventing:
                self._found[key] = found._replace(finding=replace(found.finding, severity="error"))
        findings = [
            worded_lint(replace(found.finding, requests=found.requests), found.where, redact=redact)
            for found in sorted(self._found.values(), key=lambda found: order.index(found.finding.severity))
        ]
        sums = self.summary
        sums.shown = len(self._rows)
        sums.refused = sum(row.refused for row in self._rows)
        sums.cached = sum(bool(row.cached_tokens) and not row.refused for row in self._rows)
        sums.unknown = sum(row.cached_tokens is None and not row.refused for row in self._rows)
        sums.uncached = sums.shown - sums.cached - sums.unknown - sums.refused
        for severity, count in (("error", "errors"), ("warning", "warnings"), ("note", "notes")):
            setattr(sums, count, sum(finding.severity == severity for finding in findings))
        as_of = None if self._as_of is None else self._as_of.isoformat()
        rows, problems = self._rows, self._problems
        if redact:
            from lore.report.redacted.results import redacted  # noqa: PLC0415 - most results are shown as they are

            rows, problems = list(map(redacted, rows)), list(map(redacted, problems))
        return LintResult(summary=sums, rules=as_of, requests=rows, findings=findings, problems=problems)

    def _recording(
        self, recording: Recording, file: Input, place: Place, ruling: Ruling, name: corpus.Name | None
    ) -> None:
        latest: OrderedDict[str, _Asked] = OrderedDict()
        rows: dict[str, LintRequest] = {}
        seen = 0
        for asked in _requests(recording):
            turn = asked.turn
            if name is not None and name.turn is not None and not _is_named(turn, name):
                continue
            seen += 1
            if self._model is not None and turn.prompt.model is None:
                turn.source = replace(turn.prompt, model=self._model)
            latest[turn.chain] = self._defects(asked, place, ruling)
            latest.move_to_end(turn.chain)
            if len(latest) > LINTED_CONVERSATIONS:
                chain, old = latest.popitem(last=False)
                rows[chain] = self._row(old, place)
        for chain, old in latest.items():
            rows[chain] = self._row(old, place)
        if name is not None and name.turn is not None and not seen:
            raise LoreError(
                f"{name}: this file has no such request", hint="leave the number out to look at all of them"
            )
        self._rows += rows.values()
        self.summary.files += max(1, len(file.together))
        self.summary.requests += seen

    def _defects(self, asked: _Asked, place: Place, ruling: Ruling) -> _Asked:
        """Keep the findings about a request; return it with their codes."""
        stakes: dict[str, int | None] = {}
        refused = False
        for defect in self._linter.defects(asked.turn):
            made = self._finding(defect, asked, place)
            if made := self._ruled(made, ruling):
                stakes[made.code] = None if made.severity == "note" else defect.stake.tokens or 0
                refused = refused or is_refused(made)
                self._keep(made, defect.detail, served_by(asked.turn))
        return asked._replace(stakes=stakes, refused=refused)

    def _finding(self, defect: Defect, asked: _Asked, place: Place) -> Finding:
        broken, turn = defect.broken, asked.turn
        where = _where(asked.body, turn, broken.path, defect.text, broken.start)
        made = finding(
            broken.code, place, broken.evidence, kind=broken.kind, at=turn, section=broken.section or None,
            json_path=broken.path or None, offset=where and where.inside, tokens="estimated", confidence="rule",
        )  # fmt: skip
        special = CODES[broken.code].fixes.get(defect.detail) if place.reader == "author" else None
        unset = msgspec.UNSET
        return replace(
            made, fix=special or made.fix, body_offset=unset if where is None else where.start + where.inside,
            stake_tokens=unset if defect.stake.tokens is None else defect.stake.tokens,
            stake_dollars=unset if defect.stake.dollars is None else defect.stake.dollars,
        )  # fmt: skip

    def _ruled(self, made: Finding, ruling: Ruling) -> Finding | None:
        ruled = ruling.decide(made)
        if ruled.out:
            self.summary.ignored += ruled.out == "ignored"
            self.summary.exempted += ruled.out == "exempted"
            return None
        return ruled.finding

    def _keep(self, made: Finding, detail: str, where: Served) -> None:
        """Keep the finding of its kind and place that has most at stake, and count the requests."""
        key = made.code, made.kind, detail, (made.json_path or "").translate(_NUMBERS)
        before = self._found.get(key)
        if before is None:
            self._found[key] = _LintFinding(made, 1, where)
            return
        more = (made.stake_tokens or 0) > (before.finding.stake_tokens or 0)
        kept = (made, where) if more else (before.finding, before.where)
        self._found[key] = _LintFinding(kept[0], before.requests + 1, kept[1])

    def _row(self, asked: _Asked, place: Place) -> LintRequest:
        turn, outlook = asked.turn, self._linter.outlook(asked.turn)
        where = outlook.where
        self._preventing.append(_preventing(asked, outlook))
        return LintRequest(
            path=place.of(turn).path, line=turn.line, chain=turn.chain, turn=turn.number, dialect=turn.dialect,
            model=turn.model, provider=where.provider or None, platform=where.platform or None,
            cache=outlook.cache or None, tokens=outlook.tokens, cached_tokens=outlook.cached,
            cached_to=outlook.until or None, sure=outlook.sure, minimum_tokens=outlook.minimum,
            lifetime=outlook.lifetime, breakpoints=_breakpoints(outlook, asked),
            automatic=turn.prompt.auto_breakpoint, refused=asked.refused, confidence=outlook.confidence,
            first_dollars=outlook.first, second_dollars=outlook.second,
            uncached_dollars=outlook.uncached, codes=list(asked.stakes),
        )  # fmt: skip

    # what cannot be read

    def _damage(self, problems: Problems, place: Place, ruling: Ruling) -> None:
        counts = {code: number for (code, _), number in problems.counts.items()}
        self.incomplete = self.incomplete or any(code in UNJUDGED for code in counts)
        self.summary.problems += problems.total
        self._problems += problems.kept
        for made in damage(problems.kept, counts, place):
            if made := self._ruled(made, ruling):
                self._found[made.code, place.path] = _LintFinding(made, 0)

    def _unreadable(self, reason: str, place: Place, ruling: Ruling) -> None:
        self.incomplete = True
        problems = Problems()
        problems.add(Problem(Code.UNREADABLE_FILE, reason), place.path)
        self._damage(problems, place, ruling)


def lint(
    paths: list[str], options: Options, context: CheckContext, *, cache: str | None = None, model: str | None = None,
    pass_over: bool = False, progress: Callable[[int, int], None] | None = None,
) -> LintOutcome:  # fmt: skip
    """Look at every request under these paths; raises LoreError for a named file without requests."""
    load_plugins()
    context.policy.known(f"{context.settings}: check." if context.settings else "check.")
    run = Lint(options, context, cache=cache, model=model)
    try:
        named = [(corpus.parse_name(path), path) for path in paths]
        files = [
            (file._replace(optional=pass_over), name)
            for name, path in named
            for file in inputs([name.path if name.turn is not None else path])
        ]
        if not context.policy.is_by_path and all(name.turn is None for _, name in files):
            files = [(file, named[0][0]) for file in join_bodies([file for file, _ in files], options.format)]
        total, done, seen = sum(file.size for file, _ in files), 0, set[object]()
        for file, name in files:
            key = file.path, name.chain, name.turn
            if key not in seen:
                seen.add(key)
                run.file(file, name)
            done += file.size
            if progress is not None:
                progress(done, total)
        if not run.summary.files and not run.incomplete:
            raise UnrecognisedError(f"no requests in {corpus.show(paths[0])}", hint=_HINT)
    except LoreError as error:
        raise redacted_error(error) if context.redact else error from None
    result = run.result()
    failed = any(found.severity == "error" for found in result.findings)
    return LintOutcome(result, failed, run.incomplete)


def _preventing(asked: _Asked, outlook: Outlook) -> set[str]:
    """Return the codes of the findings that leave nothing of a request to be read from a cache.

    Nothing would be cached, or text that is new in each request comes before all that would be.
    """
    if not outlook.cached:
        codes = _UNCACHED if outlook.cached == 0 else ()
        return {code for code in codes if asked.stakes.get(code) is not None}
    return {code for code in _NEW_EACH_TIME if (asked.stakes.get(code) or 0) >= outlook.cached}


_UNCACHED = (Code.BREAKPOINTS_MISSING, Code.PROMPT_UNDER_MINIMUM, Code.BREAKPOINT_NOT_TAKEN)
_NEW_EACH_TIME = (Code.VOLATILE_BEFORE_HISTORY, Code.BREAKPOINT_ON_VOLATILE)


def _requests(recording: Recording) -> Iterator[_Asked]:
    if not isinstance(recording, RequestRecording):
        yield from (_Asked(turn, b"") for turn in recording.turns())
        return
    for exchange, turn in recording.exchanges():
        if turn is not None:
            yield _Asked(turn, exchange.body if _stands_alone(exchange, turn) else b"")


def _stands_alone(exchange: Exchange, turn: Turn) -> bool:
    """Return whether paths are those of this body: a request that continues another one has the other's items, too."""
    return not exchange.call.previous and turn.prompt.params.keys().isdisjoint(("previous_response_id", "conversation"))


def _is_named(turn: Turn, name: corpus.Name) -> bool:
    return turn.number == name.turn and (name.chain or "main") == turn.chain


class _Where(NamedTuple):
    """The byte of the body at which a value begins, and the byte of the value."""

    start: int
    inside: int


def _where(body: bytes, turn: Turn, path: str, text: str = "", start: int = 0) -> _Where | None:
    """Find a place of a request in its body; `text` is that of the segment, in which it begins at a character."""
    found = value_at(body, path, "cachePoint" if turn.dialect == "bedrock" else "") if body and path else None
    if found is None:
        return None
    value, inside = body[slice(*found)], -1
    word = text[start : start + 24].partition("\n")[0]
    spelled = encode(word)[1:-1] if word else b""
    for _ in range(text.count(word, 0, start) + 1 if spelled else 0):
        inside = value.find(spelled, inside + 1)
        if inside < 0:
            break
    return _Where(found[0], max(0, inside))


def _breakpoints(outlook: Outlook, asked: _Asked) -> list[LintBreakpoint]:
    found: list[LintBreakpoint] = []
    for mark in outlook.marks:
        where = _where(asked.body, asked.turn, mark.path)
        start = None if where is None else where.start
        found.append(LintBreakpoint(path=mark.path, body_offset=start, tokens=mark.tokens, lifetime=mark.lifetime))
    return found
