"""Turn usage objects of all providers into `Usage`: token counts, passes of a model, service terms.

A missing count is unknown, never 0. Anthropic's `input_tokens` and Bedrock's `inputTokens` exclude tokens read from or
written to a cache, as do the counts of pi's model library (`input`, `cacheRead`, `cacheWrite`). OpenAI's
`prompt_tokens` (and the same name in LiteLLM, for any provider), the Responses API's `input_tokens` and Gemini's
`promptTokenCount` include them: this module subtracts them.

Anthropic's `iterations` list each pass of a response that needed several (server tools, a compaction, an advisor, a
fallback to another model). Their sum is billed: the counts next to the list exclude compactions and advisors, and are a
sum or the first of the model's own passes. The first of these passes reads what earlier requests cached
(`Usage.first_pass`), the next request continues the last one.

Sources: the providers' API references; Anthropic's pages on compaction, the advisor tool, refusals and fallback
(an attempt that declined before any output is not billed); LiteLLM payloads of December 2024.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import islice
from typing import Annotated, Any, Literal, NamedTuple, TypeAlias, cast

from msgspec import Meta, Raw, Struct
from msgspec.structs import replace

from lore.model import lenient
from lore.model.canonical import decode, encode
from lore.model.events import ANSWERING, SUMMED_COUNTS, RecordedCost, Usage
from lore.model.jsonslice import raw_members
from lore.model.mask import cut_masked

MOST = 10**9  # tokens of a request; a larger count is wrong
_BILLS_WRITES = frozenset(("anthropic", "bedrock"))  # dialects; in others 0 writes mean that writes are not counted
_TICKS = 10**10  # of a dollar
_MOST_DOLLARS = 10**6  # of a request; a higher cost is wrong
_NAMED = 8  # impossible counts of a usage that a message names
_SHOWN = 10**17  # messages do not print impossible counts from here on
_SERVED = ("speed", "service_tier", "inference_geo")  # members that become the fields of `Usage` with these names
_TERMS = frozenset((*_SERVED, "iterations", "server_tool_use"))  # members that `_with_terms` reads
_REQUESTS = "_requests"  # how the names of counts in `server_tool_use` end, as in `web_search_requests`


class _Family(NamedTuple):
    """A provider's names for each counter; the first name that has a possible count is used."""

    input: tuple[str, ...]  # the whole prompt, or only its uncached tokens: see `includes_cached`
    read: tuple[str, ...]
    write: tuple[str, ...] = ()
    output: tuple[str, ...] = ()
    thought: tuple[str, ...] = ()  # thinking that the output does not count; it is added to it
    details: str = ""  # member with an object in which the counters are looked for, too
    includes_cached: bool = True  # `input` counts tokens read from and written to a cache


