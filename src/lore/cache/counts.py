"""What token counts say about a cache: how much is cached, for how long, and how much of it was not read.

Counts that are missing are unknown, never 0. Four sums of a usage differ in what they add to the tokens read:
- `cached`: writes. That much the cache holds for the next request.
- `position`: writes, or the uncached tokens if writes are not reported, as then everything sent may be cached.
- `total`: writes and uncached tokens, None if these or the read are unknown. `prompt_tokens`: the same with 0 instead.

Sources: Anthropic's documentation (entries live five minutes, or an hour if asked; server tools write entries of their
own); OpenAI's (the smallest block that is cached). Measured over 38,782 transitions: lifetimes count from request to
request, with 2 % grace; reads fall short by the tolerance without any cause. Measured in captures: a
write although the body has no breakpoint; 61,838 tokens billed for 50 KB.
"""

from __future__ import annotations

from lore.cache.lookback import is_claude
from lore.model.deferred import pattern
from lore.model.events import Usage
from lore.model.evidence import BillUnlikeBody, LifetimeLost, Paused
from lore.model.media import MEDIA_FORM
from lore.model.providers import provider_of
from lore.model.turn import Prompt, Turn

FIVE_MINUTES, ONE_HOUR, GRACE = 300.0, 3600.0, 1.02
SOON = 3.0  # seconds after an answer began within which an older entry may be served
DROP = 1_000  # tokens: a read that is smaller by more than that is a drop
TOLERANCE_TOKENS, TOLERANCE_SHARE = 1024, 0.02  # reads fall short by that much without any cause
BYTES_PER_TOKEN = 4.0
SUGGESTED_WINDOW = 200_000  # tokens: the window that all advice on compacting names
LONG_PROMPT = SUGGESTED_WINDOW * 70 // 100  # tokens, above which a trial compacts in that window
BILLS_WRITES = frozenset(("anthropic", "bedrock"))  # dialects whose usage reports writes
_MOST_TOKENS = 20_000_000  # no prompt is longer
_SPARE_TOKENS = 2000  # a provider adds lists of tools and instructions for them
_SEARCHED = 4096  # bytes at the beginning of a segment


def reason_to_doubt(usage: Usage) -> str:
    """Return why prompt counts are impossible (below 0, all 0, too many, lifetimes unequal to writes); else empty."""
    counts = usage.uncached_tokens, usage.read_tokens, usage.write_tokens, usage.write_5m_tokens, usage.write_1h_tokens
    known_counts = list(filter(None, counts))
    if not known_counts:
        return "" if counts.count(None) == len(counts) else "a prompt of no tokens"
    if not 0 <= min(known_counts) <= max(known_counts) <= _MOST_TOKENS:
        return "a count below zero" if min(known_counts) < 0 else f"a count over {_MOST_TOKENS:,}"
    parts = (usage.write_5m_tokens or 0) + (usage.write_1h_tokens or 0)
    # of a response in which a server tool ran (web search), lifetimes are those of its last pass
    in_last_pass = bool(usage.server_tools) and parts < (usage.write_tokens or 0)
    if usage.write_tokens is not None and parts and parts != usage.write_tokens and not in_last_pass:
        return f"{parts:,} tokens written by lifetime, {usage.write_tokens:,} in all"
    return ""


def self_contradiction(usage: Usage | None) -> str:
    """Return why counts contradict one another, as the format noted, else `reason_to_doubt`; counts of 0 never do."""
    if usage is None:
        return ""
    has_tokens = any((usage.uncached_tokens, usage.read_tokens, usage.write_tokens))
    return usage.contradiction or (reason_to_doubt(usage) if has_tokens else "")


def position(usage: Usage) -> int | None:
    """Return the tokens to the last breakpoint: read + write (uncached if writes are unknown); None: read unknown."""
    if usage.read_tokens is None:
        return None
    return usage.read_tokens + (usage.uncached_tokens or 0 if usage.write_tokens is None else usage.write_tokens)


