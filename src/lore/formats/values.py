"""Turn JSON values of agents' records into the values of lore's events: texts, times, contents of messages.

Content remains a slice of the record. A value of another type counts as missing. Only `parts_in` and `blocks_in` raise,
if content is neither text nor a list.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any, Generic, NamedTuple, TypeVar

import msgspec
from msgspec import Raw, Struct
from msgspec.structs import replace

from lore.formats.bills import MOST
from lore.model import lenient
from lore.model.canonical import decode, printable
from lore.model.deferred import pattern
from lore.model.events import PatchToolCall
from lore.model.items import (
    NULL,
    AssistantMessage,
    Block,
    ImageBlock,
    Item,
    RawBlock,
    TextBlock,
    ThinkingBlock,
    ToolCall,
)
from lore.model.jsonslice import array, member_ranges, raw_members

_LATEST = 32_503_680_000  # seconds: the year 3000
LATEST_MS = _LATEST * 1000
_MILLISECONDS = _LATEST  # a larger number counts milliseconds, as JavaScript does
_SECOND = [f"{number:02}" for number in range(60)]  # written before: a format costs more than all else of a time
_thousandth = lru_cache(maxsize=1_000)(".{:03}Z".format)  # as above, when it is needed
_TEXTS = frozenset(("text", "input_text", "output_text"))
_QUOTE = 0x22


class _TextValue(Struct, frozen=True):
    """The members of a block that show whether it is text."""

    type: str = ""
    text: Raw = NULL


K = TypeVar("K", bound=Struct)
T = TypeVar("T")


class Parts(Generic[K]):
    """Decoder of blocks of content: those of the `kinds` as structs, all others unchanged.

    `texts` returns for each type the value that must be a JSON string, which the decoder leaves raw.
    """

    def __init__(self, kinds: Any, texts: Mapping[type, Callable[[Any], Raw]]) -> None:
        several: Any = list[kinds]
        self._all: Callable[[bytes | Raw], list[K]] = lenient.DECODERS[several].decode
        self._kinds = kinds
        self._texts = texts

    def decode(self, content: bytes | Raw) -> Sequence[K | RawBlock]:
        try:
            parts = self._all(content)
            if self.are_sound(parts):
                return parts
        except (ValueError, RecursionError):
            pass
        return [self._decode_part(raw) if raw[:1] == b"{" else RawBlock(Raw(raw)) for raw in array(bytes(content))]

    def are_sound(self, parts: Sequence[object]) -> bool:
        """Return whether all values that must be JSON strings are."""
        for part in parts:
            text_of = self._texts.get(type(part))
            if text_of is not None and memoryview(text_of(part))[0] != _QUOTE:
                return False
        return True

    def _decode_part(self, raw: bytes) -> K | RawBlock:
        try:
            part = lenient.decode(self._kinds, raw)
        except (ValueError, RecursionError):
            return RawBlock(Raw(raw))
        config, fields = part.__struct_config__, {"type", *part.__struct_fields__}
        strict = config.forbid_unknown_fields  # the lenient decoder ignores it
        has_unknown = strict and any(member.key not in fields for member in member_ranges(raw))
        return part if not has_unknown and self.are_sound((part,)) else RawBlock(Raw(raw))


_TEXT, _TIME, _COUNT = lenient.DECODERS[str], lenient.DECODERS[int | float | str], lenient.DECODERS[int]
_OBJECT = lenient.DECODERS[dict[str, Raw]]


def opens(raw: Raw | bytes) -> str:
    """Return the first character of a JSON value, which shows its type, without copying."""
    view = memoryview(raw)
    return chr(view[0]) if view.nbytes else ""


def text_in(raw: Raw | bytes) -> str:
    """Return a text that can be encoded; empty for a value of another type."""
    if opens(raw) != '"':
        return ""
    try:
        return _TEXT.decode(raw)
    except msgspec.DecodeError:
        pass
    try:
        return printable(decode(bytes(raw)))
    except (ValueError, RecursionError):
        return ""


def text_at(members: Mapping[str, bytes], *keys: str) -> str:
    """Return the first of these members that is a text; empty if none is."""
    return next((text for key in keys if (text := text_in(members.get(key, b"")))), "")


def count_in(raw: Raw | bytes, most: int = MOST) -> int | None:
    """Return a count: a whole number from 0 on, and no more than `most`; None for anything else."""
    try:
        count = _COUNT.decode(raw)
    except msgspec.DecodeError:
        return None
    return count if 0 <= count <= most else None


def stamp_of(raw: Raw | bytes) -> str | None:
    """Return a number of seconds or milliseconds as RFC 3339 (UTC, milliseconds), and text unchanged."""
    try:
        return stamp_at(_TIME.decode(raw))
    except msgspec.DecodeError:
        return text_in(raw) or None


def stamp_at(moment: float | str | None) -> str | None:
    """Return a decoded time as RFC 3339: a number counts seconds or milliseconds since 1970; text is unchanged."""
    if isinstance(moment, str):
        return moment or None
    if moment is None or not 0 < moment < LATEST_MS:
        return None
    if not isinstance(moment, int):
        moment = round(moment * (1_000 if moment > _MILLISECONDS else 1_000_000)) // 1_000
    elif moment <= _MILLISECONDS:
        moment *= 1_000
    minute, ms = divmod(moment, 60_000)
    return _minute(minute) + _SECOND[ms // 1_000] + _thousandth(ms % 1_000)


@lru_cache(maxsize=64)
def _minute(minute: int) -> str:
    """Return a time up to its minute, of minutes since 1970."""
    return datetime.fromtimestamp(minute * 60, UTC).strftime("%Y-%m-%dT%H:%M:")


def parts_in(content: Raw, read: Callable[[Raw], T]) -> tuple[T | TextBlock, ...]:
    """Return a text as a block, or what `read` makes of each element of a list; raises ValueError for other content."""
    match opens(content):
        case '"':
            return (TextBlock(content),) if memoryview(content).nbytes > len('""') else ()
        case "[":
            return tuple([read(raw) for raw in lenient.decode(list[Raw], content)])
        case "n":
            return ()
        case _:
            raise ValueError("content is neither text nor a list")


def blocks_in(content: Raw) -> tuple[Block, ...]:
    """Return the blocks of content that is text or a list; raises ValueError for any other content."""
    return parts_in(content, block_in)


def block_in(raw: Raw) -> Block:
    """Return a text block as text, and any other block unchanged."""
    try:
        block = lenient.decode(_TextValue, raw)
    except ValueError:
        block = _TextValue()
    return TextBlock(block.text) if (block.type in _TEXTS and opens(block.text) == '"') else RawBlock(Raw(bytes(raw)))


class MessageParts(NamedTuple):
    """The parts of a message of Anthropic's shape; calls have no uuids yet."""

    blocks: list[Block]
    calls: list[ToolCall]
    results: list[PatchToolCall]


