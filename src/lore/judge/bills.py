"""What bills say: how much less was read than stood in the cache, whether a bill fits its body, what tokens cost.

Rules: what is not billed is unknown, never 0; a fall within the tolerance happens without any cause; a
bill that cannot belong to its body says nothing about the cache. Sums of money are in US dollars, by dated prices;
what has no price is None, never 0.

Sources: measured over billed recordings (the tolerance; a write where no breakpoint stands; 61,838 tokens billed
for 50 KB); Anthropic's documentation (server tools write on their own); OpenAI's (the least that is cached).
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from decimal import Decimal

from lore.cache.levels import DROP
from lore.cache.rules import MILLION, Price, Rules, is_transcript, served_by
from lore.model.events import Billed
from lore.model.evidence import BillUnlikeBody, LifetimeLost
from lore.model.providers import provider_of
from lore.model.turn import Prompt, Turn

TOLERANCE_TOKENS, TOLERANCE_SHARE = 1024, 0.02  # reads fall short by this much without any cause
BYTES_PER_TOKEN = 4.0
SPARE_TOKENS = 2000  # what a provider adds to a prompt on its own: lists of tools, instructions for them


def cached(usage: Billed | None) -> int | None:
    """Return the tokens that a request left in the cache: read and written; None where neither is billed."""
    if usage is None or (usage.read_tokens is None and usage.write_tokens is None):
        return None
    return (usage.read_tokens or 0) + (usage.write_tokens or 0)


def prompt_tokens(usage: Billed | None) -> int:
    """Return the tokens of a request that were billed at all."""
    return 0 if usage is None else (usage.uncached_tokens or 0) + (cached(usage) or 0)


def shortfall(left: Turn, right: Turn) -> int | None:
    """Return by how many tokens the bill reads less than was left in the cache; None where not known.

    A provider that runs tools itself bills the sum of several requests: what was left there is not known then.
    """
    there = cached(left.usage)
    if (
        there is None
        or (left.basis is None and runs_tools(left.prompt))
        or right.usage is None
        or right.usage.read_tokens is None
    ):
        return None
    return max(0, there - right.usage.read_tokens)


def testifies(left: Turn) -> bool:
    """Tell whether the next bill can show that nothing was lost: it is known what this turn left in the cache.

    Where writes are not billed, a turn that read little may have left much.
    """
    there = cached(left.usage)
    return there is not None and (there > TOLERANCE_TOKENS or left.dialect in BILLS_WRITES)


BILLS_WRITES = frozenset(("anthropic", "bedrock"))


def read_again(left: Turn, right: Turn) -> bool:
    """Tell whether the bill reads all that the left wanted cached: nothing that changed before its end was lost.

    Where writes are billed, that is what was read and written; elsewhere only what was asked is known, so all of it
    must have been read, but for the last block that is too short to be cached.
    """
    usage, there = left.usage, cached(left.usage)
    if usage is None or there is None or right.usage is None or not right.usage.read_tokens:
        return False
    if left.basis is None and runs_tools(left.prompt):
        return False
    wanted = there if bills_writes(left) else prompt_tokens(usage)
    return wanted > 0 and right.usage.read_tokens >= wanted - block_tokens(left)


def bills_writes(turn: Turn) -> bool:
    """Tell whether a bill says what was written; elsewhere all that was asked may be in the cache."""
    wrote = None if turn.usage is None else turn.usage.write_tokens
    return wrote is not None and (wrote > 0 or turn.dialect in BILLS_WRITES)


def never_cached(left: Turn) -> bool:
    """Tell whether a bill shows a prompt that is too short to be cached where nobody sets breakpoints."""
    served = provider_of(left.call.endpoint, left.prompt.model, left.dialect)
    return served in ("openai", "azure") and 0 < prompt_tokens(left.usage) < _LEAST


_LEAST = 1024  # tokens: what OpenAI caches at least


def block_tokens(left: Turn) -> int:
    """Return the tokens of one block of the turn's cache: shorter ends are not cached. 128 where not known."""
    served = provider_of(left.call.endpoint, left.prompt.model, left.dialect)
    return _BLOCKS.get(served, 128)


