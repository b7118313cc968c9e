"""Requests as Chrome trace events: a process a session, a lane a chain, a slice a request, counters of its tokens.

In: requests of ledgers in the order of their recordings. Out: a `Trace`. Rules: times are those of the recording; a
slice is as long as its response took to begin, and ends where the next of its lane begins, for slices that overlap
are drawn wrong. Where no time is recorded a turn stands a second behind the one before, and its slice says so; a lane
without any is named so, and begins with its session. A count that is unknown is left out, never 0. Cost
O(n log n) for the requests of a lane.

Viewers: https://ui.perfetto.dev; chrome://tracing, which Chromium 156 of Debian has no longer (tried on 2026-11-23).
Times (`ts`) and durations (`dur`) are whole microseconds from the trace's begin. Phases: `X` a slice, `C` a counter,
`i` an instant, `M` metadata (the name of a process or a lane). A process is a session, a thread a lane of it; thread
ids are unique in the trace. Slices of a thread nest or stand apart, since viewers draw others wrong.

Source: Trace Event Format (The Chromium Authors); Perfetto's "Visualizing external trace formats", and the importer of
its trace processor, which drops overlapping slices (both read on 2026-11-23).
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from itertools import count
from typing import Literal, NamedTuple, TypeAlias

from msgspec import UNSET, Struct, UnsetType

import lore
from lore.judge.sums import LedgerRequest
from lore.model.codes import CODES
from lore.model.ledger import LedgerRow
from lore.model.times import format_timestamp
from lore.report.plain import visible

Phase: TypeAlias = Literal["X", "C", "i", "M"]
Argument: TypeAlias = str | int | float | bool


class TraceEvent(Struct, frozen=True, kw_only=True):
    """One event; `dur` is a slice's alone, `s` (scope: `t`, the thread) an instant's; `args` of a counter are numbers.

    `cname` is the name of a reserved colour, which chrome://tracing uses and Perfetto passes over.
    """

    name: str
    ph: Phase
    pid: int
    tid: int
    ts: int
    dur: int | UnsetType = UNSET
    cat: str | UnsetType = UNSET
    s: Literal["t"] | UnsetType = UNSET
    cname: str | UnsetType = UNSET
    args: dict[str, Argument]


class Trace(Struct, frozen=True, kw_only=True):
    """A whole trace; `otherData` says what wrote it, when it begins (RFC 3339, UTC), and what is to be known of it."""

    traceEvents: list[TraceEvent]  # noqa: N815 - the format's own name
    displayTimeUnit: Literal["ms"] = "ms"  # noqa: N815 - the format's own name
    otherData: dict[str, str]  # noqa: N815 - the format's own name


SECOND = 1_000_000  # microseconds
LONGEST = 200  # characters of a name
LATEST = 253_402_300_800.0  # seconds: the year 10000, behind which no calendar writes a time
_COLOURS = {"waste": "terrible", "unattributable": "bad"}
_TOKENS = (("read", "read_tokens"), ("written", "write_tokens"), ("uncached", "uncached_tokens"))
UNTIMED = "no times are recorded: one turn a second"


class LaneRequest(NamedTuple):
    """A request, and the file that holds it, which is its session's or a subagent's."""

    file: str
    request: LedgerRequest


class Slice(NamedTuple):
    """Where a request stands in its lane, in microseconds since the epoch; `timed`: its time is recorded."""

    row: LedgerRow
    begin: int
    length: int
    timed: bool
    measured: bool


class TraceLane(NamedTuple):
    """The slices of a chain in the order of time; `timed` where any of them has a recorded time."""

    name: str
    slices: list[Slice]
    timed: bool


def _shown(text: str) -> str:
    """Return a name as it is shown; its beginning, for it stands with every request."""
    return visible(text[: 20 * LONGEST])[:LONGEST]


def trace_of(requests: Iterable[LaneRequest]) -> Trace:
    """Make a trace."""
    sessions: dict[str, dict[tuple[str, str], list[LedgerRequest]]] = {}
    for file, request in requests:
        sessions.setdefault(request.session, {}).setdefault((file, request.row.chain), []).append(request)
    laid = {session: [_lane(_lane_name(session, *place), [each.row for each in requests])
                      for place, requests in chains.items()] for session, chains in sessions.items()}  # fmt: skip
    begins = {session: min((lane.slices[0].begin for lane in lanes if lane.timed), default=None)
              for session, lanes in laid.items()}  # fmt: skip
    known = [time for time in begins.values() if time is not None]
    begin = min(known, default=0)
    events, ids = list[TraceEvent](), count(1)
    for session, lanes in laid.items():
        start = begins[session]
        placed = [lane if lane.timed else _moved(lane, begin if start is None else start) for lane in lanes]
        agent = next(iter(sessions[session].values()))[0].agent
        events += _session(f"{visible(agent)}: {visible(session)}", placed, begin, ids)
    untimed = sum(not lane.timed for lanes in laid.values() for lane in lanes)
    about = {
        "writer": f"lore {lore.__version__}",
        "begin": format_timestamp(begin / SECOND) if known else "not recorded",
    }
    if untimed:
        about["note"] = f"{UNTIMED} (lanes: {untimed:,} of {sum(map(len, laid.values())):,})"
    return Trace(traceEvents=events, otherData=about)


def _lane_name(session: str, file: str, chain: str) -> str:
    """Return a chain's name, behind that of its file where it is a subagent's own."""
    return _shown(chain) if file == session else f"{visible(os.path.basename(file))} {_shown(chain)}"


def _lane(name: str, rows: Sequence[LedgerRow]) -> TraceLane:
    times = [_microseconds(row.at) for row in rows]
    known = [place for place, time in enumerate(times) if time is not None]
    first = known[0] if known else 0
    before = (times[first] or 0) - (first + 1) * SECOND if known else -SECOND
    begun: list[tuple[int, LedgerRow, bool]] = []
    for row, time in zip(rows, times, strict=True):
        before = before + SECOND if time is None else time
        begun.append((before, row, time is not None))
    begun.sort(key=lambda drawn: drawn[0])
    ends = [*(begin for begin, _, _ in begun[1:]), None]
    slices = [
        _slice(begin, end, row, timed=timed)
        for (begin, row, timed), end in zip(begun, ends, strict=True)
    ]  # fmt: skip
    return TraceLane(name, slices, bool(known))


def _slice(begin: int, end: int | None, row: LedgerRow, *, timed: bool) -> Slice:
    answered = _microseconds(row.answered) if timed else None
    measured = answered is not None and answered > begin
    length = answered - begin if answered is not None and measured else SECOND
    return Slice(row, begin, length if end is None else min(length, end - begin), timed, measured)


def _moved(lane: TraceLane, begin: int) -> TraceLane:
    slices = [drawn._replace(begin=drawn.begin + begin) for drawn in lane.slices]
    return lane._replace(name=f"{lane.name} ({UNTIMED})", slices=slices)


def _microseconds(time: float | None) -> int | None:
    """Return a time in microseconds; None for one that is not recorded, or that no calendar holds."""
    return round(time * SECOND) if time is not None and 0 < time < LATEST else None


def _session(name: str, lanes: list[TraceLane], begin: int, ids: Iterator[int]) -> Iterator[TraceEvent]:
    process, names = 0, dict[str, int]()
    for lane in map(partial(_apart, names), lanes):
        thread = next(ids)
        if not process:
            process = thread
            yield _named("process_name", process, thread, name)
        yield _named("thread_name", process, thread, lane.name)
        order: dict[str, Argument] = {"sort_index": thread}
        yield TraceEvent(name="thread_sort_index", ph="M", pid=process, tid=thread, ts=0, args=order)
        for drawn in lane.slices:
            yield from _request(lane.name, drawn, drawn.begin - begin, process, thread)
        last, ends = lane.slices[-1], dict.fromkeys((kind for drawn in lane.slices for kind in _billed(drawn.row)), 0)
        if ends:  # a counter stands until its next value: it would go on behind its lane
            yield _counter(lane.name, last.begin + last.length - begin, process, thread, ends)


def _apart(used: dict[str, int], lane: TraceLane) -> TraceLane:
    """Give a lane a name that no other one of its process has: counters of one name would be one."""
    name = lane.name
    while name in used:
        used[lane.name] += 1
        name = f"{lane.name} ({used[lane.name]})"
    used[name] = 1
    return lane._replace(name=name)


def _billed(row: LedgerRow) -> dict[str, int]:
    """Return a request's tokens as they are billed, by the names of counters; without what is not known."""
    found = {kind: getattr(row, member) for kind, member in _TOKENS} if row.billed else {}
    return {kind: tokens for kind, tokens in found.items() if tokens is not None}


