"""What bills say of a cache: what stands there, how long and how far back it is found, how much of it was not read.

Rules: what is not billed is unknown, never 0; a request has at least one token; lifetimes add up to what was written.
Read + write is the position of the last breakpoint; where writes are not billed at all, everything that was sent stands
in the cache. Entries live 5 minutes or 1 hour, as billed (`write_5m`, `write_1h`); the clock starts at the previous
response's first line, with 2 % grace; where nothing says how long, nothing is said. An entry stands at each breakpoint
of the request that wrote it, and a look-up goes back from each breakpoint of the one that reads, by a dated number of
positions; blocks of thinking are no positions. What a segment is (a call, a result, thinking, an image) its block's own
type says, else its message; only the ends of a block are looked at, where every writer puts the type. A fall within the
tolerance happens without any cause; a bill that cannot belong to its body says nothing about the cache.

Sources: Anthropic's documentation (5 minutes by default; 20 positions, runs of calls and of results counted once;
server tools write on their own); OpenAI's (the least that is cached); measured over 38,782 transitions: the grace; in
December 2024 only an entry exactly at a breakpoint was read; from June 2026 each block counts, and 16 to 20 new
positions were read, 21 and more were not; measured over billed recordings: the tolerance; a write where no breakpoint
stands; 61,838 tokens billed for 50 KB.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from typing import NamedTuple

from lore.model.deferred import pattern
from lore.model.events import Usage
from lore.model.evidence import BillUnlikeBody, LifetimeLost, Paused
from lore.model.providers import provider_of
from lore.model.turn import Prompt, Segment, Turn

FIVE_MINUTES, ONE_HOUR, GRACE = 300.0, 3600.0, 1.02
SOON = 3.0  # seconds after an answer began within which an older entry may be served
POSITIONS = 20  # looked back from a breakpoint
MOST_TOKENS = 20_000_000  # tokens of a prompt: none is longer
DROP = 1_000  # tokens: a read that falls short of what stood there by more is a drop
TOLERANCE_TOKENS, TOLERANCE_SHARE = 1024, 0.02  # reads fall short by this much without any cause
BYTES_PER_TOKEN = 4.0
SPARE_TOKENS = 2000  # what a provider adds to a prompt on its own: lists of tools, instructions for them
_RUNS = ("call", "result")
NO_POSITION = ("envelope", "thinking")  # kinds that count as no position and take no breakpoint
_ENDS = 256  # bytes looked at, at either end of a block
_BLOCKS: tuple[tuple[str, re.Pattern[bytes]], ...] = (
    ("result", pattern(rb'"type"\s*:\s*"\w{1,40}_(?:result|output)"|"(?:functionResponse|toolResult)"\s*:')),
    ("call", pattern(rb'"type"\s*:\s*"(?:\w{0,40}tool_use|\w{1,40}_call)"|"(?:functionCall|toolUse)"\s*:')),
    ("thinking", pattern(rb'"type"\s*:\s*"(?:(?:redacted_)?thinking|reasoning)"|"reasoningContent"\s*:')),
    ("image", pattern(rb'"type"\s*:\s*"(?:input_)?image(?:_url)?"|"inlineData"\s*:')),
)
_MESSAGES: tuple[tuple[str, re.Pattern[bytes]], ...] = (
    ("result", pattern(rb'"role"\s*:\s*"(?:tool|function)"|"type"\s*:\s*"\w{1,40}_output"')),
    ("call", pattern(rb'"type"\s*:\s*"\w{1,40}_call"')),
    ("thinking", pattern(rb'"type"\s*:\s*"reasoning"')),
)


def unbelievable(usage: Usage) -> str:
    """Say why a bill cannot be; empty where it can."""
    counts = usage.uncached_tokens, usage.read_tokens, usage.write_tokens, usage.write_5m_tokens, usage.write_1h_tokens
    known = list(filter(None, counts))
    if not known:
        return "" if counts.count(None) == len(counts) else "a prompt of no tokens"
    if not 0 <= min(known) <= max(known) <= MOST_TOKENS:
        return "a count below zero" if min(known) < 0 else f"a count over {MOST_TOKENS:,}"
    parts = (usage.write_5m_tokens or 0) + (usage.write_1h_tokens or 0)
    if usage.write_tokens is not None and parts and parts != usage.write_tokens:
        return f"{parts:,} tokens written by lifetime, {usage.write_tokens:,} in all"
    return ""


def self_contradiction(usage: Usage | None) -> str:
    """Say in what a bill contradicts itself; empty where it does not, and of a request that was billed nothing."""
    if usage is not None and usage.contradiction:
        return usage.contradiction
    nothing = usage is None or not any((usage.uncached_tokens, usage.read_tokens, usage.write_tokens))
    return "" if usage is None or nothing else unbelievable(usage)


def position(usage: Usage) -> int | None:
    """Return the position of the request's last breakpoint; None where the bill does not say."""
    if usage.read_tokens is None:
        return None
    return usage.read_tokens + (usage.uncached_tokens or 0 if usage.write_tokens is None else usage.write_tokens)


