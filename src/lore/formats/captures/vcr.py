"""Read VCR cassettes, `interactions` (Python, Go), `http_interactions` (Ruby, betamax) or lists (PHP), and httpmock's.

A cassette is YAML or JSON; for each call httpmock (Rust) writes a YAML document with `when` and `then`, surf-vcr (Rust)
a list of both sides, WireMock (Java) a mapping; LangChain lists all requests, then all responses. A body recorded as
text is the wire's; a `parsed_body`, which is readable, is encoded as JSON with its keys in their order. YAML is cut
where a line begins an interaction or a document, and each is read by itself, so memory is bounded by the longest.

YAML may come from a stranger. It is read in one pass over libyaml's events, and only JSON's types are made of it:
`!!binary` (Ruby writes `!binary`) becomes `{"base64_string": …}`, as VCR writes it elsewhere, and other tags are
refused. An alias counts with everything that it repeats; the number of values and their nesting are bounded. Plain
scalars have PyYAML's types; only dates remain text.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import chain as chained
from itertools import repeat
from typing import Any

from lore.formats.base import Read
from lore.formats.beginning import is_yaml_cassette, peek
from lore.formats.captures.layouts import Record, call_in
from lore.formats.captures.recorders import Documents
from lore.formats.contents import build_array, object_of
from lore.formats.http import ENDPOINT, exchanges_of
from lore.formats.lines import Line, placed, problem, too_much
from lore.model.canonical import encode
from lore.model.codes import Code
from lore.model.jsonslice import array, raw_members, sliced_members
from lore.model.limits import YAML_ANCHORS, YAML_BYTES, YAML_LEVELS, YAML_TEXT_BYTES, YAML_VALUES
from lore.model.mask import cut_masked, mask

_LIST = re.compile(
    rb"^(?:http_)?interactions:[ \t]*(?:#[^\n]*)?\r?\n(?:[ \t]*(?:#[^\n]*)?\r?\n)*(?=( *)-[ \t\r\n])"
    rb"|\A(?:[ \t]*(?:#[^\n]*)?\r?\n|---[^\n]*\n)*+(?=()-[ \t]*(?:\r?\n[ \t]+)?request:)",
    re.MULTILINE,
)
_MOCKS = re.compile(
    rb"(?:[ \t]*(?:#[^\n]*)?\r?\n|---[^\n]*\n)*+"
    rb"(?=(?:when|-[ \t]*Request|(?:(?:id|name):[^\n]*\n)*request):[ \t]*\r?\n)"
)
_REQUESTS, _ITEM = b"requests:", re.compile(rb"^(?=-[ \t])", re.MULTILINE)
_DOCUMENT = re.compile(rb"\n(?=---[ \t\r\n])")
_WORD = re.compile(rb"\s*(?:-[\w \t]*)?\s*$")  # an item that is a word is not a call; there may be millions of them
_URL = re.compile(rb"^[ \t]+ur[il]:[ \t]*[\"']?([^\s\"'?#]+)", re.MULTILINE)
_REQUEST_BYTES = 8192  # of an interaction that is too long: they show its URL, unless it was sent much
_BEGINNING = 1024 * 1024  # bytes in which the list of interactions has to begin


class YamlError(Exception):
    """YAML is malformed or refused, for the reason in the message."""

    line: int | None = None  # at which a parser stopped, from 0


class Vcr(Documents):
    """Reader of cassettes: JSON if the first byte that is not a space is a brace or a bracket, else YAML."""

    name, paths, words = "vcr", (".interactions", ".http_interactions"), (b'"request"', b"interactions")

    @classmethod
    def recognises(cls, head: bytes) -> bool:
        return is_yaml_cassette(head) or super().recognises(head)

    def read(self, data: Iterable[bytes]) -> Iterator[Read]:
        start, pieces = peek(data)
        if start in (b"{", b"["):
            yield from super().read(pieces)
        elif start:
            anchors: dict[str, bytes] = {}  # of the whole file, which is read in parts
            begin = b""
            while len(begin) < len(_REQUESTS) and (piece := next(pieces, b"")):
                begin += piece
            if begin.startswith(_REQUESTS):
                yield from _read_two_lists(begin, pieces, anchors)
                return
            pieces = chained((begin,), pieces)
            for line, is_too_long in _cut_interactions(pieces):
                if is_too_long:
                    if not _may_ask_model(line.data):
                        continue
                    text = f"an interaction is passed over: {too_much(YAML_BYTES)}"
                    yield problem(Code.CAPTURE_TOO_LARGE, text, line)
                elif _WORD.match(line.data) is None:
                    yield from _read_interaction(line, anchors)


def _read_two_lists(data: bytes, pieces: Iterator[bytes], anchors: dict[str, bytes]) -> Iterator[Read]:
    """Yield the calls of a cassette that lists its requests, then their responses."""
    while len(data) <= YAML_BYTES and (piece := next(pieces, b"")):
        data += piece
    if len(data) > YAML_BYTES:
        yield problem(Code.CAPTURE_TOO_LARGE, f"a cassette is passed over: {too_much(YAML_BYTES)}", Line(1, 0, b""))
        return
    try:
        lists = sliced_members(to_json(data, anchors))
    except YamlError as error:
        yield problem(Code.CASSETTE_REFUSED, f"the cassette cannot be read: {error}", Line(1, 0, b""))
        return
    requests, responses = (array(lists.get(name, b"[]")) for name in ("requests", "responses"))
    answers = chained(responses, repeat(b"null"))  # the last ones may be missing
    places = (Line(data.count(b"\n", 0, item.end()) + 1, item.end(), b"") for item in _ITEM.finditer(data))
    for request, response, place in zip(requests, answers, places, strict=False):
        values = exchanges_of(call_in(Record({"request": request, "response": response})))
        yield from (placed(value, place) for value in values)


def _cut_interactions(pieces: Iterator[bytes]) -> Iterator[tuple[Line, bool]]:
    """Yield a YAML cassette's interactions; of one that is too long its beginning and True."""
    pending, begin, is_mock = b"", None, False
    for piece in pieces:
        pending += piece
        is_mock = (begin := _MOCKS.match(pending)) is not None
        begin = begin or _LIST.search(pending)
        if begin is not None or len(pending) > _BEGINNING:
            break
    if begin is None:  # MLX's cassettes of Mirascope list the tokens of a local model in this place
        return
    indent = b"" if is_mock else begin[begin.lastindex or 0]
    ends = _DOCUMENT if is_mock else re.compile(rb"\n(?=" + indent + rb"-[ \t\r\n]|[^\s#\-]|---|\.\.\.)")
    at = scanned = begin.end()
    line, byte, is_skipping = 1 + pending.count(b"\n", 0, at), at, False
    while True:
        match = ends.search(pending, scanned)
        if match is None:
            piece = next(pieces, b"")
            pending, at = pending[at:] + piece, 0
            scanned = max(0, len(pending) - len(piece) - len(indent) - 8)
            if not piece:
                if pending.strip() and not is_skipping:
                    yield Line(line, byte, pending, is_torn=True), len(pending) > YAML_BYTES
                return
            if is_skipping or len(pending) > YAML_BYTES:
                if not is_skipping:
                    yield Line(line, byte, pending[:_REQUEST_BYTES]), True
                line, byte, is_skipping = line + pending.count(b"\n", 0, scanned), byte + scanned, True
                pending, scanned = pending[scanned:], 0
            continue
        end = match.end()
        if not is_skipping:
            yield Line(line, byte, pending[at:end]), end - at > YAML_BYTES
        line, byte, is_skipping = line + pending.count(b"\n", at, end), byte + end - at, False
        at = scanned = end
        if not is_mock and (pending.startswith(b"---", at) or not pending.startswith(indent + b"-", at)):
            return  # what follows is not part of the list


