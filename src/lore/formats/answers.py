"""What a response says of its request: usage, id, the provider's verdict, and what the model said.

In: one response as JSON text, of any of the five dialects. Out: an `Answer`; what is missing, of another
type or not JSON is unknown. Nothing is decoded but these small parts; `output` is sliced.
"""

from __future__ import annotations

from typing import Any, cast

from msgspec import Struct
from msgspec.structs import replace

from lore.formats.times import seconds
from lore.formats.usage import billed_of
from lore.model.canonical import decode, text_of
from lore.model.events import Billed, Verdict
from lore.model.exchange import Exchange, Output, Streamed
from lore.model.jsonslice import array, parts, table

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
    said = answer_in(inner or own)
    return replace(
        exchange, usage=said.usage, verdict=said.verdict, answered=at, response_id=said.response_id, output=said.output
    )  # fmt: skip


def answer_in(members: dict[str, bytes]) -> Answer:
    """Read a response that is sliced already."""
    usage = next((members[key] for key in _USAGE if members.get(key, b"null") != b"null"), b"null")
    created = seconds(members.get("created_at", members.get("created", b"null")))
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
    if isinstance(reason, dict):
        found = cast("dict[str, Any]", reason)
        missed = found.get("cache_missed_input_tokens")
        counted = missed if isinstance(missed, int) and not isinstance(missed, bool) else None
        reason = found.get("type")
    else:
        counted = None
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
