"""Responses of Amazon Bedrock that came as a binary stream (`application/vnd.amazon.eventstream`).

In: the bytes of a stream. Out: its events as JSON: those of `converse-stream` as they are, those of
`invoke-with-response-stream` out of their base64. Each message is four bytes of its length, four of its headers'
length, four of a checksum over these eight, the headers, the payload and four of a checksum; numbers are
big-endian. A stream that was cut gives what is whole. Source: the AWS event stream encoding.
"""

from __future__ import annotations

import base64
import binascii
import zlib
from collections.abc import Iterator

from lore.formats.contents import unescaped
from lore.model.jsonslice import table

_PRELUDE, _CHECKSUM = 12, 4


def is_framed(data: bytes) -> bool:
    """Tell whether bytes begin as such a stream does: its first checksum says so."""
    return len(data) > _PRELUDE and zlib.crc32(data[:8]) == int.from_bytes(data[8:_PRELUDE], "big")


def framed_events(data: bytes) -> Iterator[bytes]:
    """Yield the events of a stream, as far as it is whole."""
    at = 0
    while is_framed(data[at : at + _PRELUDE + 1]):
        size = int.from_bytes(data[at : at + 4], "big")
        begin = at + _PRELUDE + int.from_bytes(data[at + 4 : at + 8], "big")
        end = at + size - _CHECKSUM
        if end < begin or at + size > len(data):
            return
        yield _event(data[begin:end])
        at += size


def _event(payload: bytes) -> bytes:
    inner = (table(payload) or {}).get("bytes", b"")
    if inner[:1] != b'"':
        return payload
    try:
        return base64.b64decode(unescaped(inner), validate=True)
    except (binascii.Error, ValueError):
        return payload
