"""Why a bill fell though the prompt goes on: the log's signs, the clock, the provider, in one order.

In: a pair whose bytes explain no break, and what a level model knew before the bill. Out: the leading cause, with
what else was seen. Rules: strong evidence comes before the provider's verdict, the verdict before weak evidence; of
causes that are as strong, the first in `_LOOKS` leads; a verdict says that the client changed something in a section,
and not what: no cause of another section leads beside it, which is shown as contradicted; what the read itself
contradicts is ruled out; a cause that was found by counting needs a second kind of evidence (the exact level, a
verdict, earlier bills) to be strong; one with weak evidence is never waste; what nothing explains is LORE301, or
LORE130 where a cache has no breakpoints (`unexplained`).

Sources: what explained 958 drops of 38,782 billed transitions, and how likely a drop is where the evidence is there
(`cache.lanes`); verdicts are about the section that they name, in 175 of them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from msgspec.structs import replace

from lore.cache.bills import FIVE_MINUTES, ONE_HOUR, POSITIONS, TOLERANCE_TOKENS, gap, lookback, prompt_tokens
from lore.judge.rewrites import sealed
from lore.judge.signs import BY_COUNT, COUNTED, STRONG, WEAK, confirmed
from lore.judge.unexplained import head_was_read, unexplained
from lore.judge.witnesses import CLIENTS, PairContext, expired, older_entry, parallel, perhaps_expired, rerouted, routed
from lore.model.cause import Cause
from lore.model.codes import CODES, Code
from lore.model.evidence import (
    Disputed,
    EditedByProvider,
    LookbackExceeded,
    ModelChanged,
    Paused,
    ProviderSaid,
    RecordedChange,
    RuledOut,
    SignSeen,
    ToolsAnnounced,
)
from lore.model.turn import Turn

_Look: TypeAlias = Callable[[PairContext], "Cause | None"]


def attribute(context: PairContext) -> Cause:
    """Return why the bill fell; what else was seen stands in its `also`, what the read contradicts in `ruled_out`."""
    found = [cause for look in _LOOKS if (cause := look(context)) is not None]
    reasons = [against_level(context, cause) for cause in found]
    possible = [cause for cause, reason in zip(found, reasons, strict=True) if reason is None]
    ranked = _ranked(possible, _provider(context), doubted=disputed(context) is not None)
    lead = replace(ranked[0], also=tuple(ranked[1:])) if ranked else unexplained(context)
    return replace(lead, ruled_out=(*lead.ruled_out, *filter(None, reasons)))


def _ranked(found: list[Cause], verdict: Cause | None, *, doubted: bool) -> list[Cause]:
    """Put causes into their order: strong ones that a verdict does not contradict, the verdict, the weak ones.

    A verdict that the read contradicts (`doubted`) says of no section that it changed.
    """
    if verdict is None:
        return sorted(found, key=lambda cause: cause.strength == "weak")
    section = verdict.section
    agree = [cause for cause in found if fits(cause.code, cause.section, section)]
    against = [replace(cause, qualifiers=(*cause.qualifiers, "contradicted")) for cause in found if cause not in agree]
    agree = [confirmed(cause) if cause.code in BY_COUNT and cause.section else cause for cause in agree]
    if isinstance(verdict.evidence, ProviderSaid) and against:
        contradicts = tuple([str(cause.code) for cause in against])
        verdict = replace(verdict, evidence=replace(verdict.evidence, contradicts=contradicts))
    leads = [  # but what says less than a verdict: neither what changed, nor in which section
        cause for cause in agree
        if cause.strength != "weak" and (cause.code != Code.CLIENT_CAUSE_UNKNOWN or cause.section is not None)
    ]  # fmt: skip
    verdict = replace(verdict, section=None) if doubted else verdict
    return [*leads, verdict, *(cause for cause in agree if cause not in leads), *against]


def limited(context: PairContext, why: tuple[Cause, ...]) -> tuple[Cause, ...]:
    """Let no cause of a transcript lead that the provider's verdict contradicts: its bytes were never sent.

    What was recorded on the wire is certain: its bytes lead all the same, and LORE302 says that the verdict is another.
    """
    verdict = _provider(context) if context.fell and context.right.is_rebuilt else None
    if verdict is None or not why or any(fits(cause.code, cause.section, verdict.section) for cause in why):
        return why
    seen = [cause for look in _LOOKS if (cause := look(context)) is not None]
    known, doubt = {cause.code for cause in why}, disputed(context)
    fitting = [  # what else was seen that is about the verdict's section
        cause for cause in seen
        if cause.code not in known and fits(cause.code, cause.section, verdict.section)
        and against_level(context, cause) is None
    ]  # fmt: skip
    lead, *beside = _ranked([*why, *fitting], verdict, doubted=doubt is not None)
    return (replace(lead, also=tuple(beside)), *([] if doubt is None else [doubt]))


def disputed(context: PairContext) -> Cause | None:
    """Return that the read contradicts a verdict: it found the tools and system prompt that are said to differ."""
    verdict, seen, read = _provider(context), context.situation, context.read
    if verdict is None or verdict.section not in ("tools", "system") or seen is None:
        return None
    found = None if read is None else head_was_read(seen, read, "")
    if found is None or not isinstance(verdict.evidence, ProviderSaid):
        return None
    evidence = Disputed("head-was-read", verdict.evidence.reason, round(found.limit or 0), read)
    return Cause(Code.VERDICT_DISAGREES, None, evidence)


def against_level(context: PairContext, cause: Cause) -> RuledOut | None:
    """Tell whether the read rules a cause out; None where it does not. What the log records is no guess.

    Other tools or another system prompt leave nothing of the messages: a read that reaches the breakpoint before the
    last, or one further in front, found both as they were. Other messages leave the head: a read below it missed more
    than them. What is read of a history that is older than it lives had not expired.
    """
    read, seen = context.read, context.situation
    if read is None or seen is None or isinstance(cause.evidence, RecordedChange):
        return None
    name = CODES[cause.code].name
    if cause.section in ("tools", "system"):
        return head_was_read(seen, read, name)
    if cause.code == Code.CACHE_EXPIRED and seen.gone is not None and read >= seen.gone:
        name += ": the read reaches a breakpoint that is as old"
        return RuledOut(name, out=True, count=read, limit=seen.gone)
    if cause.section == "messages" and seen.least is not None and read < seen.least:
        name += ": the read falls below tools and system prompt"
        return RuledOut(name, out=True, count=read, limit=seen.least)
    return None


def fits(code: str, about: str | None, section: str | None) -> bool:
    """Tell whether a cause may lead beside a verdict on a section; a client's update rewrites tools and system."""
    if section not in CLIENTS.values() or about is None:
        return True
    if code in _WHOLE_HEAD:
        return section in ("tools", "system")
    return about == section


