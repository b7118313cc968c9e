"""Why a read fell although the prompt continues: one table of evidence, asked from top to bottom.

`RULES` has one row for each kind of evidence: the cause that it explains, how to find it, how strong it is, what
confirms it, what rules it out, and why: how often reads fell with it, and who counted. Figures without a source are
from `facts/measured.md`: 958 drops of over 1,000 tokens in 38,782 transitions of 769 Claude Code sessions, where 1 % of
all reads fell; "right" counts findings that were checked by hand (`facts/predictions.md`, `facts/verdicts.md`).

What the log itself records (a compaction, a rewind, other tools: `lore.prefix.causes`) needs no row, and is returned
before the table is asked. Of all rows that apply, the first strong one leads; weak evidence leads only if nothing
strong applies, and is never waste. A verdict of the provider that the client changed a section comes before weak
evidence, and before causes of other sections (right about the section in 175 of 175); those are shown as contradicted.
If no row applies, the cause is LORE301 or LORE130, with everything that was ruled out (`unexplained`).

To add a cause: add a row, its evidence struct in `lore.model.evidence` with a finder, and a test.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from lore.judge.pairs import finders as find
from lore.judge.pairs.pair import CLIENT_SECTIONS, PairFacts
from lore.judge.pairs.unexplained import unexplained
from lore.model import evidence as e
from lore.model.cause import Cause, RuledOut, Strength
from lore.model.codes import CODES, CauseKind, Code

_Check: TypeAlias = Callable[[PairFacts, Cause], bool]


class EvidenceRule(Struct, frozen=True):
    """A row: one kind of evidence that explains a fallen read."""

    code: Code  # the cause; a finder that returns a whole cause names it itself
    find: find.Find  # returns the evidence if the recording shows it
    why: str  # how often reads fell with this evidence, or were right to be explained by it, and the source
    strength: Strength = "strong"
    confirmed_by: tuple[_Check, ...] = ()  # second kinds of evidence: any of them makes a weak cause strong, and waste
    ruled_out_by: Callable[[PairFacts], RuledOut | None] | None = None  # what the read itself shows against it
    section: str | None = None  # the section that the cause is about, if it is not the code's
    kind: CauseKind | None = None  # the kind, if it is not the code's

    def explain(self, facts: PairFacts) -> Cause | None:
        """Return the cause if there is evidence for it, with the strength and kind that the evidence has."""
        found = self.find(facts)
        if found is None:
            return None
        if not isinstance(found, Cause):
            found = Cause(self.code, self.section or CODES[self.code].section, found)
        is_waste = CODES[found.code].kind == "waste"
        if any(confirms(facts, found) for confirms in self.confirmed_by):
            return replace(found, strength="strong", override=None if is_waste else "waste")
        strength = "weak" if _is_doubtful(found.evidence) else self.strength
        kind = self.kind or ("unattributable" if strength == "weak" and is_waste else None)
        return replace(found, strength=strength, override=kind or found.override)


def _is_doubtful(evidence: e.Evidence) -> bool:
    """Return whether evidence is weak in whichever rule uses it, as its own numbers do not confirm it.

    The read is not exactly what precedes the dropped reasoning or hook text, no smaller total confirms omitted
    thinking, or the provider may have removed the content itself.
    """
    match evidence:
        case e.ReasoningDropped() | e.HookText():
            return not evidence.exact
        case e.ThinkingOmitted():
            return evidence.tokens_before is None
        case e.TotalShrank():
            return evidence.unsure
        case _:
            return False


# second kinds of evidence


def _verdict_agrees(facts: PairFacts, cause: Cause) -> bool:
    """Return whether the provider says that the client changed the section of the cause."""
    verdict = provider_cause(facts)
    return verdict is not None and fits(cause.code, cause.section, verdict.section)


_LITTLE = 128  # tokens of the tools that a search found


def _read_head_alone(facts: PairFacts, _: Cause, most: int = 0) -> bool:
    """Return whether the read is the head that other conversations keep in the cache, or up to `most` tokens more."""
    head = None if facts.state is None else facts.state.shared_head
    return head is not None and facts.read is not None and 0 <= facts.read - head <= most


def _fell_each_time(facts: PairFacts, cause: Cause) -> bool:
    """Return whether this session showed the cause's signal at least twice before, and its reads fell each time."""
    signal = cause.evidence.sign if isinstance(cause.evidence, e.SignSeen) else "tools-delta"
    tally = facts.shown.get(signal)
    return tally is not None and tally.fell == tally.seen >= 2


