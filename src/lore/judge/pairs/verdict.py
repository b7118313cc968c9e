"""The facts of two turns -> their causes -> the cost of each cause.

`find_all_causes` asks in this order: the shape of both requests (a restart, a cold or a normal compaction, a rewind,
another API); their bytes (`lore.prefix.causes`); if bytes show a break, whether the clock or the place explains it; if
only usage shows it, the table in `attribution`. `judge_pair` then adds remarks, which are reported although nothing was
lost, and weighs every cause. A replaced tail is a cause of its own and excuses no change before it. A pause longer than
the cache lives explains changed bytes and a fallen read alike.
"""

from __future__ import annotations

from itertools import islice

from msgspec.structs import replace

from lore.cache import counts
from lore.cache.served import served_by
from lore.judge.pairs import attribution as table
from lore.judge.pairs.finders import measure_lookback
from lore.judge.pairs.losses import limit_rebilled, lost_bytes
from lore.judge.pairs.pair import BY_BILL, ESTIMATED, Pair, PairFacts, find_dispute, is_remark
from lore.judge.pairs.rewrites import ReplacedTail, describe_tail, find_rewind, last_message
from lore.judge.pairs.shapes import find_shape
from lore.model import evidence as e
from lore.model.cause import Cause
from lore.model.codes import UNEXPLAINED, Code
from lore.model.differences import VolatileText
from lore.model.providers import ENGINES, has_exact_breakpoints
from lore.model.turn import Turn
from lore.prefix.causes import find_causes, recorded_causes
from lore.prefix.overlap import ChainSums, PairSums, byte_size, count_cached_segments, locate_difference

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
    shape = find_shape(facts)
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
    if not is_beginning_read(facts):
        causes = tuple([
            replace(one, override="expected", qualifiers=(*one.qualifiers, "nothing-lost")) for one in causes
        ])  # fmt: skip
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


def is_beginning_read(facts: PairFacts) -> bool:
    """Return False if an engine reads nothing of two prompts that begin alike: then no change costs anything.

    Templates write tools before or after the system prompt, so before a change in it only its own bytes count.
    """
    previous, overlap = facts.previous, facts.overlap
    is_silent = facts.read == 0 and counts.cached(previous.usage) == 0
    if not is_silent or overlap.is_covered or served_by(previous).provider not in ENGINES:
        return True
    shared = [*islice(previous.prompt, overlap.common)]
    place = locate_difference(previous.prompt, facts.current.prompt, overlap.common)
    if place is not None and place.section == "system":
        shared = [segment for segment in shared if segment.section == "system"]
    size = sum(map(byte_size, shared)) + overlap.common_bytes
    return size / counts.BYTES_PER_TOKEN <= counts.TOLERANCE_TOKENS


def explain_fall(facts: PairFacts) -> tuple[Cause, ...]:
    """Return the cause of a read that fell although the prompt continues, and a verdict that the read disputes."""
    disputed = table.dispute_verdict(facts)
    return (table.attribute(facts),) if disputed is None else (table.attribute(facts), disputed)


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
    causes = tuple([replace(cause, lost=lost_bytes(facts, measured, cause.position, wanted)) for cause in causes])
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
