"""What a response says of its request: usage, id, the provider's verdict, and where the model's answer stands.

In: one response of any of the five dialects, whole as JSON text, or as server-sent events. Out: an `Answer`; what is
missing, of another type or not JSON is unknown. Nothing is decoded but these small parts; `output` is sliced. Most
events of a stream carry pieces of text and are passed over unseen: those that matter are found by a word that they
hold, in a few searches over the bytes. A stream that was cut, or holds something else, gives what is known. What the
model said in a stream is put together elsewhere (`outputs.py`), for who asks.

Usage is given in lore's counts. Anthropic's `input_tokens` and Bedrock's `inputTokens` leave out what was read from or
written to a cache; OpenAI's `prompt_tokens` (and what LiteLLM and others make of any provider), the Responses API's
`input_tokens` and Gemini's `promptTokenCount` include it and are split here. Missing is unknown, never 0.
Sources: the providers' API references; LiteLLM payloads of December 2024.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple, cast

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from lore.model.canonical import decode, text_of
from lore.model.events import Billed, OddBill, Verdict
from lore.model.jsonslice import array, first_element, parts, table
from lore.model.turn import Exchange, Output, Streamed, seconds_in

_USAGE = ("usage", "usageMetadata", "usage_metadata")
_IDS = ("id", "responseId", "response_id")


class Answer(Struct, frozen=True, gc=False):
    """What is known of a response; `output` as `Exchange` has it; `created` to the second."""

    usage: Billed | None = None
    response_id: str = ""
    verdict: Verdict | None = None
    output: Output = b""
    created: float | None = None


NOTHING = Answer()


def answer_of(raw: bytes) -> Answer:
    """Read a whole response that is UTF-8; a list of chunks is billed by its last one."""
    if raw[:1] == b"[":
        chunks = array(raw)
        last = parts(chunks[-1]) if chunks else {}
        return replace(answer_in(last), output=Streamed(raw, "json")) if last else NOTHING
    return answer_in(parts(raw)) if raw else NOTHING


def answered(exchange: Exchange, response: bytes, *, at: float | None = None) -> Exchange:
    """Return the exchange with what its response says; an event may hold the response as its `message`."""
    own = parts(response)
    inner = parts(own["message"]) if "usage" not in own and own.get("message", b"")[:1] == b"{" else {}
    answer = answer_in(inner or own)
    return replace(
        exchange, usage=answer.usage, verdict=answer.verdict, answered=at, response_id=answer.response_id,
        output=answer.output,
    )  # fmt: skip


def answer_in(members: dict[str, bytes]) -> Answer:
    """Read a response that is sliced already."""
    usage = next((members[key] for key in _USAGE if members.get(key, b"null") != b"null"), b"null")
    created = seconds_in(members.get("created_at", members.get("created", b"null")))
    verdict = verdict_of(members.get("diagnostics", b"null"))
    return Answer(billed_of(usage), id_in(members), verdict, output_in(members), created)


def id_in(members: dict[str, bytes]) -> str:
    """Return the provider's name for a response."""
    return next((text_of(members[key]) for key in _IDS if members.get(key, b"")[:1] == b'"'), "")


def verdict_of(raw: bytes) -> Verdict | None:
    """Read `diagnostics`: why the provider says that its cache was missed."""
    if raw[:1] != b"{" or b"cache_miss_reason" not in raw:
        return None
    try:
        reason: Any = decode(raw).get("cache_miss_reason")
    except (ValueError, RecursionError):
        return None
    missed: Any = None
    if isinstance(reason, dict):
        found = cast("dict[str, Any]", reason)
        missed, reason = found.get("cache_missed_input_tokens"), found.get("type")
    counted = missed if isinstance(missed, int) and not isinstance(missed, bool) else None
    return Verdict(reason, counted, "diagnostics") if isinstance(reason, str) and reason else None


def output_in(members: dict[str, bytes]) -> bytes:
    """Slice what the model said, as an array of the dialect's own items or messages."""
    output = members.get("output", b"")
    if output[:1] == b"[":
        return output
    if output[:1] == b"{":  # Converse
        return _listed((table(output) or {}).get("message", b""))
    if members.get("content", b"")[:1] == b"[" and members.get("role") == b'"assistant"':
        return b'[{"role":"assistant","content":' + members["content"] + b"}]"
    first = table(next(iter(array(members.get("choices", members.get("candidates", b"")))), b"")) or {}
    return _listed(first.get("message", first.get("content", b"")))


