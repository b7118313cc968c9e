"""The totals of `lore check`: the result of one file, which can be sent to another process, and the sums of a run.

A file is judged as if it were alone: `FileTotals` collects its `FileResult`. `RunTotals` adds these results up, and
lists findings in the order in which the files were named:

1. Copies are removed. A fork or a resumed session begins with its parent's requests, so a request or a compaction that
   an earlier file holds counts as copied and nowhere else. One file's repetitions are not copies. Which file is earlier
   is decided by `lore.recording.inputs.by_start`, for every command.
2. Findings that the baseline knows are removed.
3. Each cache break counts once, by its leading cause: the worst kind among the causes that remain, and of those the one
   that lost most. Expected breaks are in no sum of lost tokens.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from math import inf
from operator import itemgetter
from typing import Any, TypeVar, cast

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType, field
from msgspec.structs import replace

from lore.cache.counts import LONG_PROMPT, first_pass_read, total
from lore.errors import LoreError, Where
from lore.judge.base import RULES, TurnVerdict
from lore.judge.baseline import BaselineRecorder, KnownFindings, can_have_entry
from lore.judge.findings import AnyCause, findings_of_problems, lasting_id, leading_of, with_one_loss
from lore.judge.policy import BudgetEntries, Decision, Ruling, decide_pair
from lore.judge.prices import sum_known
from lore.model.canonical import text_of
from lore.model.cause import Place
from lore.model.codes import CODES, CauseKind, Code, Problem
from lore.model.items import TextBlock, UserMessage, is_absent
from lore.model.ledger import Ledger
from lore.model.results import CauseResult, CheckResult, CostlyCause, Finding, Summary, UnrecordedParts
from lore.model.turn import Turn

Entry = TypeVar("Entry")
VERSION = 12  # of an encoded result: changes with its fields or their meaning
FINDINGS_KEPT = 10_000  # findings of each severity that a report lists; the summary counts all
PROBLEMS_KEPT = 10_000  # problems of a run that a report lists
RECORDINGS_LISTED = 10_000  # recordings that a report lists
TOP = 3  # costliest causes of a kind that a report lists
UNJUDGED = (Code.REQUEST_NOT_JUDGED, Code.UNDECODABLE_REQUEST, Code.REQUEST_NOT_KEPT)
# Problems that mean that a file has more than was judged, be it a request (`UNJUDGED`) or a record.

UNREAD = (
    *UNJUDGED, Code.UNREADABLE_LINE, Code.MALFORMED_RECORD, Code.LINE_TOO_LONG, Code.CAPTURE_TOO_LARGE,
    Code.CASSETTE_REFUSED, Code.ARCHIVE_REFUSED,
)  # fmt: skip
_HIDING = (*UNREAD, Code.TORN_LAST_LINE)


def is_unjudged(problem: Problem | Finding) -> bool:
    """Return whether a problem means that requests, or a whole file, could not be judged (exit code 3)."""
    return problem.code in UNJUDGED or (problem.code == Code.UNREADABLE_FILE and problem.line is None)


def list_unjudged(problems: Iterable[Problem], turns: int, *, has_findings: bool = True) -> list[Problem]:
    """Return the problems for which requests, or a whole file, could not be judged.

    In a file without `turns` these are also the problems that hide records: nothing of it was judged then. An answer
    without findings cannot show damage as an error: records that cannot be read count as well.
    """
    hiding = _HIDING if not turns else () if has_findings else UNREAD
    return [problem for problem in problems if is_unjudged(problem) or problem.code in hiding]


def judge_problems(
    problems: Sequence[Problem], counts: Mapping[tuple[str, str | None], int], place: Place, turns: int
) -> Iterator[Finding]:  # fmt: skip
    """Yield the findings about the problems of a file; `counts` has their number by code and file.

    Damage is an error because verdicts on the turns around it may be wrong. In a file without `turns` no verdict is
    wrong: the file could not be judged, which is a warning and exit code 2 or 3.
    """
    by_code = {code: number for (code, _), number in counts.items()}
    rules = [entry for rule in RULES.values() for entry in rule.problems(list(problems), by_code, place)]
    for finding in (*findings_of_problems(problems, by_code, place), *rules):
        is_judged = turns or finding.severity != "error" or finding.code not in _HIDING
        yield finding if is_judged else replace(finding, severity="warning")


class TurnFindings(Struct, frozen=True):
    """The findings of one turn, or one finding about an ended chain or a problem, before anything is removed."""

    response_id: str = ""  # of the turn, by which its copies are found; empty: it has none
    about: str = ""  # the response id of the turn that a finding about an ended chain names; empty: unknown
    chain: str = ""
    paired: bool = False  # the turn was compared with an earlier one
    found: tuple[Decision, ...] = ()
    recorded: float | None = None  # dollars that the turn cost, by its log
    counted: bool = False  # its usage has the tokens that were read from a cache


class FileResult(Struct, array_like=True, forbid_unknown_fields=True):
    """The result of judging one file. `RunTotals` computes the sums over `judged`."""

    key: str = ""  # the file's path, the same on every machine
    limited: BudgetEntries = BudgetEntries()  # the budgets against which its cache breaks count
    summary: Summary = field(default_factory=Summary)  # counts that no finding changes
    session: str | None = None  # its id (empty: it has none); None: the file was not judged to its end
    session_path: str = ""  # of a subagent's file: that of its session
    is_complete: bool = False  # all of it was judged, or it is not a recording
    turns: dict[str, int] = field(default_factory=dict[str, int])  # how many, by chain
    judged: list[TurnFindings] = field(default_factory=list[TurnFindings])
    # the id and time of each compaction
    boundaries: list[tuple[str, str | None]] = field(default_factory=list[tuple[str, str | None]])
    unseen: UnrecordedParts | None = None  # parts of its prompts that are not recorded
    problems: list[Problem] = field(default_factory=list[Problem])
    log: list[str] = field(default_factory=list[str])  # lines that another process could not log
    paths: list[str] = field(default_factory=list[str])  # of the recording, as it was named; none if it was not judged
    error: LoreError | None = None  # the file is the only input of the run, and cannot be judged
    ledger: Ledger | None = None  # if tables are written
    long_turns: int = 0  # turns of a session log with a prompt of over `LONG_PROMPT` tokens
    start: tuple[float | None, int] = (None, 0)  # when the recording begins, and its size, by which copies are found
    content: str = ""  # identifies the recording for a baseline, wherever it is: its session, else its beginning
    counted: int = 0  # turns whose usage has the tokens that were read from a cache


def encode(result: FileResult) -> bytes:
    """Return a result as JSON; equal results give equal bytes."""
    try:
        return msgspec.json.encode(result, enc_hook=_error_fields)
    except (UnicodeEncodeError, OverflowError):  # half a surrogate pair, a number past 64 bits
        plain = msgspec.to_builtins(result, enc_hook=_error_fields)
        return json.dumps(plain, separators=(",", ":")).encode()


def decode(data: bytes) -> FileResult:
    """Return the result in these bytes; raises ValueError if they hold none."""
    try:
        return msgspec.json.decode(data, type=FileResult, dec_hook=_error_of)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return msgspec.convert(json.loads(data), FileResult, dec_hook=_error_of)


def _error_fields(error: Any) -> list[object]:
    return [error.message, error.hint, error.where, error.choices, error.exit_code]


def _error_of(kind: type, fields: Any) -> LoreError:
    message, hint, where, choices, exit_code = fields
    error = LoreError(message, hint=hint, where=where and Where(*where), choices=tuple(choices))
    error.exit_code = exit_code
    return error


class FileTotals:
    """Collects the `FileResult` of one file; `complete` is applied to each finding."""

    def __init__(self, place: Place, ruling: Ruling, complete: Callable[[Finding], Finding] | None = None) -> None:
        self.place = place
        self.result = FileResult(key=place.key, limited=ruling.limited)
        self._ruling, self._complete = ruling, complete
        self._kept: Counter[str] = Counter()
        self._responses: dict[tuple[str | None, int | None], str] = {}  # ids by chain and number of the turn
        self._inherited_compactions = 0
        self._inherited: set[str] = set()  # chains with requests of the session that this one was forked from

    @property
    def wants_every_pair(self) -> bool:
        """Whether a plug-in's rule or a budget looks at every pair; else pairs without a cause are not needed."""
        return self._ruling.min_reuse is not None or bool(RULES)

    def turn(self, verdict: TurnVerdict, *, is_log: bool) -> None:
        """Count a turn and its findings, or a turn of the parent session as copied; `is_log`: of a session log."""
        summary, turn, pair = self.result.summary, verdict.turn, verdict.pair
        if turn.call.inherited_from:
            summary.copied += 1
            self._inherited.add(turn.chain)
            self._inherited_compactions += sum(change.cause == Code.COMPACTION for change in turn.changes)
            return
        summary.turns += 1
        summary.pairs += verdict.compared
        self.result.turns[turn.chain] = self.result.turns.get(turn.chain, 0) + 1
        size = 0 if turn.usage is None else total(turn.usage.first_pass) or 0
        self.result.long_turns += is_log and size > LONG_PROMPT
        is_counted = first_pass_read(turn.usage) is not None
        self.result.counted += is_counted
        if not is_log and pair is not None:
            summary.compactions += any(cause.code == Code.COMPACTION for cause in pair.causes)
        recorded = None if turn.usage is None else turn.usage.recorded_dollars
        if recorded is not None:
            summary.recorded_dollars = sum_known((summary.recorded_dollars or 0.0, recorded)) or UNSET
        decided = [] if pair is None else decide_pair(pair, self.place.of(turn), self._ruling)
        judged = TurnFindings(
            lasting_id(turn.response_id), "", turn.chain, verdict.compared, self._keep(decided), recorded, is_counted
        )  # fmt: skip
        if judged.response_id:
            self._responses[turn.chain, turn.number] = judged.response_id
        if judged.found or judged.response_id:
            self.result.judged.append(judged)

    def add_findings(self, findings: Iterable[Finding]) -> None:
        """Count findings about ended chains and problems, each for the turn that it names."""
        for decided in map(self._ruling.decide, findings):
            chain, about = decided.finding.chain, self._responses.get((decided.finding.chain, decided.finding.turn), "")
            self.result.judged.append(TurnFindings(about=about, chain=chain or "", found=self._keep([decided])))

    def finish(
        self, session: str, boundaries: Sequence[tuple[str, str | None]], problems: Sequence[Problem],
        counts: Mapping[tuple[str, str | None], int],
    ) -> None:  # fmt: skip
        """Count a file at its end; `counts` are all its problems by code and file, `problems` those that were kept."""
        result, boundaries = self.result, boundaries[self._inherited_compactions :]
        result.session = session
        result.boundaries = [boundary for boundary in boundaries if lasting_id(boundary[0])]
        result.summary.files += 1
        result.summary.chains -= sum(chain not in result.turns for chain in self._inherited)
        result.summary.compactions += len(boundaries)
        result.is_complete = not any(code in UNREAD for code, _ in counts)
        self.add_problems(problems, counts)

    def add_problems(
        self, problems: Sequence[Problem], counts: Mapping[tuple[str, str | None], int], fix: str = ""
    ) -> None:  # fmt: skip
        """Count problems and their findings; `fix` replaces that of each finding, for the agent's author."""
        self.result.summary.problems += sum(counts.values())
        self.result.problems.extend(problems)
        turns = self.result.summary.turns + self.result.summary.copied
        findings = judge_problems(problems, counts, self.place, turns)
        self.add_findings(replace(finding, fix=fix, actor="author") if fix else finding for finding in findings)

    def add_unreadable(self, reason: str, fix: str = "") -> None:
        """Count a file or folder that could not be read to its end; `fix` is what the agent's author can do."""
        self.result.paths = [self.place.path]
        problem = Problem(Code.UNREADABLE_FILE, reason, file=self.place.path)
        self.add_problems([problem], {(problem.code, problem.file): 1}, fix)

    def _keep(self, decided: Iterable[Decision]) -> tuple[Decision, ...]:
        """Return the decisions as the result holds them: without words if a finding is removed, or past a limit."""
        decisions: list[Decision] = []
        for decision in decided:
            finding = decision.finding if self._complete is None else self._complete(decision.finding)
            self._kept[finding.severity] += not decision.out
            if decision.out or self._kept[finding.severity] > FINDINGS_KEPT:
                finding = replace(finding, message="", evidence=None, also=())
            decisions.append(decision._replace(finding=finding))
        return tuple(decisions)


