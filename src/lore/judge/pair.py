"""A pair of turns as it was judged: what each of its causes cost, and what each witness says of it.

In: what was found of two successive turns. Out: the worst kind, the tokens that a cause lost; three columns, for
bytes, bill and verdict, and how they contradict one another. Rules: a bill says what was lost before bytes do; what is
only worth saying lost nothing; each witness speaks for itself; where they contradict, that is said and never smoothed
over. What is normal is no contradiction: a verdict `unavailable` is often no miss at all; a transcript lacks tools and
system prompt, so a verdict about them is the only witness. A read beyond what the bytes share was warmed by another
request, or the provider does not mind the change: which one, the recording cannot tell.
"""

from __future__ import annotations

from typing import NamedTuple

from msgspec import Struct

from lore.cache.counts import (
    TOLERANCE_TOKENS,
    bills_writes,
    cached,
    capped_by_usage,
    first_pass_read,
    prompt_tokens,
    read_everything,
)
from lore.cache.prices import Price
from lore.judge.witnesses import ESTIMATED, SECTIONS, PairContext
from lore.model.cause import Cause
from lore.model.codes import UNEXPLAINED, Code
from lore.model.evidence import Disputed, ProviderSaid
from lore.model.turn import Turn
from lore.prefix.overlap import Overlap, PairSums, count_cached_segments, locate_difference

# Causes that only bills and clocks show, so that no bytes say what they cost.
BY_BILL = frozenset((
    Code.LOOKBACK_EXCEEDED, Code.CACHE_EXPIRED, Code.PARALLEL_START, Code.ENDPOINT_CHANGED, Code.OLDER_ENTRY_SERVED,
    Code.BILLED_READ_FELL, Code.SERVER_SIDE_MISS, Code.REASONING_DROPPED_BY_TEMPLATE, Code.ROUTED_ELSEWHERE,
    Code.COLD_COMPACTION, *(f"LORE{n}" for n in range(157, 169)),
))  # fmt: skip
# What is worth saying of a pair though nothing was lost by it.
REMARKS = frozenset((
    Code.LIFETIME_LOST, Code.CHANGE_AFTER_LAST_BREAKPOINT, Code.TAIL_REPLACED, Code.VERDICT_DISAGREES,
    Code.BILL_CONTRADICTS_BODY,
))  # fmt: skip


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
        stable = self.bytes.previous - self.left_tail_bytes
        return None if stable <= 0 else (self.bytes.common + self.overlap.common_bytes) / stable

    @property
    def worst(self) -> str:
        """The worst kind among the causes."""
        kinds = [cause.kind for cause in self.causes if not is_remark(cause)]
        return max(kinds, key=("expected", "unattributable", "waste").index, default="expected")


def is_remark(cause: Cause) -> bool:
    """Tell whether a cause lost nothing here: it is told, and makes no cache break."""
    if cause.code == Code.LOOKBACK_EXCEEDED:  # what no bill shows to be missed
        return cause.kind != "waste"
    return cause.is_harmless or cause.code in REMARKS


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
        left, right, unbilled = pair.left, pair.right, 0
        is_lost = pair.lost[number] and left.chain == right.chain
        if is_lost and not bills_writes(left) and not read_everything(left, right):
            unbilled = min(tokens, prompt_tokens(left.usage) - (first_pass_read(right.usage) or 0))
        tokens, source = (unbilled, source) if unbilled > pair.short else (pair.short, "recorded")
    return capped_by_usage(pair.right.usage, tokens), source


# what each witness says, and how they contradict one another


class BytesColumn(NamedTuple):
    """Whether the prompt goes on, and where the two part: `behind` all breakpoints or not; None is not measured."""

    goes_on: bool
    shared: int | None = None
    total: int | None = None
    path: str = ""
    behind: bool = False


class BilledColumn(Struct, frozen=True):
    """Tokens read of those that were cached, and by how many the bill fell; None is not known."""

    read: int | None
    cached: int | None
    fell: int | None


class Columns(NamedTuple):
    """What each witness says. `agree` is None where bytes speak alone; `dispute` says how they contradict."""

    bytes: BytesColumn
    billed: BilledColumn
    verdict: ProviderSaid | None
    agree: bool | None
    dispute: Disputed | None = None