def _listed(message: bytes) -> bytes:
    return b"[" + message + b"]" if message[:1] == b"{" else b""


_BEGINS = re.compile(rb"\s*(?:event|data|id|retry)?:")
_DATA = b"data:"
_LAST = 4  # of the events that seem to have usage so many are read: some say `"usage": null`, or quote the word
_COUNTING = (b'"usage"', b'"usageMetadata"')
_WHOLE = (b"response.completed", b"response.incomplete", b"response.failed", b"response.done")
_TELLING = (b"message_start", b"diagnostics", *_COUNTING, *_WHOLE)


def is_stream(text: bytes) -> bool:
    """Tell whether a response is a stream of events."""
    return _BEGINS.match(text) is not None


def answer_of_stream(text: bytes) -> Answer:
    """Read a stream."""
    return answer_of_events(_telling(text))


def answer_of_events(events: Iterable[bytes]) -> Answer:
    """Read events, each as JSON; those without a telling word are not looked at, but for the first.

    Of several counts the later ones hold, of several ids the first; an event that repeats the response outweighs all.
    """
    whole, response_id, verdict = NOTHING, "", NOTHING.verdict
    usage: dict[str, Any] = {}
    for number, raw in enumerate(events):
        members = table(raw) if not number or any(word in raw for word in _TELLING) else None
        if members is None:
            continue
        inner = table(members.get("response", members.get("message", b""))) or {}
        for side in (members, inner):
            response_id = response_id or id_in(side)
            verdict = verdict_of(side.get("diagnostics", b"")) or verdict
        for counters in _counters(members, inner):
            usage.update((key, value) for key, value in counters.items() if value is not None)
        if inner and "response" in members:
            whole = answer_in(inner)
            response_id = whole.response_id or response_id
    return Answer(whole.usage or billed_from(usage), response_id, whole.verdict or verdict, created=whole.created)


def _counters(members: dict[str, bytes], inner: dict[str, bytes]) -> Iterator[dict[str, Any]]:
    """Yield the usage objects of an event; some put them into a choice (Moonshot) or an object of their own (Groq)."""
    choice = first_element(members.get("choices", b"")) if b'"usage"' in members.get("choices", b"") else b""
    elsewhere = [(table(raw) or {}).get("usage", b"") for raw in (choice, members.get("x_groq", b""))]
    for raw in (*(side.get(key, b"") for side in (members, inner) for key in _USAGE), *elsewhere):
        if raw[:1] == b"{":
            try:
                yield decode(raw)
            except (ValueError, RecursionError):
                continue


def _telling(text: bytes) -> Iterator[bytes]:
    """Yield the data of the first event and of those that matter, each once, in order."""
    places = {_line(text, text.find(_DATA))}
    places.add(_line(text, text.find(b"message_start")))
    places.add(_line(text, text.rfind(b'"diagnostics"')))
    places.update(place for word in _COUNTING for place in _latest(text, word))
    whole = {_line(text, text.rfind(b'"%s"' % word)) for word in _WHOLE}
    places |= whole
    for start, end in sorted(places):
        if text.startswith(_DATA, start):
            yield text[start + len(_DATA) : end].strip()


def _latest(text: bytes, word: bytes) -> Iterator[tuple[int, int]]:
    """Yield the lines that hold a word, from the end, a few of them."""
    at = len(text)
    for _ in range(_LAST):
        at = text.rfind(word, 0, at)
        if at < 0:
            return
        line = _line(text, at)
        yield line
        at = line[0]


def _line(text: bytes, at: int) -> tuple[int, int]:
    """Return the range of the line that holds a byte; nothing for none."""
    if at < 0:
        return 0, 0
    end = text.find(b"\n", at)
    return text.rfind(b"\n", 0, at) + 1, len(text) if end < 0 else end


MOST = 10**9  # tokens: no request is billed for as many
_SHOWN = 10**17  # a longer number is not repeated


class _Family(NamedTuple):
    """The names of a provider's counters, each with other spellings of it; output is the sum of two.

    `details` names an object that may hold counters as well; `included` says that the total counts what was cached.
    """

    total: tuple[str, ...]
    read: tuple[str, ...]
    write: tuple[str, ...] = ()
    output: tuple[str, ...] = ()
    thought: tuple[str, ...] = ()
    details: str = ""
    included: bool = True


