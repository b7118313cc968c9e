"""Parse responses: usage, id, the provider's verdict, and the place of the model's answer.

A response has one of five dialects, and is whole JSON or server-sent events. Values that are missing, of another type
or not JSON are unknown. Only these small parts are decoded; `output` is a slice. Most events of a stream carry pieces
of text: a few searches over the bytes find the others, and only those are decoded. `outputs.py` joins the text of a
stream when it is needed; `bills.py` reads usage.

llama.cpp's server counts in `timings`: `prompt_n` tokens were computed, `cache_n` read from its slot. Before September
2025 `cache_n` was missing: it is the rest of the prompt, which `/completion` counts as `tokens_evaluated`.
Sources: the providers' API references; llama.cpp's server (pull request 15827 of 2025-09-06 adds `cache_n`); answers of
llama-server, vLLM 0.8 to 0.26 and SGLang 0.4 to 0.5 in public repositories.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any, cast

from msgspec import Struct
from msgspec.structs import replace

from lore.formats.bills import decode_usage, usage_of_object
from lore.formats.values import count_in, text_in
from lore.model.canonical import decode, text_of
from lore.model.deferred import pattern
from lore.model.events import ContextEdit, Usage, Verdict
from lore.model.jsonslice import array, first_element, object_of, raw_members, sliced_members
from lore.model.mask import cut_masked
from lore.model.providers import LLAMA_CPP
from lore.model.times import decode_time
from lore.model.turn import Output, StreamedOutput, parse_verdict

_USAGE = ("usage", "usageMetadata", "usage_metadata")
_IDS = ("id", "responseId", "response_id")
_INNER = ("response", "message", "interaction")  # members of an event of a stream that hold an answer
_OLLAMA_COUNTS = ("prompt_eval_count", "eval_count")


class ParsedAnswer(Struct, frozen=True, gc=False):
    """Facts about a response; unknown ones are empty or None."""

    usage: Usage | None = None
    response_id: str = ""
    verdict: Verdict | None = None
    output: Output = b""  # as in `Exchange`
    created: float | None = None  # to the second
    provider: str = ""  # the gateway's name for the provider that answered
    edits: tuple[ContextEdit, ...] | None = None  # what the provider removed from the prompt
    model: str = ""  # that answered


NOTHING = ParsedAnswer()


def answer_of(raw: bytes) -> ParsedAnswer:
    """Parse a whole response; in a list of chunks the last one has the usage."""
    if raw[:1] == b"[":
        chunks = array(raw)
        last = sliced_members(chunks[-1]) if chunks else {}
        return replace(_answer_in(last), output=StreamedOutput(raw, "json")) if last else NOTHING
    last = raw.rstrip().rpartition(b"\n")[2] if b'"prompt_eval_count"' in raw else b""  # Ollama streams JSON Lines
    raw = last if last[:1] == b"{" else raw
    return _answer_in(sliced_members(raw)) if raw else NOTHING


LONGEST_NAME = 200  # characters of a name


def _edits_in(raw: bytes) -> tuple[ContextEdit, ...] | None:
    """Return what the provider removed or summarised, from `context_management`; None if it is not recorded."""
    applied = (raw_members(raw) or {}).get("applied_edits", b"") if b"applied_edits" in raw else b""
    if applied[:1] != b"[":
        return None
    edits: list[ContextEdit] = []
    for edit in array(applied):
        members = raw_members(edit) or {}
        kind, tokens = text_of(members.get("type", b'""')), members.get("cleared_input_tokens", b"")
        if kind:
            edits.append(ContextEdit(cut_masked(kind, LONGEST_NAME), count_in(tokens)))
    return tuple(edits)


def _answer_in(members: dict[str, bytes]) -> ParsedAnswer:
    usage = next((members[key] for key in _USAGE if members.get(key, b"null") != b"null"), b"null")
    timed = _timed_usage(members, usage)
    created = decode_time(members.get("created_at", members.get("created", b"null")))
    verdict = parse_verdict(members.get("diagnostics", b"null"))
    usage = _ollama_usage(members) or usage
    bill = usage_of_object(timed) if timed else decode_usage(usage, members.get("service_tier", b""))
    by = text_in(members.get("provider", b"")) or _engine_of(members) or (LLAMA_CPP if timed else "")
    return ParsedAnswer(
        bill, _id_in(members), verdict, output_in(members), created, by,
        _edits_in(members.get("context_management", b"")), _model_in(members),
    )  # fmt: skip


def _ollama_usage(members: dict[str, bytes]) -> bytes:
    """Return the counts of Ollama's response, whose last part has them next to the message; empty for others."""
    is_last = "prompt_eval_count" in members
    return object_of({name: members[name] for name in _OLLAMA_COUNTS if name in members}) if is_last else b""


