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

What nothing explains says every reason that was looked at and is not so: each has its figure, or is said not to be
recorded; a prompt built from a transcript has no breakpoints, parameters or endpoint to rule out; a verdict of the
provider that names no change of the client's is quoted. Where a cache has no breakpoints, reads fall though nothing
changed: requests reach other machines.
A turn of a log may also read nothing as the one before did, so that the bill did not fall. What any turn read of the
same history may be read again: that much was lost; where nothing of it was ever read, nobody knows what was kept, and
no tokens are said to be lost; a pause longer than the cache is known to live explains it; a prompt shorter than what
the model caches is no miss, nor is one of which that is not known and which is shorter than the highest minimum that
any provider documents.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import TypeAlias

from msgspec.structs import replace

from lore.cache import counts
from lore.cache.lookback import POSITIONS, lookback, lookback_gap
from lore.cache.transcripts import TurnState
from lore.judge import witnesses
from lore.judge.rewrites import sealed
from lore.judge.signs import BY_COUNT, COUNTED, SHRANK, STRONG, WEAK, confirmed, dropped_reasoning
from lore.judge.witnesses import PairContext
from lore.model import evidence as e
from lore.model.cause import Cause, RuledOut
from lore.model.codes import CODES, Code
from lore.model.providers import place_in
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
    if isinstance(verdict.evidence, e.ProviderSaid) and against:
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
    verdict, seen, read = _provider(context), context.state, context.read
    if verdict is None or verdict.section not in ("tools", "system") or seen is None:
        return None
    found = None if read is None else head_was_read(seen, read, "")
    if found is None or not isinstance(verdict.evidence, e.ProviderSaid):
        return None
    evidence = e.Disputed("head-was-read", verdict.evidence.reason, round(found.limit or 0), read)
    return Cause(Code.VERDICT_DISAGREES, None, evidence)


def against_level(context: PairContext, cause: Cause) -> RuledOut | None:
    """Tell whether the read rules a cause out; None where it does not. What the log records is no guess.

    Other tools or another system prompt leave nothing of the messages: a read that reaches the breakpoint before the
    last, or one further in front, found both as they were. Other messages leave the head: a read below it missed more
    than them. What is read of a history that is older than it lives had not expired.
    """
    read, seen = context.read, context.state
    if read is None or seen is None or isinstance(cause.evidence, e.RecordedChange):
        return None
    name = CODES[cause.code].name
    if cause.section in ("tools", "system"):
        return head_was_read(seen, read, name)
    if cause.code == Code.CACHE_EXPIRED and seen.first_expired is not None and read >= seen.first_expired:
        name += ": the read reaches a breakpoint that is as old"
        return RuledOut(name, out=True, count=read, limit=seen.first_expired)
    if cause.section == "messages" and seen.min_read is not None and read < seen.min_read:
        name += ": the read falls below tools and system prompt"
        return RuledOut(name, out=True, count=read, limit=seen.min_read)
    return None


def fits(code: str, about: str | None, section: str | None) -> bool:
    """Tell whether a cause may lead beside a verdict on a section; a client's update rewrites tools and system."""
    if section not in witnesses.CLIENTS.values() or about is None:
        return True
    if code in _WHOLE_HEAD:
        return section in ("tools", "system")
    return about == section


# What rewrites tools and system prompt together.
_WHOLE_HEAD = frozenset((Code.CLIENT_UPDATED, Code.CLIENT_RESTARTED, Code.SESSION_CHANGED))


def _provider(context: PairContext) -> Cause | None:
    """Take a verdict of the provider that says that the client changed something; others say nothing of the client."""
    verdict = context.verdict
    section = None if verdict is None else witnesses.CLIENTS.get(verdict.reason)
    if verdict is None or section is None:
        return None
    return Cause(Code.CLIENT_CAUSE_UNKNOWN, section, verdict, strength="strong")


def _change(code: Code) -> _Look:
    def look(context: PairContext) -> Cause | None:
        found = next((change for change in context.right.changes if change.cause == code), None)
        return None if found is None else _strong(code, e.RecordedChange(code, found.detail))

    return look


def _strong(code: Code, evidence: e.RecordedChange | e.SignSeen | e.ToolsAnnounced | e.LookbackExceeded) -> Cause:
    return Cause(code, CODES[code].section, evidence, strength="strong")


def _model(context: PairContext) -> Cause | None:
    left, right = context.left.answering_model, context.right.answering_model
    if left == right or left is None or right is None:
        return None
    return Cause(Code.MODEL_CHANGED, "model", e.ModelChanged(left, right), strength="strong")


def _session(context: PairContext) -> Cause | None:
    found = _change(Code.SESSION_CHANGED)(context)
    if found is not None or context.state is None or not context.state.head_changed:
        return found
    return _strong(Code.SESSION_CHANGED, e.RecordedChange(Code.SESSION_CHANGED, "tools or system prompt differ"))


def _by_hash(section: str) -> _Look:
    def look(context: PairContext) -> Cause | None:
        lead, *others = [cause for cause in context.moved if cause.section == section] or (None,)
        return lead if lead is None else replace(lead, also=tuple(filter(None, others)))

    return look


