"""The JSON result of `lore record`."""

from __future__ import annotations

from msgspec import Struct

from lore.model import CommandResult, Count


class RecordedUpstream(Struct, kw_only=True):
    """The calls to one server, counted while the proxy runs."""

    name: str  # the first part of its path at the proxy
    server: str
    calls: Count
    request_bytes: Count  # of bodies, as sent
    response_bytes: Count
    statuses: dict[str, int]  # answers by status
    unanswered: Count


class RecordResult(CommandResult, frozen=True, kw_only=True):
    """`lore record --json`."""

    file: str | None  # null: nothing was recorded, so there is no file
    bytes: Count  # added to the file
    calls: Count
    model_requests: Count | None  # requests that commands judge; null: the file is unreadable
    unparsed: Count | None  # problems in calls to models
    lost: Count  # calls that were forwarded but not written whole
    refused: Count  # requests that were not forwarded
    exit_code: int | None  # of the command
    upstreams: list[RecordedUpstream]
