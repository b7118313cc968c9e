"""Which earlier turn of a log's chain a turn continues, if that is not the previous one: two processes, or a rewind."""

from __future__ import annotations

from collections import deque
from typing import TypeAlias

from msgspec.structs import replace

from lore.cache import counts
from lore.model.codes import Code
from lore.model.turn import Turn

CacheKey: TypeAlias = tuple["str | None", str]  # what separates a transcript's caches: the model, and who answered
_TURNS = 64  # turns that a later one may continue past others


def cache_key(turn: Turn) -> CacheKey:
    """Return what separates a transcript's caches."""
    return turn.model, turn.call.answered_by


def without_settings(turn: Turn) -> Turn:
    """Return a turn of a branch without changes of settings and history: they may be those of the other process."""
    return replace(turn, signs=tuple([sign for sign in turn.signs if not (sign.before or sign.after)]), changes=())


class LogBranches:
    """Finds the turn that a turn continues, if two processes write the branches of one session into one log by turns.

    The links of a log alone do not show that: in 11 of 17 public sessions of Claude Code with a link past the latest
    response, the request had read what that response left.
    """

    def __init__(self) -> None:
        self._turns = deque[Turn](maxlen=_TURNS)
        self._is_proven = False  # a request read all of an earlier turn, or was too short to continue the latest one

    def add(self, turn: Turn) -> None:
        """Remember a log's turn."""
        if turn.basis is not None:
            self._turns.append(turn)

    def predict(self, turn: Turn) -> Turn | None:
        """Return the turn that a turn continues, not looking at its usage; None: the previous one, or it expired."""
        earlier = self._linked(turn) if self._is_proven else None
        return None if earlier is None or _has_expired(earlier, turn) else earlier

    def find(self, turn: Turn) -> Turn | None:
        """Return the earlier turn that a turn continues, by its usage; None if it continues the previous one."""
        earlier, read, block = self._linked(turn), counts.first_pass_read(turn.usage), counts.block_tokens(turn)
        cached = None if earlier is None else counts.cached(earlier.usage)
        if earlier is None or cached is None or read is None or read > cached + block:  # more than that turn left
            return None
        is_shorter = counts.prompt_tokens(turn.usage) < counts.prompt_tokens(self._turns[-1].usage)
        self._is_proven |= (is_shorter and _has_expired(earlier, turn)) or read >= cached - block
        return earlier if self._is_proven else None

    def before_rewind(self, turn: Turn) -> Turn | None:
        """Return the turn that a rewind returned to, if it is known what that one left in the cache; else None."""
        causes = {change.cause for change in turn.changes}
        if Code.REWIND not in causes or Code.COMPACTION in causes:
            return None
        earlier = (one for one in reversed(self._turns) if cache_key(one) == cache_key(turn) and turn.extends(one))
        return next((one for one in earlier if counts.cached(one.usage)), None)

    def _linked(self, turn: Turn) -> Turn | None:
        """Return the turn whose link the log has, if it left something in the cache of this one."""
        earlier = next((one for one in reversed(self._turns) if one.number == turn.continues), None)
        is_same = earlier is not None and cache_key(earlier) == cache_key(turn) and counts.cached(earlier.usage)
        return earlier if is_same else None


def _has_expired(earlier: Turn, turn: Turn) -> bool:
    return (counts.pause_between(earlier, turn) or 0.0) > (counts.lifetime(earlier, None) or counts.ONE_HOUR)
