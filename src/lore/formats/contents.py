"""Open the content of a recorded request or response: text, parsed, base64, compressed, in another file, in pieces.

A recording holds a content as a JSON value; opening it returns the sent bytes, or raises why they are missing. Text is
unescaped once, and then has exactly these bytes; a parsed content is sliced unchanged. Decompression is bounded
in size and ratio.

Responses of Amazon Bedrock are a binary stream (`application/vnd.amazon.eventstream`): those of `converse-stream`
hold plain events, those of `invoke-with-response-stream` events in base64. Each message is four bytes of its length,
four of its headers' length, four of a checksum over these eight, the headers, the payload and four of a checksum;
numbers are big-endian. A stream that was cut gives its whole messages. Source: the AWS event stream encoding.

Tools that normalise messages have their own shapes. The second half of this module writes the body of an OpenAI Chat
request of them, which a dialect can read; such a body is at most `structural`, because its bytes were never sent.
"""

from __future__ import annotations

import binascii
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from importlib import import_module
from typing import Any

from msgspec import Struct

from lore.formats.lines import too_much
from lore.model.canonical import decode, encode, text_of
from lore.model.deferred import pattern
from lore.model.jsonslice import array, check_text, first_element, object_of, raw_members, sliced_members
from lore.model.limits import BODY_BYTES, INFLATION, ZSTD_WINDOW_BYTES
from lore.model.mask import mask
from lore.model.turn import ContentForm, Fidelity

_PIECE = 2 * 1024 * 1024
_CUT = pattern(rb"[^\\]{6}(?=[^\x80-\xbf\\])")  # the longest escape has six bytes
_END_OF_EVENT = pattern(rb"\n\r?\n")
_GZIP, _ZSTD = b"\x1f\x8b\x08", b"\x28\xb5\x2f\xfd"
_STEP = 1024  # compressed bytes at a time: 32 MiB at most when they are unpacked
_UNPACKED = 256 * 1024  # bytes


class ContentError(Exception):
    """A content cannot be opened, for the reason in the message: perhaps only because it is too large, or stored."""

    def __init__(self, reason: str, *, large: bool = False, is_stored: bool = False) -> None:
        super().__init__(reason)
        self.large, self.is_stored = large, is_stored  # `is_stored`: the provider has it, and no recording holds it


class CutError(ContentError):
    """Compressed data ends too soon; all that comes before was returned."""


class Content(Struct, frozen=True, gc=False):
    """A content as a recording holds it."""

    raw: bytes = b""  # JSON: a string for text and base64, an array for events
    form: ContentForm = "nothing"
    members: dict[str, bytes] = {}  # of an object that was sliced to find its form

    @property
    def fidelity(self) -> Fidelity:
        """How close its bytes are to the sent ones."""
        return "parsed" if self.form == "json" else "wire"


NO_CONTENT = Content()


def content_of(raw: bytes) -> Content:
    """Return the content of a value: text, the JSON itself, or an object that describes it."""
    if raw[:8] == b'"base64:':  # Datadog's test agent
        return Content(b'"' + raw[8:], "base64")
    if raw[:1] == b'"':
        return Content(raw, "text") if raw != b'""' else NO_CONTENT
    if raw[:1] == b"{":
        members = sliced_members(raw)
        if "kind" in members and (content := _content_by_kind(members)) is not None:
            return content
        if "__data__" in members:  # llama-stack, with the class of the SDK in `__type__`
            return content_of(members["__data__"])
        if members.get("type") == b'"Buffer"' and (data := _encode_buffer(members.get("data", b""))):
            return Content(data, "base64")
        is_text = len(members) <= 3 and members.get("text", b"")[:1] == b'"' and "usage" not in members  # Charles
        if "mimeType" in members or is_text:  # HAR
            text = members.get("text", b"")
            form: ContentForm = "base64" if members.get("encoding") == b'"base64"' else "text"
            return Content(text, form) if text[:1] == b'"' and text != b'""' else NO_CONTENT
        based, inner = members.get("base64_string", b""), members.get("string", b"")  # VCR
        if based[:1] == b'"' and len(members) <= 3:
            return Content(based, "base64")
        if inner[:1] in (b'"', b"{", b"n") and len(members) <= 3:
            return content_of(inner)
        return Content(raw, "json", members)
    compared = without_matcher(raw)
    return content_of(compared) if compared is not raw else Content(raw, "json") if raw[:1] == b"[" else NO_CONTENT