def split_content(content: bytes | Raw) -> MessageParts:
    """Return the parts of a message of Anthropic's shape; raises ValueError for content that is not text or blocks.

    openfang writes an image's data into the block itself, and Cline writes thinking as `reasoning`.
    """
    parts = MessageParts([], [], [])
    for block in blocks_in(Raw(content)):
        members = (raw_members(bytes(block.json)) or {}) if isinstance(block, RawBlock) else {}
        kind, name = text_in(members.get("type", b"")), text_in(members.get("id", members.get("tool_use_id", b"")))
        image = (raw_members(members.get("source", b"")) or {}) if members.get("data", b"")[:1] != b'"' else members
        thought = members.get("thinking" if kind == "thinking" else "text", b"")
        if kind == "tool_use" and name:
            value = members.get("input", b"")
            call = ToolCall("", name, text_in(members.get("name", b"")), Raw(value if value[:1] == b"{" else b"{}"))
            parts.calls.append(call)
        elif kind == "tool_result" and name:
            output, failed = output_of(Raw(members.get("content", b'""'))), members.get("is_error") == b"true"
            status = "failed" if failed else "completed"
            parts.results.append(PatchToolCall(call_id=name, status=status, output=output))
        elif kind in ("thinking", "reasoning") and thought[:1] == b'"':
            parts.blocks.append(ThinkingBlock(Raw(thought), text_in(members.get("signature", b"")) or None))
        elif kind == "image" and image.get("data", b"")[:1] == b'"' and image.get("type") in (b'"base64"', b'"image"'):
            parts.blocks.append(ImageBlock(text_in(image.get("media_type", b"")), Raw(image["data"])))
        else:
            parts.blocks.append(block)
    return parts


