"""Name why a prompt did not extend the previous one: every cause, each at the place from which it costs.

An expected cause (another model, a recorded compaction) explains the whole break. Otherwise each section is explained
by itself, tools as a set and system and messages by alignment, so that a change of tools does not hide one of messages.
Each code is reported once, at its first place; a difference without an explanation is `prefix-moved`. The causes and
their numbers follow the catalogue of known cache breaks (public issue threads).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import islice
from operator import attrgetter

from msgspec.structs import replace

from lore.model import differences as d
from lore.model.cause import SPELLINGS, Cause, Qualifier
from lore.model.codes import CODES, Code
from lore.model.deferred import pattern
from lore.model.evidence import ModelChanged, RecordedChange
from lore.model.labels import KNOWLEDGE_UPDATE
from lore.model.limits import RESPELLED_SEGMENTS
from lore.model.providers import GATEWAYS, has_exact_breakpoints, provider_of, without_platform
from lore.model.state import Change
from lore.model.turn import Call, Prompt
from lore.prefix.blocks import message_start
from lore.prefix.fields import explain_params
from lore.prefix.likeness import is_model_message
from lore.prefix.overlap import Overlap, count_cached_segments, iterate_from, locate_difference
from lore.prefix.purpose import begins_user_turn
from lore.prefix.texts import name_segment_spelling
from lore.prefix.tools import explain_tools

# Causes that follow from loading the session again, as the client then renders its prompt again.
_RENDERED = frozenset((Code.PREFIX_MOVED, Code.REMINDER_MOVED, Code.MEMORY_IN_PREFIX, Code.FIRST_MESSAGE_REWRITTEN))
_RENDERED_TOOLS = frozenset(
    (Code.TOOLS_REORDERED, Code.TOOLS_ADDED_OR_REMOVED, Code.TOOL_DEFINITION_CHANGED, Code.DEFERRED_TOOLS_LOADED)
)
_TAIL_CONTENT = frozenset(  # what a last message that is replaced in each request holds
    (*_RENDERED, Code.DATE_IN_PREFIX, Code.ID_IN_PREFIX, Code.TOKEN_REMINDER_IN_PREFIX, Code.GIT_STATUS_IN_PREFIX)
)
# Events of a log that entitle the prompt to differ.
EXPECTED = (
    Code.MODEL_CHANGED, Code.COMPACTION, Code.REWIND, Code.CACHE_RESET, Code.SESSION_CHANGED, Code.CHAIN_RESTARTED,
)  # fmt: skip
_APIS = frozenset(("anthropic", "openai", "azure", "gemini", "vertex", "bedrock"))  # they read empty members as absent
_RELOAD_SECONDS = 600.0  # a pause after which the client has often loaded the session again
_UNKNOWN = Call()
_KNOWLEDGE_UPDATE = KNOWLEDGE_UPDATE.encode()


def find_causes(
    previous: Prompt, current: Prompt, overlap: Overlap, changes: Sequence[Change], *,
    previous_call: Call = _UNKNOWN, current_call: Call = _UNKNOWN, pause: float | None = None,
    fell: int | None = None, all_read: bool = False,
) -> tuple[Cause, ...]:  # fmt: skip
    """Return the causes of a cache break; empty if the previous prompt is reused up to its tail and no field changed.

    The log recorded `changes` between the two; `pause` is in seconds. `fell` is by how many tokens the cached reads
    fell; 0: all that was cached was read, whatever field changed. `all_read`: usage shows that all of the previous
    prompt was read, so that another spelling cost nothing.
    """
    if previous.dialect != current.dialect:  # two request shapes cannot explain one another
        return ()
    expected = _find_expected(previous, current, overlap, changes, all_read=all_read)
    if expected:
        return expected
    fields = _explain_fields(previous, current, previous_call, current_call, fell)
    # Gemini's cached objects hold the beginning of a prompt: bodies that name different ones do not show what changed
    objects = [[side.params.get(name) for name in ("cachedContent", "cached_content")] for side in (previous, current)]
    if overlap.is_covered or objects[0] != objects[1]:
        return fields
    if (previous.partial or current.partial) and overlap.common >= len(previous.head):
        return (Cause(Code.CONTINUATION, "messages", d.PartialPrompt(), overlap.common),)
    provider = provider_of(current_call.endpoint, current.model, current.dialect)
    tail = _explain_tail(previous, current, overlap, provider)
    if overlap.common >= count_cached_segments(previous):
        place = locate_difference(previous, current, overlap.common)
        section = None if place is None else place.section
        after_breakpoint = Cause(Code.CHANGE_AFTER_LAST_BREAKPOINT, section, d.BehindBreakpoint(), overlap.common)
        return (*fields, after_breakpoint, *tail)
    content = _explain_content(previous, current, overlap, changes, provider, has_fallen=bool(fell))
    sessions = {call.session for call in (previous_call, current_call)}
    if len(sessions) > 1 and all(sessions):
        content = _name_reload(content, previous, "another-process", None)
    elif pause is not None and pause >= _RELOAD_SECONDS and any(map(is_model_message, current.messages)):
        content = _name_reload(content, previous, "after-a-pause", pause)
    content = _mark_costless(_merge_by_code(content), provider, all_read=all_read)
    in_tail = [cause for cause in content if cause.code in _TAIL_CONTENT]
    if tail and in_tail:  # they changed only what is replaced in each request: the missing breakpoint is the cause
        content = [cause for cause in content if cause not in in_tail]
        tail = (replace(tail[0], also=(in_tail[0],)),)
    return tuple(sorted((*content, *tail, *fields), key=_order))


_order = attrgetter("is_harmless", "position")  # the first in the prompt leads, harmless causes last


def _find_expected(
    previous: Prompt, current: Prompt, overlap: Overlap, changes: Sequence[Change], *, all_read: bool
) -> tuple[Cause, ...]:
    """Return the causes that entitle the current prompt to differ."""
    names = without_platform(previous.model), without_platform(current.model)
    # another model reads nothing of this cache: if all of it was read, the other name is of the same model
    has_other_model = names[0] != names[1] and None not in names and not all_read
    if overlap.is_covered and not has_other_model:
        return ()
    expected = [cause for cause in recorded_causes(changes) if has_other_model or cause.code != Code.MODEL_CHANGED]
    if not expected and _is_pinned_again(previous, current, overlap):
        pinned = RecordedChange(Code.CACHE_RESET, "the knowledge updates in the messages moved to the system prompt")
        expected.append(Cause(Code.CACHE_RESET, "system", pinned))
    if has_other_model and all(cause.code != Code.MODEL_CHANGED for cause in expected):
        is_first = not any(map(is_model_message, current.messages))  # of the conversation: none was cached for a model
        qualifiers: tuple[Qualifier, ...] = ("first-request",) if is_first else ()
        evidence = ModelChanged(previous.model, current.model)
        expected.append(Cause(Code.MODEL_CHANGED, "model", evidence, override="expected", qualifiers=qualifiers))
    positions = [0 if cause.code == Code.MODEL_CHANGED else overlap.common for cause in expected]
    return tuple([replace(cause, position=at) for cause, at in zip(expected, positions, strict=True)])


def _is_pinned_again(previous: Prompt, current: Prompt, overlap: Overlap) -> bool:
    """Return whether a reset of lore's moved all knowledge updates before the last message to the system prompt."""
    if not previous.tool_count <= overlap.common < len(previous.head):
        return False
    end = message_start(previous, len(previous.messages))
    if previous.messages.common(current.messages) >= end:  # they are still in the messages
        return False
    before_last = islice(previous.messages, end)
    old, new = ([segment.data for segment in some if segment.kind != "envelope"]
                for some in (before_last, current.messages))  # fmt: skip
    kept = [data for data in old if _KNOWLEDGE_UPDATE not in data]
    return len(kept) < len(old) and new[: len(kept)] == kept


