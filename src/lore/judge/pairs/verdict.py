"""The facts of two turns -> their causes -> the cost of each cause.

`judge_pair` finds the causes, measures the bytes, adjusts the causes (`corrections`) and limits what was lost
(`pair.limit_rebilled`). To add a cause, see `lore.judge.rules`. The causes are those of the first stage of
`lore.judge.rules` that has some: the shape of both requests; their bytes (`lore.prefix.causes`), unless the clock or
the place explains a break in them; if only usage shows a break, the table of evidence. A pause longer than the cache
lives explains changed bytes and a fallen read alike.

Of all rows of the table of evidence (`FALLS`) that apply, the first strong one leads; weak evidence leads only if
nothing strong applies, and is never waste. A verdict of the provider that the client changed a section comes before
weak evidence, and before causes of other sections (right about the section in 175 of 175); those are shown as
contradicted. If no row applies, the cause is LORE301 or LORE130, with everything that was ruled out (`unexplained`).
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice

from msgspec.structs import replace

from lore.cache import counts
from lore.cache.served import served_by
from lore.judge import rules
from lore.judge.pairs import finders as find
from lore.judge.pairs.corrections import PairMeasures, Remarks
from lore.judge.pairs.pair import (
    CLIENT_SECTIONS,
    NO_SIGNAL,
    Pair,
    PairFacts,
    Tally,
    can_lead,
    count_lost_bytes,
    is_remark,
    limit_rebilled,
    provider_cause,
)
from lore.judge.pairs.rewrites import ReplacedTail, find_rewind, has_answer_in_text
from lore.judge.pairs.unexplained import unexplained
from lore.model import evidence as e
from lore.model.cause import Cause, RuledOut
from lore.model.codes import CODES, Code
from lore.model.differences import TextChanged, ThinkingChanged
from lore.model.providers import ENGINES, has_exact_breakpoints
from lore.prefix.causes import find_causes, recorded_causes
from lore.prefix.overlap import ChainSums, byte_size, count_cached_segments, locate_difference

_SECTIONS = ("tools", "system", "messages")  # in the order in which caches compare them
_OFTEN = 4  # times that a session has shown a signal before its reads after the signal count as evidence against it
_COUNTED = "teammate"  # a signal of versions whose falls were counted: other turns of the session say nothing


def judge_pair(
    facts: PairFacts, measured: ChainSums, remarks: Remarks, tail: ReplacedTail | None
) -> Pair:  # fmt: skip
    """Return the verdict on two turns.

    `measured` has the bytes of the previous prompt, and is advanced to the current one. `tail` was removed from the
    previous prompt. `remarks` are those that the chain has so far.
    """
    previous, current, overlap = facts.previous, facts.current, facts.overlap
    tail_bytes, cacheable = measured.tail, measured.sum_before(count_cached_segments(previous.prompt))
    causes = tuple(
        [replace(cause, lost=count_lost_bytes(facts, measured, cause, cacheable)) for cause in _collect_causes(facts)]
    )
    sums = measured.advance(current.prompt, overlap.common)
    per_token = counts.bytes_per_token(current, sums.current)
    measures = PairMeasures(facts, sums, cacheable, per_token, tail, remarks)
    for row in rules.ADJUSTMENTS.rows:
        causes = row.ask(measures, causes)
    causes = tuple([  # usage and clocks show no place from which on bytes were lost
        replace(cause, lost=0) if cause.strength != "certain" or is_remark(cause) else cause
        for cause in causes
    ])  # fmt: skip
    if current.fidelity in ("reconstructed", "hashed"):  # such bytes were never sent
        causes = tuple([replace(old, strength="strong") if old.strength == "certain" else old for old in causes])
    rebilled, cached = limit_rebilled(facts, causes, sums, per_token), counts.cached(previous.usage)
    return Pair(
        previous, current, overlap, sums, tail_bytes, causes, facts.fell, facts.short, per_token, cached, rebilled
    )  # fmt: skip


def _collect_causes(facts: PairFacts) -> tuple[Cause, ...]:
    """Return the causes of the first stage that has some, reconsidered by the provider's verdict and other facts."""
    causes = _limit_by_verdict(facts, _find_in_first_stage(facts))
    for row in rules.RECONSIDERED.rows:
        causes = row.ask(facts, causes)
    return causes


