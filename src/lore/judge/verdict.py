"""A verdict: the one answer about a turn, which every command, report, plugin and watch shows.

In: a turn, what came of comparing it with the one before, what was foreseen. Out: a `Verdict`. Rules: nothing else
attributes anything; settings act on the findings of a verdict (`rules.findings_of`), after it is made.
"""

from __future__ import annotations

from typing import NamedTuple

from lore.cache.levels import DROP, Predicted
from lore.judge.bills import cached, within_bill
from lore.judge.pairs import Pair, is_remark, lost_tokens
from lore.model.turn import Turn
from lore.prefix.cause import Cause


class Verdict(NamedTuple):
    """What is so about a turn.

    `pair` is its comparison with the turn before, None where there is none or (`compared`) where the turn surely
    extends it and its bill read all of it. `foreseen` is the prediction that was made before the bill was read.
    """

    turn: Turn
    pair: Pair | None = None
    compared: bool = False
    foreseen: Predicted | None = None

    @property
    def causes(self) -> tuple[Cause, ...]:
        """Every cause and remark, in the order of their places."""
        return () if self.pair is None else self.pair.causes

    @property
    def leading(self) -> int | None:
        """The number of the cause that the loss is counted under: of the worst kind, the one that lost most."""
        pair = self.pair
        if pair is None:
            return None
        weighed = [
            (_WORSE.index(cause.kind), lost_tokens(pair, number)[0], -number)
            for number, cause in enumerate(pair.causes)
            if not is_remark(cause)
        ]
        return -max(weighed)[2] if weighed else None

    @property
    def lost_tokens(self) -> int | None:
        """Tokens that stood in the prompt before and were not read; 0 where all was, None where nothing is known."""
        if self.pair is None:
            return 0 if self.compared else None
        number = self.leading
        return 0 if number is None else lost_tokens(self.pair, number)[0]

    @property
    def wasted_tokens(self) -> int | None:
        """Those of the lost tokens that were paid again and are explained as waste: the unexplained is none."""
        number, lost = self.leading, self.lost_tokens
        if number is None or lost is None:
            return lost
        if self.causes[number].kind != "waste":
            return 0
        return within_bill(self.turn.usage, lost)

    @property
    def unexplained_tokens(self) -> int:
        """Those that were paid again and that nothing explains for sure."""
        number, lost = self.leading, self.lost_tokens
        if number is None or lost is None or self.causes[number].kind != "unattributable":
            return 0
        return within_bill(self.turn.usage, lost)

    @property
    def was_foreseen(self) -> bool | None:
        """Whether a drop of over 1,000 tokens was predicted before the bill was read; None where none came."""
        pair, foreseen = self.pair, self.foreseen
        if pair is None or not pair.fell or foreseen is None:
            return None
        stood, read = cached(pair.left.usage), foreseen.prediction.read
        return None if stood is None or read is None else read < stood - DROP


_WORSE = ("expected", "unattributable", "waste")