def _may_ask_model(data: bytes) -> bool:
    """Return whether an interaction that cannot be read may have asked a model: cassettes also hold downloads."""
    paths = [match[1].decode("utf-8", "replace") for match in _URL.finditer(data)]
    return not paths or any(map(ENDPOINT.search, paths))


def _read_interaction(line: Line, anchors: dict[str, bytes]) -> Iterator[Read]:
    try:
        converted = to_json(line.data, anchors)
    except YamlError as error:
        if not _may_ask_model(line.data):
            return
        is_cut = line.is_torn and error.line is not None and error.line >= line.data.rstrip().count(b"\n")
        if is_cut:
            yield problem(Code.TORN_LAST_LINE, f"the cassette ends inside an interaction: {error}", line)
        else:
            yield problem(Code.CASSETTE_REFUSED, f"an interaction cannot be read: {error}", line)
        return
    calls = [*map(sliced_members, array(converted) if converted[:1] == b"[" else [converted])]
    if calls and "Request" in calls[0]:  # a document of surf-vcr
        calls = [{name.lower(): raw for part in calls for name, raw in part.items()}]
    for call in calls:
        request = raw_members(call.get("request", b""))
        if request is not None and "response" not in call and not request.keys() & {"uri", "url"}:
            yield problem(Code.TORN_LAST_LINE, "the cassette ends inside a request", line)
        else:
            yield from (placed(value, line) for value in exchanges_of(call_in(Record(call))))


