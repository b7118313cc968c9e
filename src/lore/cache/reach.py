"""What of an earlier turn's writes a later one can still read: how long they live, how far back they are looked up.

Rules: entries live 5 minutes or 1 hour, as billed (`write_5m`, `write_1h`); the clock starts at the previous
response's first line, with 2 % grace; where nothing says how long, nothing is said. An entry stands at each
breakpoint of the request that wrote it, and a look-up goes back from each breakpoint of the one that reads, by a
dated number of positions; blocks of thinking are no positions.

Sources: Anthropic's documentation (5 minutes by default; 20 positions, runs of calls and of results counted once);
measured over 38,782 transitions: the grace; in December 2024 only an entry exactly at a breakpoint was read; from
June 2026 each block counts, and 16 to 20 new positions were read, 21 and more were not.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import NamedTuple

from lore.cache.views import kind_of, positions
from lore.model.prompt import Prompt
from lore.model.turn import Turn

FIVE_MINUTES, ONE_HOUR, GRACE = 300.0, 3600.0, 1.02
SOON = 3.0  # seconds after an answer began within which an older entry may be served
POSITIONS = 20  # looked back from a breakpoint


class Expiry(NamedTuple):
    """A pause that was longer than what was written before it lives; both in seconds."""

    pause: float
    lifetime: float


def lifetime(turn: Turn, before: float | None) -> float | None:
    """Return how long the latest write lives after this turn; `before` is what held before it."""
    usage = turn.usage
    if usage is None:
        return before
    if usage.write_1h_tokens:
        return ONE_HOUR
    if usage.write_5m_tokens or (usage.write_tokens and _is_claudes(turn)):
        return FIVE_MINUTES
    return before


def expiry(left: Turn, right: Turn, lives: float | None, *, missed: bool = False) -> Expiry | None:
    """Tell whether what `left` wrote had expired when `right` was asked; None if not, or not known.

    `missed` says that the bill shows it was not read: then there is no grace, for what dies in it dies of age.
    """
    start = left.answered_at if left.answered_at is not None else left.at
    if start is None or right.at is None or lives is None:
        return None
    pause = right.at - start
    return Expiry(pause, lives) if pause > lives * (1.0 if missed else GRACE) else None


class Lookback(NamedTuple):
    """From `since` on: positions looked back, and whether a run of calls, or of results, counts once."""

    since: float
    positions: int
    runs: bool


LOOKBACKS = (
    Lookback(0.0, 0, runs=False),
    Lookback(datetime(2025, 1, 1, tzinfo=UTC).timestamp(), POSITIONS, runs=True),
    Lookback(datetime(2026, 6, 1, tzinfo=UTC).timestamp(), POSITIONS, runs=False),
)


def lookback(at: float | None) -> Lookback:
    """Return the rule that holds at a time; None: now."""
    return LOOKBACKS[-1] if at is None else [rule for rule in LOOKBACKS if rule.since <= max(at, 0.0)][-1]


class LookbackGap(NamedTuple):
    """Positions between the last breakpoint of a request and the breakpoint behind it, and how many are looked back.

    `new` is negative where no breakpoint stands behind it any more.
    """

    new: int
    allowed: int

    @property
    def exceeded(self) -> bool:
        """Whether the earlier entry is out of reach."""
        return not 0 <= self.new <= self.allowed


def gap(left: Prompt, right: Prompt, at: float | None) -> LookbackGap | None:
    """Measure from the left's last breakpoint to the nearest of the right; None where such are not looked up."""
    if any(prompt.fidelity == "reconstructed" or not _is_claudes(prompt) for prompt in (left, right)):
        return None
    written, breakpoints = _breakpoints(left), _breakpoints(right)
    if not written or not breakpoints:
        return None
    rule = lookback(at)
    behind = next((place for place in breakpoints if place >= written[-1]), None)
    if behind is None:
        return LookbackGap(-1, rule.positions)
    segments = [right.at(place) for place in range(written[-1] + 1, behind + 1)]
    kinds = ("envelope" if segment is None else kind_of(segment) for segment in segments)
    return LookbackGap(max(positions(kinds, runs=rule.runs), default=0), rule.positions)


def _is_claudes(request: Turn | Prompt) -> bool:
    return request.dialect == "anthropic" or "claude" in (request.model or "")


def _breakpoints(prompt: Prompt) -> tuple[int, ...]:
    return (*prompt.breakpoints, prompt.stable - 1) if prompt.auto_breakpoint and prompt.stable else prompt.breakpoints