def total(usage: Usage) -> int | None:
    """Return the tokens of the whole prompt, unknown writes as 0; None if read or uncached tokens are unknown."""
    if usage.read_tokens is None or usage.uncached_tokens is None:
        return None
    return usage.read_tokens + (usage.write_tokens or 0) + usage.uncached_tokens


def cached(usage: Usage | None) -> int | None:
    """Return the prompt tokens that are in the cache after a request: read + write; None if neither is reported."""
    if usage is None:
        return None
    read, write = usage.read_tokens, usage.write_tokens
    return None if read is None and write is None else (read or 0) + (write or 0)


def prompt_tokens(usage: Usage | None) -> int:
    """Return the reported prompt tokens (uncached, read and written), unknown counts as 0; output is not counted."""
    return 0 if usage is None else (usage.uncached_tokens or 0) + (cached(usage) or 0)


def sent_tokens(usage: Usage | None) -> int:
    """Return the `prompt_tokens` of the largest pass, those sent: the provider may compact the prompt of later ones."""
    return 0 if usage is None else max(map(prompt_tokens, usage.passes))


def first_pass_read(usage: Usage | None) -> int | None:
    """Return the tokens that the first pass which answered read, or a usage without passes; None: unknown."""
    return None if usage is None else (usage.first_pass if usage.iterations else usage).read_tokens


def capped_by_usage(usage: Usage | None, tokens: int, *, own_breakpoints: bool = True) -> int:
    """Return lost `tokens`, at most those that the first pass did not read; all if that is unknown.

    If it wrote any, only those count: uncached tokens follow its last breakpoint. They count, too, without
    `own_breakpoints`: when that breakpoint is misplaced.
    """
    first = None if usage is None else usage.first_pass
    if own_breakpoints and first is not None and first.write_tokens:
        return min(tokens, first.write_tokens)
    if first is None or first.uncached_tokens is None:
        return tokens
    return min(tokens, max(0, prompt_tokens(first) - (first.read_tokens or 0)))


def bytes_per_token(turn: Turn, total_bytes: int) -> float:
    """Return `total_bytes` over the turn's prompt tokens; 4.0 if that is unknown or not from 1 to 16."""
    tokens = prompt_tokens(turn.usage)
    ratio = total_bytes / tokens if tokens and total_bytes > 0 else 0.0
    return ratio if 1.0 <= ratio <= 16.0 else BYTES_PER_TOKEN


_TTL = pattern(rb'"ttl"\s*:\s*"(\d{1,6})([smh])"')
_UNIT = {b"s": 1.0, b"m": 60.0, b"h": 3600.0}


def lifetime_of(breakpoint: bytes) -> float | None:
    """Return the seconds that a breakpoint's JSON names (`"ttl":"1h"`); None if it leaves them to the provider."""
    match = _TTL.search(breakpoint)
    return None if match is None else int(match[1]) * _UNIT[match[2]]


def asked_lifetime(turn: Turn) -> float | None:
    """Return the seconds that the last breakpoint of a recorded request names; None if it names none."""
    if turn.basis is not None:
        return None
    prompt = turn.prompt
    last = prompt.params.get("cache_control", b"") if prompt.auto_breakpoint else b""
    return lifetime_of(last or b"".join(prompt.breakpoint_values[-1:]))


def lifetime(turn: Turn, previous: float | None) -> float | None:
    """Return the seconds that a turn's writes live: the longest in its usage, else what a request to Claude asks for.

    That is 300 if its last breakpoint names none. Without writes or evidence the result is `previous`, that of the
    previous turn. A recorded request whose usage does not report writes, as a router's, wrote at its breakpoints.
    """
    usage = turn.usage
    if usage is None:
        return previous
    if usage.write_1h_tokens or usage.write_5m_tokens:
        return ONE_HOUR if usage.write_1h_tokens else FIVE_MINUTES
    wrote = usage.write_tokens
    if wrote is None and turn.basis is None:
        wrote = len(turn.prompt.breakpoints) + turn.prompt.auto_breakpoint
    if wrote and is_claude(turn):
        return asked_lifetime(turn) or FIVE_MINUTES
    return previous


