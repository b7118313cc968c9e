"""The facts of two turns -> their causes -> the cost of each cause.

`find_all_causes` asks in this order: the shape of both requests (a restart, a cold or a normal compaction, a rewind,
another API); their bytes (`lore.prefix.causes`); if bytes show a break, whether the clock or the place explains it; if
only usage shows it, the table in `attribution`. `judge_pair` then adds remarks, which are reported although nothing was
lost, and weighs every cause. A replaced tail is a cause of its own and excuses no change before it. A pause longer than
the cache lives explains changed bytes and a fallen read alike.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from msgspec.structs import asdict, replace

from lore.cache import counts
from lore.cache.transcript_history import IMAGE_TOKENS, TokenRate
from lore.judge.pairs import attribution as table
from lore.judge.pairs.finders import find_expiry, find_parallel_start, measure_lookback, state_signal
from lore.judge.pairs.pair import BY_BILL, ESTIMATED, Pair, PairFacts, find_dispute, is_remark
from lore.judge.pairs.rewrites import (
    ReplacedTail,
    describe_tail,
    find_rewind,
    find_rewrite,
    find_sealed_summary,
    last_message,
)
from lore.model import evidence as e
from lore.model.cause import Cause
from lore.model.codes import UNEXPLAINED, Code
from lore.model.differences import ToolsChanged, VolatileText
from lore.model.events import Usage
from lore.model.items import CompactDivider, is_absent, is_blank
from lore.model.providers import has_exact_breakpoints
from lore.model.turn import Segment, Turn
from lore.prefix.causes import find_causes, recorded_causes
from lore.prefix.overlap import (
    ChainSums,
    PairSums,
    byte_size,
    count_cached_segments,
    list_new_segments,
    split_fresh_segments,
)
from lore.prefix.purpose import asks_for_summary

# evidence


def find_all_causes(facts: PairFacts) -> tuple[Cause, ...]:
    """Return every cause of a break, the leading ones first.

    Of what had expired another model could lose nothing, nor a compaction, which leaves tools and system prompt.
    """
    causes = table.limit_by_verdict(facts, _find_causes(facts))
    lead = causes[0].code if causes else None
    may_have_expired = lead == Code.MODEL_CHANGED or (lead == Code.COMPACTION and facts.read == 0)
    expired = table.EXPIRED.explain(facts) if may_have_expired else None
    return _add_hashes(facts, causes if expired is None else (replace(expired, also=causes[:1]), *causes[1:]))


def _find_causes(facts: PairFacts) -> tuple[Cause, ...]:
    previous, current, fell = facts.previous, facts.current, facts.fell
    shape = _find_shape(facts)
    if shape is not None:
        return (shape,)
    all_read = counts.read_everything(previous, current)
    # without reported writes a read that did not fall may still leave a part of the previous prompt unread
    bills_writes, missed = counts.bills_writes(previous), counts.shortfall(previous, current) or 0
    shows_losses = counts.can_show_losses(previous) and (fell or all_read or bills_writes)
    if fell != 0 or not bills_writes or missed < counts.block_tokens(previous):
        missed = fell  # so small a fall needs no cause; if bytes show one, it is a loss
    causes = find_causes(
        previous.prompt, current.prompt, facts.overlap, current.changes,
        previous_call=previous.call, current_call=current.call,
        pause=None if previous.at is None or current.at is None else current.at - previous.at,
        fell=missed if shows_losses else None, all_read=facts.billed and all_read,
    )  # fmt: skip
    if {cause.code for cause in causes if not is_remark(cause)} == {Code.PREFIX_MOVED} and not current.is_rebuilt:
        begin = previous.prompt.messages.common(current.prompt.messages)
        edited = find_rewind(previous.prompt, current.prompt, begin, is_edit=True)
        causes = causes if edited is None or causes[0].section != "messages" else (edited,)
    if causes and causes[0].kind == "expected" and not is_remark(causes[0]):
        return causes
    is_broken = any(not is_remark(cause) for cause in causes)
    # such a model reads at breakpoints alone, and the lost one was at the end of the message that changed
    is_tail = has_exact_breakpoints(current.model) and Code.CHANGE_AFTER_LAST_BREAKPOINT in {c.code for c in causes}
    if not is_broken and (not fell or (is_tail and facts.read)):
        return (*causes, *_find_other_place(facts))
    if not is_broken:
        recorded = [replace(cause, position=facts.overlap.common) for cause in recorded_causes(current.changes)]
        return (*causes, *(recorded or explain_fall(facts)))
    by_clock = table.first_cause(facts, table.EXPIRED, table.PARALLEL) if fell != 0 else None
    if by_clock is None:
        return (*_find_other_place(facts), *causes)
    return (replace(by_clock, also=tuple([cause for cause in causes if not is_remark(cause)])),)


def explain_fall(facts: PairFacts) -> tuple[Cause, ...]:
    """Return the cause of a read that fell although the prompt continues, and a verdict that the read disputes."""
    disputed = table.dispute_verdict(facts)
    return (table.attribute(facts),) if disputed is None else (table.attribute(facts), disputed)


def _find_shape(facts: PairFacts) -> Cause | None:
    """Return the cause that the shape of both requests shows: a restart, a compaction, a rewind, another API."""
    previous, current, overlap = facts.previous, facts.current, facts.overlap
    if previous.chain != current.chain and current.given_up == previous.chain:
        number = sum(segment.section == "tools" for segment in previous.prompt.head)
        return Cause(Code.CHAIN_RESTARTED, "tools", e.ChainRestarted(number), overlap.common)
    if previous.chain != current.chain and (cold := _find_cold_compaction(facts)) is not None:
        return cold
    before, after = previous.prompt, current.prompt
    if not (overlap.is_covered or current.changes or current.is_rebuilt or current.fidelity == "rendered"):
        begin = before.messages.common(after.messages)
        found = find_sealed_summary(before, after, begin) or find_rewrite(before, after, overlap.common)
        if found is not None:
            return found
    if before.dialect == after.dialect:
        return None
    if before.model != after.model:
        return Cause(Code.MODEL_CHANGED, "model", e.ModelChanged(before.model, after.model))
    if (provider := table.OTHER_PROVIDER.explain(facts)) is not None:
        return provider
    other = e.Rerouted(endpoint_before=before.dialect, endpoint_after=after.dialect)
    return Cause(Code.ENDPOINT_CHANGED, "outside", other, strength="strong")


def _find_cold_compaction(facts: PairFacts) -> Cause | None:
    """Return the cause if the current request asks for a summary of the previous one and reads too little of it.

    It begins differently (other tools, another system prompt) and reads no more than both share, or its last breakpoint
    is at an earlier place.
    """
    previous, current, usage = facts.previous, facts.current, facts.current.usage
    if not facts.fell or usage is None or current.basis is not None:
        return None
    if not asks_for_summary(current.prompt, current.call):
        return None
    marks = previous.prompt.breakpoints, current.prompt.breakpoints
    if all(marks) and facts.overlap.common > marks[0][-1]:  # everything that was to be cached is in this one, too
        differs = ("breakpoints",) if marks[1][-1] < marks[0][-1] else ()
    elif facts.overlap.is_covered or not _reads_little(facts, usage):
        differs = ()
    else:
        heads = [
            {name: [part.data for part in turn.prompt.head if part.section == name] for name in ("tools", "system")}
            for turn in (previous, current)
        ]
        differs = tuple([name for name, parts in heads[0].items() if parts != heads[1][name]]) or ("messages",)
    if not differs or find_expiry(facts) is not None or find_parallel_start(facts) is not None:
        return None
    read, there = counts.first_pass_read(usage) or 0, counts.cached(previous.usage) or 0
    evidence = e.ColdCompaction(differs, there, read, _warm_read(previous, usage))
    return Cause(Code.COLD_COMPACTION, "messages", evidence, facts.overlap.common, strength="strong")


def _warm_read(previous: Turn, usage: Usage) -> int:
    """Return the tokens that a request of this length could read after the conversation."""
    there = counts.cached(previous.usage) or 0
    return there if usage.first_pass.uncached_tokens is None else min(there, counts.prompt_tokens(usage.first_pass))


def _reads_little(facts: PairFacts, usage: Usage) -> bool:
    """Return whether less than half of what could be read was read, or no more than the head that both share."""
    previous, read = facts.previous, counts.first_pass_read(usage) or 0
    warm = _warm_read(previous, usage)
    if warm - read <= counts.TOLERANCE_TOKENS:
        return False
    if read <= counts.TOLERANCE_TOKENS or 2 * read < warm:
        return True
    head = sum(map(byte_size, previous.prompt.head))
    shared = sum(map(byte_size, previous.prompt.head[: facts.overlap.common]))
    sent = head + sum(map(byte_size, previous.prompt.messages))
    tokens_per_byte = counts.prompt_tokens(previous.usage) / max(1, sent)
    return read <= shared * tokens_per_byte * ESTIMATED + counts.TOLERANCE_TOKENS


def _find_other_place(facts: PairFacts) -> tuple[Cause, ...]:
    """Return the cause of a request to another place, unless usage shows that its cache was read there."""
    if not facts.billed or facts.fell == 0:
        return ()
    routes = (table.NAMED_ROUTE, table.MISSING_ANSWERS) if facts.fell else ()
    cause = table.first_cause(facts, table.OTHER_ENDPOINT, *routes)
    return () if cause is None else (cause,)


def _add_hashes(facts: PairFacts, causes: tuple[Cause, ...]) -> tuple[Cause, ...]:
    """Add the causes by the client's hashes to what leads; they lead themselves if nothing else is known."""
    if not facts.hash_causes:
        return causes
    if all(is_remark(cause) for cause in causes):
        return (*facts.hash_causes, *causes) if facts.fell is None else causes
    codes = {cause.code for lead in causes for cause in (lead, *lead.also)}
    also = [cause for cause in facts.hash_causes if cause.code not in codes]
    return (replace(causes[0], also=(*causes[0].also, *also)), *causes[1:])


