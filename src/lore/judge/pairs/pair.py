"""Two successive turns: the facts that are known of them (`PairFacts`), and the verdict on them (`Pair`).

Facts are collected before the turns are judged; the verdict has the causes that were found and the cost of each. Words:
a read *fell* if it is smaller than what the previous request left in the cache, by more than a tolerance; it is *short*
by the same number without the tolerance. The *head* is tools and system prompt. An *implicit* cache has no breakpoints.

Usage decides how much was lost; bytes decide only if usage is not recorded. Content that is new in the prompt, or was
removed from it, is not counted as lost (`limit_rebilled`). `find_dispute` reports that bytes, usage and the provider's
verdict contradict one another (LORE302), except for a verdict `unavailable`, after which often nothing was missed. For
prompts that were rebuilt from a log, which may lack tools and system prompt, only the read disputes a verdict
(`verdict.explain_fall`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from lore.cache import counts
from lore.cache.log_branches import cache_key
from lore.cache.rules import DatedRules, Price, least_cached
from lore.cache.transcript_history import IMAGE_TOKENS, TokenRate
from lore.judge.requests.request_laws import needs_breakpoints
from lore.model.cause import Cause
from lore.model.codes import UNEXPLAINED, Code
from lore.model.differences import BetasChanged, ParameterChanged
from lore.model.events import Usage
from lore.model.evidence import Disputed, ProviderSaid
from lore.model.items import CompactDivider, is_absent, is_blank
from lore.model.providers import provider_of
from lore.model.state import Sign
from lore.model.turn import Segment, Turn
from lore.prefix.overlap import (
    ChainSums,
    Overlap,
    PairSums,
    byte_size,
    count_cached_segments,
    list_new_segments,
    locate_difference,
    split_fresh_segments,
)

if TYPE_CHECKING:
    from lore.cache.transcript_signals import Signal
    from lore.cache.transcripts import TurnState

# Anthropic's verdicts that the client changed something, and the section that each is about.
CLIENT_SECTIONS = {
    "tools_changed": "tools", "system_changed": "system", "messages_changed": "messages", "model_changed": "model"
}  # fmt: skip
_VERDICTS = frozenset((*CLIENT_SECTIONS, "previous_message_not_found", "unavailable"))
EXTENDED = Overlap(0, 0, 0, is_covered=True, is_covered_canonically=True)  # for prompts that were not built
KINDS = ("expected", "unattributable", "waste")  # of causes: the worst last, which leads
ESTIMATE_FACTOR = 1.25  # an estimate of tokens from bytes is rarely off by more

_TOOLS_FIRST = frozenset(("anthropic", "openai", "azure", "bedrock"))  # providers that write tools before the system
# Causes that are reported although nothing was lost.
REMARKS = frozenset((
    Code.LIFETIME_LOST, Code.CHANGE_AFTER_LAST_BREAKPOINT, Code.TAIL_REPLACED, Code.VERDICT_DISAGREES,
    Code.BILL_CONTRADICTS_BODY,
))  # fmt: skip


def with_read_tokens(turn: Turn, tokens: int) -> Turn:
    """Return a turn as if it had read the first `tokens` of its prompt, or as many as it read if these are more."""
    usage = turn.usage or Usage()
    end = max(tokens, usage.read_tokens or 0)
    uncached = counts.prompt_tokens(usage) - end
    return replace(turn, usage=replace(usage, read_tokens=end, uncached_tokens=uncached))


NO_SIGNAL = ""  # the name in tallies of turns without a signal


class Tally(Struct, frozen=True):
    """How often a signal occurred in a session, and how often the read fell then."""

    times: int = 0
    fell: int = 0

    def plus(self, *, fell: bool) -> Tally:
        """Return the tally with one more turn that has the signal, and whether its read fell."""
        return Tally(self.times + 1, self.fell + fell)


_FLOOR = 0.1  # reads that differ by at most this share are taken to end at the same place


class PairFacts(Struct, frozen=True):
    """Two successive turns before they are judged."""

    previous: Turn
    current: Turn
    overlap: Overlap
    fell: int | None  # tokens by which the read fell (`counts.significant_fall`); 0: it did not; None: unknown
    comparable: bool  # the current turn directly follows the previous one, so that their usages can be compared
    short: int | None = None  # tokens by which the read is smaller than what was cached; None: unknown
    lifetime: float | None = None  # seconds that the previous turn's writes live; None: unknown
    hour_end: int | None = None  # where entries that live an hour end, if entries of five minutes follow them
    earlier: int | None = None  # tokens that the turn before the previous one left in the cache
    state: TurnState | None = None  # what a log shows of the prompt, if the read fell; None: not needed, or not a log
    last_use: Turn | None = None  # the last request with all of the previous prompt, if it is a later one
    unbilled: tuple[Turn, ...] = ()  # requests of a log between the two whose usage is unknown
    tallies: Mapping[str, Tally] = {}  # of the signals of earlier turns, by name
    hash_causes: tuple[Cause, ...] = ()  # what differs by the client's hashes, since the last request that has some
    result_bytes: int = 0  # of all results of tools in the current history of a log
    first: Turn | None = None  # the first request of a log's chain that has usage
    least_lifetime: float | None = None  # seconds for which a recorded request's prompt is surely kept, by a rule
    # log entries and tokens before the reasoning that the provider may have left out; only if its cache is unknown
    earlier_reasoning: tuple[int, int] | None = None
    omits_thinking: bool = False  # a rule: the model reads no thinking that precedes the user's latest prompt
    is_conversation: bool = False  # a recorded request of the chain continued an earlier one
    grown_falls: tuple[int, ...] = ()  # tokens read in the latest turns whose read fell though their prompt had grown

    @property
    def read(self) -> int | None:
        """Tokens that the current turn read from the cache, in its first pass; None: unknown."""
        return counts.first_pass_read(self.current.usage)

    @property
    def is_at_floor(self) -> bool:
        """Whether three earlier turns whose prompt had grown read as little: then no removed content is the reason.

        In one session of OpenClaw 101 reads fell to 14,000 to 16,000 tokens, 17 of them of prompts that had shrunk. A
        read of 0 shows no floor.
        """
        read = self.read or 0
        return read > 0 and sum(abs(read - other) <= _FLOOR * max(read, other) for other in self.grown_falls) >= 3

    @property
    def verdict(self) -> ProviderSaid | None:
        """The provider's verdict on the current turn; None without one."""
        return provider_verdict(self.current)

    @property
    def totals(self) -> tuple[int | None, int | None]:
        """Tokens of both prompts by their usage; None if unknown."""
        previous, current = self.previous.usage, self.current.usage
        before = None if previous is None else counts.total(previous)
        return before, None if current is None else counts.total(current.first_pass)

    @property
    def is_implicit(self) -> bool:
        """Whether the state of a log is known, and its cache has no breakpoints."""
        return self.state is not None and self.state.implicit

    def sign(self, name: str) -> Sign | None:
        """Return the sign of this name (`model.state.SIGNS`) that the log has at the current turn; None without one."""
        return next((sign for sign in self.current.signs if sign.name == name), None)

    def signal(self, name: str, *, is_delayed: bool = True) -> Signal | None:
        """Return a signal with its place; `is_delayed`: an earlier turn had it, and its text may move now."""
        signals = () if self.state is None else self.state.signals
        return next((signal for signal in signals if (signal.name, signal.is_delayed) == (name, is_delayed)), None)


