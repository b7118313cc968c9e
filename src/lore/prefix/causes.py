"""Name why a prompt did not extend the one before it: every cause, not the first alone.

In: two prompts, their overlap, the changes that the session recorded between them, what is known of both calls.
Out: causes, each at the place from which it costs. Rules: an expected cause explains the whole break; each section
is explained apart (tools as a set, system and messages aligned), so that a change of tools does not hide one of
messages; one cause a code, at its first place; what no rule explains is `prefix-moved`. What stands behind the last
breakpoint, and a changed field that costs nothing there, is told and harmless.

Source of the causes and their numbers: the catalogue of known cache breaks (public issue threads).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import islice
from typing import NamedTuple

from msgspec.structs import replace

from lore.model.cause import SPELLINGS, Cause, Qualifier
from lore.model.codes import CODES, Code
from lore.model.differences import BehindBreakpoint, HeaderChanged, PartialPrompt, PromptParted, TailWithoutBreakpoint
from lore.model.evidence import ModelChanged, RecordedChange
from lore.model.limits import RESPELLED_SEGMENTS
from lore.model.providers import has_exact_breakpoints, provider_of
from lore.model.state import Change
from lore.model.turn import Call, Prompt, Segment
from lore.prefix.align import grouped, mismatches
from lore.prefix.block_changes import BlockChanges, PromptContext
from lore.prefix.blocks import message_start
from lore.prefix.overlap import Overlap, limit_of, since
from lore.prefix.params import param_causes
from lore.prefix.texts import of_segments
from lore.prefix.tools import tool_causes

_RENDERED = frozenset((Code.PREFIX_MOVED, Code.REMINDER_MOVED, Code.MEMORY_IN_PREFIX, Code.FIRST_MESSAGE_REWRITTEN))
_RENDERED_TOOLS = frozenset(
    (Code.TOOLS_REORDERED, Code.TOOLS_ADDED_OR_REMOVED, Code.TOOL_DEFINITION_CHANGED, Code.DEFERRED_TOOLS_LOADED)
)
_SAID_LAST = frozenset(
    (*_RENDERED, Code.DATE_IN_PREFIX, Code.ID_IN_PREFIX, Code.TOKEN_REMINDER_IN_PREFIX, Code.GIT_STATUS_IN_PREFIX)
)  # a tail's own
_APIS = frozenset(("anthropic", "openai", "azure", "gemini", "vertex", "bedrock"))
_UNKNOWN = Call()
RESUMED = 600.0  # seconds: who comes back after so long has often loaded the session anew


def causes(
    left: Prompt, right: Prompt, found: Overlap, changes: Sequence[Change], *,
    left_call: Call = _UNKNOWN, right_call: Call = _UNKNOWN, pause: float | None = None, fell: int | None = None,
    reread: bool = False,
) -> tuple[Cause, ...]:  # fmt: skip
    """Return the causes of a cache break; empty where the left is reused up to its tail and no field changed.

    `pause` is the time between the two in seconds, `fell` the tokens that the bill fell by: 0 says that all that
    was cached was read, whatever changed in the request's fields. `reread` says that the bill read all that the left
    sent: what is only spelled otherwise lost nothing.
    """
    if left.dialect != right.dialect:  # two request shapes: nothing one says explains the other
        return ()
    expected = _expected(left, right, found, changes)
    if expected:
        return expected
    fields = _fields(left, right, left_call, right_call, fell)
    if found.covered:
        return fields
    if (left.partial or right.partial) and found.common >= len(left.head):
        return (Cause(Code.CONTINUATION, "messages", PartialPrompt(), found.common),)
    if found.common >= limit_of(left):
        section = _section(left, right, found.common)
        behind = Cause(Code.CHANGE_AFTER_LAST_BREAKPOINT, section, BehindBreakpoint(), found.common)
        return (*fields, behind, *_tail(left, right, found, right_call))
    resumed = _resumed(left_call, right_call, pause)
    serves = provider_of(right_call.endpoint, right.model, right.dialect)
    templated = right.dialect == "openai-chat" and serves not in _APIS
    content = _explained(left, right, found, changes, resumed, templated=templated)
    if reread:
        content = tuple([_costless(cause) for cause in content])
    tail = _tail(left, right, found, right_call)
    own = [cause for cause in content if cause.code in _SAID_LAST]
    if tail and own:  # a tail's own text: at an end that is meant to change, it is no other fault
        content = tuple([cause for cause in content if cause not in own])
        tail = (replace(tail[0], also=(own[0],)),)
    return tuple(sorted((*content, *tail, *fields), key=_order))


def _expected(left: Prompt, right: Prompt, found: Overlap, changes: Sequence[Change]) -> tuple[Cause, ...]:
    """Return what entitles the right prompt to be another; another model reads nothing of this cache."""
    moved = left.model != right.model and left.model is not None and right.model is not None
    if found.covered and not moved:
        return ()
    model = Code.MODEL_CHANGED
    known = [cause for cause in recorded(changes) if moved or cause.code != model]  # not where it changed back
    if moved and all(cause.code != model for cause in known):
        known.append(Cause(model, "model", ModelChanged(left.model, right.model)))
    return tuple([replace(cause, position=0 if cause.code == model else found.common) for cause in known])


def _costless(cause: Cause) -> Cause:
    """Say of another spelling that the bill read all the same: the provider makes tokens of what it decoded."""
    if cause.code not in SPELLINGS or cause.kind == "expected":
        return cause
    return replace(cause, qualifiers=(*cause.qualifiers, "read-all-the-same"), override="expected")


def _order(cause: Cause) -> tuple[bool, int, str]:
    return cause.harmless, cause.position, cause.code


def recorded(changes: Iterable[Change]) -> tuple[Cause, ...]:
    """Return the expected causes among the changes that a session recorded."""
    return tuple(
        Cause(change.cause, CODES[change.cause].section, RecordedChange(change.cause, change.detail))
        for change in changes
        if change.cause in _EXPECTED
    )


_EXPECTED = frozenset((Code.MODEL_CHANGED, Code.COMPACTION, Code.REWIND, Code.CACHE_RESET, Code.SESSION_CHANGED))


def _section(left: Prompt, right: Prompt, position: int) -> str | None:
    sections = [segment.section for segment in (left.at(position), right.at(position)) if segment is not None]
    return min(sections, key=("tools", "system", "messages").index, default=None)


def _fields(left: Prompt, right: Prompt, left_call: Call, right_call: Call, fell: int | None) -> tuple[Cause, ...]:
    """Return what changed beside the content; harmless where the bill or the last breakpoint says so."""
    found: list[Cause] = []
    limit = limit_of(left)
    for cause in param_causes(left, right, left_call, right_call):
        if fell == 0 and cause.override != "expected":
            found.append(replace(cause, override="expected", qualifiers=("nothing-lost",)))
        else:
            found.append(replace(cause, override="expected") if cause.position >= limit else cause)
    if left.dropped != right.dropped:
        evidence = HeaderChanged(dropped=True)
        found.append(Cause(Code.BILLING_HEADER_CHANGED, "system", evidence, limit, "expected", "system[0]"))
    return tuple(found)


def _explained(
    left: Prompt, right: Prompt, found: Overlap, changes: Sequence[Change], resumed: Reloaded | None, *,
    templated: bool,
) -> tuple[Cause, ...]:  # fmt: skip
    """Explain what is only spelled otherwise, then each section from where its content parts."""
    limit = limit_of(left)
    causes = _spelled(left, right, found)
    if not found.covered_canonical and found.canonical < limit:
        causes += _content(left, right, found, changes, templated=templated)
        if not any(cause.position < limit for cause in causes):
            section = _section(left, right, found.canonical) or "messages"
            missing = left.stable - found.canonical if right.at(found.canonical) is None else 0
            causes.append(Cause(Code.PREFIX_MOVED, section, PromptParted(missing), found.canonical))
    if left.fidelity != right.fidelity:
        causes = [replace(cause, override="expected", qualifiers=("stored-otherwise",)) if cause.respelled else cause
                  for cause in causes]  # fmt: skip
    return _merged([cause for cause in causes if cause.position < limit], left, resumed)


def _spelled(left: Prompt, right: Prompt, found: Overlap) -> list[Cause]:
    """Explain the segments up to where the content parts, which differ in bytes alone."""
    pairs = zip(since(left, found.common, tail=False), since(right, found.common, tail=True), strict=False)
    numbered = enumerate(islice(pairs, found.canonical - found.common), found.common)
    differing = ((at, *pair) for at, pair in numbered if pair[0].data != pair[1].data)
    return [
        of_segments(old, new).cause(old.section, at, old.path) for at, old, new in islice(differing, RESPELLED_SEGMENTS)
    ]


def _content(left: Prompt, right: Prompt, found: Overlap, changes: Sequence[Change], *, templated: bool) -> list[Cause]:
    cleared = next((change.detail for change in changes if change.cause == Code.TOOL_RESULT_REWRITTEN), None)
    start, causes = found.canonical, list[Cause]()
    new = Counter(segment.data for segment in right if segment.kind != "envelope")  # what moved is among them
    new.subtract(segment.data for segment in islice(left, left.stable) if segment.kind != "envelope")
    context = PromptContext(+new, cleared, _relocated(left, right), templated)
    tools, right_tools = left.tools, right.tools
    if start < tools or tools != right_tools:
        causes += tool_causes(left.head[:tools], right.head[:right_tools], _discovered(left, right))
    if start < len(left.head) or len(left.head) - tools != len(right.head) - right_tools:
        causes += _of_section(context, "system", left.head[tools:], right.head[right_tools:], tools)
    same = max(0, start - len(left.head)) if len(left.head) == len(right.head) else 0
    same = max(same, left.messages.common(right.messages))
    same = min(message_start(left, same), message_start(right, same))  # what one side's message gained at its end
    wanted = max(0, limit_of(left) - len(left.head) - same)
    before, after = list(left.messages.since(same))[:wanted], [*right.messages.since(same), *right.tail]
    return [*causes, *_of_section(context, "messages", before, after, len(left.head) + same)]


def _of_section(
    context: PromptContext, section: str, left: Sequence[Segment], right: Sequence[Segment], begin: int
) -> list[Cause]:
    grows, size = section == "messages", len(left)
    if left == right[:size] and (size == len(right) or (grows and right[size].kind in ("envelope", "opaque"))):
        return []  # at most whole messages came
    found = mismatches(grouped(left, begin), grouped(right, begin), grows=grows)
    return BlockChanges(section, found, context).causes()


def _relocated(left: Prompt, right: Prompt) -> frozenset[bytes]:
    """Return the blocks that one side has in its system prompt, and the other in its messages."""
    before, after = ({segment.data for segment in side.head if segment.kind != "envelope"} for side in (left, right))
    went, came = before - after, after - before
    if not went and not came:
        return frozenset()
    return frozenset((
        *(segment.data for segment in right.messages if segment.data in went),
        *(segment.data for segment in left.messages if segment.data in came),
    ))  # fmt: skip


_REFERENCE = re.compile(rb'"tool_name"\s*:\s*"([^"\\]{1,200})"')


def _discovered(left: Prompt, right: Prompt) -> frozenset[str]:
    """Name the tools that searches in the history have found, and those that one of two prompts only announces."""
    names = {*left.deferred, *right.deferred}
    for segment in right.messages:
        if b'"tool_reference"' in segment.data:
            names.update(name.decode("utf-8", "replace") for name in _REFERENCE.findall(segment.data))
    return frozenset(names)


def _merged(causes: list[Cause], left: Prompt, resumed: Reloaded | None) -> tuple[Cause, ...]:
    """Return one cause a code, at its first place; count how many more there are."""
    causes = [_first_message(cause, causes, left) for cause in causes]
    if resumed is not None:
        causes = _rendered_again(causes, left, resumed)
    by_code: dict[Code, list[Cause]] = {}
    for cause in sorted(causes, key=lambda cause: cause.position):
        by_code.setdefault(cause.code, []).append(cause)
    merged = [
        replace(
            next((cause for cause in same if cause.override == "waste"), same[0]),
            position=same[0].position, more=len(same) - 1, skipped=sum(cause.skipped for cause in same),
        )
        for same in by_code.values()
    ]  # fmt: skip
    return tuple(sorted(merged, key=_order))


def _rendered_again(causes: list[Cause], left: Prompt, resumed: Reloaded) -> list[Cause]:
    """Say that tools or the first message were rendered anew as the session was loaded.

    That names what nothing else did; a clock or an id among it has a name of its own.
    """
    first_end = len(left.head) + _second_message(left)
    found: list[Cause] = []
    for cause in causes:
        first = cause.code in _RENDERED and len(left.head) <= cause.position < first_end
        if not first:
            found.append(cause)
        if first or (cause.code in _RENDERED_TOOLS and cause.section == "tools"):
            qualifiers = (resumed.qualifier, *cause.qualifiers)
            found.append(
                replace(cause, code=Code.RESUME_RERENDERED, qualifiers=qualifiers, paused=resumed.seconds)
            )  # fmt: skip
    return found


def _first_message(cause: Cause, causes: list[Cause], left: Prompt) -> Cause:
    """Name what nothing explains in the first message, where a later one is as it was."""
    if cause.code != Code.PREFIX_MOVED or cause.section != "messages" or not cause.differs:
        return cause
    second = _second_message(left)
    if second == len(left.messages) or cause.position >= len(left.head) + second:
        return cause
    changed = {cause.position for cause in causes}
    rest = enumerate(islice(left.messages, second, None), len(left.head) + second)
    if any(at not in changed and segment.kind != "envelope" for at, segment in rest):
        return replace(cause, code=Code.FIRST_MESSAGE_REWRITTEN)
    return cause


def _second_message(left: Prompt) -> int:
    """Return where the second message begins; the number of segments where there is none."""
    rest = enumerate(islice(left.messages, 1, None), 1)
    return next((at for at, segment in rest if segment.kind in ("envelope", "opaque")), len(left.messages))


class Reloaded(NamedTuple):
    """What shows that a session was loaded anew, and the seconds of a pause."""

    qualifier: Qualifier
    seconds: float | None = None


def _resumed(left_call: Call, right_call: Call, pause: float | None) -> Reloaded | None:
    """Tell what shows that the session was loaded anew; None where nothing does."""
    if left_call.session and right_call.session and left_call.session != right_call.session:
        return Reloaded("another-process")
    return Reloaded("after-a-pause", pause) if pause is not None and pause >= RESUMED else None


def _tail(left: Prompt, right: Prompt, found: Overlap, call: Call) -> tuple[Cause, ...]:
    """Find a last message that was rewritten where only exact breakpoints are read, and none stands before it."""
    if found.common < len(left.head) or not left.messages or not has_exact_breakpoints(right.model):
        return ()
    if right.fidelity not in ("wire", "parsed"):  # breakpoints are not in what a tool normalised
        return ()
    if provider_of(call.endpoint, right.model, right.dialect) not in ("openai", "azure"):
        return ()
    if right.breakpoints or b'"explicit"' in right.params.get("prompt_cache_options", b""):
        return ()
    last = len(left.head) + message_start(left, len(left.messages))
    if found.covered_canonical or found.canonical < last:
        return ()
    return (Cause(Code.TAIL_WITHOUT_BREAKPOINT, "messages", TailWithoutBreakpoint(), 0),)
