"""The facts of two turns -> their causes -> the cost of each cause.

`find_all_causes` asks the stages of `lore.judge.rules` in turn: the shape of both requests; their bytes
(`lore.prefix.causes`); if bytes show a break, whether the clock or the place explains it; if only usage shows it, the
table of evidence (`attribution`). `judge_pair` measures the bytes, adjusts the causes (`adjustments`, among them the
remarks) and limits what was lost (`losses`). A pause longer than the cache lives explains changed bytes and a fallen
read alike.
"""

from __future__ import annotations

from itertools import islice

from msgspec.structs import replace

from lore.cache import counts
from lore.cache.served import served_by
from lore.judge import rules
from lore.judge.pairs.adjustments import PairMeasures, wrote_for_an_hour
from lore.judge.pairs.attribution import attribute, dispute_verdict, first_cause, limit_by_verdict
from lore.judge.pairs.losses import limit_rebilled, lost_bytes
from lore.judge.pairs.pair import BY_BILL, Pair, PairFacts, is_remark
from lore.judge.pairs.rewrites import ReplacedTail, find_rewind
from lore.model.cause import Cause
from lore.model.codes import Code
from lore.model.providers import ENGINES, has_exact_breakpoints
from lore.model.turn import Turn
from lore.prefix.causes import find_causes, recorded_causes
from lore.prefix.overlap import ChainSums, byte_size, count_cached_segments, locate_difference

# evidence


def find_all_causes(facts: PairFacts) -> tuple[Cause, ...]:
    """Return every cause of a break, the leading ones first.

    If the entry had expired, another model or a compaction lost nothing more, so the expiry leads.
    """
    causes = limit_by_verdict(facts, _find_causes(facts))
    lead = causes[0].code if causes else None
    may_have_expired = lead == Code.MODEL_CHANGED or (lead == Code.COMPACTION and facts.read == 0)
    expired = rules.EXPIRED.explain(facts) if may_have_expired else None
    if expired is not None:
        causes = (replace(expired, also=causes[:1]), *causes[1:])
    return _add_hashes(facts, _lead_with_breakpoints(facts, causes))


def _lead_with_breakpoints(facts: PairFacts, causes: tuple[Cause, ...]) -> tuple[Cause, ...]:
    """Return the causes, led by missing breakpoints if the request has none and therefore read nothing."""
    breaking = tuple([cause for cause in causes if not is_remark(cause)])
    dropped = rules.DROPPED_BREAKPOINTS.explain(facts) if facts.fell and not facts.read and breaking else None
    if dropped is None or facts.current.prompt.breakpoints or dropped.code == breaking[0].code:
        return causes
    if breaking[0].code != Code.REWIND and (breaking[0].kind == "expected" or breaking[0].code in BY_BILL):
        return causes
    return (replace(dropped, also=breaking), *filter(is_remark, causes))


def _find_causes(facts: PairFacts) -> tuple[Cause, ...]:
    """Return what the shape, else the bytes, else the read show."""
    shape = first_cause(facts, rules.SHAPES)
    if shape is not None:
        return (shape,)
    causes = _find_in_bytes(facts)
    if causes and causes[0].kind == "expected" and not is_remark(causes[0]):
        return causes
    if any(not is_remark(cause) for cause in causes):
        by_clock = first_cause(facts, rules.EXCUSED_BY_CLOCK) if facts.fell != 0 else None
        if by_clock is None:
            return (*_find_other_place(facts), *causes)
        return (replace(by_clock, also=tuple([cause for cause in causes if not is_remark(cause)])),)
    current = facts.current
    # such a model reads at breakpoints alone, and the lost one was at the end of the message that changed
    is_after_breakpoint = any(cause.code == Code.CHANGE_AFTER_LAST_BREAKPOINT for cause in causes)
    is_tail = is_after_breakpoint and has_exact_breakpoints(current.model) and facts.read
    if not facts.fell or is_tail:
        return (*causes, *_find_other_place(facts))
    recorded = [replace(cause, position=facts.overlap.common) for cause in recorded_causes(current.changes)]
    return (*causes, *(recorded or explain_fall(facts)))


def _find_in_bytes(facts: PairFacts) -> tuple[Cause, ...]:
    """Return the causes that the bytes of both prompts show."""
    previous, current = facts.previous, facts.current
    all_read = counts.read_everything(previous, current)
    causes = find_causes(
        previous.prompt, current.prompt, facts.overlap, current.changes,
        previous_call=previous.call, current_call=current.call,
        pause=None if previous.at is None or current.at is None else current.at - previous.at,
        fell=_count_unread(facts, all_read=all_read), all_read=facts.comparable and all_read,
    )  # fmt: skip
    if not can_change_cost(facts):
        causes = tuple([
            replace(entry, override="expected", qualifiers=(*entry.qualifiers, "nothing-lost")) for entry in causes
        ])  # fmt: skip
    codes = {cause.code for cause in causes if not is_remark(cause)}
    if codes == {Code.PREFIX_MOVED} and causes[0].section == "messages" and not current.is_rebuilt:
        begin = previous.prompt.messages.common(current.prompt.messages)
        edited = find_rewind(previous.prompt, current.prompt, begin, is_edit=True)
        return causes if edited is None else (edited,)
    return causes


