"""A folder of `*.request.json` and `*.response.json`, as Claude Code writes with raw bodies switched on.

In: a pack in which each request stands before its response (`corpus` finds out which belong together). Out:
exchanges whose bodies are the wire's; a response without its request is a problem. A pair of another
provider is read likewise.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain as chained
from typing import ClassVar

import msgspec

from lore.formats.answers import answered
from lore.formats.base import Read
from lore.formats.chat import kept
from lore.formats.http import call_of
from lore.formats.packs import Member, PackReader, placed
from lore.model.codes import Code, Problem
from lore.model.jsonslice import table
from lore.model.turn import Exchange


class BodyPairs(PackReader):
    """Reader of folders of request and response bodies."""

    name: ClassVar[str] = "body-pairs"

    def __init__(self) -> None:
        super().__init__()
        self._asked: Read | None = None

    @property
    def _own(self) -> bytes:
        asked = self._asked
        return b"" if asked is None else msgspec.msgpack.encode((asked.value, asked.line, asked.byte, asked.file))

    @_own.setter
    def _own(self, saved: bytes) -> None:
        self._asked = Read(*msgspec.msgpack.decode(saved, type=tuple[Exchange, int, int, str])) if saved else None

    def _read(self, member: Member) -> Iterable[Read]:
        """Let go of a request whose response could not be read."""
        before = self._rest() if member.header.fault else []
        return chained(before, super()._read(member))

    def _member(self, member: Member) -> list[Exchange | Problem | Read]:
        header, data = member.header, member.data.strip()
        if header.orphan:
            return [Problem(Code.RESPONSE_WITHOUT_REQUEST, f"{header.name}: a response whose request is not recorded")]
        if self._asked is not None:
            return self._response(member, data)
        body = kept(data)
        if body is None:
            return [Problem(Code.REQUEST_NOT_JUDGED, f"{header.name}: no request body that lore knows")]
        call = call_of({}, table(body.body) or {})
        asked = placed(Exchange(body.body, "wire", header.at, call=call), member.number, member.byte, header)
        if not header.awaits:
            return [asked]
        self._asked = asked
        return []

    def _response(self, member: Member, data: bytes) -> list[Exchange | Problem | Read]:
        asked = self._rest()[0]
        if table(data) is None:
            return [asked, Problem(Code.UNREADABLE_LINE, f"{member.header.name}: a response that is no JSON object")]
        assert isinstance(asked.value, Exchange)
        return [Read(answered(asked.value, data, at=None), asked.line, asked.byte, asked.file)]

    def _rest(self) -> list[Read]:
        asked, self._asked = self._asked, None
        return [] if asked is None else [asked]
