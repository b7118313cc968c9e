"""Read VCR cassettes, `interactions` (Python, Go) or `http_interactions` (Ruby, betamax), and httpmock's recordings.

A cassette is YAML or JSON; httpmock (Rust) writes a YAML document with `when` and `then` for each call. A body recorded
as text is the wire's; a `parsed_body`, as test suites write it to be readable, is encoded as JSON with its keys in
their order. YAML is cut where a line begins an interaction or a document, and each is read by itself, so memory is
bounded by the longest.

YAML may come from a stranger. It is read in one pass over libyaml's events, and only JSON's types are made of it:
`!!binary` becomes `{"base64_string": …}`, as VCR writes it elsewhere, and other tags are refused. An alias counts with
everything that it repeats; the number of values and their nesting are bounded. Plain scalars have PyYAML's types; only
dates remain text.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any, ClassVar, cast

from msgspec import Struct

from lore.formats.base import Clock, Read, Yields
from lore.formats.beginning import is_yaml_cassette, peek
from lore.formats.captures.layouts import Record, call_in
from lore.formats.captures.recorders import Documents
from lore.formats.http import exchanges_of
from lore.formats.lines import Line, placed, problem, too_much
from lore.model.canonical import encode
from lore.model.codes import Code
from lore.model.jsonslice import sliced_members
from lore.model.limits import YAML_ANCHORS, YAML_BYTES, YAML_LEVELS, YAML_TEXT_BYTES, YAML_VALUES
from lore.model.mask import cut_masked, mask

_LIST = re.compile(
    rb"^(?:http_)?interactions:[ \t]*(?:#[^\n]*)?\r?\n(?:[ \t]*(?:#[^\n]*)?\r?\n)*(?=( *)-[ \t\r\n])", re.MULTILINE
)
_MOCKS = re.compile(rb"(?:[ \t]*(?:#[^\n]*)?\r?\n|---[^\n]*\n)*+(?=when:[ \t]*\r?\n)")
_DOCUMENT = re.compile(rb"\n(?=---[ \t\r\n])")
_WORD = re.compile(rb"\s*(?:-[\w \t]*)?\s*$")  # an item that is a word is not a call; there may be millions of them
_BEGINNING = 1024 * 1024  # bytes in which the list of interactions has to begin


class YamlError(Exception):
    """YAML is malformed or refused, for the reason in the message."""


class Anchored(Struct):
    """A value that aliases repeat."""

    value: Any
    values: int  # that it holds
    size: int  # bytes of its text


class _Json(Documents):
    name: ClassVar[str] = "vcr"
    paths: ClassVar[tuple[str, ...]] = (".interactions", ".http_interactions")
    words: ClassVar[tuple[bytes, ...]] = (b'"request"', b"interactions")


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
        start, pieces = peek(data)
        if start == b"{":
            yield from _Json().read(pieces)
        elif start:
            anchors: dict[str, Anchored] = {}  # of the whole file, which is read in parts
            for line in _cut_interactions(pieces):
                yield from _read_interaction(line, anchors)


def _cut_interactions(pieces: Iterator[bytes]) -> Iterator[Line]:
    """Yield the interactions of a cassette in YAML; one that is too long, and a cassette without any, have no bytes."""
    pending, begin, is_mock = b"", None, False
    for piece in pieces:
        pending += piece
        is_mock = (begin := _MOCKS.match(pending)) is not None
        begin = begin or _LIST.search(pending)
        if begin is not None or len(pending) > _BEGINNING:
            break
    if begin is None:
        yield Line(0, 0, b"")
        return
    indent = b"" if is_mock else begin[1]
    ends = _DOCUMENT if is_mock else re.compile(rb"\n(?=" + indent + rb"-[ \t\r\n]|[^\s#\-]|---|\.\.\.)")
    at = scanned = begin.end()
    line, byte, is_skipping = 1 + pending.count(b"\n", 0, at), at, False
    while True:
        found = ends.search(pending, scanned)
        if found is None:
            piece = next(pieces, b"")
            pending, at = pending[at:] + piece, 0
            scanned = max(0, len(pending) - len(piece) - len(indent) - 8)
            if not piece:
                if pending.strip() and not is_skipping:
                    yield Line(line, byte, pending)
                return
            if is_skipping or len(pending) > YAML_BYTES:
                if not is_skipping:
                    yield Line(line, byte, b"")
                line, byte, is_skipping = line + pending.count(b"\n", 0, scanned), byte + scanned, True
                pending, scanned = pending[scanned:], 0
            continue
        end = found.end()
        if not is_skipping:
            yield Line(line, byte, pending[at:end])
        line, byte, is_skipping = line + pending.count(b"\n", at, end), byte + end - at, False
        at = scanned = end
        if not is_mock and (pending.startswith(b"---", at) or not pending.startswith(indent + b"-", at)):
            return  # what follows is not part of the list


def _read_interaction(line: Line, anchors: dict[str, Anchored]) -> Iterator[Read]:
    if not line.number:
        yield problem(Code.UNREADABLE_LINE, "a cassette without interactions", Line(1, 0, b""))
    elif not 0 < len(line.data) <= YAML_BYTES:
        yield problem(Code.CAPTURE_TOO_LARGE, f"an interaction is passed over: {too_much(YAML_BYTES)}", line)
    elif _WORD.match(line.data) is None:
        try:
            items: Any = load(line.data, anchors)
        except YamlError as error:
            yield problem(Code.CASSETTE_REFUSED, f"an interaction cannot be read: {error}", line)
            return
        listed = cast("list[object]", items) if isinstance(items, list) else [items]
        calls: list[dict[str, Any]] = [item for item in listed if isinstance(item, dict)]
        for call in calls:
            request = call.get("request")
            if isinstance(request, dict) and "response" not in call and not request.keys() & {"uri", "url"}:
                yield problem(Code.TORN_LAST_LINE, "the cassette ends inside a request", line)
                continue
            for value in exchanges_of(call_in(Record(sliced_members(encode(call))))):
                yield placed(value, line)


_TAG = "tag:yaml.org,2002:"
_BINARY = _TAG + "binary"
_ALLOWED = {"!", *(_TAG + name for name in ("str", "int", "float", "bool", "null", "map", "seq", "binary"))}
_PLAIN = {_TAG + name for name in ("int", "float", "bool", "null")}


def load(data: bytes, anchors: dict[str, Anchored]) -> Any:
    """Return the first document, in time and memory proportional to its bytes; raises YamlError."""
    import yaml  # slow to import

    try:
        events: Iterator[Any] = iter(yaml.parse(data, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader)))
        return _Builder(anchors, yaml.SafeLoader(b""), yaml.ScalarNode).build(events)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        place = f" at its line {mark.line + 1}" if mark is not None else ""
        raise YamlError(f"{cut_masked(str(getattr(error, 'problem', None) or 'no YAML'), 80)}{place}") from None
    except (UnicodeDecodeError, RecursionError):
        raise YamlError("no YAML") from None


class _OpenInteraction(Struct):
    """A mapping or list that is being read."""

    made: Any
    anchor: str | None
    values: int = 1
    size: int = 0
    key: str | None = None  # waits for its value


class _Builder:
    def __init__(self, anchors: dict[str, Anchored], loader: Any, scalar: Any) -> None:
        self._anchors, self._loader, self._node = anchors, loader, scalar
        self._stack: list[_OpenInteraction] = []
        self._result: list[Any] = []
        self._left, self._room = YAML_VALUES, YAML_TEXT_BYTES

    def build(self, events: Iterator[Any]) -> Any:
        """Return the value of the first document."""
        for event in events:
            match type(event).__name__:
                case "ScalarEvent":
                    self._scalar(event)
                case "AliasEvent":
                    known = self._anchors.get(event.anchor)
                    if known is None:
                        raise YamlError(f"it refers to {mask(event.anchor)[:40]!r}, which is not defined before")
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
            value = self._plain(text)
        self._put(value, 1, len(text), event.anchor)

    def _plain(self, text: str) -> object:
        """Return what a plain scalar means; dates, times, infinity and numbers that are too long remain text."""
        tag: str = self._loader.resolve(self._node, text, (True, False))
        if tag not in _PLAIN or ":" in text or text.lower().endswith(("inf", "nan")):
            return text
        try:
            return self._loader.construct_object(self._node(tag, text))
        except ValueError:
            return text

    def _put(self, value: Any, values: int, size: int, anchor: str | None, *, counted: bool = False) -> None:
        """Put a value into the mapping or list around it; `counted` if its parts were counted while it was open."""
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
                raise YamlError("a key that is not text")
            inside.key = value if isinstance(value, str) else encode(value).decode()
        else:
            inside.made[inside.key] = value
            inside.key = None


def _check_tag(tag: str | None) -> None:
    if tag not in (None, *_ALLOWED):
        raise YamlError(f"it asks for a value of the type {mask(tag)[:60]!r}, which lore does not make")
