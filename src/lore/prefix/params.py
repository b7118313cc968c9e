"""Explain how a request's other fields changed: what is no content, and yet decides what a cache serves.

In: the parameters of two prompts, the beta features of their calls, who serves. Out: notes, each where it begins
to cost there. Rules: a field that is left out equals its default; what a provider documents as harmless is
`expected`; where nothing is documented, it is `unattributable`. Source: the providers' caching guides as of 2026-10
("what invalidates which level"); sampling (temperature, limits, streaming) is no part of any cache's key.
"""

from __future__ import annotations

from typing import Literal, NamedTuple, TypeAlias

from lore.model.canonical import canonical, printable, text_of
from lore.model.codes import CauseKind
from lore.model.exchange import Call
from lore.model.jsonslice import table
from lore.model.prompt import Prompt
from lore.model.providers import provider_of
from lore.prefix.empty_values import without_empty
from lore.prefix.notes import Note

Level: TypeAlias = Literal["all", "system", "messages", "nothing", "unknown"]

# Fields, by the code that a change of them has; those with a point stand inside another one.
_FIELDS: dict[str, str] = {
    **dict.fromkeys((
        "thinking", "effort", "reasoning", "reasoning_effort", "verbosity", "service_tier", "serviceTier", "speed",
        "enable_thinking", "thinking_budget", "chat_template_kwargs", "performanceConfig", "text.verbosity",
        "output_config.effort", "generationConfig.thinkingConfig", "generation_config.thinking_config",
        "additionalModelRequestFields.thinking", "additionalModelRequestFields.reasoning_config",
        "additionalModelRequestFields.reasoningConfig", "additionalModelRequestFields.effort",
        "additionalModelRequestFields.output_config", "additionalModelRequestFields.reasoning_effort",
    ), "LORE120"),
    **dict.fromkeys((
        "tool_choice", "parallel_tool_calls", "function_call", "toolConfig", "tool_config",
        "disable_parallel_tool_use",
    ), "LORE121"),
    **dict.fromkeys((
        "context_management", "anthropic_beta", "betas", "mcp_servers", "cachedContent",
        "cached_content", "prompt_cache_key", "output_config", "additionalModelRequestFields", "truncation",
    ), "LORE122"),
    **dict.fromkeys((
        "response_format", "output_format", "text.format", "output_config.format", "generationConfig.responseSchema",
        "generationConfig.responseJsonSchema", "generationConfig.responseMimeType", "generationConfig.response_schema",
        "generation_config.response_schema", "generation_config.response_mime_type", "guided_json",
        "additionalModelRequestFields.response_format", "outputConfig",
    ), "LORE135"),
}  # fmt: skip
_NESTED = frozenset(name.partition(".")[0] for name in _FIELDS if "." in name)
_DEFAULTS = frozenset((
    b"null", b'"auto"', b'{"type":"auto"}', b'{"type":"disabled"}', b'{"type":"text"}', b'"default"', b'"standard"',
    b'{"functionCallingConfig":{"mode":"AUTO"}}', b'{"toolChoice":{"auto":{}}}', b"{}", b"[]", b'"text/plain"',
    b'{"latency":"standard"}',
))  # fmt: skip
_ON = frozenset(("parallel_tool_calls",))  # on where it is left out

# Where a change begins to cost: by who serves, by code or by field.
_CLAUDE: dict[str, Level] = {
    "LORE120": "messages", "speed": "system", "service_tier": "nothing", "serviceTier": "nothing",
    "performanceConfig": "nothing", "LORE121": "messages", "LORE122": "unknown", "LORE135": "system",
}  # fmt: skip
_OPENAI: dict[str, Level] = {"LORE120": "all", "LORE121": "nothing", "LORE122": "unknown", "LORE135": "system"}
_KEEPS: dict[Level, str] = {
    "all": "all of the prompt is cached anew",
    "system": "tools are read again, the system prompt and messages are not",
    "messages": "tools and system prompt are read again, the messages are not",
    "nothing": "nothing is lost",
    "unknown": "what is lost is not documented",
}
_ELSEWHERE = {
    "LORE120": "on Claude the messages are lost, on OpenAI's models the whole prompt",
    "LORE121": "on Claude the messages are lost, on OpenAI's models nothing",
    "LORE122": "Anthropic's diagnostics call it unavailable",
    "LORE135": "on OpenAI's models and on Claude all but the tools is lost",
}
_FAMILIES = {"claude": "Claude", "openai": "OpenAI's models", "": "this provider"}


