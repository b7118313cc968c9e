"""A fall of the bill that no byte explains: what else could be the reason, and which of it is ruled out.

Rules: each reason has its figure, or is said not to be recorded; nothing is guessed. A prompt built from a
transcript is not looked at: it has no breakpoints, no parameters and no endpoint to speak of.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from lore.cache.lookback import gap
from lore.cache.turn_context import POSITIONS, SOON
from lore.judge.bills import cached
from lore.judge.expected import PairContext, since, started_in_parallel
from lore.model.codes import Code
from lore.model.endpoints import place_in
from lore.model.evidence import ReadFell, Rerouted, RuledOut
from lore.model.exchange import Call
from lore.model.turn import Turn
from lore.prefix.causes import Cause

# Parameters that are another one in every request and change nothing of the prompt.
_PASSING = frozenset(("metadata", "stream", "stream_options", "user", "max_tokens", "store", "prompt_cache_key"))


def unexplained(context: PairContext) -> Cause:
    """Return the cause of a fall that nothing explains, with what was ruled out."""
    there, read = cached(context.left.usage) or 0, (context.right.usage and context.right.usage.read_tokens) or 0
    fell = ReadFell(context.fell or 0, there, read)
    return Cause(Code.BILLED_READ_FELL, None, fell, strength="weak", ruled_out=tuple(_reasons(context)))


def _reasons(context: PairContext) -> Iterator[RuledOut]:
    left, right, situation = context.left, context.right, context.situation
    yield _expiry(context)
    yield from _starts(context)
    before, after = left.model, right.model
    known = before is not None and after is not None
    yield RuledOut("model", before == after if known else None, detail=(after or "") if known else "")
    if situation is not None:
        grew = situation.same == situation.size
        yield RuledOut("compaction, cleared results, rewind", grew or None)
        yield RuledOut("lookback", situation.reach <= POSITIONS, count=situation.reach, limit=POSITIONS)
        yield RuledOut("tools, effort and client version in the log", not situation.signs or None)
    if right.fidelity == "reconstructed":
        yield RuledOut("system prompt, tools, breakpoints, parameters and endpoint", None)
        return
    yield _breakpoints(context)
    yield _endpoint(left.call, right.call)
    changed = _changed(left, right)
    yield RuledOut("parameters", not changed, detail=", ".join(changed))
    edits = _edits(right)
    if edits:
        yield RuledOut("the provider's own editing of the context", out=False, detail=edits)


def _expiry(context: PairContext) -> RuledOut:
    pause = since(context.left, context.right)
    seconds = None if pause is None else max(0.0, pause)
    out = None if pause is None or context.lives is None else True
    return RuledOut("expiry", out, seconds=seconds, limit=context.lives)


def _starts(context: PairContext) -> Iterator[RuledOut]:
    pause = since(context.left, context.right)
    if pause is None:
        yield RuledOut("a parallel start", None)
        yield RuledOut("an older entry", None)
        return
    unknown = context.left.answered_at is None
    out = None if unknown else started_in_parallel(context.left, context.right) is None
    yield RuledOut("a parallel start", out)
    yield RuledOut("an older entry", out=True, seconds=max(0.0, pause) if pause > SOON else None)


def _breakpoints(context: PairContext) -> RuledOut:
    found = gap(context.left.prompt, context.right.prompt, context.right.at)
    if found is None:
        return RuledOut("breakpoints", None)
    if found.new < 0:
        return RuledOut("breakpoints", out=False)
    return RuledOut("breakpoints", not found.exceeded, count=found.new, limit=found.allowed)


def _endpoint(before: Call, after: Call) -> RuledOut:
    if not before.endpoint or not after.endpoint:
        return RuledOut("endpoint", None)
    same = place_in(before.endpoint) == place_in(after.endpoint)
    return RuledOut("endpoint", same, detail=after.endpoint.partition("/")[0])


def _changed(left: Turn, right: Turn) -> list[str]:
    mine, theirs = left.prompt.params, right.prompt.params
    return [name for name in sorted({*mine, *theirs} - _PASSING) if mine.get(name) != theirs.get(name)]


def same_parameters(left: Turn, right: Turn) -> bool:
    """Tell whether two requests differ in no parameter that lasts longer than one of them."""
    return not _changed(left, right)


def _edits(turn: Turn) -> str:
    """Name the edits that a request asks the provider for: they change the prompt, and no body shows it."""
    asked = turn.prompt.params.get("context_management", b"")
    return ", ".join(dict.fromkeys(found.decode() for found in _EDIT.findall(asked[:_LOOKED_AT])))


_EDIT = re.compile(rb'"((?:clear_|compact)\w{0,60})"')
_LOOKED_AT = 4096


def rerouted(context: PairContext) -> Cause | None:
    """Tell whether a request went to another host or account than the one before."""
    before, after = context.left.call, context.right.call
    hosts = [call.endpoint.partition("/")[0] for call in (before, after)]
    other_key = bool(before.account and after.account and before.account != after.account)
    if all(hosts) and hosts[0] != hosts[1]:
        found = Rerouted(host_before=hosts[0], host_after=hosts[1], account=other_key)
    elif before.endpoint and after.endpoint and place_in(before.endpoint) != place_in(after.endpoint):
        found = Rerouted(endpoint_before=before.endpoint, endpoint_after=after.endpoint, account=other_key)
    elif other_key:
        found = Rerouted(account=True)
    else:
        return None
    return Cause(Code.ENDPOINT_CHANGED, "outside", found, strength="strong")