_ANTHROPIC = _Family(
    ("input_tokens",), ("cache_read_input_tokens",), ("cache_creation_input_tokens",), ("output_tokens",),
    included=False,
)  # fmt: skip
_OPENAI = _Family(
    ("prompt_tokens",),
    # behind the first two DeepSeek's, OpenRouter's and vLLM's names
    ("cached_tokens", "cache_read_input_tokens", "prompt_cache_hit_tokens", "native_tokens_cached",
     "num_cached_tokens"),
    ("cache_write_tokens", "cache_creation_input_tokens", "cache_creation_tokens"),
    ("completion_tokens",),
    details="prompt_tokens_details",
)  # fmt: skip
_RESPONSES = _Family(
    ("input_tokens",), ("cached_tokens",), ("cache_write_tokens",), ("output_tokens",), details="input_tokens_details"
)
_GEMINI = _Family(
    ("promptTokenCount", "prompt_token_count"),
    ("cachedContentTokenCount", "cached_content_token_count"),
    (),
    ("candidatesTokenCount", "candidates_token_count"),
    ("thoughtsTokenCount", "thoughts_token_count"),
)
_BEDROCK = _Family(
    ("inputTokens",), ("cacheReadInputTokens",), ("cacheWriteInputTokens",), ("outputTokens",), included=False
)
# The family whose counters a usage object holds, by a name that only it has; Anthropic's where none is there.
_FAMILIES = {
    "prompt_tokens": _OPENAI,
    "input_tokens_details": _RESPONSES,
    "promptTokenCount": _GEMINI,
    "prompt_token_count": _GEMINI,
    "inputTokens": _BEDROCK,
}


def billed_of(raw: bytes) -> Billed | None:
    """Read a usage object; None where there is none or it says nothing that lore knows."""
    try:
        usage = decode(raw)
    except (ValueError, RecursionError):
        return None
    return billed_from(cast("dict[str, Any]", usage)) if isinstance(usage, dict) else None


def billed_from(usage: dict[str, Any]) -> Billed | None:
    """Read usage that is decoded already."""
    family = next((family for key, family in _FAMILIES.items() if key in usage), _ANTHROPIC)
    details = _object(usage, family.details)
    if family is _RESPONSES and not details:
        family = _ANTHROPIC
    total, read, write, output, thought = (_first(usage, details, names) for names in family[:5])
    uncached = total
    if family.included and total is not None:
        uncached = total - (read or 0) - (write or 0)
        uncached = total if uncached < 0 else uncached  # it does not include what it should: not a sum to split
    output = output if thought is None else (output or 0) + thought
    split = _object(usage, "cache_creation") if family is _ANTHROPIC else _written(usage) if family is _BEDROCK else {}
    hour, minutes = (_count(split, f"ephemeral_{lifetime}_input_tokens") for lifetime in ("1h", "5m"))
    found = Billed(uncached, read, write, output, write_5m_tokens=minutes, write_1h_tokens=hour)
    if found == Billed():
        return None
    odd = _odd(usage)
    return OddBill(**msgspec.structs.asdict(found), odd=odd) if odd else found


def _odd(usage: dict[str, Any]) -> str:
    """Name a counter that cannot be; empty where all can."""
    inner = [cast("dict[str, Any]", value) for value in usage.values() if isinstance(value, dict)]
    for counters in (usage, *inner):
        for name, value in counters.items():
            if type(value) is int and not 0 <= value <= MOST and "token" in name.lower():
                return f"{name[:60]} is {value if abs(value) < _SHOWN else 'beyond any count'}"
    return ""


def _written(usage: dict[str, Any]) -> dict[str, Any]:
    """Return what Bedrock wrote for each lifetime, by Anthropic's names: `cacheDetails` lists them."""
    details = usage.get("cacheDetails")
    found: dict[str, Any] = {}
    for detail in cast("list[Any]", details) if isinstance(details, list) else []:
        if isinstance(detail, dict):
            counters = cast("dict[str, Any]", detail)
            found.setdefault(f"ephemeral_{counters.get('ttl')}_input_tokens", counters.get("inputTokens"))
    return found


def _object(usage: dict[str, Any], key: str) -> dict[str, Any]:
    value = usage.get(key)
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


def _count(usage: dict[str, Any], key: str) -> int | None:
    value = usage.get(key)
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= MOST else None


def _first(usage: dict[str, Any], details: dict[str, Any], keys: tuple[str, ...]) -> int | None:
    counts = (_count(counters, key) for key in keys for counters in (usage, details))
    return next((count for count in counts if count is not None), None)