def _surely_restarted(facts: PairFacts, _: Cause) -> bool:
    """Return whether the log records that the client's process ended or began, or has two kinds of signals of it."""
    restart = find.signal_of(facts, "restart")
    names = () if restart is None else restart.names
    others = (find.signal_of(facts, name) for name in ("resume", "client-version"))
    return len(names) > 1 or not _UNSURE.issuperset(names) or any(others)


def _read_up_to_skill(facts: PairFacts, _: Cause) -> bool:
    skill = find.state_signal(facts, "skill")
    return skill is not None and facts.read is not None and facts.read == skill.read_if_moved


# Tool servers that are not connected: a process began, or a server dropped out. A desktop app's process had ended: 8 of
# 14 reads fell (47 public sessions).
_UNSURE = frozenset(("pendingMcpServers", "last-prompt"))
_HEAD, _MISSED_HEAD = find.head_was_read, find.head_was_missed

# The rows that also explain a break in the bytes.
EXPIRED = EvidenceRule(
    Code.CACHE_EXPIRED, find.find_expiry,
    "411 of 958 drops. Of five-minute entries 7 % outlived 2 % of grace, of one-hour entries 2 of 108.",
    ruled_out_by=find.old_entry_was_read,
)  # fmt: skip
POSSIBLY_EXPIRED = EvidenceRule(
    Code.CACHE_EXPIRED, find.find_possible_expiry,
    "411 of 958 drops; neither usage nor the provider's documents show how long the entries live. After over an hour 7 "
    "of 7 reads fell in OpenAI's caches up to GPT-5.5, which promise 24 hours at most.",
    "weak", ruled_out_by=find.old_entry_was_read,
)  # fmt: skip
PARALLEL = EvidenceRule(
    Code.PARALLEL_START, find.find_parallel_start,
    "An entry can be read once the response that writes it has begun (platform.claude.com, prompt caching).",
)  # fmt: skip
OTHER_ENDPOINT = EvidenceRule(
    Code.ENDPOINT_CHANGED, find.find_other_endpoint,
    "Caches are separate for each host, workspace and key (facts/caches.md, B.1 and B.6).",
)  # fmt: skip
OTHER_PROVIDER = EvidenceRule(
    Code.ENDPOINT_CHANGED, find.find_other_provider,
    "Caches are separate for each provider (facts/caches.md, B.1); the log names both.",
    kind="expected",
)  # fmt: skip
NAMED_ROUTE = EvidenceRule(
    Code.ROUTED_ELSEWHERE, find.find_named_route,
    "5 of 5 right in captures (facts/predictions.md): the router's field, or another provider's call ids.",
)  # fmt: skip
MISSING_ANSWERS = EvidenceRule(
    Code.ROUTED_ELSEWHERE, find.find_missing_answers,
    "11 of 11 misses past the lookback were this (facts/verdicts.md), but a recording may be cut.",
    "weak",
)  # fmt: skip


def _weak(
    code: Code, signal: str, why: str, ruled_out_by: Callable[[PairFacts], RuledOut | None] | None = None, *,
    kind: CauseKind | None = None, confirmed_by: tuple[_Check, ...] = (),
) -> EvidenceRule:  # fmt: skip
    """Return the row of a signal of the log that alone is weak evidence."""
    return EvidenceRule(code, partial(find.find_signal, signal), why, "weak", confirmed_by, ruled_out_by, kind=kind)