class CauseCost(Struct, frozen=True):
    """What the cache breaks cost that one cause leads."""

    breaks: int = 0
    lost_tokens: int = 0
    estimated: int = 0  # of these tokens
    unpriced: int = 0  # of these tokens
    dollars: float | None = None
    fix: str = ""  # of the costliest break whose fix is not in force already
    most: int = 0  # tokens of that break

    def plus(self, finding: Finding) -> CauseCost:
        """Return the cost with that of one more cache break, which the finding leads."""
        done_fix, fix = CODES[finding.code].fix_done, finding.fix
        lost, estimated, unpriced = _measure_loss(finding)
        most = lost
        if self.fix not in ("", done_fix) and (fix == done_fix or lost <= self.most):
            fix, most = self.fix, self.most
        return CauseCost(
            self.breaks + 1, self.lost_tokens + lost, self.estimated + estimated, self.unpriced + unpriced,
            sum_known((self.dollars, finding.lost_dollars)), fix, most,
        )  # fmt: skip


Costs = dict[tuple[str, CauseKind], CauseCost]


def count_findings(decided: Iterable[Decision], summary: Summary, costs: Costs) -> bool:
    """Add the findings of one turn to `summary`, and its break to `costs`; return whether a counted one is an error."""
    decisions = list(decided)
    for _, out, _ in decisions:
        if out:
            name = "ignored" if out == "unselected" else out
            setattr(summary, name, getattr(summary, name) + 1)
    counted_findings = [finding for finding, out, _ in decisions if not out]
    leading = count_losses(counted_findings, summary)
    known_breaks = [finding for finding, out, _ in decisions if out == "known" and finding.is_break]
    if leading is not None:
        costs[leading.code, leading.kind] = costs.get((leading.code, leading.kind), CauseCost()).plus(leading)
    elif known_breaks:
        _add_loss(summary, "known", max(known_breaks, key=lambda finding: finding.lost_tokens or 0))
    return any(finding.severity == "error" for finding in counted_findings)


