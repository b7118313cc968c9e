"""What the log's signs say of a bill that fell, and what its totals say.

In: a pair whose bill fell, in a transcript. Out: the cause that a sign stands for, or None. Rules: what was counted to
break nearly every time it was seen is strong; another signal (`cache.falls`) is weak until a second kind of evidence
confirms it: the read is exactly the level that such a change leaves, a verdict is about its section, or this session's
bills fell each time before; what seldom breaks the prefix is weak, and a verdict or any other cause leads over it.
A prompt that was billed for fewer tokens than the one before had something taken out: that is the client's.

Sources: 958 drops of 38,782 billed transitions; 78 of 78 prompts that shrank by over 1,000 tokens fell; images at a new
prompt fell in 2 of 16, in results of tools in none of 66 (6.7 % and 1 % without), so an image is no sign of anything.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from msgspec.structs import replace

from lore.cache.counts import DROP, cached, total
from lore.cache.falls import find_fall, version_of
from lore.cache.served import normal_name
from lore.cache.transcripts import Signal
from lore.judge.witnesses import PairContext
from lore.model.cause import Cause
from lore.model.codes import CODES, Code
from lore.model.evidence import HistoryShrank, HookText, ReasoningDropped, SignSeen, ToolsAnnounced, TotalShrank
from lore.model.items import ToolCall
from lore.model.state import Sign

# A sign of the log -> the code of its cause.
SIGN_CODES: dict[str, Code] = {
    "client-version": Code.CLIENT_UPDATED,
    "effort": Code.GENERATION_SETTINGS_CHANGED,
    "restart": Code.CLIENT_RESTARTED,
    "tool-reference": Code.DEFERRED_TOOLS_LOADED,
    "tools-delta": Code.TOOLS_ADDED_OR_REMOVED,
    "no-thinking": Code.ANSWER_WITHOUT_THINKING,
    "resume": Code.RESUME_RERENDERED,
    "api-error": Code.ERROR_BETWEEN,
    "slash-command": Code.SLASH_COMMAND,
    "micro-compaction": Code.TOOL_RESULT_REWRITTEN,
    "permission-mode": Code.PERMISSION_MODE_CHANGED,
    "date": Code.DATE_IN_PREFIX,
    "instructions": Code.SESSION_CHANGED,
    "memory": Code.MEMORY_IN_PREFIX,
    "interrupt": Code.INTERRUPTED,
    "instructions-delta": Code.SERVER_INSTRUCTIONS_CHANGED,
    "skill": Code.SKILL_LOADED,
}
# Causes that need a second kind of evidence to be strong.
BY_COUNT = frozenset((
    Code.HOOK_TEXT_MOVED, Code.CLIENT_RESTARTED, Code.TOOLS_ADDED_OR_REMOVED, Code.DEFERRED_TOOLS_LOADED,
    Code.ANSWER_WITHOUT_THINKING,
))  # fmt: skip
SHRANK = 1_000  # tokens: a prompt that shrank by more had something taken out
_AGAIN = 2  # times that a session showed a signal before its own usage counts as evidence
_TOOLS_COUNTED = (2, 1, 119)  # the version from which falls after a tool search were counted by version
_OPEN = "unattributable"
_Look: TypeAlias = Callable[[PairContext], "Cause | None"]


def _found(context: PairContext, name: str) -> Sign | None:
    return next((sign for sign in context.right.signs if sign.name == name), None)


def _sign(name: str, *, weak: bool = True) -> _Look:
    def look(context: PairContext) -> Cause | None:
        sign = _found(context, name)
        return None if sign is None else _cause(sign, weak=weak)

    return look


def _cause(sign: Sign, *, weak: bool = True) -> Cause:
    code = SIGN_CODES[sign.name]
    about = CODES[code]
    kind = _OPEN if weak and about.kind != _OPEN else None
    return Cause(code, about.section, _seen(sign), override=kind, strength="weak" if weak else "strong")


def confirmed(cause: Cause) -> Cause:
    """Return a cause that a second kind of evidence confirms: it is the client's, and waste."""
    return replace(cause, strength="strong", override=None if CODES[cause.code].kind == "waste" else "waste")


def _left_the_floor(context: PairContext) -> bool:
    """Tell whether exactly that was read which other tools or another system prompt leave."""
    seen = context.state
    return seen is not None and seen.shared_head is not None and context.read == seen.shared_head


def _fell_before(context: PairContext, name: str) -> bool:
    """Tell whether this session showed the sign before, and fell each time."""
    tally = context.shown.get(name)
    return tally is not None and tally.seen >= _AGAIN and tally.fell == tally.seen


def _restarted(context: PairContext) -> Cause | None:
    """Return that a new process of the client went on; two signs of it, or the exact level, confirm it."""
    sign = _found(context, "restart")
    if sign is None:
        return None
    other = any(_found(context, name) is not None for name in ("resume", "client-version"))
    found = _cause(sign)
    sure = other or len(sign.names) > 1 or _left_the_floor(context) or _fell_before(context, sign.name)
    return confirmed(found) if sure else found


def _tools_announced(context: PairContext) -> Cause | None:
    """Return that other tools were announced: deferred ones stand outside the prefix, so it needs a confirmation.

    The level of the read is none: whatever changes the head leaves the same.
    """
    sign = _found(context, "tools-delta")
    if sign is None:
        return None
    found = _cause(sign)
    return confirmed(found) if _fell_before(context, sign.name) else found


