"""What findings come to: the result of one file, and of all files of a run.

A file is judged as if it stood alone; its result is small enough to travel between processes. `RunTotals` puts the
results together in the order of the files. A fork or a resumed session begins with a copy of its parent's history, so
over one run each request counts once: one that an earlier file had already (the same `response_id`) is a copy, which
is counted as such and nowhere else, and gives no finding; so is a compaction with uuid and time of an earlier file's
(a log that a person wrote has neither request ids nor times, and `d1` in each). What one file holds twice is no copy.
A fork may begin in the middle, and its name come first: the copy's comparison with the turn before it then counts,
since the first file has none. What is remembered for that is one id a request.

Copies go first, then what the baseline knows; what is left is settled: a cache break has the worst kind of the causes
that are left, one of which nothing is left is none, and tokens are lost where that is not expected. That is done where
a file is judged if nothing more can be taken out, else where files are put together.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple, cast

import msgspec
from msgspec import UNSET, Raw, Struct, field

from lore.cache.counts import total
from lore.errors import LoreError
from lore.judge.base import RULES, WORSE, TurnVerdict, damage, summed
from lore.judge.baseline import BaselineRecorder, KnownFindings, belongs
from lore.judge.policy import Budgets, Decided, Limited, Policy, Ruling, judge_pair, over_budget
from lore.model.canonical import text_of
from lore.model.cause import Place
from lore.model.codes import CODES, CauseKind, Code, Problem, Reader, fix_of
from lore.model.items import TextBlock, UserMessage, is_absent
from lore.model.ledger import Ledger
from lore.model.results import CheckResult, CostlyCause, Finding, Summary, UnrecordedParts
from lore.model.turn import Turn

FINDINGS_KEPT = 10_000  # findings of each severity: a longer report is read by nobody; the summary counts all
PROBLEMS_KEPT = 10_000  # problems in all: each file keeps few, but there may be many files
TOP = 3  # causes that cost most
# requests were recorded, and could not be judged
UNJUDGED = (Code.REQUEST_NOT_JUDGED, Code.UNDECODABLE_REQUEST, Code.REQUEST_NOT_KEPT)
UNREAD = (  # so may be more of a file
    *UNJUDGED, Code.UNREADABLE_LINE, Code.MALFORMED_RECORD, Code.LINE_TOO_LONG, Code.CAPTURE_TOO_LARGE,
    Code.CASSETTE_REFUSED, Code.ARCHIVE_REFUSED,
)  # fmt: skip
_STAND_IN = re.compile(r"line-\d+$")  # what a reader calls a record without a name: another file has it, too


def is_unjudged(problem: Problem) -> bool:
    """Tell whether a problem says that requests, or a whole file of them, could not be judged: exit code 3."""
    return problem.code in UNJUDGED or (problem.code == Code.UNREADABLE_FILE and problem.line is None)


class Judged(NamedTuple):
    """A turn, or what a file's problems gave: `paired` where it was compared with the one before it."""

    response_id: str
    chain: str
    paired: bool
    found: tuple[Decided, ...] = ()
    recorded: float | None = None  # dollars that the log states


class CauseCost(Struct, frozen=True):
    """What a cause cost."""

    breaks: int = 0
    lost_tokens: int = 0
    dollars: float | None = None

    def plus(self, other: CauseCost) -> CauseCost:
        """Return both together."""
        dollars = summed((self.dollars, other.dollars))
        return CauseCost(self.breaks + other.breaks, self.lost_tokens + other.lost_tokens, dollars)


Costs = dict[tuple[str, CauseKind], CauseCost]


