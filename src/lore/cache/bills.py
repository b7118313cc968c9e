"""What bills say: whether one can be believed, the positions that it tells.

Rules: what is not billed is unknown; a request has at least one token; lifetimes add up to what was written.
Read + write is the position of the last breakpoint; where writes are not billed at all, everything that was sent
stands in the cache.
"""

from __future__ import annotations

from lore.model.events import Billed

MOST_TOKENS = 20_000_000  # no prompt is longer


def unbelievable(usage: Billed) -> str:
    """Say why a bill cannot be; empty where it can."""
    counts = usage.uncached_tokens, usage.read_tokens, usage.write_tokens, usage.write_5m_tokens, usage.write_1h_tokens
    known = [count for count in counts if count is not None]
    if known and not 0 <= min(known) <= max(known) <= MOST_TOKENS:
        return "a count below zero" if min(known) < 0 else f"a count over {MOST_TOKENS:,}"
    if known and not any(known):
        return "a prompt of no tokens"
    parts = (usage.write_5m_tokens or 0) + (usage.write_1h_tokens or 0)
    if usage.write_tokens is not None and parts and parts != usage.write_tokens:
        return f"{parts:,} tokens written by lifetime, {usage.write_tokens:,} in all"
    return ""


def position(usage: Billed) -> int | None:
    """Return the position of the request's last breakpoint; None where the bill does not say."""
    if usage.read_tokens is None:
        return None
    return usage.read_tokens + (usage.uncached_tokens or 0 if usage.write_tokens is None else usage.write_tokens)


def total(usage: Billed) -> int | None:
    """Return the tokens of the whole prompt; None where the bill does not say."""
    if usage.read_tokens is None or usage.uncached_tokens is None:
        return None
    return usage.read_tokens + (usage.write_tokens or 0) + usage.uncached_tokens
