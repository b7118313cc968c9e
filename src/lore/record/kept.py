"""What of a call is written down: an allow-list of headers, a URL without keys, bodies as they passed, to the byte.

In: what passed. Out: records as JSON lines (`formats/captures/lore_capture.py` reads them). Rules: credentials are
never written: a header that is not listed is left out, and so is the value of each query parameter that is not listed;
of the key only a digest is kept, which tells accounts apart; what looks like a credential in a path or in a header that
is listed is masked. A key in a body is content and stays. Pure.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any
from urllib.parse import unquote_to_bytes

import orjson

from lore.formats.http import account_of
from lore.model.mask import mask

Pairs = Iterable[tuple[bytes, bytes]]

# Names in lower case; those that end in "-" are beginnings. Of a request: what a body is, who sent it in which
# conversation, and which features it asks for; of a response also its ids, limits and times.
_REQUEST = (
    "accept", "accept-encoding", "content-encoding", "content-length", "content-type", "transfer-encoding",
    "user-agent", "anthropic-version", "anthropic-beta", "anthropic-dangerous-direct-browser-access", "openai-beta",
    "openai-organization", "openai-project", "originator", "version", "x-stainless-", "x-app", "x-goog-api-client",
    "x-claude-code-session-id", "x-claude-code-agent-id", "x-claude-code-request-class", "x-claude-code-compaction",
    "session_id", "session-id", "x-session-id", "x-session-affinity", "thread-id", "conversation_id",
    "x-openai-subagent", "x-codex-beta-features", "x-codex-turn-metadata", "x-client-request-id", "x-title",
    "http-referer", "x-amzn-bedrock-performanceconfig-latency", "x-amzn-bedrock-service-tier",
)  # fmt: skip
_RESPONSE = (
    "content-encoding", "content-length", "content-type", "transfer-encoding", "date", "retry-after", "retry-after-ms",
    "request-id", "x-request-id", "x-should-retry", "anthropic-organization-id", "anthropic-ratelimit-",
    "x-ratelimit-", "openai-model", "openai-organization", "openai-processing-ms", "openai-version", "cf-ray",
    "x-litellm-model-id", "x-litellm-model-api-base", "x-litellm-version", "x-amzn-requestid", "x-amzn-errortype",
    "x-amzn-bedrock-", "x-goog-", "x-gemini-service-tier", "server-timing", "server", "x-generation-id",
)  # fmt: skip
_PARAMETERS = (b"alt", b"beta", b"api-version", b"limit", b"stream", b"$alt", b"prettyPrint")
_PLAIN = re.compile(rb"[A-Za-z0-9.,_-]{0,40}")  # a value that is kept: `alt=sse;key=…` is none
_SECRET = re.compile(r"key|token(?!s)|secret|auth|cookie|signature|credential|password", re.IGNORECASE)
LONGEST_HEADER = 8 * 1024  # characters that are kept of a header's value
_KEYS = (b"x-api-key", b"api-key", b"x-goog-api-key", b"authorization", b"chatgpt-account-id")


def request_headers(headers: Pairs) -> dict[str, str]:
    """Return the headers of a request that are kept."""
    return _kept(headers, _REQUEST)


def response_headers(headers: Pairs) -> dict[str, str]:
    """Return the headers of a response that are kept."""
    return _kept(headers, _RESPONSE)


def _kept(headers: Pairs, listed: tuple[str, ...]) -> dict[str, str]:
    names = frozenset(name for name in listed if not name.endswith("-"))
    begins = tuple(name for name in listed if name.endswith("-"))
    found: dict[str, str] = {}
    for raw, value in headers:
        name = raw.decode("latin-1").lower()
        if name in names or (name.startswith(begins) and not _SECRET.search(name)):
            text = mask(value.decode("utf-8", "replace"))[:LONGEST_HEADER]
            found[name] = f"{found[name]}, {text}"[:LONGEST_HEADER] if name in found else text
    return found


def account(headers: Pairs, query: bytes) -> str:
    """Return the digest of the key that a request is sent with, as other captures are read; empty for none."""
    keys = {name.decode("latin-1"): value.decode("latin-1") for name, value in headers if name.lower() in _KEYS}
    in_query = next((value for name, value in _parameters(query) if name == b"key"), b"")
    if in_query:
        keys["x-goog-api-key"] = unquote_to_bytes(in_query).decode("latin-1")
    return account_of({name.lower(): value for name, value in keys.items()})


def url_of(origin: str, path: bytes, query: bytes) -> str:
    """Return the URL that was asked, with only those parameters that are listed; others keep their names."""
    kept: list[bytes] = []
    for name, value in _parameters(query):
        plain = name in _PARAMETERS and _PLAIN.fullmatch(value)
        kept.append(name if not value else name + b"=" + (value if plain else b"REDACTED"))
    return mask(origin + (path + (b"?" + b"&".join(kept) if kept else b"")).decode("latin-1"))


def _parameters(query: bytes) -> list[tuple[bytes, bytes]]:
    pairs = [part.partition(b"=") for part in query.split(b"&") if part]
    return [(name, value) for name, _, value in pairs]


def moment(seconds: float) -> str:
    """Write a time, to the millisecond."""
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def line_of(record: dict[str, Any], body: bytes = b"") -> bytes:
    """Write a record with a piece of a body: as text where it is UTF-8, else as base64."""
    if body:
        try:
            record["body"] = body.decode("utf-8")
        except UnicodeDecodeError:
            record["base64"] = base64.b64encode(body).decode("ascii")
    return orjson.dumps(record, option=orjson.OPT_APPEND_NEWLINE)


def cut(data: bytes | bytearray) -> int:
    """Return where a piece of text can be cut so that no character is: its length, or up to 3 bytes less."""
    for back in range(1, min(4, len(data)) + 1):
        byte = data[-back]
        if byte >= 0xC0:  # the first byte of a character of several
            length = 2 if byte < 0xE0 else 3 if byte < 0xF0 else 4
            return len(data) - back if length > back else len(data)
        if byte < 0x80:
            return len(data)
    return len(data)