_ANTHROPIC = _Family(
    ("input_tokens",), ("cache_read_input_tokens",), ("cache_creation_input_tokens",), ("output_tokens",),
    includes_cached=False,
)  # fmt: skip
_OPENAI = _Family(
    ("prompt_tokens",),
    # the last three are DeepSeek's, OpenRouter's and vLLM's names
    ("cached_tokens", "cache_read_input_tokens", "prompt_cache_hit_tokens", "native_tokens_cached",
     "num_cached_tokens"),
    ("cache_write_tokens", "cache_creation_input_tokens", "cache_creation_tokens"),
    ("completion_tokens",),
    details="prompt_tokens_details",
)  # fmt: skip
_RESPONSES = _Family(
    ("input_tokens",), ("cached_tokens",), ("cache_write_tokens",), ("output_tokens",), details="input_tokens_details"
)
# LangChain's `usage_metadata`, for any provider: `input_tokens` counts the whole prompt.
_LANGCHAIN = _Family(
    ("input_tokens",), ("cache_read",), ("cache_creation",), ("output_tokens",), details="input_token_details"
)
# The last two names of each counter are those of the Interactions API (js-genai and Vertex, `Interactions.Usage`).
_GEMINI = _Family(
    ("promptTokenCount", "prompt_token_count", "total_input_tokens", "totalInputTokens"),
    ("cachedContentTokenCount", "cached_content_token_count", "total_cached_tokens", "totalCachedTokens"), (),
    ("candidatesTokenCount", "candidates_token_count", "total_output_tokens", "totalOutputTokens"),
    ("thoughtsTokenCount", "thoughts_token_count", "total_thought_tokens", "totalThoughtTokens"),
)  # fmt: skip
# Prompts of server tools, which the total counts on top of the prompt (langchain4j's `GoogleGenAiTokenUsage`).
_TOOL_USE = (
    "toolUsePromptTokenCount", "tool_use_prompt_token_count", "total_tool_use_tokens", "totalToolUseTokens",
)  # fmt: skip
# Ollama's response has its counters next to the message; `prompt_eval_count` is the whole prompt (docs/api.md).
_OLLAMA = _Family(("prompt_eval_count",), (), (), ("eval_count",))
# The second names are Nova's in InvokeModel; Converse repeats them.
_BEDROCK = _Family(
    ("inputTokens",), ("cacheReadInputTokens", "cacheReadInputTokenCount"),
    ("cacheWriteInputTokens", "cacheWriteInputTokenCount"), ("outputTokens",), includes_cached=False,
)  # fmt: skip
# Vercel's AI SDK from version 5 on, for any provider; 5 leaves out cached tokens where the provider's input does.
_AI_SDK = _Family(
    ("inputTokens",), ("cacheReadTokens", "cachedInputTokens"), ("cacheWriteTokens",), ("outputTokens",),
    details="inputTokenDetails",
)  # fmt: skip
_COHERE = _Family(("input_tokens",), ("cached_tokens",), (), ("output_tokens",), details="tokens")
# pi's model library, which flue is built on.
_PI = _Family(("input",), ("cacheRead",), ("cacheWrite",), ("output",), includes_cached=False)
# A usage object belongs to the family of the first of these members that it has; without any, to Anthropic's.
_FAMILIES = {
    "prompt_tokens": _OPENAI, "billed_units": _COHERE, "input_tokens_details": _RESPONSES,
    "input_token_details": _LANGCHAIN, **dict.fromkeys((*_GEMINI.input, *_GEMINI.output), _GEMINI),
    "prompt_eval_count": _OLLAMA, "inputTokenDetails": _AI_SDK, "cachedInputTokens": _AI_SDK, "inputTokens": _BEDROCK,
    "cacheRead": _PI,
}  # fmt: skip


Count: TypeAlias = Annotated[int, Meta(ge=0, le=MOST)]


class _Lifetimes(Struct, frozen=True, gc=False, forbid_unknown_fields=True):
    ephemeral_5m_input_tokens: Count | None = None
    ephemeral_1h_input_tokens: Count | None = None


class _NoServerTools(Struct, frozen=True, gc=False, forbid_unknown_fields=True):
    web_search_requests: Literal[0] = 0
    web_fetch_requests: Literal[0] = 0


class _Counts(Struct, frozen=True, gc=False, forbid_unknown_fields=True, kw_only=True):
    input_tokens: Count | None = None
    cache_read_input_tokens: Count | None = None
    cache_creation_input_tokens: Count | None = None
    output_tokens: Count | None = None
    cache_creation: _Lifetimes | None = None

    @property
    def counts(self) -> tuple[int | None, int | None, int | None, int | None]:  # uncached, read, write, output
        return self.input_tokens, self.cache_read_input_tokens, self.cache_creation_input_tokens, self.output_tokens


class _OwnPass(_Counts, frozen=True, kw_only=True):
    type: Literal["message"]


class _PlainUsage(_Counts, frozen=True, kw_only=True):
    """Anthropic's usage in nearly all responses, decoded fast; an unknown member or an impossible count is refused."""

    iterations: tuple[_OwnPass, ...] = ()
    server_tool_use: _NoServerTools | None = None
    service_tier: str | None = None
    speed: str | None = None
    inference_geo: str | None = None

    def usage(self, client: str) -> Usage | None:
        """Return the usage; None if it has no counts, or only `usage_of_object` can read it.

        That is so for several passes, and for counts that differ from those of the only pass.
        """
        counts = self.counts
        if len(self.iterations) > 1 or [part for part in self.iterations if part.counts != counts]:
            return None
        lives = self.cache_creation or _NO_LIFETIMES
        minutes, hour = lives.ephemeral_5m_input_tokens, lives.ephemeral_1h_input_tokens
        if counts == _NO_COUNTS and minutes is None and hour is None:
            return None
        return Usage(
            *counts, minutes, hour, (), "", None, self.speed or "", self.service_tier or "", self.inference_geo or "",
            (), client,
        )  # fmt: skip