class Sizes(Struct, frozen=True):
    """Bytes of the left, of the left up to where it wants to be cached, and of what both share."""

    left: int
    wanted: int
    shared: int
    per_token: float


def columns(context: PairContext, causes: tuple[Cause, ...], sizes: Sizes | None) -> Columns:
    """Put a pair into its three columns; `sizes` is None where its bytes were not measured."""
    fell = context.fell
    disputed = next((cause.evidence for cause in causes if cause.code == Code.VERDICT_DISAGREES), None)
    if not isinstance(disputed, Disputed):  # bytes and bill contradict where nothing that was recorded explains it
        unexplained = any(cause.code in UNEXPLAINED for cause in causes)
        disputed = Disputed("unexplained", tokens=fell) if unexplained else None
    there = cached(context.left.usage)
    known = context.billed and context.read is not None and there is not None and fell is not None
    billed = BilledColumn(context.read, there if known else None, fell if known else None)
    alone = context.right.verdict is None and (fell is None or not context.billed)
    agree = None if alone else disputed is None
    return Columns(_bytes(context, sizes), billed, context.verdict, agree, disputed)


def _bytes(context: PairContext, sizes: Sizes | None) -> BytesColumn:
    left, right, found = context.left, context.right, context.found
    if sizes is None:
        return BytesColumn(goes_on=True)
    if found.is_covered:
        return BytesColumn(goes_on=True, shared=sizes.left, total=sizes.left)
    where = locate_difference(left.prompt, right.prompt, found.common)
    behind = found.common >= count_cached_segments(left.prompt)
    return BytesColumn(False, sizes.shared, sizes.left, "" if where is None else where.path, behind)  # noqa: FBT003


def dispute(context: PairContext, causes: tuple[Cause, ...], sizes: Sizes, *, broken: bool) -> Disputed | None:
    """Return how bytes, bill and verdict contradict one another; None where they do not.

    `broken` says that a cause was found, in the bytes or in the bill.
    """
    if not context.billed or context.right.is_rebuilt or context.right.fidelity == "rendered":
        return None
    if any(cause.code in _OTHER for cause in causes):  # one witness speaks of another request, or of nothing
        return None
    bytes_part = broken and not context.found.is_covered
    return (_against_bill(context, sizes) if bytes_part else None) or _against_verdict(context, bytes_part=bytes_part)


_OTHER = frozenset((
    Code.MODEL_CHANGED, Code.CACHE_EXPIRED, Code.PARALLEL_START, Code.ENDPOINT_CHANGED, Code.ROUTED_ELSEWHERE,
    Code.CONTINUATION, Code.CHAIN_RESTARTED,
))  # fmt: skip


def _against_bill(context: PairContext, sizes: Sizes) -> Disputed | None:
    """Compare what the bytes share with what was read, in tokens by the bill's own measure."""
    read, there = context.read, cached(context.left.usage)
    if context.fell != 0 or not read or not there or there < TOLERANCE_TOKENS:
        return None
    if context.found.common >= count_cached_segments(context.left.prompt):
        return None
    held = sizes.shared / sizes.per_token
    if read <= held * ESTIMATED + TOLERANCE_TOKENS:
        return None
    return Disputed("bill-reads-more", tokens=round(held), read_tokens=read)


def _against_verdict(context: PairContext, *, bytes_part: bool) -> Disputed | None:
    verdict, found = context.right.verdict, context.found
    if verdict is None:
        return None
    left, right = context.left.prompt, context.right.prompt
    missed = verdict.missed_tokens or 0
    if verdict.reason == "model_changed" and left.model == right.model:
        return Disputed("same-model", verdict.reason, model=right.model)
    section = SECTIONS.get(verdict.reason)
    if section is None:
        return None
    if not bytes_part:
        return Disputed("no-change-in-bytes", verdict.reason)
    if context.fell == 0 and missed > TOLERANCE_TOKENS and cached(context.left.usage):
        return Disputed("nothing-missed", verdict.reason, tokens=missed)
    where = locate_difference(left, right, found.common)
    if where is not None and where.section != section and found.common < count_cached_segments(left):
        return Disputed("other-section", verdict.reason, section=where.section, path=where.path)
    return None
