"""lore's own session log, version 1: JSON Lines, one event a line, `session_started` first.

The fast lane decodes a line straight into its struct and refuses what it does not know; the slow lane
then reads camelCase keys, unknown keys and lone surrogates. What neither takes is an opaque event.
"""

from __future__ import annotations

from typing import ClassVar

import msgspec
from msgspec import Raw

from lore.formats.base import Clock, Read, Yields
from lore.formats.lines import Line, Lines, each, fault, split_joined, too_long
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
from lore.model.problems import Problem

_DECODER = msgspec.json.Decoder(e.Event)


class _State(msgspec.Struct, frozen=True):
    number: int
    byte: int
    pending: bytes
    begun: bool
    skipping: bool = False


class LoreLog:
    """Reader of lore's own logs."""

    name: ClassVar[str] = "lore"
    yields: ClassVar[Yields] = "events"
    clock: ClassVar[Clock] = "end"

    def __init__(self) -> None:
        self._lines = Lines()
        self._begun = False

    @classmethod
    def recognises(cls, head: bytes) -> bool:
        kind = (table(next(each(head), b"")) or {}).get("kind", b"")
        return lenient.snake(text_of(kind)) in e.KINDS

    @classmethod
    def restore(cls, state: bytes) -> LoreLog:
        saved = msgspec.msgpack.decode(state, type=_State)
        made = cls()
        made._lines = Lines(number=saved.number, byte=saved.byte, pending=saved.pending, skipping=saved.skipping)
        made._begun = saved.begun
        return made

    @property
    def state(self) -> bytes:
        lines = self._lines
        return msgspec.msgpack.encode(_State(lines.number, lines.byte, lines.pending, self._begun, lines.skipping))

    def feed(self, data: bytes) -> list[Read]:
        found: list[Read] = []
        for line in self._lines.feed(data):
            self._read(line, found, torn=False)
        return found

    def finish(self) -> list[Read]:
        found: list[Read] = []
        for line in self._lines.finish():
            self._read(line, found, torn=True)
        return found

    def _read(self, line: Line, found: list[Read], *, torn: bool) -> None:
        if not line.data:
            found.append(_problem(Code.LINE_TOO_LONG, f"line passed over: {too_long()}", line))
            return
        event = _event(line.data)
        if event is not None:
            self._begin(line, found, header=isinstance(event, e.SessionStarted))
            found.append(Read(event, line.number, line.byte))
            return
        reason = fault(line.data)
        if not reason:
            self._begin(line, found, header=b'"session_started"' in line.data)
            self._opaque(line, found)
            return
        joined = split_joined(line.data)
        if joined is not None:
            found.append(_problem(Code.JOINED_LINES, f"{len(joined)} records on one line", line))
            for piece in joined:
                self._read(Line(line.number, line.byte, piece), found, torn=False)
            return
        code = Code.TORN_LAST_LINE if torn else Code.UNREADABLE_LINE
        found.append(_problem(code, f"unreadable line: {reason}", line))

    def _begin(self, line: Line, found: list[Read], *, header: bool) -> None:
        if not self._begun and not header:
            found.append(_problem(Code.BAD_HEADER, "the log does not begin with session_started", line))
        self._begun = True

    def _opaque(self, line: Line, found: list[Read]) -> None:
        """Keep a record of unknown kind, or whose fields have the wrong types, as it is."""
        kind = _kind_of(line.data) or "(none)"
        if lenient.snake(kind) in e.KINDS:
            problem = _problem(
                Code.MALFORMED_RECORD, f"{kind} record has missing or wrong fields; kept as opaque", line
            )
        else:
            problem = _problem(
                Code.UNKNOWN_RECORD, f"unknown record kind {printable(kind[:60])!r}; kept as opaque", line
            )
        found.append(problem)
        found.append(Read(e.OpaqueEvent(record=Raw(line.data)), line.number, line.byte))


def _problem(code: str, message: str, line: Line) -> Read:
    return Read(Problem(code, message, line=line.number, byte=line.byte), line.number, line.byte)


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
            return _good_system(system) and _good_params(params)
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


def _good_params(raw: Raw) -> bool:
    return bytes(raw)[:1] == b"{" or is_absent(raw)
