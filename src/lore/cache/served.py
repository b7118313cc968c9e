"""Who made and who serves the model of a request, which cache that is, and how tables spell the model's name.

Known from the endpoint, the model's name, the dialect, and from what a gateway reports about who answered. A result is
empty if none of them is known. Sources: the model lists of Anthropic, Bedrock and Vertex; names in recordings.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

from lore.model.deferred import pattern
from lore.model.jsonslice import raw_members
from lore.model.mask import cut_masked
from lore.model.providers import ENGINES, GATEWAYS, UNKNOWN, has_exact_breakpoints, named_provider, provider_of
from lore.model.turn import Turn

PLATFORMS = frozenset(("azure", "bedrock", "openrouter", "vertex"))  # they serve the models of other makers
LONGEST = 200  # characters of a model's name; a longer text is not one
WITH_BREAKPOINTS = frozenset(("anthropic", "bedrock"))  # caches with entries at breakpoints, whose writes are billed
# How LiteLLM names providers in front of a model; others, such as `openai/`, are also publishers of open models.
_PREFIXES = {
    "anthropic": "anthropic",
    "azure": "azure",
    "bedrock": "bedrock",
    "gemini": "gemini",
    "vertex_ai": "vertex",
}
# Ids of Bedrock's models of other makers, and of its inference profiles.
_BEDROCK_MODEL = pattern(r"(?:(?:us|us-gov|eu|apac|jp|au|ca|sa|global)\.)?(?:anthropic|amazon|meta|mistral|cohere)\.")
_MANY = 4096  # remembered answers: a recording can name any number of models
_CACHES = {"anthropic": "anthropic", "gemini": "gemini", "deepseek": "deepseek", "moonshot": "kimi", "xai": "xai",
           "qwen": "qwen-implicit", **{engine: engine for engine in ENGINES}}  # fmt: skip


class Served(NamedTuple):
    """The maker of a model, and the cloud or gateway that serves it; empty if unknown, or if it is the maker itself."""

    provider: str  # the maker of the model
    platform: str  # the cloud or gateway that serves it; empty: the maker itself


@lru_cache(_MANY)
def served(endpoint: str, model: str | None, dialect: str, answered_by: str = "") -> Served:
    """Return who made and who serves a request's model.

    `answered_by` is the gateway's name for the provider that answered: that one's cache was used. It counts
    only without an endpoint, or if the endpoint is a gateway or not listed. An inference engine (vLLM, SGLang, …)
    always counts: it is the provider, without a platform, whatever model it runs. If another provider answered, a
    gateway that is itself a platform stays the platform. At an unlisted endpoint, or without one, the model's name may
    begin with the provider (`bedrock/…`), as LiteLLM writes it, or be spelt as on Bedrock (`us.anthropic.claude-…`).
    """
    if answered_by in ENGINES:
        return Served(answered_by, "")
    host = provider_of(endpoint, model, dialect)
    if answered_by and (host in GATEWAYS or not endpoint):
        answers = named_provider(answered_by)
        if answers not in PLATFORMS:
            return Served(answers, host if host in PLATFORMS else "")
        host = answers
    if host == UNKNOWN:
        prefix = (model or "").partition("/")[0].lower()
        host = _PREFIXES.get(prefix, prefix if prefix in PLATFORMS and not endpoint else UNKNOWN)
    if (host == UNKNOWN or not endpoint) and model is not None and _BEDROCK_MODEL.match(model):
        host = "bedrock"
    if host in PLATFORMS:
        maker = provider_of("", normal_name(model), "")
        return Served(maker or ("openai" if host == "azure" else UNKNOWN), host)
    if host == UNKNOWN and not endpoint:
        return Served(provider_of("", normal_name(model), ""), "")
    return Served(host, "")


def served_by(turn: Turn) -> Served:
    """Return who made and who serves the model of a turn; does not build the prompt of a turn that has a `basis`."""
    return served(turn.call.endpoint, turn.model, turn.dialect, turn.call.answered_by)


def billed_by(turn: Turn) -> Served:
    """Return whose price list holds for a turn: a router's own list, if it has one, else that of the provider."""
    call = turn.call
    if not call.answered_by or not call.endpoint:
        return served_by(turn)
    host = served(call.endpoint, turn.model, turn.dialect)
    return host if host.platform and host.platform in GATEWAYS else served_by(turn)


def cache_of(turn: Turn, where: Served) -> str:
    """Return which kind of cache served a turn, as `--cache` spells it; empty: unknown. `where`: its `served_by`."""
    if where.platform == "bedrock":
        return "bedrock"
    if where.provider == "openai":
        return "openai-breakpoint" if has_exact_breakpoints(turn.model) else "openai"
    if where.provider == "gemini" and not is_transcript(turn):
        params = turn.prompt.params
        if params.get("cachedContent") or params.get("cached_content"):
            return "gemini-explicit"
    if where.provider == "qwen" and not is_transcript(turn) and turn.prompt.breakpoints:
        return "qwen"
    return _CACHES.get(where.provider, "")


