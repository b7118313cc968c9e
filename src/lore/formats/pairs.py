"""One object with a request and its response, as proxies, cassettes and exports write it, to an HTTP call.

In: the object's members. Out: `Http`. They agree on `request` and `response` and differ in the names of what is
inside; each name here is one that a real recorder writes. What stands beside the two counts where they say nothing.
"""

from __future__ import annotations

import msgspec
from msgspec import Raw, Struct

from lore.formats.contents import NO_CONTENT, Content, content_of
from lore.formats.http import Http, headers_of, status_of
from lore.formats.times import seconds
from lore.model.canonical import text_of
from lore.model.jsonslice import check_text, parts, table

_URL = ("url", "uri", "path")
_BODY = ("body", "parsed_body", "body_raw", "rawBody", "postData")
_ANSWER = ("body", "parsed_body", "body_raw", "rawBody", "events", "content")
_STATUS = ("status", "status_code", "statusCode", "http_status", "code")
_BEFORE_END = 0.05  # a response that was stamped when it was written down began some time before, unknown


class _Pair(Struct, frozen=True, gc=False):
    """What is read of an object, in one pass; a member of another type sends it through `parts`."""

    request: dict[str, Raw] = {}
    response: dict[str, Raw] | None = None
    url: Raw = Raw(b"")
    uri: Raw = Raw(b"")
    path: Raw = Raw(b"")
    method: Raw = Raw(b"")
    headers: Raw = Raw(b"")
    status: Raw = Raw(b"")
    status_code: Raw = Raw(b"")
    http_status: Raw = Raw(b"")
    statusCode: Raw = Raw(b"")  # noqa: N815
    timestamp: Raw = Raw(b"")
    recordedAt: Raw = Raw(b"")  # noqa: N815 - as recorders spell it
    recorded_at: Raw = Raw(b"")
    logged_at: Raw = Raw(b"")


_PAIR = msgspec.json.Decoder(_Pair)
_BESIDE = tuple(name for name in _Pair.__struct_fields__ if name not in ("request", "response"))


def call_at(data: bytes) -> Http | None:
    """Read the text of an object; None where it is none."""
    try:
        pair = _PAIR.decode(data)
        check_text(data)
    except (ValueError, RecursionError):
        members = table(data)
        return None if members is None else call_in(members)
    members = {name: raw for name in _BESIDE if (raw := bytes(getattr(pair, name)))}
    return _call(members, _bytes(pair.request), _bytes(pair.response or {}))


def _bytes(side: dict[str, Raw]) -> dict[str, bytes]:
    return {key: bytes(raw) for key, raw in side.items()}


def call_in(members: dict[str, bytes]) -> Http:
    """Read an object that is sliced already; what is missing or of another type is unknown."""
    return _call(members, parts(members.get("request", b"")), parts(members.get("response", b"")))


def _call(members: dict[str, bytes], request: dict[str, bytes], response: dict[str, bytes]) -> Http:
    at, answered = _times(members, request, response)
    return Http(
        url=_text(_URL, request, members),
        method=_text(("method",), request, members),
        headers=headers_of(request.get("headers", members.get("headers", b""))),
        request=_content(request, _BODY),
        status=next((found for key in _STATUS for one in (response, members)
                     if (found := status_of(one.get(key, b""))) is not None), None),
        response_headers=headers_of(response.get("headers", b"")),
        response=_content(response, _ANSWER),
        at=at,
        answered=answered,
    )  # fmt: skip


def is_pair(members: dict[str, bytes]) -> bool:
    """Tell an object that holds a call: a request with a body and where it went, and room for a response."""
    request = parts(members.get("request", b""))
    located = any(one.get(key, b"")[:1] == b'"' for one in (request, members) for key in _URL)
    return located and "response" in members and any(key in request for key in _BODY)


def _times(
    members: dict[str, bytes], request: dict[str, bytes], response: dict[str, bytes]
) -> tuple[float | None, float | None]:
    at = next(
        (found for one, key in ((request, "timestamp"), (members, "timestamp"), (members, "recordedAt"),
                                (members, "recorded_at")) if (found := seconds(one.get(key, b"null"))) is not None),
        None,
    )  # fmt: skip
    answered, logged = seconds(response.get("timestamp", b"null")), seconds(members.get("logged_at", b"null"))
    if answered is not None and (logged is None or answered > logged - _BEFORE_END):
        answered = None
    return at, answered


def _content(side: dict[str, bytes], names: tuple[str, ...]) -> Content:
    """Take the first content there is; a parsed stream (`events`) only where nothing says it whole."""
    for name in names:
        if (raw := side.get(name, b"null")) != b"null":
            content = Content(raw, "events") if name == "events" else content_of(raw)
            if content is not NO_CONTENT and content.form != "nothing":
                return content
    return NO_CONTENT


def _text(names: tuple[str, ...], *sides: dict[str, bytes]) -> str:
    return next((text_of(raw) for one in sides for name in names if (raw := one.get(name, b""))[:1] == b'"'), "")
