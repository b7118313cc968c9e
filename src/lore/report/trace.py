"""Requests as Chrome trace events: each session is a process, each chain a lane, each request a slice with counters.

Times are those of the recording. A slice is as long as its response took to begin (a second, if that is not recorded),
and ends at the next slice of its lane: slices of a thread must not overlap, since viewers draw such slices wrong. A
turn without a time is drawn one second after the previous one, and its slice says so; a lane without any time says so
in its name, and begins when its session does. An unknown count is omitted. Cost O(n log n) for the requests of a lane.

Viewers: https://ui.perfetto.dev; chrome://tracing, which Chromium 156 of Debian no longer has (tried on 2026-11-23).
Times (`ts`) and durations (`dur`) are microseconds from the trace's begin. Phases: `X` a slice, `C` a counter, `i` an
instant, `M` metadata (the name of a process or a lane). Thread ids are unique in the trace.

Source: Trace Event Format (The Chromium Authors); Perfetto's "Visualizing external trace formats", and the importer of
its trace processor, which drops overlapping slices (both read on 2026-11-23).
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Any, Literal, NamedTuple, TypeAlias

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
    args: dict[str, Argument]  # of a counter: numbers


class Trace(Struct, frozen=True, kw_only=True):
    """A whole trace."""

    traceEvents: list[TraceEvent]  # noqa: N815 - the format's own name
    displayTimeUnit: Literal["ms"] = "ms"  # noqa: N815 - the format's own name
    otherData: dict[str, str]  # noqa: N815 - its writer, its begin (RFC 3339, UTC), and a note


class Slice(NamedTuple):
    """The place of a request in its lane."""

    begin: int  # microseconds since the epoch; in a lane without times since the lane's begin
    timed: bool  # its time is recorded
    row: LedgerRow


def trace_of(requests: Iterable[tuple[str, LedgerRequest]]) -> Trace:
    """Return a trace of requests, each with the file of its session or subagent, in the order of their recordings."""
    agents, chains = dict[str, str](), dict[tuple[str, str, str], list[LedgerRow]]()
    for file, request in requests:
        agents.setdefault(request.session, request.agent)
        chains.setdefault((request.session, file, request.row.chain), []).append(request.row)
    order = {session: number for number, session in enumerate(agents)}
    lanes = sorted(((place, _make_slices(rows)) for place, rows in chains.items()), key=lambda lane: order[lane[0][0]])
    timed_lanes = [any(span.timed for span in slices) for _, slices in lanes]
    starts = dict[str, int]()  # of sessions with recorded times
    for ((session, *_), slices), is_timed in zip(lanes, timed_lanes, strict=True):
        if is_timed:
            starts[session] = min(slices[0].begin, starts.get(session, slices[0].begin))
    begin = min(starts.values(), default=0)
    events, names, processes = list[TraceEvent](), defaultdict[str, dict[str, int]](dict), dict[str, int]()
    for thread, ((session, file, chain), slices) in enumerate(lanes, 1):
        is_timed, process = timed_lanes[thread - 1], processes.setdefault(session, thread)
        name = _shorten(chain) if file == session else f"{visible(os.path.basename(file))} {_shorten(chain)}"
        first_name, used = name if is_timed else f"{name} ({UNTIMED})", names[session]
        name = first_name
        while name in used:  # no other lane of the process has it: counters of one name would be one counter
            used[first_name] += 1
            name = f"{first_name} ({used[first_name]})"
        used[name] = 1
        origin = begin if is_timed else begin - starts.get(session, begin)
        event = partial(_make_event, process, thread, origin)
        if process == thread:
            title = f"{visible(agents[session])}: {visible(session)}"
            events.append(event("process_name", "M", origin, {"name": title}))
        events.append(event("thread_name", "M", origin, {"name": name}))
        events.append(event("thread_sort_index", "M", origin, {"sort_index": thread}))
        events += _make_lane_events(name, slices, event)
    metadata = {"writer": f"lore {lore.__version__}"}
    metadata["begin"] = format_timestamp(begin / SECOND) if starts else "not recorded"
    if not all(timed_lanes):
        metadata["note"] = f"{UNTIMED} (lanes: {timed_lanes.count(False):,} of {len(timed_lanes):,})"
    return Trace(traceEvents=events, otherData=metadata)


def _make_slices(rows: Sequence[LedgerRow]) -> list[Slice]:
    """Return the slices of a chain in the order of time; its first recorded time places the turns before it."""
    times, slices = [_microseconds(row.at) for row in rows], list[Slice]()
    first = next((place for place, time in enumerate(times) if time is not None), 0)
    latest = (times[first] or 0) - (first + 1) * SECOND
    for row, time in zip(rows, times, strict=True):
        latest = latest + SECOND if time is None else time
        slices.append(Slice(latest, time is not None, row))
    return sorted(slices, key=lambda span: span.begin)


def _microseconds(time: float | None) -> int | None:
    """Return a time in microseconds; None if it is not recorded, or no calendar holds it."""
    return round(time * SECOND) if time is not None and 0 < time < LATEST else None


def _shorten(text: str) -> str:
    """Return the beginning of a name, since every request repeats it."""
    return visible(text[: 20 * LONGEST])[:LONGEST]


def _make_event(
    process: int, thread: int, origin: int, name: str, ph: Phase, at: int, args: dict[str, Any], **more: Any
) -> TraceEvent:  # fmt: skip
    """Return an event at the time `at` minus `origin`, the begin of the trace on the clock of the lane."""
    return TraceEvent(name=name, ph=ph, pid=process, tid=thread, ts=at - origin, args=args, **more)


def _make_lane_events(name: str, slices: Sequence[Slice], event: Callable[..., TraceEvent]) -> Iterator[TraceEvent]:
    """Yield a lane's slices, the compactions as instants and the counters; `event` is `_make_event` for this lane."""
    end, counters = 0, dict[str, int]()
    for span, following in zip(slices, [*slices[1:], None], strict=True):
        row, answered = span.row, _microseconds(span.row.answered) if span.timed else None
        measured = answered is not None and answered > span.begin
        end = answered if answered is not None and measured else span.begin + SECOND
        end = end if following is None else min(end, following.begin)
        title, kinds, loss = f"turn {row.number}", "request", row.loss
        if loss is not None:
            title += f": {CODES[loss.code].name if loss.code in CODES else loss.code}"
            kinds = f"request,{loss.kind}"
        args = dict(_list_arguments(span, measured=measured))
        yield event(title, "X", span.begin, args, dur=end - span.begin, cat=kinds)
        if row.compacted:
            yield event("compacted", "i", span.begin, {}, s="t", cat="compaction")
        counts = {kind: getattr(row, member) for kind, member in _TOKENS} if row.billed else {}
        tokens = {kind: count for kind, count in counts.items() if count is not None}
        if tokens:
            counters |= dict.fromkeys(tokens, 0)
            yield event(f"{name}: tokens", "C", span.begin, tokens)
    if counters:  # without a last value of 0 the counter would continue after its lane
        yield event(f"{name}: tokens", "C", end, counters)


def _list_arguments(span: Slice, *, measured: bool) -> Iterator[tuple[str, Argument]]:
    """Yield what viewers show of a request; `measured`: the time until its response began is recorded."""
    row, loss, spent = span.row, span.row.loss, span.row.spent
    yield "turn", row.number
    yield "sent", format_timestamp(span.begin / SECOND) if span.timed else "not recorded: one turn a second"
    yield "response_began_after", f"{(row.answered or 0) - (row.at or 0):.3f} s" if measured else "not recorded"
    if row.model is not None:
        yield "model", _shorten(row.model)
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
            yield "names", ", ".join(map(_shorten, loss.names))
    if row.line is not None:
        yield "line", row.line