_MATCHER = pattern(rb'\[\s*\{\s*"(?:equalTo(?:Json)?|matcher)"')
_EXPECTED = ("equalToJson", "equalTo", "value")  # WireMock's names of the value; Hoverfly's


def without_matcher(raw: bytes) -> bytes:
    """Return the value that a stub compares with, from its list of matchers; any other value unchanged."""
    members = sliced_members(first_element(raw)) if _MATCHER.match(raw) else {}
    return next((members[name] for name in _EXPECTED if name in members), raw)


def open_content(content: Content, encoding: str = "", *, binary: Callable[[bytes], bool] | None = None) -> bytes:
    """Return the decoded bytes of a content, whose headers name an `encoding`. Raises ContentError.

    For form `events` this is the recorded JSON array, which `events_in` splits. Bytes that are not text are refused,
    unless `binary` accepts them.
    """
    if len(content.raw) > BODY_BYTES:
        raise ContentError(f"it is {too_much(BODY_BYTES)}", large=True)
    if content.form == "elsewhere":
        raise ContentError("it is kept in another file")
    is_based = content.form == "text" and _BASED.match(content.raw) is not None
    if content.form == "base64" or is_based:
        data = decompress(_decode_base64(content.raw), encoding)
        return data if binary is not None and binary(data) else _check_utf8(data)
    if content.form == "text":
        text = unescape(content.raw).strip()
        body = decompress(text, encoding)
        return text if body is text else _check_utf8(body)
    return content.raw


def _check_utf8(data: bytes) -> bytes:
    """Return the bytes, or raise ContentError if they are not UTF-8; unescaped text always is."""
    try:
        check_text(data)
    except UnicodeDecodeError:
        raise ContentError("it is not text") from None
    return data


def unescape(raw: bytes) -> bytes:
    """Return the text of a JSON string as bytes; lone surrogates remain escapes.

    Long text that is not ASCII is unescaped in pieces, cut between characters and escapes, to save memory: with one
    emoji in it, Python uses four bytes for each character.
    """
    if len(raw) <= _PIECE or raw.isascii():
        return _unescape_piece(raw)
    pieces: list[bytes] = []
    begin = 1
    while (cut := _CUT.search(raw, begin + _PIECE, len(raw) - 1)) is not None:
        pieces.append(_unescape_piece(b'"' + raw[begin : cut.end()] + b'"'))
        begin = cut.end()
    return b"".join([*pieces, _unescape_piece(b'"' + raw[begin:])])


def _unescape_piece(raw: bytes) -> bytes:
    try:
        return decode(raw).encode()
    except (ValueError, AttributeError):
        return text_of(raw).encode("utf-8", "backslashreplace")


def decompress(data: bytes, encoding: str = "") -> bytes:
    """Return a body decompressed, if it is compressed: recorders often decompress it and keep the header.

    A stream that was cut is decompressed as far as it goes. Raises ContentError if that fails or the result is too
    large.
    """
    name, limit = encoding.lower().strip(), min(BODY_BYTES, max(len(data), 1024) * INFLATION)
    is_text = data[:1] in (b"{", b"[", b":") or data[:5] in (b"data:", b"event")
    kind = compression_of(data)
    if not kind and (not name or name == "identity" or is_text):
        return data
    if not kind and name not in ("deflate", "br"):
        raise ContentError(f"it is compressed as {mask(name)[:20]!r}, which lore does not decompress")
    try:
        body = _decompress_brotli(data, limit) if not kind and name == "br" else _unpack_part(data, kind or name, limit)
    except ContentError:
        if kind or name == "br":
            raise
        body = _unpack_part(data, "raw deflate", limit)  # without zlib's header
    if len(body) >= limit:
        raise ContentError(f"it decompresses to more than {limit // 1024:,} KiB", large=True)
    return body


