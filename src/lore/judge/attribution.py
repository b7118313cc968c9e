"""Why a bill fell though the prompt goes on: the log's signs, the clock, the provider, in one order.

In: a pair whose bytes explain no break, and what a level model knew before the bill. Out: the leading cause, with
what else was seen. Rules: strong evidence comes before the provider's verdict, the verdict before weak evidence; of
causes that are as strong, the first in `_STRONG` leads; where the verdict names a section, only a cause of that
section may lead, and what contradicts it is shown beside; a verdict alone says that the client changed something, and
not what; a cause with weak evidence is never waste; what nothing explains is LORE301 with what was ruled out.

Sources: what explained 958 drops of 38,782 billed transitions, and how likely a drop is where the evidence is there
(`cache.event_priors`); verdicts are about the section that they name, in 175 of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeAlias

from msgspec.structs import replace

from lore.cache.growth import runs_collapse
from lore.cache.lifetime import FIVE_MINUTES, ONE_HOUR
from lore.cache.lookback import gap
from lore.cache.turn_context import POSITIONS
from lore.judge.columns import SECTIONS, said_by
from lore.judge.expected import PairContext, expired, older_entry, parallel
from lore.judge.ruled_out import rerouted, unexplained
from lore.model.codes import CODES, Code
from lore.model.evidence import (
    HistoryShrank,
    HookText,
    LookbackExceeded,
    ModelChanged,
    Paused,
    Recorded,
    SignSeen,
    ToolsAnnounced,
)
from lore.model.state import Sign
from lore.prefix.causes import Cause, Strength

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
    "image": Code.IMAGE_CHANGED,
}
_WEAK = (
    "resume", "api-error", "slash-command", "micro-compaction", "permission-mode", "interrupt",
    "instructions-delta", "skill", "image",
)  # fmt: skip
_Look: TypeAlias = Callable[[PairContext], "Cause | None"]


def attribute(context: PairContext) -> Cause:
    """Return why the bill fell; what else was seen stands in its `also`."""
    found = [cause for look in _LOOKS if (cause := look(context)) is not None]
    ranked = sorted(found, key=lambda cause: cause.strength == "weak")
    said = _provider(context)
    section = None if said is None else said.section
    if said is not None:
        strong = [cause for cause in ranked if cause.strength != "weak"]
        weak = ranked[len(strong) :]
        leads = [cause for cause in strong if fits(cause.code, cause.section, section)]
        rest = [cause for cause in strong if cause not in leads]
        ranked = [*leads, said, *rest, *weak]
    if not ranked:
        return unexplained(context)
    return replace(ranked[0], also=tuple(ranked[1:]))


def fits(code: str, about: str | None, section: str | None) -> bool:
    """Tell whether a cause may lead beside a verdict on a section; a client's update rewrites tools and system."""
    if section not in ("tools", "system", "messages"):
        return True
    if code in (Code.CLIENT_UPDATED, Code.SESSION_CHANGED):
        return section != "messages"
    return about == section


def _provider(context: PairContext) -> Cause | None:
    """Take the provider's verdict; `unavailable` says nothing, and most of those are no miss at all."""
    said = said_by(context.right.verdict)
    if said is None or said.reason == "unavailable":
        return None
    section = SECTIONS.get(said.reason) or _OUTSIDE.get(said.reason, "outside")
    return Cause(Code.CLIENT_CAUSE_UNKNOWN, section, said, strength="strong")


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
        if reach <= POSITIONS or runs_collapse(context.right.at):
            return None
        found = LookbackExceeded(reach, POSITIONS, context.fell)
    elif not context.billed or context.right.fidelity == "reconstructed":
        return None
    else:
        found = too_far(context)
    return (
        None if found is None else replace(_strong(Code.LOOKBACK_EXCEEDED, found), here="waste")
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
        here=None if exact else _OPEN,
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
                here = _OPEN if strength == "weak" and CODES[code].kind == "waste" else None
                return Cause(code, CODES[code].section, _seen(sign), here=here, strength=strength)
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
