"""What is known of a call besides its body: who sent it, in which conversation, what for.

In: headers (names in lower case) and the members of the request body. Out: a `Call`. Recorders hide what is
secret: a value that says so names nobody. A key becomes a digest; one that lives for an hour, and is renewed in
the middle of a session, tells no accounts apart and is left out. Sources: headers and bodies of Claude Code
2.1, Codex 0.142 and OpenCode 1.16.
"""

from __future__ import annotations

import hashlib
import re

from lore.model.canonical import text_of
from lore.model.exchange import Call
from lore.model.jsonslice import first_element, table

Headers = dict[str, str]

_SESSIONS = ("x-claude-code-session-id", "session_id", "session-id", "x-session-affinity", "x-session-id")
_KEYS = ("x-api-key", "api-key", "x-goog-api-key", "chatgpt-account-id", "authorization")
_HIDDEN = re.compile(
    r"redact|filter|hidden|mask|scrub|sanit|placeholder|dummy|fake|\*\*|[<\[{…]|^(.)\1{3,}$", re.IGNORECASE
)
_SHORT_LIVED = re.compile(r"ey[A-Za-z0-9_-]+\.|sk-ant-oat|ya29\.")  # signed tokens that carry their own end
_SIGNED = re.compile(r"Credential=([^/,\s]+)")  # AWS signs each request anew; the name of the key stays
_IN_USER = re.compile(r"_session_([0-9A-Za-z-]{8,})$")
_LINK = re.compile(r"\b(cc_prompt_id|cc_prev_req)=([^;\s]+)")
_LOCAL = re.compile(r"(?:localhost|127\.[0-9.]+|\[::1\]|0\.0\.0\.0)(?::\d+)?$")


def call_of(headers: Headers, body: dict[str, bytes], *, endpoint: str = "", status: int | None = None) -> Call:
    """Put together what headers and body say."""
    session = _first(headers, _SESSIONS) or session_in(body)
    thread = _first(headers, ("x-claude-code-agent-id", "x-openai-subagent", "thread-id"))
    return Call(
        endpoint=endpoint,
        session=session,
        agent=thread if thread != session else "",
        purpose=_purpose(headers, endpoint),
        previous=_text(body, "previous_response_id"),
        betas=_betas(headers),
        account=_account(headers),
        status=status,
    )


def endpoint_of(url: str, headers: Headers) -> str:
    """Return host and path without a query; a recorder on the own machine is not the host that was asked."""
    rest = url.partition("?")[0].partition("#")[0]
    scheme, found, rest = rest.rpartition("://")
    if not found and rest.startswith("/"):
        host, path = headers.get("host", ""), rest
    else:
        host, slash, path = rest.partition("/")
        path = slash + path
        host = host.rpartition("@")[2].removesuffix({"https": ":443", "http": ":80"}.get(scheme, ":443"))
    return ("" if _LOCAL.match(host) else host.lower()) + path


def real(value: str) -> str:
    """Return a value that a recorder left as it was; nothing for one that it hid."""
    return "" if _HIDDEN.search(value) else value.strip()


def _first(headers: Headers, names: tuple[str, ...]) -> str:
    return next((found for name in names if (found := real(headers.get(name, "")))), "")


def _purpose(headers: Headers, endpoint: str) -> str:
    said = _first(headers, ("x-claude-code-request-class",))
    if not said and real(headers.get("x-claude-code-compaction", "")) not in ("", "0", "false"):
        said = "compaction"
    if not said and endpoint.endswith(("/count_tokens", ":countTokens")):
        said = "count_tokens"
    return said


def _betas(headers: Headers) -> tuple[str, ...] | None:
    """List the beta features asked for; None where no headers were recorded."""
    if not headers:
        return None
    return tuple(one.strip() for one in headers.get("anthropic-beta", "").split(",") if one.strip())


def _account(headers: Headers) -> str:
    """Return a digest of the key; AWS, Azure and others name theirs in their own ways."""
    for name in _KEYS:
        value = real(headers.get(name, ""))
        if name == "authorization":
            signed = _SIGNED.search(value)
            value = signed[1] if signed else value.rpartition(" ")[2]
        if len(value) >= 8 and not _SHORT_LIVED.match(value) and real(value):
            return hashlib.sha256(value.encode("utf-8", "backslashreplace")).hexdigest()[:12]
    return ""


def session_in(body: dict[str, bytes]) -> str:
    """Find the conversation that a body names; a key that groups requests for a cache is better than nothing."""
    metadata = table(body.get("metadata", b"")) or {}
    user = text_of(metadata["user_id"]) if metadata.get("user_id", b"")[:1] == b'"' else ""
    told = table(user.encode("utf-8", "backslashreplace")) if user.startswith("{") else None
    named = _IN_USER.search(user)
    client = table(body.get("client_metadata", b"")) or {}
    found = (
        _text(told or {}, "session_id"),
        named[1] if named else "",
        _text(client, "session_id"),
        _text(client, "thread_id"),
        _text(body, "prompt_cache_key"),
    )
    return next((one for one in found if one), "")


def links(body: dict[str, bytes]) -> dict[str, str]:
    """Return what Claude Code writes into the first system block: `cc_prompt_id`, `cc_prev_req`."""
    system = body.get("system", b"")
    first = first_element(system) if system[:1] == b"[" else system
    text = first if first[:1] == b'"' else (table(first) or {}).get("text", b"")
    return dict(_LINK.findall(text_of(text))) if b"cc_pr" in text else {}


def _text(members: dict[str, bytes], key: str) -> str:
    raw = members.get(key, b"")
    return real(text_of(raw)) if raw[:1] == b'"' else ""