_NO_LIFETIMES, _NO_COUNTS = _Lifetimes(), (None, None, None, None)
_PLAIN = lenient.DECODERS[_PlainUsage]


def decode_usage(raw: bytes | Raw, tier: bytes = b"", client: str = "") -> Usage | None:
    """Return the usage in a JSON object; None if it is malformed or holds no known count.

    `tier` is the JSON of `service_tier`, which OpenAI puts next to the usage; `client` becomes `Usage.client`.
    """
    if not tier:
        try:
            plain = _PLAIN.decode(raw).usage(client)
        except (ValueError, RecursionError):
            plain = None
        if plain is not None:
            return plain
    try:
        usage, beside = decode(bytes(raw)), {"service_tier": decode(tier)} if tier[:1] == b'"' else {}
    except (ValueError, RecursionError):
        return None
    found = usage_of_object({**beside, **cast("dict[str, Any]", usage)}) if isinstance(usage, dict) else None
    return replace(found, client=client) if found is not None and client else found


def usage_of_object(usage: dict[str, Any]) -> Usage | None:
    """Return the usage in a decoded object; None if it holds no count. An impossible count is a `contradiction`."""
    if whole := _object_at(usage, "inputTokens"):  # of a model of the AI SDK
        details = {"cacheReadTokens": whole.get("cacheRead"), "cacheWriteTokens": whole.get("cacheWrite")}
        output = _object_at(usage, "outputTokens").get("total")
        usage = {"inputTokens": whole.get("total"), "outputTokens": output, "inputTokenDetails": details}
    family = next((family for key, family in _FAMILIES.items() if key in usage), _ANTHROPIC)
    details = _object_at(usage, family.details)
    if family is _RESPONSES and not details:
        family = _ANTHROPIC
    uncached, read, write, output, thought = (_first_count(usage, details, names) for names in family[:5])
    reads = _reads_by_name(usage, details) if family is _OPENAI else {}
    read = read or max(reads.values(), default=read)  # a gateway that does not know a provider's counter writes 0
    if family is _GEMINI and uncached is not None and not usage.keys() & {*family.read}:
        read = 0  # its JSON leaves out numbers that are 0 (protobuf.dev, ProtoJSON, 2026-11)
    if uncached is not None:
        # a gateway that counts the whole prompt under Anthropic's names shows it by the sum with the output
        sums_whole = "input_tokens" in usage and _count_at(usage, "total_tokens") == uncached + (output or 0)
        rest = uncached - (read or 0) - (write or 0)
        if (family.includes_cached or sums_whole) and rest >= 0:  # else the input excludes cached tokens after all
            uncached = rest
    disagreeing = _describe_sums(usage, family, read) if family.includes_cached else ""
    output = output if thought is None else (output or 0) + thought
    minutes = hour = None
    if family is _PI:
        hour = _count_at(usage, "cacheWrite1h")
    elif family in (_ANTHROPIC, _BEDROCK):
        split = _object_at(usage, "cache_creation") if family is _ANTHROPIC else _writes_by_lifetime(usage)
        minutes, hour = _split_by_lifetime(split)
    counts = uncached, read, write, output, minutes, hour
    if all(count is None for count in counts):
        return None
    found, contradiction = _with_terms(Usage(*counts), usage), _describe_impossible(usage)
    if family is _GEMINI and (tool := _first_count(usage, details, _TOOL_USE)):
        found = replace(found, iterations=(Usage(tool, 0, 0, 0, kind="tool_use_prompt"),))
    if len(set(reads.values())) > 1:
        stated = " and ".join(f"{count:,} {name}" for name, count in reads.items())
        disagreeing = f"{stated} of one prompt; {read or 0:,} are used"
    contradiction = contradiction or disagreeing
    found = replace(found, contradiction=contradiction) if contradiction else found
    stated = usage.get("cost", usage.get("total_cost"))  # OpenRouter's; other gateways'
    ticks = usage.get("cost_in_usd_ticks")  # xAI's (docs.x.ai, cost tracking, 2026-11)
    if type(ticks) is int and 0 < ticks < _MOST_DOLLARS * _TICKS:
        stated = ticks / _TICKS
    return found if stated is None else with_cost(found, encode(stated))


