"""Why a bill fell though the prompt goes on: the log's signs, the clock, the provider, in one order.

In: a pair whose bytes explain no break, and what a level model knew before the bill. Out: the leading cause, with
what else was seen. Rules: strong evidence comes before the provider's verdict, the verdict before weak evidence; of
causes that are as strong, the first in `_STRONG` leads; where the verdict names a section, only a cause of that
section may lead, and what contradicts it is shown beside; a verdict alone says that the client changed something, and
not what; a cause with weak evidence is never waste; what nothing explains is LORE301 with what was ruled out: each
reason has its figure, or is said not to be recorded. A prompt built from a transcript has no breakpoints, parameters or
endpoint to rule out.

Sources: what explained 958 drops of 38,782 billed transitions, and how likely a drop is where the evidence is there
(`cache.lanes`); verdicts are about the section that they name, in 175 of them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import TypeAlias

from msgspec.structs import replace

from lore.cache.bills import FIVE_MINUTES, ONE_HOUR, POSITIONS, SOON, cached, gap, lookback
from lore.judge.witnesses import (
    SECTIONS,
    PairContext,
    expired,
    older_entry,
    parallel,
    since,
    started_in_parallel,
    verdict_evidence,
)
from lore.model.cause import Cause, Strength
from lore.model.codes import CODES, Code
from lore.model.evidence import (
    HistoryShrank,
    HookText,
    LookbackExceeded,
    ModelChanged,
    Paused,
    ReadFell,
    Recorded,
    Rerouted,
    RuledOut,
    SignSeen,
    ToolsAnnounced,
)
from lore.model.providers import place_in
from lore.model.state import Sign
from lore.model.turn import Call, Turn

# A sign of the log -> the code of its cause.
SIGN_CODES: dict[str, Code] = {
    "client-version": Code.CLIENT_UPDATED,
    "effort": Code.GENERATION_SETTINGS_CHANGED,
    "tool-reference": Code.DEFERRED_TOOLS_LOADED,
    "tools-delta": Code.TOOLS_ADDED_OR_REMOVED,
    "resume": Code.RESUME_RERENDERED,
    "api-error": Code.ERROR_BETWEEN,
    "slash-command": Code.SLASH_COMMAND,
    "micro-compaction": Code.TOOL_RESULT_REWRITTEN,
    "permission-mode": Code.PERMISSION_MODE_CHANGED,
    "interrupt": Code.INTERRUPTED,
    "instructions-delta": Code.SERVER_INSTRUCTIONS_CHANGED,
    "skill": Code.SKILL_LOADED,
    "no-thinking": Code.THINKING_CHANGED,
    "image": Code.IMAGE_CHANGED,
}
_WEAK = (
    "resume", "api-error", "slash-command", "micro-compaction", "permission-mode", "interrupt",
    "instructions-delta", "skill", "no-thinking", "image",
)  # fmt: skip
_Look: TypeAlias = Callable[[PairContext], "Cause | None"]


def attribute(context: PairContext) -> Cause:
    """Return why the bill fell; what else was seen stands in its `also`."""
    found = [cause for look in _LOOKS if (cause := look(context)) is not None and not _read_behind_head(context, cause)]
    ranked = sorted(found, key=lambda cause: cause.strength == "weak")
    verdict = _provider(context)
    section = None if verdict is None else verdict.section
    if verdict is not None:
        strong = [cause for cause in ranked if cause.strength != "weak"]
        weak = ranked[len(strong) :]
        leads = [cause for cause in strong if fits(cause.code, cause.section, section)]
        rest = [cause for cause in strong if cause not in leads]
        ranked = [*leads, verdict, *rest, *weak]
    if not ranked:
        return unexplained(context)
    return replace(ranked[0], also=tuple(ranked[1:]))


def _read_behind_head(context: PairContext, cause: Cause) -> bool:
    """Tell whether the read rules a cause out: other tools or another system prompt leave nothing of the messages.

    A read that reaches the last position but one found the head and the messages behind it as they were.
    """
    usage, situation = context.right.usage, context.situation
    earlier = None if situation is None else situation.earlier
    if earlier is None or usage is None or usage.read_tokens is None or cause.section not in ("tools", "system"):
        return False
    return usage.read_tokens >= earlier


def fits(code: str, about: str | None, section: str | None) -> bool:
    """Tell whether a cause may lead beside a verdict on a section; a client's update rewrites tools and system."""
    if section not in ("tools", "system", "messages"):
        return True
    if code in (Code.CLIENT_UPDATED, Code.SESSION_CHANGED):
        return section != "messages"
    return about == section


def _provider(context: PairContext) -> Cause | None:
    """Take the provider's verdict; `unavailable` says nothing, and most of those are no miss at all."""
    verdict = verdict_evidence(context.right.verdict)
    if verdict is None or verdict.reason == "unavailable":
        return None
    section = SECTIONS.get(verdict.reason) or _OUTSIDE.get(verdict.reason, "outside")
    return Cause(Code.CLIENT_CAUSE_UNKNOWN, section, verdict, strength="strong")


_OUTSIDE = {"model_changed": "model", "previous_message_not_found": "time"}


def _change(code: Code) -> _Look:
    def look(context: PairContext) -> Cause | None:
        for change in context.right.changes:
            if change.cause == code:
                return _strong(code, Recorded(code, change.detail))
        return None

    return look