def _named(kind: str, process: int, thread: int, name: str) -> TraceEvent:
    return TraceEvent(name=kind, ph="M", pid=process, tid=thread, ts=0, args={"name": name})


def _counter(lane: str, at: int, process: int, thread: int, tokens: dict[str, int]) -> TraceEvent:
    return TraceEvent(name=f"{lane}: tokens", ph="C", pid=process, tid=thread, ts=at, args=dict(tokens))


def _request(lane: str, drawn: Slice, at: int, process: int, thread: int) -> Iterator[TraceEvent]:
    row, loss = drawn.row, drawn.row.loss
    about = None if loss is None else CODES.get(loss.code)
    name = f"turn {row.number}"
    if loss is not None:
        name += f": {loss.code}" if about is None else f": {about.name}"
    yield TraceEvent(
        name=name, ph="X", pid=process, tid=thread, ts=at, dur=drawn.length,
        cat="request" if loss is None else f"request,{loss.kind}",
        cname=UNSET if loss is None else _COLOURS.get(loss.kind, UNSET), args=dict(_arguments(drawn)),
    )  # fmt: skip
    if row.compacted:
        yield TraceEvent(name="compacted", ph="i", s="t", pid=process, tid=thread, ts=at, cat="compaction", args={})
    if tokens := _billed(row):
        yield _counter(lane, at, process, thread, tokens)


def _arguments(drawn: Slice) -> Iterator[tuple[str, Argument]]:
    row, loss, spent = drawn.row, drawn.row.loss, drawn.row.spent
    yield "turn", row.number
    yield "sent", format_timestamp(drawn.begin / SECOND) if drawn.timed else "not recorded: one turn a second"
    yield "response_began_after", f"{(row.answered or 0) - (row.at or 0):.3f} s" if drawn.measured else "not recorded"
    if row.model is not None:
        yield "model", _shown(row.model)
    for kind, member in (("prompt", "prompt_tokens"), *_TOKENS, ("output", "output_tokens")):
        tokens = getattr(row, member)
        if tokens is not None:
            yield f"{kind}_tokens", tokens
    if not row.billed:
        yield "bill", "not recorded"
    if spent is not None:
        yield "cost_usd", round(spent.total, 6)
        yield "paid_again_usd", round(spent.again, 6)
    if loss is not None:
        yield "lost_tokens", loss.tokens
        yield "cause", loss.code
        yield "kind", loss.kind
        if loss.names:
            yield "names", ", ".join(map(_shown, loss.names))
    if row.line is not None:
        yield "line", row.line
