"""Name why a prompt did not extend the previous one: every cause, each at the place from which it costs.

An expected cause (another model, a recorded compaction) explains the whole break. Otherwise each section is explained
by itself, tools as a set and system and messages by alignment, so that a change of tools does not hide one of messages.
Each code is reported once, at its first place; a difference without an explanation is `prefix-moved`. The causes and
their numbers follow the catalogue of known cache breaks (public issue threads).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import islice
from operator import attrgetter

from msgspec.structs import replace

from lore.model import differences as d
from lore.model.canonical import canonical, encode, printable, text_of
from lore.model.cause import SPELLINGS, Cause, Qualifier
from lore.model.codes import CODES, CauseKind, Code
from lore.model.deferred import pattern
from lore.model.differences import BetasChanged, CostsFrom, ModelFamily, ParameterChanged, Setting
from lore.model.evidence import ModelChanged, RecordedChange
from lore.model.jsonslice import raw_members
from lore.model.labels import KNOWLEDGE_UPDATE
from lore.model.limits import RESPELLED_SEGMENTS
from lore.model.mask import mask
from lore.model.providers import GATEWAYS, has_exact_breakpoints, provider_of, without_platform
from lore.model.state import Change
from lore.model.turn import Call, Prompt
from lore.prefix.blocks import drop_empty_members, message_start
from lore.prefix.overlap import MASKED_BYTES, Overlap, count_cached_segments, iterate_from, locate_difference
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
    maker = provider_of("", without_platform(current.model), "") if provider in GATEWAYS else provider
    has_template = current.dialect == "openai-chat" and maker not in _APIS
    content = _explain_content(previous, current, overlap, changes, has_template=has_template, has_fallen=bool(fell))
    if previous_call.session and current_call.session and previous_call.session != current_call.session:
        content = _name_reload(content, previous, "another-process", None)
    elif pause is not None and pause >= _RELOAD_SECONDS:
        content = _name_reload(content, previous, "after-a-pause", pause)
    content = _merge_by_code(content)
    if all_read:
        content = [
            replace(cause, evidence=replace(cause.evidence, dropped=True), override="expected")
            if isinstance(cause.evidence, d.HeaderChanged) else _mark_costless(cause, "read-all-the-same", SPELLINGS)
            for cause in content
        ]  # fmt: skip
    elif provider == "anthropic":
        content = [_mark_costless(cause, "same-to-the-api", (Code.CONTENT_SHAPE_CHANGED,)) for cause in content]
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
        expected.append(Cause(Code.MODEL_CHANGED, "model", ModelChanged(previous.model, current.model)))
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


def _mark_costless(cause: Cause, reason: Qualifier, codes: Collection[Code]) -> Cause:
    """Mark a cause of these codes as expected, and say why it cost nothing."""
    if cause.code not in codes or cause.kind == "expected":
        return cause
    return replace(cause, qualifiers=(*cause.qualifiers, reason), override="expected")


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
    previous: Prompt,
    current: Prompt,
    overlap: Overlap,
    changes: Sequence[Change],
    *,
    has_template: bool,
    has_fallen: bool,
) -> list[Cause]:
    """Explain the segments that are only spelled differently, then each section from where its content differs."""
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


# Changes of a request's other fields: they are not content, but decide what a cache serves.
#
# A field that is left out equals its default. What a provider documents as harmless is `expected`; if the effect of a
# field of `_FIELDS` is not documented, its cause is `unattributable`. Other fields are ignored. Source: the providers'
# caching guides as of 2026-10 ("what invalidates which level"). Sampling (temperature, limits, streaming) is part of no
# cache's key.

# The code of a changed field; a dot marks a member of another field. A new code also needs a row in `_SETTINGS` here,
# in `differences._ELSEWHERE` and in the step of `judge.rules.BYTES`.
_FIELDS: dict[str, Code] = {
    **dict.fromkeys((
        "thinking", "effort", "reasoning", "reasoning_effort", "verbosity", "service_tier", "serviceTier", "speed",
        "enable_thinking", "thinking_budget", "chat_template_kwargs", "performanceConfig", "text.verbosity",
        "output_config.effort", "generationConfig.thinkingConfig", "generation_config.thinking_config",
        "additionalModelRequestFields.thinking", "additionalModelRequestFields.reasoning_config",
        "additionalModelRequestFields.reasoningConfig", "additionalModelRequestFields.effort",
        "additionalModelRequestFields.output_config", "additionalModelRequestFields.reasoning_effort",
    ), Code.GENERATION_SETTINGS_CHANGED),
    **dict.fromkeys((
        "tool_choice", "parallel_tool_calls", "function_call", "toolConfig", "tool_config",
        "disable_parallel_tool_use",
    ), Code.TOOL_CHOICE_CHANGED),
    **dict.fromkeys((
        "context_management", "anthropic_beta", "betas", "mcp_servers", "cachedContent",
        "cached_content", "prompt_cache_key", "output_config", "additionalModelRequestFields", "truncation",
        "x-grok-conv-id", "container.skills", "prompt.id", "prompt.version", "prompt.variables", "cache_salt",
        "extra_key",
    ), Code.REQUEST_FEATURES_CHANGED),
    **dict.fromkeys((
        "response_format", "output_format", "text.format", "output_config.format", "generationConfig.responseSchema",
        "generationConfig.responseJsonSchema", "generationConfig.responseMimeType", "generationConfig.response_schema",
        "generation_config.response_schema", "generation_config.response_mime_type", "guided_json",
        "additionalModelRequestFields.response_format", "outputConfig",
    ), Code.OUTPUT_SCHEMA_CHANGED),
}  # fmt: skip
_NESTED = frozenset(name.partition(".")[0] for name in _FIELDS if "." in name)
_DEFAULTS = frozenset((
    b"null", b'"auto"', b'{"type":"auto"}', b'{"type":"disabled"}', b'{"type":"text"}', b'"default"', b'"standard"',
    b'{"functionCallingConfig":{"mode":"AUTO"}}', b'{"toolChoice":{"auto":{}}}', b"{}", b"[]", b'"text/plain"',
    b'{"latency":"standard"}',
))  # fmt: skip
_ON_BY_DEFAULT = frozenset(("parallel_tool_calls",))

# From where a change costs, by code or field; without a row it is unknown.
_COSTS: dict[ModelFamily, dict[str, CostsFrom]] = {
    "claude": {
        Code.GENERATION_SETTINGS_CHANGED: "messages",
        "speed": "system",
        "service_tier": "nothing",
        "serviceTier": "nothing",
        "performanceConfig": "nothing",
        Code.TOOL_CHOICE_CHANGED: "messages",
        Code.OUTPUT_SCHEMA_CHANGED: "system",
        "container.skills": "system",  # they render into the system prompt (Anthropic's guide to Skills)
    },
    "openai": {
        Code.GENERATION_SETTINGS_CHANGED: "all",
        Code.TOOL_CHOICE_CHANGED: "nothing",
        Code.OUTPUT_SCHEMA_CHANGED: "system",
        "prompt_cache_key": "all",  # it selects the machine (OpenAI's guide to prompt caching)
        **dict.fromkeys(("prompt.id", "prompt.version"), "all"),  # a stored prompt begins the input
    },
    "xai": {  # both select the machine (docs.x.ai, maximizing cache hits)
        "prompt_cache_key": "all",
        "x-grok-conv-id": "all",
    },
    "mistral": {"prompt_cache_key": "all"},  # docs.mistral.ai, prompt caching: the same for requests of one prefix
    # of vLLM and of SGLang: requests with another value share nothing (their documentation of prefix caching)
    "": dict.fromkeys(("cache_salt", "extra_key"), "all"),
}
_SETTINGS: dict[str, Setting] = {
    Code.GENERATION_SETTINGS_CHANGED: "generation",
    Code.TOOL_CHOICE_CHANGED: "tool-choice",
    Code.REQUEST_FEATURES_CHANGED: "features",
    Code.OUTPUT_SCHEMA_CHANGED: "output-schema",
}
_RANK: dict[CauseKind | None, int] = {"expected": 0, "unattributable": 1, "waste": 2, None: 2}
_SHOWN_CHARACTERS = 60  # of a value


def explain_params(previous: Prompt, current: Prompt, previous_call: Call, current_call: Call) -> list[Cause]:
    """Return the causes of changed fields, one for each code.

    That is the one of the worst kind; of several, the one that costs from the earliest place. The provider that a
    router chose, and the beta headers, are compared as fields are.
    """
    provider, family = provider_of(current_call.endpoint, current.model, current.dialect), ""
    if provider == "anthropic" or (provider in ("bedrock", "vertex") and "claude" in (current.model or "")):
        family = "claude"  # its rules hold on every cloud that serves it
    elif provider in ("openai", "azure"):
        family = "openai"
    elif provider in ("xai", "mistral"):
        family = provider
    costs = _COSTS[family]
    changes = [*_find_field_changes(previous.params, current.params)]
    (name, _, before), (_, _, after) = (call.route.partition(": ") for call in (previous_call, current_call))
    changes += [(name, encode(before), encode(after))] if before and after and before != after else []
    all_causes: list[Cause] = []
    for path, old, new in changes:
        field, _, member = path.partition(".")
        code = _FIELDS.get(path) or _FIELDS.get(field, Code.REQUEST_FEATURES_CHANGED)
        shown, unknown_member = (path, None) if path in _FIELDS else (field, member)
        level = costs.get(path) or costs.get(code, "unknown")
        evidence = ParameterChanged(shown, _shorten(old), _shorten(new), _SETTINGS[code], family, level, unknown_member)
        all_causes.append(_cause_of(code, path, evidence, current))
    betas, new_betas = set(previous_call.betas or ()), set(current_call.betas or ())
    if None not in (previous_call.betas, current_call.betas) and betas != new_betas:
        level = costs.get(Code.REQUEST_FEATURES_CHANGED, "unknown")
        evidence = BetasChanged(tuple(sorted(new_betas - betas)), tuple(sorted(betas - new_betas)), family, level)
        all_causes.append(_cause_of(Code.REQUEST_FEATURES_CHANGED, "beta headers", evidence, current))
    causes: dict[Code, Cause] = {}
    for cause in all_causes:
        both = causes.get(cause.code, cause), cause
        causes[cause.code] = min(both, key=lambda candidate: (-_RANK[candidate.override], candidate.position))
    return list(causes.values())


def _find_field_changes(
    previous: dict[str, bytes], current: dict[str, bytes]
) -> Iterator[tuple[str, bytes | None, bytes | None]]:
    """Yield the changed fields that a cache may depend on: name, previous and current JSON (None: left out)."""
    for name in dict.fromkeys((*previous, *current)):
        before, after = previous.get(name), current.get(name)
        if before == after:
            continue
        changes = [(name, before, after)]
        if name in _NESTED:
            members, new_members = raw_members(before or b"") or {}, raw_members(after or b"") or {}
            keys = dict.fromkeys((*members, *new_members))
            changes = [(f"{name}.{key}", members.get(key), new_members.get(key)) for key in keys]
        for field, old, new in changes:
            is_known = name in _FIELDS or field in _FIELDS
            if is_known and _effective_value(field, old) != _effective_value(field, new):
                yield field, old, new


def _effective_value(name: str, raw: bytes | None) -> bytes:
    """Return a field's canonical value; empty for its default and for a value that holds nothing."""
    if raw is None:
        return b""
    value = canonical(drop_empty_members(raw))
    return b"" if value in _DEFAULTS or (name in _ON_BY_DEFAULT and value == b"true") else value


def _cause_of(code: Code, path: str, evidence: ParameterChanged | BetasChanged, current: Prompt) -> Cause:
    """Return the cause, at the section and position from which the change costs."""
    levels: dict[CostsFrom, tuple[str, int, CauseKind | None]] = {
        "all": ("tools", 0, None),
        "unknown": ("tools", 0, "unattributable"),
        "system": ("system", current.tool_count, None),
        "messages": ("messages", len(current.head), None),
        "nothing": ("messages", current.stable, "expected"),
    }
    section, position, kind = levels[evidence.level]
    if kind is None and CODES[code].kind == "unattributable":  # for this field it is documented
        kind = "waste"
    return Cause(code, section, evidence, position, kind, path)


def _shorten(raw: bytes | None) -> str | None:
    """Return the beginning of a value, credentials masked; None if it was left out."""
    if raw is None:
        return None
    text = printable(text_of(raw) if raw[:1] == b'"' else raw[:MASKED_BYTES].decode("utf-8", "replace"))
    masked = mask(text[:MASKED_BYTES])
    return masked if len(masked) <= _SHOWN_CHARACTERS else masked[:_SHOWN_CHARACTERS] + "…"
