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
from typing import NamedTuple

import msgspec
from msgspec import Raw, Struct

from lore.errors import Where
from lore.formats.lines import fault
from lore.store.base import Damage, DamagedError, FormatError, Salvaged, Summary
from lore.store.jsonl_log import HINT, LogState, LogView, extended, groups
from lore.store.jsonl_records import Fault, Part, is_sealed, on_one_line, read, read_record, sealed

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
    summary: Summary | None = None
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


class Stored(NamedTuple):
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

    def extended(self, notes: LogState, lines: Sequence[bytes], digests: Sequence[bytes]) -> tuple[LogState, Pieces]:
        """Return the state behind a delta, whose notes `notes` has, and the pieces that it adds to the log."""
        state, pieces = self.state or notes, Pieces()
        for start, end in groups((b"", *lines)):
            before = state.head.number
            data, state = extended(state, notes, lines[start - 1 : end - 1], digests[start - 1 : end - 1])
            pieces.append((data, before))
        return state, pieces


class Pieces(list[tuple[bytes, int]]):
    """What a log grows by: bytes that begin with a record, and how many events came before each."""


def packed(stored: Stored, pieces: Pieces, name: Callable[[], str]) -> tuple[Stored, dict[str, bytes]]:
    """Put pieces behind what is stored, in parts where they are too long for the first object.

    Returns what is then stored, its state apart, and the parts to be written before it, by their names.
    """
    whole = [(stored.tail, stored.tail_after)] * bool(stored.tail) + pieces
    if sum(len(data) for data, _ in whole) <= TAIL:
        tail = b"".join(data for data, _ in whole)
        return stored._replace(tail=tail, tail_after=whole[0][1] if whole else stored.tail_after), {}
    parts, written = list(stored.parts), dict[str, bytes]()
    byte = parts[-1].byte + parts[-1].size if parts else 0
    waiting, after = bytearray(), whole[0][1]
    for number, (data, before) in enumerate(whole):
        after = after if waiting else before
        waiting += data
        if len(waiting) >= PART or number == len(whole) - 1:
            parts.append(PartRef(name(), byte, len(waiting), after))
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
        raise DamagedError(
            "what says how far the session is stored is damaged", hint=HINT, where=Where(place)
        ) from None
    if front.version > VERSION:
        raise FormatError(
            f"{place} is of version {front.version}: this lore knows {VERSION}",
            hint="use a newer lore; nothing was changed",
        )
    return front


def stored_of(data: bytes, place: str) -> Stored:
    """Read a session's first object; raises DamagedError, FormatError."""
    front = front_of(data, place)
    _, _, rest = data.partition(b"\n")
    line, _, tail = rest.partition(b"\n")
    try:
        back = _BACK.decode(line if front is not None and is_sealed(line) else b"")
    except ValueError:
        raise DamagedError("what says where the session's log is is damaged", hint=HINT, where=Where(place)) from None
    assert front is not None
    if front.summary is None:
        return Stored(front.write, front.born)
    fields = {name: getattr(front.summary, name) for name in Summary.__struct_fields__}
    state = LogState(
        **fields, end=back.end, torn=0, is_ended=True, metadata=bytes(back.metadata), metadata_at=back.metadata_at
    )
    return Stored(front.write, front.born, state, back.parts, tail, back.tail_after)


Fetch = Callable[[Sequence[PartRef]], Sequence[bytes | None]]


class ObjectLog(LogView):
    """A session's log among objects; `fetch` gets parts, None for one that is not there, `place` names it."""

    def __init__(self, stored: Stored, state: LogState, fetch: Fetch, place: str) -> None:
        self._stored, self._state, self._fetch, self.place = stored, state, fetch, place
        self._part: Part | None = None

    @property
    def state(self) -> LogState:
        return self._state

    def part(self, after: int) -> Part:
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

    def header(self) -> bytes:
        """Return the header's line; costs the first part."""
        refs = self._refs()[:1]
        part, missing = self._read(refs)
        if missing or not part.lines:
            raise self.damaged(self._fault(part, missing))
        return part.lines[0]

    def damaged(self, found: Fault) -> DamagedError:
        """Return the error for a place that is damaged."""
        which = "" if found.number is None else f"event {found.number}: "
        return DamagedError(f"{which}{found.message}", hint=HINT, where=Where(self.place, None, found.byte))

    def damage(self) -> tuple[int, list[Damage]]:
        """Read all of the log; return how many events are there, and what is damaged."""
        events, found = 0, list[Fault]()
        for part, missing in self._runs():
            events += len(part.lines)
            found += [*part.faults, *([self._fault(part, missing)] if missing else [])]
            last = part
            if not missing and not found and (last.number, last.digest.hex()) != (self.head.number, self.head.digest):
                found.append(Fault(None, last.end, "the log does not end as it is stored", "the events before"))
        name = self._state.session_id
        return events, [
            Damage(name, each.number, f"{self.place}, byte {each.byte} of the log", each.message, each.recoverable)
            for each in found
        ]

    def salvaged(self) -> Salvaged:
        """Return the events that no damage was found in, those of missing parts apart."""
        lines = list[bytes]()
        for part, _ in self._runs():
            damaged = {found.number for found in part.faults}
            lines += [
                line for number, line in enumerate(part.lines, part.first)
                if number not in damaged and line and not fault(line)
            ]  # fmt: skip
        return Salvaged(tuple(lines), max(0, self.head.number - len(lines)))

    def _refs(self) -> list[PartRef]:
        """Return the parts, the latest bytes as the last."""
        stored = self._stored
        tail = PartRef("", self._state.end - len(stored.tail), len(stored.tail), stored.tail_after)
        return [*stored.parts, tail] if stored.tail else [*stored.parts]

    def _read(self, refs: Sequence[PartRef]) -> tuple[Part, PartRef | None]:
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
            part, missing = Part(None), refs[0]
            part.end = part.offset = refs[0].byte
            return part, missing
        return read(whole, start), missing

    def _runs(self) -> list[tuple[Part, PartRef | None]]:
        """Read all parts, and go on behind each one that is missing."""
        refs, runs, at = self._refs(), list[tuple[Part, PartRef | None]](), 0
        while at < len(refs):
            part, missing = self._read(refs[at:])
            runs.append((part, missing))
            at = len(refs) if missing is None else refs.index(missing) + 1
        return runs

    def _fault(self, part: Part, missing: PartRef | None) -> Fault:
        """Return what is damaged first."""
        if part.faults or missing is None:
            return part.faults[0] if part.faults else Fault(1, 0, "the header is missing", "nothing")
        named = f"part {missing.name} of the log" if missing.name else "the end of the log"
        return Fault(missing.after + 1, missing.byte, f"{named} is missing or not whole", "the events of other parts")
