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
    from lore.judge.runs.reads import ReadShort


class ChainReads:
    """The chains of one recording, the latest last, and their reads."""

    def __init__(self) -> None:
        self.chains: OrderedDict[str, ReadShort] = OrderedDict()
        self.turns = self._predicted = 0
        self._most_read: dict[str | None, dict[str, int]] = {}  # by model: the two chains that read most

    def may_predict(self) -> bool:
        """Return whether one more turn may be predicted, and count it; a recording of misses costs no more."""
        if self._predicted >= PREDICTED_TURNS + self.turns // TURNS_PER_PREDICTION:
            return False
        self._predicted += 1
        return True

    def note_read(self, turn: Turn, read: int) -> None:
        """Remember the read of a turn."""
        most = self._most_read.setdefault(turn.model, {})
        if read > most.get(turn.chain, 0):
            most[turn.chain] = read
            if len(most) > 2:
                del most[min(most, key=most.__getitem__)]

    def most_read(self, turn: Turn) -> int:
        """Return the most that another chain of the turn's model read."""
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