def total(usage: Usage) -> int | None:
    """Return the tokens of the whole prompt; None where the bill does not say."""
    if usage.read_tokens is None or usage.uncached_tokens is None:
        return None
    return usage.read_tokens + (usage.write_tokens or 0) + usage.uncached_tokens


def cached(usage: Usage | None) -> int | None:
    """Return the tokens that a request left in the cache: read and written; None where neither is billed."""
    if usage is None:
        return None
    read, write = usage.read_tokens, usage.write_tokens
    return None if read is None and write is None else (read or 0) + (write or 0)


def prompt_tokens(usage: Usage | None) -> int:
    """Return the tokens of a request that were billed at all."""
    return 0 if usage is None else (usage.uncached_tokens or 0) + (cached(usage) or 0)


def within_bill(usage: Usage | None, tokens: int) -> int:
    """Count what was paid again: a prompt that shrank was not billed for all that it lost."""
    met = None if usage is None else usage.first_pass
    if met is None or met.uncached_tokens is None:
        return tokens
    return min(tokens, max(0, prompt_tokens(met) - (met.read_tokens or 0)))


def met_read(usage: Usage | None) -> int | None:
    """Return what was read of what stood before: by the first pass that answered, whatever later ones read of it."""
    return None if usage is None else (usage.first_pass if usage.iterations else usage).read_tokens


# how long and how far back what was written is found


def lifetime(turn: Turn, before: float | None) -> float | None:
    """Return how long the latest write lives after this turn; `before` is what held before it."""
    usage = turn.usage
    if usage is None:
        return before
    if usage.write_1h_tokens:
        return ONE_HOUR
    if usage.write_5m_tokens:
        return FIVE_MINUTES
    if usage.write_tokens and _is_claudes(turn):
        return asked_lifetime(turn) or FIVE_MINUTES
    return before


_TTL = re.compile(rb'"ttl"\s*:\s*"(\d{1,6})([smh])"')
_UNIT = {b"s": 1.0, b"m": 60.0, b"h": 3600.0}


def lifetime_of(breakpoint: bytes) -> float | None:
    """Return the seconds that a breakpoint asks for; None if it leaves them to the provider."""
    match = _TTL.search(breakpoint)
    return None if match is None else int(match[1]) * _UNIT[match[2]]


def asked_lifetime(turn: Turn) -> float | None:
    """Return the seconds that a recorded request asks for at its last breakpoint; None if it asks for none.

    A usage that does not split writes by lifetime leaves the request as the only evidence.
    """
    if turn.basis is not None:
        return None
    prompt = turn.prompt
    last = prompt.params.get("cache_control", b"") if prompt.auto_breakpoint else b""
    return lifetime_of(last or b"".join(prompt.breakpoint_values[-1:]))


def expiry(left: Turn, right: Turn, lives: float | None, *, missed: bool = False) -> Paused | None:
    """Tell whether what `left` wrote had expired when `right` was asked; None if not, or not known.

    `missed` says that the bill shows it was not read: then there is no grace, for what dies in it dies of age.
    """
    start = left.answered_at if left.answered_at is not None else left.at
    if start is None or right.at is None or lives is None:
        return None
    pause = right.at - start
    return Paused(pause, lives) if pause > lives * (1.0 if missed else GRACE) else None


def kind_of(segment: Segment, envelope: bytes = b"") -> str:
    """Return "call", "result", "thinking", "image", "envelope" or "" (text); `envelope` is that of its message."""
    if segment.kind == "envelope":
        return "envelope"
    data = segment.data
    ends = data if len(data) <= 2 * _ENDS else data[:_ENDS] + b"\n" + data[-_ENDS:]
    own = next((kind for kind, signs in _BLOCKS if signs.search(ends)), "")
    return own or next((kind for kind, signs in _MESSAGES if envelope and signs.search(envelope, 0, 4096)), "")


