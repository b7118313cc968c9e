"""Requests as Chrome trace events: a process a session, a lane a chain, a slice a request, counters of its tokens.

Times are those of the recording. A slice is as long as its response took to begin, and ends at the next slice of its
lane. A turn without a time is drawn one second after the previous one, and its slice says so; a lane without any
time is named so, and begins with its session. An unknown count is omitted. Cost O(n log n) for the requests of a lane.

Viewers: https://ui.perfetto.dev; chrome://tracing, which Chromium 156 of Debian no longer has (tried on 2026-11-23).
Times (`ts`) and durations (`dur`) are microseconds from the trace's begin. Phases: `X` a slice, `C` a counter, `i` an
instant, `M` metadata (the name of a process or a lane). Thread ids are unique in the trace. Slices of a thread must not
overlap, since viewers draw such slices wrong.

Source: Trace Event Format (The Chromium Authors); Perfetto's "Visualizing external trace formats", and the importer of
its trace processor, which drops overlapping slices (both read on 2026-11-23).
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
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

SECOND = 1_000_000  # microseconds
LONGEST = 200  # characters of a name
LATEST = 253_402_300_800.0  # seconds: the year 10000, the first that no calendar writes
UNTIMED = "no times are recorded: one turn a second"
_COLOURS = {"waste": "terrible", "unattributable": "bad"}
_TOKENS = (("read", "read_tokens"), ("written", "write_tokens"), ("uncached", "uncached_tokens"))


class TraceEvent(Struct, frozen=True, kw_only=True):
    """One event."""

    name: str
    ph: Phase
    pid: int
    tid: int
    ts: int
    dur: int | UnsetType = UNSET  # of a slice
    cat: str | UnsetType = UNSET
    s: Literal["t"] | UnsetType = UNSET  # scope of an instant: the thread
    cname: str | UnsetType = UNSET  # a reserved colour, which chrome://tracing uses and Perfetto ignores
    args: dict[str, Argument]  # of a counter: numbers


class Trace(Struct, frozen=True, kw_only=True):
    """A whole trace."""

    traceEvents: list[TraceEvent]  # noqa: N815 - the format's own name
    displayTimeUnit: Literal["ms"] = "ms"  # noqa: N815 - the format's own name
    otherData: dict[str, str]  # noqa: N815 - its writer, its begin (RFC 3339, UTC), and a note


class LaneRequest(NamedTuple):
    """A request and its file."""

    file: str  # of its session or of a subagent
    request: LedgerRequest


class Slice(NamedTuple):
    """A request in its lane; times are in microseconds since the epoch."""

    row: LedgerRow
    begin: int
    length: int
    timed: bool  # its time is recorded
    measured: bool  # the time of its response is recorded


class TraceLane(NamedTuple):
    """The slices of a chain."""

    name: str
    slices: list[Slice]  # in the order of time
    timed: bool  # at least one time is recorded


def trace_of(requests: Iterable[LaneRequest]) -> Trace:
    """Make a trace of requests in the order of their recordings."""
    chains: dict[str, dict[tuple[str, str], list[LedgerRequest]]] = {}
    for file, request in requests:
        chains.setdefault(request.session, {}).setdefault((file, request.row.chain), []).append(request)
    lanes = {
        session: [_lane(_lane_name(session, *place), [each.row for each in found]) for place, found in of.items()]
        for session, of in chains.items()
    }
    begins = {
        session: min((lane.slices[0].begin for lane in found if lane.timed), default=None)
        for session, found in lanes.items()
    }
    known = [time for time in begins.values() if time is not None]
    begin = min(known, default=0)
    events, ids = list[TraceEvent](), count(1)
    for session, found in lanes.items():
        start = begins[session]
        placed = [lane if lane.timed else _moved(lane, begin if start is None else start) for lane in found]
        agent = next(iter(chains[session].values()))[0].agent
        events += _session(f"{visible(agent)}: {visible(session)}", placed, begin, ids)
    about = {
        "writer": f"lore {lore.__version__}",
        "begin": format_timestamp(begin / SECOND) if known else "not recorded",
    }
    every = [lane for found in lanes.values() for lane in found]
    if untimed := sum(not lane.timed for lane in every):
        about["note"] = f"{UNTIMED} (lanes: {untimed:,} of {len(every):,})"
    return Trace(traceEvents=events, otherData=about)


# lanes


def _lane_name(session: str, file: str, chain: str) -> str:
    """Return a chain's name, for a subagent's own file after the name of that file."""
    return _short(chain) if file == session else f"{visible(os.path.basename(file))} {_short(chain)}"


def _short(text: str) -> str:
    """Return the beginning of a name, since every request repeats it."""
    return visible(text[: 20 * LONGEST])[:LONGEST]


def _lane(name: str, rows: Sequence[LedgerRow]) -> TraceLane:
    times = [_microseconds(row.at) for row in rows]
    first = next((place for place, time in enumerate(times) if time is not None), None)
    latest = -SECOND if first is None else (times[first] or 0) - (first + 1) * SECOND
    begun: list[tuple[int, LedgerRow, bool]] = []
    for row, time in zip(rows, times, strict=True):
        latest = latest + SECOND if time is None else time
        begun.append((latest, row, time is not None))
    begun.sort(key=lambda drawn: drawn[0])
    ends = [*(begin for begin, _, _ in begun[1:]), None]
    slices = [
        _slice(begin, end, row, timed=timed) for (begin, row, timed), end in zip(begun, ends, strict=True)
    ]  # fmt: skip
    return TraceLane(name, slices, first is not None)


def _slice(begin: int, end: int | None, row: LedgerRow, *, timed: bool) -> Slice:
    answered = _microseconds(row.answered) if timed else None
    length = SECOND if answered is None or answered <= begin else answered - begin
    measured = answered is not None and answered > begin
    return Slice(row, begin, length if end is None else min(length, end - begin), timed, measured)


def _moved(lane: TraceLane, begin: int) -> TraceLane:
    slices = [drawn._replace(begin=drawn.begin + begin) for drawn in lane.slices]
    return lane._replace(name=f"{lane.name} ({UNTIMED})", slices=slices)


def _microseconds(time: float | None) -> int | None:
    """Return a time in microseconds; None if it is not recorded, or no calendar holds it."""
    return round(time * SECOND) if time is not None and 0 < time < LATEST else None


# events


def _session(name: str, lanes: list[TraceLane], begin: int, ids: Iterator[int]) -> Iterator[TraceEvent]:
    """Yield the events of a session; its first lane's thread id is its process id."""
    process, used = 0, dict[str, int]()
    for lane in lanes:
        thread, shown = next(ids), _unused_name(used, lane.name)
        if not process:
            process = thread
            yield _metadata("process_name", process, thread, {"name": name})
        yield _metadata("thread_name", process, thread, {"name": shown})
        yield _metadata("thread_sort_index", process, thread, {"sort_index": thread})
        for drawn in lane.slices:
            yield from _request(shown, drawn, drawn.begin - begin, process, thread)
        last, ends = lane.slices[-1], dict.fromkeys((kind for drawn in lane.slices for kind in _billed(drawn.row)), 0)
        if ends:  # without a last value of 0 the counter would continue after its lane
            yield _counter(shown, last.begin + last.length - begin, process, thread, ends)


