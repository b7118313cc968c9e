"""What is known about a turn before its bill is read: what a level model predicts from, and drops are judged by."""

from __future__ import annotations

from typing import NamedTuple

from lore.cache.growth import Growth
from lore.model.state import Change, Sign

DROP = 1_000  # tokens: a read that falls short of what stood there by more is a drop
SOON = 3.0  # seconds after an answer began within which an older entry may be served
POSITIONS = 20  # looked back from a breakpoint


class Level(NamedTuple):
    """Up to where the cache would be read, and why; `sure` is False where that is a guess. None: not known."""

    tokens: int | None
    why: str
    sure: bool = True


class Situation(NamedTuple):
    """One turn and the one before it.

    `stood` is what the turn before left (read + write); `size` its entries, `same` how many of them are
    unchanged, `grown` what came behind them; `reach` the positions between the last known position and the
    end, None where they need not be counted. `pause` in seconds, None where the clock says nothing;
    `lifetime` of what the turn before wrote. `earlier` is the position before the last one. `waiting` is the
    number of entries before text that a hook put in since the last message of the user, `put_back` the position
    that is left where it is taken out, `hooks` the names of those hooks.
    """

    stood: int | None
    size: int
    same: int
    grown: Growth
    pause: float | None
    lifetime: float | None
    changes: tuple[Change, ...]
    signs: tuple[Sign, ...]
    models: tuple[str | None, str | None]
    moved_head: bool
    reach: int
    earlier: int | None
    waiting: int | None
    put_back: int | None
    hooks: tuple[str, ...]
    level: Level

    @property
    def other_model(self) -> bool:
        """Whether another model was asked."""
        return self.models[0] != self.models[1]

    def changed(self, cause: str) -> str:
        """Return what the recording says of a change with this code; empty where there was none."""
        return next((one.detail or one.cause for one in self.changes if one.cause == cause), "")

    @property
    def foreseen(self) -> bool:
        """Whether a drop is predicted."""
        return self.stood is not None and self.level.tokens is not None and self.level.tokens < self.stood - DROP