# the verdict


def judge_pair(
    facts: PairFacts, measured: ChainSums, remarks: Remarks, short: int | None, tail: ReplacedTail | None
) -> Pair:  # fmt: skip
    """Return the verdict on two turns.

    `measured` has the bytes of the previous prompt, and afterwards those of the current one. `short` is by how many
    tokens the read is smaller than the cached prompt. `tail` was removed from the previous prompt.
    """
    previous, current, overlap = facts.previous, facts.current, facts.overlap
    tail_bytes, wanted = measured.tail, measured.sum_before(count_cached_segments(previous.prompt))
    causes = find_all_causes(facts)
    causes = tuple([replace(cause, lost=_lost_bytes(facts, measured, cause.position, wanted)) for cause in causes])
    sums = measured.advance(current.prompt, overlap.common)
    ratio = counts.bytes_per_token(current, sums.current)
    causes = _mark_within_block(facts, _blame_shape(facts, causes, wanted), ratio, short)
    causes = (*causes, *remarks.find(facts, causes, sums, (sums.common + overlap.common_bytes) / ratio))
    if short == 0 and counts.read_everything(previous, current):
        causes = tuple([
            replace(one, override="expected", qualifiers=(*one.qualifiers, "nothing-lost"))
            if one.strength == "certain" and _is_from_bytes(one) else one
            for one in causes
        ])  # fmt: skip
    if tail is not None:
        causes = _add_tail(facts, causes, tail, ratio)
    causes = tuple([
        one if one.code not in BY_BILL and one.strength == "certain" and not is_remark(one) else replace(one, lost=0)
        for one in causes
    ])  # fmt: skip
    if current.fidelity in ("reconstructed", "hashed"):  # such bytes were never sent
        causes = tuple([replace(one, strength="strong") if one.strength == "certain" else one for one in causes])
    rebilled, there = limit_rebilled(facts, causes, sums, ratio), counts.cached(previous.usage)
    return Pair(previous, current, overlap, sums, tail_bytes, causes, facts.fell, short, ratio, there, rebilled)


