"""OpenTelemetry GenAI spans as JSON Lines: what the semantic conventions say of a model call.

In: spans or log records, flat or OTLP JSON. Out: an exchange for each call of a model, `structural`: the
conventions have a message shape of their own, which is written here as OpenAI's. Input counts include what
was cached and are split. A call whose content was not recorded is a problem, any other span none of ours.
Source: OpenTelemetry's semantic conventions for generative AI, 1.37 and later.
"""

from __future__ import annotations

from typing import ClassVar

from lore.formats.answers import billed_of
from lore.formats.chat import body_of, call_of, message_of, result_of, text_block
from lore.formats.contents import unescaped
from lore.formats.lines import Line
from lore.formats.otel import SpanRecord, told
from lore.formats.records import RecordReader, first_records
from lore.formats.span_messages import messages_in, tools_in
from lore.model.canonical import encode, text_of
from lore.model.codes import Code, Problem
from lore.model.events import Billed
from lore.model.jsonslice import array, is_json, table
from lore.model.turn import Call, Exchange

_INPUT = ("gen_ai.input.messages", "gen_ai.input_messages")
_OTHER = ("invoke_agent", "create_agent", "execute_tool", "embeddings", "invoke_workflow", "retrieval")
_PARAMS = {
    "gen_ai.request.max_tokens": "max_tokens",
    "gen_ai.request.temperature": "temperature",
    "gen_ai.request.top_p": "top_p",
    "gen_ai.request.seed": "seed",
    "gen_ai.request.frequency_penalty": "frequency_penalty",
    "gen_ai.request.presence_penalty": "presence_penalty",
    "gen_ai.request.stop_sequences": "stop",
    "gen_ai.request.reasoning.level": "reasoning_effort",
    "gen_ai.openai.request.service_tier": "service_tier",
    "openai.request.service_tier": "service_tier",
}


class GenAI(RecordReader):
    """Reader of OpenTelemetry GenAI spans."""

    name: ClassVar[str] = "otel-genai"
    largest: ClassVar[int] = 10 * 1024 * 1024  # what is written anew is held several times over

    @classmethod
    def recognises(cls, head: bytes) -> bool:
        if b'"gen_ai.' not in head:
            return False
        return any(_is_call(one) for record in first_records(head) for one in told(record))

    def _values(self, data: bytes, line: Line) -> list[Exchange | Problem]:
        return [_exchange(one) for one in told(data) if _is_call(one)]


def _is_call(one: SpanRecord) -> bool:
    """Tell whether this is a call of a model: an agent's own span sums up those of its calls."""
    own = one.attributes
    if one.text("gen_ai.operation.name") in _OTHER or "gen_ai.tool.call.id" in own:
        return False
    return any(key in own for key in ("gen_ai.request.model", *_INPUT))


def _exchange(one: SpanRecord) -> Exchange | Problem:
    own = one.attributes
    given = next((_list(own[key]) for key in _INPUT if key in own), b"")
    asked = [piece for raw in array(given) for piece in _messages(raw)] if given else messages_in(own)
    if not asked:
        wanted = "it has none of gen_ai.input.messages, gen_ai.prompt.N.content, events"
        return Problem(
            Code.CONTENT_NOT_RECORDED, f"{one.name or 'a span'} says nothing of the messages that were sent: {wanted}"
        )
    instructions = _list(own.get("gen_ai.system_instructions", b""))
    system = [message_of("system", map(_part, array(instructions)))] if instructions else []
    messages = [*system, *asked]
    params = {name: own[key] for key, name in _PARAMS.items() if key in own}
    model = own.get("gen_ai.request.model", own.get("gen_ai.response.model", b"null"))
    tools = _list(own.get("gen_ai.tool.definitions", own.get("gen_ai.request.tools", b""))) or tools_in(own)
    call = Call(
        endpoint=one.text("server.address"),
        session=one.text("gen_ai.conversation.id", "session.id"),
        agent=one.text("gen_ai.agent.id", "gen_ai.agent.name"),
    )
    body = body_of(model, messages, tools, params)
    response_id = one.text("gen_ai.response.id")
    return Exchange(body, "structural", one.at, _usage(own), response_id=response_id, call=call)


def _list(raw: bytes) -> bytes:
    """Return the array that an attribute is or holds as text; a plain text as an array of it."""
    text = unescaped(raw).strip() if raw[:1] == b'"' else raw
    if text[:1] == b"[" and (text is raw or is_json(text)):
        return text
    return b"[" + raw + b"]" if raw not in (b"", b'""', b"null") else b""


def _messages(raw: bytes) -> list[bytes]:
    """Write a message: its text and calls as one, each result of a call as a message of its own."""
    own = table(raw)
    if own is None:
        return [message_of("user", [_part(raw)])]
    role = text_of(own.get("role", b'"user"'))
    parts = array(own["parts"]) if own.get("parts", b"")[:1] == b"[" else [own.get("content", b'""')]
    content, calls, results = list[bytes](), list[bytes](), list[bytes]()
    for part in parts:
        inner = table(part) or {}
        kind = text_of(inner.get("type", b'""'))
        if kind == "tool_call":
            calls.append(call_of(_id(inner), inner.get("name", b'""'), inner.get("arguments", b"{}")))
        elif kind == "tool_call_response":
            given = next((inner[key] for key in ("response", "result", "content") if key in inner), b'""')
            results.append(result_of(_id(inner), given))
        else:
            content.append(_part(part))
    said = [message_of(role, content, calls)] if content or calls or not results else []
    return [*said, *results]


def _id(part: dict[str, bytes]) -> bytes:
    return part.get("id", b'""') if part.get("id", b"")[:1] == b'"' else b'""'


def _part(raw: bytes) -> bytes:
    """Write a part as a block; those that are no text stand as they are."""
    if raw[:1] == b'"':
        return text_block(raw)
    own = table(raw) or {}
    text = own.get("content", b"")
    return text_block(text) if own.get("type") == b'"text"' and text[:1] == b'"' else raw


_COUNTS: dict[str, tuple[str, ...]] = {
    "prompt_tokens": ("gen_ai.usage.input_tokens", "gen_ai.usage.prompt_tokens"),
    "cached_tokens": ("gen_ai.usage.cache_read.input_tokens", "gen_ai.usage.cache_read_input_tokens",
                      "gen_ai.usage.input_tokens.cached", "gen_ai.usage.details.cache_read_tokens"),
    "cache_write_tokens": ("gen_ai.usage.cache_creation.input_tokens", "gen_ai.usage.cache_creation_input_tokens",
                           "gen_ai.usage.details.cache_write_tokens"),
    "completion_tokens": ("gen_ai.usage.output_tokens", "gen_ai.usage.completion_tokens"),
}  # fmt: skip


def _usage(own: dict[str, bytes]) -> Billed | None:
    """Read the counts, whose input includes what was read from or written to a cache."""
    found = {name: own[key] for name, keys in _COUNTS.items() for key in reversed(keys) if key in own}
    if not found:
        return None
    found.setdefault("prompt_tokens", b"null")
    return billed_of(b"{" + b",".join([encode(name) + b":" + value for name, value in found.items()]) + b"}")
