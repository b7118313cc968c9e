"""Which provider serves a request, by its host, its model or its dialect; and what the path of a request says.

A body in one provider's shape is often sent to another one (a gateway, an engine on the user's machine), so the host
decides, and the provider of a host that is not listed is unknown (`""`). Gemini and Vertex
(`/models/X:generateContent`), Bedrock (`/model/X/converse`) and Azure (`/deployments/X/…`) name the model in the path
and not in the body. A whole answer and a stream have different paths and the same cache. Sources: the providers' API
references.
"""

from __future__ import annotations

import re
from urllib.parse import unquote

from msgspec import Struct

from lore.model.deferred import pattern
from lore.model.patterns import matches_shell

_HOSTS: tuple[tuple[str, str], ...] = (
    ("api.anthropic.com", "anthropic"),
    ("api.openai.com", "openai"),
    ("chatgpt.com", "openai"),
    (".openai.azure.com", "azure"),
    ("generativelanguage.googleapis.com", "gemini"),
    ("aiplatform.googleapis.com", "vertex"),
    (".amazonaws.com", "bedrock"),
    ("openrouter.ai", "openrouter"),
    ("api.deepseek.com", "deepseek"),
    ("api.x.ai", "xai"),
    ("api.mistral.ai", "mistral"),
    ("api.moonshot.", "moonshot"),
    ("api.kimi.com", "moonshot"),
    ("dashscope", "qwen"),
    ("api.groq.com", "groq"),
)
_MODELS: tuple[tuple[str, str], ...] = (
    ("claude-", "anthropic"),
    ("gpt-", "openai"),
    ("o1", "openai"),
    ("o3", "openai"),
    ("o4", "openai"),
    ("gemini-", "gemini"),
    ("deepseek", "deepseek"),
    ("grok-", "xai"),
    ("mistral", "mistral"),
    ("kimi", "moonshot"),
    ("qwen", "qwen"),
)
_MODEL_PATH = pattern(
    r"/model/(?P<bedrock>.+)/(?:converse|invoke)(?=-|$)|/models/(?P<gemini>[^/:]+)(?=:\w+$)"
    r"|/deployments/(?P<azure>[^/:]+)(?=/)"
)
_DELIVERY = ((":streamGenerateContent", ":generateContent"), (":streamRawPredict", ":rawPredict"),
             ("/converse-stream", "/converse"), ("/invoke-with-response-stream", "/invoke"))  # fmt: skip
UNKNOWN = ""

# Names that gateways give to providers, in lower case; how ids in a provider's responses begin.
_NAMES = {
    "anthropic": "anthropic", "openai": "openai", "amazon bedrock": "bedrock", "bedrock": "bedrock", "azure": "azure",
    "google": "vertex", "google vertex": "vertex", "vertex_ai": "vertex", "vertex": "vertex",
    "google ai studio": "gemini", "gemini": "gemini", "deepseek": "deepseek", "xai": "xai", "mistral": "mistral",
    "moonshot ai": "moonshot", "moonshot": "moonshot", "alibaba": "qwen", "groq": "groq",
}  # fmt: skip
_IDS: tuple[tuple[str, str], ...] = (
    ("toolu_bdrk_", "bedrock"), ("msg_bdrk_", "bedrock"), ("tooluse_", "bedrock"),
    ("toolu_vrtx_", "vertex"), ("msg_vrtx_", "vertex"),
    ("toolu_", "anthropic"), ("msg_", "anthropic"), ("call_", "call"), ("chatcmpl-tool-", "engine"),
)  # fmt: skip
GATEWAYS = frozenset(("openrouter", UNKNOWN))  # their host does not say which provider answers
LLAMA_CPP = "llama.cpp"
ENGINES = frozenset(("vllm", "sglang", LLAMA_CPP, "lmcache"))  # they serve any model at any host


def named_provider(answered_by: str) -> str:
    """Return the provider for a name or host that a gateway reports, in any case; `""` for one that is not listed."""
    name = answered_by.strip().lower()
    host = name.rpartition("://")[2].partition("/")[0]
    return _NAMES.get(name) or (provider_of(host, None, "") if "." in host else UNKNOWN)


def provider_by_id(name: str) -> str:
    """Return who issued an id of a call or response, also "call" (any OpenAI-like API) or "engine"; `""`: unknown."""
    return next((provider for begin, provider in _IDS if name.startswith(begin)), UNKNOWN)