def provider_verdict(turn: Turn) -> ProviderSaid | None:
    """Return the provider's verdict on a turn as evidence; a reason that lore does not know is content."""
    verdict = turn.verdict
    if verdict is None:
        return None
    reason, missed = verdict.reason if verdict.reason in _VERDICTS else "", verdict.missed_tokens
    read = counts.first_pass_read(turn.usage)
    unread = None if read is None or turn.usage is None else counts.prompt_tokens(turn.usage.first_pass) - read
    is_too_many = missed is not None and unread is not None and missed > unread
    return ProviderSaid(reason, "" if reason else verdict.reason, missed, unread=unread if is_too_many else None)


# Causes that change tools and system prompt together.
_WHOLE_HEAD = frozenset((Code.CLIENT_UPDATED, Code.CLIENT_RESTARTED, Code.SESSION_CHANGED))


def provider_cause(facts: PairFacts) -> Cause | None:
    """Return the cause if the provider's verdict says that the client changed a section; None for other verdicts."""
    verdict = facts.verdict
    section = None if verdict is None else CLIENT_SECTIONS.get(verdict.reason)
    if verdict is None or section is None:
        return None
    return Cause(Code.CLIENT_CAUSE_UNKNOWN, section, verdict, strength="strong")


def can_lead(code: str, cause_section: str | None, section: str | None) -> bool:
    """Return whether a cause about `cause_section` may lead although the provider's verdict names `section`."""
    if section not in CLIENT_SECTIONS.values() or cause_section is None:
        return True
    return section in ("tools", "system") if code in _WHOLE_HEAD else cause_section == section


