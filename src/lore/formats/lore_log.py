"""lore's own session log, version 1: JSON Lines, one event a line, `session_started` first.

The fast lane decodes a line straight into its struct and refuses what it does not know; the slow lane
then reads camelCase keys, unknown keys and lone surrogates. What neither takes is an opaque event.
"""

from __future__ import annotations

from typing import ClassVar

import msgspec
from msgspec import Raw

from lore.formats.base import Read, Yields
from lore.formats.lines import Line, LineReader, each, problem
from lore.model import events as e
from lore.model import lenient
from lore.model.canonical import printable, text_of
from lore.model.codes import Code
from lore.model.items import (
    AssistantMessage,
    CompactDivider,
    ImageBlock,
    Item,
    TextBlock,
    ThinkingBlock,
    ToolCall,
    UserMessage,
    blocks_of,
    is_absent,
)  # fmt: skip
from lore.model.jsonslice import elements, members, table

_DECODER = msgspec.json.Decoder(e.Event)


class LoreLog(LineReader):
    """Reader of lore's own logs."""

    name: ClassVar[str] = "lore"
    yields: ClassVar[Yields] = "events"

    def __init__(self) -> None:
        super().__init__()
        self._begun = False

    @classmethod
    def recognises(cls, head: bytes) -> bool:
        kind = (table(next(each(head), b"")) or {}).get("kind", b"")
        return lenient.snake(text_of(kind)) in e.KINDS

    def _save(self) -> bytes:
        return msgspec.msgpack.encode(self._begun)

    def _load(self, saved: bytes) -> None:
        self._begun = msgspec.msgpack.decode(saved, type=bool)

    def _record(self, line: Line) -> list[Read] | None:
        event = _event(line.data)
        if event is None:
            return None
        read = Read(event, line.number, line.byte)
        return [read] if self._begun else [*self._begin(line, header=isinstance(event, e.SessionStarted)), read]

    def _odd(self, line: Line) -> list[Read]:
        """Keep a record of unknown kind, or whose fields have the wrong types, as it is."""
        kind = _kind_of(line.data) or "(none)"
        if lenient.snake(kind) in e.KINDS:
            found = problem(Code.MALFORMED_RECORD, f"{kind} record has missing or wrong fields; kept as opaque", line)
        else:
            found = problem(Code.UNKNOWN_RECORD, f"unknown record kind {printable(kind[:60])!r}; kept as opaque", line)
        opaque = Read(e.OpaqueEvent(record=Raw(line.data)), line.number, line.byte)
        return [*self._begin(line, header=b'"session_started"' in line.data), found, opaque]

    def _begin(self, line: Line, *, header: bool) -> list[Read]:
        begun, self._begun = self._begun, True
        if begun or header:
            return []
        return [problem(Code.BAD_HEADER, "the log does not begin with session_started", line)]


def _event(data: bytes) -> e.Event | None:
    """Decode a line in the fast lane, else in the slow one; None where it is no event."""
    try:
        event = _DECODER.decode(data)
        if not data.isascii():
            data.decode("utf-8")  # msgspec's Raw does not look inside strings
    except (ValueError, RecursionError):
        event = _slow(data)
    return event if event is not None and _well_formed(event) else None


def _kind_of(data: bytes) -> str:
    kinds = [data[m.value : m.end] for m in members(data) if m.key == "kind"]
    return text_of(kinds[-1]) if kinds else ""


def _slow(data: bytes) -> e.Event | None:
    if data.lstrip(b" \t\r")[:1] != b"{":
        return None
    try:
        kind = e.KINDS.get(lenient.snake(_kind_of(data)))
        return None if kind is None else lenient.convert(data, kind)
    except (ValueError, RecursionError):
        return None


def is_string(raw: Raw) -> bool:
    """Tell whether content is a JSON string (or absent)."""
    return bytes(raw)[:1] == b'"' or is_absent(raw)


def _well_formed(event: e.Event) -> bool:
    """Check the content that the decoder left raw: text is a string, output text or blocks."""
    match event:
        case e.Append(item=item):
            return _good_item(item)
        case e.PatchText(delta_text=text):
            return bytes(text)[:1] == b'"'
        case e.PatchToolCall(output=output, error=error):
            return _good_output(output) and is_string(error)
        case e.ToolResultCleared(placeholder=text) | e.CompactApplied(summary=text) | e.Layer(text=text):
            return is_string(text)
        case e.SessionStarted(system=system, params=params) | e.SessionChanged(system=system, params=params):
            return _good_system(system) and (bytes(params)[:1] == b"{" or is_absent(params))
        case _:
            return True


def _good_item(item: Item) -> bool:
    match item:
        case UserMessage(text=text, blocks=blocks) | AssistantMessage(text=text, blocks=blocks):
            return is_string(text) and (blocks is None or all(_good_block(block) for block in blocks))
        case ToolCall(output=output, error=error):
            return _good_output(output) and is_string(error)
        case CompactDivider(summary=summary):
            return is_string(summary)
        case _:
            return True


def _good_block(block: object) -> bool:
    match block:
        case TextBlock(text=text) | ThinkingBlock(text=text) | ImageBlock(data=text):
            return bytes(text)[:1] == b'"'
        case _:
            return True


def _good_output(output: Raw) -> bool:
    if is_string(output):
        return True
    try:
        return all(_good_block(block) for block in blocks_of(bytes(output)))
    except (ValueError, RecursionError):
        return False


def _good_system(raw: Raw) -> bool:
    text = bytes(raw)
    return is_string(raw) or (text[:1] == b"[" and all(one[:1] == b'"' for one in elements(text)))