def judge_unmeasured(facts: PairFacts, causes: tuple[Cause, ...], short: int | None) -> Pair:
    """Return the verdict on two turns whose prompts were not made: the second surely extends the first."""
    return Pair(facts.previous, facts.current, facts.overlap, PairSums(0, 0, 0), 0, causes, facts.fell, short,
                counts.BYTES_PER_TOKEN, counts.cached(facts.previous.usage), limit_rebilled(facts, causes))  # fmt: skip


# Causes that take content out of the prompt: what is left and not new is billed again, and no more. Usage shows for the
# others whether the prompt of a log shrank.
_REMOVING = frozenset((
    Code.TOOL_RESULT_REWRITTEN, Code.IMAGE_CHANGED, Code.REASONING_DROPPED_BY_TEMPLATE, Code.RESUME_RERENDERED,
    Code.REWIND, Code.COMPACTION, Code.CHAIN_RESTARTED,
))  # fmt: skip
_REWRITING = (Code.COMPACTION, Code.REWIND, Code.CHAIN_RESTARTED)
_ENDS = 512  # bytes at the beginning of a block that name its type
# Causes of which the prompt shows nothing: what another cause makes unreadable is not counted with them.
_NOT_BY_PROMPT = frozenset((Code.CACHE_EXPIRED, Code.BILLED_READ_FELL, Code.SERVER_SIDE_MISS))


