"""Counts of Codex to bills, and to sums that can be compared.

In: usage as Codex notes it; input includes what was read and written. Out: what was billed, each token once. Rules: a
count that is not there is unknown; more cached tokens than input are an odd bill, never a negative count.

Source: `input_tokens` includes `cached_input_tokens` in 6,707 of 6,707 requests, versions 0.118 to 0.144.
"""

from __future__ import annotations

from typing import TypeAlias

from lore.formats.codex_records import Usage
from lore.model import events as e

Counts: TypeAlias = tuple[int, int, int]


def counts_of(usage: Usage) -> Counts:
    """Return what sums are compared by: input, cached input, output; 0 where it is not said."""
    return usage.input_tokens or 0, usage.cached_input_tokens or 0, usage.output_tokens or 0


def billed(usage: Usage, version: str) -> e.Billed:
    """Return the bill of a response, by a client of this version (empty: unknown)."""
    whole, read, write = usage.input_tokens, usage.cached_input_tokens, usage.cache_write_input_tokens
    cached = (read or 0) + (write or 0)
    uncached = None if whole is None else whole - cached
    client = f"codex {version}" if version else "codex"
    if uncached is not None and uncached < 0:
        odd = f"{cached} cached tokens are more than all {whole} of the input"
        return e.OddBill(None, read, write, usage.output_tokens, client=client, odd=odd)
    return e.Billed(uncached, read, write, usage.output_tokens, client=client)
