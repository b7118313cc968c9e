"""Chrome trace events: what `lore report --format trace` writes, for https://ui.perfetto.dev.

Chrome's own viewer, chrome://tracing, reads them too; Chromium 156 of Debian has it no longer (tried on 2026-11-23).

Times (`ts`) and durations (`dur`) are whole microseconds from the trace's begin. Phases: `X` a slice, `C` a counter,
`i` an instant, `M` metadata (the name of a process or a lane). A process is a session, a thread a lane of it; thread
ids are unique in the trace. Slices of a thread nest or stand apart, since viewers draw others wrong.

Source: Trace Event Format (The Chromium Authors); Perfetto's "Visualizing external trace formats", and the importer of
its trace processor, which drops overlapping slices (both read on 2026-11-23).
"""

from __future__ import annotations

from typing import Literal, TypeAlias

from msgspec import UNSET, Struct, UnsetType

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
