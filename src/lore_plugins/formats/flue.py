"""The reader of flue's sessions (`SessionData`, version 2): a JSON document, or JSON Lines of header, entries, deltas.

Records: a document `{version, entries, leafId, metadata, createdAt, updatedAt}`, which may be one line of several; a
header, the same without entries; entries `{type, id, parentId, timestamp, …}`; deltas `{newEntries, removedEntryIds,
leafId, …}`.

Removals are applied before new entries. An entry with a known id changes nothing. A document after other lines replaces
everything; entries that it does not list are removed. A missing `newEntries` removes nothing. The leaf of a header
applies after all entries that follow, that of a document or a delta at once.

Entries form a tree, and the model sees the path from a root to the leaf, along all known parents. When the path moves
to another branch, items are removed and appended again; answers on abandoned branches remain turns. A compaction keeps
the path from its `firstKeptEntryId`, or nothing if that is not on the path. Cost: O(bytes of the entries); after
`MOST_REPLAYED` repeated entries branches are followed only at the end.

Source: flue's pull request 95 and its session history of 2026.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import ClassVar, NamedTuple

from msgspec import Raw, Struct
from msgspec.structs import replace

from lore.formats import BOM, SPACE, Line, Read, RecordReader, Yields, array_at, first_records
from lore.model import (
    RECORD_BYTES,
    Code,
    Item,
    Problem,
    ToolCall,
    array,
    cut_masked,
    element_ranges,
    member_ranges,
    printable,
    raw_members,
)
from lore.model import events as e
from lore_plugins.formats import flue_messages as messages

MOST_REPLAYED = 100_000  # repeated entries; real sessions have some hundred
_RESULT, _COMPACTION = "toolResult", "compaction"


class FlueEntry(Struct, frozen=True, gc=False):
    """An entry and its place in the file."""

    raw: bytes
    kind: str
    parent: str
    line: int
    byte: int


class FlueMemory(Struct):
    """The state of the reader."""

    entries: dict[str, FlueEntry] = {}
    path: list[str] = []  # entries from the root to the current leaf
    waiting: list[str] = []  # entries before the first answer, which has the model and dialect for the header
    known: bool = False  # whether the file is a session
    begun: bool = False
    created: str | None = None
    named: str = ""  # the leaf of a header, until all entries are read
    turn: int = 0
    model: str | None = None
    answers: dict[str, None] = {}  # answers that were emitted as turns
    calls: dict[str, str] = {}  # items by call id
    replayed: int = 0  # entries that were repeated
    removed: list[str] = []  # entries still to remove, because of `MOST_REPLAYED`
    place: tuple[int, int] = (1, 0)  # line and byte of problems


class _Walk(NamedTuple):
    """A path to an entry, as a change of the current one."""

    keep: int  # entries of the current path to keep
    new: list[str]  # entries after them


class FluePath:
    """The current path, and the events of its changes."""

    def __init__(self) -> None:
        self.state = FlueMemory()
        self._places: dict[str, int] = {}  # index by entry of the path
        self._folds: list[int] = []  # indexes of its compactions
        self._found: list[Read] = []

    def take_reads(self) -> list[Read]:
        """Return and forget the reads since the last call."""
        found, self._found = self._found, []
        return found

    def put(self, name: str, entry: FlueEntry) -> None:
        """Add a new entry."""
        self.state.entries[name] = entry
        if self.state.begun:
            self._follow(name)
            return
        self.state.waiting.append(name)
        if entry.kind == "assistant":
            self.begin()

    def begin(self) -> None:
        """Emit the header, with model and dialect of the first answer, and the waiting entries."""
        state = self.state
        state.begun = True
        waiting, state.waiting = state.waiting, []
        first = state.entries[waiting[0]] if waiting else None
        last = state.entries[waiting[-1]] if waiting else None
        answer = messages.answer_of(raw_members(last.raw) or {}) if last and last.kind == "assistant" else None
        at = state.created or (messages.word(raw_members(first.raw) or {}, "timestamp") if first else "") or None
        state.model = answer.model if answer else None
        place = self.state.place
        self.state.place = (first.line, first.byte) if first else (1, 0)
        self.emit(e.SessionStarted(session_id="", at=at, model=state.model, dialect=answer.dialect if answer else None))
        self.state.place = place
        for name in waiting:
            self._follow(name)

    def finish(self) -> None:
        """Move to the final leaf, along parents that came late."""
        state = self.state
        if not state.begun and (state.known or state.entries):
            self.begin()
        if state.removed:
            self.remove(state.removed, final=True)
        self.lead(state.named or (state.path[-1] if state.path else ""), final=True)
        root = state.entries[state.path[0]] if state.path else None
        if root is not None and root.parent:
            self.state.place = root.line, root.byte
            loop = root.parent in state.entries
            shown = f"the parents of {state.path[0]!r} form a circle" if loop else f"parent {root.parent!r} is missing"
            self.problem(Code.DANGLING_PARENT, f"{shown}: the session begins here, as flue would read it")

    def _follow(self, name: str) -> None:
        """Extend or move the path to a new entry."""
        state = self.state
        if name in self._places:
            return
        parent = state.entries[name].parent
        is_next = parent == (state.path[-1] if state.path else "")
        if is_next or (state.replayed <= MOST_REPLAYED and self._move(self._walk(parent, before=name))):
            self._show(name)

    def lead(self, leaf: str, *, final: bool = False) -> None:
        """Make an entry the leaf; "" changes nothing."""
        state = self.state
        state.named = leaf or state.named
        if not state.begun or not leaf:
            return
        if leaf not in state.entries:
            self.problem(Code.UNKNOWN_ID, f"leaf {leaf!r} is not an entry; the session ends with the last one")
            state.named = ""
        elif self._move(self._walk(leaf, whole=final), final=final):
            state.named = ""

    def _walk(self, name: str, *, before: str = "", whole: bool = False) -> _Walk:
        """Return the walk to an entry, without `before`, from the current path, or with `whole` from its own root."""
        entries, found, seen = self.state.entries, list[str](), {before}
        while name in entries and name not in seen and (whole or name not in self._places):
            seen.add(name)
            found.append(name)
            name = entries[name].parent
        found.reverse()
        if not whole:
            keep = self._places[name] + 1 if name in self._places and name not in seen else 0
            return _Walk(keep, found)
        pairs = enumerate(zip(found, self.state.path, strict=False))
        keep = next((at for at, (new, old) in pairs if new != old), min(len(found), len(self.state.path)))
        return _Walk(keep, found[keep:])

    def _move(self, walk: _Walk, *, final: bool = False) -> bool:
        """Make a walk the current path; return False, and do nothing, after `MOST_REPLAYED` repeated entries."""
        state, entries = self.state, self.state.entries
        keep, new = walk
        if keep == len(state.path) and not new:
            return True
        while 0 < keep < len(state.path) and entries[state.path[keep]].kind == _RESULT:
            keep -= 1  # a result is removed only together with its call
            new = [state.path[keep], *new]
        folded = bool(self._folds) and self._folds[-1] >= keep
        wanted = [*state.path[:keep], *new] if folded else new
        if not self._afford(len(wanted)) and not final:
            return False
        self._take_back(self._visible(len(state.path)) if folded else state.path[keep:])
        self._cut(0 if folded else keep)
        for name in self._folded(wanted) if folded else new:
            self._show(name)
        return True

    def _folded(self, wanted: list[str]) -> list[str]:
        """Emit a path up to its last compaction, as compacted; return the entries after it."""
        entries = self.state.entries
        last = next((at for at in range(len(wanted) - 1, -1, -1) if entries[wanted[at]].kind == _COMPACTION), -1)
        if last < 0:
            return wanted
        self._extend(wanted[: last + 1])
        kept = self._kept(last)
        for name in kept:
            self._say(name)
        self._compact(wanted[last], kept)
        return wanted[last + 1 :]

    def _afford(self, more: int) -> bool:
        state = self.state
        before, state.replayed = state.replayed, state.replayed + more
        if state.replayed > MOST_REPLAYED >= before:
            message = f"more than {MOST_REPLAYED:,} entries are repeated on other branches: those are not followed"
            self.problem(Code.CAPTURE_TOO_LARGE, message)
        return state.replayed <= MOST_REPLAYED

    def _cut(self, size: int) -> None:
        for name in self.state.path[size:]:
            del self._places[name]
        del self.state.path[size:]
        while self._folds and self._folds[-1] >= size:
            self._folds.pop()

    def _extend(self, names: Iterable[str]) -> None:
        for name in names:
            at = self._places[name] = len(self.state.path)
            self.state.path.append(name)
            if self.state.entries[name].kind == _COMPACTION:
                self._folds.append(at)

    def remove(self, names: Iterable[str], *, final: bool = False) -> None:
        """Remove entries; the path ends before the first removed one."""
        state = self.state
        known = dict.fromkeys(name for name in names if name in state.entries)
        places = [self._places[name] for name in known if name in self._places]
        if places and not self._move(_Walk(min(places), []), final=final):
            state.removed += known
            return
        if not state.begun:
            state.waiting = [name for name in state.waiting if name not in known]
        for name in known:
            del state.entries[name]
            state.answers.pop(name, None)

    def _begin_of(self, at: int) -> int:
        """Return the index of the first entry that the compaction at an index keeps; its own if it keeps none."""
        own = raw_members(self.state.entries[self.state.path[at]].raw) or {}
        return min(at, self._places.get(messages.word(own, "firstKeptEntryId"), at))

    def _kept(self, at: int) -> list[str]:
        """Return the entries that the compaction at an index keeps."""
        kept = self.state.path[self._begin_of(at) : at]
        return [name for name in kept if self.state.entries[name].kind != _COMPACTION]

    def _visible(self, size: int) -> list[str]:
        """Return the visible entries of the path: those kept by the last compaction, itself, and all after it."""
        last = next((at for at in reversed(self._folds) if at < size), -1)
        shown = self.state.path[max(0, last) : size]
        return [*self._kept(last), *shown] if last >= 0 else shown

    def _show(self, name: str) -> None:
        """Append an entry to the path and emit it; an answer is a turn the first time."""
        state = self.state
        entry = state.entries[name]
        self._extend((name,))
        if entry.kind == _COMPACTION:
            self._take_compaction(name)
        elif entry.kind == "assistant" and name not in state.answers:
            state.answers[name] = None
            self._answer(name, entry)
        else:
            self._say(name)

    def _say(self, name: str) -> None:
        entry = self.state.entries[name]
        own = raw_members(entry.raw) or {}
        at = messages.word(own, "timestamp") or None
        if entry.kind == _RESULT:
            self.emit(replace(messages.result_of(own), at=at), entry)
        for item in self._items(name):
            self.emit(e.Append(item=item, at=at), entry)
            if isinstance(item, ToolCall):
                self.state.calls[item.call_id] = item.uuid

    def _items(self, name: str) -> tuple[Item, ...]:
        return messages.items_of(name, self.state.entries[name].raw)

    def _answer(self, name: str, entry: FlueEntry) -> None:
        """Emit an answer as a turn, sent at the time of the entry before it."""
        state = self.state
        own = raw_members(entry.raw) or {}
        answer = messages.answer_of(own)
        before = raw_members(state.entries[state.path[-2]].raw) or {} if len(state.path) > 1 else own
        at = messages.word(own, "timestamp") or None
        if answer.model is not None and answer.model != state.model:
            state.model = answer.model
            self.emit(e.SessionChanged(model=answer.model), entry)
        state.turn += 1
        self.emit(e.TurnStarted(turn=state.turn, at=messages.word(before, "timestamp") or at), entry)
        self._say(name)
        ended: e.Event = e.TurnCompleted(turn=state.turn, at=at, usage=answer.bill, response_id=answer.response_id)
        if answer.stop == "error":
            ended = e.TurnFailed(turn=state.turn, at=at, usage=answer.bill, error=answer.error or None)
        elif answer.stop == "aborted":
            ended = e.TurnCanceled(turn=state.turn, at=at, usage=answer.bill, error=answer.error or None)
        self.emit(ended, entry)

    def _take_compaction(self, name: str) -> None:
        """Emit a compaction; entries that it keeps, but an earlier one dropped, are emitted again."""
        at = len(self.state.path) - 1
        begin = self._begin_of(at)
        kept = self._kept(at) if self._afford(at - begin) else []
        before = self._folds[-2] if len(self._folds) > 1 else -1
        if kept and before >= 0 and begin < self._begin_of(before):
            self._take_back(self._visible(at))
            for other in kept:
                self._say(other)
        self._compact(name, kept)

    def _compact(self, name: str, kept: list[str]) -> None:
        entry = self.state.entries[name]
        own = raw_members(entry.raw) or {}
        before = own.get("tokensBefore", b"")
        self.emit(
            e.CompactApplied(
                uuid=name, trigger="auto", at=messages.word(own, "timestamp") or None, summary=messages.summary_of(own),
                pre_tokens=int(before) if before.isdigit() and len(before) < 16 else None,
                preserved_uuids=tuple(dict.fromkeys(self._uuids(kept))),
            ),
            entry,
        )  # fmt: skip

    def _uuids(self, names: Iterable[str]) -> Iterable[str]:
        """Yield the uuids of entries' items: of a result its call's, of a compaction its divider's."""
        for name in names:
            entry = self.state.entries[name]
            if entry.kind == _COMPACTION:
                yield name
            elif entry.kind == _RESULT:
                call = self.state.calls.get(messages.call_of(raw_members(entry.raw) or {}))
                if call is not None:
                    yield call
            yield from (item.uuid for item in self._items(name))

    def _take_back(self, names: Sequence[str]) -> None:
        results = self.state.entries
        found = tuple(dict.fromkeys(self._uuids(name for name in names if results[name].kind != _RESULT)))
        if found:
            self.emit(e.Remove(uuids=found))

    def emit(self, event: e.Event, entry: FlueEntry | None = None) -> None:
        line, byte = (entry.line, entry.byte) if entry is not None else self.state.place
        self._found.append(Read(event, line, byte))

    def problem(self, code: Code, message: str) -> None:
        line, byte = self.state.place
        self._found.append(Read(Problem(code, message, line=line, byte=byte), line, byte))