def limit_rebilled(
    facts: PairFacts, causes: tuple[Cause, ...], sums: PairSums | None = None, ratio: float = counts.BYTES_PER_TOKEN
) -> int | None:
    """Return the most tokens of the current prompt that the previous request sent, too, and that were not read.

    None if nothing limits them. Removed content is not billed again, and new content never was before. `ratio` is of
    bytes per token; `sums` is missing if no bytes were measured.
    """
    codes = {cause.code for cause in causes if not is_remark(cause)}
    if Code.CACHE_EXPIRED in codes:
        codes.update(other.code for cause in causes for other in cause.also if other.code == Code.COMPACTION)
    previous, current, usage, read = facts.previous, facts.current, facts.current.usage, facts.read
    reasoning, state = state_signal(facts, "reasoning"), facts.state
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
    fresh, kept = split_fresh_segments(previous.prompt, current.prompt, facts.overlap.common)
    if unread is None or (read and counts.bills_writes(previous)):
        return round(_estimate_tokens(kept, per_token))  # that includes all of tools and system prompt that both share
    most = unread - _estimate_tokens(fresh, per_token)
    if first is not None and first.model == current.model and _lacks_summary(current):
        new = {segment.data for segment in fresh}
        later = [one for one in split_fresh_segments(first.prompt, current.prompt, 0)[0] if one.data not in new]
        most = min(most, counts.prompt_tokens(first.usage) + _estimate_tokens(later, per_token) - (read or 0))
    return max(0, round(most))


def _lacks_summary(turn: Turn) -> bool:
    """Return whether a log has a compaction without the summary that replaced the history."""
    entries = () if turn.basis is None else turn.basis.entries
    summaries = [entry.item.summary for entry in entries if isinstance(entry.item, CompactDivider)]
    return any(is_absent(summary) or is_blank(summary) for summary in summaries)


def _estimate_tokens(segments: Sequence[Segment], per_token: float) -> float:
    """Return the tokens of segments by their bytes, and of images, whose bytes do not say it, 1,500 at most."""
    image = IMAGE_TOKENS * per_token
    sizes = (min(byte_size(one), image) if b'"image' in one.data[:_ENDS] else byte_size(one) for one in segments)
    return sum(sizes) / per_token


