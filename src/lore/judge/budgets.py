"""Budgets: limits on reuse, cache breaks and lost tokens over one run. Expected breaks never count."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct

from lore.judge.base import Place, finding
from lore.judge.pairs import Pair
from lore.model.codes import Code
from lore.model.evidence import OverBudget
from lore.model.results import Finding, Summary


class Budgets(Struct, frozen=True):
    """`min_reuse` holds for every pair (0 to 1); `max_breaks` and `max_lost_tokens` for the whole run."""

    min_reuse: float | None = None
    max_breaks: int | None = None
    max_lost_tokens: int | None = None

    def fault(self) -> str:
        """Say what is wrong with these budgets; empty where nothing is."""
        if self.min_reuse is not None and not 0 <= self.min_reuse <= 1:
            return f"min_reuse is {self.min_reuse}, and not a share from 0 to 1"
        for name in ("max_breaks", "max_lost_tokens"):
            value: int | None = getattr(self, name)
            if value is not None and value < 0:
                return f"{name} is negative"
        return ""

    def over(self, other: Budgets) -> Budgets:
        """Return these budgets, those that are not set taken from `other`."""
        return Budgets(
            other.min_reuse if self.min_reuse is None else self.min_reuse,
            other.max_breaks if self.max_breaks is None else self.max_breaks,
            other.max_lost_tokens if self.max_lost_tokens is None else self.max_lost_tokens,
        )


def below_reuse(pair: Pair, budgets: Budgets, place: Place) -> Iterable[Finding]:
    """Find a pair that reuses less than the budget."""
    limit, reuse = budgets.min_reuse, pair.reuse
    if limit is None or reuse is None or reuse >= limit or (pair.causes and pair.worst == "expected"):
        return
    yield finding(
        Code.REUSE_BELOW_BUDGET,
        place,
        OverBudget("reuse", reuse, limit),
        line=pair.right.line,
        chain=pair.right.chain,
        turn=pair.right.number,
        dialect=pair.right.prompt.dialect,
        fidelity=pair.right.prompt.fidelity,
    )


def over_budget(summary: Summary, budgets: Budgets, place: Place, of: str = "") -> Iterable[Finding]:
    """Find sums that exceed the budget; `of` says what they are the sums of, where not of the whole run."""
    breaks = summary.breaks - summary.expected
    if budgets.max_breaks is not None and breaks > budgets.max_breaks:
        yield finding(Code.BREAKS_ABOVE_BUDGET, place, OverBudget("breaks", breaks, budgets.max_breaks, of))
    if budgets.max_lost_tokens is not None and summary.lost_tokens > budgets.max_lost_tokens:
        yield finding(
            Code.LOST_TOKENS_ABOVE_BUDGET,
            place,
            OverBudget("lost-tokens", summary.lost_tokens, budgets.max_lost_tokens, of),
        )
