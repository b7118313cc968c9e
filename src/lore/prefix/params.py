"""Explain how a request's other fields changed: what is no content, and yet decides what a cache serves.

In: the parameters of two prompts, the beta features of their calls, who serves. Out: causes, each where it begins
to cost there. Rules: a field that is left out equals its default; what a provider documents as harmless is
`expected`; where nothing is documented, it is `unattributable`. Source: the providers' caching guides as of 2026-10
("what invalidates which level"); sampling (temperature, limits, streaming) is no part of any cache's key.
"""

from __future__ import annotations

from typing import NamedTuple

from msgspec.structs import replace

from lore.model.canonical import canonical, printable, text_of
from lore.model.cause import Cause
from lore.model.codes import CauseKind, Code
from lore.model.differences import BetasChanged, CostsFrom, ModelFamily, ParameterChanged, Setting
from lore.model.jsonslice import table
from lore.model.mask import mask
from lore.model.providers import provider_of
from lore.model.turn import Call, Prompt
from lore.prefix.blocks import without_empty
from lore.prefix.overlap import WIDE

# Fields, by the code that a change of them has; those with a point stand inside another one.
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
_ON = frozenset(("parallel_tool_calls",))  # on where it is left out

# Where a change begins to cost: by who serves, by code or by field; unknown where no row says it.
_COSTS: dict[ModelFamily, dict[str, CostsFrom]] = {
    "claude": {
        Code.GENERATION_SETTINGS_CHANGED: "messages",
        "speed": "system",
        "service_tier": "nothing",
        "serviceTier": "nothing",
        "performanceConfig": "nothing",
        Code.TOOL_CHOICE_CHANGED: "messages",
        Code.OUTPUT_SCHEMA_CHANGED: "system",
    },
    "openai": {
        Code.GENERATION_SETTINGS_CHANGED: "all",
        Code.TOOL_CHOICE_CHANGED: "nothing",
        Code.OUTPUT_SCHEMA_CHANGED: "system",
    },
    "": {},
}
_SETTINGS: dict[str, Setting] = {
    Code.GENERATION_SETTINGS_CHANGED: "generation",
    Code.TOOL_CHOICE_CHANGED: "tool-choice",
    Code.REQUEST_FEATURES_CHANGED: "features",
    Code.OUTPUT_SCHEMA_CHANGED: "output-schema",
}
_RANK: dict[CauseKind | None, int] = {"expected": 0, "unattributable": 1, "waste": 2, None: 2}
_SHOWN = 60  # characters of a value


class FieldChange(NamedTuple):
    """A field that is not what it was, as JSON; None where it was left out."""

    field: str
    left: bytes | None
    right: bytes | None


def param_causes(left: Prompt, right: Prompt, left_call: Call, right_call: Call) -> list[Cause]:
    """Return what changed in the request's other fields, one cause a code."""
    changed = _changes(left.params, right.params)
    before, after = left_call.betas, right_call.betas
    betas = before is not None and after is not None and set(before) != set(after)
    if not changed and not betas:
        return []
    family = _family(right, right_call)
    found = [_of_field(change, family, right) for change in changed]
    if before is not None and after is not None and betas:
        added, removed = tuple(sorted({*after} - {*before})), tuple(sorted({*before} - {*after}))
        evidence = BetasChanged(added, removed, family, _level(family, Code.REQUEST_FEATURES_CHANGED, ""))
        found.append(_costing(Code.REQUEST_FEATURES_CHANGED, "beta headers", evidence, right))
    causes: dict[Code, Cause] = {}
    for cause in found:
        held = causes.setdefault(cause.code, cause)
        if _RANK[cause.override] > _RANK[held.override]:
            causes[cause.code] = replace(cause, position=min(cause.position, held.position))
    return list(causes.values())


def _changes(left: dict[str, bytes], right: dict[str, bytes]) -> list[FieldChange]:
    """Return the fields that a cache may care about and that changed; equal values cost one comparison."""
    if left == right:
        return []
    found: list[FieldChange] = []
    for name in dict.fromkeys((*left, *right)):
        before, after = left.get(name), right.get(name)
        if before == after:
            continue
        fields = [FieldChange(name, before, after)]
        if name in _NESTED:
            old, new = table(before or b"") or {}, table(after or b"") or {}
            fields = [FieldChange(f"{name}.{key}", old.get(key), new.get(key)) for key in dict.fromkeys((*old, *new))]
        found += [field for field in fields if (name in _FIELDS or field.field in _FIELDS)
                  and _plain(field.field, field.left) != _plain(field.field, field.right)]  # fmt: skip
    return found


def _plain(name: str, raw: bytes | None) -> bytes:
    """Return a field's canonical value; empty for its default, and for one that holds nothing."""
    if raw is None:
        return b""
    made = canonical(without_empty(raw))
    return b"" if made in _DEFAULTS or (name in _ON and made == b"true") else made


def _family(prompt: Prompt, call: Call) -> ModelFamily:
    """Name whose rules hold: Claude's on every cloud that serves it, OpenAI's on its own and Azure."""
    provider = provider_of(call.endpoint, prompt.model, prompt.dialect)
    if provider == "anthropic" or (provider in ("bedrock", "vertex") and "claude" in (prompt.model or "")):
        return "claude"
    return "openai" if provider in ("openai", "azure") else ""


def _of_field(change: FieldChange, family: ModelFamily, right: Prompt) -> Cause:
    field, _, member = change.field.partition(".")
    known = change.field in _FIELDS
    code = _FIELDS.get(change.field) or _FIELDS.get(field, Code.REQUEST_FEATURES_CHANGED)
    evidence = ParameterChanged(
        change.field if known else field, _shown(change.left), _shown(change.right), _SETTINGS[code], family,
        _level(family, code, change.field), None if known else member,
    )  # fmt: skip
    return _costing(code, change.field, evidence, right)


def _level(family: ModelFamily, code: Code, field: str) -> CostsFrom:
    return _COSTS[family].get(field) or _COSTS[family].get(code, "unknown")


def _costing(code: Code, path: str, evidence: ParameterChanged | BetasChanged, right: Prompt) -> Cause:
    """Say it of the section and the place from which it costs."""
    levels: dict[CostsFrom, tuple[str, int, CauseKind | None]] = {
        "all": ("tools", 0, None),
        "unknown": ("tools", 0, "unattributable"),
        "system": ("system", right.tools, None),
        "messages": ("messages", len(right.head), None),
        "nothing": ("messages", right.stable, "expected"),
    }
    section, begins, kind = levels[evidence.level]
    return Cause(code, section, evidence, begins, kind, path)


def _shown(raw: bytes | None) -> str | None:
    """Return the beginning of a value, credentials masked; None where it was left out."""
    if raw is None:
        return None
    text = printable(text_of(raw) if raw[:1] == b'"' else raw[:WIDE].decode("utf-8", "replace"))
    hidden = mask(text[:WIDE])
    return hidden if len(hidden) <= _SHOWN else hidden[:_SHOWN] + "…"