def _timed_usage(members: dict[str, bytes], usage: bytes) -> dict[str, Any]:
    """Return a usage completed by the timings of llama.cpp's server; empty if it has none, or the usage is complete."""
    timings = {key: count_in(raw) for key, raw in (raw_members(members.get("timings", b"")) or {}).items()}
    recorded = _decode_usage(usage) if timings else {}
    if not timings or (recorded and ("prompt_tokens" not in recorded or recorded.get("prompt_tokens_details"))):
        return {}
    # not `tokens_cached`: it counts what the slot holds after the answer, prompt and answer
    total = recorded.get("prompt_tokens", count_in(members.get("tokens_evaluated", b"")))
    cached, computed = timings.get("cache_n"), timings.get("prompt_n")
    if cached is None and computed is not None and type(total) is int and computed <= total:
        cached = total - computed
    if cached is None:
        return {}
    total = total if computed is None else cached + computed  # as the Chat Completions API counts it
    counts = {"prompt_tokens": total, "cached_tokens": cached, "completion_tokens": timings.get("predicted_n")}
    return {**recorded, **{key: count for key, count in counts.items() if count is not None}}


def _model_in(members: dict[str, bytes]) -> str:
    return text_in(members.get("modelVersion", members.get("model", b"")))


def _engine_of(members: dict[str, bytes]) -> str:
    """Return the engine whose own members an answer has; empty for other servers."""
    if b'"cache_n"' in members.get("timings", b""):
        return LLAMA_CPP
    is_vllm = "kv_transfer_params" in members or members.get("system_fingerprint", b"").startswith(b'"vllm-')
    return "vllm" if is_vllm else "sglang" if b'"matched_stop"' in members.get("choices", b"") else ""


def _decode_usage(usage: bytes) -> dict[str, Any]:
    try:
        value: Any = decode(usage) if usage[:1] == b"{" else {}
    except (ValueError, RecursionError):
        return {}
    return cast("dict[str, Any]", value)


def _id_in(members: dict[str, bytes]) -> str:
    return next((text_of(members[key]) for key in _IDS if members.get(key, b"")[:1] == b'"'), "")


def output_in(members: dict[str, bytes]) -> bytes:
    """Return the model's answer, as an array of the dialect's items or messages."""
    output = members.get("output", b"")
    if output[:1] == b"[":
        return output
    if members.get("content", b"")[:1] == b"[" and members.get("role") == b'"assistant"':
        return b'[{"role":"assistant","content":' + members["content"] + b"}]"
    if output[:1] == b"{":  # Converse
        message = (raw_members(output) or {}).get("message", b"")
    else:
        first = raw_members(next(iter(array(members.get("choices", members.get("candidates", b"")))), b"")) or {}
        message = first.get("message", first.get("content", members.get("message", b"")))
    return b"[" + message + b"]" if message[:1] == b"{" else b""


_BEGINS = pattern(rb"\s*(?:event|data|id|retry)?:")
_DATA = b"data:"
_LAST = 4  # events that hold the word "usage" that are read: some have `"usage": null`, or quote the word
_COUNTING = (b'"usage"', b'"usageMetadata"', b'"timings"', b'"prompt_eval_count"')
_WHOLE = (b"response.completed", b"response.incomplete", b"response.failed", b"response.done")
_TELLING = pattern(b"|".join(map(re.escape, (b"message_start", b"diagnostics", *_COUNTING, *_WHOLE))))


def is_stream(text: bytes) -> bool:
    """Return whether a response is a stream of events."""
    return _BEGINS.match(text) is not None


def answer_of_stream(text: bytes) -> ParsedAnswer:
    """Parse a response of server-sent events; only the first and those with a searched word are cut out."""
    words = [b'"%s"' % word for word in _WHOLE]
    lines = {_line_around(text, text.find(_DATA)), _line_around(text, text.find(b"message_start"))}
    lines.update(_line_around(text, text.rfind(word)) for word in (b'"diagnostics"', *words))
    for word in _COUNTING:
        start = len(text)
        for _ in range(_LAST):
            start, end = _line_around(text, text.rfind(word, 0, start))
            lines.add((start, end))
    lines.discard(_NOWHERE)
    events = (text[start + len(_DATA) : end] for start, end in sorted(lines) if text.startswith(_DATA, start))
    return answer_of_events(map(bytes.strip, events))


