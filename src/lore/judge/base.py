"""The verdict on a turn, and the interfaces of rules that add findings.

A `TurnVerdict` is the one answer about a turn; every command, report and plugin shows views of it. A `Finding` reports
one of its causes at a `Place` (`findings`); what it cost is in `prices`.

lore's own rules are rows of `lore.judge.rules`; those about whole chains have the members of `TurnRule`. A plug-in adds
a rule about pairs: it publishes an object with the members of `Rule` under the entry-point group `lore.rules`, and adds
its codes with a page each.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Protocol

from msgspec import Struct

from lore.cache import counts
from lore.cache.counts import DROP
from lore.judge.pairs.pair import Pair, lost_tokens
from lore.model.cause import Cause, Place
from lore.model.codes import Problem
from lore.model.results import Finding
from lore.model.turn import Turn

if TYPE_CHECKING:
    from lore.cache.transcripts import Predicted


class TurnVerdict(Struct, frozen=True):
    """The verdict on one turn."""

    turn: Turn
    pair: Pair | None = None  # the comparison with an earlier turn
    compared: bool = False  # with an earlier turn; if no pair was made, it surely extends that one and read all of it
    predicted: Predicted | None = None  # the prediction that was made before the usage was read
    cached: int | None = None  # tokens that the chain's previous request left in the cache (`counts.position`)

    @property
    def causes(self) -> tuple[Cause, ...]:
        """Every cause and remark, in the order of their places."""
        return () if self.pair is None else self.pair.causes

    @property
    def leading(self) -> Cause | None:
        """The cause that the loss is counted under."""
        return None if self.pair is None else self.pair.leading

    @property
    def lost_tokens(self) -> int | None:
        """Tokens of the previous prompt that were not read; None if unknown."""
        if self.pair is None:
            return 0 if self.compared else None
        leading = self.leading
        return 0 if leading is None else lost_tokens(self.pair, leading)[0]

    @property
    def wasted_tokens(self) -> int | None:
        """The lost tokens if their cause is waste, else 0; unexplained losses are not waste."""
        leading = self.leading
        return self.lost_tokens if leading is None or leading.kind == "waste" else 0

    @property
    def unexplained_tokens(self) -> int:
        """The lost tokens if no cause explains them for sure, else 0."""
        leading = self.leading
        return (self.lost_tokens or 0) if leading is not None and leading.kind == "unattributable" else 0

    @property
    def was_foreseen(self) -> bool | None:
        """Whether a drop of over 1,000 tokens was predicted before the usage was read; None if there was no drop."""
        pair, predicted = self.pair, self.predicted
        if pair is None or not pair.fell or predicted is None:
            return None
        cached, read = counts.cached(pair.previous.usage), predicted.prediction.read
        return None if cached is None or read is None else read < cached - DROP


class Rule(Protocol):
    """What a plug-in's rule adds to the verdicts."""

    def pair(self, pair: Pair, place: Place) -> Iterable[Finding]:
        """Judge two successive turns of one chain."""
        ...

    def problems(self, problems: list[Problem], counts: dict[str, int], place: Place) -> Iterable[Finding]:
        """Judge the problems of one recording: those that were kept, and the number of each code."""
        ...


class TurnRule(Protocol):
    """A rule about the turns of one chain; one object is made for each chain."""

    def turn(self, turn: Turn, pair: Pair | None) -> None:
        """Examine the next turn and its comparison with an earlier one, at the cost of its new content."""
        ...

    def findings(self, place: Place) -> Iterable[Finding]:
        """Report findings when the chain has ended."""
        ...


RULES: dict[str, Rule] = {}  # those of plug-ins, by name: asked about every pair in addition to the verdict