def item_name(name: str, number: int) -> str:
    """Return the uuid of a record's item, numbered from 0."""
    return f"{name}:{number}" if number else name


def split_response(parts: Iterable[Block | ToolCall], name: str, response: str, stop: str | None = None) -> list[Item]:
    """Return the items of a response in order: each call, which gets its uuid here, and the blocks between calls."""
    items: list[Item] = []
    blocks: list[Block] = []
    for part in (*parts, None):
        if part is not None and not isinstance(part, ToolCall):
            blocks.append(part)
            continue
        if blocks:
            content, blocks = tuple(blocks), []
            uuid = item_name(name, len(items))
            items.append(AssistantMessage(uuid, blocks=content, stop_reason=stop, response_id=response))
        if part is not None:
            uuid = item_name(name, len(items))
            items.append(replace(part, uuid=uuid, call_id=part.call_id or uuid, response_id=response))
    return items


class CalledFunction(Struct, frozen=True):
    """The function of a call of OpenAI's shape; its arguments are JSON in a text."""

    name: str = ""
    arguments: Raw = Raw(b'"{}"')


class FunctionCall(Struct, frozen=True):
    """A call of OpenAI's shape."""

    function: CalledFunction = CalledFunction()
    id: str = ""

    def item(self, uuid: str, response: str) -> ToolCall:
        return call_item(uuid, self.id, self.function.name, self.function.arguments, response)


def result_of(blocks: Sequence[Block]) -> Raw:
    """Return a result made of blocks as lore keeps it: one text alone, nothing as an empty text."""
    if len(blocks) == 1 and isinstance(blocks[0], TextBlock):
        return blocks[0].text
    return Raw(msgspec.json.encode(list(blocks))) if blocks else Raw(b'""')


_DATA = pattern(rb'"data:(image/[a-z0-9.+-]{1,40});base64,')


def image_at(url: bytes) -> ImageBlock | None:
    """Return the image in a data URL; None for another address."""
    match = _DATA.match(url)
    return None if match is None else ImageBlock(match[1].decode(), Raw(b'"' + url[match.end() :]))


def output_of(content: Raw) -> Raw:
    """Return a result as lore keeps it: a text as it is, any other value as one block."""
    return content if opens(content) == '"' else Raw(b'[{"type":"raw","json":%b}]' % bytes(content))


def call_item(uuid: str, call_id: str, name: str, arguments: Raw, response: str) -> ToolCall:
    """Return a call of OpenAI's shape."""
    return ToolCall(uuid, call_id, name, arguments_of(arguments), response_id=response)


def arguments_of(arguments: Raw) -> Raw:
    """Return the arguments of a call as a JSON object; another text as its member `arguments`."""
    kind = opens(arguments)
    if kind == "{":
        return arguments
    if kind in ("n", ""):
        return Raw(b"{}")
    text = text_in(arguments).encode("utf-8", "surrogatepass")
    try:
        _OBJECT.decode(text)
    except msgspec.DecodeError:
        return Raw(b"{}") if not text.strip() and kind == '"' else Raw(b'{"arguments":%b}' % arguments)
    return Raw(text)
