"""The outlook that `lore check` judges bills by: cache models and the dated rules in force.

In: which file of rules, which tolerance. Out: an `Outlook`. Rules: nothing is read before it is asked; rules are read
once a process; a prediction starts from the turns that it is given, and no bill of the turn that is predicted is seen.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import NamedTuple

from lore.cache.rules import Rules
from lore.cache.served import served
from lore.cache.settings import Simulate
from lore.judge.outlook import Foreseen, Outlook
from lore.model.turn import Turn


class Expecting(NamedTuple):
    """How an outlook is made; small enough to travel. `rules` is the path of a user's file; empty: there is none."""

    rules: str = ""
    tolerance: float = Simulate().tolerance

    def known(self) -> None:
        """Raise LoreError for a user's file that cannot be read; where there is none, nothing is read."""
        if self.rules:
            _rules(self.rules)

    def outlook(self) -> Outlook:
        """Make the outlook."""
        made = _Asked(self.rules)
        return Outlook(made.foresee, made.minimum, self.tolerance)


PACKAGED = Expecting()


@cache
def _rules(path: str) -> Rules:
    from lore.run.rules import load  # what most recordings never need is loaded when it is asked

    return load(path or None)


class _Asked:
    """Ask cache models, made anew for each question."""

    def __init__(self, path: str) -> None:
        self._path = path

    def foresee(self, turns: Sequence[Turn]) -> Foreseen:
        """Predict the last turn after the others, which are learned from; nothing where a bill is not believed."""
        from lore.cache.predictor import Predictor

        predictor = Predictor(_rules(self._path))
        predictor.begin()
        for turn in turns[:-1]:
            if predictor.turn(turn).odd:
                return Foreseen()
        predicted = predictor.turn(turns[-1])
        if predicted.odd:
            return Foreseen()
        return Foreseen(predicted.cache, predicted.prediction)

    def minimum(self, turn: Turn) -> int | None:
        """Return the fewest tokens that the turn's model caches; None where nobody knows."""
        where = served(turn.call.endpoint, turn.model, turn.dialect)
        return _rules(self._path).whole("minimum_tokens", where.provider, turn.model, where.platform, turn.at)