def count_losses(findings: Iterable[AnyCause], summary: Summary) -> AnyCause | None:
    """Add the losses of one turn to `summary`; return the leading cause of its cache break, if it has one."""
    every = list(findings)
    for finding in every:
        if finding.lost_tokens and not finding.is_break:
            _add_loss(summary, "missed", finding)
    leading = leading_of(every)
    if leading is None:
        return None
    summary.breaks += 1
    setattr(summary, leading.kind, getattr(summary, leading.kind) + 1)
    _add_loss(summary, "unexplained" if leading.kind == "unattributable" else leading.kind, leading)
    if leading.kind == "unattributable":
        summary.unexplained = summary.unattributable
        reasons = dict.fromkeys(
            (out.reason for finding in every if finding.is_break for out in finding.ruled_out if out.out), 1
        )
        summary.ruled_out = Counter(summary.ruled_out) + Counter(reasons)
    summary.lost_tokens = summary.waste_tokens + summary.unexplained_tokens
    return leading


def _add_loss(summary: Summary, name: str, finding: Finding | CauseResult) -> None:
    tokens, dollars = f"{name}_tokens", f"{name}_dollars"
    lost, estimated, unpriced = _measure_loss(finding)
    setattr(summary, tokens, (getattr(summary, tokens) or 0) + lost)
    setattr(summary, dollars, _add_dollars(getattr(summary, dollars), finding.lost_dollars))
    summary.estimated_tokens = Counter(summary.estimated_tokens) + Counter({name: estimated})
    summary.unpriced_tokens = Counter(summary.unpriced_tokens) + Counter({name: unpriced})


