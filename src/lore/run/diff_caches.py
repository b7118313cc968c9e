"""What caches would do with the right side of a pair after the left: `caches` of `lore diff-prefix --json`.

In: turns in order, each with its bill. Out: one prediction a cache. Rules: a turn is predicted before its own bill is
looked at; without names it is the cache of who serves the turn, and nothing where nobody knows; the turns of a session
are predicted in one go, as `lore simulate` does, so that the cost stays O(what is new in each).
"""

from __future__ import annotations

from collections.abc import Sequence

from lore.cache.predictor import Predictor
from lore.cache.registry import cache_named
from lore.cache.rules import Rules
from lore.model.results import CachePrediction
from lore.model.turn import Turn
from lore.recording import plugins


class Caches:
    """Predict turns in caches of these names; raises LoreError for a name that there is not."""

    def __init__(self, rules: Rules, names: Sequence[str] = ()) -> None:
        plugins.load()
        for name in names:
            cache_named(name)
        self._predictors = [Predictor(rules, name) for name in dict.fromkeys(names)] or [Predictor(rules)]

    def turn(self, turn: Turn) -> list[CachePrediction]:
        """Predict the next turn, then take its bill."""
        found: list[CachePrediction] = []
        for predictor in self._predictors:
            cache, said, *_ = predictor.turn(turn)
            if cache and said.read is not None:
                found.append(CachePrediction(cache, said.read, said.write, said.uncached, said.confidence))
        return found
