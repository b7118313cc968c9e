"""A pair of turns as it was judged, and what each of its causes cost.

In: what was found of two successive turns. Out: the worst kind, and the tokens that a cause lost. Rules: a bill says it
before bytes do; what is only worth saying lost nothing.
"""

from __future__ import annotations

from msgspec import Struct

from lore.cache.bills import bills_writes, met_read, prompt_tokens, read_again, within_bill
from lore.cache.prices import Price
from lore.judge.witnesses import Columns
from lore.model.cause import Cause
from lore.model.codes import Code
from lore.model.turn import Turn
from lore.prefix.overlap import Overlap, PairSums

# Causes that only bills and clocks show, so that no bytes say what they cost.
BY_BILL = frozenset(
    (
        Code.LOOKBACK_EXCEEDED,
        Code.CACHE_EXPIRED,
        Code.PARALLEL_START,
        Code.ENDPOINT_CHANGED,
        Code.OLDER_ENTRY_SERVED,
        Code.BILLED_READ_FELL,
        Code.SERVER_SIDE_MISS,
        Code.REASONING_DROPPED_BY_TEMPLATE,
        *(f"LORE{n}" for n in range(157, 169)),
        Code.ROUTED_ELSEWHERE,
        Code.COLD_COMPACTION,
    )
)
# What is worth saying of a pair though nothing was lost by it.
REMARKS = frozenset(
    (
        Code.LIFETIME_LOST,
        Code.CHANGE_AFTER_LAST_BREAKPOINT,
        Code.TAIL_REPLACED,
        Code.VERDICT_DISAGREES,
        Code.BILL_CONTRADICTS_BODY,
    )
)


class Pair(Struct, frozen=True):
    """Two successive turns: what they share, why they part, what it cost.

    `lost` counts, for each cause, the bytes from where it begins to where the left wanted to be cached;
    `short` the tokens that the right's bill reads less than the left's left in the cache, `fell` the same
    but 0 within tolerance; None unknown. `bytes_per_token` is the right's, from its bill, or a default.
    `columns` holds what bytes, bill and verdict say, each for itself. `uncacheable`: one of the two is shorter than
    what its model caches, so nothing was lost.
    """

    left: Turn
    right: Turn
    overlap: Overlap
    bytes: PairSums
    left_tail_bytes: int
    causes: tuple[Cause, ...]
    lost: tuple[int, ...]
    fell: int | None
    short: int | None
    bytes_per_token: float
    columns: Columns
    price: Price | None = None
    uncacheable: bool = False

    @property
    def lost_bytes(self) -> int:
        """The bytes that all causes together cost."""
        return max(self.lost, default=0)

    @property
    def is_break(self) -> bool:
        """Whether what the left wanted cached was not reused, by bytes or by bill."""
        return any(not is_remark(cause) for cause in self.causes)

    @property
    def reuse(self) -> float | None:
        """Common bytes as a share of the left without its tail; None where that is empty."""
        stable = self.bytes.left - self.left_tail_bytes
        return None if stable <= 0 else (self.bytes.common + self.overlap.inside) / stable

    @property
    def worst(self) -> str:
        """The worst kind among the causes."""
        kinds = [cause.kind for cause in self.causes if not is_remark(cause)]
        return max(kinds, key=("expected", "unattributable", "waste").index, default="expected")


def is_remark(cause: Cause) -> bool:
    """Tell whether a cause lost nothing here: it is told, and makes no cache break."""
    if cause.code == Code.LOOKBACK_EXCEEDED:  # what no bill shows to be missed
        return cause.kind != "waste"
    return cause.harmless or cause.code in REMARKS


def lost_tokens(pair: Pair, number: int, counted: int | None = None) -> tuple[int, str]:
    """Return what a cause cost in tokens, and whether that is recorded, counted or estimated.

    A bill that reads all that was cached says that nothing was lost, whatever the bytes say. Where writes are not
    billed, what was cached is not known: bytes say it then. It is never more than what was asked and not read: what
    was taken out of a prompt is not paid for again.
    """
    if pair.uncacheable or is_remark(pair.causes[number]):
        return 0, "recorded" if pair.fell is not None else "estimated"
    tokens, source = (
        (counted, "counted") if counted is not None else (round(pair.lost[number] / pair.bytes_per_token), "estimated")
    )
    if pair.short is not None:
        unbilled = min(tokens, _unbilled(pair)) if pair.lost[number] else 0
        tokens, source = (unbilled, source) if unbilled > pair.short else (pair.short, "recorded")
    return within_bill(pair.right.usage, tokens), source


def _unbilled(pair: Pair) -> int:
    """Return how many tokens may have been lost that no bill says were cached: writes are billed by few providers."""
    left, right = pair.left, pair.right
    if bills_writes(left) or read_again(left, right) or left.chain != right.chain:
        return 0
    return prompt_tokens(left.usage) - (met_read(right.usage) or 0)
