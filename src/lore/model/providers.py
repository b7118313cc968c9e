"""Which provider serves a request, by its host, its model or its dialect; and what the path of a request says.

A body in one provider's shape is often sent to another one (a gateway, an engine on the user's machine), so the host
decides, and the provider of a host that is not listed is unknown (`""`). Gemini and Vertex
(`/models/X:generateContent`), Bedrock (`/model/X/converse`) and Azure (`/deployments/X/…`) name the model in the path
and not in the body. A whole answer and a stream have different paths and the same cache. Sources: the providers' API
references.
"""

from __future__ import annotations

from functools import lru_cache

from msgspec import Struct

from lore.model.deferred import pattern
from lore.model.patterns import matches_shell

_HOSTS: tuple[tuple[str, str], ...] = (
    ("api.anthropic.com", "anthropic"), ("api.openai.com", "openai"), ("chatgpt.com", "openai"),
    (".openai.azure.com", "azure"), ("generativelanguage.googleapis.com", "gemini"),
    ("aiplatform.googleapis.com", "vertex"), (".amazonaws.com", "bedrock"), ("openrouter.ai", "openrouter"),
    ("api.deepseek.com", "deepseek"), ("api.x.ai", "xai"), ("api.mistral.ai", "mistral"), ("api.moonshot.", "moonshot"),
    ("api.kimi.com", "moonshot"), ("dashscope", "qwen"), ("api.groq.com", "groq"), ("api.z.ai", "zai"),
    ("open.bigmodel.cn", "zai"),
)  # fmt: skip
_MODELS: tuple[tuple[str, str], ...] = (
    ("claude-", "anthropic"), ("gpt-", "openai"), ("o1", "openai"), ("o3", "openai"), ("o4", "openai"),
    ("gemini-", "gemini"), ("deepseek", "deepseek"), ("grok-", "xai"), ("mistral", "mistral"), ("kimi", "moonshot"),
    ("qwen", "qwen"), ("glm-", "zai"),
)  # fmt: skip
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
    "moonshot ai": "moonshot", "moonshot": "moonshot", "alibaba": "qwen", "groq": "groq", "z.ai": "zai",
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


@lru_cache(4096)  # a recording can name any number of hosts
def provider_of(endpoint: str, model: str | None, dialect: str) -> str:
    """Return the provider: of `host/path` by host alone, without host by dialect `bedrock` or model; `""`: unknown."""
    host = endpoint.partition("/")[0].partition(":")[0].lower()
    if host:
        return next((name for part, name in _HOSTS if _is_host(host, part)), UNKNOWN)
    if dialect == "bedrock":
        return "bedrock"
    model_name = (model or "").lower()
    return next((name for part, name in _MODELS if model_name.startswith(part)), UNKNOWN)


def _is_host(host: str, part: str) -> bool:
    if part.endswith(".") or "." not in part:
        return host.startswith(part)
    return host == part or host.endswith((part if part.startswith(".") else "." + part, "-" + part))


class AcceptedBreakpoints(Struct, frozen=True):
    """Where the API accepts cache breakpoints in a request for a model, and for how long."""

    sections: tuple[str, ...]  # of tools, system, messages; empty: the API refuses or ignores breakpoints
    lifetimes: tuple[int, ...]  # seconds that a breakpoint may ask for


# Shell patterns of models whose requests are cached at breakpoints alone, from 2026-07 and 2026-09 on. Source: OpenAI's
# prompt caching guide, explicit breakpoints.
EXACT_BREAKPOINTS = ("gpt-5.[6-9]*", "gpt-[6-9]*")


def has_exact_breakpoints(model: str | None) -> bool:
    """Return whether a model's requests are cached only at breakpoints; a prefix such as `openai/` is ignored."""
    name = (model or "").rsplit("/", 1)[-1]
    return any(matches_shell(pattern, name) for pattern in EXACT_BREAKPOINTS)


def model_in(endpoint: str) -> str | None:
    """Return the model that an endpoint's path names (percent-decoded, of an ARN its last part); None if none."""
    match = _MODEL_PATH.search(endpoint)
    if match is None:
        return None
    from urllib.parse import unquote  # noqa: PLC0415 - few endpoints name a model, and it loads `ipaddress`

    return unquote(match[match.lastgroup or 0]).rpartition("/")[2] or None


def place_in(endpoint: str) -> str:
    """Return an endpoint to compare: without its model, and a stream's path as that of a whole answer."""
    match = _MODEL_PATH.search(endpoint)
    if match is not None:
        start, end = match.span(match.lastgroup or 0)
        endpoint = endpoint[:start] + endpoint[end:]
    for stream, whole in _DELIVERY:
        if endpoint.endswith(stream):
            return endpoint.removesuffix(stream) + whole
    return endpoint


_WORDS = pattern(r"[a-z]+|\d+")
_REGION = pattern(r"^(?:us|us-gov|eu|apac|jp|au|ca|sa|global)\.(?=[a-z0-9]+\.)")
_ON_BEDROCK = pattern(r"^anthropic\.(.+?)(?:-v1(?::\d+)?)?$")


def without_platform(model: str | None) -> str | None:
    """Return a model's name without path, and without what Bedrock adds: a region, and of Claude maker and version.

    `bedrock/us.anthropic.claude-opus-5-v1:0` is `claude-opus-5`, which each platform and region caches for itself.
    """
    return model and _ON_BEDROCK.sub(r"\1", _REGION.sub("", model.rpartition("/")[2]))


def is_same_model(answered: str, requested: str | None) -> bool:
    """Return whether one name has all words of the other: responses add dates, and gateways another order."""
    words = [set(_WORDS.findall(name.lower().rpartition("/")[2])) for name in (answered, requested or "")]
    return bool(requested) and (words[0] <= words[1] or words[1] <= words[0])


_MAKERS = ("amazon", "meta", "cohere", "mistral", "ai21", "deepseek", "qwen", "openai", "writer")  # on Bedrock
# The dialects in which a provider accepts requests for models, by shell pattern; the preferred one first. Checked
# 2026-11 in the API references of Anthropic (Messages), Gemini (generateContent), OpenAI (Responses and Chat
# Completions) and Mistral (chat completions), and in Bedrock's user guide (Converse, and Anthropic's own Messages).
MODEL_DIALECTS: dict[str, tuple[str, ...]] = {
    "claude-*": ("anthropic",),
    "gemini-*": ("gemini",),
    **{f"{region}{maker}.*": ("bedrock",) for maker in _MAKERS for region in ("", "*.")},
    **dict.fromkeys(("anthropic.*", "*.anthropic.*"), ("bedrock", "anthropic")),
    **dict.fromkeys(("gpt-*", "o1*", "o3*", "o4*", "chatgpt-*"), ("openai-responses", "openai-chat")),
    "mistral-*": ("openai-chat",),
}


def dialects_for(model: str) -> tuple[str, ...]:
    """Return the dialects in which its provider accepts requests for a model, the preferred one first; or none."""
    name = model.rsplit("/", 1)[-1]
    return next((dialects for pattern, dialects in MODEL_DIALECTS.items() if matches_shell(pattern, name)), ())