def settle(found: Iterable[Decided], summary: Summary, costs: Costs) -> bool:
    """Count one pair's findings; return whether one that counts is an error."""
    failed, worst = False, -1
    most: dict[CauseKind, Finding | None] = dict.fromkeys(WORSE)
    ruled_out: dict[str, None] = {}  # in the order in which they are named
    for finding, out, *_ in found:
        if out:
            setattr(summary, out, getattr(summary, out) + 1)
            continue
        failed = failed or finding.severity == "error"
        if finding.is_break:
            worst = max(worst, WORSE.index(finding.kind))
            known = most[finding.kind]
            most[finding.kind] = finding if known is None or _lost(finding) > _lost(known) else known
            ruled_out.update(dict.fromkeys(reason.reason for reason in finding.ruled_out if reason.out))
            key = (finding.code, finding.kind)
            costs[key] = costs.get(key, CauseCost()).plus(CauseCost(1, _lost(finding), finding.lost_dollars))
    if worst >= 0:
        summary.breaks += 1
        setattr(summary, WORSE[worst], getattr(summary, WORSE[worst]) + 1)
        summary.lost_tokens += max(_lost(finding) for finding in most.values() if finding is not None) if worst else 0
        leading = most[WORSE[worst]]
        assert leading is not None, "the worst kind is that of a finding"
        if leading.kind == "waste":
            summary.waste_tokens += _lost(leading)
            summary.waste_dollars = summed((summary.waste_dollars, leading.lost_dollars))
        elif leading.kind == "unattributable":
            summary.unexplained += 1
            summary.unexplained_tokens += _lost(leading)
            summary.unexplained_dollars = summed((summary.unexplained_dollars, leading.lost_dollars))
            summary.ruled_out = Counter(summary.ruled_out) + Counter(list(ruled_out))
    return failed


def _lost(finding: Finding) -> int:
    return finding.lost_tokens or 0


def costliest(costs: Costs, reader: Reader = "author") -> list[CostlyCause]:
    """Return the causes that cost most, with what a reader can do: waste before what is expected.

    Only waste may cost nothing; what is not explained for sure is counted apart, since nothing surely mends it.
    """
    ranked = sorted(
        costs.items(), key=lambda item: (WORSE[::-1].index(item[0][1]), -item[1].lost_tokens, -item[1].breaks, item[0])
    )
    return [
        CostlyCause(code, CODES[code].name, kind, cost.breaks, cost.lost_tokens, fix_of(code, reader), cost.dollars)
        for (code, kind), cost in ranked
        if kind == "waste" or (cost.lost_tokens and kind == "expected")
    ][:TOP]


class FileResult(Struct):
    """What judging one file gave; `key` is its place on every machine.

    `session` is its id (empty: it has none; None: it was not judged to its end); `whole` says that all of it
    was, or that it is no recording; `turns` counts the turns of each chain of a session log; `boundaries` are the
    uuids and times of its compactions; `unseen` is what it lacks of its prompts; `log` is what is still to be said;
    `judged` are the turns that are not
    settled, `failed` says that something else is an error; `costs` is what causes cost; `excused` counts what each
    exemption took out; `error` is set where the file was named and cannot be judged; `ledger` where tables are written.
    """

    key: str = ""
    ruling: Ruling = Ruling()
    reader: Reader = "author"
    summary: Summary = field(default_factory=Summary)
    session: str | None = None
    whole: bool = False
    turns: Counter[str] = field(default_factory=Counter[str])
    findings: list[Finding] = field(default_factory=list[Finding])
    judged: list[Judged] = field(default_factory=list[Judged])
    costs: Costs = field(default_factory=Costs)
    excused: Counter[int] = field(default_factory=Counter[int])
    boundaries: list[tuple[str, str | None]] = field(default_factory=list[tuple[str, str | None]])
    unseen: UnrecordedParts | None = None
    problems: list[Problem] = field(default_factory=list[Problem])
    log: list[str] = field(default_factory=list[str])
    failed: bool = False
    incomplete: bool = False
    error: LoreError | None = None
    ledger: Ledger | None = None


