"""Read HTTP calls as proxies, cassettes, browsers and exports record them, by the table of paths in `layouts.py`.

A recorder that writes a document, not lines, gets a class of one line: its name, where its list is, and which words
the beginning of its files must hold.
"""

from __future__ import annotations

import binascii
from collections.abc import Sequence
from itertools import islice
from typing import ClassVar

from lore.formats.base import Read
from lore.formats.beginning import BOM, SPACE, array_at, members_of
from lore.formats.captures.layouts import COMMON, NOCK, Record, call_in
from lore.formats.contents import build_array
from lore.formats.http import Http, Judged, exchanges_of
from lore.formats.lines import Line, RecordReader, nonblank_lines, problem, too_much
from lore.formats.values import text_in
from lore.model.canonical import encode, text_of
from lore.model.codes import Code
from lore.model.deferred import pattern
from lore.model.jsonslice import array, raw_members
from lore.model.limits import ENTRY_BYTES

_NAMES = {path.rpartition(".")[2] for paths in (COMMON.url, COMMON.request) for path in paths}
_NAMED = pattern(b'"(?:%s)"|\\\\u' % "|".join(sorted(_NAMES)).encode())  # or an escaped key
_SMALL = 1024  # bytes of a record that is searched for these names before it is parsed: there may be a million
_LOOKED_AT = 64  # lines at a file's beginning: a proxy may write other records before its first call


class CallReader(RecordReader):
    """A reader of records that are calls."""

    def _values(self, members: dict[str, bytes], line: Line) -> list[Judged]:
        is_small = len(line.data) < _SMALL and _NAMED.search(line.data) is None  # surely no call
        return [] if is_small else exchanges_of(self.call(members))

    def call(self, members: dict[str, bytes]) -> Http:
        return call_in(Record(members))


class Documents(CallReader):
    """A reader of documents that list calls; a format names `paths` and the words that its beginning must hold."""

    name: ClassVar[str]
    reads_arrays: ClassVar[bool] = False
    words: ClassVar[tuple[bytes, ...]]
    longest: ClassVar[int] = ENTRY_BYTES

    @classmethod
    def recognises(cls, head: bytes) -> bool:
        if not all(word in head for word in cls.words):
            return False
        begin = head.removeprefix(BOM).lstrip(SPACE)
        return (begin[:1] == b"{" and array_at(head, cls.paths) >= 0) or (begin[:1] == b"[" and "" in cls.paths)

    def _unreadable(self, line: Line, reason: str = "") -> Sequence[Read]:
        if line.data:
            return super()._unreadable(line, reason)
        return (problem(Code.CAPTURE_TOO_LARGE, f"an entry is passed over: {too_much(self.longest)}", line),)


class Cassette(Documents):
    """Reader of JSON cassettes whose bodies are objects with a `kind` (json, text, binary, sse), and of Azure's.

    A binary body may be in a file next to the cassette, which a reader cannot open: such a request is a problem.
    """

    name, paths, words = "cassette", (".entries", ".Entries"), (b'ntries"', b"equest")


class ClaudeTap(Documents):
    """Reader of claude-tap's exports: bodies parsed, streams reassembled.

    A packet of method WEBSOCKET is one frame that asks for a response, with this response; its body names the response
    that it continues.
    """

    name, paths, words = "claude-tap", (".packets",), (b'"packets"', b'"method"', b'"request"')


class Har(Documents):
    """Reader of HAR, as browsers, mitmproxy and PollyJS write it."""

    name, paths, words = "har", (".log.entries",), (b'"log"', b'"entries"')


class ProxyList(Documents):
    """Reader of an array of calls: what a proxy logged, or nock recorded."""

    name, paths, words = "proxy-list", ("",), (b'"response"',)

    @classmethod
    def recognises(cls, head: bytes) -> bool:
        names = members_of(head.removeprefix(BOM).lstrip(SPACE)[1:])
        is_call = names.keys() >= {"scope", "method"} or (b'"headers"' in head and "request" in names)
        return is_call and super().recognises(head)

    def call(self, members: dict[str, bytes]) -> Http:
        if "scope" not in members:
            return super().call(members)
        # nock writes headers as a flat list, a compressed response as hex strings, and the host apart from the path
        url = encode(text_in(members["scope"]) + text_in(members.get("path", b"")))
        headers, response = members.get("rawHeaders", b""), members.get("response", b"")
        flat = array(headers) if headers[:1] == b"[" else []
        if flat and all(element[:1] == b'"' for element in flat):
            headers = build_array(build_array(pair) for pair in zip(flat[::2], flat[1::2], strict=False))
        pieces = array(response) if response[:2] == b'["' else []
        try:
            binary = b"".join(bytes.fromhex(text_of(piece)) for piece in pieces)
        except ValueError:
            binary = b""
        if binary:
            response = b'{"base64_string":' + encode(binascii.b2a_base64(binary, newline=False).decode()) + b"}"
        return call_in(Record({**members, "path": url, "rawHeaders": headers, "response": response}), NOCK)


class ProxyLines(CallReader):
    """Reader of logs of recording proxies, a call a line."""

    name: ClassVar[str] = "proxy"

    @classmethod
    def recognises(cls, head: bytes) -> bool:
        for line in islice(nonblank_lines(head), _LOOKED_AT):
            members = raw_members(line) or {}
            record = Record(members)
            has_response = not members.keys().isdisjoint(("response", "res", "resp", "reqBody", "requestBody"))
            if has_response and record.text(COMMON.url) and any(map(record.at, COMMON.request)):
                return True
        return False
