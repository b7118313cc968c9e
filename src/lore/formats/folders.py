"""Folders and archives as one recording: how several files come to a reader, which opens none.

In: for each file one line of JSON, `{"lore_pack": KIND, "name": …, "size": N, …}`, then its N bytes and a line
feed. Out: members. Rules: what `corpus` could not read is a member with a `fault`, and becomes a problem; a
member longer than a line may be is passed over. Places are those of the file itself: line 1 of its name.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain as chained
from typing import ClassVar

import msgspec
from msgspec import Struct

from lore.formats.base import Clock, Read, Yields
from lore.formats.bounds import is_crowded, is_deep, too_deep, too_many
from lore.model.codes import Code, Problem
from lore.model.limits import MEMBER_BYTES, RECORD_VALUES
from lore.model.turn import Exchange

# Names and files of sessions that are folders, here so that none of their readers is imported to look for them: a task
# of Cline, in the order in which its files are read; a session of Kimi CLI; one of OpenHands.
CLINE_TASK = "cline-task"
UI, API, METADATA, HISTORY = (
    "ui_messages.json",
    "api_conversation_history.json",
    "task_metadata.json",
    "history_item.json",
)
TASK_FILES = (METADATA, HISTORY, UI, API)
KIMI_SESSION, WIRE, CONTEXT = "kimi-cli-session", "wire.jsonl", "context.jsonl"
OPENHANDS, STATE, EVENTS = "openhands", "base_state.json", "events"

OPENING = b'{"lore_pack":"'
_LONGEST_HEADER = 64 * 1024  # bytes of a sample's header


class PackHeader(Struct, frozen=True):
    """What is known of a file beside its bytes.

    `fault` says why it has none; `at` is when it was written, where that tells when it was sent; `awaits` that
    the next member is the response to this request; `place` says that it is a file of its own on the disk.
    """

    lore_pack: str
    name: str
    size: int = 0
    fault: str = ""
    at: float | None = None
    awaits: bool = False
    orphan: bool = False
    place: bool = False


class PackMember(Struct, frozen=True):
    """A file of a pack: its header, its number from 1, where its bytes start in the pack, its bytes."""

    header: PackHeader
    number: int
    byte: int
    data: bytes


class PackReader:
    """A reader of packs of one kind; a format says in `_member` what one holds."""

    name: ClassVar[str]
    yields: ClassVar[Yields] = "exchanges"
    clock: ClassVar[Clock] = "end"
    most: ClassVar[int] = RECORD_VALUES  # of one member

    def __init__(self) -> None:
        self._number = 0
        self._byte = 0
        self._header: PackHeader | None = None
        self._pending: list[bytes] = []
        self._size = 0

    @classmethod
    def recognises(cls, head: bytes) -> bool:
        return head.startswith(OPENING + cls.name.encode() + b'"')

    def feed(self, data: bytes) -> Iterable[Read]:
        self._pending.append(data)
        self._size += len(data)
        found: list[Iterable[Read]] = []
        ended = b"\n" in data
        while self._size >= self._header.size if self._header is not None else ended or self._size > _LONGEST_HEADER:
            inside, pending = self._header is not None, b"".join(self._pending)
            self._pending, self._size = [], 0  # let go of the pieces: what is joined may be large
            taken = self._cut(pending, found)
            rest = pending[taken:]
            self._pending, self._size = ([rest] if rest else []), len(rest)
            self._byte += taken
            ended = b"\n" in rest
            if not taken and not inside:
                break
        return chained.from_iterable(found)

    def _cut(self, pending: bytes, found: list[Iterable[Read]]) -> int:
        """Read a header or a member; return how many bytes it has."""
        header = self._header
        if header is not None:
            self._header = None
            found.append(self._read(PackMember(header, self._number, self._byte, pending[: header.size])))
            return header.size
        end = pending.find(b"\n")
        line = pending[: end if end >= 0 else None]
        if end < 0 and len(pending) <= _LONGEST_HEADER:
            return 0
        if line.strip():
            self._number += 1
            try:
                header = msgspec.json.decode(line if end >= 0 else b"", type=PackHeader)
                self._header = header if 0 <= header.size <= MEMBER_BYTES else None
            except (ValueError, RecursionError):
                self._header = None
            if self._header is None:
                found.append([self._fault(Code.UNREADABLE_LINE, "a file of a pack without its header", self._number)])
        return len(line) + (end >= 0)

    def finish(self) -> Iterable[Read]:
        rest = b"".join(self._pending)
        self._pending, self._size = [], 0
        header, self._header = self._header, None
        found: Iterable[Read] = ()
        if header is not None or rest.strip():
            found = [self._fault(Code.TORN_LAST_LINE, "the pack ends inside a file", max(1, self._number))]
        return chained(found, self._rest())

    def _read(self, member: PackMember) -> Iterable[Read]:
        header, number, byte = member.header, member.number, self._byte
        if header.fault:
            return [self._fault(Code.ARCHIVE_REFUSED, f"{header.name}: {header.fault}", number)]
        if is_crowded(member.data, self.most):
            reason = f"{header.name} is passed over: {too_many(self.most)}"
            return [self._fault(Code.CAPTURE_TOO_LARGE, reason, number)]
        if is_deep(member.data):
            return [self._fault(Code.UNREADABLE_LINE, f"{header.name}: unreadable: {too_deep()}", number)]
        return (placed(value, number, byte, header) for value in self._member(member))

    def _fault(self, code: Code, message: str, number: int) -> Read:
        return placed(Problem(code, message), number, self._byte)

    def _member(self, member: PackMember) -> Iterable[Exchange | Problem | Read]:
        """Return what one file holds; where it is made as it is asked for, it must leave the reader as it is."""
        raise NotImplementedError

    def _rest(self) -> list[Read]:
        """Return what was held back for members that did not come."""
        return []


def placed(value: Exchange | Problem | Read, number: int, byte: int, header: PackHeader | None = None) -> Read:
    """Give a value its place: in the pack, or in a file of its own."""
    if isinstance(value, Read):
        return value
    if isinstance(value, Problem):
        value = msgspec.structs.replace(value, line=number, byte=byte)
    own = header is not None and header.place
    return Read(value, 1 if own else number, byte, header.name if own and header is not None else "")


def in_file(name: str, reads: Iterable[Read]) -> list[Read]:
    """Name the file of what was read, where that does not say so itself."""
    return [read if read.file else msgspec.structs.replace(read, file=name) for read in reads]