def _counted(name: str) -> _Look:
    """Return a check for a signal after which most reads of this client's version and model fell."""

    def look(context: PairContext) -> Cause | None:
        sign, seen = _found(context, name), context.state
        if sign is None or seen is None:
            return None
        fall = find_fall(
            name, prompted=seen.grown.prompted, first=name not in context.shown, version=sign.version,
            model=normal_name(context.right.model),
        )  # fmt: skip
        is_counted = name != "tool-reference" or version_of(sign.version) >= _TOOLS_COUNTED
        if fall is None and is_counted:
            return None
        found = _cause(sign)
        exact = found.section == "tools" and _left_the_floor(context)
        return confirmed(found) if exact or _fell_before(context, name) else found

    return look


def _skill(context: PairContext) -> Cause | None:
    """Return that a skill was used since the last prompt of the user, in versions with which most reads fell then."""
    seen = context.state
    signals = () if seen is None else seen.signals
    skill = next((signal for signal in signals if signal.name == "skill" and signal.is_delayed), None)
    if skill is None:
        return None
    model = normal_name(context.right.model)
    if find_fall("skill", prompted=True, first=False, version=skill.version, model=model) is None:
        return None
    found = Cause(Code.SKILL_LOADED, "messages", SignSeen("skill"), strength="weak")
    return confirmed(found) if skill.read_if_moved is not None and context.read == skill.read_if_moved else found


def _hook_text(context: PairContext) -> Cause | None:
    """Return that a hook's text is taken out of the history when the user speaks again."""
    seen = context.state
    if seen is None or seen.hook_entries is None or not seen.grown.prompted:
        return None
    exact = context.read == seen.without_hook
    evidence = HookText(seen.hook_entries, seen.hooks, exact)
    found = Cause(Code.HOOK_TEXT_MOVED, "messages", evidence, strength="weak", override=_OPEN)
    return confirmed(found) if exact else found


def dropped_reasoning(context: PairContext) -> Signal | None:
    """Return the reasoning that is left out from this prompt of the user on; None where there is none."""
    seen = context.state
    return None if seen is None else next((sign for sign in seen.signals if sign.name == "reasoning"), None)


def _reasoning_dropped(context: PairContext) -> Cause | None:
    """Return that a provider left out what the model thought before this prompt of the user, and the read shows it."""
    dropped, read = dropped_reasoning(context), context.read
    if dropped is None or dropped.read_if_moved is None or read is None or read < dropped.read_if_moved - DROP:
        return None
    evidence = ReasoningDropped(dropped.entries, dropped.read_if_moved, exact=read <= dropped.read_if_moved + DROP)
    strength = "strong" if evidence.exact else "weak"
    return Cause(Code.REASONING_DROPPED_BY_TEMPLATE, "messages", evidence, strength=strength)


def _taken_out(context: PairContext) -> Cause | None:
    """Return that the client took something out: the prompt shrank, or the log says so and not which results.

    Where the history holds no result of a tool, none was cleared, and a read below the head missed more than messages:
    what was taken out is not known then.
    """
    left, right, seen = context.left, context.right, context.state
    if right.basis is None or right.changes or left.model != right.model or left.usage is None or right.usage is None:
        return None
    if seen is not None and (seen.unchanged < seen.entries or seen.head_changed):
        return None
    if dropped_reasoning(context) is not None:  # the prompt is shorter by that
        return None
    boundary = _found(context, "micro-compaction")
    before, after = total(left.usage), total(right.usage.first_pass)
    if before is None or after is None or before - after <= SHRANK:
        return None if boundary is None else _cause(boundary, weak=False)
    evidence = TotalShrank(before, after, cached(left.usage) or 0, boundary=boundary is not None)
    least = None if seen is None else seen.min_read
    if least is not None and (context.read or 0) < least:
        return Cause(Code.CLIENT_CAUSE_UNKNOWN, None, evidence, strength="strong")
    if boundary is None and not any(isinstance(entry.item, ToolCall) for entry in right.basis.entries):
        return Cause(Code.CLIENT_CAUSE_UNKNOWN, "messages", evidence, strength="strong")
    found = Cause(Code.TOOL_RESULT_REWRITTEN, "messages", evidence, strength="strong")
    # a provider without breakpoints may leave out what it likes: nothing shows that it was the client
    if seen is None or not seen.implicit or boundary is not None:
        return found
    return replace(found, evidence=replace(evidence, unsure=True), strength="weak", override=_OPEN)


def _seen(sign: Sign) -> SignSeen | ToolsAnnounced:
    names = (*sign.names, *sign.removed)
    parts = (name.split("__", 2) for name in names)  # `mcp__SERVER__TOOL`, as clients spell it
    servers = tuple(dict.fromkeys(part[1] for part in parts if len(part) == 3 and part[0] == "mcp"))
    if sign.name == "tools-delta":
        return ToolsAnnounced(sign.names, sign.removed, servers)
    return SignSeen(sign.name, names, servers, sign.before or None, sign.after or None)


def _shrunk(context: PairContext) -> Cause | None:
    """Return that the history is shorter than it was, or another from some place on."""
    seen = context.state
    if seen is None or seen.unchanged >= seen.entries:
        return None
    about = CODES[Code.REWIND].section
    return Cause(Code.REWIND, about, HistoryShrank(seen.unchanged, seen.entries), strength="strong")


STRONG: tuple[_Look, ...] = (
    _sign("client-version", weak=False), _sign("effort", weak=False), _hook_text, _reasoning_dropped, _shrunk,
    _restarted, _taken_out,
)  # fmt: skip
COUNTED: tuple[_Look, ...] = (_counted("tool-reference"), _counted("no-thinking"), _skill, _tools_announced)
_WEAK = (
    "resume", "api-error", "slash-command", "date", "memory", "instructions", "permission-mode", "interrupt",
    "instructions-delta", "skill",
)  # fmt: skip
WEAK: tuple[_Look, ...] = tuple(map(_sign, _WEAK))
