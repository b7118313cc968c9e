"""The result of `lore statusline --json`."""

from __future__ import annotations

from msgspec import Struct

from lore.model.codes import CauseKind
from lore.model.results import CommandResult, copy_fields
from lore.model.running import RunningTotals


class RunningBreak(Struct, frozen=True, kw_only=True):
    """The last cache break of a session."""

    code: str
    kind: CauseKind
    turn: int
    at: float | None  # seconds since the epoch
    lost_tokens: int
    dollars: float | None  # beyond the price of reading the lost tokens
    says: str  # the leading cause in words
    fix: str


class RunningSession(CommandResult, frozen=True, kw_only=True):
    """A session up to its last request. Sizes and times are of its main chain, sums are of all its chains."""

    path: str
    format: str
    session_id: str | None
    model: str | None
    turn: int
    used_at: float | None  # when the last response began, in seconds since the epoch
    expires_at: float | None  # when the cached prompt expires unless a request reads it
    lifetime: float | None  # seconds that the cache keeps the prompt
    billed: bool  # the lifetime is from the usage, not from a dated rule
    prompt_tokens: int | None
    read_tokens: int | None
    requests: int
    breaks: int
    paid_again_tokens: int  # re-billed, with a certain cause
    paid_again_dollars: float | None
    unexplained_tokens: int  # re-billed, without a certain cause
    expected_tokens: int  # re-billed, as expected
    rebilled_dollars: float | None  # what all re-billed tokens cost beyond the price of reading
    last_break: RunningBreak | None


def running_session(running: RunningTotals, path: str) -> RunningSession:
    """Return the totals of a session as its JSON result."""
    last = running.last_break
    shown = None if last is None else copy_fields(RunningBreak, last)
    return copy_fields(RunningSession, running, path=path, session_id=running.session or None, last_break=shown)