def positions(kinds: Iterable[str], *, runs: bool) -> Iterator[int]:
    """Count the positions up to and with each piece, by its kind; envelopes and blocks of thinking are none.

    With `runs` neighbours that are all calls, or all results, are one.
    """
    counted, before = 0, ""
    for kind in kinds:
        if kind not in NO_POSITION:
            counted += not (runs and kind in _RUNS and kind == before)
            before = kind
        yield counted


class Lookback(NamedTuple):
    """From `since` on: positions looked back, and whether a run of calls, or of results, counts once."""

    since: float
    positions: int
    runs: bool


LOOKBACKS = (
    Lookback(0.0, 0, runs=False),
    Lookback(datetime(2025, 1, 1, tzinfo=UTC).timestamp(), POSITIONS, runs=True),
    Lookback(datetime(2026, 6, 1, tzinfo=UTC).timestamp(), POSITIONS, runs=False),
)


def lookback(at: float | None) -> Lookback:
    """Return the rule that holds at a time; None: now."""
    return next((rule for rule in reversed(LOOKBACKS) if at is None or rule.since <= at), LOOKBACKS[0])


class LookbackGap(NamedTuple):
    """Positions between the last breakpoint of a request and the breakpoint behind it, and how many are looked back.

    `new` is negative where no breakpoint stands behind it any more.
    """

    new: int
    allowed: int

    @property
    def exceeded(self) -> bool:
        """Whether the earlier entry is out of reach."""
        return not 0 <= self.new <= self.allowed


def gap(left: Prompt, right: Prompt, at: float | None) -> LookbackGap | None:
    """Measure from the left's last breakpoint to the nearest of the right; None where such are not looked up."""
    if any(prompt.fidelity == "reconstructed" or not _is_claudes(prompt) for prompt in (left, right)):
        return None
    written, breakpoints = (
        (*prompt.breakpoints, *([prompt.stable - 1] if prompt.auto_breakpoint and prompt.stable else ()))
        for prompt in (left, right)
    )
    if not written or not breakpoints:
        return None
    rule = lookback(at)
    behind = next((place for place in breakpoints if place >= written[-1]), None)
    if behind is None:
        return LookbackGap(-1, rule.positions)
    segments = [right.at(place) for place in range(written[-1] + 1, behind + 1)]
    kinds = ("envelope" if segment is None else kind_of(segment) for segment in segments)
    return LookbackGap(max(positions(kinds, runs=rule.runs), default=0), rule.positions)


def _is_claudes(request: Turn | Prompt) -> bool:
    return request.dialect == "anthropic" or "claude" in (request.model or "")


# how much less was read than stood there, and whether a bill fits its body


def shortfall(left: Turn, right: Turn) -> int | None:
    """Return by how many tokens the bill reads less than was left in the cache; None where not known.

    A provider that runs tools itself bills the sum of several requests: what was left there is not known then.
    """
    there, read = cached(left.usage), met_read(right.usage)
    if there is None or read is None or (left.basis is None and runs_tools(left.prompt)):
        return None
    return max(0, there - read)


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
    usage, there, read = left.usage, cached(left.usage), met_read(right.usage)
    if usage is None or there is None or not read:
        return False
    if left.basis is None and runs_tools(left.prompt):
        return False
    wanted = there if bills_writes(left) else prompt_tokens(usage)
    return wanted > 0 and read >= wanted - block_tokens(left)


def bills_writes(turn: Turn) -> bool:
    """Tell whether a bill says what was written; elsewhere all that was asked may be in the cache."""
    wrote = None if turn.usage is None else turn.usage.write_tokens
    return wrote is not None and (wrote > 0 or turn.dialect in BILLS_WRITES)


def block_tokens(left: Turn) -> int:
    """Return the tokens of one block of the turn's cache: shorter ends are not cached. 128 where not known."""
    served = provider_of(left.call.endpoint, left.prompt.model, left.dialect)
    return _BLOCK_TOKENS.get(served, 128)


# By the documentation of each provider's cache; a bill may round down by as much.
_BLOCK_TOKENS = {"deepseek": 64, "moonshot": 256, "openai": 128, "azure": 128}


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