class Changed(NamedTuple):
    """A field that is not what it was, as JSON; None where it was left out."""

    field: str
    mine: bytes | None
    theirs: bytes | None


def param_notes(left: Prompt, right: Prompt, left_call: Call, right_call: Call) -> list[Note]:
    """Return what changed in the request's other fields, one note a code."""
    changed = changes(left.params, right.params)
    if left_call.betas is not None and right_call.betas is not None and set(left_call.betas) != set(right_call.betas):
        flips = sorted(set(left_call.betas) ^ set(right_call.betas))
        changed.append(Changed("beta headers", None, ", ".join(flips).encode("utf-8", "replace")))
    if not changed:
        return []
    family = _family(right, right_call)
    notes: dict[str, Note] = {}
    for one in changed:
        note = _note(one, family, right)
        held = notes.get(note.code)
        if held is None:
            notes[note.code] = note
        elif _RANK[note.here] > _RANK[held.here]:
            notes[note.code] = note._replace(position=min(note.position, held.position))
    return list(notes.values())


_RANK: dict[CauseKind | None, int] = {"expected": 0, "unattributable": 1, "waste": 2, None: 2}


def changes(left: dict[str, bytes], right: dict[str, bytes]) -> list[Changed]:
    """Return the fields that a cache may care about and that changed; equal values cost one comparison."""
    if left == right:
        return []
    found: list[Changed] = []
    for name in dict.fromkeys((*left, *right)):
        mine, theirs = left.get(name), right.get(name)
        if mine == theirs:
            continue
        if name in _NESTED:
            found += _inside(name, mine, theirs)
        elif name in _FIELDS and _plain(name, mine) != _plain(name, theirs):
            found.append(Changed(name, mine, theirs))
    return found


def _inside(name: str, mine: bytes | None, theirs: bytes | None) -> list[Changed]:
    ours, others = table(mine or b"") or {}, table(theirs or b"") or {}
    found: list[Changed] = []
    for key in dict.fromkeys((*ours, *others)):
        field = f"{name}.{key}"
        known = field if field in _FIELDS else name
        if known in _FIELDS and _plain(field, ours.get(key)) != _plain(field, others.get(key)):
            found.append(Changed(field, ours.get(key), others.get(key)))
    return found


def _plain(name: str, raw: bytes | None) -> bytes:
    """Return a field's canonical value; empty for its default, and for one that holds nothing."""
    if raw is None:
        return b""
    made = canonical(without_empty(raw))
    return b"" if made in _DEFAULTS or (name in _ON and made == b"true") else made


def _family(prompt: Prompt, call: Call) -> str:
    """Name whose rules hold: Claude's on every cloud that serves it, OpenAI's on its own and Azure."""
    provider = provider_of(call.endpoint, prompt.model, prompt.dialect)
    if provider == "anthropic" or (provider in ("bedrock", "vertex") and "claude" in (prompt.model or "")):
        return "claude"
    return "openai" if provider in ("openai", "azure") else ""


def _note(one: Changed, family: str, right: Prompt) -> Note:
    code = _FIELDS.get(one.field) or _FIELDS.get(one.field.partition(".")[0], "LORE122")
    rules = {"claude": _CLAUDE, "openai": _OPENAI}.get(family, {})
    level = rules.get(one.field) or rules.get(code, "unknown")
    words = f"{one.field} changed{_values(one)}; with {_FAMILIES[family]} {_KEEPS[level]}"
    if level in ("nothing", "unknown"):
        words += f" ({_ELSEWHERE[code]})"
    section = "tools" if level in ("all", "unknown") else "messages" if level == "nothing" else level
    return Note(code, section, _begins(level, right), words, _KINDS[level], one.field)


_KINDS: dict[Level, CauseKind | None] = {
    "all": None, "system": None, "messages": None, "nothing": "expected", "unknown": "unattributable",
}  # fmt: skip


def _begins(level: Level, prompt: Prompt) -> int:
    if level in ("all", "unknown"):
        return 0
    if level == "system":
        return sum(1 for one in prompt.head if one.section == "tools")
    return len(prompt.head) if level == "messages" else prompt.stable


def _values(one: Changed) -> str:
    if one.field == "beta headers":
        return f" ({_short(one.theirs)})"
    return f" from {_short(one.mine)} to {_short(one.theirs)}"


def _short(raw: bytes | None) -> str:
    if raw is None:
        return "nothing"
    text = printable(text_of(raw) if raw[:1] == b'"' else raw[:400].decode("utf-8", "replace"))
    return text if len(text) <= 60 else text[:60] + "…"
