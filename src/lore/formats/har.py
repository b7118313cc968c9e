"""HAR, as browsers, mitmproxy and other proxies export it: `log.entries[]`, bodies as text or base64.

Source: the HAR 1.2 specification. `timings` are milliseconds, -1 where a phase does not apply; `ssl` is part
of `connect`. A body in `postData.text` is what was sent.
"""

from __future__ import annotations

from typing import ClassVar

import msgspec
from msgspec import Raw, Struct

from lore.formats.contents import NO_CONTENT, Content
from lore.formats.documents import Documents
from lore.formats.http import Http, headers_of, status_of
from lore.formats.times import seconds
from lore.model.canonical import decode, text_of
from lore.model.jsonslice import check_text, parts, table

_NONE = Raw(b"")


class _Text(Struct, frozen=True, gc=False):
    text: Raw = _NONE
    encoding: Raw = _NONE


class _Side(Struct, frozen=True, gc=False):
    """A request or a response."""

    method: Raw = _NONE
    url: Raw = _NONE
    status: Raw = _NONE
    headers: Raw = _NONE
    postData: _Text = _Text()  # noqa: N815 - as the format spells it
    content: _Text = _Text()


class _Entry(Struct, frozen=True, gc=False):
    request: _Side = _Side()
    response: _Side = _Side()
    startedDateTime: Raw = _NONE  # noqa: N815
    timings: Raw = _NONE


_ENTRY = msgspec.json.Decoder(_Entry)
_UNTIL_ANSWER = ("blocked", "dns", "connect", "send", "wait")


class Har(Documents):
    """Reader of HAR files."""

    name: ClassVar[str] = "har"
    paths: ClassVar[tuple[str, ...]] = (".log.entries",)
    words: ClassVar[tuple[bytes, ...]] = (b'"log"', b'"entries"')

    def call(self, data: bytes) -> Http | None:
        entry = _entry(data)
        if entry is None:
            return None
        request, response = entry.request, entry.response
        at, waited = seconds(bytes(entry.startedDateTime)), _waited(bytes(entry.timings))
        return Http(
            url=_text(request.url),
            method=_text(request.method),
            headers=headers_of(bytes(request.headers)),
            request=_content(request.postData),
            status=status_of(bytes(response.status)),
            response_headers=headers_of(bytes(response.headers)),
            response=_content(response.content),
            at=at,
            answered=None if at is None or waited is None else at + waited,
        )


def _entry(data: bytes) -> _Entry | None:
    """Slice an entry in one pass, or piece by piece where a member is of another type or oddly spelled."""
    try:
        check_text(data)
        return _ENTRY.decode(data)
    except (ValueError, RecursionError):
        members = table(data)
    if members is None:
        return None
    request, response = (_side(members.get(name, b"")) for name in ("request", "response"))
    return _Entry(request, response, Raw(members.get("startedDateTime", b"")), Raw(members.get("timings", b"")))


def _side(raw: bytes) -> _Side:
    found = {name: Raw(value) for name, value in parts(raw).items()}
    method, url, status, headers, sent, said = (found.get(name, _NONE) for name in _Side.__struct_fields__)
    return _Side(method, url, status, headers, _text_in(bytes(sent)), _text_in(bytes(said)))


def _text_in(raw: bytes) -> _Text:
    found = parts(raw)
    return _Text(Raw(found.get("text", b"")), Raw(found.get("encoding", b"")))


def _content(kept: _Text) -> Content:
    raw = bytes(kept.text)
    if raw[:1] != b'"' or raw == b'""':
        return NO_CONTENT
    return Content(raw, "base64" if bytes(kept.encoding) == b'"base64"' else "text")


def _text(raw: Raw) -> str:
    found = bytes(raw)
    return text_of(found) if found[:1] == b'"' else ""


def _waited(raw: bytes) -> float | None:
    """Return the seconds from the start of a call to the first byte of its response."""
    timings = parts(raw)
    if "wait" not in timings:
        return None
    try:
        phases = [decode(timings[key]) for key in _UNTIL_ANSWER if key in timings]
        return sum(max(float(one), 0.0) for one in phases if isinstance(one, int | float)) / 1000
    except (ValueError, RecursionError, OverflowError):
        return None