def answer_of_events(events: Iterable[bytes]) -> ParsedAnswer:
    """Parse a response from its events, each JSON. Only the first and those that match `_TELLING` are decoded.

    Later counts replace earlier ones; the first id is kept. An event with the whole response overrides all others.
    """
    whole, response_id, verdict, provider, edits = NOTHING, "", NOTHING.verdict, "", NOTHING.edits
    usage, ended, model = dict[str, Any](), False, ""
    fallen = dict[str, tuple[int, int]]()  # counts of a later event that are lower, though they are cumulative
    for number, raw in enumerate(events):
        members = raw_members(raw) if not number or _TELLING.search(raw) is not None else None
        if members is None:
            continue
        inner = next(filter(None, (raw_members(members.get(key, b"")) for key in _INNER)), dict[str, bytes]())
        for side in (members, inner):
            response_id = response_id or _id_in(side)
            provider = provider or text_in(side.get("provider", b"")) or _engine_of(side)
            model = model or _model_in(side)
            side_edits = _edits_in(side.get("context_management", b""))
            edits = side_edits if side_edits or edits is None else edits
            if side.get("service_tier", b"")[:1] == b'"':
                usage["service_tier"] = text_of(side["service_tier"])
            verdict = parse_verdict(side.get("diagnostics", b"")) or verdict
        for counters in _counters_in(members, inner):
            later = {key: value for key, value in counters.items() if value is not None}
            if b'"message_delta"' in raw and not any(key.startswith("cache_") for key in usage):
                # DashScope counts cached tokens only at the end; the input at the start is the whole prompt
                cached = [later.get(f"cache_{name}_input_tokens") for name in ("read", "creation")]
                tokens = sum(count for count in cached if type(count) is int)
                if tokens and type(usage.get("input_tokens")) is int:
                    usage["input_tokens"] = max(0, usage["input_tokens"] - tokens)
            fallen |= {
                name: (usage[name], count) for name, count in later.items()
                if name.startswith("cache_") and type(count) is int and type(usage.get(name)) is int
                and count < usage[name] and "iterations" not in later
            }  # fmt: skip
            usage.update(later)
        ended = ended or b'"finishReason"' in raw or b'"finish_reason"' in raw
        if inner and "response" in members:
            whole = _answer_in(inner)
            response_id = whole.response_id or response_id
    if "promptTokenCount" in usage and not ended:  # Gemini counts cached tokens in its last event
        usage.setdefault("cachedContentTokenCount", None)
    billed = whole.usage or usage_of_object(usage)
    if billed is not None and fallen and not billed.contradiction:
        text = ", ".join(f"{name} is {first:,}, then {last:,}" for name, (first, last) in fallen.items())
        billed = replace(billed, contradiction=f"{text} in one stream; the latter is used")
    return ParsedAnswer(
        billed, response_id, whole.verdict or verdict, created=whole.created,
        provider=provider or whole.provider, edits=whole.edits if edits is None else edits, model=model,
    )  # fmt: skip


def _counters_in(members: dict[str, bytes], inner: dict[str, bytes]) -> Iterator[dict[str, Any]]:
    """Yield the usage objects of an event, also from a choice (Moonshot), `x_groq` or a delta (Cohere)."""
    choice = first_element(members.get("choices", b"")) if b'"usage"' in members.get("choices", b"") else b""
    places = choice, members.get("x_groq", b""), members.get("delta", b"")
    elsewhere = [(raw_members(raw) or {}).get("usage", b"") for raw in places]
    own = (side.get(key, b"") for side in (members, inner) for key in _USAGE)
    for raw in (*own, *elsewhere, _ollama_usage(members)):
        if counters := _decode_usage(raw):
            yield counters
    if timed := _timed_usage(members, members.get("usage", b"")):
        yield timed


_NOWHERE = (0, 0)


def _line_around(text: bytes, at: int) -> tuple[int, int]:
    """Return the range of the line around a byte; an empty one if `at` is negative."""
    if at < 0:
        return _NOWHERE
    end = text.find(b"\n", at)
    return text.rfind(b"\n", 0, at) + 1, len(text) if end < 0 else end