def pause_between(previous: Turn, current: Turn) -> float | None:
    """Return the seconds from one request (if an API error followed it: its answer) to the next; None if unknown."""
    is_repeated = any(sign.name == "api-error" for sign in previous.signs)
    start = previous.answered_at if is_repeated or previous.at is None else previous.at
    return None if start is None or current.at is None else current.at - start


def expiry(previous: Turn, current: Turn, seconds: float | None, *, missed: bool = False) -> Paused | None:
    """Return the pause between two requests if it is longer than the entries of the previous one live; else None.

    `seconds` is their lifetime; with an unknown one, or an unknown pause, None. 2 % grace is allowed. If usage shows
    that they were `missed`, a pause of exactly their lifetime is enough.
    """
    pause = pause_between(previous, current)
    if pause is None or seconds is None:
        return None
    return Paused(pause, seconds) if (pause >= seconds if missed else pause > seconds * GRACE) else None


def hour_end(usage: Usage | None, before: int | None, lived: float | None = None) -> int | None:
    """Return the tokens after which entries of five minutes follow those of an hour; None: all live equally long.

    `before` is the result for the previous request, whose entries live `lived` seconds.
    """
    if usage is None:
        return before
    read = usage.read_tokens or 0
    if usage.write_1h_tokens:
        return read + usage.write_1h_tokens if usage.write_5m_tokens else None
    if before is None:
        return read if usage.write_5m_tokens and lived == ONE_HOUR else None
    return min(before, read)


# reads that fall short


def shortfall(previous: Turn, current: Turn) -> int | None:
    """Return how many tokens that the previous turn left in the cache the current one did not read, at least 0.

    None if unknown, also if the previous request lets the provider run tools: its usage may sum several. Without
    reported writes no more than all of a log's prompt that shrank could be read.
    """
    available, usage, read = cached(previous.usage), current.usage, first_pass_read(current.usage)
    if available is None or read is None or (previous.basis is None and runs_tools(previous)):
        return None
    if current.basis is not None and usage is not None and not bills_writes(previous):
        available = min(available, prompt_tokens(usage.first_pass) or available)
    return max(0, available - read)


def significant_fall(previous: Turn, short: int | None) -> int | None:
    """Return `short` (None: None) if over 1,000 tokens and, without reported writes, over 2 % of those left; else 0."""
    if not short or previous.usage is None:
        return short
    share = 0.0 if bills_writes(previous) else TOLERANCE_SHARE * (cached(previous.usage) or 0)
    return short if short > max(DROP, share) else 0


def can_show_losses(previous: Turn) -> bool:
    """Return whether over 1,024 tokens are known to be cached (any number in dialects that report writes)."""
    available = cached(previous.usage)
    return available is not None and (available > TOLERANCE_TOKENS or previous.dialect in BILLS_WRITES)


def read_everything(previous: Turn, current: Turn) -> bool:
    """Return whether the current turn read what the previous one wanted cached, or at most one block less.

    That is the previous turn's sum of reads and writes if writes are reported, otherwise its whole prompt.
    """
    usage, available, read = previous.usage, cached(previous.usage), first_pass_read(current.usage)
    if usage is None or available is None or not read or (previous.basis is None and runs_tools(previous)):
        return False
    cacheable = available if bills_writes(previous) else prompt_tokens(usage)
    return cacheable > 0 and read >= cacheable - block_tokens(previous)


def bills_writes(turn: Turn) -> bool:
    """Return whether a turn's usage reports writes; a count of 0 does only in Anthropic's and Bedrock's dialects."""
    wrote = None if turn.usage is None else turn.usage.write_tokens
    return wrote is not None and (wrote > 0 or turn.dialect in BILLS_WRITES)