RULES: tuple[EvidenceRule, ...] = (
    EvidenceRule(Code.MODEL_CHANGED, find.find_other_model, "11 of 958 drops; no model reads what another one cached."),
    EXPIRED,
    PARALLEL,
    OTHER_PROVIDER,
    OTHER_ENDPOINT,
    NAMED_ROUTE,
    EvidenceRule(
        Code.COMPACTION, find.find_provider_edit,
        "The response lists the edits, or holds a summary that only the provider can read (facts/verdicts.md, 9).",
        ruled_out_by=_MISSED_HEAD,
    ),
    EvidenceRule(
        Code.COMPACTION, find.find_provider_cut,
        "Fewer tokens were billed for a longer prompt, and the request allows that; no word of the response says so.",
        "weak", ruled_out_by=_MISSED_HEAD,
    ),
    EvidenceRule(
        Code.TOOL_RESULT_REWRITTEN, find.find_cleared_results,
        "8 of 8 micro-compactions that name results fell; of those that name none 4 of 12.",
    ),
    *(
        EvidenceRule(
            code, partial(find.find_moved_hashes, section), f"The client's own hashes of its {section} differ.",
            ruled_out_by=against,
        )
        for code, section, against in (
            (Code.TOOLS_ADDED_OR_REMOVED, "tools", _HEAD), (Code.PREFIX_MOVED, "system", _HEAD),
            (Code.PREFIX_MOVED, "messages", _MISSED_HEAD),
        )
    ),
    EvidenceRule(
        Code.CLIENT_UPDATED, partial(find.find_signal, "client-version"),
        "2 of 2 fell; a new version has another system prompt. 2 of 2 right (facts/predictions.md).",
        ruled_out_by=_HEAD,
    ),
    EvidenceRule(
        Code.GENERATION_SETTINGS_CHANGED, partial(find.find_signal, "effort"),
        "3 of 3 fell; each effort has cache entries of its own. 3 of 3 right (facts/predictions.md).",
    ),
    EvidenceRule(
        Code.GENERATION_SETTINGS_CHANGED, partial(find.find_signal, "thinking"),
        "36 of 249 falls that nothing else explained (facts/predictions.md), 105 of 113 with a skill, command or plan "
        "(`formats.claude.records`): each setting has entries of its own.",
    ),
    EvidenceRule(
        Code.GENERATION_SETTINGS_CHANGED, partial(find.find_signal, "streaming"),
        "23 of 23 fell, each to what the last request of the same kind left: 399 public sessions of Claude Code, which "
        "asks without streaming after errors.",
        kind="expected",
    ),
    EvidenceRule(
        Code.HOOK_TEXT_MOVED, find.find_hook_text,
        "41 of 42 fell at a new prompt of the user (facts/verdicts.md, 7). 38 of 40 right (facts/predictions.md). Weak "
        "if the read does not end at the hook's text.",
        confirmed_by=(_verdict_agrees,), ruled_out_by=_MISSED_HEAD,
    ),
    EvidenceRule(
        Code.REASONING_DROPPED_BY_TEMPLATE, find.find_dropped_reasoning,
        "352 of 573 fell at a new prompt, in Codex (`cache.falls`). Weak if more was read than precedes the reasoning.",
        ruled_out_by=_MISSED_HEAD,
    ),
    EvidenceRule(
        Code.REASONING_DROPPED_BY_TEMPLATE, find.find_template_drop,
        "Chat templates of Qwen3, DeepSeek V3.1, GLM-4.5, Kimi K2 and gpt-oss omit what the model thought before the "
        "user's latest prompt. Weak if the read does not end at the first of it.",
    ),
    EvidenceRule(
        Code.REASONING_DROPPED_BY_TEMPLATE, find.find_dropped_thinking,
        "16 of 40 prompts that shrank (facts/predictions.md): models that omit earlier thinking (`drops_thinking`). "
        "Weak if the prompt grew by more.",
        ruled_out_by=_MISSED_HEAD,
    ),
    EvidenceRule(
        Code.REWIND, find.find_shorter_history,
        "The history of the log is shorter than it was, or differs from some entry on.",
        ruled_out_by=_MISSED_HEAD,
    ),
    EvidenceRule(
        Code.CLIENT_RESTARTED, partial(find.find_signal, "restart"),
        "7 of 8 fell with tool servers still connecting (facts/verdicts.md, 6). 18 of 21 right (facts/predictions.md).",
        "weak", ruled_out_by=_HEAD,
        confirmed_by=(_surely_restarted, _read_head_alone, _fell_each_time, _verdict_agrees),
    ),
    EvidenceRule(
        Code.RESUME_RERENDERED, find.find_resume,
        "67 % fell in Claude Code; in Codex 117 of 236, and 123 of 233 without it (facts/predictions.md). If its "
        "prompt shrank, it was rendered again.",
        "weak", confirmed_by=(lambda facts, _: find.find_removed(facts) is not None,),
    ),
    EvidenceRule(
        Code.CLIENT_CAUSE_UNKNOWN, find.find_removed,
        "78 of 78 prompts that shrank by over 1,000 tokens fell (facts/verdicts.md, 1), 4 of 4 by 128 to 1,000. 16 of "
        "40 that were called cleared results were it (facts/predictions.md). Weak if the provider may omit content.",
    ),
    EvidenceRule(
        Code.TOOL_RESULT_REWRITTEN, find.find_cleared_content,
        "9 of 958 drops; of micro-compactions that name no result 4 of 12 fell. Images are cleared without a name.",
        "weak", confirmed_by=(_verdict_agrees,), ruled_out_by=_MISSED_HEAD,
    ),
    EvidenceRule(
        Code.OLDER_ENTRY_SERVED, find.find_older_entry,
        "21 of 958 drops: 8 of 50 within 2.5 seconds, 0 of 139 at 3 to 10 seconds.",
    ),
    MISSING_ANSWERS,
    EvidenceRule(
        Code.LOOKBACK_EXCEEDED, partial(find.find_far_entry, is_cut=False),
        "8 of 9 requests with 21 or more new positions missed, 5 of 5 with 16 to 20 did not.",
        kind="waste", ruled_out_by=_MISSED_HEAD,
    ),
    EvidenceRule(
        Code.LOOKBACK_EXCEEDED, partial(find.find_far_entry, is_cut=True),
        "0 of 11 right if answers between the two are missing (facts/verdicts.md): their requests had breakpoints.",
        "weak", ruled_out_by=_MISSED_HEAD,
    ),
    EvidenceRule(
        Code.DEFERRED_TOOLS_LOADED, partial(find.find_counted_signal, "tool-reference"),
        "20 of 21 fell from 2.1.119 to 2.1.207, 1 of 28 later (facts/verdicts.md, 7). 22 of 22 right "
        "(facts/predictions.md), 22 of 22 fell in 348 other sessions, most to 93 tokens after the head.",
        "weak", ruled_out_by=_HEAD,
        confirmed_by=(partial(_read_head_alone, most=_LITTLE), _fell_each_time, _verdict_agrees),
    ),
    EvidenceRule(
        Code.ANSWER_WITHOUT_THINKING, partial(find.find_counted_signal, "no-thinking"),
        "26 of 27 fell at a new prompt, Opus and Sonnet 4.5 (facts/verdicts.md, 7).",
        "weak", confirmed_by=(_fell_each_time, _verdict_agrees), ruled_out_by=_MISSED_HEAD,
    ),
    EvidenceRule(
        Code.ANSWER_WITHOUT_THINKING, find.find_first_without_thinking,
        "23 of 23 fell, 22 of them to the head: Claude Code 2.1.32 to 2.1.37 with Opus 4.6 (facts/predictions.md).",
        "weak", confirmed_by=(_read_head_alone, _verdict_agrees),
    ),
    EvidenceRule(
        Code.SKILL_LOADED, find.find_delayed_skill,
        "31 of 42 fell at the prompt after the skill, before 2.1.59 (facts/verdicts.md, 7). 13 of 15 right "
        "(facts/predictions.md).",
        "weak", confirmed_by=(_read_up_to_skill,), ruled_out_by=_MISSED_HEAD,
    ),
    _weak(
        Code.TOOLS_ADDED_OR_REMOVED, "tools-delta",
        "10 of 67 fell: deferred tools are outside the prefix, and whatever changes the head leaves the same read.",
        _HEAD, confirmed_by=(_fell_each_time, _verdict_agrees),
    ),
    _weak(
        Code.TOOLS_ADDED_OR_REMOVED, "remote-control", "2 of 2 fell in Claude Code 2.1.199 and 2.1.217, to 0.",
        _HEAD, confirmed_by=(_verdict_agrees,),
    ),
    POSSIBLY_EXPIRED,
    _weak(Code.ERROR_BETWEEN, "api-error", "9 of 18 fell."),
    _weak(Code.SLASH_COMMAND, "slash-command", "23 of 52 fell.", _MISSED_HEAD),
    _weak(Code.DATE_IN_PREFIX, "date", "0 of 3 fell."),
    _weak(Code.MEMORY_IN_PREFIX, "memory", "19 % fell at a new prompt, 9.5 % without it."),
    _weak(Code.SESSION_CHANGED, "instructions", "19 % fell at a new prompt, 9.5 % without.", kind="unattributable"),
    _weak(Code.PERMISSION_MODE_CHANGED, "permission-mode", "8 of 32 fell.", _HEAD),
    _weak(Code.INTERRUPTED, "interrupt", "19 of 100 fell.", _MISSED_HEAD),
    _weak(
        Code.SERVER_INSTRUCTIONS_CHANGED, "instructions-delta",
        "15 % fell. 3 of 3 that were called a restart were a server that dropped out (facts/predictions.md).",
        _HEAD, confirmed_by=(_verdict_agrees,),
    ),
    _weak(Code.SKILL_LOADED, "skill", "25 of 958 drops; 14 % fell.", _MISSED_HEAD),
)  # fmt: skip