# What rewrites tools and system prompt together.
_WHOLE_HEAD = frozenset((Code.CLIENT_UPDATED, Code.CLIENT_RESTARTED, Code.SESSION_CHANGED))


def _provider(context: PairContext) -> Cause | None:
    """Take a verdict of the provider that says that the client changed something; others say nothing of the client."""
    verdict = context.verdict
    section = None if verdict is None else CLIENTS.get(verdict.reason)
    if verdict is None or section is None:
        return None
    return Cause(Code.CLIENT_CAUSE_UNKNOWN, section, verdict, strength="strong")


def _change(code: Code) -> _Look:
    def look(context: PairContext) -> Cause | None:
        for change in context.right.changes:
            if change.cause == code:
                return _strong(code, RecordedChange(code, change.detail))
        return None

    return look


def _strong(code: Code, evidence: RecordedChange | SignSeen | ToolsAnnounced | LookbackExceeded) -> Cause:
    return Cause(code, CODES[code].section, evidence, strength="strong")


def _model(context: PairContext) -> Cause | None:
    left, right = context.left.answering_model, context.right.answering_model
    if left == right or left is None or right is None:
        return None
    return Cause(Code.MODEL_CHANGED, "model", ModelChanged(left, right), strength="strong")


def _session(context: PairContext) -> Cause | None:
    found = _change(Code.SESSION_CHANGED)(context)
    if found is not None or context.situation is None or not context.situation.moved_head:
        return found
    return _strong(Code.SESSION_CHANGED, RecordedChange(Code.SESSION_CHANGED, "tools or system prompt differ"))