def is_transcript(turn: Turn) -> bool:
    """Return whether the recording holds only the turn's history, without system prompt and tools."""
    return turn.basis is not None


_VENDOR = pattern(
    r"^(?:(?:us|us-gov|eu|apac|jp|au|ca|sa|global)\.)?"
    r"(?:anthropic|openai|deepseek|qwen|moonshot|moonshotai|xai|google|amazon|meta|mistral)(?:\.|:|--)|^databricks-"
)
_VARIANT = pattern(r":(?:beta|thinking|extended|nitro|floor|online|exacto|1m)$")  # OpenRouter's, at the list price
_DATE = pattern(r"(?:@(?:\d{8}|latest|default)|-\d{8}|-\d{4}-\d\d-\d\d|-latest)$")
_PLATFORM_VERSION = pattern(r"-v\d+(?::\w+)*$")
_WINDOW = pattern(r"\[\d+m\]$")  # Claude Code's mark of a long context window
_NUMBER_FIRST = pattern(r"^claude-(\d(?:-\d)?)-(opus|sonnet|haiku)(?=$|-)")
_POINT_ZERO = pattern(r"(?<=[a-z]-\d)-0$")  # an alias: `claude-sonnet-4-0` is Claude Sonnet 4


@lru_cache(_MANY)
def normal_name(model: str | None) -> str:
    """Return a model's name as the tables spell it: lower case, without path, vendor, region, date and variant.

    Variants are those at the same price (`:beta`, `[1m]`). Claude's names lose the platform version, `-thinking` and a
    minor version of 0, too; their dots become hyphens, and the family comes before the number. Empty for None and over
    200 characters.
    `claude-sonnet-4.6`, `us.anthropic.claude-sonnet-4-6-v1:0`, `claude-sonnet-4-6@20260217` and
    `openrouter/anthropic/claude-4.6-sonnet:beta` all become `claude-sonnet-4-6`.
    """
    if not model or len(model) > LONGEST:
        return ""
    name = _VENDOR.sub("", model.strip().lower().rsplit("/", 1)[-1])
    name = _VARIANT.sub("", _WINDOW.sub("", name))
    if not name.startswith("claude"):
        return _DATE.sub("", name)
    name = name.removesuffix("-thinking")
    name = _DATE.sub("", _PLATFORM_VERSION.sub("", _DATE.sub("", name)))
    return _POINT_ZERO.sub("", _NUMBER_FIRST.sub(r"claude-\2-\1", name.replace(".", "-")))


# Each `[` has its `]`: `fnmatch` would read an open bracket as a letter. One directly after the first is a member.
_CLOSED = pattern(r"(?:[^\[]|\[.[^\[\]]*\])*")


def model_pattern(text: str) -> str:
    """Return a row's model as tables spell it: a name as `normal_name` does, a shell pattern in lower case.

    Raises ValueError if it is empty or not printable, and with a hint on a second line if a pattern has white space, a
    slash or an open bracket.
    """
    name = text.lower()
    if not text.strip() or not text.isprintable():
        raise ValueError("the model is empty or not printable")
    if not any(special in name for special in "*?["):
        return normal_name(text) or name
    if any(char.isspace() or char == "/" for char in name) or _CLOSED.fullmatch(name) is None:
        raise ValueError(
            f'model {cut_masked(text, 60)!r} is not a pattern\nwrite a name, or its beginning and a star: "gpt-5*"'
        )
    return name


_PLAIN_GROK = pattern(r"non-reasoning|grok-(?:[12]|3(?!-mini)|beta|vision)")  # models of xAI that do not think


def drops_reasoning(turn: Turn) -> bool:
    """Return whether a reasoning model's calls are sent back without its reasoning, which no stored response has.

    OpenAI's models think if asked for effort, xAI's by their name; xAI calls it the top cause of misses (docs.x.ai).
    """
    params = turn.prompt.params
    effort = (raw_members(params.get("reasoning", b"")) or {}).get("effort", b"null")
    is_sealed = b"encrypted_content" in params.get("include", b"")
    if served_by(turn).provider == "xai":
        thinks = _PLAIN_GROK.search(turn.model or "") is None
    else:
        thinks = params.get("store") == b"false" and not is_sealed and effort not in (b"null", b'"none"')
    if not thinks or any(params.get(name, b"null") != b"null" for name in ("previous_response_id", "conversation")):
        return False
    kinds = {(raw_members(part.json) or {}).get("type") for part in turn.prompt.messages if part.kind == "envelope"}
    return b'"function_call"' in kinds and kinds.isdisjoint((b'"reasoning"', b'"item_reference"'))