def first_cause(facts: PairFacts, *rules: EvidenceRule) -> Cause | None:
    """Return the cause of the first row that applies."""
    return next((cause for rule in rules if (cause := rule.explain(facts)) is not None), None)


def attribute(facts: PairFacts) -> Cause:
    """Return why the read fell; `also` has other evidence, `ruled_out` the causes that the read contradicts."""
    possible, against = _evaluate(facts)
    ranked = _rank(possible, provider_cause(facts), is_disputed=dispute_verdict(facts) is not None)
    lead = replace(ranked[0], also=tuple(ranked[1:])) if ranked else unexplained(facts)
    dropped = find.find_dropped_reasoning(facts, is_missed=True)
    if dropped is not None and lead.code == Code.CACHE_EXPIRED:
        lead = replace(lead, also=(*lead.also, Cause(Code.REASONING_DROPPED_BY_TEMPLATE, "messages", dropped)))
    return replace(lead, ruled_out=(*lead.ruled_out, *against))


def _evaluate(facts: PairFacts) -> tuple[list[Cause], list[RuledOut]]:
    """Ask every row; return the causes that the read allows, and its evidence against the others."""
    possible: list[Cause] = []
    against: list[RuledOut] = []
    for rule in RULES:
        cause = rule.explain(facts)
        if cause is not None:
            contradiction = _rule_out(rule, facts, cause)
            if contradiction is None:
                possible.append(cause)
            else:
                against.append(contradiction)
    return possible, against


