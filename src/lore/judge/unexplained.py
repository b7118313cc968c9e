"""What nothing explains: a bill that fell, with every reason that was looked at and is not so.

In: a pair for which no cause was found. Out: LORE301, or LORE130 for a cache without breakpoints, of which reads fall
though nothing changed: requests reach other machines. Rules: each reason has its figure, or is said not to be recorded;
a prompt built from a transcript has no breakpoints, parameters or endpoint to rule out; a verdict of the provider that
names no change of the client's is quoted.

A turn of a log may also read nothing as the one before did, so that the bill did not fall. What any turn read of the
same history may be read again: that much was lost; where nothing of it was ever read, nobody knows what was kept, and
no tokens are said to be lost; a pause longer than the cache is known to live explains it; a prompt shorter than what
the model caches is no miss, nor is one of which that is not known and which is shorter than the highest minimum that
any provider documents.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from lore.cache.bills import DROP, FIVE_MINUTES, POSITIONS, SOON, cached, gap, prompt_tokens, total
from lore.cache.forecast import Situation
from lore.judge.signs import SHRANK, dropped_reasoning
from lore.judge.witnesses import CLIENTS, PairContext, expired, lives_of, parallel, since, started_in_parallel
from lore.model.cause import Cause
from lore.model.codes import Code
from lore.model.evidence import NothingRead, ReadFell, RuledOut
from lore.model.providers import place_in
from lore.model.turn import Call, Turn

# Parameters that are another one in every request and change nothing of the prompt.
_PASSING = frozenset(("metadata", "stream", "stream_options", "user", "max_tokens", "store", "prompt_cache_key"))


def unexplained(context: PairContext) -> Cause:
    """Return the cause of a fall that nothing explains, with what was ruled out."""
    there, read = cached(context.left.usage) or 0, context.read or 0
    fell = ReadFell(context.fell, there, read) if context.fell else NothingRead(prompt_tokens(context.left.usage))
    reasons = tuple(_reasons(context))
    implicit = context.situation is not None and context.situation.implicit
    routed = implicit and all(reason.out is not False for reason in reasons)
    code = Code.SERVER_SIDE_MISS if routed else Code.BILLED_READ_FELL
    return Cause(code, None, fell, strength="weak", ruled_out=reasons)


def _reasons(context: PairContext) -> Iterator[RuledOut]:
    left, right, situation = context.left, context.right, context.situation
    yield _expiry(context)
    yield from _starts(context)
    before, after = left.answering_model, right.answering_model
    known = before is not None and after is not None
    yield RuledOut("model", before == after if known else None, detail=(after or "") if known else "")
    was, size = (None if turn.usage is None else total(turn.usage) for turn in (left, right))
    shrank = was is not None and size is not None and was - size > SHRANK and dropped_reasoning(context) is None
    if shrank:
        yield RuledOut("the prompt shrank", out=False, count=size, limit=was)
    if situation is not None:
        grew = situation.same == situation.size and not shrank
        yield RuledOut("compaction, cleared results, rewind", grew or None)
        if not situation.implicit:
            yield RuledOut("lookback", situation.reach <= POSITIONS, count=situation.reach, limit=POSITIONS)
        yield from _signs(context)
    verdict = context.verdict
    if verdict is not None and verdict.reason not in CLIENTS:
        yield RuledOut("what the provider says", out=False, detail=verdict.reason or verdict.other)
    if right.is_rebuilt:
        level = _level(context)
        yield from level
        unseen = "the client's own tools, " if right.fidelity == "structural" else "system prompt, tools, "
        head = "" if any(reason.reason.startswith(_HEAD) for reason in level) else unseen
        marks = "" if situation is not None and situation.implicit else "breakpoints, "
        yield RuledOut(f"{head}{marks}parameters and endpoint", None)
        return
    found = gap(left.prompt, right.prompt, right.at)
    if found is None or found.new < 0:
        yield RuledOut("breakpoints", None if found is None else False)
    else:
        yield RuledOut("breakpoints", not found.exceeded, count=found.new, limit=found.allowed)
    yield _endpoint(left.call, right.call)
    changed = changed_parameters(left, right)
    yield RuledOut("parameters", not changed, detail=", ".join(changed))
    management = right.prompt.params.get("context_management", b"")
    edits = ", ".join(dict.fromkeys(found.decode() for found in _EDIT.findall(management[:_LOOKED_AT])))
    if edits:  # they change the prompt, and no body shows it
        out = right.call.edits is not None and "compact" not in edits
        yield RuledOut("the provider's own editing of the context", out, detail=edits)


_HEAD = "tools and system prompt"


def _level(context: PairContext) -> tuple[RuledOut, ...]:
    """Return what the read itself rules out: it found the head as it was, or missed more than messages."""
    seen, read = context.situation, context.read
    if seen is None or read is None:
        return ()
    whole = head_was_read(seen, read, _HEAD)
    if whole is not None:
        return (whole,)
    if seen.least is not None and read < seen.least:
        return (RuledOut("messages alone: the read falls below them", out=True, count=read, limit=seen.least),)
    return ()


def head_was_read(seen: Situation, read: int, name: str) -> RuledOut | None:
    """Return that a read found tools and system prompt as they were, since it found what stands behind them.

    It reaches the breakpoint before the last, or one further in front exactly or by far: a head that is another may
    end a little behind the first of them, and be kept warm by other sessions.
    """
    if seen.earlier is not None and read >= seen.earlier:
        where = "what the request before the last left" if seen.implicit else "the breakpoint before the last"
        return RuledOut(f"{name}: the read reaches {where}", out=True, count=read, limit=seen.earlier)
    if seen.behind is not None and (read == seen.behind or read >= seen.behind + DROP):
        where = "into the history" if seen.implicit else "a breakpoint in the history"
        return RuledOut(f"{name}: the read reaches {where}", out=True, count=read, limit=seen.behind)
    return None


def _signs(context: PairContext) -> Iterator[RuledOut]:
    """Yield what the log says of the head; what the level of the read rules out of it is said with the level."""
    shown = [sign.name for sign in context.right.signs if sign.name in _OF_HEAD]
    if not shown or not any(reason.reason.startswith(_HEAD) for reason in _level(context)):
        yield RuledOut("tools, effort and client version in the log", not shown, detail=", ".join(shown))


_OF_HEAD = frozenset(("client-version", "effort", "restart", "tool-reference", "tools-delta"))


def _expiry(context: PairContext) -> RuledOut:
    """Return what the clock says of expiry; one that goes back says nothing."""
    pause = since(context.used or context.left, context.right)
    if pause is None or pause < 0:
        return RuledOut("expiry", None)
    lives, seen = lives_of(context), context.situation
    if lives is None and seen is not None and not seen.implicit and pause <= FIVE_MINUTES:
        lives = FIVE_MINUTES  # the shortest that a breakpoint can ask for
    return RuledOut("expiry", None if lives is None else True, seconds=pause, limit=lives)


def _starts(context: PairContext) -> Iterator[RuledOut]:
    pause = since(context.left, context.right)
    if pause is None or pause < 0:
        yield RuledOut("a parallel start", None)
        yield RuledOut("an older entry", None)
        return
    early = started_in_parallel(context.left, context.right)
    yield RuledOut("a parallel start", None if context.left.answered_at is None else early is None)
    yield RuledOut("an older entry", out=True, seconds=pause if pause > SOON else None)


def _endpoint(before: Call, after: Call) -> RuledOut:
    if not before.endpoint or not after.endpoint:
        return RuledOut("endpoint", None)
    same = place_in(before.endpoint) == place_in(after.endpoint)
    return RuledOut("endpoint", same, detail=after.endpoint.partition("/")[0])


def changed_parameters(left: Turn, right: Turn) -> list[str]:
    """Name the parameters in which two requests differ, but for those that are another in every request."""
    before, after = left.prompt.params, right.prompt.params
    return [name for name in sorted({*before, *after} - _PASSING) if before.get(name) != after.get(name)]


_EDIT = re.compile(rb'"((?:clear_|compact)\w{0,60})"')
_LOOKED_AT = 4096  # bytes of a value in which an edit of the context is sought


# turns that read nothing, as the one before: the bill did not fall, and the cache was missed again


def cause_of(context: PairContext) -> Cause | None:
    """Return why a turn read nothing; None where its cache may have breakpoints, or its history is another."""
    seen = context.situation
    if seen is None or not seen.implicit or seen.same < seen.size or seen.moved_head or seen.other_model:
        return None
    return expired(context) or parallel(context) or unexplained(context)