def _measure_loss(finding: Finding | CauseResult) -> tuple[int, int, int]:
    """Return the tokens that a cause lost, and how many of them are estimated, and have no price."""
    lost = finding.lost_tokens or 0
    return lost, lost if finding.tokens == "estimated" else 0, lost if finding.lost_dollars is None else 0


def _add_dollars(amount_so_far: float | UnsetType | None, more: float | UnsetType | None) -> float | UnsetType | None:
    """Return the sum of two amounts, each perhaps unknown (None) or left out of the result (UNSET)."""
    total = sum_known(amount for amount in (amount_so_far, more) if not isinstance(amount, UnsetType))
    return (total or UNSET) if amount_so_far is UNSET else total


def list_costliest(costs: Costs) -> list[CostlyCause]:
    """Return the waste and the expected causes that cost most, at most `TOP` of each, ranked together by cost.

    Causes without a price come last, by tokens. Unexplained ones have no fix, and are not among them.
    """
    ranked = sorted(
        costs.items(), key=lambda item: (-(item[1].dollars or 0.0), -item[1].lost_tokens, -item[1].breaks, item[0])
    )
    causes = [
        CostlyCause(
            code, CODES[code].name, kind, cost.breaks, cost.lost_tokens, cost.fix, cost.dollars, cost.estimated,
            cost.unpriced,
        )
        for (code, kind), cost in ranked
        if kind == "waste" or (cost.lost_tokens and kind == "expected")
    ]  # fmt: skip
    waste, expected = ([cause for cause in causes if cause.kind == kind] for kind in ("waste", "expected"))
    return [cause for cause in causes if cause in (*waste[:TOP], *expected[:TOP])]