class Remarks:
    """Finds causes of a chain that are reported although nothing was lost; each setting and contradiction once."""

    def __init__(self) -> None:
        self._reported: set[Code] = set()
        self._wrote_hour = False  # a usage of the chain wrote for an hour, so the wish for it is passed on

    def note(self, turn: Turn) -> None:
        """Remember a turn of the chain."""
        self._wrote_hour = self._wrote_hour or _wrote_for_an_hour(turn)

    def find(self, facts: PairFacts, causes: tuple[Cause, ...], sums: PairSums, shared: float) -> list[Cause]:
        """Return the remarks on two turns, which share about `shared` tokens by their bytes."""
        previous, current = facts.previous, facts.current
        found: list[Cause] = []
        if facts.billed:
            if Code.BILL_CONTRADICTS_BODY not in self._reported:
                unlike = counts.contradiction(previous, sums.previous) or counts.contradiction(current, sums.current)
                found += self._once(Code.BILL_CONTRADICTS_BODY, unlike)
            if not (self._wrote_hour or _wrote_for_an_hour(current)):
                lost_hour = counts.lost_lifetime(previous) or counts.lost_lifetime(current)
                found += self._once(Code.LIFETIME_LOST, lost_hour)
            is_broken = any(not is_remark(cause) for cause in causes)
            is_unbilled = facts.fell is None and not is_broken and not current.is_rebuilt
            if is_unbilled and table.first_cause(facts, table.NAMED_ROUTE, table.MISSING_ANSWERS) is None:
                far, place = measure_lookback(facts), facts.overlap.common
                found += [] if far is None else [Cause(Code.LOOKBACK_EXCEEDED, "messages", far, place)]
        if Code.BILL_CONTRADICTS_BODY not in self._reported:  # such a usage is no evidence
            dispute = find_dispute(facts, causes, shared)
            if dispute is not None:
                found.append(Cause(Code.VERDICT_DISAGREES, None, dispute, facts.overlap.common))
        return found

    def _once(self, code: Code, evidence: e.BillUnlikeBody | e.LifetimeLost | None) -> list[Cause]:
        if evidence is None or code in self._reported:
            return []
        self._reported.add(code)
        return [Cause(code, None, evidence)]


_Values: TypeAlias = tuple[tuple[object, ...], tuple[object, ...]]  # the values before and after


class Alternation:
    """Marks causes of one chain that change a setting, a model or tools back to their value before the last change.

    A change from A to B and back to A is known from its second change on; the fix is to keep one of the two.
    """

    def __init__(self) -> None:
        self._latest: dict[tuple[str, int, str], _Values] = {}  # by code, segment and path

    def mark(self, pair: Pair) -> Pair:
        """Return the pair with its alternating causes marked."""
        return replace(pair, causes=tuple(map(self._marked, pair.causes)))

    def _marked(self, cause: Cause) -> Cause:
        change = None if is_remark(cause) or "alternates" in cause.qualifiers else change_of(cause.evidence)
        if change is None:
            return cause
        key = cause.code, cause.position, cause.path
        earlier, self._latest[key] = self._latest.get(key), change
        return replace(cause, qualifiers=(*cause.qualifiers, "alternates")) if earlier == change[::-1] else cause


def change_of(evidence: e.Evidence) -> _Values | None:
    """Return what evidence shows before and after a change; None if it does not show both."""
    if isinstance(evidence, ToolsChanged):
        is_swap = not (evidence.changed or evidence.reordered or evidence.unnamed)
        return (evidence.removed, evidence.added) if is_swap and (evidence.removed or evidence.added) else None
    if evidence.quoted_change() is not None:  # text may come back by chance, as a list of recent files does
        return None
    fields = asdict(evidence)
    before = tuple([value for name, value in fields.items() if name == "before" or name.endswith("_before")])
    after = tuple([value for name, value in fields.items() if name == "after" or name.endswith("_after")])
    may_repeat_by_chance = all(isinstance(value, int | float) for value in before)
    return None if may_repeat_by_chance or before == after else (before, after)


def _wrote_for_an_hour(turn: Turn) -> bool:
    return turn.usage is not None and bool(turn.usage.write_1h_tokens)


def _is_from_bytes(cause: Cause) -> bool:
    """Return whether bytes show a break that was not expected."""
    return cause.kind != "expected" and cause.code not in BY_BILL and not is_remark(cause)


_NEAR = 0.15  # the share by which a place in tokens, estimated from bytes, may be wrong


