"""Why a read fell although the prompt continues: every row of the table of evidence is tried, and causes are ranked.

The table is `FALLS` in `lore.judge.rules`. What the log itself records (a compaction, a rewind, other tools:
`lore.prefix.causes`) needs no row, and is returned before it is asked. Of all rows that apply, the first strong one
leads; weak evidence leads only if nothing strong applies, and is never waste. A verdict of the provider that the client
changed a section comes before weak evidence, and before causes of other sections (right about the section in 175 of
175); those are shown as contradicted. If no row applies, the cause is LORE301 or LORE130, with everything that was
ruled out (`unexplained`).
"""

from __future__ import annotations

from collections.abc import Iterable

from msgspec.structs import replace

from lore.judge import rules
from lore.judge.pairs import finders as find
from lore.judge.pairs.pair import CLIENT_SECTIONS, PairFacts
from lore.judge.pairs.rule import EvidenceRule, can_lead, provider_cause
from lore.judge.pairs.unexplained import unexplained
from lore.model import evidence as e
from lore.model.cause import Cause, RuledOut
from lore.model.codes import CODES, Code


def first_cause(facts: PairFacts, rows: Iterable[EvidenceRule]) -> Cause | None:
    """Return the cause of the first row that applies."""
    causes = (row.explain(facts) for row in rows)
    return next((cause for cause in causes if cause is not None), None)


def attribute(facts: PairFacts) -> Cause:
    """Return why the read fell; `also` has other evidence, `ruled_out` the causes that the read contradicts."""
    possible, ruled_out = _evaluate(facts)
    ranked = _rank(possible, provider_cause(facts), is_disputed=dispute_verdict(facts) is not None)
    lead = replace(ranked[0], also=tuple(ranked[1:])) if ranked else unexplained(facts)
    dropped = find.find_dropped_reasoning(facts, is_missed=True)
    if dropped is not None and lead.code == Code.CACHE_EXPIRED:
        lead = replace(lead, also=(*lead.also, Cause(Code.REASONING_DROPPED_BY_TEMPLATE, "messages", dropped)))
    return replace(lead, ruled_out=(*lead.ruled_out, *ruled_out))


def _evaluate(facts: PairFacts) -> tuple[list[Cause], list[RuledOut]]:
    """Try every row; return the causes that the read allows, and its evidence against the others."""
    possible: list[Cause] = []
    ruled_out: list[RuledOut] = []
    for rule in rules.FALLS:
        cause = rule.explain(facts)
        if cause is not None:
            contradiction = _rule_out(rule, facts, cause)
            if contradiction is None:
                possible.append(cause)
            else:
                ruled_out.append(contradiction)
    return possible, ruled_out


_OFTEN = 4  # times that a session has shown a signal before its reads after the signal count as evidence against it


def _rule_out(rule: EvidenceRule, facts: PairFacts, cause: Cause) -> RuledOut | None:
    """Return what the read shows against a cause, or that most of the session's reads did not fall after its signal."""
    name = CODES[cause.code].name
    contradiction = None if rule.ruled_out_by is None else rule.ruled_out_by(facts)
    if contradiction is not None:
        return replace(contradiction, reason=f"{name}: {contradiction.reason}")
    signal = cause.evidence.sign if isinstance(cause.evidence, e.SignSeen) and cause.strength == "weak" else ""
    tally = facts.tallies.get(signal)
    if tally is None or tally.times < _OFTEN or 2 * tally.fell >= tally.times:
        return None
    return RuledOut(f"{name}: reads fell after it before", out=True, count=tally.fell, limit=tally.times)


def _rank(causes: list[Cause], verdict: Cause | None, *, is_disputed: bool) -> list[Cause]:
    """Return causes in order: expiry, strong ones that the verdict allows, the verdict, weak ones, contradicted ones.

    Expiry is first because an expired entry cannot be read, whatever else changed. "The client changed something"
    without a section follows the verdict, which at least names a section. The section is removed from a disputed
    verdict (the read shows that it is wrong). Without a verdict, strong causes precede weak ones.
    """
    if verdict is None:
        return sorted(causes, key=lambda cause: cause.strength == "weak")
    expired = [cause for cause in causes if cause.code == Code.CACHE_EXPIRED and cause.strength != "weak"]
    if expired:
        return [*expired, *_rank([cause for cause in causes if cause not in expired], verdict, is_disputed=is_disputed)]
    agree = [cause for cause in causes if can_lead(cause.code, cause.section, verdict.section)]
    refuted = [replace(cause, qualifiers=(*cause.qualifiers, "contradicted")) for cause in causes if cause not in agree]
    if isinstance(verdict.evidence, e.ProviderSaid) and refuted:
        contradicts = tuple([str(cause.code) for cause in refuted])
        verdict = replace(verdict, evidence=replace(verdict.evidence, contradicts=contradicts))
    leads = [
        cause for cause in agree
        if cause.strength != "weak" and (cause.code != Code.CLIENT_CAUSE_UNKNOWN or cause.section is not None)
    ]  # fmt: skip
    verdict = replace(verdict, section=None) if is_disputed else verdict
    return [*leads, verdict, *(cause for cause in agree if cause not in leads), *refuted]


def limit_by_verdict(facts: PairFacts, causes: tuple[Cause, ...]) -> tuple[Cause, ...]:
    """Return the causes that a byte comparison found, with a cause first that agrees with the provider's verdict.

    Only a prompt that was rebuilt from a transcript is limited: its bytes were never sent, so they may differ where the
    request did not. If none of the causes agrees, one cause leads that does, or the verdict itself, and they are in its
    `also` as contradicted. Bytes from the wire are certain: then a cause may lead that the verdict contradicts (and
    LORE302 reports the difference).
    """
    verdict = provider_cause(facts) if facts.fell and facts.current.is_rebuilt else None
    if verdict is None or not causes or any(can_lead(cause.code, cause.section, verdict.section) for cause in causes):
        return causes
    codes, disputed = {cause.code for cause in causes}, dispute_verdict(facts)
    fitting = [
        cause for cause in _evaluate(facts)[0]
        if cause.code not in codes and can_lead(cause.code, cause.section, verdict.section)
    ]  # fmt: skip
    lead, *others = _rank([*causes, *fitting], verdict, is_disputed=disputed is not None)
    return (replace(lead, also=tuple(others)), *([] if disputed is None else [disputed]))


def dispute_verdict(facts: PairFacts) -> Cause | None:
    """Return that the read contradicts the verdict: it includes the tools and system prompt that are said to differ."""
    verdict, head_read = facts.verdict, find.head_was_read(facts)
    if verdict is None or CLIENT_SECTIONS.get(verdict.reason) not in ("tools", "system") or head_read is None:
        return None
    evidence = e.Disputed("head-was-read", verdict.reason, round(head_read.limit or 0), facts.read)
    return Cause(Code.VERDICT_DISAGREES, None, evidence)


def explain_unread(facts: PairFacts) -> Cause | None:
    """Return why a log's turn missed the cache; the caller knows that it and the previous one read nothing.

    None if its cache has breakpoints or its history changed.
    """
    state = facts.state
    if state is None or not state.implicit or state.unchanged < state.entries:
        return None
    return explain_by_clock(facts)


def explain_by_clock(facts: PairFacts) -> Cause:
    """Return the cause of a fallen read by the clock, else the unexplained one.

    For a log whose history is not the one that was sent.
    """
    return first_cause(facts, rules.BY_CLOCK) or unexplained(facts)