class RunTotals:
    """Adds up the results of files; `recorder` collects a new baseline, `known_findings` are an old one's."""

    def __init__(self, known_findings: KnownFindings | None = None, recorder: BaselineRecorder | None = None) -> None:
        self.summary = Summary()
        self.counted = 0  # turns whose usage has the tokens that were read from a cache
        self.failed = False  # a finding is an error
        self.unjudged: list[Problem] = []  # why requests or whole files could not be judged, if the baseline has none
        self._paths: list[tuple[float, str]] = []  # of recordings that were judged, up to a limit
        self.longest = (0, "")  # most turns with a long prompt, and their recording
        self.complete_keys: set[str] = set()  # of files that were judged from end to end, or are not recordings
        self.partial_keys: set[str] = set()  # of the other files
        self.excused: Counter[int] = Counter()  # findings that each exemption removed
        self.used: Counter[tuple[str, int]] = Counter()  # breaks and tokens, by name and entry of their budget
        self._known_findings, self._recorder = known_findings, recorder
        self._costs: Costs = {}
        self._findings: list[tuple[float, Finding]] = []  # with the place of their file, as below
        self._kept: Counter[str] = Counter()
        self._problems: list[tuple[float, Problem]] = []
        self._sessions: set[str] = set()
        self._responses: set[str] = set()
        self._boundaries: set[tuple[str, str | None]] = set()
        self._chains: set[tuple[str, str]] = set()  # session and name of each chain
        self._unseen: dict[tuple[str, str, str], list[int | None]] = {}

    @property
    def paths(self) -> list[str]:
        """The recordings that were judged, up to a limit."""
        return _in_place(self._paths)

    def take(self, result: FileResult, place: int) -> None:
        """Add the next file's result; its findings are listed at this place.

        The result is changed: copies of earlier requests are removed from it.
        """
        turns = result.summary.turns + result.summary.copied  # before more copied turns are removed
        unjudged = list_unjudged(result.problems, turns)
        result.summary.compactions -= sum(boundary in self._boundaries for boundary in result.boundaries)
        self._boundaries.update(boundary for boundary in result.boundaries if boundary[1] is not None)
        self.excused.update(decision.by for turn in result.judged for decision in turn.found if decision.by >= 0)
        if any(turn.response_id in self._responses for turn in result.judged):
            for decided in _remove_copies(result, self._responses, self._chains):  # a baseline has them under each path
                self._match_baseline(decided, result.key, result.content)
        self._chains.update((result.session, chain) for chain in result.turns if result.session)
        known_codes: set[str] = set()  # codes of findings that the baseline has
        for turn in result.judged:
            if turn.response_id:
                self._responses.add(turn.response_id)
            if turn.found:
                decisions = [self._match_baseline(decided, result.key, result.content) for decided in turn.found]
                for finding, out, _ in decisions:  # an entry for a removed finding about unjudged parts is used up, too
                    known, is_removed = self._known_findings, bool(out) and out != "known" and is_unjudged(finding)
                    if out == "known" or (is_removed and known and known.take(finding, result.key, result.content)):
                        known_codes.add(finding.code)
                self.failed = count_findings(decisions, result.summary, self._costs) or self.failed
                self._count_against_budgets(decisions, result.limited)
                self._keep(with_one_loss([decided.finding for decided in decisions if not decided.out]), place)
        self._count(result)
        if (unseen := result.unseen) is not None:
            self._unseen.setdefault((unseen.format, unseen.what, unseen.sealed), []).append(unseen.tokens)
        self.unjudged += [problem for problem in unjudged if problem.code not in known_codes]
        self._paths += [(place, path) for path in result.paths[: RECORDINGS_LISTED - len(self._paths)]]
        self.longest = max(self.longest, (result.long_turns, next(iter(result.paths), "")))
        self._problems += [(place, problem) for problem in result.problems[: PROBLEMS_KEPT - len(self._problems)]]

    def _match_baseline(self, decided: Decision, key: str, recording: str = "") -> Decision:
        """Return a finding as `known` if the baseline has it, and use up that entry; or record it in a new baseline.

        A break that is not selected is then `ignored`, so that it does not count against budgets.
        """
        finding, recorder = decided.finding, self._recorder
        is_counted = not decided.out or (decided.out == "unselected" and finding.is_break)
        if not is_counted or not can_have_entry(finding):
            return decided
        if recorder is not None:
            recorder.add(finding, key, recording)
        elif self._known_findings is None or not self._known_findings.take(finding, key, recording):
            return decided
        return decided._replace(out="ignored" if decided.out else "known")

    def _count(self, result: FileResult) -> None:
        """Add a file's counts. A session of several files counts once, and only with a request that is no copy."""
        _add_summary(self.summary, result.summary)
        self.counted += result.counted
        if result.summary.turns:
            self._sessions.add(result.session_path or result.key)
            self.summary.sessions = len(self._sessions)
        (self.complete_keys if result.is_complete else self.partial_keys).add(result.key)

    def _count_against_budgets(self, decisions: Iterable[Decision], limited: BudgetEntries) -> None:
        """Count the cache break of a turn, if it has an unexpected one that is not ignored, exempted or known."""
        leading = leading_of(finding for finding, out, _ in decisions if out in ("", "unselected"))
        if leading is not None and leading.kind != "expected":
            self.used["max_breaks", limited.max_breaks] += 1
            self.used["max_lost_tokens", limited.max_lost_tokens] += leading.lost_tokens or 0

    def conclude(
        self, findings: Iterable[Finding], ruling: Ruling, complete: Callable[[Finding], Finding] | None = None
    ) -> None:
        """Count the findings about the whole run and list those that remain; `complete` is applied to each."""
        decided = [self._match_baseline(ruling.decide(entry), entry.path) for entry in findings]
        self.failed = count_findings(decided, self.summary, {}) or self.failed
        findings = [entry.finding for entry in decided if not entry.out]
        self._keep(findings if complete is None else map(complete, findings), inf)

    def _keep(self, findings: Iterable[Finding], place: float) -> None:
        """List findings that have words, up to a limit."""
        for finding in findings:
            if finding.message:
                self._kept[finding.severity] += 1
                if self._kept[finding.severity] <= FINDINGS_KEPT:
                    self._findings.append((place, finding))

    def checked(self) -> CheckResult:
        """Return the result of the run, with findings and problems in the order of their files."""
        unseen: list[UnrecordedParts] = []
        for (log_format, what, sealed), sizes in self._unseen.items():
            counts = sorted(tokens for tokens in sizes if tokens is not None)
            lower_median = counts[(len(counts) - 1) // 2] if counts else None
            ends = (counts[0], counts[-1]) if counts else ()
            unseen.append(UnrecordedParts(log_format, what, len(sizes), lower_median, sealed, *ends))
        return CheckResult(
            summary=self.summary, top=list_costliest(self._costs), unseen=unseen, findings=_in_place(self._findings),
            problems=_in_place(self._problems),
        )  # fmt: skip


def _in_place(entries: list[tuple[float, Entry]]) -> list[Entry]:
    return [entry for _, entry in sorted(entries, key=itemgetter(0))]


def _add_summary(sums: Summary, more: Summary) -> None:
    for name in Summary.__struct_fields__:
        before, value = getattr(sums, name), getattr(more, name)
        if isinstance(before, dict):
            setattr(sums, name, Counter(cast("dict[str, int]", before)) + Counter(value))
        elif name.endswith("_dollars"):
            setattr(sums, name, _add_dollars(before, value))
        elif before is UNSET:
            setattr(sums, name, value)
        else:
            setattr(sums, name, before + (value or 0))


def _remove_copies(result: FileResult, known: set[str], known_chains: set[tuple[str, str]]) -> list[Decision]:
    """Remove copied requests from a file's result, and chains that only had copies; return the findings about them.

    `known` are the ids of responses in earlier files. A chain with copies that is one of the `known_chains` continues
    that of another version of its log.
    """
    sums, copied, turns, removed = result.summary, Counter[str](), list[TurnFindings](), list[Decision]()
    for turn in result.judged:
        if turn.response_id in known:
            copied[turn.chain] += 1
            sums.turns -= 1
            sums.copied += 1
            if turn.recorded:
                sums.recorded_dollars = sum_known((sums.recorded_dollars or 0.0, -turn.recorded)) or UNSET
            sums.pairs -= turn.paired
            result.counted -= turn.counted
            removed += turn.found
            turn = replace(turn, found=())
        elif turn.about in known:
            removed += turn.found
            continue
        turns.append(turn)
    chains = {name for name, number in result.turns.items() if copied[name] == number}
    sums.chains -= len(chains) + sum((result.session, name) in known_chains for name in copied.keys() - chains)
    removed += [entry for turn in turns if turn.chain in chains and not turn.response_id for entry in turn.found]
    result.judged = [turn for turn in turns if turn.response_id or turn.chain not in chains]
    return removed


# Bytes of a token of the o200k_base vocabulary, over the first prompts of ten Codex sessions (4.38 to 4.63). Then the
# tokens billed beyond the recorded text are equal for equal version, model and tools: 5,733 and 5,733
# (0.140, gpt-5.5), 5,290 and 5,291 (0.141, 0.142, a smaller model).
_BYTES_PER_TOKEN = 4.5


def unseen_tokens(turn: Turn) -> int | None:
    """Estimate the tokens of a first request whose text its log does not record; None if nothing shows them."""
    basis, prompt_size = turn.basis, None if turn.usage is None else total(turn.usage.first_pass)
    if basis is None or prompt_size is None or turn.number != 1 or basis.fidelity != "structural":
        return None
    items = [entry.item for entry in basis.entries]
    messages = [item for item in items if isinstance(item, UserMessage)]
    if len(messages) < len(items):  # it continues another log's history
        return None
    system, tools = basis.head
    texts = [block.text for item in messages for block in item.blocks or () if isinstance(block, TextBlock)]
    texts += [system] if isinstance(system, Raw) and not is_absent(system) else []
    known_bytes = sum(len(text_of(bytes(text)).encode("utf-8", "surrogatepass")) for text in texts)
    known_bytes += sum(len(bytes(tool)) for tool in cast("tuple[Raw, ...] | None", tools) or ())
    return max(0, prompt_size - round(known_bytes / _BYTES_PER_TOKEN))
