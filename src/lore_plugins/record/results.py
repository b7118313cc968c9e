"""What `lore record --json` answers."""

from __future__ import annotations

from msgspec import Struct

from lore.model import CommandResult, Count


class RecordedUpstream(Struct, frozen=True, kw_only=True):
    """What passed to one server. `name` is the first part of its path here; bytes are those of bodies as they passed.

    `statuses` counts answers by status, `unanswered` calls that had none.
    """

    name: str
    server: str
    calls: Count
    request_bytes: Count
    response_bytes: Count
    statuses: dict[str, int]
    unanswered: Count


class RecordResult(CommandResult, frozen=True, kw_only=True):
    """`lore record --json`. `bytes` were added to `file` (None: nothing was
    recorded, and no file was left). Of the `calls`, `model_requests` are what commands judge, and
    `unparsed` says how often something of a call to a model cannot be read; both None where the file cannot be. `lost`
    calls passed and are not written whole, `refused` requests did not pass. `exit_code` is that of the command, None
    where none was run.
    """

    file: str | None
    bytes: Count
    calls: Count
    model_requests: Count | None
    unparsed: Count | None
    lost: Count
    refused: Count
    exit_code: int | None
    upstreams: list[RecordedUpstream]