def recorded_causes(changes: Iterable[Change]) -> tuple[Cause, ...]:
    """Return the expected causes among the changes that a session recorded."""
    return tuple(
        Cause(change.cause, CODES[change.cause].section, RecordedChange(change.cause, change.detail))
        for change in changes
        if change.cause in EXPECTED
    )


def _mark_costless(causes: list[Cause], provider: str, *, all_read: bool) -> list[Cause]:
    """Mark causes that cost nothing as expected, and why: usage shows it, or the API reads two spellings as one."""
    reason: Qualifier = "read-all-the-same" if all_read else "same-to-the-api"
    codes = SPELLINGS if all_read else (Code.CONTENT_SHAPE_CHANGED,) if provider == "anthropic" else ()
    marked: list[Cause] = []
    for cause in causes:
        if all_read and isinstance(cause.evidence, d.HeaderChanged):
            cause = replace(cause, evidence=replace(cause.evidence, dropped=True), override="expected")
        elif cause.code in codes and cause.kind != "expected":
            cause = replace(cause, qualifiers=(*cause.qualifiers, reason), override="expected")
        marked.append(cause)
    return marked


def _explain_fields(
    previous: Prompt, current: Prompt, previous_call: Call, current_call: Call, fell: int | None
) -> tuple[Cause, ...]:
    """Return the causes of changed fields: expected if they cost only after the last breakpoint, or no read fell."""
    causes: list[Cause] = []
    limit = count_cached_segments(previous)
    for cause in explain_params(previous, current, previous_call, current_call):
        if fell == 0 and cause.override != "expected":
            causes.append(replace(cause, override="expected", qualifiers=("nothing-lost",)))
        else:
            causes.append(replace(cause, override="expected") if cause.position >= limit else cause)
    if previous.dropped != current.dropped:
        evidence = d.HeaderChanged(dropped=True)
        causes.append(Cause(Code.BILLING_HEADER_CHANGED, "system", evidence, limit, "expected", "system[0]"))
    return tuple(causes)