def _unpack_part(data: bytes, kind: str, limit: int) -> bytes:
    output = bytearray()
    for piece in unpack([data], kind):
        output += piece
        if len(output) >= limit:
            break
    return bytes(output)


def compression_of(data: bytes) -> str:
    """Return how a file or a body that begins like this is compressed: gzip or zstandard; empty if it is not."""
    return "gzip" if data[:3] == _GZIP else "zstandard" if data[:4] == _ZSTD else ""


def unpack(pieces: Iterable[bytes], kind: str, *, must_end: bool = False) -> Iterator[bytes]:
    """Yield the content of compressed pieces, of one frame or several; raises ContentError for damaged ones.

    Memory is bounded whatever the bytes expand to, since few of them are taken at a time: a block of zstandard, of 4
    bytes at least, holds 128 KiB at most (RFC 8878). With `must_end` a frame that is cut is an error, and so are other
    bytes after a frame.
    """
    make, fault = _frames_of(kind)
    frame, output, has_ended = None, bytearray(), False
    for chunk in (piece[at : at + _STEP] for piece in pieces for at in range(0, len(piece), _STEP)):
        while chunk:
            is_other = has_ended and frame is None and not must_end
            frame = make() if frame is None else frame
            try:
                output += frame.decompress(chunk)
            except fault as error:
                if output:
                    yield bytes(output)
                if is_other:
                    return
                raise ContentError(f"damaged {kind} data ({error})") from None
            has_ended = frame.eof
            chunk, frame = (frame.unused_data, None) if has_ended else (b"", frame)  # noqa: PLW2901
        if len(output) >= _UNPACKED:
            yield bytes(output)
            output.clear()
    if output:
        yield bytes(output)
    if must_end and frame is not None:
        raise CutError(f"the {kind} data ends too soon")


def _frames_of(kind: str) -> tuple[Callable[[], Any], type[Exception]]:
    """Return the constructor of a decompressor of one frame, and its error class."""
    if kind != "zstandard":
        import zlib  # noqa: PLC0415 - few contents are compressed

        bits = {"gzip": zlib.MAX_WBITS | 16, "raw deflate": -zlib.MAX_WBITS}.get(kind, zlib.MAX_WBITS)
        return lambda: zlib.decompressobj(bits), zlib.error
    try:
        library: Any = import_module("compression.zstd")  # Python 3.14 and newer
    except ImportError:
        library = import_module("zstandard")
    maker = library.ZstdDecompressor  # the package's makes another object for each frame, Python's own is one itself
    if hasattr(maker, "decompressobj"):
        return lambda: maker(max_window_size=ZSTD_WINDOW_BYTES).decompressobj(), library.ZstdError
    return maker, library.ZstdError


def _decompress_brotli(data: bytes, limit: int) -> bytes:
    """Decompress brotli; a stream that was cut is decompressed as far as it goes."""
    library: Any = import_module("brotli")  # it has no types
    unpacker, output, chunk = library.Decompressor(), bytearray(), data
    try:
        while len(output) < limit:
            piece = unpacker.process(chunk, output_buffer_limit=limit - len(output))
            output, chunk = output + piece, b""
            if not piece or unpacker.is_finished():
                break
        if not output and not unpacker.is_finished():
            raise ContentError("its compressed bytes are cut off")
    except library.error:
        raise ContentError("its compressed bytes are damaged") from None
    return bytes(output)


# The beginning of base64 of JSON, a stream of events, gzip or zstandard.
_BASED = pattern(rb'"(?:ey[JA]|ew[o0]|ZXZlbnQ|ZGF0YT|H4sI|KLUv)[A-Za-z0-9+/]{16,}+={0,2}"')


