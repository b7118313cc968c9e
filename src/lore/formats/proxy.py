"""Logs of recording proxies (claude-trace, vibe-proxy and their like): one `{request, response}` a line.

`request` has `url`, `headers`, `body` (parsed, or its text), `timestamp` in seconds; `response` has `body`,
`body_raw` or `events`, or is null where none came. The same in one JSON array is a document.
"""

from __future__ import annotations

from typing import ClassVar

from lore.formats.base import Read
from lore.formats.documents import Documents
from lore.formats.http import exchanges_of
from lore.formats.line_reader import LineReader, problem
from lore.formats.lines import Line, each, is_crowded, too_many
from lore.formats.pairs import call_at, is_pair
from lore.model.codes import Code
from lore.model.jsonslice import table

_LOOKED_AT = 64  # lines of a beginning: what a proxy notes besides its calls


class Proxy(LineReader):
    """Reader of such logs, line by line."""

    name: ClassVar[str] = "proxy"

    @classmethod
    def recognises(cls, head: bytes) -> bool:
        for number, line in enumerate(each(head)):
            if number == _LOOKED_AT:
                break
            if b'"request"' in line and is_pair(table(line) or {}):
                return True
        return False

    def _record(self, line: Line) -> list[Read] | None:
        if is_crowded(line.data):
            return [problem(Code.CAPTURE_TOO_LARGE, f"a call is passed over: {too_many()}", line)]
        call = call_at(line.data)
        return None if call is None else [Read(one, line.number, line.byte) for one in exchanges_of(call)]


class ProxyList(Documents):
    """Reader of the same records in one array."""

    name: ClassVar[str] = "proxy-list"
    paths: ClassVar[tuple[str, ...]] = ("",)
    words: ClassVar[tuple[bytes, ...]] = (b'"request"', b'"response"', b'"headers"')