_OFTEN = 4  # times that a session shows a signal before its own reads count against it


def _rule_out(rule: EvidenceRule, facts: PairFacts, cause: Cause) -> RuledOut | None:
    """Return what the read shows against a cause, or that most of the session's reads did not fall after its signal."""
    name = CODES[cause.code].name
    against = None if rule.ruled_out_by is None else rule.ruled_out_by(facts)
    if against is not None:
        return replace(against, reason=f"{name}: {against.reason}")
    signal = cause.evidence.sign if isinstance(cause.evidence, e.SignSeen) and cause.strength == "weak" else ""
    tally = facts.shown.get(signal)
    if tally is None or tally.seen < _OFTEN or 2 * tally.fell >= tally.seen:
        return None
    return RuledOut(f"{name}: reads fell after it before", out=True, count=tally.fell, limit=tally.seen)


# the provider's verdict

# What rewrites tools and system prompt together.
_WHOLE_HEAD = frozenset((Code.CLIENT_UPDATED, Code.CLIENT_RESTARTED, Code.SESSION_CHANGED))


def provider_cause(facts: PairFacts) -> Cause | None:
    """Return the provider's verdict that the client changed something; other verdicts say nothing about the client."""
    verdict = facts.verdict
    section = None if verdict is None else CLIENT_SECTIONS.get(verdict.reason)
    if verdict is None or section is None:
        return None
    return Cause(Code.CLIENT_CAUSE_UNKNOWN, section, verdict, strength="strong")