class FileTotals:
    """Decide about what is found in one file, and count it; `result` grows.

    `settles`: nothing can be taken out afterwards. Else requests that have a name are kept apart, since another file
    may hold them too, and with `compared` (there is a baseline) every finding.
    """

    def __init__(self, place: Place, ruling: Ruling, *, compared: bool = False, settles: bool = False) -> None:
        self.place = place
        self.result = FileResult(key=place.key, ruling=ruling)
        self._ruling = ruling
        self._compared = compared
        self._settles = settles
        self._kept: Counter[str] = Counter()
        self._inherited: set[str] = set()  # chains with requests of the session that this one was forked from
        self._prints: set[str] = set()  # of findings kept, where there is a baseline

    @property
    def wants_every_pair(self) -> bool:
        """Whether a rule of others or a budget looks at every pair; else one without a cause need not be made."""
        return self._ruling.min_reuse is not None or bool(RULES)

    def turn(self, verdict: TurnVerdict, *, events: bool) -> list[Decided]:
        """Count a turn, of a session log or of requests, and decide about what was found."""
        summary, turn, pair = self.result.summary, verdict.turn, verdict.pair
        if turn.call.inherited_from:  # it was billed, and is judged, in the session that sent it
            summary.copied += 1
            self._inherited.add(turn.chain)
            return []
        summary.turns += 1
        summary.pairs += verdict.compared
        if events:
            self.result.turns[turn.chain] += 1
        elif pair is not None:
            summary.compactions += any(cause.code == Code.COMPACTION for cause in pair.causes)
        decided = [] if pair is None else judge_pair(pair, self.place.of(turn), self._ruling)
        name = turn.response_id or ""
        found = self._keep(decided) if decided else ()
        recorded = None if turn.usage is None else turn.usage.recorded_dollars
        if recorded is not None:
            summary.recorded_dollars = summed((summary.recorded_dollars or 0.0, recorded)) or UNSET
        self._settle(Judged("" if _STAND_IN.match(name) else name, turn.chain, verdict.compared, found, recorded))
        return decided

    def ended(self, findings: Iterable[Finding]) -> list[Decided]:
        """Decide about what was found in chains that ended, or about the whole."""
        decided = list(map(self._ruling.decide, findings))
        for decision in decided:
            self._settle(Judged("", decision.finding.chain or "", paired=False, found=self._keep([decision])))
        return decided

    def finish(
        self, session: str, boundaries: Sequence[tuple[str, str | None]], problems: Sequence[Problem],
        counts: Mapping[tuple[str, str | None], int],
    ) -> list[Decided]:  # fmt: skip
        """Take what is known at the end of a file; `counts` are its problems by code and file, kept or not."""
        result = self.result
        result.session = session
        result.boundaries = [boundary for boundary in boundaries if not _STAND_IN.match(boundary[0])]
        result.summary.files += 1
        result.summary.chains -= sum(not result.turns[chain] for chain in self._inherited)
        result.summary.compactions += len(boundaries)
        result.incomplete = any(map(is_unjudged, problems))
        result.whole = not any(code in UNREAD for code, _ in counts)
        return self.damage(problems, counts)

    def damage(self, problems: Sequence[Problem], counts: Mapping[tuple[str, str | None], int]) -> list[Decided]:
        """Decide about what could not be read."""
        self.result.summary.problems += sum(counts.values())
        self.result.problems.extend(problems)
        by_code = {code: number for (code, _), number in counts.items()}
        found = [*damage(list(problems), by_code, self.place)]
        found += [problem for rule in RULES.values() for problem in rule.problems(list(problems), by_code, self.place)]
        return self.ended(found)

    def unreadable(self, reason: str) -> None:
        """Take a file or folder that could not be read, or not to its end."""
        self.result.incomplete = True
        problem = Problem(Code.UNREADABLE_FILE, reason, file=self.place.path)
        self.damage([problem], {(problem.code, problem.file): 1})

    def _settle(self, judged: Judged) -> None:
        """Count what was found, unless it may yet be taken out."""
        result = self.result
        if not self._settles and (judged.response_id or (self._compared and judged.found)):
            result.judged.append(judged)
        elif settle(judged.found, result.summary, result.costs):
            result.failed = True

    def _keep(self, decided: Iterable[Decided]) -> tuple[Decided, ...]:
        """Keep findings up to a limit, with a baseline at least one of each fingerprint; return all to be counted."""
        counted: list[Decided] = []
        for finding, out, by, _ in decided:
            if by >= 0:
                self.result.excused[by] += 1
            place = -1
            if not out and not self._settles:
                self._kept[finding.severity] += 1
                new = self._compared and finding.fingerprint not in self._prints
                if new or self._kept[finding.severity] <= FINDINGS_KEPT:
                    place = len(self.result.findings)
                    self.result.findings.append(finding)
                if new:
                    self._prints.add(finding.fingerprint)
            # Sums need no words: what is not kept takes little memory, and no content leaves a worker that redacts.
            bare = msgspec.structs.replace(finding, message="", evidence=None, also=())
            counted.append(Decided(bare, out, by, place))
        return tuple(counted)