class Pair(Struct, frozen=True):
    """Two successive turns, why the second does not extend the first, and what that cost."""

    previous: Turn
    current: Turn
    overlap: Overlap
    bytes: PairSums
    tail_bytes: int  # of the previous prompt
    causes: tuple[Cause, ...]
    fell: int | None  # tokens by which the read fell (`counts.significant_fall`), 0 within tolerance; None: unknown
    short: int | None  # the same without tolerance (`counts.shortfall`)
    bytes_per_token: float  # of the current prompt, from its usage or a default
    available: int | None  # tokens that the previous request left in the cache; None: unknown
    rebilled: int | None = None  # the most tokens that can have been billed again; None: the bytes show no limit
    price: Price | None = None  # of the current turn; None: unknown, or no cost is asked for
    priced_as: Usage | None = None  # usage whose prices apply to lost tokens if the current turn has none
    uncacheable: bool = False  # one of the two is shorter than its model caches, so nothing was lost

    @property
    def lost_bytes(self) -> int:
        """The bytes that all causes cost together: those of the costliest cause, which include the others'."""
        return max((cause.lost for cause in self.causes), default=0)

    @property
    def is_break(self) -> bool:
        """Whether the part that the previous request asked to be cached was not reused, by bytes or by usage."""
        return any(not is_remark(cause) for cause in self.causes)

    @property
    def reuse(self) -> float | None:
        """Common bytes as a share of the previous prompt without its tail; None if that is empty."""
        stable = self.bytes.previous - self.tail_bytes
        return None if stable <= 0 else (self.bytes.common + self.overlap.common_bytes) / stable

    @property
    def leading(self) -> Cause | None:
        """The cause that the loss is counted under: of the worst kind, the one that lost most."""
        breaking = [cause for cause in self.causes if not is_remark(cause)]
        return max(breaking, key=lambda cause: (KINDS.index(cause.kind), lost_tokens(self, cause)[0]), default=None)


def is_remark(cause: Cause) -> bool:
    """Return whether a cause is only a remark: it is reported, lost nothing and is no cache break."""
    if cause.code == Code.LOOKBACK_EXCEEDED:  # no usage shows the miss
        return cause.kind != "waste"
    return cause.is_harmless or cause.code in REMARKS


