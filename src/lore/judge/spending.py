"""What requests came to: rows of ledgers, to sums of money and tokens, to causes, and two sides compared.

In: rows, each with its session and whether that is a chain beside the main one. Out: sums; causes in the order of what
they cost; measures of two sides. Rules: a request that two recordings hold counts once, in the first that has it; the
parts of a sum of money add up to it; what has no bill or no price is counted, and in no sum. Exact sums of floats
(`math.fsum`), so that the order of files changes nothing. Memory: one number a request, for the median. Cost O(1) a
row.

A measure is a ratio of sums over the billed requests of sessions, in numerator and denominator. Requests of one
session are not independent of each other, sessions are taken to be; so its interval is that of a ratio estimator over
sessions (its linearised variance, Student's t), and where a side has fewer than five sessions a share of requests has
Wilson's interval over requests, an amount none. Two sides differ where the interval of their difference (MOVER-D of
Zou and Donner for shares, squares added for amounts) leaves out 0; with fewer than five events on both sides together
nothing is said. All intervals hold at 95 %.

Sources: Cochran, Sampling Techniques (1977), chapter 6, for ratios; Wilson (1927); Zou and Donner (2008).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import fsum, isclose, sqrt
from statistics import median_low
from typing import NamedTuple

from lore.model.codes import CODES, Reader, actor_of, fix_of
from lore.model.events import SUMMED_COUNTS
from lore.model.ledger import LedgerRow, Loss
from lore.model.results.overview import Interval, Measure, MeasureSide, Outcome, Spending, SpendingCause

UNSURE = "unattributable"
_PARTS = ("reading", "context", "output", "tools", "again")
_DIGITS = 6  # behind the point, of dollars and shares


class LedgerRequest(NamedTuple):
    """A row with what it belongs to: `session` names it, `subagent`: its chain is one beside the main one."""

    row: LedgerRow
    session: str
    agent: str
    project: str
    subagent: bool
    at: float | None


class Copies:
    """Tell which requests an earlier recording held."""

    def __init__(self) -> None:
        self._first: dict[str, str] = {}
        self.count = 0

    def has(self, row: LedgerRow, recording: str) -> bool:
        """Return whether another recording has this row: its session inherited it, or an earlier one has its response.

        A response that one recording holds twice is not a copy.
        """
        copied = row.is_inherited
        if row.response_id and not copied:
            copied = self._first.setdefault(row.response_id, recording) != recording
        self.count += copied
        return copied


class Sums:
    """Sums of requests, which grow."""

    def __init__(self) -> None:
        self._sessions: set[str] = set()
        self._sizes: list[int] = []
        self._tokens = dict.fromkeys(SUMMED_COUNTS, 0)
        self._parts: dict[str, list[float]] = {name: [] for name in (*_PARTS, "unexplained", "subagent")}
        self._recorded: dict[str, list[float]] = {"dollars": [], "requests": [], "premium_requests": []}
        self.requests = self._unbilled = self._unpriced = self._at_least = self._breaks = self._compactions = 0
        self._again = self._unexplained = self._subagents = self._appends = self._read = 0

    def add(self, request: LedgerRequest) -> None:
        """Add one."""
        row, spent, loss = request.row, request.row.spent, request.row.loss
        self._sessions.add(request.session)
        self.requests += 1
        self._subagents += request.subagent
        self._compactions += row.compacted
        if row.appended is not None:
            self._appends += 1
            self._read += row.appended
        if row.prompt_tokens is not None:
            self._sizes.append(row.prompt_tokens)
        if not row.billed:
            self._unbilled += 1
        elif spent is None:
            self._unpriced += 1
        else:
            self._at_least += row.at_least
        if row.recorded is not None:
            for name, values in self._recorded.items():
                value: float | None = getattr(row.recorded, name)
                if value is not None or name == "requests":
                    values.append(1 if value is None else value)
        for name in SUMMED_COUNTS:
            self._tokens[name] += getattr(row, name) or 0
        unsure = loss is not None and loss.kind == UNSURE
        if loss is not None:
            self._breaks += 1
            if unsure:
                self._unexplained += loss.tokens
            else:
                self._again += loss.tokens
        if spent is not None:
            for name in _PARTS:
                self._parts["unexplained" if unsure and name == "again" else name].append(getattr(spent, name))
            if request.subagent:
                self._parts["subagent"].append(spent.total)

    @property
    def dollars(self) -> float | None:
        """What it cost; None where no bill has a price."""
        priced = self.requests - self._unbilled - self._unpriced
        return _sum(part for name in (*_PARTS, "unexplained") for part in self._parts[name]) if priced else None

    def result(self, name: str, title: str | None = None) -> Spending:
        """Return the sums; `title` is that of the session which is called `name`."""
        known = self.dollars is not None
        parts = {name: _sum(found) if known else None for name, found in self._parts.items()}
        return Spending(
            name=name, sessions=len(self._sessions), requests=self.requests, unbilled=self._unbilled,
            unpriced=self._unpriced, at_least=self._at_least, **self._tokens, paid_again_tokens=self._again,
            unexplained_tokens=self._unexplained, dollars=self.dollars, reading=parts["reading"],
            context=parts["context"], output=parts["output"], tools=parts["tools"], paid_again=parts["again"],
            unexplained=parts["unexplained"], breaks=self._breaks, compactions=self._compactions,
            median_prompt_tokens=median_low(self._sizes) if self._sizes else None,
            largest_prompt_tokens=max(self._sizes, default=None), subagent_requests=self._subagents,
            subagent_dollars=parts["subagent"], appends=self._appends, appends_read=self._read,
            recorded_dollars=_sum(self._recorded["dollars"]) if self._recorded["dollars"] else None,
            recorded_requests=round(sum(self._recorded["requests"])),
            premium_requests=_sum(self._recorded["premium_requests"]) if self._recorded["premium_requests"] else None,
            title=title,
        )  # fmt: skip


class CauseSums:
    """What causes cost: those of one code that name the same count together."""

    def __init__(self) -> None:
        self._found: dict[tuple[str, str, tuple[str, ...], float | None], list[LedgerRequest]] = {}

    def add(self, request: LedgerRequest) -> None:
        """Add a request, if it lost anything."""
        loss = request.row.loss
        if loss is not None:
            self._found.setdefault((loss.code, loss.kind, loss.names, loss.lifetime), []).append(request)

    def results(self, reader: Reader, *, unsure: bool) -> list[SpendingCause]:
        """Return the causes that cost most first; with `unsure` those that explain nothing surely, else the others.

        The words and the next command are left to whoever reports them.
        """
        found = [
            _cause(requests, reader)
            for key, requests in self._found.items()
            if (key[1] == UNSURE) == unsure
        ]  # fmt: skip
        return sorted(found, key=lambda cause: (-(cause.dollars or 0.0), -cause.tokens, cause.code, cause.names))


def _cause(requests: list[LedgerRequest], reader: Reader) -> SpendingCause:
    losses = [request.row.loss for request in requests if request.row.loss is not None]
    first: Loss = losses[0]
    paid = [request.row.spent.again for request in requests if request.row.spent is not None]
    return SpendingCause(
        code=first.code, name=CODES[first.code].name, kind=first.kind, actor=actor_of(first.code, first.kind, reader),
        names=list(first.names), lifetime=first.lifetime, sessions=len({request.session for request in requests}),
        turns=len(requests), tokens=sum(loss.tokens for loss in losses), dollars=_sum(paid) if paid else None,
        says="", fix=fix_of(first.code, reader, first.kind), command="",
    )  # fmt: skip


def _sum(parts: Iterable[float]) -> float:
    return round(fsum(parts), _DIGITS)


# whether what two sides cost differs by more than chance

SESSIONS = 5  # from which on the spread between sessions says something
EVENTS = 5  # of both sides together, from which on shares are compared
Z = 1.959964
_T = (12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145,
      2.131, 2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045,
      2.042)  # fmt: skip


class Ratio(NamedTuple):
    """A measure: its name and unit, and the members of `Spending` whose sums are divided (`-NAME` is subtracted).

    `share`: it counts requests, so that it lies between 0 and 1.
    """

    name: str
    unit: str
    top: tuple[str, ...]
    bottom: tuple[str, ...]
    share: bool = False


PROMPT = ("uncached_tokens", "read_tokens", "write_tokens")
_PRICED = ("requests", "-unpriced")
RATIOS: tuple[Ratio, ...] = (
    Ratio("share_read", "share", ("read_tokens",), PROMPT),
    Ratio("breaks", "share", ("breaks",), ("requests",), share=True),
    Ratio("reliability", "share", ("appends_read",), ("appends",), share=True),
    Ratio("prompt", "tokens", PROMPT, ("requests",)),
    Ratio("output", "tokens", ("output_tokens",), ("requests",)),
    Ratio("money", "dollars", ("dollars",), _PRICED),
    Ratio("paid_again", "dollars", ("paid_again", "unexplained"), _PRICED),
)


def _count(spending: Spending, names: tuple[str, ...]) -> float | None:
    """Add members; None where one of them is not known."""
    total = 0.0
    for name in names:
        value: float | None = getattr(spending, name.lstrip("-"))
        if value is None:
            return None
        total += -value if name.startswith("-") else value
    return total


def measure(ratio: Ratio, left: Sequence[Spending], right: Sequence[Spending]) -> Measure:
    """Compare a ratio of two sides, each given as the sums of the billed requests of its sessions."""
    before, after = _side(ratio, left), _side(ratio, right)
    difference = _difference(before, after)
    return Measure(
        name=ratio.name, unit=ratio.unit, left=before, right=after,
        difference=None if before.value is None or after.value is None else round(after.value - before.value, _DIGITS),
        interval=difference, outcome=_outcome(ratio, before, after, difference),
    )  # fmt: skip


def share_of(events: int, trials: int) -> MeasureSide:
    """Return a share of requests with Wilson's interval; None where there are none."""
    if not trials:
        return MeasureSide(None, events, trials, 0, None)
    return MeasureSide(round(events / trials, _DIGITS), events, trials, 0, _wilson(events, trials))


