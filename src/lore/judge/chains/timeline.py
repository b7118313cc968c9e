"""Assign each change that a log records between turns to the turn whose prompt has it."""

from __future__ import annotations

from collections import deque

from msgspec.structs import replace

from lore.cache import counts
from lore.model.codes import Code
from lore.model.state import Change
from lore.model.turn import Turn

_LONG = 50_000  # tokens: a compaction of so long a prompt surely shortens it
_HELD = 16  # turns without usage whose changes are kept for the next one


class LoggedChanges:
    """Moves the changes of a log to the turn whose prompt has them.

    A request that was never billed left no cache, so that the next turn has its changes. A compaction belongs to the
    turn whose prompt it shortened: pi wrote one after a pause whose request still sent 372,732 tokens; a later one sent
    46,657.
    """

    def __init__(self) -> None:
        self._unanswered = deque[Turn](maxlen=_HELD)  # since the last turn with usage
        self._delayed: tuple[Change, ...] = ()  # compactions that have not shortened a prompt yet

    @property
    def is_ahead(self) -> bool:
        """Whether lore's timeline has a compaction that the prompts do not show yet."""
        return bool(self._delayed)

    @property
    def is_pending(self) -> bool:
        """Whether the next turn has more changes than the log records at it."""
        return bool(self._delayed or self._unanswered)

    def hold(self, turn: Turn) -> None:
        """Keep the changes of a turn that was never billed for the next one."""
        self._unanswered.append(turn)

    def place(self, previous: Turn | None, turn: Turn) -> Turn:
        """Return the turn with the changes that its prompt has: with held ones, which are then forgotten."""
        if self._unanswered:
            turns = [*self._unanswered, turn]
            self._unanswered.clear()
            changes = tuple([change for source in turns for change in without_model_change(source)])
            turn = replace(turn, changes=changes, signs=tuple([sign for source in turns for sign in source.signs]))
        return turn if turn.basis is None or previous is None else self._place_compaction(previous, turn)

    def _place_compaction(self, previous: Turn, turn: Turn) -> Turn:
        """Return the turn with the compaction that shortened its prompt, and hold back one that did not yet."""
        before, after = counts.prompt_tokens(previous.usage), counts.prompt_tokens(turn.usage)
        compactions = tuple([change for change in turn.changes if change.cause == Code.COMPACTION])
        if compactions and after >= before >= _LONG:
            self._delayed = compactions
            return replace(turn, changes=tuple([change for change in turn.changes if change not in compactions]))
        if self._delayed and after and (after < before - counts.DROP or compactions):
            delayed, self._delayed = self._delayed, ()
            return turn if compactions else replace(turn, changes=(*turn.changes, *delayed))
        return turn


def without_model_change(turn: Turn) -> tuple[Change, ...]:
    """Return a turn's changes except one of the model, as it is compared with another turn than the previous one."""
    return tuple([change for change in turn.changes if change.cause != Code.MODEL_CHANGED])