def _lookback(context: PairContext) -> Cause | None:
    """Return that the last entry is out of reach of every breakpoint."""
    if context.state is not None:
        reach = context.state.new_positions
        if reach <= POSITIONS or lookback(context.right.at).runs:
            return None
        found = e.LookbackExceeded(reach, POSITIONS, context.fell)
    elif not context.billed or context.right.is_rebuilt:
        return None
    else:
        found = too_far(context)
    elsewhere = None if found is None else witnesses.routed(context)
    if found is None or (elsewhere is not None and elsewhere.strength != "weak"):
        return None  # what stands between was written there
    cause = _strong(Code.LOOKBACK_EXCEEDED, found)
    if elsewhere is not None:  # answers are missing: with their requests breakpoints were sent, here or elsewhere
        return replace(cause, strength="weak")
    return replace(cause, override="waste")  # the bill shows the miss


def _routed(*, weak: bool) -> _Look:
    def look(context: PairContext) -> Cause | None:
        found = witnesses.routed(context)
        return found if found is not None and (found.strength == "weak") == weak else None

    return look


def too_far(context: PairContext) -> e.LookbackExceeded | None:
    """Measure how far the last entry is out of reach; None where it is within, or that is not known."""
    found = lookback_gap(context.left.prompt, context.right.prompt, context.right.at)
    if found is None or found.new < 0 or not found.exceeded:
        return None
    return e.LookbackExceeded(found.new, found.allowed, context.fell or None)


def _idle(context: PairContext) -> Cause | None:
    seen = context.state
    if seen is None or seen.implicit or seen.pause is None:  # nobody asks an implicit cache for an hour
        return None
    if seen.lifetime != counts.ONE_HOUR or not counts.FIVE_MINUTES < seen.pause <= counts.ONE_HOUR:
        return None
    return Cause(Code.IDLE_WITHIN_LIFETIME, "time", e.Paused(seen.pause, seen.lifetime), strength="weak")


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
        found = e.EditedByProvider("edits", edits=tuple([edit.kind for edit in edits]), tokens=tokens)
    else:
        fewer = counts.prompt_tokens(left.usage) - counts.prompt_tokens(right.usage and right.usage.first_pass)
        params = right.prompt.params
        management = params.get("context_management", b"")
        shortens = params.get("truncation") == b'"auto"' or b'"compact' in management or b'"clear_' in management
        if fewer > counts.TOLERANCE_TOKENS and context.found.is_covered and shortens:
            found = e.EditedByProvider("cut", tokens=fewer)
    return None if found is None else Cause(Code.COMPACTION, "messages", found, strength="strong" if edits else "weak")


_LOOKS: tuple[_Look, ...] = (
    _change(Code.COMPACTION), _model, witnesses.expired, witnesses.parallel, witnesses.rerouted, _routed(weak=False),
    _edited, _change(Code.TOOL_RESULT_REWRITTEN), _change(Code.REWIND), _by_hash("tools"), _by_hash("system"),
    _by_hash("messages"), _session, *STRONG, witnesses.older_entry, _routed(weak=True), _lookback, *COUNTED,
    witnesses.perhaps_expired, _idle, *WEAK,
)  # fmt: skip


# what nothing explains: a bill that fell, with what was ruled out

# Parameters that are another one in every request and change nothing of the prompt.
_PASSING = frozenset(("metadata", "stream", "stream_options", "user", "max_tokens", "store", "prompt_cache_key"))


def unexplained(context: PairContext) -> Cause:
    """Return the cause of a fall that nothing explains, with what was ruled out."""
    usage, fell = context.left.usage, None
    if context.fell:
        fell = e.ReadFell(context.fell, counts.cached(usage) or 0, context.read or 0)
    reasons = tuple(_reasons(context))
    implicit = context.state is not None and context.state.implicit
    elsewhere = implicit and all(reason.out is not False for reason in reasons)
    code = Code.SERVER_SIDE_MISS if elsewhere else Code.BILLED_READ_FELL
    return Cause(code, None, fell or e.NothingRead(counts.prompt_tokens(usage)), strength="weak", ruled_out=reasons)