def _unused_name(used: dict[str, int], name: str) -> str:
    """Return a name that no other lane of the process has: counters of one name would be one counter."""
    own = name
    while own in used:
        used[name] += 1
        own = f"{name} ({used[name]})"
    used[own] = 1
    return own


def _billed(row: LedgerRow) -> dict[str, int]:
    """Return a request's known tokens by the names of counters."""
    found = {kind: getattr(row, member) for kind, member in _TOKENS} if row.billed else {}
    return {kind: tokens for kind, tokens in found.items() if tokens is not None}


def _metadata(kind: str, process: int, thread: int, args: dict[str, Argument]) -> TraceEvent:
    return TraceEvent(name=kind, ph="M", pid=process, tid=thread, ts=0, args=args)


def _counter(lane: str, at: int, process: int, thread: int, tokens: dict[str, int]) -> TraceEvent:
    return TraceEvent(name=f"{lane}: tokens", ph="C", pid=process, tid=thread, ts=at, args=dict(tokens))


def _request(lane: str, drawn: Slice, at: int, process: int, thread: int) -> Iterator[TraceEvent]:
    row, loss = drawn.row, drawn.row.loss
    name, kinds, colour = f"turn {row.number}", "request", UNSET
    if loss is not None:
        about = CODES.get(loss.code)
        name += f": {loss.code if about is None else about.name}"
        kinds, colour = f"request,{loss.kind}", _COLOURS.get(loss.kind, UNSET)
    yield TraceEvent(
        name=name, ph="X", pid=process, tid=thread, ts=at, dur=drawn.length, cat=kinds, cname=colour,
        args=dict(_arguments(drawn)),
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
        yield "model", _short(row.model)
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
            yield "names", ", ".join(map(_short, loss.names))
    if row.line is not None:
        yield "line", row.line