# By the documentation of each cache; usage may round down by as much. Logs of Codex and pi:
# with GPT-5.5 4,956 of 4,956 reads, with GPT-5.6 (which reads to any breakpoint that a request sets) 1,813 of 1,813.
_BLOCK_TOKENS = {"deepseek": 64, "moonshot": 256}


def block_tokens(turn: Turn) -> int:
    """Return the tokens of a block of the cache of a turn's provider, 128 if unlisted; a part block is not cached."""
    name, model = provider_of(turn.call.endpoint, turn.model, turn.dialect), turn.model or ""
    if turn.basis is not None and "gpt-5.6" in model:
        return 1024
    return 512 if "gpt-5.5" in model else _BLOCK_TOKENS.get(name, 128)


_OWN_TOOLS = pattern(rb'"type"\s*:\s*"(?:web_search|web_fetch|code_execution|tool_search|mcp_toolset)')
_OWN_CALL = pattern(rb'"type"\s*:\s*"(?:server_tool_use|mcp_tool_use|mcp_call|web_search_call|code_interpreter_call)')


def runs_tools(turn: Turn) -> bool:
    """Return whether the provider may have run tools itself, whose steps the turn's usage then sums.

    It has not if the usage lists the steps, or if the recorded response has no call of such a tool.
    """
    prompt, usage = turn.prompt, turn.usage
    is_allowed = any(prompt.params.get(name, b"null") != b"null" for name in ("mcp_servers", "container")) or any(
        _OWN_TOOLS.search(segment.data[:_SEARCHED]) for segment in prompt.head if segment.section == "tools"
    )
    if not is_allowed or (usage is not None and usage.iterations):
        return False
    answer = () if turn.generated is None else turn.generated()
    return not answer or any(_OWN_CALL.search(segment.data[:_SEARCHED]) for segment in answer)


# usage against the recorded body


_HOUR = pattern(rb'"ttl"\s*:\s*"1h"')
_POSITION_ERROR = 0.1  # the share by which a position that is estimated from bytes may be wrong


def lost_lifetime(turn: Turn) -> LifetimeLost | None:
    """Return evidence that all breakpoints asked for an hour, and the last was written for five minutes; else None."""
    usage = turn.usage
    if usage is None or not usage.write_5m_tokens or usage.write_1h_tokens or turn.is_rebuilt:
        return None
    if not _asks_only_for_hours(turn.prompt):
        return None
    read, last = usage.read_tokens or 0, _last_breakpoint(turn.prompt, usage)
    if read and last - read <= max(TOLERANCE_TOKENS, _POSITION_ERROR * last):
        return None
    return LifetimeLost(len(turn.prompt.breakpoint_values), usage.write_5m_tokens)


def _asks_only_for_hours(prompt: Prompt) -> bool:
    values = prompt.breakpoint_values
    return bool(values) and not prompt.auto_breakpoint and all(_HOUR.search(value) for value in values)


def _last_breakpoint(prompt: Prompt, usage: Usage) -> float:
    """Estimate the tokens up to the last breakpoint from its share of the prompt's bytes."""
    sizes = [len(segment.data) for segment in prompt]
    return prompt_tokens(usage) * sum(sizes[: prompt.breakpoints[-1] + 1]) / max(1, sum(sizes))