# By the documentation of each provider's cache; a bill may round down by as much.
_BLOCKS = {"deepseek": 64, "moonshot": 256, "openai": 128, "azure": 128}


def fall(left: Turn, short: int | None) -> int | None:
    """Return the shortfall, 0 where it is within what happens without any cause.

    Where writes are billed, reads are exact and only a small fall happens without one; elsewhere what stood in the
    cache is not known so well.
    """
    if not short or left.usage is None:
        return short
    share = 0.0 if bills_writes(left) else TOLERANCE_SHARE * (cached(left.usage) or 0)
    return short if short > max(DROP, share) else 0


def bytes_per_token(turn: Turn, total_bytes: int) -> float:
    """Return this turn's bytes per token, from its bill where that is plausible for its bytes."""
    tokens = prompt_tokens(turn.usage)
    ratio = total_bytes / tokens if tokens and total_bytes > 0 else 0.0
    return ratio if 1.0 <= ratio <= 16.0 else BYTES_PER_TOKEN


_OWN_TOOLS = re.compile(rb'"type"\s*:\s*"(?:web_search|web_fetch|code_execution|tool_search|mcp_toolset)')


def runs_tools(prompt: Prompt) -> bool:
    """Tell whether a provider may run tools itself before it answers, and bill each step."""
    if any(prompt.params.get(name, b"null") != b"null" for name in ("mcp_servers", "container")):
        return True
    return any(_OWN_TOOLS.search(segment.data[:_LOOKED_AT]) for segment in prompt.head if segment.section == "tools")


_HOUR = re.compile(rb'"ttl"\s*:\s*"1h"')


def lost_lifetime(turn: Turn) -> LifetimeLost | None:
    """Return that a request asked for an hour and was billed for five minutes; None where it was not."""
    usage = turn.usage
    if usage is None or not usage.write_5m_tokens or usage.write_1h_tokens or turn.fidelity == "reconstructed":
        return None
    values = turn.prompt.breakpoint_values
    if not values or not all(_HOUR.search(value) for value in values):
        return None
    return LifetimeLost(len(values), usage.write_5m_tokens)


def contradiction(turn: Turn, total_bytes: int) -> BillUnlikeBody | None:
    """Return in what a bill cannot belong to its recorded body; None where it can. `total_bytes` is the prompt's.

    Whether breakpoints and writes agree is asked only of what went to Anthropic itself: a gateway may set breakpoints.
    """
    usage = turn.usage
    if usage is None or turn.fidelity not in ("wire", "parsed") or turn.prompt.partial:
        return None
    found, tokens = None, prompt_tokens(usage)
    if turn.dialect == "anthropic" and turn.call.endpoint and provider_of(turn.call.endpoint, None, "") == "anthropic":
        found = _unmarked(turn.prompt, usage)
    if found is None and tokens > total_bytes + SPARE_TOKENS:
        found = BillUnlikeBody("more-tokens-than-bytes", tokens, total_bytes)
    return None if found is None or has_unseen(turn.prompt) else found


def _unmarked(prompt: Prompt, usage: Billed) -> BillUnlikeBody | None:
    if prompt.auto_breakpoint:
        return None
    if not prompt.breakpoints and usage.write_tokens:
        return BillUnlikeBody("no-breakpoint", usage.write_tokens)
    hours = sum(_HOUR.search(value) is not None for value in prompt.breakpoint_values)
    if usage.write_1h_tokens and not hours:
        return BillUnlikeBody("hour-unasked", usage.write_1h_tokens)
    if usage.write_5m_tokens and usage.write_1h_tokens and hours == len(prompt.breakpoint_values):
        return BillUnlikeBody("five-minutes-unasked", usage.write_5m_tokens)
    return None


