"""Measurements in logs and metrics of inference engines, and their comparison with predictions. Null is unknown."""

from __future__ import annotations

from typing import Literal, TypeAlias

from msgspec import Struct

# What a measurement covers: one request, the prompts of one scheduler step, the time between two scrapes of counters
# (the first: since the engine started), or a rate over recent requests.
Extent: TypeAlias = Literal["request", "batch", "interval", "window"]
# What times count from: 1970 in UTC, 1970 by the engine's local clock, the new year of an unknown year (written as
# 2000), or the start of the engine.
LogClock: TypeAlias = Literal["utc", "local", "year", "start"]
# How measured requests were matched with turns: by response id, by the order of prompt sizes, or by order alone;
# otherwise only sums are compared, over the same time or over everything.
Pairing: TypeAlias = Literal["id", "size", "order", "time", "totals"]
PROCESS = "pid "  # precedes the process number that names a server without a name
EXTERNAL = "external"  # the engine of vLLM's measurements of another cache than its own


class Measurement(Struct, frozen=True, gc=False):
    """One measurement, in tokens."""

    extent: Extent  # what it covers
    engine: str  # name of the inference engine, or `external`
    at: float | None = None  # seconds from where `clock` counts
    clock: LogClock = "utc"  # what `at` counts from
    name: str = ""  # of the request, or the number of the engine in a log of several
    requests: int | None = None  # how many it covers; null: unknown
    prompt_tokens: int | None = None  # of these requests
    cached_tokens: int | None = None  # the part of them that was read from the cache
    share: float | None = None  # part of the prompts that was read, 0 to 1, if the log has no token counts
    server: str = ""  # the collector's name for the writer of a line, else its process
    recomputed: int = 0  # requests that were computed whole, as the server kept no state to continue from


class MeasuredLog(Struct, frozen=True, kw_only=True):
    """The sums of one engine in one log, in tokens."""

    path: str  # of the log
    format: str  # of the log
    engine: str  # name of the inference engine, or `external`: another cache that vLLM reads
    name: str  # distinguishes the engines of one log
    extent: Extent  # what each measurement covers
    measurements: int  # how many the log holds
    requests: int | None  # that they cover
    prompt_tokens: int | None  # of these requests
    cached_tokens: int | None  # the part of them that was read from the cache
    share: float | None  # part of the prompts that was read, 0 to 1; of a window the latest value
    clock: LogClock | None  # null if the log has no times
    first: float | None  # the earliest time, in seconds from where `clock` counts
    last: float | None  # the latest time, in seconds from where `clock` counts
    server: str = ""  # distinguishes servers: the collector's name, else `pid N`
    recomputed: int = 0  # as in `Measurement`, summed


class MeasuredRow(Struct, frozen=True, kw_only=True):
    """A measurement and the prediction of the same request, or of all requests since the previous row."""

    at: float | None = None  # seconds since 1970 if there are turns, else by the clock of the log
    requests: int | None = None  # measured requests
    prompt_tokens: int | None = None  # measured
    cached_tokens: int | None = None  # measured: tokens that were read from the cache
    # measured part of the prompts that was read, 0 to 1; of a window: of the most recent requests
    share: float | None = None
    turns: int | None = None  # predicted turns
    predicted_prompt_tokens: int | None = None  # of these turns
    predicted_tokens: int | None = None  # tokens that these turns would read by the prediction
    predicted_share: float | None = None  # predicted part of the prompts that is read, 0 to 1
    turn: int | None = None  # of the one request that the row is about; null: the row is about several
    chain: str | None = None  # null as `turn` is
    path: str | None = None  # of the recording with this turn; null as `turn` is


class MeasuredResult(Struct, frozen=True, kw_only=True):
    """Logs of engines, and their comparison with the predictions of the same run."""

    logs: list[MeasuredLog]  # one entry for each engine and kind of measurement in a log
    pairing: Pairing | None  # null if nothing is compared
    rows: list[MeasuredRow]  # in the order of time; without a comparison only what was measured
    share: float | None = None  # measured part of the prompts that was read, over everything that was compared, 0 to 1
    predicted_share: float | None = None  # the prediction for it, 0 to 1
    shifted_seconds: float | None = None  # added to times without a zone or year to match those of the turns
    apart: bool = False  # no turn is from the time of the log