def contradiction(turn: Turn, total_bytes: int) -> BillUnlikeBody | None:
    """Return why a usage cannot belong to the recorded body of `total_bytes`; None if it can.

    At other hosts than Anthropic breakpoints are compared only with five-minute writes: gateways add their own.
    """
    usage, prompt = turn.usage, turn.prompt
    if usage is None or turn.fidelity not in ("wire", "parsed") or prompt.partial:
        return None
    reason, tokens, read, hour = None, prompt_tokens(usage), usage.read_tokens or 0, usage.write_1h_tokens or 0
    short = usage.write_5m_tokens or 0
    host = turn.call.endpoint and turn.dialect == "anthropic" and provider_of(turn.call.endpoint, None, "")
    if host == "anthropic" and not prompt.auto_breakpoint:
        if not prompt.breakpoints and usage.write_tokens:
            reason = BillUnlikeBody("no-breakpoint", usage.write_tokens)
        elif hour and not any(map(_HOUR.search, prompt.breakpoint_values)):
            reason = BillUnlikeBody("hour-unasked", hour)
        elif hour and short and _asks_only_for_hours(prompt):
            reason = BillUnlikeBody("five-minutes-unasked", short)
    # every breakpoint asks for an hour and was read, and more was written for five minutes after them
    if reason is None and read and short and not hour and _asks_only_for_hours(prompt):
        in_reach = _last_breakpoint(prompt, usage) <= read * (1 + _POSITION_ERROR)
        reason = BillUnlikeBody("five-minutes-unasked", short) if in_reach else None
    if reason is None and tokens > total_bytes + _SPARE_TOKENS:
        reason = BillUnlikeBody("more-tokens-than-bytes", tokens, total_bytes)
    return None if reason is None or has_unseen(prompt) else reason


# A provider makes tokens of these that the body does not hold: its own tools, files, pictures at an address.
_UNSEEN_PARAMS = ("mcp_servers", "container", "previous_response_id", "conversation", "prompt", "cachedContent")
_UNSEEN_TOOLS = (
    rb'"type"\s*:\s*"(?:web_search|web_fetch|code_execution|bash_|computer|text_editor|memory_|tool_search'
    rb"|file_search|code_interpreter|image_generation|mcp|local_shell"
)
_UNSEEN_IN_TOOL = pattern(_UNSEEN_TOOLS + rb")")  # its schema may have a field of any name, such as `document`
_UNSEEN = pattern(_UNSEEN_TOOLS + rb"|server_tool_use|compaction)|" + MEDIA_FORM)


def has_unseen(prompt: Prompt, searched: int | None = _SEARCHED) -> bool:
    """Return whether a provider adds tokens of files or tools that bytes (`searched` of each segment) do not show."""
    has_param = any(prompt.params.get(name, b"null") != b"null" for name in _UNSEEN_PARAMS)
    return has_param or any(
        (_UNSEEN_IN_TOOL if segment.section == "tools" else _UNSEEN).search(segment.data[:searched])
        for segment in prompt
    )


_MOST_BYTES = 16  # bytes per token: no more than 9.8 in 97 captured requests without pictures and files
_FEWEST_COUNTED = 128  # tokens: a prompt that could be so short is cached nowhere
_MOST_COUNTED = 16_384  # tokens: a mock answers with a small count, so prompts that were billed more are not measured
# Reasoning of earlier answers: a provider, or the template of the model (Qwen3: 121 tokens for 2,292 bytes, 1,700 in
# `reasoning_content`; DeepSeek R1: 33 for 3,328, all of an answer up to `</think>`), may remove it, and not bill it.
_UNBILLED = pattern(
    rb'"type"\s*:\s*"(?:thinking|redacted_thinking|reasoning)"|hought_?[sS]ignature"|"encrypted_content"'
    rb'|"(?:reasoning(?:_content|_details)?|thinking)"\s*:\s*["\[]|(?:<|\\u003[cC])\\?/think'
)


def too_few_tokens(turn: Turn) -> str:
    """Return how usage counts far fewer tokens than the body without reasoning has (a mock's usage); else empty."""
    usage = turn.usage
    if turn.basis is not None or usage is None or usage.uncached_tokens is None or turn.failed:
        return ""
    tokens, prompt = sent_tokens(usage), turn.prompt
    may_be_cut = prompt.partial or "context_management" in prompt.params or "truncation" in prompt.params
    if tokens >= _MOST_COUNTED or turn.fidelity not in ("wire", "parsed") or may_be_cut:
        return ""
    size = sum([len(segment.data) for segment in prompt if not _UNBILLED.search(segment.data)])
    if size <= max(tokens, _FEWEST_COUNTED) * _MOST_BYTES or has_unseen(prompt, searched=None):
        return ""
    return f"{tokens:,} tokens for a prompt of {size:,} bytes"