# What a provider makes tokens of that the body does not hold: its own tools, files, pictures behind an address.
_UNSEEN_PARAMS = ("mcp_servers", "container", "previous_response_id", "conversation", "prompt", "cachedContent")
_UNSEEN = re.compile(
    rb'"type"\s*:\s*"(?:web_search|web_fetch|code_execution|bash_|computer|text_editor|memory_|tool_search'
    rb"|file_search|image_generation|mcp|local_shell|computer_use|server_tool_use|image|input_image|image_url|document"
    rb'|input_file|file|compaction)|"(?:inlineData|inline_data|fileData|file_data)"'
)
_LOOKED_AT = 4096


def has_unseen(prompt: Prompt) -> bool:
    """Tell whether a provider makes tokens for a prompt that its bytes do not show: its own tools, files, pictures."""
    if any(prompt.params.get(name, b"null") != b"null" for name in _UNSEEN_PARAMS):
        return True
    return any(_UNSEEN.search(segment.data[:_LOOKED_AT]) for segment in prompt)


# what tokens cost, and what paying some of them again cost instead of reading them

CURRENCY = "USD"


def exact(part: float | None) -> Decimal:
    """Return a sum as it is written; 0 where it is not known."""
    return Decimal(0) if part is None else Decimal(repr(part))


def summed(parts: Iterable[float | None]) -> float | None:
    """Add what is known; None where nothing is."""
    known = [exact(part) for part in parts if part is not None]
    return float(round(sum(known, start=Decimal(0)), 6)) if known else None


# What a request can ask for at another price, by parameter and value. A transcript does not hold parameters.
_EXTRAS = (
    ("speed", b'"fast"', "fast"), ("service_tier", b'"priority"', "fast"), ("service_tier", b'"fast"', "fast"),
    ("service_tier", b'"flex"', "flex"), ("inference_geo", b'"us"', "us"),
)  # fmt: skip


def price_of(rules: Rules, turn: Turn, *, model: str | None = None, size: int | None = None) -> Price | None:
    """Return the prices of a turn's tokens, those of another `model` where one is given; None where nobody knows them.

    `size` is how many tokens the prompt has where no bill says it.
    """
    where, usage = served_by(turn), turn.usage
    if usage is not None:
        size = None if usage.uncached_tokens is None else prompt_tokens(usage)
    params = None if is_transcript(turn) else turn.prompt.params
    return rules.price(
        where.provider, model or turn.model, where.platform, turn.at, prompt_tokens=size,
        extras=() if not params else tuple([extra for name, value, extra in _EXTRAS if params.get(name) == value]),
    )  # fmt: skip


def within_bill(usage: Billed | None, tokens: int) -> int:
    """Count what was paid again: a prompt that shrank was not billed for all that it lost."""
    if usage is None or usage.uncached_tokens is None:
        return tokens
    return min(tokens, max(0, prompt_tokens(usage) - (usage.read_tokens or 0)))


def paid_again(price: Price, usage: Billed | None, tokens: int | None) -> float | None:
    """Return what tokens cost beyond their price when read, in the price's currency; None where a price is not known.

    Those that were written count first (for an hour, then for five minutes), the rest as uncached.
    """
    if tokens is None or usage is None or price.uncached is None:
        return None
    if not tokens:
        return 0.0
    if price.read is None:
        return None
    hour = min(tokens, usage.write_1h_tokens or 0)
    short = min(tokens - hour, max(0, (usage.write_tokens or 0) - (usage.write_1h_tokens or 0)))
    read, parts = price.read, (
        (hour, price.write_1h), (short, price.write_5m if price.write_5m is not None else price.write),
        (tokens - hour - short, price.uncached),
    )  # fmt: skip
    paid = sum(
        (count * ((each if each is not None else price.uncached) - read) for count, each in parts), start=0 * read
    )
    return float(paid / MILLION)