def usage_with_cached_input(
    whole: int | None, read: int | None, write: int | None, output: int | None, *, client: str = "",
    iterations: tuple[Usage, ...] = (),
) -> Usage:  # fmt: skip
    """Return the usage of counts whose input (`whole`) includes cached tokens; a `contradiction` if these are more."""
    cached, contradiction = (read or 0) + (write or 0), ""
    uncached = None if whole is None else whole - cached
    if uncached is not None and uncached < 0:
        uncached, contradiction = None, f"{cached} cached tokens are more than all {whole} of the input"
    return Usage(uncached, read, write, output, iterations=iterations, client=client, contradiction=contradiction)


def usage_without_cached_input(
    uncached: int | None, read: int | None, write: int | None, output: int | None, *, client: str,
    dialect: str | None, total: int | None = None, hour: int | None = None, recorded: RecordedCost | None = None,
) -> Usage:  # fmt: skip
    """Return the usage of counts whose input (`uncached`) excludes tokens read from and written to a cache.

    Writes of 0 become None if the dialect does not bill writes. `hour` is the part of `write` that lives for an hour.
    If the input is more than `total` (input and output), the uncached tokens become None and `contradiction` is set.
    """
    write = write if write or dialect in _BILLS_WRITES else None
    input_tokens, fault = (uncached or 0) + (read or 0) + (write or 0), ""
    if total and total < input_tokens:
        uncached, fault = None, f"{input_tokens} tokens of input are more than all {total} of the request"
    return Usage(
        uncached, read, write, output, write_1h_tokens=hour, client=client, contradiction=fault, recorded=recorded
    )


def recorded_dollars(stated: bytes) -> RecordedCost | None:
    """Return the cost in US dollars, a number or its text, or in an object the total of its parts.

    None is returned if the cost is 0, as of an unknown price, or impossible.
    """
    if stated[:1] == b"{":
        parts = raw_members(stated) or {}
        stated = next((parts[name] for name in ("total", "total_cost", "totalCost") if name in parts), b"")
    try:
        dollars = float(stated.strip(b'"'))
    except ValueError:
        return None
    return RecordedCost(dollars) if 0 < dollars < _MOST_DOLLARS else None


def with_cost(usage: Usage | None, stated: bytes) -> Usage | None:
    """Return a usage with the cost that was stated, if it is one that `recorded_dollars` accepts."""
    recorded = None if usage is None or stated == b"null" else recorded_dollars(stated)
    return usage if usage is None or recorded is None else replace(usage, recorded=recorded)


def synthetic_response_id(at: object, usage: Usage | None) -> str | None:
    """Return an id of a time in ms and counts, equal in copies that forks hold; None if `at` is no int or no usage."""
    if usage is None or not isinstance(at, int):
        return None
    counts = (usage.uncached_tokens, usage.read_tokens, usage.write_tokens, usage.output_tokens)
    return f"{at}:{'-'.join(str(count or 0) for count in counts)}"


def reconcile(used: Usage | None, other: Usage | None, used_from: str, other_from: str) -> Usage | None:
    """Return `used` (`other` if only that is recorded), with a `contradiction` that names all counts that differ.

    `used_from` and `other_from` name the sources in it. Inputs are compared as sums: a usage without cache counts has
    the cached tokens in its input.
    """
    if used is None or other is None:
        return other if used is None else used
    counts = (
        ("input", input_of(used), input_of(other)), ("read", used.read_tokens, other.read_tokens),
        ("written", used.write_tokens, other.write_tokens), ("output", used.output_tokens, other.output_tokens),
    )  # fmt: skip
    differing = [
        (name, count, other_count) for name, count, other_count in counts
        if count is not None and other_count is not None and count != other_count
    ]  # fmt: skip
    if not differing:
        return used
    here, there = _join_counts(differing)
    text = f"{here} tokens in {used_from}, {there} in {other_from}; the former are used"
    return replace(used, contradiction="; ".join(filter(None, (used.contradiction, text))))


