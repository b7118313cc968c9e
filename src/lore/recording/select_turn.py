"""Pick one turn of a recording: what `PATH`, `PATH#N` and `PATH#CHAIN:N` stand for."""

from __future__ import annotations

from typing import NamedTuple

from lore.errors import LoreError, Where
from lore.model.events import MAIN
from lore.model.state import Change
from lore.model.turn import Turn
from lore.recording.base import Recording
from lore.recording.corpus import Name


class Picked(NamedTuple):
    """A turn, or None where the recording holds none; and the changes before each turn of its chain."""

    turn: Turn | None
    changes: dict[int, tuple[Change, ...]]


def pick(recording: Recording, name: Name) -> Picked:
    """Return the turn a name stands for; without a number the last of the main chain.

    Raises LoreError where the chain or the turn does not exist. Reads the whole recording.
    """
    chosen: Turn | None = None
    first_chain: str | None = None
    highest = 0
    changes: dict[int, tuple[Change, ...]] = {}
    for turn in recording.turns():
        first_chain = first_chain or turn.chain
        wanted = name.chain or MAIN
        if name.chain is None and turn.chain != MAIN and turn.chain == first_chain:
            wanted = turn.chain if chosen is None or chosen.chain == turn.chain else MAIN
        if turn.chain != wanted:
            continue
        if turn.chain == MAIN and chosen is not None and chosen.chain != MAIN:
            chosen, highest, changes = None, 0, {}
        highest = max(highest, turn.number)
        if turn.changes:
            changes[turn.number] = turn.changes
        if name.turn is None or turn.number == name.turn:
            chosen = turn
    if chosen is None and (name.turn is not None or name.chain is not None):
        where = f" in chain {name.chain!r}" if name.chain else ""
        has = f"it has turns 1 to {highest}" if highest else "it has no turn there"
        raise LoreError(f"{recording.shown} has no turn {name.turn}{where}", hint=has, where=Where(recording.shown))
    return Picked(chosen, changes)