class RunTotals:
    """The results so far. `failed`: a finding is an error; `incomplete`: an input could not be judged.

    `whole` and `partly` are the keys of files that were judged from end to end (or are no recordings) and that were
    not; `excused` counts what each exemption took out. Findings that `known` has are taken out, and all that a
    `recorder` takes for a baseline.
    """

    def __init__(self, known: KnownFindings | None = None, recorder: BaselineRecorder | None = None) -> None:
        self.summary = Summary()
        self.failed = False
        self.incomplete = False
        self.whole: set[str] = set()
        self.partly: set[str] = set()
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
        self._unseen: dict[tuple[str, str, str], list[int | None]] = {}

    def take(self, result: FileResult) -> None:
        """Add the next file's result."""
        dropped: set[int] = set()
        if any(turn.response_id in self._responses for turn in result.judged):
            _without_copies(result, self._responses, dropped)
        result.summary.compactions -= sum(boundary in self._boundaries for boundary in result.boundaries)
        for turn in result.judged:
            if turn.response_id:
                self._responses[turn.response_id] = turn.paired or self._responses.get(turn.response_id, False)
        self._boundaries.update(boundary for boundary in result.boundaries if boundary[1] is not None)
        for turn in result.judged:
            if turn.found:
                found = [self._compared(part, result, dropped) for part in turn.found]
                self.failed = settle(found, result.summary, result.costs) or self.failed
        self._count(result)
        if result.unseen is not None:
            unseen = result.unseen
            self._unseen.setdefault((unseen.format, unseen.what, unseen.sealed), []).append(unseen.tokens)
        self.failed = self.failed or result.failed
        self.incomplete = self.incomplete or result.incomplete
        self._keep(finding for place, finding in enumerate(result.findings) if place not in dropped)
        self._problems.extend(result.problems[: PROBLEMS_KEPT - len(self._problems)])

    def _compared(self, decided: Decided, result: FileResult, dropped: set[int]) -> Decided:
        """Take a finding out if the baseline has it."""
        finding, known, recorder = decided.finding, self._known, self._recorder
        if decided.out or (known is None and recorder is None) or not belongs(finding.code, finding.severity):
            return decided
        if recorder is not None:
            if decided.place >= 0:
                recorder.add(result.findings[decided.place], result.key)
            recorder.count(finding.fingerprint)
        elif known is not None and not known.take(finding.fingerprint):
            return decided
        dropped.add(decided.place)
        return decided._replace(out="known")

    def _count(self, result: FileResult) -> None:
        """Add the counts. A session of several files counts once, a file without a session's id as one."""
        if result.summary.turns:
            self._readers.add(result.reader)
        for name in Summary.__struct_fields__:
            known, more = getattr(self.summary, name), getattr(result.summary, name)
            if name == "recorded_dollars":
                self.summary.recorded_dollars = summed((known or None, more or None)) or UNSET
            elif name.endswith("_dollars"):
                setattr(self.summary, name, summed((known, more)))
            elif name != "ruled_out":
                setattr(self.summary, name, known + more)
        self.summary.ruled_out = Counter(self.summary.ruled_out) + Counter(result.summary.ruled_out)
        if result.session is not None and (not result.session or result.session not in self._sessions):
            self.summary.sessions += 1
            self._sessions.add(result.session)
        for key, cost in result.costs.items():
            self._costs[key] = self._costs.get(key, CauseCost()).plus(cost)
        for name, entry in zip(Limited._fields, result.ruling.limited, strict=True):
            sums = self._limited.setdefault((name, entry), Summary())
            for count in ("breaks", "expected", "lost_tokens"):
                setattr(sums, count, getattr(sums, count) + getattr(result.summary, count))
        (self.whole if result.whole else self.partly).add(result.key)
        self.excused.update(result.excused)

    def over(self, budgets: Budgets, policy: Policy, place: Place) -> Iterator[Finding]:
        """Find the sums that exceed a budget, of the run or of an entry of `per_path`."""
        held = [(budgets, place, ""), *((entry.budgets, Place(entry.path), entry.path) for entry in policy.per_path)]
        for name in Limited._fields:
            for number, (limits, where, path) in enumerate(held, -1):
                sums = self._limited.get((name, number), Summary())
                yield from over_budget(sums, Budgets(**{name: getattr(limits, name)}), where, path)

    def conclude(
        self, findings: Iterable[Finding], ruling: Ruling, shown: Callable[[Finding], Finding] | None = None
    ) -> None:
        """Take what is found of the whole run; `shown` says how it is kept."""
        for decided in map(ruling.decide, findings):
            self.failed = settle((decided,), self.summary, {}) or self.failed
            if not decided.out:
                self._keep((decided.finding if shown is None else shown(decided.finding),))

    def _keep(self, findings: Iterable[Finding]) -> None:
        """Add findings, as many as are kept."""
        for finding in findings:
            self._kept[finding.severity] += 1
            if self._kept[finding.severity] <= FINDINGS_KEPT:
                self._findings.append(finding)

    def since(self, count: int) -> Sequence[Finding]:
        """Return the findings that are kept, but for the first so many."""
        return self._findings[count:]

    def checked(self, reader: Reader | None = None) -> CheckResult:
        """Return all results; `reader` is whom fixes speak to (None: users where all recordings are theirs)."""
        reader = reader or ("user" if self._readers == {"user"} else "author")
        return CheckResult(
            summary=self.summary,
            top=costliest(self._costs, reader),
            unseen=[_unseen(*name, found) for name, found in self._unseen.items()],
            findings=self._findings,
            problems=self._problems,
        )


