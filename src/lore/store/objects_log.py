"""One session among objects: what its first object says, and its log, which lies there and in parts.

The log is that of a folder (`jsonl_records`): the header's line, then records with the events of a delta behind each.
Its latest bytes stand in the session's first object, behind two lines that say how far it is stored; what came before
stands in parts, objects that are written once under a name that is never used again. So one write on a condition, that
of the first object, stores a delta; and all parts that it names, put together in order, with its own bytes behind
them, are a log that every reader of lore's logs takes.

    {"version":1,"write":…,"born":…,"deleted":…,"summary":{…},"check":…}      what a list says, from the first 16 KiB
    {"metadata":…,"end":…,"parts":[[name, byte, size, after], …],"check":…}   where the rest of the log is
    …                                                                         its latest bytes

`write` names the write that made this object, `born` the session since it was created: one that is deleted and created
again is another. What is deleted leaves its two lines, `deleted` being true, without what it was.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from secrets import token_hex
from typing import NamedTuple

import msgspec
from msgspec import Raw, Struct

from lore.errors import Where
from lore.store.base import (
    DamagedError,
    DamagedPlace,
    Salvaged,
    SessionSummary,
    like,
    refuse_newer,
)
from lore.store.deltas import Addition
from lore.store.jsonl_folder import name_of
from lore.store.jsonl_log import LogState, LogView, pieces
from lore.store.jsonl_records import Fault, LogPart, is_sealed, on_one_line, read, read_record, sealed
from lore.store.lines import SessionHeader, read_header

VERSION = 1
TAIL = 128 * 1024  # bytes of a log that its first object holds at most: each save sends them again
PART = 4 * 1024 * 1024  # bytes of a part, where that many are written at once; one record and its events stay together
FRONT = 16 * 1024  # bytes in which the first line of almost every session ends


class PartRef(Struct, frozen=True, array_like=True):
    """A part of a log: its name, where it begins in the log, its bytes, and the events that came before it."""

    name: str
    byte: int
    size: int
    after: int


class Front(Struct, frozen=True, kw_only=True):
    """The first line of a session's object; `summary` is None where it was deleted."""

    version: int = VERSION
    write: str
    born: str
    deleted: bool = False
    summary: SessionSummary | None = None
    check: str = ""


class Back(Struct, frozen=True, kw_only=True):
    """The second line. `tail_after` events came before the bytes behind it."""

    metadata: Raw = Raw(b"{}")
    metadata_at: int | None = None
    end: int = 0
    parts: tuple[PartRef, ...] = ()
    tail_after: int = 0
    check: str = ""


_FRONT, _BACK = msgspec.json.Decoder(Front), msgspec.json.Decoder(Back)


class StoredObject(NamedTuple):
    """What a session's first object says; `state` is None where it was deleted. `tail` are the log's latest bytes."""

    write: str
    born: str
    state: LogState | None = None
    parts: tuple[PartRef, ...] = ()
    tail: bytes = b""
    tail_after: int = 0

    def encoded(self) -> bytes:
        """Return the object's bytes."""
        state = self.state
        front = Front(
            write=self.write, born=self.born, deleted=state is None, summary=None if state is None else state.summary
        )
        back = Back(parts=self.parts, tail_after=self.tail_after)
        if state is not None:
            metadata = Raw(on_one_line(state.metadata))
            back = msgspec.structs.replace(back, metadata=metadata, metadata_at=state.metadata_at, end=state.end)
        lines = (sealed(msgspec.json.encode(line).removesuffix(b',"check":""}')) for line in (front, back))
        return b"\n".join((*lines, self.tail))


def packed(stored: StoredObject | None, addition: Addition) -> tuple[StoredObject, dict[str, bytes]]:
    """Put events and notes behind what is stored, in parts where they are too long for the first object.

    Returns what is then stored, and the parts to be written before it, by their names.
    """
    if stored is None or stored.state is None:  # the header stands before every record
        stored = StoredObject("", token_hex(8), tail=(addition.header or b"") + b"\n")
    whole, state = [(stored.tail, stored.tail_after)] if stored.tail else [], addition.state
    for data, then in pieces(addition):
        whole.append((data, state.head.number))
        state = then
    stored = stored._replace(state=state, write=token_hex(8))
    if sum(len(data) for data, _ in whole) <= TAIL:
        return stored._replace(tail=b"".join(data for data, _ in whole), tail_after=whole[0][1]), {}
    parts, written = list(stored.parts), dict[str, bytes]()
    byte = parts[-1].byte + parts[-1].size if parts else 0
    waiting, after = bytearray(), whole[0][1]
    for number, (data, before) in enumerate(whole):
        after = after if waiting else before
        waiting += data
        if len(waiting) >= PART or number == len(whole) - 1:
            parts.append(PartRef(token_hex(16), byte, len(waiting), after))
            written[parts[-1].name] = bytes(waiting)
            byte += len(waiting)
            waiting.clear()
    return stored._replace(parts=tuple(parts), tail=b"", tail_after=-1), written


def front_of(data: bytes, place: str) -> Front | None:
    """Read the first line of a session's object; None where it does not end within these bytes.

    Raises DamagedError, FormatError.
    """
    line, end, _ = data.partition(b"\n")
    if not end:
        return None
    try:
        front = _FRONT.decode(line if is_sealed(line) else b"")
    except ValueError:
        raise DamagedError("what says how far the session is stored is damaged", where=Where(place)) from None
    refuse_newer(f"{place} is of", front.version, VERSION)
    return front


