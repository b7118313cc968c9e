"""How much a break cost at most: bytes of the previous prompt, and tokens that can have been billed again.

Usage shows by how much a read fell; what was new in the prompt, or taken out of it, was never in the cache and is no
loss. The limits here subtract such tokens from the loss of a cause.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from msgspec.structs import replace

from lore.cache import counts
from lore.cache.rules import DatedRules, minimum_tokens
from lore.cache.transcript_history import IMAGE_TOKENS, TokenRate
from lore.judge.pairs.finders import placed_signal
from lore.judge.pairs.pair import Pair, PairFacts, is_remark
from lore.judge.requests.request_laws import needs_breakpoints
from lore.model.cause import Cause
from lore.model.codes import Code
from lore.model.items import CompactDivider, is_absent, is_blank
from lore.model.turn import Segment
from lore.prefix.overlap import ChainSums, PairSums, byte_size, list_new_segments, split_fresh_segments


def judge_unmeasured(facts: PairFacts, causes: tuple[Cause, ...]) -> Pair:
    """Return the verdict on two turns by these causes and usage alone: no prompt is built, and its bytes are 0."""
    return Pair(facts.previous, facts.current, facts.overlap, PairSums(0, 0, 0), 0, causes, facts.fell, facts.short,
                counts.BYTES_PER_TOKEN, counts.cached(facts.previous.usage), limit_rebilled(facts, causes))  # fmt: skip


# Causes that remove content from the prompt: only content that remains and is not new is re-billed. For other causes
# usage shows whether the prompt of a log shrank.
_REMOVING = frozenset((
    Code.TOOL_RESULT_REWRITTEN, Code.IMAGE_CHANGED, Code.REASONING_DROPPED_BY_TEMPLATE, Code.RESUME_RERENDERED,
    Code.REWIND, Code.COMPACTION, Code.CHAIN_RESTARTED,
))  # fmt: skip
_REWRITING = (Code.COMPACTION, Code.REWIND, Code.CHAIN_RESTARTED)
_ENDS = 512  # bytes at the beginning of a block that name its type
# Causes that the prompt does not show: content that another cause makes unreadable is not counted with them.
_NOT_BY_PROMPT = frozenset((Code.CACHE_EXPIRED, Code.BILLED_READ_FELL, Code.SERVER_SIDE_MISS))


def limit_rebilled(
    facts: PairFacts, causes: tuple[Cause, ...], sums: PairSums | None = None, ratio: float = counts.BYTES_PER_TOKEN
) -> int | None:
    """Return the most tokens of the current prompt that the previous request sent, too, and that were not read.

    None if nothing limits them. Removed content is not billed again, and new content never was before. `ratio` is of
    bytes per token; `sums` is missing if no bytes were measured.
    """
    codes = {cause.code for cause in causes if not is_remark(cause)}
    if not codes.isdisjoint((Code.CACHE_EXPIRED, Code.BREAKPOINTS_MISSING)):
        codes.update(other.code for cause in causes for other in cause.also if other.code in _REWRITING)
    previous, current, usage, read = facts.previous, facts.current, facts.current.usage, facts.read
    reasoning, state = placed_signal(facts, "reasoning"), facts.state
    is_limit = state is not None and state.implicit  # with breakpoints 63 of 73 such prompts read over 85 %
    readable = (reasoning.read_if_moved or 0) if is_limit and reasoning is not None else 0
    if readable > (read or 0) and codes & _NOT_BY_PROMPT:
        return readable - (read or 0)  # what follows it could not be read anyway
    most = counts.prompt_tokens(None if usage is None else usage.first_pass)
    is_same = current.is_rebuilt and previous.model == current.model  # each model counts tokens in its own way
    has_shrunk = is_same and 0 < most < counts.sent_tokens(previous.usage)
    if not has_shrunk and (codes.isdisjoint(_REMOVING) if current.is_rebuilt else not codes):
        return None
    unread = None if usage is None or read is None else counts.capped_by_usage(usage, most)
    if unread is not None and state is not None and state.implicit and state.level.why == "shrunk":
        unread -= max(0, (state.level.tokens or 0) - (read or 0))  # another machine lacked what precedes the change
    is_rewritten = not codes.isdisjoint(_REWRITING)
    if state is not None and state.unchanged == state.entries and current.is_rebuilt and not is_rewritten:
        grown, output = state.grown, state.output
        if is_limit and grown.has_thinking and Code.REASONING_DROPPED_BY_TEMPLATE in codes:  # also of the last answer
            grown = replace(grown, answer_bytes=grown.answer_bytes - grown.thinking_bytes)
            output = min(output or most, round(grown.answer_bytes / counts.BYTES_PER_TOKEN))
        return None if unread is None else max(0, unread - TokenRate().tokens(grown, output))
    if sums is None:
        return None
    # the usage of a log includes unrecorded tools
    per_token = counts.BYTES_PER_TOKEN if current.is_rebuilt else ratio
    if is_rewritten:
        return _limit_rewritten(facts, unread, per_token)
    if facts.overlap.is_covered or Code.COLD_COMPACTION in codes:
        return None
    added = list_new_segments(previous.prompt, current.prompt, facts.overlap)
    if sums.previous - sums.current + sum(map(byte_size, added)) < counts.block_tokens(previous) * ratio:
        return None  # nothing was removed
    new = _estimate_tokens(added, per_token)
    return max(0, round((sums.current - sums.common) / per_token - new if unread is None else unread - new))


def _limit_rewritten(facts: PairFacts, unread: int | None, per_token: float) -> int:
    """Return the most tokens that were billed again after a compaction or rewind; `unread` were not read.

    If the log lacks the summary, as Codex's does, no more is billed again than the first request of the chain sent, and
    what is left of the later content.
    """
    previous, current, first, read = facts.previous, facts.current, facts.first, facts.read
    fresh, same = split_fresh_segments(previous.prompt, current.prompt, facts.overlap.common)
    if unread is None or (read and counts.bills_writes(previous)):
        return round(_estimate_tokens(same, per_token))  # that includes all of tools and system prompt that both share
    most = unread - _estimate_tokens(fresh, per_token)
    items = [entry.item for entry in (() if current.basis is None else current.basis.entries)]
    summaries = [item.summary for item in items if isinstance(item, CompactDivider)]
    lacks_summary = any(is_absent(summary) or is_blank(summary) for summary in summaries)
    if lacks_summary and first is not None and first.model == current.model:
        new = {segment.data for segment in fresh}
        later = [part for part in split_fresh_segments(first.prompt, current.prompt, 0)[0] if part.data not in new]
        most = min(most, counts.prompt_tokens(first.usage) + _estimate_tokens(later, per_token) - (read or 0))
    return max(0, round(most))


def _estimate_tokens(segments: Sequence[Segment], per_token: float) -> float:
    """Estimate the tokens of segments from their bytes, at most 1,500 for an image, whose bytes show no tokens."""
    image = IMAGE_TOKENS * per_token
    sizes = (min(byte_size(part), image) if b'"image' in part.data[:_ENDS] else byte_size(part) for part in segments)
    return sum(sizes) / per_token


def lost_bytes(facts: PairFacts, measured: ChainSums, position: int, cacheable: int) -> int:
    """Return how many of the `cacheable` bytes cannot be read after a change of the segment at a position.

    In tools and system prompt all from the last breakpoint before it is lost. In the history earlier requests left
    entries at their own ends; where usage is recorded, it shows the read tokens.
    """
    prompt, overlap = facts.previous.prompt, facts.overlap
    is_marked = prompt.breakpoints and not prompt.auto_breakpoint
    if facts.fell is None and is_marked and position < len(prompt.head):
        readable = measured.sum_before(max((place + 1 for place in prompt.breakpoints if place < position), default=0))
    else:
        readable = measured.sum_before(position) + (overlap.common_bytes if position == overlap.common else 0)
    return max(0, cacheable - readable)


def lost_of_head(pair: Pair, rules: Callable[[], DatedRules]) -> int:
    """Return how many tokens of the previous head were in a cache, and would have been read if the head were the same.

    What precedes the change is not lost, nor a head that is too short for a cache. May be negative: nothing was lost.
    """
    previous, overlap, read = pair.previous, pair.overlap, counts.first_pass_read(pair.current.usage)
    readable, end = pair.bytes.common + overlap.common_bytes, pair.bytes.previous
    if needs_breakpoints(previous) and pair.current.prompt.has_breakpoints:
        sizes = [sum(map(byte_size, previous.prompt.head[: place + 1])) for place in previous.prompt.breakpoints]
        readable, end = max([size for size in sizes if size <= readable], default=0), max(sizes, default=0)
    readable, end = (size / pair.bytes_per_token for size in (0 if overlap.is_covered else readable, end))
    least = minimum_tokens(rules(), previous) or 0
    return 0 if read is None or end < least else round(end - max(readable, read))
