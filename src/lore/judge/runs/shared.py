"""What the rules over chains share in one recording."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import TYPE_CHECKING

from msgspec import Struct, field

from lore.cache.rules import DatedRules
from lore.judge.requests.lint import Linter
from lore.model.limits import PREDICTED_TURNS, TURNS_PER_PREDICTION
from lore.model.turn import Turn

if TYPE_CHECKING:
    from lore.judge.runs.reads import ShortReads


class ChainReads:
    """The chains of one recording, the latest last, and their reads."""

    def __init__(self) -> None:
        self.chains: OrderedDict[str, ShortReads] = OrderedDict()
        self.turns = self._predicted = 0  # turns that were examined; those that were predicted
        self._most_read: dict[str | None, dict[str, int]] = {}  # by model: the two chains that read most

    def count_prediction(self) -> bool:
        """Count one more predicted turn and return True; False if the recording has reached its limit."""
        if self._predicted >= PREDICTED_TURNS + self.turns // TURNS_PER_PREDICTION:
            return False
        self._predicted += 1
        return True

    def note_read(self, turn: Turn, read: int) -> None:
        """Remember the tokens that a turn read, if they are the most of its chain."""
        most = self._most_read.setdefault(turn.model, {})
        if read > most.get(turn.chain, 0):
            most[turn.chain] = read
            if len(most) > 2:
                del most[min(most, key=most.__getitem__)]

    def most_read(self, turn: Turn) -> int:
        """Return the most tokens that a turn of another chain with the same model read; 0 if none did."""
        most = self._most_read.get(turn.model, {})
        return max((read for chain, read in most.items() if chain != turn.chain), default=0)


class Shared(Struct, frozen=True):
    """The argument of each rule's constructor."""

    rules: Callable[[], DatedRules]  # returns the dated rules in force
    linter: Linter
    tolerance: float  # the share of a prompt by which a read may fall short of its prediction
    labels: tuple[str, ...] = ()  # beginnings of a program's own text, in addition to lore's list
    advised: set[tuple[object, ...]] = field(default_factory=set[tuple[object, ...]])  # lint findings reported so far
    reads: ChainReads = field(default_factory=ChainReads)