def lost_tokens(pair: Pair, cause: Cause) -> tuple[int, str]:
    """Return the tokens that a cause of a pair cost, and whether they are `recorded` or `estimated`.

    Usage decides: if everything that was cached was read, nothing was lost. If writes are not reported, all whole
    blocks after the read are lost; only those after the change, by its bytes, if the read is far below the unchanged
    beginning or the cause is expected. The result is at most the tokens sent and not read, and at most `rebilled`.
    """
    if pair.uncacheable or is_remark(cause):
        return 0, "recorded" if pair.fell is not None else "estimated"
    tokens, source = round(cause.lost / pair.bytes_per_token), "estimated"
    if cause.code == Code.MODEL_CHANGED and pair.current.is_rebuilt and pair.previous.usage is not None:
        tokens = counts.prompt_tokens(pair.previous.usage)  # all of it, also what the log does not record
    if pair.short is not None:
        previous, current, unread = pair.previous, pair.current, 0
        is_lost = cause.lost and (previous.chain == current.chain or not len(previous.prompt.messages))
        if is_lost and not counts.bills_writes(previous) and not counts.read_everything(previous, current):
            tools, is_system = 0, cause.section == "system" and previous.basis is None
            provider = provider_of(previous.call.endpoint, previous.model, previous.dialect)
            if is_system and previous.dialect != "anthropic" and provider not in _TOOLS_FIRST:
                # DeepSeek, where a date in the system prompt lost them, and templates as of Qwen write them after it
                head = previous.prompt.head[: previous.prompt.tool_count]
                tools = round(sum(map(byte_size, head)) / pair.bytes_per_token)
            size, block = counts.prompt_tokens(previous.usage), counts.block_tokens(previous)
            read, same = counts.first_pass_read(current.usage) or 0, size - tokens - tools
            is_far = (read + block) * ESTIMATE_FACTOR < same and same > counts.TOLERANCE_TOKENS
            is_expected = cause.kind == "expected" and "little-lost" not in cause.qualifiers
            if is_far or is_expected:  # only the tokens after the change
                unread, source = min(tokens, size - read), "estimated"
            else:  # all whole blocks after the read
                unread, source = size // block * block - read, "recorded"
        tokens, source = (unread, source) if unread > pair.short else (pair.short, "recorded")
    own_breakpoints = cause.code != Code.COLD_COMPACTION  # its misplaced breakpoint is the cause
    tokens = counts.capped_by_usage(pair.current.usage, tokens, own_breakpoints=own_breakpoints)
    if pair.rebilled is not None and pair.rebilled < tokens:
        tokens, source = pair.rebilled, "estimated"
    return tokens, source


# how bytes, usage and verdict contradict one another


def dispute_of(pair: Pair) -> Disputed | None:
    """Return the contradiction of bytes, usage and verdict among a pair's causes, or that none explains it; or None."""
    dispute = next((cause.evidence for cause in pair.causes if isinstance(cause.evidence, Disputed)), None)
    if dispute is None and pair.fell and any(cause.code in UNEXPLAINED for cause in pair.causes):
        return Disputed("unexplained", tokens=pair.fell)
    return dispute


# Causes after which usage or verdict are about another request, or another cache, so that they contradict nothing.
_OTHER_CACHE = frozenset((
    Code.MODEL_CHANGED, Code.CACHE_EXPIRED, Code.PARALLEL_START, Code.ENDPOINT_CHANGED, Code.ROUTED_ELSEWHERE,
    Code.CONTINUATION, Code.CHAIN_RESTARTED,
))  # fmt: skip


