"""HAR, as browsers, mitmproxy and other proxies export it: `log.entries[]`, bodies as text or base64.

Source: the HAR 1.2 specification. `timings` are milliseconds, -1 where a phase does not apply; `ssl` is part
of `connect`. A body in `postData.text` is what was sent.
"""

from __future__ import annotations

from typing import ClassVar

from lore.formats.contents import content_of
from lore.formats.documents import Documents
from lore.formats.http import Http, headers_of, status_of
from lore.formats.times import seconds
from lore.model.canonical import decode, text_of
from lore.model.jsonslice import parts

_UNTIL_ANSWER = ("blocked", "dns", "connect", "send", "wait")


class Har(Documents):
    """Reader of HAR files."""

    name: ClassVar[str] = "har"
    paths: ClassVar[tuple[str, ...]] = (".log.entries",)
    words: ClassVar[tuple[bytes, ...]] = (b'"log"', b'"entries"')

    def call(self, members: dict[str, bytes]) -> Http:
        request, response = parts(members.get("request", b"")), parts(members.get("response", b""))
        at = seconds(members.get("startedDateTime", b"null"))
        waited = _waited(members.get("timings", b""))
        return Http(
            url=text_of(request.get("url", b'""')),
            method=text_of(request.get("method", b'""')),
            headers=headers_of(request.get("headers", b"")),
            request=content_of(request.get("postData", b"")),
            status=status_of(response.get("status", b"")),
            response_headers=headers_of(response.get("headers", b"")),
            response=content_of(response.get("content", b"")),
            at=at,
            answered=None if at is None or waited is None else at + waited,
        )


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