_HEADER = frozenset(("version", "leafId"))
_ENTRY = frozenset(("type", "id", "parentId", "timestamp"))
_DELTA = frozenset(("newEntries", "removedEntryIds"))
_OPENING = re.compile(rb'[ \t\r\n]*\{[ \t\r\n]*"(?:type|id|parentId|timestamp|message)"')


class Flue(RecordReader):
    """Reader of flue's sessions."""

    name: ClassVar[str] = "flue"
    yields: ClassVar[Yields] = "events"
    times: ClassVar[int] = 4  # a line may be a whole session
    largest: ClassVar[int] = times * RECORD_BYTES
    most: ClassVar[int] = 1_000_000

    def __init__(self) -> None:
        super().__init__()
        self._path = FluePath()

    @classmethod
    def recognises(cls, head: bytes) -> bool:
        own = raw_members(next(iter(first_records(head)), b"")) or {}
        if own.keys() >= _ENTRY:
            return messages.kind_of(own) != ""
        if own:
            header = own.keys() >= _HEADER and "type" not in own and own.get("entries", b"[")[:1] == b"["
            return header or _is_delta(own)
        at = array_at(head, (".entries",)) if head.removeprefix(BOM).lstrip(SPACE)[:1] == b"{" else -1
        return at >= 0 and _OPENING.match(head, at) is not None and b'"parentId"' in head

    def _values(self, data: bytes, line: Line) -> Sequence[Read]:
        own, path = raw_members(data) or {}, self._path
        path.state.place = line.number, line.byte
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
        return path.take_reads()

    def _header(self, own: messages.Members) -> None:
        state = self._path.state
        state.known = True
        state.created = state.created or messages.word(own, "createdAt") or None
        version = own.get("version", b"2")
        if version != b"2":
            shown = printable(cut_masked(version.decode("utf-8", "replace"), 20))
            self._path.problem(Code.BAD_HEADER, f"session version {shown} is not 2; read as version 2")

    def _session(self, data: bytes, own: messages.Members, line: Line) -> None:
        """Read a whole session; each entry has its own place in the file."""
        self._header(own)
        listed, path = own["entries"], self._path
        start = line.data.find(data[:1]) + next(m.value for m in reversed(member_ranges(data)) if m.key == "entries")
        ranges = element_ranges(listed)
        names = {messages.word(raw_members(listed[begin:end]) or {}, "id") for begin, end in ranges}
        path.remove([name for name in path.state.entries if name not in names])
        number, before = line.number + line.data.count(b"\n", 0, start), 0
        for begin, end in ranges:
            number += listed.count(b"\n", before, begin)
            path.state.place, before = (number, line.byte + start + begin), begin
            self._put(listed[begin:end])
        path.state.named = ""
        path.lead(messages.word(own, "leafId"))

    def _put(self, raw: bytes) -> None:
        """Add an entry; one with a known id changes nothing."""
        own, path = raw_members(raw) or {}, self._path
        name = messages.word(own, "id")
        if not name or "type" not in own:
            path.problem(Code.UNKNOWN_RECORD, "neither a header, an entry nor a delta; kept as opaque")
            path.emit(e.OpaqueEvent(record=Raw(raw)))
            return
        known = path.state.entries.get(name)
        if known is not None:
            if known.raw != raw:
                path.problem(Code.DUPLICATE_UUID, f"entry {name!r} is repeated with other content; the first is used")
            return
        kind = messages.kind_of(own)
        if not kind:
            shown = printable(cut_masked(messages.word(own, "type"), 60))
            path.problem(Code.UNKNOWN_RECORD, f"entry {name!r} of unknown type {shown!r}; kept as opaque")
        path.put(name, FlueEntry(raw, kind, messages.word(own, "parentId"), *path.state.place))

    def _rest(self) -> Sequence[Read]:
        self._path.finish()
        return self._path.take_reads()


def _is_delta(own: messages.Members) -> bool:
    return "type" not in own and any(own.get(key, b"")[:1] == b"[" for key in _DELTA)
