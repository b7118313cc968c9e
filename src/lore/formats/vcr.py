"""VCR cassettes: `interactions` (Python) or `http_interactions` (Ruby, betamax), in YAML or JSON.

In: the bytes of a cassette. Out: exchanges, and problems with line and byte. A body kept as text is the wire; one
kept as `parsed_body`, as some test suites do to be readable, is written as JSON once, its keys in their order.
YAML is cut into interactions where lines begin one, and each is read by itself: memory is bounded by the longest.
Rules for YAML of others: see `yaml_values`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, ClassVar, Literal, cast

import msgspec
from msgspec import Struct

from lore.formats.base import Clock, Read, Yields
from lore.formats.captures import Captures, call_in
from lore.formats.http import exchanges_of
from lore.formats.lines import BOM, SPACE, too_much
from lore.formats.recognition import is_yaml_cassette
from lore.formats.yaml_values import Anchored, YamlError, load
from lore.model.canonical import encode
from lore.model.codes import Code, Problem
from lore.model.jsonslice import parts

LONGEST = 10 * 1024 * 1024  # YAML is decoded: one emoji makes each character cost four bytes, some of them twice
_LIST = re.compile(
    rb"^(?:http_)?interactions:[ \t]*(?:#[^\n]*)?\r?\n(?:[ \t]*(?:#[^\n]*)?\r?\n)*(?=( *)-[ \t\r\n])", re.MULTILINE
)
_WORD = re.compile(rb"\s*(?:-[\w \t]*)?\s*$")  # an item that is a word is no call, and millions of them may come
_BEGINNING = 1024 * 1024
_TOO_LONG = f"an interaction is passed over: {too_much(LONGEST)}"


class _Json(Captures):
    name: ClassVar[str] = "vcr"
    paths: ClassVar[tuple[str, ...]] = (".interactions", ".http_interactions")
    words: ClassVar[tuple[bytes, ...]] = (b'"request"', b"interactions")


class _Yaml(Struct):
    """A cassette in YAML: `indent` of its list (-1: not met), and where `pending` begins."""

    pending: bytes = b""
    line: int = 1
    byte: int = 0
    indent: int = -1
    scanned: int = 0
    skipping: bool = False
    over: bool = False
    anchors: dict[str, Anchored] = {}

    @property
    def state(self) -> bytes:
        return msgspec.msgpack.encode(self)

    def feed(self, data: bytes, *, last: bool = False) -> list[Read]:
        """Cut and read the interactions that are whole."""
        if self.over:
            return []
        self.pending += data
        if self.indent < 0 and not self._met_list(last=last):
            return []
        found: list[Read] = []
        at = 0
        ends = re.compile(rb"\n(?=" + b" " * self.indent + rb"-[ \t\r\n]|[^\s#\-]|---|\.\.\.)")
        pending = self.pending
        while (match := ends.search(pending, max(at, self.scanned))) is not None:
            found += self._item(pending[at : match.end()])
            at, self.scanned = match.end(), 0
            if not pending.startswith(b" " * self.indent + b"-", at) or pending.startswith(b"---", at):
                self.over, at = True, len(pending)
        if last and not self.over and pending[at:].strip():
            found += self._item(pending[at:])
            at = len(pending)
        self.pending = pending[at:]
        self.scanned = max(0, len(self.pending) - self.indent - 8)
        if self.skipping or len(self.pending) > LONGEST:
            if not self.skipping:
                found.append(self._problem(Code.CAPTURE_TOO_LARGE, _TOO_LONG))
            self._pass(self.scanned)
            self.scanned, self.skipping = 0, True
        return found

    def finish(self) -> list[Read]:
        found = self.feed(b"\n", last=True)
        if self.indent < 0:
            found.append(self._problem(Code.UNREADABLE_LINE, "a cassette without interactions"))
        return found

    def _met_list(self, *, last: bool) -> bool:
        """Find where the list of interactions begins, and how far it is indented."""
        match = _LIST.search(self.pending)
        if match is None:
            self.over = last or len(self.pending) > _BEGINNING
            self.pending = b"" if self.over else self.pending
            return False
        self.indent = len(match[1])
        self._pass(match.end())
        return True

    def _pass(self, end: int) -> None:
        """Drop what is behind, and count it."""
        self.line += self.pending.count(b"\n", 0, end)
        self.byte += end
        self.pending = self.pending[end:]

    def _item(self, data: bytes) -> list[Read]:
        """Read one interaction."""
        line, byte = self.line, self.byte
        found: list[Read] = []
        if self.skipping:
            self.skipping = False
        elif len(data) > LONGEST:
            found = [self._problem(Code.CAPTURE_TOO_LARGE, _TOO_LONG)]
        elif _WORD.match(data) is None:
            try:
                items: Any = load(data, self.anchors)
            except YamlError as error:
                found = [self._problem(Code.CASSETTE_REFUSED, f"an interaction cannot be read: {error}")]
            else:
                calls = [call_in(parts(encode(item))) for item in _tables(items)]
                found = [Read(judged, line, byte) for call in calls for judged in exchanges_of(call)]
        self.line += data.count(b"\n")
        self.byte += len(data)
        return found

    def _problem(self, code: Code, message: str) -> Read:
        return Read(Problem(code, message), self.line, self.byte)


def _tables(value: Any) -> list[object]:
    items = cast("list[object]", value) if isinstance(value, list) else []
    return [item for item in items if isinstance(item, dict)]


class _State(Struct):
    kind: Literal["", "json", "yaml"]
    begin: bytes
    own: bytes


class Vcr:
    """Reader of cassettes; the first byte that is no space tells JSON from YAML."""

    name: ClassVar[str] = "vcr"
    yields: ClassVar[Yields] = "exchanges"
    clock: ClassVar[Clock] = "end"

    def __init__(self) -> None:
        self._reader: _Json | _Yaml | None = None
        self._begin = b""

    @classmethod
    def recognises(cls, head: bytes) -> bool:
        return is_yaml_cassette(head) or _Json.recognises(head)

    @classmethod
    def restore(cls, state: bytes) -> Vcr:
        saved = msgspec.msgpack.decode(state, type=_State)
        made = cls()
        made._begin = saved.begin
        if saved.kind:
            made._reader = _Json(saved.own) if saved.kind == "json" else msgspec.msgpack.decode(saved.own, type=_Yaml)
        return made

    @property
    def state(self) -> bytes:
        reader = self._reader
        kind = "" if reader is None else "yaml" if isinstance(reader, _Yaml) else "json"
        return msgspec.msgpack.encode(_State(kind, self._begin, b"" if reader is None else reader.state))

    def feed(self, data: bytes) -> Iterable[Read]:
        if self._reader is None:
            self._begin += data
            start = self._begin.removeprefix(BOM).lstrip(SPACE)[:1]
            if not start or self._begin == BOM[: len(self._begin)]:
                return []
            data, self._begin = self._begin, b""
            self._reader = _Json() if start == b"{" else _Yaml()
        return self._reader.feed(data)

    def finish(self) -> Iterable[Read]:
        return [] if self._reader is None else self._reader.finish()
