"""Three columns for a pair: what the bytes say, what was billed, what the provider's verdict says.

Rules: each speaks for itself; where they contradict, that is said and never smoothed over. What is normal
is no contradiction: a verdict `unavailable` is often no miss at all; a transcript lacks tools and system
prompt, so a verdict about them is the only witness. A read beyond what the bytes share was warmed by
another request, or the provider does not mind the change: which one, the recording cannot tell.

Source of what is normal: measured over billed recordings (verdicts by type; 509 of 715 sessions start warm).
"""

from __future__ import annotations

from typing import NamedTuple

from lore.judge.bills import TOLERANCE_TOKENS, cached
from lore.judge.expected import PairContext
from lore.model.codes import Code
from lore.model.events import Verdict
from lore.model.evidence import Disputed, ProviderSaid
from lore.prefix.cause import Cause
from lore.prefix.causes import limit_of
from lore.prefix.overlap import place_of

# Anthropic's verdicts on a miss, and the section that each is about.
SECTIONS = {"tools_changed": "tools", "system_changed": "system", "messages_changed": "messages"}
REASONS = frozenset((*SECTIONS, "model_changed", "previous_message_not_found", "unavailable"))
_CLEARLY = 1.25  # an estimate of tokens from bytes is rarely off by more


class BytesColumn(NamedTuple):
    """Whether the prompt goes on, and where the two part: `behind` all breakpoints or not; None is not measured."""

    goes_on: bool
    shared: int | None = None
    total: int | None = None
    path: str = ""
    behind: bool = False


class BilledColumn(NamedTuple):
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


class Sizes(NamedTuple):
    """Bytes of the left, of the left up to where it wants to be cached, and of what both share."""

    left: int
    wanted: int
    shared: int
    per_token: float


def columns(context: PairContext, causes: tuple[Cause, ...], sizes: Sizes | None) -> Columns:
    """Put a pair into its three columns; `sizes` is None where its bytes were not measured."""
    disagreement = next((cause.evidence for cause in causes if cause.code == Code.VERDICT_DISAGREES), None)
    dispute = disagreement if isinstance(disagreement, Disputed) else _unexplained(context, causes)
    alone = context.right.verdict is None and (context.fell is None or not context.billed)
    agree = None if alone else dispute is None
    return Columns(_bytes(context, sizes), _billed(context), said_by(context.right.verdict), agree, dispute)


def said_by(verdict: Verdict | None) -> ProviderSaid | None:
    """Return the provider's verdict as evidence; a reason that lore does not know is content."""
    if verdict is None:
        return None
    known = verdict.reason if verdict.reason in REASONS else ""
    return ProviderSaid(known, "" if known else verdict.reason, verdict.missed_tokens)


def _unexplained(context: PairContext, causes: tuple[Cause, ...]) -> Disputed | None:
    """Return that bytes and bill contradict where nothing that was recorded explains it."""
    if not any(cause.code == Code.BILLED_READ_FELL for cause in causes):
        return None
    return Disputed("unexplained", tokens=context.fell)


def _bytes(context: PairContext, sizes: Sizes | None) -> BytesColumn:
    left, right, found = context.left, context.right, context.found
    if sizes is None:
        return BytesColumn(goes_on=True)
    if found.covered:
        return BytesColumn(goes_on=True, shared=sizes.left, total=sizes.left)
    where = place_of(left.prompt, right.prompt, found.common)
    behind = found.common >= limit_of(left.prompt)
    return BytesColumn(False, sizes.shared, sizes.left, "" if where is None else where.path, behind)  # noqa: FBT003


def _billed(context: PairContext) -> BilledColumn:
    usage, there = context.right.usage, cached(context.left.usage)
    read = None if usage is None else usage.read_tokens
    if read is None or not context.billed or there is None or context.fell is None:
        return BilledColumn(read, None, None)
    return BilledColumn(read, there, context.fell)


def dispute(context: PairContext, causes: tuple[Cause, ...], sizes: Sizes, *, broken: bool) -> Disputed | None:
    """Return how bytes, bill and verdict contradict one another; None where they do not.

    `broken` says that a cause was found, in the bytes or in the bill.
    """
    if not context.billed or context.right.fidelity in ("reconstructed", "rendered"):
        return None
    if any(cause.code in _OTHER for cause in causes):  # one witness speaks of another request, or of nothing
        return None
    bytes_part = broken and not context.found.covered
    return (_against_bill(context, sizes) if bytes_part else None) or _against_verdict(context, bytes_part=bytes_part)


_OTHER = frozenset(
    (
        Code.MODEL_CHANGED,
        Code.CACHE_EXPIRED,
        Code.PARALLEL_START,
        Code.ENDPOINT_CHANGED,
        Code.CONTINUATION,
        Code.CHAIN_RESTARTED,
    )
)


def _against_bill(context: PairContext, sizes: Sizes) -> Disputed | None:
    """Compare what the bytes share with what was read, in tokens by the bill's own measure."""
    usage, there = context.right.usage, cached(context.left.usage)
    if context.fell != 0 or usage is None or not usage.read_tokens or not there:
        return None
    if context.found.common >= limit_of(context.left.prompt) or there < TOLERANCE_TOKENS:
        return None
    held = sizes.shared / sizes.per_token
    if usage.read_tokens <= held * _CLEARLY + TOLERANCE_TOKENS:
        return None
    return Disputed("bill-reads-more", tokens=round(held), read_tokens=usage.read_tokens)


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
    where = place_of(left, right, found.common)
    if where is not None and where.section != section and found.common < limit_of(left):
        return Disputed("other-section", verdict.reason, section=where.section, path=where.path)
    return None