_OWN_TOOLS = pattern(rb'"type"\s*:\s*"(?:web_search|web_fetch|code_execution|tool_search|mcp_toolset)')


def runs_tools(prompt: Prompt) -> bool:
    """Tell whether a provider may run tools itself before it answers, and bill each step."""
    if any(prompt.params.get(name, b"null") != b"null" for name in ("mcp_servers", "container")):
        return True
    return any(_OWN_TOOLS.search(segment.data[:_LOOKED_AT]) for segment in prompt.head if segment.section == "tools")


_HOUR = pattern(rb'"ttl"\s*:\s*"1h"')


def lost_lifetime(turn: Turn) -> LifetimeLost | None:
    """Return that a request asked for an hour and was billed for five minutes; None where it was not.

    What was written lies behind what was read: a breakpoint has to lie there, too.
    """
    usage = turn.usage
    if usage is None or not usage.write_5m_tokens or usage.write_1h_tokens or turn.is_rebuilt:
        return None
    if not _asks_for_hours(turn.prompt):
        return None
    read, last = usage.read_tokens or 0, _last_breakpoint(turn.prompt, usage)
    if read and last - read <= max(TOLERANCE_TOKENS, _UNSURE * last):
        return None
    return LifetimeLost(len(turn.prompt.breakpoint_values), usage.write_5m_tokens)


_UNSURE = 0.1  # of a position that is estimated from bytes
_FAR = 1 + _UNSURE


def _asks_for_hours(prompt: Prompt) -> bool:
    """Tell whether every breakpoint of a request asks for an hour, and it has some."""
    values = prompt.breakpoint_values
    return bool(values) and not prompt.auto_breakpoint and all(_HOUR.search(value) for value in values)


def _last_breakpoint(prompt: Prompt, usage: Usage) -> float:
    """Estimate the tokens up to a prompt's last breakpoint: the share of its bytes in what was billed."""
    sizes = [len(segment.data) for segment in prompt]
    return prompt_tokens(usage) * sum(sizes[: prompt.breakpoints[-1] + 1]) / max(1, sum(sizes))


def contradiction(turn: Turn, total_bytes: int) -> BillUnlikeBody | None:
    """Return in what a bill cannot belong to its recorded body; None where it can. `total_bytes` is the prompt's.

    Whether breakpoints and writes agree is asked only of what went to Anthropic itself: a gateway may set breakpoints.
    """
    usage = turn.usage
    if usage is None or turn.fidelity not in ("wire", "parsed") or turn.prompt.partial:
        return None
    prompt, found, tokens = turn.prompt, None, prompt_tokens(usage)
    if turn.dialect == "anthropic" and turn.call.endpoint and provider_of(turn.call.endpoint, None, "") == "anthropic":
        found = _unmarked(prompt, usage)
    # all breakpoints ask for an hour and were read, and more was written for five minutes behind them
    read, short = usage.read_tokens or 0, 0 if usage.write_1h_tokens else usage.write_5m_tokens or 0
    if not found and read and short and _asks_for_hours(prompt):
        found = (
            BillUnlikeBody("five-minutes-unasked", short) if _last_breakpoint(prompt, usage) <= read * _FAR else None
        )
    if found is None and tokens > total_bytes + SPARE_TOKENS:
        found = BillUnlikeBody("more-tokens-than-bytes", tokens, total_bytes)
    return None if found is None or has_unseen(prompt) else found


def _unmarked(prompt: Prompt, usage: Usage) -> BillUnlikeBody | None:
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
_UNSEEN = pattern(
    rb'"type"\s*:\s*"(?:web_search|web_fetch|code_execution|bash_|computer|text_editor|memory_|tool_search'
    rb"|file_search|image_generation|mcp|local_shell|computer_use|server_tool_use|image|input_image|image_url|document"
    rb'|input_file|file|compaction)|"(?:inlineData|inline_data|fileData|file_data)"'
)
_LOOKED_AT = 4096  # bytes at a segment's beginning, searched for what a prompt keeps apart (reminders, context)


def has_unseen(prompt: Prompt) -> bool:
    """Tell whether a provider makes tokens for a prompt that its bytes do not show: its own tools, files, pictures."""
    if any(prompt.params.get(name, b"null") != b"null" for name in _UNSEEN_PARAMS):
        return True
    return any(_UNSEEN.search(segment.data[:_LOOKED_AT]) for segment in prompt)
