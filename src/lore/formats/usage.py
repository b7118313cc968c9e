"""Usage counters of API responses, in lore's counts.

Anthropic's `input_tokens` and Bedrock's `inputTokens` leave out what was read from or written to a cache;
OpenAI's `prompt_tokens` (and what LiteLLM and others make of any provider), the Responses API's
`input_tokens` and Gemini's `promptTokenCount` include it and are split here. Missing is unknown, never 0.
Sources: the providers' API references; LiteLLM payloads of December 2024.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import msgspec

from lore.model.canonical import decode
from lore.model.events import Billed, OddBill

MOST = 2**53  # what JSON's numbers hold exactly


def billed_of(raw: bytes) -> Billed | None:
    """Read a usage object; None where there is none or it says nothing that lore knows."""
    try:
        usage = decode(raw)
    except (ValueError, RecursionError):
        return None
    return billed_from(cast("dict[str, Any]", usage)) if isinstance(usage, dict) else None


def billed_from(table: dict[str, Any]) -> Billed | None:
    """Read usage that is decoded already."""
    read = next((read for key, read in _FAMILIES.items() if key in table), _anthropic)
    found = read(table)
    if found == Billed():
        return None
    odd = _odd(table)
    return OddBill(**msgspec.structs.asdict(found), odd=odd) if odd else found


def _odd(usage: dict[str, Any]) -> str:
    """Name a counter that cannot be; empty where all can."""
    inner = [cast("dict[str, Any]", one) for one in usage.values() if isinstance(one, dict)]
    for table in (usage, *inner):
        for name, value in table.items():
            if type(value) is int and not 0 <= value <= MOST and "token" in name.lower():
                return f"{name[:60]} is {value if abs(value) <= 10 * MOST else 'beyond any count'}"
    return ""


def _anthropic(usage: dict[str, Any]) -> Billed:
    split = _table(usage, "cache_creation")
    return Billed(
        uncached_tokens=_count(usage, "input_tokens"),
        read_tokens=_count(usage, "cache_read_input_tokens"),
        write_tokens=_count(usage, "cache_creation_input_tokens"),
        output_tokens=_count(usage, "output_tokens"),
        write_5m_tokens=_count(split, "ephemeral_5m_input_tokens"),
        write_1h_tokens=_count(split, "ephemeral_1h_input_tokens"),
    )


def _responses(usage: dict[str, Any]) -> Billed:
    details = _table(usage, "input_tokens_details")
    if not details:
        return _anthropic(usage)
    read, write = _count(details, "cached_tokens"), _count(details, "cache_write_tokens")
    return _split(_count(usage, "input_tokens"), read, write, _count(usage, "output_tokens"))


def _gemini(usage: dict[str, Any]) -> Billed:
    read = _first(usage, {}, "cachedContentTokenCount", "cached_content_token_count")
    said = _first(usage, {}, "candidatesTokenCount", "candidates_token_count")
    thought = _first(usage, {}, "thoughtsTokenCount", "thoughts_token_count")
    output = None if said is None and thought is None else (said or 0) + (thought or 0)
    return _split(_first(usage, {}, "promptTokenCount", "prompt_token_count"), read, None, output)


def _bedrock(usage: dict[str, Any]) -> Billed:
    return Billed(
        uncached_tokens=_count(usage, "inputTokens"),
        read_tokens=_count(usage, "cacheReadInputTokens"),
        write_tokens=_count(usage, "cacheWriteInputTokens"),
        output_tokens=_count(usage, "outputTokens"),
        write_5m_tokens=_written(usage, "5m"),
        write_1h_tokens=_written(usage, "1h"),
    )


def _written(usage: dict[str, Any], ttl: str) -> int | None:
    """Return what Bedrock wrote for a lifetime: `cacheDetails` lists them."""
    details = usage.get("cacheDetails")
    if not isinstance(details, list):
        return None
    tables = [cast("dict[str, Any]", one) for one in cast("list[Any]", details) if isinstance(one, dict)]
    return next((_count(one, "inputTokens") for one in tables if one.get("ttl") == ttl), None)


def _openai(usage: dict[str, Any]) -> Billed:
    details = _table(usage, "prompt_tokens_details")
    read = _first(usage, details, "cached_tokens", "cache_read_input_tokens", *_READ)
    write = _first(usage, details, "cache_write_tokens", "cache_creation_input_tokens", "cache_creation_tokens")
    return _split(_count(usage, "prompt_tokens"), read, write, _count(usage, "completion_tokens"))


# DeepSeek's, OpenRouter's and vLLM's names of what was read.
_READ = ("prompt_cache_hit_tokens", "native_tokens_cached", "num_cached_tokens")
# The family whose counters a usage object holds, by a name that only it has; Anthropic's where none is there.
_FAMILIES: dict[str, Callable[[dict[str, Any]], Billed]] = {
    "prompt_tokens": _openai,
    "input_tokens_details": _responses,
    "promptTokenCount": _gemini,
    "prompt_token_count": _gemini,
    "inputTokens": _bedrock,
}


def _split(total: int | None, read: int | None, write: int | None, output: int | None) -> Billed:
    uncached = None if total is None else total - (read or 0) - (write or 0)
    if uncached is not None and uncached < 0:  # the total does not include what it should: not a sum to split
        uncached = total
    return Billed(uncached_tokens=uncached, read_tokens=read, write_tokens=write, output_tokens=output)


def _table(usage: dict[str, Any], key: str) -> dict[str, Any]:
    value = usage.get(key)
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


def _count(usage: dict[str, Any], key: str) -> int | None:
    value = usage.get(key)
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= MOST else None


def _first(usage: dict[str, Any], details: dict[str, Any], *keys: str) -> int | None:
    for key in keys:
        for table in (usage, details):
            count = _count(table, key)
            if count is not None:
                return count
    return None
