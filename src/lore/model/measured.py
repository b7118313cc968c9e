"""What an engine says of its own cache in a log or a scrape: how much of which prompts it read."""

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