def _find_in_first_stage(facts: PairFacts) -> tuple[Cause, ...]:
    """Return the causes that the shape of both requests shows; if none, the bytes; if none, the fallen read."""
    shape = first_cause(facts, rules.SHAPES.rows)
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
    previous, current, fell = facts.previous, facts.current, facts.fell
    all_read = counts.read_everything(previous, current)
    # how many cached tokens the read missed: a fall within the tolerance needs no cause, but is the loss of one
    unread, bills_writes = None, counts.bills_writes(previous)  # None: usage cannot show that nothing was missed
    if counts.can_show_losses(previous) and (fell or all_read or bills_writes):
        # without reported writes a read that did not fall may still leave a part of the previous prompt unread
        missed = counts.shortfall(previous, current) or 0
        unread = missed if fell == 0 and bills_writes and missed >= counts.block_tokens(previous) else fell
    causes = find_causes(
        previous.prompt, current.prompt, facts.overlap, current.changes,
        previous_call=previous.call, current_call=current.call,
        pause=None if previous.at is None or current.at is None else current.at - previous.at,
        fell=unread, all_read=facts.comparable and all_read,
    )  # fmt: skip
    omitted = find.find_dropped_thinking(facts) if facts.omits_thinking else None
    if omitted is not None:  # the client only leaves out what the model would not have read
        causes = tuple([
            replace(cause, code=Code.REASONING_DROPPED_BY_TEMPLATE, evidence=omitted, override="expected")
            if isinstance(cause.evidence, ThinkingChanged) and cause.evidence.change == "gone" else cause
            for cause in causes
        ])  # fmt: skip
    # an engine that reads nothing although two prompts begin alike loses nothing by a change
    is_silent = facts.read == 0 == counts.cached(previous.usage) and served_by(previous).provider in ENGINES
    if is_silent and not facts.overlap.is_covered:
        shared = [*islice(previous.prompt, facts.overlap.common)]
        place = locate_difference(previous.prompt, current.prompt, facts.overlap.common)
        if place is not None and place.section == "system":  # templates write tools before or after the system prompt
            shared = [segment for segment in shared if segment.section == "system"]
        size = sum(map(byte_size, shared)) + facts.overlap.common_bytes
        if size / counts.BYTES_PER_TOKEN > counts.TOLERANCE_TOKENS:
            causes = tuple([
                replace(entry, override="expected", qualifiers=(*entry.qualifiers, "nothing-lost")) for entry in causes
            ])  # fmt: skip
    codes = {cause.code for cause in causes if not is_remark(cause)}
    if codes == {Code.PREFIX_MOVED} and causes[0].section == "messages" and not current.is_rebuilt:
        begin = previous.prompt.messages.common(current.prompt.messages)
        evidence = causes[0].evidence
        if isinstance(evidence, TextChanged) and not evidence.what and has_answer_in_text(previous, current):
            return (replace(causes[0], evidence=replace(evidence, what="history")), *causes[1:])
        edited = find_rewind(previous.prompt, current.prompt, begin, is_edit=True)
        return causes if edited is None else (edited,)
    return causes


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


# a read that fell although the prompt continues


def first_cause(facts: PairFacts, rows: Iterable[rules.EvidenceRule]) -> Cause | None:
    """Return the cause of the first row that applies."""
    causes = (row.explain(facts) for row in rows)
    return next((cause for cause in causes if cause is not None), None)


def explain_by_clock(facts: PairFacts) -> Cause:
    """Return the cause of a fallen read by the clock, else the unexplained one.

    Used if the log's history is not the one that was sent, so that nothing else can be compared.
    """
    return first_cause(facts, rules.BY_CLOCK) or unexplained(facts)


def explain_fall(facts: PairFacts) -> tuple[Cause, ...]:
    """Return the cause of a read that fell although the prompt continues; also a verdict that the read contradicts.

    The other causes with evidence are in its `also`, and those that the read contradicts in its `ruled_out`.
    """
    possible, ruled_out = _evaluate(facts)
    disputed = _dispute_verdict(facts)
    ranked = _rank(possible, provider_cause(facts), is_disputed=disputed is not None)
    lead = replace(ranked[0], also=tuple(ranked[1:])) if ranked else unexplained(facts)
    dropped = find.find_dropped_reasoning(facts, is_missed=True)
    if dropped is not None and lead.code == Code.CACHE_EXPIRED:
        lead = replace(lead, also=(*lead.also, Cause(Code.REASONING_DROPPED_BY_TEMPLATE, "messages", dropped)))
    lead = replace(lead, ruled_out=(*lead.ruled_out, *ruled_out))
    return (lead,) if disputed is None else (lead, disputed)