def _unseen(format: str, what: str, sealed: str, found: list[int | None]) -> UnrecordedParts:
    """Put together what the logs of a format lack: the lower median of what is known, the least and the most."""
    known = sorted(tokens for tokens in found if tokens is not None)
    if not known:
        return UnrecordedParts(format, what, len(found), None, sealed)
    return UnrecordedParts(format, what, len(found), known[(len(known) - 1) // 2], sealed, known[0], known[-1])


def _without_copies(result: FileResult, compared: Mapping[str, bool], dropped: set[int]) -> None:
    """Take copied requests out of a file's result. A chain of which nothing is left was none."""
    sums, gone, left = result.summary, Counter[str](), list[Judged]()
    for turn in result.judged:
        if turn.response_id not in compared:
            left.append(turn)
            continue
        gone[turn.chain] += 1
        sums.turns -= 1
        sums.copied += 1
        if turn.recorded:
            sums.recorded_dollars = summed((sums.recorded_dollars or 0.0, -turn.recorded)) or UNSET
        if compared[turn.response_id]:
            sums.pairs -= turn.paired
            dropped.update(found.place for found in turn.found)
            turn = turn._replace(found=())
        left.append(turn)
    sums.chains -= sum(gone[name] == number for name, number in result.turns.items())
    result.judged = left


# How much of a prompt a log does not hold: what is billed beyond the texts and tools of its first request.
#
# Source: o200k_base over the first prompts of ten Codex sessions, 4.38 to 4.63 bytes a token. What is left is the same
# to the token where version, model and connected tools are: 5,733 and 5,733 tokens (0.140, gpt-5.5), 5,290 and 5,291
# (0.141 and 0.142, a smaller model), 22,894 and 22,936 less a tool of 338 bytes that the log holds (0.118, three
# plugins with apps whose tools were not put off); 7,222 without apps.

_BYTES_PER_TOKEN = 4.5


def unseen_tokens(turn: Turn) -> int | None:
    """Estimate the tokens of a first request that its log does not hold; None where nothing tells."""
    basis, whole = turn.basis, None if turn.usage is None else total(turn.usage.first_pass)
    if basis is None or whole is None or turn.number != 1 or basis.fidelity != "structural":
        return None
    items = [entry.item for entry in basis.entries]
    messages = [item for item in items if isinstance(item, UserMessage)]
    if len(messages) < len(items):  # it goes on with another log's history
        return None
    system, tools = basis.head
    texts = [block.text for item in messages for block in item.blocks or () if isinstance(block, TextBlock)]
    texts += [system] if isinstance(system, Raw) and not is_absent(system) else []
    known = sum(len(text_of(bytes(text)).encode("utf-8", "surrogatepass")) for text in texts)
    known += sum(len(bytes(tool)) for tool in cast("tuple[Raw, ...] | None", tools) or ())
    return max(0, whole - round(known / _BYTES_PER_TOKEN))
