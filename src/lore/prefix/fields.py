"""Name the causes of a request's changed fields: they are not content, but decide what a cache serves.

A field that is left out equals its default. What a provider documents as harmless is `expected`; if the effect of a
field of `_FIELDS` is not documented, its cause is `unattributable`. Other fields are ignored: sampling (temperature,
limits, streaming) is part of no cache's key. For example, another `tool_choice` costs Claude's messages, and nothing in
OpenAI's caches (`_COSTS`).

Source: the providers' caching guides as of 2026-10 ("what invalidates which level").
"""

from __future__ import annotations

from collections.abc import Iterator

from lore.model.canonical import canonical, encode, printable, text_of
from lore.model.cause import Cause
from lore.model.codes import CODES, CauseKind, Code
from lore.model.differences import BetasChanged, CostsFrom, ModelFamily, ParameterChanged, Setting
from lore.model.jsonslice import raw_members
from lore.model.mask import mask
from lore.model.providers import provider_of
from lore.model.turn import Call, Prompt
from lore.model.vector import common_prefix
from lore.prefix.blocks import drop_empty_members
from lore.prefix.overlap import MASKED_BYTES

# The code of a changed field; a dot marks a member of another field. A new code also needs a row in `_SETTINGS` here,
# in `differences._ELSEWHERE` and in the step of `judge.rules.BYTES`.
_FIELDS: dict[str, str] = {
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
        "extra_key", "x-session-affinity",
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
_SHOWN_CHARACTERS, _SHOWN_BEFORE = 60, 20  # of a value; of them those before a difference


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
    is_rerouted = before and after and before != after and family in ("", "xai")  # the others ignore such headers
    changes += [(name, encode(before), encode(after))] if is_rerouted else []
    all_causes: list[Cause] = []
    for path, old, new in changes:
        field, _, member = path.partition(".")
        code = _FIELDS.get(path) or _FIELDS.get(field, Code.REQUEST_FEATURES_CHANGED)
        shown, unknown_member = (path, None) if path in _FIELDS else (field, member)
        level = costs.get(path) or costs.get(code, "unknown")
        evidence = ParameterChanged(shown, *_shorten(old, new), _SETTINGS[code], family, level, unknown_member)
        all_causes.append(_cause_of(code, path, evidence, current))
    betas, new_betas = set(previous_call.betas or ()), set(current_call.betas or ())
    if None not in (previous_call.betas, current_call.betas) and betas != new_betas:
        level = costs.get(Code.REQUEST_FEATURES_CHANGED, "unknown")
        evidence = BetasChanged(tuple(sorted(new_betas - betas)), tuple(sorted(betas - new_betas)), family, level)
        all_causes.append(_cause_of(Code.REQUEST_FEATURES_CHANGED, "beta headers", evidence, current))
    causes: dict[str, Cause] = {}
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


def _cause_of(code: str, path: str, evidence: ParameterChanged | BetasChanged, current: Prompt) -> Cause:
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


def _shorten(previous: bytes | None, current: bytes | None) -> tuple[str | None, str | None]:
    """Return the beginnings of two values, credentials masked; if they are equal, both from where they differ.

    None if a value was left out.
    """
    before, after = _masked_line(previous), _masked_line(current)
    shared = common_prefix(before, after)
    start = shared - _SHOWN_BEFORE if shared >= _SHOWN_CHARACTERS else 0
    return None if previous is None else _excerpt(before, start), None if current is None else _excerpt(after, start)


def _masked_line(raw: bytes | None) -> str:
    most = 2 * MASKED_BYTES  # a credential at the end of the part that may be shown is masked whole
    text = text_of(raw) if raw and raw[:1] == b'"' else (raw or b"")[:most].decode("utf-8", "replace")
    return mask(printable(" ".join(text.split()))[:most])[:MASKED_BYTES]


def _excerpt(text: str, start: int) -> str:
    end = start + _SHOWN_CHARACTERS
    return "…" * (start > 0) + text[start:end] + "…" * (len(text) > end)