def compared_shares(left: MeasureSide, right: MeasureSide) -> Outcome:
    """Say how two shares of requests differ."""
    ratio = Ratio("", "share", (), (), share=True)
    return _outcome(ratio, left, right, _difference(left, right))


def _side(ratio: Ratio, sessions: Sequence[Spending]) -> MeasureSide:
    known = [
        (top, bottom)
        for sums in sessions
        if (top := _count(sums, ratio.top)) is not None
        and (bottom := _count(sums, ratio.bottom)) is not None
        and bottom > 0
    ]
    tops, bottoms = sum(top for top, _ in known), sum(bottom for _, bottom in known)
    if not bottoms:
        return MeasureSide(None, 0, 0, 0, None)
    value = tops / bottoms
    interval = None
    if len(known) >= SESSIONS:
        interval = _clustered(known, value, bottoms, share=ratio.unit == "share")
    if interval is None and ratio.share:
        interval = _wilson(round(tops), round(bottoms))
    return MeasureSide(round(value, _DIGITS), round(tops, _DIGITS), round(bottoms), len(known), interval)


def _clustered(known: list[tuple[float, float]], value: float, bottoms: float, *, share: bool) -> Interval | None:
    """Return the interval of a ratio over sessions; None where they do not differ at all, which says nothing."""
    count = len(known)
    squares = sum((top - value * bottom) ** 2 for top, bottom in known)
    if isclose(squares, 0.0, abs_tol=1e-18):
        return None
    free = count - 1
    student = _T[free - 1] if free <= len(_T) else Z * (1 + (Z * Z + 1) / (4 * free))
    half = student * sqrt(count / (count - 1) * squares) / bottoms
    low, high = max(0.0, value - half), value + half
    return Interval(round(low, _DIGITS), round(min(high, 1.0) if share else high, _DIGITS), "sessions")


