"""The session that runs: what `lore statusline --json` answers. Unknown is None, never 0."""

from __future__ import annotations

from msgspec import Struct

from lore.model.codes import CauseKind
from lore.model.results import CommandResult
from lore.model.running import Running


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


def running_session(running: Running, path: str) -> RunningSession:
    """Return a session as JSON shows it."""
    last = running.last_break
    return RunningSession(
        path=path, format=running.format, session_id=running.session or None, model=running.model, turn=running.turn,
        used_at=running.used_at, expires_at=running.expires_at, lifetime=running.lifetime, billed=running.billed,
        prompt_tokens=running.prompt_tokens, read_tokens=running.read_tokens, requests=running.requests,
        breaks=running.breaks, paid_again_tokens=running.paid_again_tokens,
        paid_again_dollars=running.paid_again_dollars, unexplained_tokens=running.unexplained_tokens,
        last_break=None if last is None else RunningBreak(
            code=last.code, kind=last.kind, turn=last.turn, at=last.at, lost_tokens=last.lost_tokens,
            dollars=last.dollars, says=last.says, fix=last.fix,
        ),
    )  # fmt: skip
