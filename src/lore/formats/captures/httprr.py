"""Read httprr traces, which Go programs record: after a line with their lengths, each request and response as sent.

Source: the package httprr of golang.org/x/tools, which langchaingo copied.
"""

from __future__ import annotations

import binascii
from collections.abc import Iterable, Iterator
from typing import ClassVar

from lore.formats.base import Read, Yields
from lore.formats.contents import Content, content_of
from lore.formats.documents import Line
from lore.formats.http import Http, exchanges_of, status_of
from lore.formats.lines import placed, problem, too_much
from lore.model.canonical import encode
from lore.model.codes import Code
from lore.model.deferred import pattern
from lore.model.limits import ENTRY_BYTES

_FIRST_LINE = b"httprr trace v1"
_LENGTHS = pattern(rb"(?:httprr trace v1)?\s*(\d{1,10}) (\d{1,10})\r?\n")
_END_OF_HEADERS = pattern(rb"\r?\n\r?\n")
_CHUNK = pattern(rb"([0-9A-Fa-f]{1,8})[^\n]{0,64}\n")
_LONGEST_LINE = 64  # bytes of a line of lengths


class Httprr:
    """Reader of httprr traces; memory is bounded by the longest call."""

    name: ClassVar[str] = "httprr"
    yields: ClassVar[Yields] = "exchanges"
    clock: ClassVar = "end"

    @classmethod
    def recognises(cls, head: bytes) -> bool:
        return head.startswith(_FIRST_LINE)

    def read(self, data: Iterable[bytes]) -> Iterator[Read]:
        pieces, pending, place = iter(data), b"", Line(1, 0, b"")
        needed, request, response = 0, 0, 0  # bytes of the call that was begun, and of its sides
        while True:
            while len(pending) < needed + _LONGEST_LINE and (piece := next(pieces, None)) is not None:
                pending += piece
            if needed:
                values = exchanges_of(_call_in(pending[:request], pending[request:needed]))
                yield from (placed(value, place) for value in values)
            if len(pending) < needed:
                yield problem(Code.TORN_LAST_LINE, "the trace ends inside a call", place)
            lengths = _LENGTHS.match(pending, needed)
            if lengths is None:
                if pending[needed:].strip():
                    yield problem(Code.UNREADABLE_LINE, "what follows is no call, so the rest is passed over", place)
                return
            place = Line(place.number + pending.count(b"\n", 0, lengths.end()), place.byte + lengths.end(), b"")
            request, response = int(lengths[1]), int(lengths[2])
            needed, pending = request + response, pending[lengths.end() :]
            if needed > ENTRY_BYTES:
                yield problem(Code.CAPTURE_TOO_LARGE, f"a call is passed over: {too_much(ENTRY_BYTES)}", place)
                return


def _call_in(request: bytes, response: bytes) -> Http:
    (start, headers, body), (status, response_headers, answer) = _parts_of(request), _parts_of(response)
    method, _, address = start.partition(" ")
    return Http(
        url=address.rpartition(" ")[0], method=method, headers=headers, request=body,
        status=status_of(encode(status.partition(" ")[2])), response_headers=response_headers, response=answer,
    )  # fmt: skip


def _parts_of(message: bytes) -> tuple[str, dict[str, str], Content]:
    """Return the first line, the headers and the body of an HTTP message."""
    end = _END_OF_HEADERS.search(message)
    first, *lines = message[: end.start() if end else None].decode("utf-8", "replace").splitlines() or [""]
    pairs = (line.partition(":") for line in lines)
    headers = {name.strip().lower(): value.strip() for name, _, value in pairs}
    body = message[end.end() :] if end else b""
    if "chunked" in headers.get("transfer-encoding", "") and _CHUNK.match(body) is not None:
        body = _join_chunks(body)
    try:
        return first, headers, content_of(encode(body.decode()))
    except UnicodeDecodeError:
        return first, headers, Content(encode(binascii.b2a_base64(body, newline=False).decode()), "base64")


def _join_chunks(body: bytes) -> bytes:
    chunks, at = list[bytes](), 0
    while (chunk := _CHUNK.match(body, at)) is not None and (size := int(chunk[1], 16)):
        chunks.append(body[chunk.end() : chunk.end() + size])
        at = chunk.end() + size + len(b"\r\n")
    return b"".join(chunks)
