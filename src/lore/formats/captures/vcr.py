"""Read VCR cassettes, `interactions` (Python, Go) or `http_interactions` (Ruby, betamax), and httpmock's recordings.

A cassette is YAML or JSON; httpmock (Rust) writes a YAML document with `when` and `then` for each call. A body kept as
text is the wire's; one kept as `parsed_body`, as some test suites do to be readable, is written as JSON once, its keys
in their order. YAML is cut where a line begins an interaction or a document, and each is read by itself, so memory is
bounded by the longest.

Rules for YAML that a stranger wrote: one pass over libyaml's events, nothing constructed but JSON's types; `!!binary`
becomes `{"base64_string": …}`, as VCR writes it elsewhere; other tags are refused, save those of JSON's own types; an
alias counts with all that it stands for; values and nesting are bounded. Anchors are kept, because a document comes in
pieces. Types of plain scalars are PyYAML's, dates stay text.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import chain as chained
from typing import Any, ClassVar, cast

from msgspec import Struct

from lore.formats.base import Clock, Read, Yields
from lore.formats.beginning import BOM, SPACE, is_yaml_cassette
from lore.formats.bounds import too_much
from lore.formats.captures.recorders import Captures, call_in
from lore.formats.http import exchanges_of
from lore.model.canonical import encode
from lore.model.codes import Code, Problem
from lore.model.jsonslice import sliced_members
from lore.model.limits import YAML_ANCHORS, YAML_BYTES, YAML_LEVELS, YAML_TEXT_BYTES, YAML_VALUES
from lore.model.mask import cut_masked, mask

_LIST = re.compile(
    rb"^(?:http_)?interactions:[ \t]*(?:#[^\n]*)?\r?\n(?:[ \t]*(?:#[^\n]*)?\r?\n)*(?=( *)-[ \t\r\n])", re.MULTILINE
)
_MOCKS = re.compile(rb"(?:[ \t]*(?:#[^\n]*)?\r?\n|---[^\n]*\n)*+(?=when:[ \t]*\r?\n)")
_DOCUMENT = re.compile(rb"\n(?=---[ \t\r\n])")
_WORD = re.compile(rb"\s*(?:-[\w \t]*)?\s*$")  # an item that is a word is no call, and millions of them may come
_BEGINNING = 1024 * 1024  # bytes in which the list of interactions has to begin
_TOO_LONG = f"an interaction is passed over: {too_much(YAML_BYTES)}"


class YamlError(Exception):
    """YAML that is malformed or refused; says why."""


class Anchored(Struct):
    """A value that aliases name, and what it holds: values, bytes of text."""

    value: Any
    values: int
    size: int


class _Json(Captures):
    name: ClassVar[str] = "vcr"
    paths: ClassVar[tuple[str, ...]] = (".interactions", ".http_interactions")
    words: ClassVar[tuple[bytes, ...]] = (b'"request"', b"interactions")


class _Yaml(Struct):
    """A cassette in YAML."""

    pending: bytes = b""  # what is not read yet
    line: int = 1  # where `pending` begins
    byte: int = 0
    indent: int = -1  # of the list of interactions; -1 before it was met
    has_documents: bool = False  # the calls are documents, not elements of a list
    scanned: int = 0  # bytes of `pending` that hold no end of an interaction
    skipping: bool = False
    over: bool = False
    anchors: dict[str, Anchored] = {}

    def feed(self, data: bytes, *, last: bool = False) -> list[Read]:
        """Cut and read the interactions that are whole."""
        if self.over:
            return []
        self.pending += data
        if self.indent < 0 and not self._met_list(last=last):
            return []
        found: list[Read] = []
        at = 0
        ends = (
            _DOCUMENT
            if self.has_documents
            else re.compile(rb"\n(?=" + b" " * self.indent + rb"-[ \t\r\n]|[^\s#\-]|---|\.\.\.)")
        )
        pending = self.pending
        while (match := ends.search(pending, max(at, self.scanned))) is not None:
            found += self._item(pending[at : match.end()])
            at, self.scanned = match.end(), 0
            if not self.has_documents and not self._continues(pending, at):
                self.over, at = True, len(pending)
        if last and not self.over and pending[at:].strip():
            found += self._item(pending[at:])
            at = len(pending)
        self.pending = pending[at:]
        self.scanned = max(0, len(self.pending) - self.indent - 8)
        if self.skipping or len(self.pending) > YAML_BYTES:
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

    def _continues(self, pending: bytes, at: int) -> bool:
        """Return whether another interaction of the list begins at a byte."""
        return pending.startswith(b" " * self.indent + b"-", at) and not pending.startswith(b"---", at)

    def _met_list(self, *, last: bool) -> bool:
        """Find where the interactions begin, and how far their list is indented."""
        match = _MOCKS.match(self.pending)
        if match is not None:
            self.indent, self.has_documents = 0, True
            self._pass(match.end())
            return True
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
        elif len(data) > YAML_BYTES:
            found = [self._problem(Code.CAPTURE_TOO_LARGE, _TOO_LONG)]
        elif _WORD.match(data) is None:
            try:
                items: Any = load(data, self.anchors)
            except YamlError as error:
                found = [self._problem(Code.CASSETTE_REFUSED, f"an interaction cannot be read: {error}")]
            else:
                listed = cast("list[object]", items) if isinstance(items, list) else [items]
                tables: list[object] = [item for item in listed if isinstance(item, dict)]
                calls = [call_in(sliced_members(encode(item))) for item in tables]
                found = [Read(judged, line, byte) for call in calls for judged in exchanges_of(call)]
        self.line += data.count(b"\n")
        self.byte += len(data)
        return found

    def _problem(self, code: Code, message: str) -> Read:
        return Read(Problem(code, message), self.line, self.byte)


class Vcr:
    """Reader of cassettes: JSON if the first byte that is not a space is a brace, else YAML."""

    name: ClassVar[str] = "vcr"
    yields: ClassVar[Yields] = "exchanges"
    clock: ClassVar[Clock] = "end"

    @classmethod
    def recognises(cls, head: bytes) -> bool:
        return is_yaml_cassette(head) or _Json.recognises(head)

    def read(self, data: Iterable[bytes]) -> Iterator[Read]:
        """Yield the calls of a cassette."""
        pieces, begin, start = filter(None, data), b"", b""
        while (not start or begin == BOM[: len(begin)]) and (piece := next(pieces, b"")):
            begin += piece
            start = begin.removeprefix(BOM).lstrip(SPACE)[:1]
        if start == b"{":
            yield from _Json().read(chained((begin,), pieces))
        elif start:
            cassette = _Yaml()
            for piece in chained((begin,), pieces):
                yield from cassette.feed(piece)
            yield from cassette.finish()


_TAG = "tag:yaml.org,2002:"
_BINARY = _TAG + "binary"
_ALLOWED = {"!", *(_TAG + name for name in ("str", "int", "float", "bool", "null", "map", "seq", "binary"))}
_WORDS: dict[str, object] = {
    "": None, "~": None, "null": None, "true": True, "yes": True, "on": True, "false": False, "no": False, "off": False,
}  # fmt: skip
_NUMBER = re.compile(r"[-+]?(?:0|[1-9][0-9_]*)$")
_FLOAT = re.compile(r"[-+]?(?:[0-9][0-9_]*\.[0-9_]*(?:[eE][-+][0-9]+)?|\.[0-9][0-9_]*(?:[eE][-+][0-9]+)?)$")
_ODD_NUMBER = re.compile(r"[-+]?0[0-7xXbB_][0-9a-fA-F_]*$")


def load(data: bytes, anchors: dict[str, Anchored]) -> Any:
    """Read the first document; raises YamlError. Cost and memory O(bytes)."""
    import yaml  # slow to import

    try:
        events: Iterator[Any] = iter(yaml.parse(data, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader)))
        return _Builder(anchors).build(events)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        place = f" at its line {mark.line + 1}" if mark is not None else ""
        raise YamlError(f"{cut_masked(str(getattr(error, 'problem', None) or 'no YAML'), 80)}{place}") from None
    except (UnicodeDecodeError, RecursionError):
        raise YamlError("no YAML") from None


class _OpenInteraction(Struct):
    """A table or list that is being read; `key` waits for its value."""

    made: Any
    anchor: str | None
    values: int = 1
    size: int = 0
    key: str | None = None


class _Builder:
    def __init__(self, anchors: dict[str, Anchored]) -> None:
        self._anchors = anchors
        self._stack: list[_OpenInteraction] = []
        self._result: list[Any] = []
        self._left, self._room = YAML_VALUES, YAML_TEXT_BYTES

    def build(self, events: Iterator[Any]) -> Any:
        """Read until the first document's value is whole."""
        for event in events:
            match type(event).__name__:
                case "ScalarEvent":
                    self._scalar(event)
                case "AliasEvent":
                    known = self._anchors.get(event.anchor)
                    if known is None:
                        raise YamlError(f"it refers to {mask(event.anchor)[:40]!r}, which is nothing before it")
                    self._put(known.value, known.values, known.size, None)
                case "MappingStartEvent" | "SequenceStartEvent" as kind:
                    _check_tag(event.tag)
                    if len(self._stack) == YAML_LEVELS:
                        raise YamlError(f"it is nested more than {YAML_LEVELS} deep")
                    self._stack.append(_OpenInteraction({} if kind == "MappingStartEvent" else [], event.anchor))
                case "MappingEndEvent" | "SequenceEndEvent":
                    closed = self._stack.pop()
                    self._put(closed.made, closed.values, closed.size, closed.anchor, counted=True)
                case _:
                    continue
            if self._result:
                return self._result[0]
        return None

    def _scalar(self, event: Any) -> None:
        text: str = event.value
        _check_tag(event.tag)
        value: object = text
        if event.tag == _BINARY:
            value = {"base64_string": text}
        elif event.implicit[0] and event.tag is None:
            value = _plain(text)
        self._put(value, 1, len(text), event.anchor)

    def _put(self, value: Any, values: int, size: int, anchor: str | None, *, counted: bool = False) -> None:
        """Give a value to what it stands in; what was counted while it was open is not counted again."""
        self._left -= 1 if counted else values
        self._room -= 0 if counted else size
        if self._left < 0 or self._room < 0:
            raise YamlError(
                f"it holds more than {YAML_VALUES:,} values or {YAML_TEXT_BYTES // 1024 // 1024} MiB of text"
            )
        if anchor is not None:
            if len(self._anchors) == YAML_ANCHORS and anchor not in self._anchors:
                raise YamlError(f"it names more than {YAML_ANCHORS:,} values")
            self._anchors[anchor] = Anchored(value, values, size)
        if not self._stack:
            self._result = [value]
            return
        inside = self._stack[-1]
        inside.values += values
        inside.size += size
        if isinstance(inside.made, list):
            inside.made.append(value)  # pyright: ignore[reportUnknownMemberType]
        elif inside.key is None:
            if isinstance(value, dict | list):
                raise YamlError("a key that is no text")
            inside.key = value if isinstance(value, str) else encode(value).decode()
        else:
            inside.made[inside.key] = value
            inside.key = None


def _check_tag(tag: str | None) -> None:
    if tag not in (None, *_ALLOWED):
        raise YamlError(f"it asks for a value of the type {mask(tag)[:60]!r}, which lore does not make")


def _plain(text: str) -> object:
    """Return what a plain scalar means."""
    if len(text) < 6 and (text.lower() in _WORDS) and text in (text.lower(), text.upper(), text.capitalize()):
        return _WORDS[text.lower()]
    if not text or text[0] not in "0123456789+-.":
        return text
    try:
        if _NUMBER.match(text):
            return int(text.replace("_", ""))
        if _FLOAT.match(text):
            return float(text.replace("_", ""))
        if _ODD_NUMBER.match(text):
            return int(text.replace("_", ""), 8 if text.lstrip("+-0")[:1].isdigit() else 0)
    except ValueError:
        return text
    return text
