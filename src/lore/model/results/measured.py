"""What engines say of their caches in logs and scrapes, and what `lore simulate` answers of it: beside predictions."""

from __future__ import annotations

from typing import Literal, TypeAlias

from msgspec import Struct

# What a measurement is of: one request, the prompts of one step of the scheduler, those between two scrapes of
# counters (the first: since the engine started), or a rate over the most recent requests.
Extent: TypeAlias = Literal["request", "batch", "interval", "window"]
# Where a time counts from: 1970 in UTC, 1970 as the engine's own clock on the wall has it, the new year of a year
# that the log does not say (2000), or the start of the engine.
LogClock: TypeAlias = Literal["utc", "local", "year", "start"]
PROCESS = "pid "  # before the number of the process, where that is all that names a server
EXTERNAL = "external"  # stands for the engine where vLLM says what another cache than its own held


class Measurement(Struct, frozen=True, gc=False):
    """One measurement, in tokens; what the log does not say is None.

    `engine` is the engine's name, `name` the request's or, where several engines share a log, the engine's number.
    `at` is in seconds from where `clock` counts. `share` is the part of the prompts that was read, 0 to 1, where the
    log says that alone; else `cached_tokens` of `prompt_tokens`. `requests` counts what was measured. `server` is the
    name that a log's collector gives to whoever wrote a line, else its process; empty where lines do not say it.
    """

    extent: Extent
    engine: str
    at: float | None = None
    clock: LogClock = "utc"
    name: str = ""
    requests: int | None = None
    prompt_tokens: int | None = None
    cached_tokens: int | None = None
    share: float | None = None
    server: str = ""


# How requests of a log were found among turns: by the response's id, by the sizes of prompts in their order, by their
# order alone; else only sums are compared, of the same times or of all.
Pairing: TypeAlias = Literal["id", "size", "order", "time", "totals"]


class MeasuredLog(Struct, frozen=True, kw_only=True):
    """What one engine says in one log, in tokens; null is unknown.

    `extent` is what a measurement is of; `measurements` counts them. `share` is the part of the prompts that was read,
    0 to 1; of a window that of the most recent requests, as it was said last. `first` and `last` are times in
    seconds from where `clock` counts (null: the log has none). `name` tells engines of one log apart, `server` the
    servers: as its collector names them, else `pid N`.
    """

    path: str
    format: str
    engine: str
    name: str
    extent: Extent
    measurements: int
    requests: int | None
    prompt_tokens: int | None
    cached_tokens: int | None
    share: float | None
    clock: LogClock | None
    first: float | None
    last: float | None
    server: str = ""


class MeasuredRow(Struct, frozen=True, kw_only=True):
    """What was measured and predicted of the same: of one request, or of all until `at` since the row before.

    `at` is in seconds since 1970 where rows are compared with turns, else as the log's clock counts. `requests` and
    `turns` count what was measured and predicted. Of one request `turn`, `chain` and `path` name the turn. A window's
    shares are of the most recent requests.
    """

    at: float | None = None
    requests: int | None = None
    prompt_tokens: int | None = None
    cached_tokens: int | None = None
    share: float | None = None
    turns: int | None = None
    predicted_prompt_tokens: int | None = None
    predicted_tokens: int | None = None
    predicted_share: float | None = None
    turn: int | None = None
    chain: str | None = None
    path: str | None = None


class MeasuredResult(Struct, frozen=True, kw_only=True):
    """Engines' logs, and what they say beside what was predicted of the same run.

    `pairing` is null where nothing is compared: there are no turns, none with a prediction, or (`apart`) none of the
    time of the log. `share` and `predicted_share` are over what was compared. `shifted_seconds` is what was added to a
    log's times that have no zone or year, so that they meet those of the turns.
    """

    logs: list[MeasuredLog]
    pairing: Pairing | None
    rows: list[MeasuredRow]
    share: float | None = None
    predicted_share: float | None = None
    shifted_seconds: float | None = None
    apart: bool = False