_TAG = "tag:yaml.org,2002:"
_BINARY = (_TAG + "binary", "!binary")
_ALLOWED = {"!", *_BINARY, *(_TAG + name for name in ("str", "int", "float", "bool", "null", "map", "seq"))}
_TEXT_TYPES = (_TAG + "python/object/apply:multidict.", _TAG + "python/object/new:multidict.")  # aiohttp's header names
_PLAIN = {_TAG + name for name in ("int", "float", "bool", "null")}


def to_json(data: bytes, anchors: dict[str, bytes]) -> bytes:
    """Return the first document as JSON, in time and memory proportional to its bytes; raises YamlError.

    `anchors` has the JSON of the values that aliases repeat, and gets those of this document.
    """
    import yaml  # slow to import

    try:
        events = yaml.parse(data, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
        return _convert(events, anchors, yaml.SafeLoader(b""), yaml.ScalarNode)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        place = f" at its line {mark.line + 1}" if mark is not None else ""
        refusal = YamlError(f"{cut_masked(str(getattr(error, 'problem', None) or 'no YAML'), 80)}{place}")
        refusal.line = None if mark is None else mark.line
        raise refusal from None
    except (UnicodeDecodeError, RecursionError):
        raise YamlError("no YAML") from None


def _convert(events: Iterable[Any], anchors: dict[str, bytes], loader: Any, node: Any) -> bytes:
    """Return the first document of these events as JSON, null without one; add its anchors to `anchors`."""
    open_values: list[tuple[Any, list[bytes]]] = []  # of each mapping and list the first event, and its parts' JSON
    left, room = YAML_VALUES, YAML_TEXT_BYTES
    for event in events:
        kind = type(event).__name__
        if kind == "ScalarEvent":
            anchor, converted = event.anchor, _scalar(event, loader, node)
            added = len(converted)
        elif kind in ("MappingStartEvent", "SequenceStartEvent"):
            if not _is_text(event):
                _check_tag(event.tag)
            if len(open_values) == YAML_LEVELS:
                raise YamlError(f"it is nested more than {YAML_LEVELS} deep")
            open_values.append((event, []))
            continue
        elif kind in ("MappingEndEvent", "SequenceEndEvent"):
            begin, parts = open_values.pop()
            anchor = begin.anchor
            if _is_text(begin) and len(parts) == 1:
                converted = parts[0]
            else:
                converted = build_array(parts) if kind == "SequenceEndEvent" else _object(parts)
            added = 0 if anchor is None else len(converted)
        elif kind == "AliasEvent":
            anchor, converted = event.anchor, anchors.get(event.anchor, b"")
            added = len(converted)
            if not converted:
                raise YamlError(f"it refers to {mask(anchor)[:40]!r}, which is not defined before")
        else:
            continue
        left, room = left - 1, room - added
        if left < 0 or room < 0:
            text = f"{YAML_TEXT_BYTES // 1024 // 1024} MiB of text"
            raise YamlError(f"it holds more than {YAML_VALUES:,} values or {text}")
        if anchor is not None:
            if len(anchors) == YAML_ANCHORS and anchor not in anchors:
                raise YamlError(f"it names more than {YAML_ANCHORS:,} values")
            anchors[anchor] = converted
        if not open_values:
            return converted
        open_values[-1][1].append(converted)
    return b"null"


def _scalar(event: Any, loader: Any, node: Any) -> bytes:
    """Return a scalar; dates, times, infinity and numbers that are too long remain text."""
    text: str = event.value
    if event.tag is not None:
        _check_tag(event.tag)
        return object_of({"base64_string": encode(text)}) if event.tag in _BINARY else encode(text)
    tag = loader.resolve(node, text, (True, False)) if event.implicit[0] else ""
    if tag not in _PLAIN or ":" in text or text.lower().endswith(("inf", "nan")):
        return encode(text)
    try:
        return encode(loader.construct_object(node(tag, text)))
    except ValueError:
        return encode(text)


def _object(parts: list[bytes]) -> bytes:
    """Return an object of its keys and values, one after another; a key that is not text is spelled as in JSON."""
    for at, key in enumerate(parts[::2]):
        if key[:1] in (b"{", b"["):
            raise YamlError("a key that is not text")
        if key[:1] != b'"':
            parts[2 * at] = encode(key.decode())
    members = dict(zip(parts[::2], parts[1::2], strict=True))
    return b"{%b}" % b",".join([b"%b:%b" % member for member in members.items()])


def _is_text(event: Any) -> bool:
    """Return whether a list has the one argument of a type of text."""
    return type(event).__name__ == "SequenceStartEvent" and (event.tag or "").startswith(_TEXT_TYPES)


def _check_tag(tag: str | None) -> None:
    if tag not in (None, *_ALLOWED):
        raise YamlError(f"it asks for a value of the type {mask(tag)[:60]!r}, which lore does not make")
