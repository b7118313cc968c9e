"""How long a provider keeps what a turn wrote, and whether it was too long ago.

Rules, with their sources: entries live 5 minutes or 1 hour, as billed (`write_5m`, `write_1h`); a write
that is billed without this split on Anthropic's models had the default of 5 minutes (Anthropic's
documentation); the clock starts at the previous response's first line, with 2 % grace (measured over
38,782 transitions). Where nothing says how long, nothing is said.
"""

from __future__ import annotations

from typing import NamedTuple

from lore.model.turn import Turn

FIVE_MINUTES, ONE_HOUR, GRACE = 300.0, 3600.0, 1.02


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


def _is_claudes(turn: Turn) -> bool:
    return turn.dialect == "anthropic" or "claude" in (turn.model or "")


def expiry(left: Turn, right: Turn, lives: float | None, *, missed: bool = False) -> Expiry | None:
    """Tell whether what `left` wrote had expired when `right` was asked; None if not, or not known.

    `missed` says that the bill shows it was not read: then there is no grace, for what dies in it dies of age.
    """
    start = left.answered_at if left.answered_at is not None else left.at
    if start is None or right.at is None or lives is None:
        return None
    pause = right.at - start
    return Expiry(pause, lives) if pause > lives * (1.0 if missed else GRACE) else None
