"""`lore lint`: will this request be cached at all?

The result has the latest request of each conversation with its outlook, and the findings about any request, each kind
at a place once. If findings leave nothing of any request of a file to be read from a cache, they are errors, also if
other files are examined with it.
Memory: the latest requests of `LINTED_CONVERSATIONS` conversations of a file.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from types import MappingProxyType
from typing import Annotated, NamedTuple, TypeAlias

from msgspec import UNSET
from msgspec.structs import replace

from lore.cache.served import Served, served_by
from lore.commands import common, flags
from lore.commands.check import context_of
from lore.errors import LoreError
from lore.judge.findings import finding as make_finding
from lore.judge.policy import Ruling
from lore.judge.requests.lint import NEW_EACH_TIME, Linter, Outlook, is_refused
from lore.judge.totals import is_unjudged, judge_problems, list_unjudged
from lore.model.canonical import encode
from lore.model.cause import Place
from lore.model.codes import Code, Problem
from lore.model.jsonslice import value_at
from lore.model.limits import LINTED_CONVERSATIONS
from lore.model.results import Finding
from lore.model.results.lint import LintBreakpoint, LintRequest, LintResult, LintSummary
from lore.model.turn import Turn
from lore.recording import corpus
from lore.recording.base import Problems, Recording, UnrecognisedError, load_plugins
from lore.recording.inputs import Input, inputs, is_passed_over, open_input
from lore.recording.opening import Options
from lore.recording.requests import RequestRecording
from lore.report.forms.base import Report
from lore.report.forms.ci import Junit
from lore.report.forms.lint import LintTerminal, worded_lint
from lore.report.redacted import redacted
from lore.run.checking.check import keep_originals
from lore.run.checking.verdicts import CheckContext, place_of, with_line
from lore.run.outputs import parse_targets, reporting_errors, write_reports
from lore.tokens.o200k import Counter


class LintOptions(common.CommonOptions, frozen=True):
    """The options of `lore lint`."""

    bodies: Annotated[
        list[str], "BODY...", "Request bodies, captures, cassettes, folders or patterns; `-` is standard input; PATH#N."
    ]
    cache: Annotated[
        str | None, "The cache that serves the requests; default: by their shape; an unknown word lists all."
    ] = None
    model: Annotated[str | None, "The model of bodies that name none (Gemini's, Bedrock's)."] = None
    select: flags.Select = None
    ignore: flags.Ignore = None
    report: flags.Reports = None
    open_page: flags.Open = False
    redact: flags.Redact = False
    audience: flags.For = None
    pass_over: flags.PassOver = False
    as_json: flags.AsJson = False
    dialect: flags.Dialect = None
    format: flags.Format = None
    quiet: flags.Quiet = False


@common.takes(LintOptions)
def run(options: LintOptions) -> int:
    """Predict if a request is cached, which part, for how long, with what saving; and report its faults.

    One request is enough: nothing is compared, and no usage is needed. `lore check` compares requests and says what
    really changed. Exit code 1 if a provider refuses the request, a breakpoint has no effect, or one of the files has
    no request that would be cached (one below the model's minimum is no error); 2 if no input holds a request, 3 if
    some input could not be examined. [check] in lore.toml holds here, too: select, ignore, count_as_waste, exempt.
    """
    verbose = options.verbose
    loaded, audience = common.find_settings(options.config), common.audience_named(options.audience)
    reports = parse_targets(options.report or (), as_json=options.as_json)
    opening = Options(
        format=options.format, dialect=options.dialect, rules=loaded.settings.assemble, counter=Counter(),
        log=common.log(verbose),
    )  # fmt: skip
    context = replace(context_of(loaded, options), audience=audience or loaded.settings.check.reader, options=opening)
    page = common.page_among(reports, opens=options.open_page, settings=loaded.file, name="lint")
    with (
        common.progress(is_on=not verbose, colour=options.color) as progress,
        reporting_errors(
            reports,
            [*options.bodies, *filter(None, [context.settings])],
            partial(LintResult, summary=LintSummary(), rules=None, requests=[]),
        ),
    ):
        result, unjudged = _lint(options, context, progress)
    junit = Junit([row.path for row in result.requests], unjudged)
    writers: dict[str, Report] = {"terminal": LintTerminal(quiet=options.quiet), "junit": junit}
    with common.writing():
        write_reports(result, reports, options.bodies, common.out(options.color), verbose=verbose, writers=writers)
    common.name_unjudged(unjudged, verbose=verbose)
    if page is not None:
        from lore.commands.pages import write_pages
        from lore.report.html.page import introduce_report

        intro = introduce_report(result, verbose=verbose)
        write_pages(page, intro, [], context, verbose=verbose, colour=options.color)
    return common.exit_code(unjudged, failed=result.summary.errors > 0, judged=result.summary.requests)


_HINT = "`lore lint` reads request bodies and captures of them: `lore assemble PATH | lore lint -` for a session"
_NUMBERS = str.maketrans("", "", "0123456789")
_ORDER = ("error", "warning", "note")
_UNCACHED = (Code.BREAKPOINTS_MISSING, Code.BREAKPOINT_NOT_TAKEN)


def _lint(
    options: LintOptions, context: CheckContext, progress: common.Progress | None
) -> tuple[LintResult, list[Problem]]:
    """Examine every request, and list what could not be examined; raises LoreError if there is no request."""
    load_plugins()
    context.check_names()
    linting, policy = _Lint(context, options.cache, options.model), context.policy
    with common.redact_errors(redact=context.redact):
        parsed_names = [(corpus.parse_name(path), path) for path in options.bodies]
        files = [
            (replace(file, optional=options.pass_over), name)
            for name, path in parsed_names
            for file in inputs([path if name.turn is None else name.path], is_only=len(options.bodies) == 1)
        ]
        by_path = policy.per_path or policy.exempt  # settings differ by path
        if not by_path and all(name.turn is None for _, name in files):
            originals, notes = keep_originals([file for file, _ in files], context.options)
            files = [(file, parsed_names[0][0]) for file in originals]
            for note in notes:
                common.tell(note)
        total_bytes, done_bytes, keys = sum(file.size for file, _ in files), 0, set[object]()
        for file, name in files:
            key = file.path, name.chain, name.turn
            if key not in keys:
                keys.add(key)
                linting.file(file, name)
            done_bytes += file.size
            if progress is not None:
                progress(done_bytes, total_bytes)
        are_skipped = options.pass_over and all(map(os.path.isfile, options.bodies))  # as a hook names changed files
        if not (linting.summary.files or are_skipped or any(map(is_unjudged, linting.problems))):
            raise UnrecognisedError(f"no requests in {corpus.show(options.bodies[0])}", hint=_HINT)
    return linting.result(), linting.unjudged


_Texts: TypeAlias = Mapping[str, bytes]  # by code, keys of text that should be new in each request


class _LintedRequest(NamedTuple):
    """A request, and what its findings put at stake."""

    turn: Turn
    body: bytes  # empty if it continues another request: offsets in it alone would be wrong
    stakes: Mapping[str, int | None] = MappingProxyType({})  # tokens, by finding code; None: a note, or unknown
    refused: bool = False  # the provider refuses it
    texts: _Texts = MappingProxyType({})


class _TopFinding(NamedTuple):
    """The finding of a kind that has most at stake."""

    finding: Finding
    requests: int  # in which it was seen
    where: Served  # who serves the request
    texts: set[bytes]  # keys of text that should be new in each request


class _Lint:
    """Examines the requests of a run, file by file."""

    def __init__(self, context: CheckContext, cache: str | None, model: str | None) -> None:
        self._context, self._model = context, model
        self._rules = context.dated.rules()
        count = None if context.options.counter is None else context.options.counter.count
        self._linter = Linter(context.dated.rules, context.dated.labels, cache, count)
        self.summary = LintSummary()
        self._rows: list[tuple[LintRequest, _Texts]] = []
        self._found: dict[object, dict[str, _TopFinding]] = {}  # of each kind and place, by file
        self.problems: list[Problem] = []
        self.unjudged: list[Problem] = []  # of them, why requests or whole files could not be examined
        # By file, for the latest request of each conversation in it: codes that leave nothing to read.
        self._blocking: dict[str, list[tuple[set[str], _Texts]]] = {}

    def file(self, file: Input, name: corpus.Name) -> None:
        """Examine a file, or the request of it that `name` names; raises LoreError for a name that cannot be read."""
        problems, place = Problems(), place_of(file.path, self._context.root)
        place = replace(place, audience=self._context.audience or "author")
        ruling, before = self._context.policy.ruling(place.key), self.summary.requests
        try:
            if file.error is not None:
                raise file.error
            recording = open_input(file, self._context.options, problems)
            if recording.events:
                raise UnrecognisedError(f"{recording.shown} is a session log, and holds no requests", hint=_HINT)
            self._examine_recording(recording, place, ruling, name)
            self.summary.files += max(1, len(file.together))
        except LoreError as error:
            if is_passed_over(file, error):
                self.summary.skipped += 1
                self._context.options.log(f"{place.path}: no requests, skipped")
                return
            if file.is_only:
                raise
            problems.add(Problem(Code.UNREADABLE_FILE, error.message), place.path)
        self.summary.problems += problems.total
        kept = list(map(redacted, problems.kept)) if self._context.redact else problems.kept
        self.problems += kept
        count = self.summary.requests - before
        self.unjudged += list_unjudged(kept, count)
        for fault in judge_problems(problems.kept, problems.counts, place, count):
            if finding := self._decide(fault, ruling):
                self._found[finding.code, place.path] = {place.path: _TopFinding(finding, 0, Served("", ""), set())}

    def result(self) -> LintResult:
        """Return the findings so far, in words."""
        blocking_codes = dict[str, set[str]]()
        for path, requests in self._blocking.items():
            code_sets = [{*self._drop_frozen(codes, texts)} for codes, texts in requests]
            blocking_codes[path] = set[str]().union(*code_sets) if all(code_sets) else set[str]()
        findings: list[Finding] = []
        for found in self._found.values():
            files = {
                path: entry for path, entry in found.items()
                if not entry.texts or not all(map(self._linter.is_frozen, entry.texts))
            }  # fmt: skip
            failing = {
                path: entry._replace(finding=replace(entry.finding, severity="error"))
                for path, entry in files.items()
                if entry.finding.severity == "warning" and entry.finding.code in blocking_codes.get(path, ())
            }
            remaining = [entry for path, entry in files.items() if path not in failing]
            for group in filter(None, ([*failing.values()], remaining)):
                top = max(group, key=lambda entry: entry.finding.stake_tokens or 0)
                finding = with_line(replace(top.finding, requests=sum(entry.requests for entry in group)))
                findings.append(worded_lint(finding, top.where, redact=self._context.redact))
        findings.sort(key=lambda finding: _ORDER.index(finding.severity))
        sums, problems = self.summary, self.problems
        rows = [replace(row, codes=self._drop_frozen(row.codes, texts)) for row, texts in self._rows]
        sums.shown = len(rows)
        sums.refused = sum(row.refused for row in rows)
        sums.cached = sum(bool(row.cached_tokens) and not row.refused for row in rows)
        sums.unknown = sum(row.cached_tokens is None and not row.refused for row in rows)
        sums.uncached = sums.shown - sums.cached - sums.unknown - sums.refused
        for severity, count in (("error", "errors"), ("warning", "warnings"), ("note", "notes")):
            setattr(sums, count, sum(finding.severity == severity for finding in findings))
        if self._context.redact:
            rows = list(map(redacted, rows))
        as_of = self._rules.as_of
        return LintResult(
            summary=sums, rules=None if as_of is None else as_of.isoformat(), requests=rows, findings=findings,
            problems=problems,
        )  # fmt: skip

    def _examine_recording(self, recording: Recording, place: Place, ruling: Ruling, name: corpus.Name) -> None:
        latest: dict[str, _LintedRequest] = {}  # of each chain, the one with the newest request last
        rows: dict[str, tuple[LintRequest, _Texts]] = {}
        count = 0
        for request in _requests(recording):
            turn = request.turn
            if name.turn is not None and (turn.number, turn.chain) != (name.turn, name.chain or "main"):
                continue
            count += 1
            if self._model is not None and turn.prompt.model is None:
                turn.source = replace(turn.prompt, model=self._model)
            previous = latest.pop(turn.chain, None)
            if previous is not None and place.of(previous.turn).path != place.of(turn).path:  # joined files
                self._predict(previous, place)
            latest[turn.chain] = self._examine(request, place, ruling)
            if len(latest) > LINTED_CONVERSATIONS:
                chain = next(iter(latest))
                rows[chain] = self._row(latest.pop(chain), place)
        self._rows += (rows | {chain: self._row(request, place) for chain, request in latest.items()}).values()
        self.summary.requests += count
        if name.turn is not None and not count:
            message, hint = f"{name}: this file has no such request", "leave the number out to examine all of them"
            raise LoreError(message, hint=hint)

    def _examine(self, request: _LintedRequest, place: Place, ruling: Ruling) -> _LintedRequest:
        """Add the findings about a request; of each kind and place, keep the one with most at stake."""
        stakes: dict[str, int | None] = {}
        texts: dict[str, bytes] = {}
        refused = False
        for broken in self._linter.defects(request.turn):
            at = _offsets(request.body, request.turn, broken.path, broken.text, broken.start)
            unruled = make_finding(
                broken.code, place, broken.evidence, kind=broken.kind, at=request.turn, section=broken.section or None,
                json_path=broken.path or None, offset=at and at[1], tokens="estimated", confidence="rule",
            )  # fmt: skip
            unruled = replace(
                unruled, body_offset=UNSET if at is None else sum(at),
                stake_tokens=UNSET if broken.tokens is None else broken.tokens,
                stake_dollars=UNSET if broken.dollars is None else broken.dollars,
            )  # fmt: skip
            finding = self._decide(unruled, ruling)
            if finding is None:
                continue
            stakes[finding.code] = None if finding.severity == "note" else broken.tokens or 0
            refused = refused or is_refused(finding)
            json_path = (finding.json_path or "").translate(_NUMBERS)
            key = finding.code, finding.kind, broken.evidence.fix_detail(), json_path
            files = self._found.setdefault(key, {})
            top = files.get(finding.path) or _TopFinding(finding, 0, served_by(request.turn), set())
            if key_of_text := self._linter.note_sent(request.turn, broken):
                texts[finding.code] = key_of_text
                top.texts.add(key_of_text)
            if (finding.stake_tokens or 0) > (top.finding.stake_tokens or 0):
                top = top._replace(finding=finding, where=served_by(request.turn))
            files[finding.path] = top._replace(requests=top.requests + 1)
        return request._replace(stakes=stakes, refused=refused, texts=texts)

    def _decide(self, finding: Finding, ruling: Ruling) -> Finding | None:
        """Apply the settings to a finding. Return None, and count it, if they remove it."""
        decision = ruling.decide(finding)
        self.summary.ignored += decision.out in ("ignored", "unselected")
        self.summary.exempted += decision.out == "exempted"
        return None if decision.out else decision.finding

    def _predict(self, request: _LintedRequest, place: Place) -> Outlook:
        """Return what a cache would keep of a request, and record what prevents it."""
        outlook = self._linter.outlook(request.turn)
        self._blocking.setdefault(place.of(request.turn).path, []).append((_blocking(request, outlook), request.texts))
        return outlook

    def _drop_frozen(self, codes: Iterable[str], texts: _Texts) -> list[str]:
        """Return the codes without those of text that other requests, also later ones, show to be the same in each."""
        return [code for code in codes if not self._linter.is_frozen(texts.get(code, b""))]

    def _row(self, request: _LintedRequest, place: Place) -> tuple[LintRequest, _Texts]:
        turn, outlook = request.turn, self._predict(request, place)
        where, path = outlook.where, place.of(turn).path
        places = [(mark, _offsets(request.body, turn, mark.path)) for mark in outlook.marks]
        return LintRequest(
            path=path, line=turn.line, chain=turn.chain, turn=turn.number, dialect=turn.dialect,
            model=turn.model, provider=where.provider or None, platform=where.platform or None,
            cache=outlook.cache or None, tokens=outlook.tokens, cached_tokens=outlook.cached,
            cached_to=outlook.until or None, sure=outlook.sure, minimum_tokens=outlook.minimum,
            lifetime=outlook.lifetime, breakpoints=[
                LintBreakpoint(path=mark.path, body_offset=at and at[0], tokens=mark.tokens, lifetime=mark.lifetime)
                for mark, at in places
            ],
            automatic=turn.prompt.auto_breakpoint, refused=request.refused, confidence=outlook.confidence,
            first_dollars=outlook.first, second_dollars=outlook.second, uncached_dollars=outlook.uncached,
            codes=list(request.stakes),
        ), request.texts  # fmt: skip


def _requests(recording: Recording) -> Iterator[_LintedRequest]:
    if not isinstance(recording, RequestRecording):
        yield from (_LintedRequest(turn, b"") for turn in recording.turns())
        return
    for exchange, turn in recording.exchanges():
        if turn is not None:
            continues = exchange.call.previous or turn.prompt.params.keys() & {"previous_response_id", "conversation"}
            yield _LintedRequest(turn, b"" if continues else exchange.body)


def _blocking(request: _LintedRequest, outlook: Outlook) -> set[str]:
    """Return the codes of the findings that leave nothing of a request to be read from a cache.

    Nothing would be cached, or text that changes in each request precedes everything that would be.
    """
    if outlook.cached:
        return {code for code in NEW_EACH_TIME if (request.stakes.get(code) or 0) >= outlook.cached}
    return {code for code in _UNCACHED if outlook.cached == 0 and request.stakes.get(code) is not None}


def _offsets(body: bytes, turn: Turn, path: str, text: str = "", start: int = 0) -> tuple[int, int] | None:
    """Return the byte of a body at which a value begins, and the byte of the value at which a place in its text begins.

    `text` is that of the segment; the place begins at its character `start`.
    """
    span = value_at(body, path, "cachePoint" if turn.dialect == "bedrock" else "") if body and path else None
    if span is None:
        return None
    value, offset = body[slice(*span)], -1
    word = text[start : start + 24].partition("\n")[0]
    encoded = encode(word)[1:-1] if word else b""
    for _ in range(text.count(word, 0, start) + 1 if encoded else 0):
        offset = value.find(encoded, offset + 1)
        if offset < 0:
            break
    return span[0], max(0, offset)