def input_of(usage: Usage | None) -> int:
    """Return the tokens of the whole prompt, unknown counts as 0."""
    return (
        0
        if usage is None
        else sum(map(int, filter(None, (usage.uncached_tokens, usage.read_tokens, usage.write_tokens))))
    )


def _join_counts(differing: list[tuple[str, int, int]]) -> tuple[str, str]:
    """Return the first counts with their names, and the second ones, each as words."""
    words = (f"{count:,} {name}" for name, count, _ in differing), (f"{count:,}" for _, _, count in differing)
    return _join_words(words[0]), _join_words(words[1])


def _join_words(words: Iterable[str]) -> str:
    *some, last = words
    return f"{', '.join(some)} and {last}" if some else last


def _with_terms(counts: Usage, usage: Mapping[str, Any]) -> Usage:
    """Return `counts` with other values of the object `usage`: passes, service tier, speed, server tools."""
    if usage.keys().isdisjoint(_TERMS):
        return counts
    listed = usage.get("iterations")
    entries = cast("list[Any]", listed) if isinstance(listed, list) else []
    passes = [_read_pass(cast("dict[str, Any]", entry)) for entry in entries if isinstance(entry, dict)]
    if len(passes) > 1 or any(model_pass.kind != "message" for model_pass in passes):
        counts = _with_passes(counts, passes)
    if passes and not counts.contradiction and (differing := _describe_disagreement(usage, passes)):
        counts = replace(counts, contradiction=differing)
    used = _object_at(usage, "server_tool_use")
    requests = ((name, _count_at(used, name)) for name in used if name.endswith(_REQUESTS))
    tools = tuple((name.removesuffix(_REQUESTS), count) for name, count in requests if count)
    served = {name: value for name in _SERVED if isinstance(value := usage.get(name), str) and value}
    return replace(counts, server_tools=tools, **served) if tools or served else counts


def _read_pass(entry: dict[str, Any]) -> Usage:
    """Return one pass of `iterations`. By the API's reference missing cache counts are 0."""
    minutes, hour = _split_by_lifetime(_object_at(entry, "cache_creation"))
    read, write = (_count_at({name: 0, **entry}, name) for name in (*_ANTHROPIC.read, *_ANTHROPIC.write))
    kind, model = entry.get("type", "message"), entry.get("model")
    return Usage(
        _count_at(entry, "input_tokens"), read, write, _count_at(entry, "output_tokens"), minutes, hour,
        kind=kind if isinstance(kind, str) else "", model=model if isinstance(model, str) and model else None,
    )  # fmt: skip


def _split_by_lifetime(split: dict[str, Any]) -> tuple[int | None, int | None]:
    """Return the written tokens that live for five minutes, and those that live for an hour."""
    return _count_at(split, "ephemeral_5m_input_tokens"), _count_at(split, "ephemeral_1h_input_tokens")


def _with_passes(usage: Usage, passes: list[Usage]) -> Usage:
    """Return a usage with the counts of the last pass that answered; other billed passes become its `iterations`."""
    answering = [at for at, model_pass in enumerate(passes) if model_pass.kind in ANSWERING]
    last = answering[-1] if answering else -1
    fallback = max((at for at in answering if passes[at].kind == "fallback_message"), default=-1)
    others = [
        model_pass
        for at, model_pass in enumerate(passes)
        if at != last and not (at < fallback and at in answering and model_pass.output_tokens == 0)  # it declined
    ]
    if len(answering) > 1:  # else the usage has the counts of the one that answered
        usage = usage.with_counts(passes[last])
    model = passes[last].model if last >= 0 and last == fallback else None
    return replace(usage, iterations=tuple(others), model=model)