def _explain_tail(previous: Prompt, current: Prompt, overlap: Overlap, provider: str) -> tuple[Cause, ...]:
    """Return the cause of a rewritten last message if the API reads only at breakpoints, and none is before it."""
    if overlap.common < len(previous.head) or not previous.messages or not lacks_breakpoints(current, provider):
        return ()
    last = len(previous.head) + message_start(previous, len(previous.messages))
    if overlap.is_covered_canonically or overlap.canonical < last:
        return ()
    return (Cause(Code.TAIL_WITHOUT_BREAKPOINT, "messages", d.TailWithoutBreakpoint(), 0),)


def lacks_breakpoints(prompt: Prompt, provider: str) -> bool:
    """Return whether the API reads only at breakpoints, and the prompt sets none: the API sets one at its end."""
    has_breakpoints = prompt.breakpoints or b'"explicit"' in prompt.params.get("prompt_cache_options", b"")
    # a normalised body has lost its breakpoints
    is_whole = prompt.fidelity in ("wire", "parsed")
    return is_whole and not has_breakpoints and provider in ("openai", "azure") and has_exact_breakpoints(prompt.model)


def _explain_content(
    previous: Prompt, current: Prompt, overlap: Overlap, changes: Sequence[Change], provider: str, *, has_fallen: bool
) -> list[Cause]:  # fmt: skip
    """Explain the segments that are only spelled differently, then each section from where its content differs."""
    maker = provider_of("", without_platform(current.model), "") if provider in GATEWAYS else provider
    has_template = current.dialect == "openai-chat" and maker not in _APIS
    limit = count_cached_segments(previous)
    starts = iterate_from(previous, overlap.common, tail=False), iterate_from(current, overlap.common, tail=True)
    pairs = islice(zip(*starts, strict=False), overlap.canonical - overlap.common)
    respelled = ((at, *pair) for at, pair in enumerate(pairs, overlap.common) if pair[0].data != pair[1].data)
    causes = [
        name_segment_spelling(old, new).cause(old.section, at, old.path)
        for at, old, new in islice(respelled, RESPELLED_SEGMENTS)
    ]
    if not overlap.is_covered_canonically and overlap.canonical < limit:
        causes += explain_sections(previous, current, overlap, changes, has_template=has_template)
        if not any(cause.position < limit for cause in causes):
            place = locate_difference(previous, current, overlap.canonical)
            section = "messages" if place is None else place.section
            is_shorter = current.segment_at(overlap.canonical) is None
            evidence = d.PromptParted(previous.stable - overlap.canonical if is_shorter else 0)
            causes.append(Cause(Code.PREFIX_MOVED, section, evidence, overlap.canonical))
    # a template that omits earlier reasoning had done so in a previous prompt of the user, so the read had not fallen
    was_omitted = has_fallen and begins_user_turn(previous)
    may_omit_thinking = has_template and begins_user_turn(current) and not was_omitted
    causes = [cause for cause in causes if cause.position < limit]
    named: list[Cause] = []
    for cause in causes:
        evidence = cause.evidence
        if cause.respelled and previous.fidelity != current.fidelity:
            cause = replace(cause, override="expected", qualifiers=("stored-otherwise",))
        elif _is_first_message_rewritten(cause, causes, previous):
            cause = replace(cause, code=Code.FIRST_MESSAGE_REWRITTEN)
        elif isinstance(evidence, d.ImageChanged) and evidence.change == "bytes":
            is_apart = not any(map(is_model_message, previous.messages))
            cause = replace(cause, evidence=replace(evidence, apart=is_apart))
        elif may_omit_thinking and isinstance(evidence, d.ThinkingChanged) and evidence.change == "gone":
            # templates of Qwen3, DeepSeek V3.1, GLM-4.5, Kimi K2, MiniMax M2 and gpt-oss omit it at a user's new prompt
            cause = replace(cause, override="unattributable", evidence=replace(evidence, templated=True))
        named.append(cause)
    return named