def _wilson(events: int, trials: int) -> Interval:
    share, squared = events / trials, Z * Z
    middle, scale = share + squared / (2 * trials), 1 + squared / trials
    half = Z * sqrt(share * (1 - share) / trials + squared / (4 * trials * trials))
    low, high = max(0.0, (middle - half) / scale), min(1.0, (middle + half) / scale)
    return Interval(round(low, _DIGITS), round(high, _DIGITS), "requests")


def _difference(left: MeasureSide, right: MeasureSide) -> Interval | None:
    """Return the interval of the right side's value less the left's: each limit from the nearest limits of both."""
    if left.value is None or right.value is None or left.interval is None or right.interval is None:
        return None
    middle = right.value - left.value
    low = middle - sqrt((right.value - right.interval.low) ** 2 + (left.interval.high - left.value) ** 2)
    high = middle + sqrt((right.interval.high - right.value) ** 2 + (left.value - left.interval.low) ** 2)
    over = "sessions" if left.interval.over == right.interval.over == "sessions" else "requests"
    return Interval(round(low, _DIGITS), round(high, _DIGITS), over)


def _outcome(ratio: Ratio, left: MeasureSide, right: MeasureSide, difference: Interval | None) -> Outcome:
    if left.value is None or right.value is None:
        return "unknown"
    few = ratio.share and min(left.events + right.events, _missed(left) + _missed(right)) < EVENTS
    if difference is None or few:
        return "too-few"
    if difference.low > 0:
        return "higher"
    return "lower" if difference.high < 0 else "no-difference"


def _missed(side: MeasureSide) -> float:
    return side.trials - side.events