def find_dispute(facts: PairFacts, causes: tuple[Cause, ...], shared: float) -> Disputed | None:
    """Return how bytes, usage and verdict contradict one another; None if they do not. `shared`: tokens, by bytes."""
    current = facts.current
    if current.is_rebuilt or current.fidelity == "rendered" or any(cause.code in _OTHER_CACHE for cause in causes):
        return None
    is_break = not facts.overlap.is_covered and any(not is_remark(cause) for cause in causes)
    read, available, common = facts.read, counts.cached(facts.previous.usage), facts.overlap.common
    if is_break and facts.fell == 0 and read and available and available >= counts.TOLERANCE_TOKENS:
        # more was read than the bytes share: another request wrote it, or the change does not matter. A read of exactly
        # what the turn before the previous one left needs no other request: tools that come and go alternate.
        is_more = read > shared * ESTIMATE_FACTOR + counts.TOLERANCE_TOKENS and read != facts.earlier
        provider = provider_of(current.call.endpoint, current.model, current.dialect)
        # DeepSeek renders tools after the system prompt, as many templates do (can1357/oh-my-pi#7324, measured)
        may_precede = current.dialect == "openai-chat" and provider not in ("openai", "azure")
        is_more = is_more and not (may_precede and common < facts.previous.prompt.tool_count)
        if is_more and common < count_cached_segments(facts.previous.prompt):
            return Disputed("bill-reads-more", tokens=round(shared), read_tokens=read)
    verdict = facts.current.verdict
    section = None if verdict is None else CLIENT_SECTIONS.get(verdict.reason)
    if verdict is None or section is None:
        return None
    previous, prompt, missed = facts.previous.prompt, current.prompt, verdict.missed_tokens or 0
    if section == "model":
        return Disputed("same-model", verdict.reason, model=prompt.model) if previous.model == prompt.model else None
    if not is_break:
        return Disputed("no-change-in-bytes", verdict.reason)
    if facts.fell == 0 and missed > counts.TOLERANCE_TOKENS and available:
        return Disputed("nothing-missed", verdict.reason, tokens=missed)
    place = locate_difference(previous, prompt, common)
    if place is not None and place.section != section and common < count_cached_segments(previous):
        return Disputed("other-section", verdict.reason, section=place.section, path=place.path)
    return None


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
    """Return the most tokens that can have been re-billed: both requests sent them, and they were not read; else None.

    There is a limit only if the prompt shrank or a cause removes content: removed content is not billed again, and new
    content was not billed before. `ratio`: bytes per token; `sums`: None if no bytes were measured.
    """
    codes = {cause.code for cause in causes if not is_remark(cause)}
    if not codes.isdisjoint((Code.CACHE_EXPIRED, Code.BREAKPOINTS_MISSING)):
        codes.update(other.code for cause in causes for other in cause.also if other.code in _REWRITING)
    previous, current, usage, read = facts.previous, facts.current, facts.current.usage, facts.read
    reasoning, state = facts.signal("reasoning"), facts.state
    is_implicit = facts.is_implicit  # with breakpoints 63 of 73 such prompts read over 85 %
    readable = (reasoning.read_if_moved or 0) if is_implicit and reasoning is not None else 0
    if readable > (read or 0) and codes & _NOT_BY_PROMPT:
        return readable - (read or 0)  # what follows it could not be read anyway
    most = counts.prompt_tokens(None if usage is None else usage.first_pass)
    is_same = current.is_rebuilt and cache_key(previous) == cache_key(current)  # each of them counts in its own way
    has_shrunk = is_same and 0 < most < counts.sent_tokens(previous.usage)
    if not has_shrunk and (codes.isdisjoint(_REMOVING) if current.is_rebuilt else not codes):
        return None
    unread = None if usage is None or read is None else counts.capped_by_usage(usage, most)
    if unread is not None and state is not None and is_implicit and state.prefix.reason == "shrunk":
        unread -= max(0, (state.prefix.tokens or 0) - (read or 0))  # another machine lacked what precedes the change
    is_rewritten = not codes.isdisjoint(_REWRITING)
    if state is not None and state.unchanged == state.entries and current.is_rebuilt and not is_rewritten:
        grown, output = state.grown, state.output
        if is_implicit and grown.has_thinking and Code.REASONING_DROPPED_BY_TEMPLATE in codes:  # and the last answer's
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

    If the log lacks the summary, as Codex's does, only two things can be billed again: what the chain's first request
    sent, and the later messages that were kept.
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


def count_lost_bytes(facts: PairFacts, measured: ChainSums, cause: Cause, cacheable: int) -> int:
    """Return how many of the `cacheable` bytes cannot be read after a change.

    A change of tools or system prompt loses everything after the last breakpoint before it, if no usage shows the read.
    In the history only what follows the change is lost, as earlier requests left entries at their own ends. 0 for a
    field whose cost the provider does not document, if no usage shows that anything was cached.
    """
    prompt, overlap, position = facts.previous.prompt, facts.overlap, cause.position
    if isinstance(cause.evidence, ParameterChanged | BetasChanged) and cause.evidence.level == "unknown":
        cacheable *= bool(counts.cached(facts.previous.usage))
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
    return 0 if read is None or end < least_cached(rules(), previous) else round(end - max(readable, read))
