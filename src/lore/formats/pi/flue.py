"""flue's sessions (`SessionData`, version 2): one JSON document, or JSON Lines of a header, entries and deltas.

In: a document `{version, entries, leafId, metadata, createdAt, updatedAt}`, which may also be one line of many; a
header, the same without entries; entries `{type, id, parentId, timestamp, …}`; deltas `{newEntries, removedEntryIds,
leafId, …}`. Out: events, as the path through the entries makes them (`flue_path.py`).

Rules: removals are applied before what is new; what comes again by its id changes nothing; a document behind other
lines is all there is, and what it does not list is gone; no `newEntries` never means that anything goes. The leaf of a
header holds when all entries behind it are read, that of a document or a delta at once. Source: flue's pull request 95
and its session history of 2026.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import ClassVar

import msgspec
from msgspec import Raw

from lore.formats.base import Read, Yields
from lore.formats.lines import BOM, LONGEST, SPACE, Line, RecordReader, array_at, first_records
from lore.formats.pi import flue_messages as messages
from lore.formats.pi.flue_path import FlueEntry, FlueMemory, FluePath
from lore.model import events as e
from lore.model.canonical import printable
from lore.model.codes import Code
from lore.model.jsonslice import array, element_ranges, members, table
from lore.model.mask import cut_masked

_HEADER = frozenset(("version", "leafId"))
_ENTRY = frozenset(("type", "id", "parentId", "timestamp"))
_DELTA = frozenset(("newEntries", "removedEntryIds"))
_OPENING = re.compile(rb'[ \t\r\n]*\{[ \t\r\n]*"(?:type|id|parentId|timestamp|message)"')


class Flue(RecordReader):
    """Reader of flue's sessions."""

    name: ClassVar[str] = "flue"
    yields: ClassVar[Yields] = "events"
    times: ClassVar[int] = 4  # a line may be a whole session
    largest: ClassVar[int] = times * LONGEST
    most: ClassVar[int] = 1_000_000

    def __init__(self) -> None:
        super().__init__()
        self._path = FluePath()

    @classmethod
    def recognises(cls, head: bytes) -> bool:
        own = table(next(iter(first_records(head)), b"")) or {}
        if own.keys() >= _ENTRY:
            return messages.kind_of(own) != ""
        if own:
            header = own.keys() >= _HEADER and "type" not in own and own.get("entries", b"[")[:1] == b"["
            return header or _is_delta(own)
        at = array_at(head, (".entries",)) if head.removeprefix(BOM).lstrip(SPACE)[:1] == b"{" else -1
        return at >= 0 and _OPENING.match(head, at) is not None and b'"parentId"' in head

    def _save(self) -> bytes:
        return msgspec.msgpack.encode((super()._save(), self._path.state))

    def _load(self, saved: bytes) -> None:
        own, state = msgspec.msgpack.decode(saved, type=tuple[bytes, FlueMemory])
        super()._load(own)
        self._path = FluePath(state)

    def _values(self, data: bytes, line: Line) -> Sequence[Read]:
        own, path = table(data) or {}, self._path
        path.place = line.number, line.byte
        if own.get("entries", b"")[:1] == b"[":
            self._session(data, own, line)
        elif _is_delta(own):
            path.state.known, path.state.named = True, ""
            path.remove([messages.word({"id": raw}, "id") for raw in array(own.get("removedEntryIds", b"[]"))])
            for raw in array(own.get("newEntries", b"[]")):
                self._put(raw)
            path.lead(messages.word(own, "leafId"))
        elif "type" not in own and not _HEADER.isdisjoint(own):
            self._header(own)
            path.state.named = messages.word(own, "leafId")
        else:
            self._put(data)
        return path.taken()

    def _header(self, own: messages.Members) -> None:
        state = self._path.state
        state.known = True
        state.created = state.created or messages.word(own, "createdAt") or None
        version = own.get("version", b"2")
        if version != b"2":
            shown = printable(cut_masked(version.decode("utf-8", "replace"), 20))
            self._path.problem(Code.BAD_HEADER, f"session version {shown} is not 2; read as version 2")

    def _session(self, data: bytes, own: messages.Members, line: Line) -> None:
        """Take a session that is saved whole, each entry at its own place in the file."""
        self._header(own)
        listed, path = own["entries"], self._path
        start = line.data.find(data[:1]) + next(m.value for m in reversed(members(data)) if m.key == "entries")
        ranges = element_ranges(listed)
        names = {messages.word(table(listed[begin:end]) or {}, "id") for begin, end in ranges}
        path.remove([name for name in path.state.entries if name not in names])
        number, before = line.number + line.data.count(b"\n", 0, start), 0
        for begin, end in ranges:
            number += listed.count(b"\n", before, begin)
            path.place, before = (number, line.byte + start + begin), begin
            self._put(listed[begin:end])
        path.state.named = ""
        path.lead(messages.word(own, "leafId"))

    def _put(self, raw: bytes) -> None:
        """Take an entry; one whose id is known changes nothing."""
        own, path = table(raw) or {}, self._path
        name = messages.word(own, "id")
        if not name or "type" not in own:
            path.problem(Code.UNKNOWN_RECORD, "neither a header, an entry nor a delta; kept as opaque")
            path.emit(e.OpaqueEvent(record=Raw(raw)))
            return
        known = path.state.entries.get(name)
        if known is not None:
            if known.raw != raw:
                path.problem(Code.DUPLICATE_UUID, f"entry {name!r} comes again with other content; the first holds")
            return
        kind = messages.kind_of(own)
        if not kind:
            shown = printable(cut_masked(messages.word(own, "type"), 60))
            path.problem(Code.UNKNOWN_RECORD, f"entry {name!r} of unknown type {shown!r}; kept as opaque")
        path.put(name, FlueEntry(raw, kind, messages.word(own, "parentId"), *path.place))

    def _rest(self) -> Sequence[Read]:
        self._path.finish()
        return self._path.taken()


def _is_delta(own: messages.Members) -> bool:
    return "type" not in own and any(own.get(key, b"")[:1] == b"[" for key in _DELTA)