def _reasons(context: PairContext) -> Iterator[RuledOut]:
    left, right, state, level = context.left, context.right, context.state, _level(context)
    headed = level is not None and level.reason.startswith(_HEAD)
    yield _expiry(context)
    yield from _starts(context)
    before, after = left.answering_model, right.answering_model
    known = before is not None and after is not None
    yield RuledOut("model", before == after if known else None, detail=(after or "") if known else "")
    was, size = (None if turn.usage is None else counts.total(turn.usage) for turn in (left, right))
    shrank = was is not None and size is not None and was - size > SHRANK and dropped_reasoning(context) is None
    if shrank:
        yield RuledOut("the prompt shrank", out=False, count=size, limit=was)
    if state is not None:
        grew = state.unchanged == state.entries and not shrank
        yield RuledOut("compaction, cleared results, rewind", grew or None)
        if not state.implicit:
            yield RuledOut(
                "lookback",
                state.new_positions <= POSITIONS,
                count=state.new_positions,
                limit=POSITIONS,
            )
        shown = [sign.name for sign in right.signs if sign.name in _OF_HEAD]
        if not shown or not headed:  # what the read itself rules out of the head is said with its level
            yield RuledOut("tools, effort and client version in the log", not shown, detail=", ".join(shown))
    verdict = context.verdict
    if verdict is not None and verdict.reason not in witnesses.CLIENTS:
        yield RuledOut("what the provider says", out=False, detail=verdict.reason or verdict.other)
    if right.is_rebuilt:
        yield from () if level is None else (level,)
        unseen = "the client's own tools, " if right.fidelity == "structural" else "system prompt, tools, "
        head = "" if headed else unseen
        marks = "" if state is not None and state.implicit else "breakpoints, "
        yield RuledOut(f"{head}{marks}parameters and endpoint", None)
        return
    found = lookback_gap(left.prompt, right.prompt, right.at)
    if found is None or found.new < 0:
        yield RuledOut("breakpoints", None if found is None else False)
    else:
        yield RuledOut("breakpoints", not found.exceeded, count=found.new, limit=found.allowed)
    asked = [place_in(call.endpoint) for call in (left.call, right.call)]
    same = asked[0] == asked[1] if left.call.endpoint and right.call.endpoint else None
    yield RuledOut("endpoint", same, detail="" if same is None else right.call.endpoint.partition("/")[0])
    changed = changed_parameters(left, right)
    yield RuledOut("parameters", not changed, detail=", ".join(changed))
    management = right.prompt.params.get("context_management", b"")
    edits = ", ".join(dict.fromkeys(found.decode() for found in _EDIT.findall(management)))
    if edits:  # they change the prompt, and no body shows it
        out = right.call.edits is not None and "compact" not in edits
        yield RuledOut("the provider's own editing of the context", out, detail=edits)


_HEAD = "tools and system prompt"


def _level(context: PairContext) -> RuledOut | None:
    """Return what the read itself rules out: it found the head as it was, or missed more than messages."""
    seen, read = context.state, context.read
    if seen is None or read is None:
        return None
    whole = head_was_read(seen, read, _HEAD)
    if whole is None and seen.min_read is not None and read < seen.min_read:
        return RuledOut("messages alone: the read falls below them", out=True, count=read, limit=seen.min_read)
    return whole


def head_was_read(seen: TurnState, read: int, name: str) -> RuledOut | None:
    """Return that a read found tools and system prompt as they were, since it found what stands behind them.

    It reaches the breakpoint before the last, or one further in front exactly or by far: a head that is another may
    end a little behind the first of them, and be kept warm by other sessions.
    """
    if seen.earlier_position is not None and read >= seen.earlier_position:
        where = "what the request before the last left" if seen.implicit else "the breakpoint before the last"
        return RuledOut(f"{name}: the read reaches {where}", out=True, count=read, limit=seen.earlier_position)
    if seen.first_position is not None and (read == seen.first_position or read >= seen.first_position + counts.DROP):
        where = "into the history" if seen.implicit else "a breakpoint in the history"
        return RuledOut(f"{name}: the read reaches {where}", out=True, count=read, limit=seen.first_position)
    return None


_OF_HEAD = frozenset(("client-version", "effort", "restart", "tool-reference", "tools-delta"))


def _expiry(context: PairContext) -> RuledOut:
    """Return what the clock says of expiry; one that goes back says nothing."""
    pause = witnesses.since(context.used or context.left, context.right)
    if pause is None or pause < 0:
        return RuledOut("expiry", None)
    lives, seen = witnesses.lives_of(context), context.state
    if lives is None and seen is not None and not seen.implicit and pause <= counts.FIVE_MINUTES:
        lives = counts.FIVE_MINUTES  # the shortest that a breakpoint can ask for
    return RuledOut("expiry", None if lives is None else True, seconds=pause, limit=lives)


def _starts(context: PairContext) -> Iterator[RuledOut]:
    pause = witnesses.since(context.left, context.right)
    if pause is None or pause < 0:
        yield RuledOut("a parallel start", None)
        yield RuledOut("an older entry", None)
        return
    early = witnesses.started_in_parallel(context.left, context.right)
    yield RuledOut("a parallel start", None if context.left.answered_at is None else early is None)
    yield RuledOut("an older entry", out=True, seconds=pause if pause > counts.SOON else None)


def changed_parameters(left: Turn, right: Turn) -> list[str]:
    """Name the parameters in which two requests differ, but for those that are another in every request."""
    before, after = left.prompt.params, right.prompt.params
    return [name for name in sorted({*before, *after} - _PASSING) if before.get(name) != after.get(name)]


_EDIT = re.compile(rb'"((?:clear_|compact)\w{0,60})"')


# turns that read nothing, as the one before: the bill did not fall, and the cache was missed again


def cause_of(context: PairContext) -> Cause | None:
    """Return why a turn read nothing; None where its cache may have breakpoints, or its history is another."""
    seen = context.state
    if seen is None or not seen.implicit or seen.unchanged < seen.entries or seen.head_changed or seen.model_changed:
        return None
    return witnesses.expired(context) or witnesses.parallel(context) or unexplained(context)