def _encode_buffer(raw: bytes) -> bytes:
    """Return a buffer of Node.js (a list of numbers) as base64 in JSON; empty for any other value."""
    try:
        return encode(binascii.b2a_base64(bytes(decode(raw)), newline=False).decode())
    except (ValueError, TypeError):
        return b""


def _decode_base64(raw: bytes) -> bytes:
    from base64 import b64decode  # noqa: PLC0415 - few contents are encoded

    text = unescape(raw).translate(None, b" \r\n")
    pieces = [element.strip(b'"') for element in array(text)] if text[:2] == b'["' else [text]  # PollyJS: of a stream
    try:
        return b"".join(b64decode(piece, validate=True) for piece in pieces)
    except (binascii.Error, ValueError):
        raise ContentError("its base64 is damaged") from None


def _content_by_kind(members: dict[str, bytes]) -> Content | None:
    """Return the content of `{"kind": …}`, as cassettes write it; None for an unknown kind."""
    kind = text_of(members["kind"])
    if kind == "sse" and "chunks" in members:
        return Content(members["chunks"], "events")
    if kind == "json" and "value" in members:
        return Content(members["value"], "json")
    if kind in ("text", "binary", "base64", "empty"):
        text = next((members[key] for key in ("text", "value", "data", "base64") if key in members), b"")
        if text[:1] == b'"':
            return Content(text, "text" if kind == "text" else "base64")
        return Content(form="elsewhere") if "path" in members else NO_CONTENT
    return None


def events_in(raw: bytes) -> tuple[list[bytes], bytes]:
    """Split a JSON list of stream events into (events that are JSON, the text of the others joined)."""
    events, text = list[bytes](), list[bytes]()
    for event in array(raw):
        if event[:1] == b'"':
            text.append(unescape(event))
        elif event[:1] == b"{":
            if any(word in event for word in _WRAPPING):
                inner = sliced_members(event)
                names = (name for name in ("data", "value", "__data__") if name in inner)
                event = inner.get(next(names, ""), event)  # noqa: PLW2901 - what is wrapped is the event
            events.append(unescape(event) if event[:1] == b'"' else event)
    is_cut = any(_END_OF_EVENT.search(piece) for piece in text)  # anywhere, as a socket delivered it
    return events, (b"" if is_cut else b"\n\n").join(text)


_WRAPPING = (b'"data"', b'"value"', b'"__data__"', b"\\u")  # names of a member with the event, or an escaped name
_PRELUDE, _CHECKSUM = 12, 4


def is_framed(data: bytes) -> bool:
    """Return whether bytes begin as an AWS event stream, by its first checksum."""
    return len(data) > _PRELUDE and binascii.crc32(data[:8]) == int.from_bytes(data[8:_PRELUDE], "big")


def framed_events(data: bytes) -> Iterator[bytes]:
    """Yield the whole events of an AWS event stream."""
    at = 0
    while is_framed(data[at : at + _PRELUDE + 1]):
        size = int.from_bytes(data[at : at + 4], "big")
        begin = at + _PRELUDE + int.from_bytes(data[at + 4 : at + 8], "big")
        end = at + size - _CHECKSUM
        if end < begin or at + size > len(data):
            return
        payload = data[begin:end]
        inner = (raw_members(payload) or {}).get("bytes", b"")
        with suppress(ContentError):
            payload = _decode_base64(inner) if inner[:1] == b'"' else payload
        yield payload
        at += size


def build_array(elements: Iterable[bytes]) -> bytes:
    """Return a JSON array of elements."""
    return b"[" + b",".join(elements) + b"]"


