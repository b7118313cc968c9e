"""Logs of recording proxies (claude-trace, vibe-proxy and their like): one `{request, response}` a line.

`request` has `url`, `headers`, `body` (parsed, or its text), `timestamp` in seconds; `response` has `body`,
`body_raw` or `events`, or is null where none came. The same in one JSON array is a document.
"""

from __future__ import annotations

from typing import ClassVar

import msgspec
from msgspec import Struct

from lore.formats.base import Clock, Read, Yields
from lore.formats.documents import Documents
from lore.formats.http import exchanges_of
from lore.formats.lines import Line, Lines, each, fault, is_crowded, split_joined, too_long, too_many
from lore.formats.pairs import call_at, is_pair
from lore.model.codes import Code
from lore.model.jsonslice import table
from lore.model.problems import Problem

_LOOKED_AT = 64  # lines of a beginning: what a proxy notes besides its calls


class _State(Struct, frozen=True):
    number: int
    byte: int
    pending: bytes
    skipping: bool


class Proxy:
    """Reader of such logs, line by line."""

    name: ClassVar[str] = "proxy"
    yields: ClassVar[Yields] = "exchanges"
    clock: ClassVar[Clock] = "end"

    def __init__(self) -> None:
        self._lines = Lines()

    @classmethod
    def recognises(cls, head: bytes) -> bool:
        for number, line in enumerate(each(head)):
            if number == _LOOKED_AT:
                break
            if b'"request"' in line and is_pair(table(line) or {}):
                return True
        return False

    @classmethod
    def restore(cls, state: bytes) -> Proxy:
        saved = msgspec.msgpack.decode(state, type=_State)
        made = cls()
        made._lines = Lines(number=saved.number, byte=saved.byte, pending=saved.pending, skipping=saved.skipping)
        return made

    @property
    def state(self) -> bytes:
        lines = self._lines
        return msgspec.msgpack.encode(_State(lines.number, lines.byte, lines.pending, lines.skipping))

    def feed(self, data: bytes) -> list[Read]:
        return [read for line in self._lines.feed(data) for read in _read(line)]

    def finish(self) -> list[Read]:
        return [read for line in self._lines.finish() for read in _read(line, torn=True)]


class ProxyList(Documents):
    """Reader of the same records in one array."""

    name: ClassVar[str] = "proxy-list"
    paths: ClassVar[tuple[str, ...]] = ("",)
    words: ClassVar[tuple[bytes, ...]] = (b'"request"', b'"response"', b'"headers"')


def _read(line: Line, *, torn: bool = False) -> list[Read]:
    if not line.data:
        return [_problem(Code.LINE_TOO_LONG, f"line passed over: {too_long()}", line)]
    if is_crowded(line.data):
        return [_problem(Code.CAPTURE_TOO_LARGE, f"a call is passed over: {too_many()}", line)]
    call = call_at(line.data)
    if call is not None:
        return [Read(one, line.number, line.byte) for one in exchanges_of(call)]
    joined = split_joined(line.data)
    if joined is None:
        reason = fault(line.data)
        return [_problem(Code.TORN_LAST_LINE if torn else Code.UNREADABLE_LINE, f"unreadable line: {reason}", line)]
    found = [_problem(Code.JOINED_LINES, f"{len(joined)} records on one line; all were read", line)]
    for piece in joined:
        found.extend(_read(Line(line.number, line.byte, piece)))
    return found


def _problem(code: str, message: str, line: Line) -> Read:
    return Read(Problem(code, message, line=line.number, byte=line.byte), line.number, line.byte)