def _strong(code: Code, evidence: Recorded | SignSeen | ToolsAnnounced | HistoryShrank | LookbackExceeded) -> Cause:
    return Cause(code, CODES[code].section, evidence, strength="strong")


def _model(context: PairContext) -> Cause | None:
    left, right = context.left.model, context.right.model
    if left == right or left is None or right is None:
        return None
    return Cause(Code.MODEL_CHANGED, "model", ModelChanged(left, right), strength="strong")


def _session(context: PairContext) -> Cause | None:
    found = _change(Code.SESSION_CHANGED)(context)
    if found is not None or context.situation is None or not context.situation.moved_head:
        return found
    return _strong(Code.SESSION_CHANGED, Recorded(Code.SESSION_CHANGED, "tools or system prompt differ"))


def _shrunk(context: PairContext) -> Cause | None:
    seen = context.situation
    if seen is None or seen.same >= seen.size:
        return None
    return _strong(Code.REWIND, HistoryShrank(seen.same, seen.size))


def _lookback(context: PairContext) -> Cause | None:
    """Return that the last entry is out of reach of every breakpoint."""
    if context.situation is not None:
        reach = context.situation.reach
        if reach <= POSITIONS or lookback(context.right.at).runs:
            return None
        found = LookbackExceeded(reach, POSITIONS, context.fell)
    elif not context.billed or context.right.fidelity == "reconstructed":
        return None
    else:
        found = too_far(context)
    return (
        None if found is None else replace(_strong(Code.LOOKBACK_EXCEEDED, found), override="waste")
    )  # the bill shows the miss


def too_far(context: PairContext) -> LookbackExceeded | None:
    """Measure how far the last entry is out of reach; None where it is within, or that is not known."""
    found = gap(context.left.prompt, context.right.prompt, context.right.at)
    if found is None or found.new < 0 or not found.exceeded:
        return None
    return LookbackExceeded(found.new, found.allowed, context.fell or None)


def _hook(context: PairContext) -> Cause | None:
    seen = context.situation
    if seen is None or seen.waiting is None or not seen.grown.prompted:
        return None
    read = context.right.usage.read_tokens if context.right.usage is not None else None
    exact = read == seen.put_back
    evidence = HookText(seen.waiting, seen.hooks, exact)
    return Cause(
        Code.HOOK_TEXT_MOVED,
        "messages",
        evidence,
        strength="strong" if exact else "weak",
        override=None if exact else _OPEN,
    )


_OPEN = "unattributable"


def _idle(context: PairContext) -> Cause | None:
    seen = context.situation
    if seen is None or seen.pause is None or seen.lifetime != ONE_HOUR or not FIVE_MINUTES < seen.pause <= ONE_HOUR:
        return None
    return Cause(Code.IDLE_WITHIN_LIFETIME, "time", Paused(seen.pause, seen.lifetime), strength="weak")


def _sign(name: str, strength: Strength) -> _Look:
    code = SIGN_CODES[name]

    def look(context: PairContext) -> Cause | None:
        for sign in context.right.signs:
            if sign.name == name:
                kind = _OPEN if strength == "weak" and CODES[code].kind == "waste" else None
                return Cause(code, CODES[code].section, _seen(sign), override=kind, strength=strength)
        return None

    return look


def _seen(sign: Sign) -> SignSeen | ToolsAnnounced:
    servers = tuple(dict.fromkeys(_servers((*sign.names, *sign.removed))))
    if sign.name == "tools-delta":
        return ToolsAnnounced(sign.names, sign.removed, servers)
    names = (*sign.names, *sign.removed)
    return SignSeen(sign.name, names, servers, sign.before or None, sign.after or None)


def _servers(names: tuple[str, ...]) -> Iterator[str]:
    """Yield the MCP servers of tools: `mcp__SERVER__TOOL`, as clients spell it."""
    for name in names:
        parts = name.split("__", 2)
        if len(parts) == 3 and parts[0] == "mcp":
            yield parts[1]


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
    pause = since(context.used or context.left, context.right)
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
    before, after = left.prompt.params, right.prompt.params
    return [name for name in sorted({*before, *after} - _PASSING) if before.get(name) != after.get(name)]


def same_parameters(left: Turn, right: Turn) -> bool:
    """Tell whether two requests differ in no parameter that lasts longer than one of them."""
    return not _changed(left, right)


def _edits(turn: Turn) -> str:
    """Name the edits that a request asks the provider for: they change the prompt, and no body shows it."""
    management = turn.prompt.params.get("context_management", b"")
    return ", ".join(dict.fromkeys(found.decode() for found in _EDIT.findall(management[:_LOOKED_AT])))


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


_LOOKS: tuple[_Look, ...] = (
    _change(Code.COMPACTION),
    _model,
    expired,
    parallel,
    _change(Code.TOOL_RESULT_REWRITTEN),
    _change(Code.REWIND),
    _session,
    _sign("client-version", "strong"),
    _sign("effort", "strong"),
    _sign("tool-reference", "strong"),
    _shrunk,
    older_entry,
    _lookback,
    _hook,
    _sign("tools-delta", "strong"),
    rerouted,
    _idle,
    *(_sign(name, "weak") for name in _WEAK),
)