def stored_of(data: bytes, place: str) -> StoredObject:
    """Read a session's first object; raises DamagedError, FormatError."""
    front = front_of(data, place)
    _, _, rest = data.partition(b"\n")
    line, _, tail = rest.partition(b"\n")
    try:
        back = _BACK.decode(line if front is not None and is_sealed(line) else b"")
    except ValueError:
        raise DamagedError("what says where the session's log is is damaged", where=Where(place)) from None
    assert front is not None
    if front.summary is None:
        return StoredObject(front.write, front.born)
    metadata = bytes(back.metadata)
    state = like(LogState, front.summary, end=back.end, metadata=metadata, metadata_at=back.metadata_at)
    return StoredObject(front.write, front.born, state, back.parts, tail, back.tail_after)


Fetch = Callable[[Sequence[PartRef]], Sequence[bytes | None]]


class ObjectLog(LogView):
    """A session's log among objects; `fetch` gets parts, None for one that is not there, `place` names it."""

    def __init__(self, stored: StoredObject, state: LogState, fetch: Fetch, place: str) -> None:
        self._stored, self._state, self._fetch, self.place = stored, state, fetch, place
        self._part: LogPart | None = None

    @property
    def state(self) -> LogState:
        return self._state

    def part(self, after: int) -> LogPart:
        """Return the events that came after a number, perhaps with some before; raises DamagedError.

        What is stored behind the last of them is compared with the head. Costs the parts that hold them.
        """
        if self._part is None or self._part.first > after + 1:
            refs = self._refs()
            first = max((at for at, ref in enumerate(refs) if ref.after <= after), default=0)
            part, missing = self._read(refs[first:])
            if part.faults or missing:
                raise self.damaged(self._fault(part, missing))
            if (part.number, part.digest.hex(), part.end) != (self.head.number, self.head.digest, self._state.end):
                raise self.damaged(Fault(None, part.end, "the log does not end as it is stored", "the events before"))
            self._part = part
        return self._part

    def header(self) -> SessionHeader:
        """Return the session's header; costs the first part."""
        part, missing = self._read(self._refs()[:1])
        if missing or not part.lines:
            raise self.damaged(self._fault(part, missing))
        return read_header(part.lines[0])

    def damage(self) -> tuple[int, list[DamagedPlace]]:
        """Read all of the log; return how many events are there, and what is damaged."""
        events, found = 0, list[Fault]()
        for part, missing in self._runs():
            events += len(part.lines)
            found += [*part.faults, *([self._fault(part, missing)] if missing else [])]
            last = part
            if not missing and not found and (last.number, last.digest.hex()) != (self.head.number, self.head.digest):
                found.append(Fault(None, last.end, "the log does not end as it is stored", "the events before"))
        name = self._state.session_id
        return events, [each.damage(name, f"{self.place}, byte {each.byte} of the log") for each in found]

    def salvaged(self) -> Salvaged:
        """Return the events that no damage was found in, those of missing parts apart."""
        lines = [line for part, _ in self._runs() for line in part.whole]
        return Salvaged(tuple(lines), max(0, self.head.number - len(lines)))

    def _refs(self) -> list[PartRef]:
        """Return the parts, the latest bytes as the last."""
        stored = self._stored
        tail = PartRef("", self._state.end - len(stored.tail), len(stored.tail), stored.tail_after)
        return [*stored.parts, tail] if stored.tail else [*stored.parts]

    def _read(self, refs: Sequence[PartRef]) -> tuple[LogPart, PartRef | None]:
        """Read parts that follow one another, up to one that is not there, which is returned beside."""
        named = [ref for ref in refs if ref.name]
        found = dict(zip([ref.name for ref in named], self._fetch(named), strict=True)) | {"": self._stored.tail}
        data, missing = bytearray(), None
        for ref in refs:
            piece = found[ref.name]
            if piece is None or len(piece) != ref.size:
                missing = ref
                break
            data += piece
        whole = bytes(data)
        start = read_record(whole.partition(b"\n")[0], refs[0].byte) if refs and refs[0].after else None
        if refs and refs[0].after and start is None and whole:
            part, missing = LogPart(None), refs[0]
            part.end = part.offset = refs[0].byte
            return part, missing
        return read(whole, start), missing

    def _runs(self) -> list[tuple[LogPart, PartRef | None]]:
        """Read all parts, and go on behind each one that is missing."""
        refs, runs, at = self._refs(), list[tuple[LogPart, PartRef | None]](), 0
        while at < len(refs):
            part, missing = self._read(refs[at:])
            runs.append((part, missing))
            at = len(refs) if missing is None else refs.index(missing) + 1
        return runs

    def _fault(self, part: LogPart, missing: PartRef | None) -> Fault:
        """Return what is damaged first."""
        if part.faults or missing is None:
            return part.faults[0] if part.faults else Fault(1, 0, "the header is missing", "nothing")
        named = f"part {missing.name} of the log" if missing.name else "the end of the log"
        return Fault(missing.after + 1, missing.byte, f"{named} is missing or not whole", "the events of other parts")


def key_of(session_id: str) -> str:
    """Return the key of a session's object."""
    return f"heads/{name_of(session_id)}"


def folder_of(kind: str, session_id: str, born: str) -> str:
    """Return where a session keeps its parts, or the key of its checkpoint; another one after it was deleted."""
    return f"{kind}/{name_of(session_id)}/{born}"
