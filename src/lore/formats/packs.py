"""Several files as one recording: how a folder or an archive comes to a reader, which opens none.

In: for each file one line of JSON, `{"lore_pack": KIND, "name": …, "size": N, …}`, then its N bytes and a line
feed. Out: members. Rules: what `corpus` could not read is a member with a `fault`, and becomes a problem; a
member longer than a line may be is passed over. Places are those of the file itself: line 1 of its name.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Self

import msgspec
from msgspec import Struct

from lore.formats.base import Clock, Read, Yields
from lore.formats.lines import LONGEST
from lore.model.exchange import Exchange
from lore.model.problems import Problem

OPENING = b'{"lore_pack":"'
_LONGEST_HEADER = 64 * 1024


class Header(Struct, frozen=True):
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


class Member(Struct, frozen=True):
    """A file of a pack: its header, its number from 1, where its bytes start in the pack, its bytes."""

    header: Header
    number: int
    byte: int
    data: bytes


class _State(Struct, frozen=True):
    number: int
    byte: int
    header: Header | None
    pending: bytes
    own: bytes


_HEADER = msgspec.json.Decoder(Header)


def header_of(line: bytes) -> Header | None:
    """Read a member's first line; None where it is none."""
    try:
        found = _HEADER.decode(line)
    except (ValueError, RecursionError):
        return None
    return found if 0 <= found.size <= LONGEST else None


class PackReader:
    """A reader of packs of one kind; a format says in `_member` what one holds."""

    name: ClassVar[str]
    yields: ClassVar[Yields] = "exchanges"
    clock: ClassVar[Clock] = "end"

    def __init__(self) -> None:
        self._number = 0
        self._byte = 0
        self._header: Header | None = None
        self._pending: list[bytes] = []
        self._size = 0

    @classmethod
    def recognises(cls, head: bytes) -> bool:
        return head.startswith(OPENING + cls.name.encode() + b'"')

    @classmethod
    def restore(cls, state: bytes) -> Self:
        saved = msgspec.msgpack.decode(state, type=_State)
        made = cls()
        made._number, made._byte, made._header = saved.number, saved.byte, saved.header
        made._pending, made._size = [saved.pending] if saved.pending else [], len(saved.pending)
        made._own = saved.own
        return made

    @property
    def state(self) -> bytes:
        pending = b"".join(self._pending)
        return msgspec.msgpack.encode(_State(self._number, self._byte, self._header, pending, self._own))

    @property
    def _own(self) -> bytes:
        """What the format itself remembers from member to member."""
        return b""

    @_own.setter
    def _own(self, saved: bytes) -> None:
        del saved

    def feed(self, data: bytes) -> list[Read]:
        self._pending.append(data)
        self._size += len(data)
        found: list[Read] = []
        while self._header is not None or b"\n" in data or self._size > _LONGEST_HEADER:
            if self._header is not None and self._size <= self._header.size:
                break  # the member's own end has not come
            pending = b"".join(self._pending)
            taken = self._take(pending, found)
            data = pending[taken:]
            self._pending, self._size = ([data] if data else []), len(data)
            self._byte += taken
            if not taken:
                break
        return found

    def _take(self, pending: bytes, found: list[Read]) -> int:
        """Read a header or a member; return how many bytes it has."""
        header = self._header
        if header is not None:
            self._header = None
            found += self._read(Member(header, self._number, self._byte, pending[: header.size]))
            return header.size + 1
        end = pending.find(b"\n")
        if end < 0 and len(pending) <= _LONGEST_HEADER:
            return 0
        self._number += 1
        self._header = header_of(pending[:end]) if end >= 0 else None
        if self._header is None and pending[: end if end >= 0 else None].strip():
            found.append(self._placed(Problem("LORE201", "a file of a pack without its header"), self._number))
        return end + 1 if end >= 0 else len(pending)

    def finish(self) -> list[Read]:
        found: list[Read] = []
        rest = b"".join(self._pending)
        self._pending, self._size = [], 0
        header, self._header = self._header, None
        if header is not None and len(rest) >= header.size:
            found = self._read(Member(header, self._number, self._byte, rest[: header.size]))
        elif header is not None or rest.strip():
            found = [self._placed(Problem("LORE202", "the pack ends inside a file"), max(1, self._number))]
        return [*found, *self._rest()]

    def _read(self, member: Member) -> list[Read]:
        header = member.header
        if header.fault:
            return [self._placed(Problem("LORE225", f"{header.name}: {header.fault}"), member.number)]
        return [self._placed(one, member.number, header) for one in self._member(member)]

    def _placed(self, value: Exchange | Problem | Read, number: int, header: Header | None = None) -> Read:
        if isinstance(value, Read):
            return value
        own = header is not None and header.place
        if isinstance(value, Problem):
            value = msgspec.structs.replace(value, line=number, byte=self._byte)
        return Read(value, 1 if own else number, self._byte, header.name if own and header is not None else "")

    def _member(self, member: Member) -> Sequence[Exchange | Problem | Read]:
        """Return what one file holds."""
        raise NotImplementedError

    def _rest(self) -> list[Read]:
        """Return what was held back for members that did not come."""
        return []