def _by_hash(section: str) -> _Look:
    def look(context: PairContext) -> Cause | None:
        lead, *others = [cause for cause in context.moved if cause.section == section] or (None,)
        return lead if lead is None else replace(lead, also=tuple(filter(None, others)))

    return look


def _lookback(context: PairContext) -> Cause | None:
    """Return that the last entry is out of reach of every breakpoint."""
    if context.situation is not None:
        reach = context.situation.reach
        if reach <= POSITIONS or lookback(context.right.at).runs:
            return None
        found = LookbackExceeded(reach, POSITIONS, context.fell)
    elif not context.billed or context.right.is_rebuilt:
        return None
    else:
        found = too_far(context)
    elsewhere = None if found is None else routed(context)
    if found is None or (
        elsewhere is not None and elsewhere.strength != "weak"
    ):  # what stands between was written there
        return None
    cause = _strong(Code.LOOKBACK_EXCEEDED, found)
    if elsewhere is not None:  # answers are missing: with their requests breakpoints were sent, here or elsewhere
        return replace(cause, strength="weak")
    return replace(cause, override="waste")  # the bill shows the miss


def _routed(*, weak: bool) -> _Look:
    def look(context: PairContext) -> Cause | None:
        found = routed(context)
        return found if found is not None and (found.strength == "weak") == weak else None

    return look


def too_far(context: PairContext) -> LookbackExceeded | None:
    """Measure how far the last entry is out of reach; None where it is within, or that is not known."""
    found = gap(context.left.prompt, context.right.prompt, context.right.at)
    if found is None or found.new < 0 or not found.exceeded:
        return None
    return LookbackExceeded(found.new, found.allowed, context.fell or None)


def _idle(context: PairContext) -> Cause | None:
    seen = context.situation
    if seen is None or seen.implicit or seen.pause is None:  # nobody asks an implicit cache for an hour
        return None
    if seen.lifetime != ONE_HOUR or not FIVE_MINUTES < seen.pause <= ONE_HOUR:
        return None
    return Cause(Code.IDLE_WITHIN_LIFETIME, "time", Paused(seen.pause, seen.lifetime), strength="weak")


def _edited(context: PairContext) -> Cause | None:
    """Return that the provider itself summed up, cleared or cut the prompt that it was sent.

    That it cut is weak: it was allowed to, and billed fewer tokens, but no word of it says so.
    """
    left, right = context.left, context.right
    if right.basis is not None:
        return None
    item = sealed(left.prompt, right.prompt, len(left.prompt.messages))
    if item is not None:
        return replace(item, strength="strong")
    edits = [edit for edit in right.call.edits or () if edit.tokens != 0]
    found = None
    if edits:
        tokens = sum(edit.tokens or 0 for edit in edits) or None
        found = EditedByProvider("edits", edits=tuple([edit.kind for edit in edits]), tokens=tokens)
    else:
        fewer = prompt_tokens(left.usage) - prompt_tokens(right.usage and right.usage.met)
        if fewer > TOLERANCE_TOKENS and context.found.covered and _asks_to_shorten(right):
            found = EditedByProvider("cut", tokens=fewer)
    return None if found is None else Cause(Code.COMPACTION, "messages", found, strength="strong" if edits else "weak")


def _asks_to_shorten(turn: Turn) -> bool:
    """Tell whether a request lets the provider shorten what is too long, or clear and sum up what is old."""
    params = turn.prompt.params
    management = params.get("context_management", b"")
    return params.get("truncation") == b'"auto"' or b'"compact' in management or b'"clear_' in management


_LOOKS: tuple[_Look, ...] = (
    _change(Code.COMPACTION), _model, expired, parallel, rerouted, _routed(weak=False), _edited,
    _change(Code.TOOL_RESULT_REWRITTEN), _change(Code.REWIND), _by_hash("tools"), _by_hash("system"),
    _by_hash("messages"), _session, *STRONG, older_entry, _routed(weak=True), _lookback, *COUNTED, perhaps_expired,
    _idle, *WEAK,
)  # fmt: skip
