"""VCR cassettes: `interactions` (Python) or `http_interactions` (Ruby, betamax), in YAML or JSON.

In: the bytes of a cassette. Out: exchanges, and problems with line and byte. A body kept as text is the wire; one
kept as `parsed_body`, as some test suites do to be readable, is written as JSON once, its keys in their order.
YAML is cut into interactions where lines begin one, and each is read by itself: memory is bounded by the longest.
Rules for YAML of others: see `yaml_values`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, ClassVar, cast

import msgspec
from msgspec import Struct

from lore.formats.base import Clock, Read, Yields
from lore.formats.captures import Captures, call_in
from lore.formats.documents import ElementsState
from lore.formats.http import exchanges_of
from lore.formats.lines import BOM, Line, too_much
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


class _Json(Captures):
    name: ClassVar[str] = "vcr"
    paths: ClassVar[tuple[str, ...]] = (".interactions", ".http_interactions")
    words: ClassVar[tuple[bytes, ...]] = (b'"request"', b"interactions")


class _Yaml(Struct):
    """What is remembered of a cassette in YAML: `indent` of its list (-1: not met), and where `pending` begins."""

    pending: bytes = b""
    line: int = 1
    byte: int = 0
    indent: int = -1
    scanned: int = 0
    skipping: bool = False
    over: bool = False
    anchors: dict[str, Anchored] = {}


class _State(Struct):
    json: ElementsState | None
    yaml: _Yaml | None
    begin: bytes


class Vcr:
    """Reader of cassettes; the first byte that is no space tells JSON from YAML."""

    name: ClassVar[str] = "vcr"
    yields: ClassVar[Yields] = "exchanges"
    clock: ClassVar[Clock] = "end"

    def __init__(self) -> None:
        self._json: _Json | None = None
        self._yaml: _Yaml | None = None
        self._begin = b""

    @classmethod
    def recognises(cls, head: bytes) -> bool:
        return is_yaml_cassette(head) or _Json.recognises(head)

    @classmethod
    def restore(cls, state: bytes) -> Vcr:
        saved = msgspec.msgpack.decode(state, type=_State)
        made = cls()
        made._json = None if saved.json is None else _Json(saved.json)
        made._yaml, made._begin = saved.yaml, saved.begin
        return made

    @property
    def state(self) -> bytes:
        json = None if self._json is None else self._json._elements.state  # noqa: SLF001 # pyright: ignore[reportPrivateUsage]
        return msgspec.msgpack.encode(_State(json, self._yaml, self._begin))

    def feed(self, data: bytes) -> Iterable[Read]:
        if self._json is None and self._yaml is None:
            self._begin += data
            start = self._begin.removeprefix(BOM).lstrip(b" \t\r\n")[:1]
            if not start or self._begin == BOM[: len(self._begin)]:
                return []
            data, self._begin = self._begin, b""
            if start == b"{":
                self._json = _Json()
            else:
                self._yaml = _Yaml()
        return self._json.feed(data) if self._json is not None else self._by_items(data)

    def finish(self) -> Iterable[Read]:
        if self._json is not None:
            return self._json.finish()
        if self._yaml is None:
            return []
        found = self._by_items(b"\n", last=True)
        yaml = self._yaml
        if yaml.indent < 0:
            found.append(Read(Problem(Code.UNREADABLE_LINE, "a cassette without interactions"), yaml.line, yaml.byte))
        return found

    def _by_items(self, data: bytes, *, last: bool = False) -> list[Read]:
        """Cut and read the interactions that are whole."""
        yaml = cast("_Yaml", self._yaml)
        if yaml.over:
            return []
        yaml.pending += data
        if yaml.indent < 0 and not _met_list(yaml, last=last):
            return []
        found: list[Read] = []
        at = 0
        ends = re.compile(rb"\n(?=" + b" " * yaml.indent + rb"-[ \t\r\n]|[^\s#\-]|---|\.\.\.)")
        pending = yaml.pending
        while (match := ends.search(pending, max(at, yaml.scanned))) is not None:
            self._item(pending[at : match.end()], found)
            at, yaml.scanned = match.end(), 0
            if not pending.startswith(b" " * yaml.indent + b"-", at) or pending.startswith(b"---", at):
                yaml.over, at = True, len(pending)
        if last and not yaml.over and pending[at:].strip():
            self._item(pending[at:], found)
            at = len(pending)
        yaml.pending = pending[at:]
        yaml.scanned = max(0, len(yaml.pending) - yaml.indent - 8)
        self._bound(found)
        return found

    def _bound(self, found: list[Read]) -> None:
        yaml = cast("_Yaml", self._yaml)
        if yaml.skipping or len(yaml.pending) > LONGEST:
            if not yaml.skipping:
                found.append(Read(_too_long(), yaml.line, yaml.byte))
            cut = yaml.scanned
            yaml.line += yaml.pending.count(b"\n", 0, cut)
            yaml.byte += cut
            yaml.pending, yaml.scanned, yaml.skipping = yaml.pending[cut:], 0, True

    def _item(self, data: bytes, found: list[Read]) -> None:
        """Read one interaction."""
        yaml = cast("_Yaml", self._yaml)
        line = Line(yaml.line, yaml.byte, data)
        yaml.line += data.count(b"\n")
        yaml.byte += len(data)
        if yaml.skipping:
            yaml.skipping = False
        elif len(data) > LONGEST:
            found.append(Read(_too_long(), line.number, line.byte))
        elif _WORD.match(data) is None:
            found.extend(_read(line, yaml.anchors))


def _met_list(yaml: _Yaml, *, last: bool) -> bool:
    """Find where the list of interactions begins, and how far it is indented."""
    match = _LIST.search(yaml.pending)
    if match is None:
        yaml.over = last or len(yaml.pending) > _BEGINNING
        yaml.pending = b"" if yaml.over else yaml.pending
        return False
    yaml.indent = len(match[1])
    yaml.line += yaml.pending.count(b"\n", 0, match.end())
    yaml.byte += match.end()
    yaml.pending = yaml.pending[match.end() :]
    return True


def _too_long() -> Problem:
    return Problem(Code.CAPTURE_TOO_LARGE, f"an interaction is passed over: {too_much(LONGEST)}")


def _read(line: Line, anchors: dict[str, Anchored]) -> list[Read]:
    try:
        value: Any = load(line.data, anchors)
    except YamlError as error:
        return [Read(Problem(Code.CASSETTE_REFUSED, f"an interaction cannot be read: {error}"), line.number, line.byte)]
    items = cast("list[Any]", value) if isinstance(value, list) else []
    found: list[Read] = []
    for item in items:
        if isinstance(item, dict):
            judged = exchanges_of(call_in(parts(encode(cast("object", item)))))
            found.extend(Read(one, line.number, line.byte) for one in judged)
    return found
