"""Packs: the files of a folder or an archive that are one recording, as one stream of bytes.

A pack has for each file a line of JSON, such as `{"lore_pack": "cline-task", "name": "ui_messages.json", "size": 9}`,
then its bytes and a line feed. A file that could not be read is a member with a `fault`, which becomes a problem.
Places of events and problems are those in the file itself. `recording/packed.py` makes packs.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import ClassVar

import msgspec
from msgspec import Struct

from lore.formats.base import Clock, Read, Yields
from lore.formats.lines import TOO_DEEP, Line, is_crowded, placed, too_many
from lore.model import lenient
from lore.model.codes import Code, Problem
from lore.model.jsonslice import is_deep
from lore.model.limits import MEMBER_BYTES, RECORD_VALUES
from lore.model.turn import Exchange

# Kinds of packs that are one session, and its files: a task of Cline, in the order in which its files are read; a
# session of Kimi CLI; one of OpenHands. They are here so that looking for them imports no reader.
CLINE_TASK = "cline-task"
UI, API = "ui_messages.json", "api_conversation_history.json"
METADATA, HISTORY = "task_metadata.json", "history_item.json"
TASK_FILES = (METADATA, HISTORY, UI, API)
KIMI_SESSION, WIRE, CONTEXT = "kimi-cli-session", "wire.jsonl", "context.jsonl"
OPENHANDS, STATE, EVENTS = "openhands", "base_state.json", "events"

OPENING = b'{"lore_pack":"'
_LONGEST_HEADER = 64 * 1024  # bytes of a sample's header


class PackHeader(Struct, frozen=True, rename={"has_response": "awaits", "lacks_request": "orphan", "is_file": "place"}):
    """The line before a member's bytes. Its members keep their names: offsets in the pack depend on them."""

    lore_pack: str  # kind of the pack
    name: str
    size: int = 0  # bytes
    fault: str = ""  # why the file could not be read
    at: float | None = None  # when it was written, if that is when the request was sent
    has_response: bool = False  # the next member is the response to this request
    lacks_request: bool = False  # a response without its request
    is_file: bool = False  # a file on the disk, not a member of an archive


class PackMember(Struct, frozen=True):
    """A file of a pack."""

    header: PackHeader
    number: int  # from 1
    byte: int  # offset of its bytes in the pack
    data: bytes

    def placed(self, value: Exchange | Problem | Read) -> Read:
        """Return a value with its place: in the pack, or in its own file."""
        if not self.header.is_file:
            return placed(value, Line(self.number, self.byte, b""))
        read = placed(value, Line(1, self.byte, b""))
        return read if read.file else msgspec.structs.replace(read, file=self.header.name)


def read_members(data: Iterable[bytes]) -> Iterator[PackMember | Problem]:
    """Yield the members of a pack, and problems: bytes that are not a header, a pack that ends inside a member."""
    pieces, buffer = filter(None, data), b""
    at = byte = number = 0  # place in the buffer, in the pack; number of the member
    while True:
        while (end := buffer.find(b"\n", at)) < 0 and len(buffer) - at <= _LONGEST_HEADER:
            if not (piece := next(pieces, b"")):
                break
            buffer, at = buffer[at:] + piece, 0
        line = buffer[at : end if end >= 0 else None]
        if end < 0 and not line.strip():
            return
        at, byte = at + len(line) + 1, byte + len(line) + 1
        if not line.strip():
            continue
        number += 1
        header: PackHeader | None = None
        with suppress(ValueError, RecursionError):
            header = lenient.decode(PackHeader, line)
        if header is not None and not 0 <= header.size <= MEMBER_BYTES:
            header = None
        if header is None and end >= 0:
            yield Problem(Code.UNREADABLE_LINE, "a file of a pack without its header", line=number, byte=byte)
            continue
        parts, size = list[bytes](), max(0, len(buffer) - at)
        while header is not None and size < header.size and (piece := next(pieces, b"")):
            parts.append(piece)
            size += len(piece)
        if header is None or size < header.size:
            yield Problem(Code.TORN_LAST_LINE, "the pack ends inside a file", line=number, byte=byte)
            return
        if parts:
            buffer, at = b"".join([buffer[at:], *parts]), 0
        yield PackMember(header, number, byte, buffer[at : at + header.size])
        at, byte = at + header.size, byte + header.size


class PackReader:
    """A reader of packs of one kind; a format implements `_read_member`."""

    name: ClassVar[str]
    yields: ClassVar[Yields] = "exchanges"
    clock: ClassVar[Clock] = "end"
    max_values: ClassVar[int] = RECORD_VALUES  # of one member

    @classmethod
    def recognises(cls, head: bytes) -> bool:
        return head.startswith(OPENING + cls.name.encode() + b'"')

    def read(self, data: Iterable[bytes]) -> Iterator[Read]:
        for member in read_members(data):
            if isinstance(member, Problem):
                yield Read(member, member.line or 1, member.byte or 0)
            else:
                yield from self._read(member)
        yield from self._flush()

    def _read(self, member: PackMember) -> Iterable[Read]:
        header = member.header
        if header.fault:
            fault = Problem(Code.ARCHIVE_REFUSED, f"{header.name}: {header.fault}")
        elif is_crowded(member.data, self.max_values):
            fault = Problem(Code.CAPTURE_TOO_LARGE, f"{header.name} is passed over: {too_many(self.max_values)}")
        elif is_deep(member.data):
            fault = Problem(Code.UNREADABLE_LINE, f"{header.name}: unreadable: {TOO_DEEP}")
        else:
            return map(member.placed, self._read_member(member))
        return [placed(fault, Line(member.number, member.byte, b""))]

    def _read_member(self, member: PackMember) -> Iterable[Exchange | Problem | Read]:
        """Return the values in one file; a lazy iterable must not change the reader."""
        raise NotImplementedError

    def _flush(self) -> list[Read]:
        """Return the reads that waited for further members."""
        return []


def in_file(name: str, reads: Iterable[Read]) -> list[Read]:
    """Return reads with the name of their file; those that have one keep it."""
    return [read if read.file else msgspec.structs.replace(read, file=name) for read in reads]
