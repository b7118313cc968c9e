"""Turns beside what a level model predicts of them: what `lore simulate` says of transcripts.

In: the turns of one recording. Out: each with its prediction, the cause of its drop, and the row that is compared.
Rules: the prediction is made before the bill is looked at; a copy of a turn (a fork repeats its responses) is
compared once among all recordings that share `known`; a bill that cannot be is said, compared and learned from not.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from lore.cache.base import Prediction
from lore.cache.drops import Drop, drop
from lore.cache.levels import Levels
from lore.cache.situation import Situation
from lore.check.agreement import Row
from lore.model.turn import Turn


class Simulated(NamedTuple):
    """A turn and what was predicted; `odd` says why its bill is not believed, `copied` that it was seen before."""

    turn: Turn
    prediction: Prediction
    situation: Situation
    drop: Drop | None = None
    odd: str = ""
    copied: bool = False

    @property
    def row(self) -> Row | None:
        """What is compared; None for the first turn of a chain, a copy, and where either bill says nothing."""
        usage, stood = self.turn.usage, self.situation.stood
        if self.copied or self.odd or stood is None or usage is None or usage.read_tokens is None:
            return None
        return Row(usage.read_tokens, self.prediction.read, stood)


def simulated(turns: Iterable[Turn], known: set[str] | None = None) -> Iterator[Simulated]:
    """Predict every turn; `known` are ids of responses that were seen, and grows. Costs O(what is new in each)."""
    levels, known = Levels(), set[str]() if known is None else known
    for turn in turns:
        prediction, situation = levels.predict(turn), levels.situation
        odd = levels.learn(turn)
        copied = turn.response_id is not None and turn.response_id in known
        if turn.response_id is not None:
            known.add(turn.response_id)
        why = None if odd else drop(situation, turn.usage, turn.verdict, turn.at)
        yield Simulated(turn, prediction, situation, why, odd, copied)
