"""What `lore statusline --json` answers, of the session that runs, and `lore record --json`: what passed to which
server, and what of it commands can read. Unknown is None, never 0.
"""

from __future__ import annotations

from msgspec import Struct

from lore.model.codes import CauseKind
from lore.model.results import CommandResult, copy_fields
from lore.model.running import RunningTotals


class RunningBreak(Struct, frozen=True, kw_only=True):
    """The last request that did not read all that stood before it; `says` is the leading cause in words.

    `at` is in seconds since the epoch; `dollars` is what it cost beyond reading.
    """

    code: str
    kind: CauseKind
    turn: int
    at: float | None
    lost_tokens: int
    dollars: float | None
    says: str
    fix: str


class RunningSession(CommandResult, frozen=True, kw_only=True):
    """A session up to its last request.

    Size, read and time are of its main chain, sums of all chains of its log. `expires_at` (seconds since the epoch) is
    when what stands in the cache is forgotten unless it is used before; `lifetime` (seconds) is how long it is kept,
    `billed` if a bill says so, else by a dated rule. What was paid again without a sure cause is
    `unexplained_tokens` alone.
    """

    path: str
    format: str
    session_id: str | None
    model: str | None
    turn: int
    used_at: float | None
    expires_at: float | None
    lifetime: float | None
    billed: bool
    prompt_tokens: int | None
    read_tokens: int | None
    requests: int
    breaks: int
    paid_again_tokens: int
    paid_again_dollars: float | None
    unexplained_tokens: int
    last_break: RunningBreak | None


def running_session(running: RunningTotals, path: str) -> RunningSession:
    """Return a session as JSON shows it."""
    last = running.last_break
    shown = None if last is None else copy_fields(RunningBreak, last)
    return copy_fields(RunningSession, running, path=path, session_id=running.session or None, last_break=shown)