def provider_of(endpoint: str, model: str | None, dialect: str) -> str:
    """Return the provider: of `host/path` by host alone, without host by dialect `bedrock` or model; `""`: unknown."""
    host = endpoint.partition("/")[0].partition(":")[0].lower()
    if host:
        return next((name for part, name in _HOSTS if _is_host(host, part)), UNKNOWN)
    if dialect == "bedrock":
        return "bedrock"
    known = (model or "").lower()
    return next((name for part, name in _MODELS if known.startswith(part)), UNKNOWN)


def _is_host(host: str, part: str) -> bool:
    if part.endswith(".") or "." not in part:
        return host.startswith(part)
    return host == part or host.endswith((part if part.startswith(".") else "." + part, "-" + part))


class AcceptedBreakpoints(Struct, frozen=True):
    """Where the API accepts cache breakpoints in a request for a model, and for how long."""

    sections: tuple[str, ...]  # of tools, system, messages; empty: the API refuses or ignores breakpoints
    lifetimes: tuple[int, ...]  # seconds that a breakpoint may ask for


class ExactBreakpoints(Struct, frozen=True):
    """Models whose requests are cached at breakpoints alone."""

    model: str  # shell pattern
    since: str  # the month from which it holds, `YYYY-MM`
    source: str  # where it was published


EXACT_BREAKPOINTS: tuple[ExactBreakpoints, ...] = (
    ExactBreakpoints("gpt-5.[6-9]*", "2026-07", "OpenAI prompt caching guide: explicit breakpoints"),
    ExactBreakpoints("gpt-[6-9]*", "2026-09", "OpenAI prompt caching guide: explicit breakpoints"),
)


def has_exact_breakpoints(model: str | None) -> bool:
    """Return whether a model's requests are cached only at breakpoints; a prefix such as `openai/` is ignored."""
    name = (model or "").rsplit("/", 1)[-1]
    return any(matches_shell(row.model, name) for row in EXACT_BREAKPOINTS)


def _model_in_path(endpoint: str) -> re.Match[str] | None:
    return _MODEL_PATH.search(endpoint) if "/model" in endpoint or "/deployments/" in endpoint else None


def model_in(endpoint: str) -> str | None:
    """Return the model that an endpoint's path names (percent-decoded, of an ARN its last part); None if none."""
    match = _model_in_path(endpoint)
    return None if match is None else unquote(match[match.lastgroup or 0]).rpartition("/")[2] or None


def place_in(endpoint: str) -> str:
    """Return an endpoint to compare: without its model, and a stream's path as that of a whole answer."""
    match = _model_in_path(endpoint)
    if match is not None:
        start, end = match.span(match.lastgroup or 0)
        endpoint = endpoint[:start] + endpoint[end:]
    for stream, whole in _DELIVERY:
        if endpoint.endswith(stream):
            return endpoint.removesuffix(stream) + whole
    return endpoint


class ModelDialects(Struct, frozen=True):
    """The dialects in which a provider accepts requests for some models."""

    model: str  # shell pattern
    dialects: tuple[str, ...]  # the preferred one first
    since: str  # the month in which this was checked, `YYYY-MM`
    source: str  # where it was published


_BOTH = ("openai-responses", "openai-chat")
MODEL_DIALECTS: tuple[ModelDialects, ...] = (
    ModelDialects("claude-*", ("anthropic",), "2026-11", "Anthropic API reference: Messages"),
    ModelDialects("gemini-*", ("gemini",), "2026-11", "Gemini API reference: generateContent"),
    *(
        ModelDialects(f"{region}{owner}.*", ("bedrock",), "2026-11", "Bedrock user guide: models of Converse")
        for owner in ("amazon", "meta", "cohere", "mistral", "ai21", "deepseek", "qwen", "openai", "writer")
        for region in ("", "*.")
    ),
    *(
        ModelDialects(name, ("bedrock", "anthropic"), "2026-11", "Bedrock: Converse, and Anthropic's own Messages")
        for name in ("anthropic.*", "*.anthropic.*")
    ),
    *(
        ModelDialects(name, _BOTH, "2026-11", "OpenAI API reference: Responses and Chat Completions")
        for name in ("gpt-*", "o1*", "o3*", "o4*", "chatgpt-*")
    ),
    ModelDialects("mistral-*", ("openai-chat",), "2026-11", "Mistral API reference: chat completions"),
)


def dialects_for(model: str) -> tuple[str, ...]:
    """Return the dialects in which its provider accepts requests for a model, the preferred one first; or none."""
    name = model.rsplit("/", 1)[-1]
    return next((row.dialects for row in MODEL_DIALECTS if matches_shell(row.model, name)), ())