def explain_sections(
    previous: Prompt, current: Prompt, overlap: Overlap, changes: Sequence[Change], *, has_template: bool
) -> list[Cause]:
    """Return the causes in tools, system prompt and messages, each compared with that of the previous prompt."""
    cleared = next((change.detail for change in changes if change.cause == Code.TOOL_RESULT_REWRITTEN), None)
    start, head = overlap.canonical, len(previous.head)
    new_blocks = Counter(segment.data for segment in current if segment.kind != "envelope")
    new_blocks.subtract(segment.data for segment in islice(previous, previous.stable) if segment.kind != "envelope")
    from lore.prefix.changes import PromptContext, explain_section  # noqa: PLC0415 - most prompts only grow

    heads = [{segment.data for segment in side.head if segment.kind != "envelope"} for side in (previous, current)]
    relocated = (  # blocks that one prompt has in its system prompt and the other in its messages
        segment.data for head, other, side in ((*heads, current), (*heads[::-1], previous))
        for segment in side.messages if segment.data in head and segment.data not in other
    )  # fmt: skip
    context = PromptContext(+new_blocks, cleared, frozenset(relocated), has_template)
    causes: list[Cause] = []
    tools, new_tools = previous.tool_count, current.tool_count
    if start < tools or tools != new_tools:
        discovered = {*previous.deferred, *current.deferred}  # and those that searches in the history found
        for segment in current.messages:
            if b'"tool_reference"' in segment.data:
                discovered.update(name.decode("utf-8", "replace") for name in _TOOL_REFERENCE.findall(segment.data))
        causes += explain_tools(previous.head[:tools], current.head[:new_tools], discovered)
    if start < head or head - tools != len(current.head) - new_tools:
        causes += explain_section(context, "system", previous.head[tools:], current.head[new_tools:], tools)
    same = max(0, start - head) if head == len(current.head) else 0
    same = max(same, previous.messages.common(current.messages))
    same = min(message_start(previous, same), message_start(current, same))  # a message may have grown at its end
    cacheable = max(0, count_cached_segments(previous) - head - same)
    messages = list(previous.messages.since(same))[:cacheable]
    new_messages = [*current.messages.since(same), *current.tail]
    return [*causes, *explain_section(context, "messages", messages, new_messages, head + same)]


_TOOL_REFERENCE = pattern(rb'"tool_name"\s*:\s*"([^"\\]{1,200})"')


def _merge_by_code(causes: list[Cause]) -> list[Cause]:
    """Return one cause for each code, at its first place, with the number of further places."""
    by_code: dict[str, list[Cause]] = {}
    for cause in sorted(causes, key=lambda cause: cause.position):
        by_code.setdefault(cause.code, []).append(cause)
    merged = [
        replace(
            next((cause for cause in same if cause.override == "waste"), same[0]),
            position=same[0].position, more=len(same) - 1, skipped=sum(cause.skipped for cause in same),
        )
        for same in by_code.values()
    ]  # fmt: skip
    return sorted(merged, key=_order)


def _is_first_message_rewritten(cause: Cause, causes: list[Cause], previous: Prompt) -> bool:
    """Return whether a cause is an unexplained change of the first message, and a later message is unchanged."""
    if cause.code != Code.PREFIX_MOVED or cause.section != "messages" or not cause.differs:
        return False
    second = _second_message(previous)
    if cause.position >= len(previous.head) + second:
        return False
    changed = {cause.position for cause in causes}
    later = enumerate(islice(previous.messages, second, None), len(previous.head) + second)
    return any(at not in changed and segment.kind != "envelope" for at, segment in later)


def _second_message(previous: Prompt) -> int:
    """Return where the second message begins; the number of segments if there is only one."""
    later = enumerate(islice(previous.messages, 1, None), 1)
    return next((at for at, segment in later if segment.kind in ("envelope", "opaque")), len(previous.messages))


def _name_reload(causes: list[Cause], previous: Prompt, qualifier: Qualifier, pause: float | None) -> list[Cause]:
    """Add to changed tools, and put in place of an unexplained first message, that the session was loaded again."""
    first_end = len(previous.head) + _second_message(previous)
    new_causes: list[Cause] = []
    for cause in causes:
        is_first = cause.code in _RENDERED and len(previous.head) <= cause.position < first_end
        if not is_first:
            new_causes.append(cause)
        if is_first or (cause.code in _RENDERED_TOOLS and cause.section == "tools"):
            qualifiers = (qualifier, *cause.qualifiers)
            new_causes.append(replace(cause, code=Code.RESUME_RERENDERED, qualifiers=qualifiers, paused=pause))
    return new_causes