def can_change_cost(facts: PairFacts) -> bool:
    """Return whether a change can cost anything: not if an engine reads nothing although two prompts begin alike.

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


def _count_unread(facts: PairFacts, *, all_read: bool) -> int | None:
    """Return how many cached tokens the read shows to be missed; None if usage cannot show that nothing was."""
    previous, fell = facts.previous, facts.fell
    bills_writes = counts.bills_writes(previous)
    if not counts.can_show_losses(previous) or not (fell or all_read or bills_writes):
        return None
    # without reported writes a read that did not fall may still leave a part of the previous prompt unread
    missed = counts.shortfall(previous, facts.current) or 0
    if fell == 0 and bills_writes and missed >= counts.block_tokens(previous):
        return missed
    return fell  # a fall within the tolerance needs no cause; if bytes show one, the fall is its loss


def explain_fall(facts: PairFacts) -> tuple[Cause, ...]:
    """Return the cause of a read that fell although the prompt continues, and a verdict that the read disputes."""
    disputed = dispute_verdict(facts)
    return (attribute(facts),) if disputed is None else (attribute(facts), disputed)


def _find_other_place(facts: PairFacts) -> tuple[Cause, ...]:
    """Return the cause of a request to another place, unless usage shows that its cache was read there.

    A provider that a router returns to reads what it cached before, and lacks what another one cached since.
    """
    if not facts.comparable:
        return ()
    if facts.fell == 0:
        lacks = (counts.shortfall(facts.previous, facts.current) or 0) > counts.block_tokens(facts.previous)
        cause = rules.NAMED_ROUTE.explain(facts) if lacks and not facts.overlap.is_covered else None
    else:
        cause = first_cause(facts, (rules.OTHER_ENDPOINT, *(rules.ROUTES if facts.fell else ())))
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
    tokens the read is smaller than the cached prompt. `tail` was removed from the previous prompt. `remarks` remembers
    those that it returns.
    """
    previous, current, overlap = facts.previous, facts.current, facts.overlap
    tail_bytes, cacheable = measured.tail, measured.sum_before(count_cached_segments(previous.prompt))
    causes = find_all_causes(facts)
    causes = tuple([replace(cause, lost=lost_bytes(facts, measured, cause.position, cacheable)) for cause in causes])
    sums = measured.advance(current.prompt, overlap.common)
    per_token = counts.bytes_per_token(current, sums.current)
    measures = PairMeasures(facts, sums, cacheable, per_token, short, tail, remarks.wrote_hour, remarks.find)
    for row in rules.ADJUSTMENTS:
        causes = row.ask(measures, causes)
    causes = tuple([cause if _has_lost_bytes(cause) else replace(cause, lost=0) for cause in causes])
    if current.fidelity in ("reconstructed", "hashed"):  # such bytes were never sent
        causes = tuple([replace(old, strength="strong") if old.strength == "certain" else old for old in causes])
    rebilled, cached = limit_rebilled(facts, causes, sums, per_token), counts.cached(previous.usage)
    return Pair(
        previous, current, overlap, sums, tail_bytes, causes, facts.fell, short, per_token, cached, rebilled
    )  # fmt: skip


def _has_lost_bytes(cause: Cause) -> bool:
    """Return whether the bytes from a cause's place on were lost: bytes alone show it, and it is no remark."""
    return cause.code not in BY_BILL and cause.strength == "certain" and not is_remark(cause)


class Remarks:
    """Finds the remarks of one chain, and remembers which it has reported."""

    def __init__(self) -> None:
        self._reported: set[Code] = set()
        self.wrote_hour = False  # a usage of the chain wrote for an hour

    def note(self, turn: Turn) -> None:
        """Remember whether a turn of the chain wrote for an hour."""
        self.wrote_hour = self.wrote_hour or wrote_for_an_hour(turn)

    def find(self, measures: PairMeasures, causes: tuple[Cause, ...]) -> tuple[Cause, ...]:
        """Return the remarks on two turns with these causes, and remember them: some are reported once a chain."""
        remarks: list[Cause] = []
        for row in rules.REMARKS:
            if (row.once and row.code in self._reported) or row.unless in self._reported:
                continue
            remark = row.find(measures, causes)
            if remark is not None:
                self._reported.add(row.code)
                remarks.append(remark)
        return tuple(remarks)
