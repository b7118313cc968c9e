"""The result of `lore statusline --json`."""

from __future__ import annotations

from msgspec import Struct

from lore.model.codes import CauseKind
from lore.model.results import CommandResult, copy_fields
from lore.model.running import RunningTotals


class RunningBreak(Struct, frozen=True, kw_only=True):
    """The last cache break of a session."""

    code: str  # such as `LORE104`
    kind: CauseKind  # expected, waste or unattributable
    turn: int  # number in its chain, from 1
    at: float | None  # when its turn was sent, in seconds since the epoch
    lost_tokens: int  # tokens that were cached and not read again
    dollars: float | None  # beyond the price of reading the lost tokens
    says: str  # the leading cause in words
    fix: str  # what the user or the agent's author can do about it


class RunningSession(CommandResult, frozen=True, kw_only=True):
    """A session up to its last request. Counts are of all its chains, unless a field names the main one."""

    path: str  # of its log
    format: str  # name of the log's format
    session_id: str | None  # null if the log names none
    model: str | None  # that answered last in the main chain; null: unknown
    turn: int  # number of the main chain's last request, from 1; 0 before the first
    used_at: float | None  # when the response to the main chain's last request began, in seconds since the epoch
    expires_at: float | None  # when the cached prompt expires unless a request reads it
    lifetime: float | None  # seconds that the cache keeps the prompt
    billed: bool  # the lifetime is from the usage, not from a dated rule
    prompt_tokens: int | None  # of the main chain's last request; null: unknown
    read_tokens: int | None  # of the main chain's last request; null: unknown
    requests: int  # in all chains
    breaks: int  # requests in all chains that lost cached tokens
    paid_again_tokens: int  # re-billed as waste
    paid_again_dollars: float | None  # what these tokens cost beyond the price of reading
    unexplained_tokens: int  # re-billed, no certain cause
    expected_tokens: int  # re-billed as expected
    rebilled_tokens: int  # the sum of these three, as the line shows it
    rebilled_dollars: float | None  # what all re-billed tokens cost beyond the price of reading
    last_break: RunningBreak | None  # that lost at least 5 % of the largest loss; null if nothing was lost so far


def running_session(running: RunningTotals, path: str) -> RunningSession:
    """Return the totals of a session as its JSON result."""
    last = running.last_break
    last_break = None if last is None else copy_fields(RunningBreak, last)
    return copy_fields(RunningSession, running, path=path, session_id=running.session or None, last_break=last_break)