def _evaluate(facts: PairFacts) -> tuple[list[Cause], list[RuledOut]]:
    """Ask every row of `rules.FALLS`; return the causes that are possible, and the reasons against the others.

    A cause is ruled out by the read, or by the session: most reads after its weak signal did not fall, or most of those
    without any signal fell, too.
    """
    possible: list[Cause] = []
    ruled_out: list[RuledOut] = []
    for rule in rules.FALLS.rows:
        cause = rule.explain(facts)
        if cause is None:
            continue
        name = CODES[cause.code].name
        contradiction = None if rule.ruled_out_by is None else rule.ruled_out_by(facts)
        signal = cause.evidence.sign if isinstance(cause.evidence, e.SignSeen) and cause.strength == "weak" else ""
        tally, others = facts.tallies.get(signal) if signal else None, facts.tallies.get(NO_SIGNAL, Tally())
        if contradiction is not None:
            ruled_out.append(replace(contradiction, reason=f"{name}: {contradiction.reason}"))
        elif tally is not None and tally.times >= _OFTEN and 2 * tally.fell < tally.times:
            reason = f"{name}: reads fell after it before"
            ruled_out.append(RuledOut(reason, out=True, count=tally.fell, limit=tally.times))
        elif signal not in ("", _COUNTED) and others.times >= _OFTEN and 2 * others.fell >= others.times:
            reason = f"{name}: reads fell without it as well"
            ruled_out.append(RuledOut(reason, out=True, count=others.fell, limit=others.times))
        else:
            possible.append(cause)
    return possible, ruled_out


def _rank(causes: list[Cause], verdict: Cause | None, *, is_disputed: bool) -> list[Cause]:
    """Return causes in order: expiry, strong ones that the verdict allows, the verdict, weak ones, contradicted ones.

    Expiry is first because an expired entry cannot be read, whatever else changed. "The client changed something"
    without a section follows the verdict, which at least names a section. The section is removed from a disputed
    verdict (the read shows that it is wrong). A verdict names the first section that changed: it contradicts no cause
    in a later one. Without a verdict, strong causes precede weak ones.
    """
    if verdict is None:
        return sorted(causes, key=lambda cause: cause.strength == "weak")
    expired = [cause for cause in causes if cause.code == Code.CACHE_EXPIRED and cause.strength != "weak"]
    if expired:
        return [*expired, *_rank([cause for cause in causes if cause not in expired], verdict, is_disputed=is_disputed)]
    agree = [cause for cause in causes if can_lead(cause.code, cause.section, verdict.section)]
    later = _SECTIONS[_SECTIONS.index(verdict.section) + 1 :] if verdict.section in _SECTIONS else ()
    hidden = [cause for cause in causes if cause not in agree and cause.section in later]
    others = [cause for cause in causes if cause not in (*agree, *hidden)]
    refuted = [replace(cause, qualifiers=(*cause.qualifiers, "contradicted")) for cause in others]
    if isinstance(verdict.evidence, e.ProviderSaid) and refuted:
        contradicts = tuple([str(cause.code) for cause in refuted])
        verdict = replace(verdict, evidence=replace(verdict.evidence, contradicts=contradicts))
    leads = [
        cause for cause in agree
        if cause.strength != "weak" and (cause.code != Code.CLIENT_CAUSE_UNKNOWN or cause.section is not None)
    ]  # fmt: skip
    verdict = replace(verdict, section=None) if is_disputed else verdict
    return [*leads, verdict, *(cause for cause in agree if cause not in leads), *hidden, *refuted]


def _limit_by_verdict(facts: PairFacts, causes: tuple[Cause, ...]) -> tuple[Cause, ...]:
    """Return the causes that a byte comparison found, with a cause first that agrees with the provider's verdict.

    Only a prompt that was rebuilt from a transcript is limited: its bytes were never sent, so they may differ where the
    request did not. If none of the causes agrees, one cause leads that does, or the verdict itself, and they are in its
    `also` as contradicted. Bytes from the wire are certain: then a cause may lead that the verdict contradicts (and
    LORE302 reports the difference).
    """
    verdict = provider_cause(facts) if facts.fell and facts.current.is_rebuilt else None
    if verdict is None or not causes or any(can_lead(cause.code, cause.section, verdict.section) for cause in causes):
        return causes
    codes, disputed = {cause.code for cause in causes}, _dispute_verdict(facts)
    more = [cause for cause in _evaluate(facts)[0] if cause.code not in codes]
    fitting = [cause for cause in more if can_lead(cause.code, cause.section, verdict.section)]
    lead, *others = _rank([*causes, *fitting], verdict, is_disputed=disputed is not None)
    return (replace(lead, also=tuple(others)), *([] if disputed is None else [disputed]))


def _dispute_verdict(facts: PairFacts) -> Cause | None:
    """Return the remark that the verdict is wrong: the read includes tools and system prompt, which it says differ."""
    verdict, head_read = facts.verdict, find.head_was_read(facts)
    if verdict is None or CLIENT_SECTIONS.get(verdict.reason) not in ("tools", "system") or head_read is None:
        return None
    evidence = e.Disputed("head-was-read", verdict.reason, round(head_read.limit or 0), facts.read)
    return Cause(Code.VERDICT_DISAGREES, None, evidence)