def _blame_shape(facts: PairFacts, causes: tuple[Cause, ...], wanted: int) -> tuple[Cause, ...]:
    """Return a change of shape as the cause of a fall that nothing else explains, if the read ended at its place.

    Anthropic documents text and block as one value; a read that stops there shows that the model saw two
    (anthropics/claude-code#93490: a system message within the history). `wanted` are the bytes that were cached.
    """
    there, read = counts.cached(facts.previous.usage), facts.read
    if not (facts.fell and there and read and wanted) or not any(cause.code in UNEXPLAINED for cause in causes):
        return causes
    for cause in causes:
        before = there * (1 - cause.lost / wanted)
        if "same-to-the-api" in cause.qualifiers and before * (1 - _NEAR) <= read <= before * (1 + _NEAR):
            shape = replace(cause, qualifiers=("read-ends-there",), override=None)
            return (shape, *(other for other in causes if other is not cause and other.code not in UNEXPLAINED))
    return causes


def _mark_within_block(
    facts: PairFacts, causes: tuple[Cause, ...], per_token: float, short: int | None
) -> tuple[Cause, ...]:
    """Mark changes at the end of the prompt that are shorter than one block of the cache: no cache holds them.

    A change further in front, or in no byte (a parameter), costs everything after it.
    """
    previous = facts.previous
    block = counts.block_tokens(previous)
    if facts.fell or not facts.billed or not causes or (short is not None and short > block):
        return causes
    end, found = len(previous.prompt.head) + last_message(previous.prompt), list[Cause]()
    for cause in causes:
        lost = cause.lost / per_token
        is_within = cause.position >= end and lost <= block and _is_from_bytes(cause)
        if is_within and cause.code != Code.IMAGE_CHANGED:  # bytes do not say how many tokens an image is
            size = e.WithinBlock(round(lost), block)
            within = Cause(cause.code, cause.section, size, cause.position, path=cause.path)
            cause = replace(
                cause, code=Code.CHANGE_AFTER_LAST_BREAKPOINT, override=None, qualifiers=("within-a-block",),
                also=(within,),
            )  # fmt: skip
        found.append(cause)
    return tuple(found)


def _add_tail(facts: PairFacts, causes: tuple[Cause, ...], tail: ReplacedTail, ratio: float) -> tuple[Cause, ...]:
    """Add the replaced tail: the read fell because of a breakpoint on it, or by the tail's own cached tokens."""
    previous = facts.previous
    evidence = describe_tail(tail, ratio, counts.prompt_tokens(previous.usage))
    position = previous.prompt.stable
    if facts.fell and [cause.code for cause in causes] == [Code.BILLED_READ_FELL]:
        if previous.prompt.auto_breakpoint or any(segment.breakpoint is not None for segment in tail.segments):
            holds = " and ".join(evidence.holds) or "text that is replaced each turn"
            marked = VolatileText(holds, "", True)  # noqa: FBT003
            code = Code.BREAKPOINT_ON_VOLATILE
            causes = (Cause(code, "messages", marked, position, "waste", evidence.path, strength="strong"),)
        elif facts.fell <= evidence.tokens * ESTIMATED + counts.block_tokens(previous):
            causes = ()
    return (*causes, Cause(Code.TAIL_REPLACED, "messages", evidence, position, path=evidence.path))


def _lost_bytes(facts: PairFacts, measured: ChainSums, position: int, wanted: int) -> int:
    """Return the bytes up to `wanted` that cannot be read after a change of the segment at a position.

    In tools and system prompt all from the last breakpoint before it is lost. In the history earlier requests left
    entries at their own ends; where usage is recorded, it shows the read tokens.
    """
    prompt, overlap = facts.previous.prompt, facts.overlap
    is_marked = prompt.breakpoints and not prompt.auto_breakpoint
    if facts.fell is None and is_marked and position < len(prompt.head):
        kept = measured.sum_before(max((place + 1 for place in prompt.breakpoints if place < position), default=0))
    else:
        kept = measured.sum_before(position) + (overlap.common_bytes if position == overlap.common else 0)
    return max(0, wanted - kept)
