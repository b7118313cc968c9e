"""From one recorded HTTP call to an exchange.

In: method, URL, headers, request and response as a recorder kept them. Out: an exchange where the call asked
a model, nothing where it did not, a problem where it did and its body is not there. Rules: a body is read,
never a URL alone; a response that cannot be read leaves its request judged, and is counted.
"""

from __future__ import annotations

import re
from typing import Any, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from lore.formats.answers import NOTHING, Answer, answer_of
from lore.formats.contents import NO_CONTENT, Content, ContentError, events_in, opened
from lore.formats.frames import framed_events, is_framed
from lore.formats.identity import Headers, call_of, endpoint_of
from lore.formats.lines import is_crowded, too_many
from lore.formats.requests import is_body
from lore.formats.streams import answer_of_events, answer_of_stream, is_stream
from lore.formats.times import http_seconds
from lore.model.canonical import decode, text_of
from lore.model.codes import Code, Problem
from lore.model.exchange import Exchange, Streamed
from lore.model.jsonslice import Sliced, parts, table

Judged: TypeAlias = Exchange | Problem

_ASKING = ("POST", "WEBSOCKET", "")
# Where models answer, and where their answer is only counted; the ends of paths, of all providers and gateways.
_ENDPOINT = re.compile(
    r"/(?:messages|chat/completions|responses|converse(?:-stream)?|invoke(?:-with-response-stream)?"
    r"|messages/count_tokens|responses/input_tokens)/?$"
    r"|:(?:generateContent|streamGenerateContent|countTokens|rawPredict|streamRawPredict)$"
)
_OTHER = re.compile(r"/(?:cachedContents|embeddings|moderations|files|batches|audio/\w+|images/\w+)/?$")


class Http(Struct, frozen=True):
    """One call; `at` and `answered` as an exchange has them, headers None where none were recorded."""

    url: str = ""
    method: str = ""
    headers: Headers = {}
    request: Content = NO_CONTENT
    status: int | None = None
    response_headers: Headers = {}
    response: Content = NO_CONTENT
    at: float | None = None
    answered: float | None = None


def exchanges_of(http: Http) -> list[Judged]:
    """Read a call: at most one exchange, with a problem where something of it could not be read."""
    if http.method.upper() not in _ASKING:
        return []
    endpoint = endpoint_of(http.url, http.headers)
    sent = _ENDPOINT.search(endpoint) is not None
    if not sent and _OTHER.search(endpoint):
        return []
    try:
        body = opened(http.request, http.headers.get("content-encoding", ""))
    except ContentError as error:
        return [_unread(http, endpoint, str(error), large=error.large)] if sent else []
    if is_crowded(body):
        return [_unread(http, endpoint, too_many(), large=True)] if sent else []
    members = http.request.members or parts(body)
    if not is_body(members, sent=sent):
        return [_unread(http, endpoint, "it was not recorded" if not body else "it is no request")] if sent else []
    found: list[Judged] = []
    answer = NOTHING
    try:
        answer = _answer(http)
    except ContentError as error:
        found.append(Problem(Code.UNDECODABLE_RESPONSE, f"the response of {endpoint} cannot be read: {error}"))
    began = http_seconds(http.response_headers.get("date", "")) or answer.created  # to the second
    call = call_of(http.headers, members, endpoint=endpoint, status=http.status)
    exchange = Exchange(
        Sliced.of(body, members), http.request.fidelity, began if http.at is None else http.at, answer.usage,
        answer.verdict, began if http.at is None else http.answered, answer.response_id, answer.output, call,
    )  # fmt: skip
    return [exchange, *found]


def _unread(http: Http, endpoint: str, reason: str, *, large: bool = False) -> Problem:
    kept = http.request.form not in ("elsewhere", "nothing")
    code = Code.CAPTURE_TOO_LARGE if large else Code.UNDECODABLE_REQUEST if kept else Code.REQUEST_NOT_KEPT
    return Problem(code, f"the body of a request to {endpoint} cannot be read: {reason}")


def _answer(http: Http) -> Answer:
    """Read the response in whatever form it was kept."""
    content = http.response
    if content.form == "events":
        events, text = events_in(content.raw)
        return _streamed(answer_of_events(events) if events else answer_of_stream(text), content)
    encoding = http.response_headers.get("content-encoding", "")
    body = opened(content, encoding, binary=is_framed)
    if is_framed(body):
        return _streamed(answer_of_events(framed_events(body)), content, encoding)
    if content.form != "json" and is_stream(body):
        return _streamed(answer_of_stream(body), content, encoding)
    found = answer_of(body)
    return found if isinstance(found.output, bytes) else _streamed(found, content, encoding)


def _streamed(answer: Answer, content: Content, encoding: str = "") -> Answer:
    """Keep a stream as it was recorded: what is compressed there stays so."""
    return replace(answer, output=Streamed(content.raw, content.form, encoding))


def headers_of(raw: bytes) -> Headers:
    """Read headers in any of the ways in which they are kept; names in lower case, of many values the first."""
    if raw[:1] not in (b"{", b"["):
        return {}
    try:
        found: Any = decode(raw)
    except (ValueError, RecursionError):
        return {}
    pairs: list[tuple[Any, Any]] = []
    if isinstance(found, dict):
        pairs = list(found.items())  # pyright: ignore[reportUnknownArgumentType]
    else:
        for one in found:
            if isinstance(one, dict):
                pairs.append((one.get("name"), one.get("value")))  # pyright: ignore[reportUnknownArgumentType, reportUnknownMemberType]
            elif isinstance(one, list) and len(one) == 2:  # pyright: ignore[reportUnknownArgumentType]
                pairs.append((one[0], one[1]))  # pyright: ignore[reportUnknownArgumentType]
    return {name.lower(): text for name, value in pairs if isinstance(name, str) and (text := _header(value))}


def _header(value: Any) -> str:
    if isinstance(value, list):
        value = value[0] if value else ""  # pyright: ignore[reportUnknownVariableType]
    return value if isinstance(value, str) else ""


def status_of(raw: bytes) -> int | None:
    """Read a status: a number, its text (`200 OK`), or VCR's `{"code": …}`."""
    if raw[:1] == b"{":
        raw = (table(raw) or {}).get("code", b"")
    text = text_of(raw)[:64].partition(" ")[0] if raw[:1] == b'"' else raw[:64].decode("ascii", "replace")
    return int(text) if text.isascii() and text.isdigit() and 0 < len(text) < 4 else None