def build_body(
    model: bytes, messages: Iterable[bytes], tools: bytes = b"", params: Mapping[str, bytes] | None = None
) -> tuple[bytes, Fidelity]:
    """Return a `structural` body made of JSON pieces; `tools` is an array, or empty."""
    members = {"model": model or b"null"}
    if tools[:1] == b"[" and tools.strip(b"[] \t\r\n"):
        members["tools"] = tools
    return object_of({**members, **(params or {}), "messages": build_array(messages)}), "structural"


def build_message(role: str, content: Iterable[bytes] = (), calls: Iterable[bytes] = ()) -> bytes:
    """Return a message of content blocks and calls."""
    called = b",".join(calls)
    end = b',"tool_calls":[' + called + b"]}" if called else b"}"
    return b'{"role":' + encode(role) + b',"content":[' + b",".join(content) + b"]" + end


def to_openai_messages(members: Mapping[str, bytes]) -> list[bytes]:
    """Return another tool's message as messages of OpenAI: one with text and calls, and one for each result.

    Content is text, blocks, or OpenTelemetry's parts; a call has its name and arguments itself, or in its `function`.
    """
    role = text_of(members.get("role", b'"user"'))
    listed = members.get("parts", members.get("content", b""))
    if role == "tool" and "parts" not in members:
        return [_build_result(members.get("tool_call_id", members.get("id", b'""')), listed or b'""')]
    parts = array(listed) if listed[:1] == b"[" else [listed] if listed not in (b"", b"null") else []
    called = members.get("tool_calls", b"")
    calls = [_call_in(raw_members(call) or {}) for call in (array(called) if called[:1] == b"[" else ())]
    content, results = list[bytes](), list[bytes]()
    for part in parts:
        inner = raw_members(part) or {}
        kind = inner.get("type", b"")
        if kind == b'"tool_call"':
            calls.append(_call_in(inner))
        elif kind == b'"tool_call_response"':
            output = next((inner[key] for key in ("response", "result", "content") if key in inner), b'""')
            results.append(_build_result(_id_in(inner), output))
        else:
            content.append(part_of(part, inner))
    message = [build_message(role, content, calls)] if content or calls or not results else []
    return [*message, *results]


def part_of(raw: bytes, members: Mapping[str, bytes]) -> bytes:
    """Return text, or a part whose `content` is text, as a text block, and any other part unchanged."""
    text = raw if raw[:1] == b'"' else members.get("content", b"") if members.get("type") == b'"text"' else b""
    return b'{"type":"text","text":' + text + b"}" if text[:1] == b'"' else raw


def _id_in(members: Mapping[str, bytes]) -> bytes:
    return members.get("id", b"") if members.get("id", b"")[:1] == b'"' else b'""'


def _call_in(call: Mapping[str, bytes]) -> bytes:
    """Return a call of another tool as one of OpenAI; arguments that are not text become text, unchanged."""
    function = call.get("function", b'""')
    both = {**(raw_members(function) or {"name": function}), **call}
    arguments = both.get("arguments", b"{}")
    text = arguments if arguments[:1] == b'"' else encode(arguments.decode("utf-8", "backslashreplace"))
    called = b'{"name":' + both.get("name", b'""') + b',"arguments":' + text + b"}"
    return b'{"id":' + _id_in(call) + b',"type":"function","function":' + called + b"}"


def _build_result(call_id: bytes, content: bytes) -> bytes:
    """Return a call's result; content that is neither text nor a list becomes text, unchanged."""
    text = content if content[:1] in (b'"', b"[") else encode(content.decode("utf-8", "backslashreplace"))
    return b'{"role":"tool","tool_call_id":' + call_id + b',"content":' + text + b"}"


def recorded_body(raw: bytes) -> tuple[bytes, Fidelity] | None:
    """Return the body in a member of a record: `wire` if it is text, else `parsed`; None if it is no request body."""
    text = unescape(raw).strip() if raw[:1] == b'"' else raw
    members = raw_members(text) if text[:1] == b"{" else None
    if members is None or not any(key in members for key in ("messages", "input", "contents", "prompt")):
        return None
    return text, "wire" if raw[:1] == b'"' else "parsed"