def fits(code: str, about: str | None, section: str | None) -> bool:
    """Return whether a cause about one section may lead although the provider's verdict names `section`."""
    if section not in CLIENT_SECTIONS.values() or about is None:
        return True
    return section in ("tools", "system") if code in _WHOLE_HEAD else about == section


def _rank(found: list[Cause], verdict: Cause | None, *, is_disputed: bool) -> list[Cause]:
    """Return causes in order: expiry, strong ones that the verdict allows, the verdict, weak ones, contradicted ones.

    Expiry is first because an expired entry cannot be read, whatever else changed. "The client changed something"
    without a section follows the verdict, which at least names a section. The section is removed from a disputed
    verdict (the read shows that it is wrong). Without a verdict, strong causes precede weak ones.
    """
    if verdict is None:
        return sorted(found, key=lambda cause: cause.strength == "weak")
    expired = [cause for cause in found if cause.code == Code.CACHE_EXPIRED and cause.strength != "weak"]
    if expired:
        return [*expired, *_rank([cause for cause in found if cause not in expired], verdict, is_disputed=is_disputed)]
    agree = [cause for cause in found if fits(cause.code, cause.section, verdict.section)]
    against = [replace(cause, qualifiers=(*cause.qualifiers, "contradicted")) for cause in found if cause not in agree]
    if isinstance(verdict.evidence, e.ProviderSaid) and against:
        contradicts = tuple([str(cause.code) for cause in against])
        verdict = replace(verdict, evidence=replace(verdict.evidence, contradicts=contradicts))
    leads = [
        cause for cause in agree
        if cause.strength != "weak" and (cause.code != Code.CLIENT_CAUSE_UNKNOWN or cause.section is not None)
    ]  # fmt: skip
    verdict = replace(verdict, section=None) if is_disputed else verdict
    return [*leads, verdict, *(cause for cause in agree if cause not in leads), *against]


def limit_by_verdict(facts: PairFacts, causes: tuple[Cause, ...]) -> tuple[Cause, ...]:
    """Return the causes that a byte comparison found, with a cause first that agrees with the provider's verdict.

    Only a prompt that was rebuilt from a transcript is limited: its bytes were never sent, so they may differ where the
    request did not. If none of the causes agrees, evidence that does is added, and they follow as contradicted. Bytes
    from the wire are certain: then a cause may lead that the verdict contradicts (and LORE302 reports the difference).
    """
    verdict = provider_cause(facts) if facts.fell and facts.current.is_rebuilt else None
    if verdict is None or not causes or any(fits(cause.code, cause.section, verdict.section) for cause in causes):
        return causes
    codes, disputed = {cause.code for cause in causes}, dispute_verdict(facts)
    fitting = [
        cause for cause in _evaluate(facts)[0]
        if cause.code not in codes and fits(cause.code, cause.section, verdict.section)
    ]  # fmt: skip
    lead, *others = _rank([*causes, *fitting], verdict, is_disputed=disputed is not None)
    return (replace(lead, also=tuple(others)), *([] if disputed is None else [disputed]))


def dispute_verdict(facts: PairFacts) -> Cause | None:
    """Return that the read contradicts the verdict: it includes the tools and system prompt that are said to differ."""
    verdict, found = facts.verdict, find.head_was_read(facts)
    if verdict is None or CLIENT_SECTIONS.get(verdict.reason) not in ("tools", "system") or found is None:
        return None
    evidence = e.Disputed("head-was-read", verdict.reason, round(found.limit or 0), facts.read)
    return Cause(Code.VERDICT_DISAGREES, None, evidence)


def explain_unread(facts: PairFacts) -> Cause | None:
    """Return why a turn read nothing, like the one before it; None if its cache has breakpoints or its history changed.

    The read did not fall, and the cache was missed again.
    """
    state = facts.state
    if state is None or not state.implicit or state.unchanged < state.entries:
        return None
    return explain_by_clock(facts)


def explain_by_clock(facts: PairFacts) -> Cause:
    """Return what the clock says of a read that fell, if the log's history is not the one that was sent."""
    return first_cause(facts, EXPIRED, PARALLEL, POSSIBLY_EXPIRED) or unexplained(facts)
