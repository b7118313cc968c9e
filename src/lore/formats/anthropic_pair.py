"""What a request to Anthropic and its response say besides the prompt: session, bill, verdict, answer."""

from __future__ import annotations

import re

import msgspec

from lore.formats.usage import billed_of
from lore.model.canonical import text_of
from lore.model.events import Verdict
from lore.model.exchange import Call, Exchange
from lore.model.jsonslice import array, table

_LINK = re.compile(r"\b(cc_prompt_id|cc_prev_req)=([^;\s]+)")


def links(body: dict[str, bytes]) -> dict[str, str]:
    """Return what Claude Code writes into the first system block: `cc_prompt_id`, `cc_prev_req`."""
    system = body.get("system", b"")
    first = next(iter(array(system)), b"") if system[:1] == b"[" else system
    text = first if first[:1] == b'"' else (table(first) or {}).get("text", b"")
    return dict(_LINK.findall(text_of(text))) if b"cc_pr" in text else {}


def session_of(body: dict[str, bytes]) -> str:
    """Return the session that `metadata.user_id` names: it is JSON kept as text, or `…_session_ID`."""
    user = text_of((table(body.get("metadata", b"null")) or {}).get("user_id", b'""'))
    own = table(user.encode("utf-8", "backslashreplace")) or {}
    if "session_id" in own:
        return text_of(own["session_id"])
    return user.rpartition("_session_")[2] if "_session_" in user else ""


def exchange_of(body: bytes, at: float | None = None, purpose: str = "") -> Exchange:
    """Return the exchange of a body that is the wire's, without its response."""
    session = session_of(table(body) or {})
    return Exchange(body, "wire", at, call=Call(session=session, purpose=purpose))


def answered(exchange: Exchange, response: bytes, *, at: float | None = None) -> Exchange:
    """Return the exchange with what its response says."""
    own = table(response) or {}
    own = own if "usage" in own else table(own.get("message", b"null")) or own
    said = b'[{"role":"assistant","content":' + own["content"] + b"}]" if own.get("content", b"")[:1] == b"[" else b""
    return msgspec.structs.replace(
        exchange, usage=billed_of(own.get("usage", b"null")), verdict=_verdict(own), answered=at,
        response_id=text_of(own.get("id", b'""')), output=said,
    )  # fmt: skip


def _verdict(own: dict[str, bytes]) -> Verdict | None:
    reason = (table(own.get("diagnostics", b"null")) or {}).get("cache_miss_reason", b"null")
    if reason[:1] == b'"':
        return Verdict(text_of(reason), source="diagnostics") if reason != b'""' else None
    inner = table(reason) or {}
    missed = inner.get("cache_missed_input_tokens", b"")
    if "type" not in inner:
        return None
    return Verdict(
        text_of(inner["type"]), int(missed) if missed.isdigit() and len(missed) < 17 else None, "diagnostics"
    )
