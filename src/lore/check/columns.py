"""Three columns for a pair: what the bytes say, what was billed, what the provider's verdict says.

Rules: each speaks for itself; where they contradict, that is said and never smoothed over. What is normal
is no contradiction: a verdict `unavailable` is often no miss at all; a transcript lacks tools and system
prompt, so a verdict about them is the only witness. A read beyond what the bytes share was warmed by
another request, or the provider does not mind the change: which one, the recording cannot tell.

Source of what is normal: measured over billed recordings (verdicts by type; 509 of 715 sessions start warm).
"""

from __future__ import annotations

from typing import NamedTuple

from lore.check.bills import TOLERANCE_TOKENS, cached
from lore.check.expected import PairContext
from lore.prefix.causes import Cause, limit_of
from lore.prefix.divergence import place_of

# Anthropic's verdicts on a miss, and the section that each is about.
SAID = {"tools_changed": "tools", "system_changed": "system", "messages_changed": "messages"}
_CLEARLY = 1.25  # an estimate of tokens from bytes is rarely off by more


class Columns(NamedTuple):
    """What each witness says, in words. `agree` is None where bytes speak alone; `dispute` says how they contradict."""

    bytes: str
    billed: str
    verdict: str
    agree: bool | None
    dispute: str = ""


class Sizes(NamedTuple):
    """Bytes of the left, of the left up to where it wants to be cached, and of what both share."""

    left: int
    wanted: int
    shared: int
    per_token: float


def columns(facts: PairContext, why: tuple[Cause, ...], sizes: Sizes | None) -> Columns:
    """Put a pair into its three columns; `sizes` is None where its bytes were not measured."""
    told = next((cause.evidence for cause in why if cause.code == "LORE302"), "")
    said = told or _unexplained(facts, why)
    alone = facts.right.verdict is None and (facts.fell is None or not facts.billed)
    return Columns(_bytes(facts, sizes), _billed(facts), _verdict(facts), None if alone else not said, said)


def _unexplained(facts: PairContext, why: tuple[Cause, ...]) -> str:
    """Say that bytes and bill contradict where nothing that was recorded explains it."""
    if not facts.fell or not any(cause.code == "LORE301" for cause in why):
        return ""
    return f"no byte that was cached changed, yet {facts.fell:,} tokens were not read again"


def _bytes(facts: PairContext, sizes: Sizes | None) -> str:
    left, right, found = facts.left, facts.right, facts.found
    if sizes is None:
        return "the prompt goes on; nothing sent before was changed"
    if found.covered:
        return f"the prompt goes on: all {sizes.left:,} bytes of the one before stand at its beginning"
    where = place_of(left.prompt, right.prompt, found.common)
    part = f"they part at {where.path}" if where is not None else "they part"
    share = f"{sizes.shared:,} of {sizes.left:,} bytes are shared"
    if found.common >= limit_of(left.prompt):
        return f"{part}, behind the last cache breakpoint; {share}"
    return f"{part}; {share}"


def _billed(facts: PairContext) -> str:
    usage, there = facts.right.usage, cached(facts.left.usage)
    if usage is None or usage.read_tokens is None:
        return "not recorded"
    if not facts.billed or there is None or facts.fell is None:
        return f"{usage.read_tokens:,} tokens read"
    if usage.read_tokens > there:
        return f"{usage.read_tokens:,} tokens read, {usage.read_tokens - there:,} more than the request before left"
    said = f"{usage.read_tokens:,} of {there:,} cached tokens read"
    return said if not facts.fell else f"{said}: {facts.fell:,} fell"


def _verdict(facts: PairContext) -> str:
    verdict = facts.right.verdict
    if verdict is None:
        return "none recorded"
    missed = "" if verdict.missed_tokens is None else f", {verdict.missed_tokens:,} tokens missed"
    normal = "; often no miss at all" if verdict.reason == "unavailable" else ""
    return f"{verdict.reason}{missed}{normal}"


def dispute(facts: PairContext, why: tuple[Cause, ...], sizes: Sizes, *, is_break: bool) -> str:
    """Say how bytes, bill and verdict contradict one another; empty where they do not.

    `is_break` says that a cause was found, in the bytes or in the bill.
    """
    if not facts.billed or facts.right.fidelity in ("reconstructed", "rendered"):
        return ""
    if any(cause.code in _OTHER for cause in why):  # one witness speaks of another request, or of nothing
        return ""
    bytes_part = is_break and not facts.found.covered
    return (_against_bill(facts, sizes) if bytes_part else "") or _against_verdict(facts, bytes_part=bytes_part)


_OTHER = frozenset(("LORE119", "LORE128", "LORE129", "LORE131", "LORE132", "LORE154"))


def _against_bill(facts: PairContext, sizes: Sizes) -> str:
    """Compare what the bytes share with what was read, in tokens by the bill's own measure."""
    usage, there = facts.right.usage, cached(facts.left.usage)
    if facts.fell != 0 or usage is None or not usage.read_tokens or not there:
        return ""
    if facts.found.common >= limit_of(facts.left.prompt) or there < TOLERANCE_TOKENS:
        return ""
    held = sizes.shared / sizes.per_token
    if usage.read_tokens <= held * _CLEARLY + TOLERANCE_TOKENS:
        return ""
    return (
        f"the bytes share about {round(held):,} tokens, yet the bill read {usage.read_tokens:,}: the provider does "
        f"not mind this change, or another request had sent the same beginning before"
    )


def _against_verdict(facts: PairContext, *, bytes_part: bool) -> str:
    verdict, found = facts.right.verdict, facts.found
    if verdict is None:
        return ""
    missed = verdict.missed_tokens or 0
    if verdict.reason == "model_changed" and facts.left.prompt.model == facts.right.prompt.model:
        return f"the verdict says model_changed, yet both requests ask for {facts.right.prompt.model}"
    told = SAID.get(verdict.reason)
    if told is None:
        return ""
    if not bytes_part:
        return f"the verdict says {verdict.reason}, yet nothing that was to be cached changed in the bytes"
    if facts.fell == 0 and missed > TOLERANCE_TOKENS and cached(facts.left.usage):
        return f"the verdict says that {missed:,} tokens were missed, yet the bill read all that was cached"
    where = place_of(facts.left.prompt, facts.right.prompt, found.common)
    if where is not None and where.section != told and found.common < limit_of(facts.left.prompt):
        return f"the verdict says {verdict.reason}, yet the bytes part in the {where.section}, at {where.path}"
    return ""
