"""Usage counters of API responses, in lore's counts.

Anthropic's and Bedrock's `input_tokens` leave out what was read from or written to a cache; OpenAI's
`prompt_tokens` (and what LiteLLM and others make of any provider) include it and are split here.
Missing is unknown, never 0. Sources: the providers' API references; LiteLLM payloads of December 2024.
"""

from __future__ import annotations

from typing import Any, cast

from lore.model.canonical import decode
from lore.model.events import Billed


def billed_of(raw: bytes) -> Billed | None:
    """Read a usage object; None where there is none or it says nothing that lore knows."""
    try:
        usage = decode(raw)
    except (ValueError, RecursionError):
        return None
    if not isinstance(usage, dict):
        return None
    table = cast("dict[str, Any]", usage)
    found = _openai(table) if "prompt_tokens" in table else _anthropic(table)
    return None if found == Billed() else found


def _anthropic(usage: dict[str, Any]) -> Billed:
    split = _table(usage, "cache_creation")
    details = _table(usage, "input_tokens_details")
    if details:  # OpenAI Responses: inclusive
        return _split(
            _count(usage, "input_tokens"),
            _count(details, "cached_tokens"),
            _count(details, "cache_write_tokens"),
            _count(usage, "output_tokens"),
        )
    return Billed(
        fresh_tokens=_count(usage, "input_tokens"),
        read_tokens=_count(usage, "cache_read_input_tokens"),
        write_tokens=_count(usage, "cache_creation_input_tokens"),
        output_tokens=_count(usage, "output_tokens"),
        write_5m_tokens=_count(split, "ephemeral_5m_input_tokens"),
        write_1h_tokens=_count(split, "ephemeral_1h_input_tokens"),
    )


def _openai(usage: dict[str, Any]) -> Billed:
    details = _table(usage, "prompt_tokens_details")
    read = _first(usage, details, "cached_tokens", "cache_read_input_tokens", "prompt_cache_hit_tokens")
    write = _first(usage, details, "cache_write_tokens", "cache_creation_input_tokens", "cache_creation_tokens")
    return _split(_count(usage, "prompt_tokens"), read, write, _count(usage, "completion_tokens"))


def _split(total: int | None, read: int | None, write: int | None, output: int | None) -> Billed:
    fresh = None if total is None else total - (read or 0) - (write or 0)
    if fresh is not None and fresh < 0:  # the total does not include what it should: not a sum to split
        fresh = total
    return Billed(fresh_tokens=fresh, read_tokens=read, write_tokens=write, output_tokens=output)


def _table(usage: dict[str, Any], key: str) -> dict[str, Any]:
    value = usage.get(key)
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


def _count(usage: dict[str, Any], key: str) -> int | None:
    value = usage.get(key)
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= 2**53 else None


def _first(usage: dict[str, Any], details: dict[str, Any], *keys: str) -> int | None:
    for key in keys:
        for table in (usage, details):
            count = _count(table, key)
            if count is not None:
                return count
    return None