def _describe_disagreement(usage: Mapping[str, Any], passes: list[Usage]) -> str:
    """Describe the usage's own counts that are neither a pass's nor a sum of passes; empty without any."""
    differing = list[tuple[str, int, int]]()
    answering = [part for part in passes if part.kind in ANSWERING]
    names = (*_ANTHROPIC.input, *_ANTHROPIC.read, *_ANTHROPIC.write, *_ANTHROPIC.output)
    for name, count in zip(names, SUMMED_COUNTS, strict=True):
        stated = usage.get(name)
        if not answering or type(stated) is not int or any(stated == (getattr(part, count) or 0) for part in answering):
            continue
        listed, whole = (sum(getattr(part, count) or 0 for part in group) for group in (answering, passes))
        if stated not in (listed, whole):
            differing.append((name, stated, listed))
    if not differing:
        return ""
    here, there = _join_counts(differing)
    return f"{here} in all, {there} in its iterations"


def _describe_impossible(usage: dict[str, Any]) -> str:
    """Describe the impossible counts in the object and its inner ones; empty if all are possible."""
    faults = dict[str, None]()
    listed = usage.get("iterations")
    values = [*usage.values(), *(cast("list[Any]", listed) if isinstance(listed, list) else ())]
    inner = [cast("dict[str, Any]", value) for value in values if isinstance(value, dict)]
    for counters in (usage, *inner):
        for name, value in counters.items():
            if type(value) is int:
                if not 0 <= value <= MOST and "token" in name.lower():
                    faults[f"{cut_masked(name, 60)} is {value if abs(value) < _SHOWN else 'beyond any count'}"] = None
            elif type(value) in (str, bool) and name.lower().endswith("tokens"):
                faults[f"{cut_masked(name, 60)} is not a number"] = None
    return _join_words(islice(faults, _NAMED)) if faults else ""


def _describe_sums(usage: dict[str, Any], family: _Family, read: int | None) -> str:
    """Describe counts of a prompt that are more than the whole, or parts that do not add up to it; empty without any.

    A total may be more than input and output: Gemini and xAI leave reasoning out of the output.
    """
    whole, output = (_first_count(usage, {}, names) for names in (family.input, family.output))
    total = _count_at(usage, "total_tokens")
    parts = [_count_at(usage, f"prompt_cache_{name}_tokens") for name in ("hit", "miss")]  # DeepSeek's reference
    if whole is None:
        return ""
    if None not in parts and (both := sum(map(int, filter(None, parts)))) != whole:
        return f"{both:,} tokens of cache hits and misses, {whole:,} in the prompt"
    if total is not None and total < whole:
        return f"{whole:,} tokens in the prompt, {total:,} in all"
    if (read or 0) > whole and total == whole + (output or 0):
        return f"{read:,} cached tokens are more than all {whole:,} of the prompt, which the total counts"
    return ""


def _reads_by_name(usage: dict[str, Any], details: dict[str, Any]) -> dict[str, int]:
    """Return the tokens read from a cache under each of the names that count the same in any gateway."""
    names = ("cached_tokens", "cache_read_input_tokens", "prompt_cache_hit_tokens")
    counts = ((name, _first_count(usage, details, (name,))) for name in names)
    return {name: count for name, count in counts if count is not None}


def _writes_by_lifetime(usage: dict[str, Any]) -> dict[str, Any]:
    """Return Bedrock's `cacheDetails` in the form of Anthropic's `cache_creation`; empty without any."""
    details = usage.get("cacheDetails")
    writes: dict[str, Any] = {}
    for detail in cast("list[Any]", details) if isinstance(details, list) else []:
        if isinstance(detail, dict):
            counters = cast("dict[str, Any]", detail)
            writes.setdefault(f"ephemeral_{counters.get('ttl')}_input_tokens", counters.get("inputTokens"))
    return writes


def _object_at(usage: Mapping[str, Any], key: str) -> dict[str, Any]:
    value = usage.get(key)
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


def _count_at(usage: dict[str, Any], key: str) -> int | None:
    value = usage.get(key)
    return value if type(value) is int and 0 <= value <= MOST else None


def _first_count(usage: dict[str, Any], details: dict[str, Any], keys: tuple[str, ...]) -> int | None:
    """Return the first possible count under these keys, each looked up in `usage`, then in `details`."""
    counts = (counters.get(key) for key in keys for counters in ((usage, details) if details else (usage,)))
    return next((value for value in counts if type(value) is int and 0 <= value <= MOST), None)
