"""What is written into a log: a delta behind what is there, or all of a session."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec import Raw, Struct

from lore.model.events import Saved
from lore.model.items import NULL
from lore.store.base import EMPTY
from lore.store.jsonl_records import with_lines
from lore.store.jsonl_state import LogState

MOST = 50_000  # events behind one record: it names 64 digits for each, and no reader takes a line over 12 MiB
REPEATED = 1024  # bytes of metadata that each record says again; longer ones stand where they changed
_GROUP, _GROUP_BYTES = 1000, 1024 * 1024  # events, and about their bytes, behind one record of a whole session


class Notes(Struct, frozen=True, kw_only=True):
    """What a record says of its session beside the events; `metadata` is on one line."""

    leaf_id: str | None = None
    metadata: bytes = EMPTY
    project_id: str | None = None
    created_at: str | None = None
    updated_at: str | None = None


def delta_bytes(state: LogState, lines: Sequence[bytes], digests: Sequence[bytes], notes: Notes) -> bytes:
    """Return what is written behind a session for a delta, in one piece."""
    at = metadata_at(state, notes)
    byte = state.end + (not state.is_ended)
    record = _record(byte, state.head.number, state.head.digest, state.log, lines, digests, notes, at)
    return (b"" if state.is_ended else b"\n") + with_lines(record, lines)


def metadata_at(state: LogState, notes: Notes) -> int | None:
    """Return the byte of the record that has the metadata already, where it need not be said again."""
    is_same = notes.metadata == state.metadata and len(notes.metadata) > REPEATED
    return state.metadata_at if is_same else None


def whole_bytes(events: Sequence[bytes], digests: Sequence[bytes], notes: Notes) -> Iterator[bytes]:
    """Yield a whole log in pieces: the header, and the events in groups, each behind a record."""
    yield events[0] + b"\n"
    byte = log = len(events[0]) + 1
    at: int | None = None
    for start, end in _groups(events):
        lines = events[start:end]
        base = digests[start - 1].hex()
        data = with_lines(_record(byte, start, base, log, lines, digests[start:end], notes, at), lines)
        yield data
        at = byte if at is None and len(notes.metadata) > REPEATED else at
        byte += len(data)
        log += sum(map(len, lines)) + len(lines)


def _groups(events: Sequence[bytes]) -> Iterator[tuple[int, int]]:
    """Yield the ranges of events behind one record each, at least one."""
    start, held = 1, 0
    for place in range(1, len(events)):
        held += len(events[place])
        if place + 1 - start >= _GROUP or held >= _GROUP_BYTES:
            yield start, place + 1
            start, held = place + 1, 0
    if start < len(events) or start == 1:
        yield start, len(events)


def _record(
    byte: int, after: int, base: str, log: int, lines: Sequence[bytes], digests: Sequence[bytes], notes: Notes,
    at: int | None,
) -> Saved:  # fmt: skip
    metadata = NULL if at is not None or notes.metadata == EMPTY else Raw(notes.metadata)
    return Saved(
        size=sum(map(len, lines)) + len(lines), after=after, base=base, log=log,
        digests=tuple(map(bytes.hex, digests)), leaf_id=notes.leaf_id, metadata=metadata, metadata_at=at,
        project_id=notes.project_id, created_at=notes.created_at, updated_at=notes.updated_at, byte=byte,
    )  # fmt: skip
