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
from typing import ClassVar, TypeAlias

import msgspec
from msgspec import Raw, Struct
from msgspec.structs import replace

from lore.formats import (
    BOM,
    SPACE,
    Line,
    Read,
    RecordReader,
    SessionBuilder,
    Yields,
    array_at,
    billed_of,
    first_records,
)
from lore.formats import pi_messages as pi
from lore.model import (
    NULL,
    AssistantMessage,
    Block,
    Code,
    Item,
    OpaqueItem,
    Status,
    TextBlock,
    ToolCall,
    UserMessage,
    array,
    cut_masked,
    element_ranges,
    member_ranges,
    printable,
    raw_members,
    text_of,
)
from lore.model import events as e

Members: TypeAlias = dict[str, bytes]

ENTRIES = ("message", "compaction", "branch_summary")
ROLES = ("user", "assistant", "toolResult")
_INJECTED = "context_injection"
_BRANCH = b"[Branch Summary]"  # the heading that flue writes into a prompt


def message_in(members: Members) -> Members:
    """Return the message of an entry; empty if it has none."""
    return raw_members(members.get("message", b"null")) or {}


def kind_of(members: Members) -> str:
    """Return an entry's kind: a message's role, else its type; "" if unknown."""
    kind = word(members, "type")
    if kind != "message":
        return kind if kind in ENTRIES else ""
    role = word(message_in(members), "role")
    return role if role in ROLES else ""


def word(members: Members, key: str) -> str:
    """Return a text member without lone surrogates, "" for any other."""
    text = text_of(members[key]) if members.get(key, b"")[:1] == b'"' else ""
    return text if text.isascii() or not any("\ud800" <= char <= "\udfff" for char in text) else ""


def items_of(name: str, raw: bytes) -> tuple[Item, ...]:
    """Return the items of an entry; a tool's result or a compaction has none."""
    members = raw_members(raw) or {}
    kind = kind_of(members)
    message = message_in(members)
    content = message.get("content", b"null")
    match kind:
        case "user":
            if content[:1] == b'"':
                return (UserMessage(name, text=Raw(content)),)
            if content[:1] == b"[":
                return (UserMessage(name, blocks=_blocks(content)),)
        case "assistant" if content[:1] == b"[":
            return _spoken(name, message)
        case "toolResult" | "compaction":
            return ()
        case "branch_summary" if (text := summary_of(members, _BRANCH)) != NULL:
            return (UserMessage(name, text=text, source=_INJECTED),)
        case _:
            pass
    return (OpaqueItem(name, Raw(raw)),)


def summary_of(members: Members, heading: bytes = b"[Context Summary]") -> Raw:
    """Return a summary with its heading, as flue puts it into the prompt; NULL if there is none."""
    text = members.get("summary", b"")
    if text[:1] != b'"':
        return NULL
    return Raw(text if text[1:].startswith(heading) else b'"' + heading + b"\\n\\n" + text[1:])


def _spoken(name: str, message: Members) -> tuple[Item, ...]:
    """Return the items of a response: one message with all blocks, then the calls."""
    response = word(message, "responseId") or name
    stop = word(message, "stopReason")
    blocks: list[Block] = []
    calls: list[ToolCall] = []
    for number, part in enumerate(pi.parts_of(Raw(message["content"]))):
        if type(part) is pi.PiCall:
            calls.append(ToolCall(f"{name}:{number}", part.id, part.name, part.arguments, response_id=response))
        else:
            blocks.append(pi.block_of(part))
    if not blocks:
        return tuple(calls)
    said = AssistantMessage(
        name, blocks=tuple(blocks), stop_reason=pi.STOP_REASONS.get(stop, stop) or None, response_id=response
    )
    return (said, *calls)


def _blocks(content: bytes) -> tuple[Block, ...]:
    return tuple(map(pi.block_of, pi.parts_of(Raw(content))))


def result_of(members: Members) -> e.PatchToolCall:
    """Return a tool's result as the change of its call."""
    message = message_in(members)
    status: Status = "failed" if message.get("isError") == b"true" else "completed"
    content = message.get("content", b'""')
    if content[:1] == b"[":
        blocks = _blocks(content)
        alone = blocks[0] if len(blocks) == 1 else None
        content = bytes(alone.text) if isinstance(alone, TextBlock) else msgspec.json.encode(blocks)
    elif content[:1] != b'"':
        content = b'[{"type":"raw","json":' + content + b"}]"
    detail = Raw(message["details"]) if message.get("details", b"null") != b"null" else NULL
    return e.PatchToolCall(call_id=word(message, "toolCallId"), status=status, output=Raw(content), detail=detail)


MOST_REPLAYED = 100_000  # repeated entries; real sessions have some hundred
_RESULT, _COMPACTION, _ANSWER = "toolResult", "compaction", "assistant"


class FlueEntry(Struct, frozen=True, gc=False):
    """An entry."""

    line: Line  # its place and bytes
    kind: str
    parent: str
    at: str | None

    @property
    def members(self) -> Members:
        """The entry's JSON, sliced each time: entries are held for the whole file."""
        return raw_members(self.line.data) or {}


class FlueTree:
    """The entries of a session, the path to the current leaf, and the events of its changes."""

    def __init__(self) -> None:
        self.session = SessionBuilder()
        self.entries: dict[str, FlueEntry] = {}
        self.place = Line(1, 0, b"")  # of the record that is read
        self.created: str | None = None
        self.is_known = False  # a record showed that the file is a session
        self.leaf = ""  # of a header, until all entries are read
        self._path: list[str] = []  # entries from the root to the current leaf
        self._places: dict[str, int] = {}  # index by entry of the path
        self._compactions: list[int] = []  # indexes of compactions on the path
        self._waiting: list[str] = []  # entries before the first answer, which has model and dialect of the header
        self._answers: set[str] = set()  # answers that were emitted as turns
        self._calls: dict[str, str] = {}  # items by call id
        self._replayed = 0  # entries that were repeated
        self._late_removals: list[str] = []  # entries still to remove, because of `MOST_REPLAYED`

    # entries

    def add(self, name: str, entry: FlueEntry) -> None:
        """Add a new entry; the first answer starts the session."""
        self.entries[name] = entry
        if self.session.is_started:
            self._follow(name)
            return
        self._waiting.append(name)
        if entry.kind == _ANSWER:
            self._start()

    def _start(self) -> None:
        """Emit the header, with model and dialect of the first answer, and the waiting entries."""
        session, waiting, self._waiting = self.session, self._waiting, []
        first, last = (self.entries[waiting[at]] if waiting else None for at in (0, -1))
        message = message_in(last.members) if last is not None and last.kind == _ANSWER else {}
        model, dialect = word(message, "model") or None, pi.dialect_of(word(message, "api"))
        session.line = first.line if first is not None else Line(1, 0, b"")
        session.start_session(at=self.created or (first.at if first else None), model=model, dialect=dialect)
        session.counter.model = model
        for name in waiting:
            self._follow(name)

    def finish(self) -> None:
        """Move to the final leaf, along parents that came late."""
        if not self.session.is_started and (self.is_known or self.entries):
            self._start()
        if self._late_removals:
            self.remove(self._late_removals, is_final=True)
        self.move_to(self.leaf or (self._path[-1] if self._path else ""), is_final=True)
        root = self.entries[self._path[0]] if self._path else None
        if root is not None and root.parent:
            self.place = root.line
            is_loop = root.parent in self.entries
            name, parent = self._path[0], root.parent
            fault = f"the parents of {name!r} form a circle" if is_loop else f"parent {parent!r} is missing"
            self.problem(Code.DANGLING_PARENT, f"{fault}: the session begins here, as flue would read it")

    def remove(self, names: Iterable[str], *, is_final: bool = False) -> None:
        """Remove entries; the path ends before the first removed one."""
        known = dict.fromkeys(name for name in names if name in self.entries)
        places = [self._places[name] for name in known if name in self._places]
        if places and not self._move(min(places), [], is_final=is_final):
            self._late_removals += known
            return
        self._waiting = [name for name in self._waiting if name not in known]
        for name in known:
            del self.entries[name]
        self._answers.difference_update(known)

    def problem(self, code: Code, message: str) -> None:
        """Report a problem at the record that is read."""
        self.session.line = self.place
        self.session.problem(code, message)

    # the path

    def _follow(self, name: str) -> None:
        """Extend or move the path to a new entry."""
        if name in self._places:
            return
        parent = self.entries[name].parent
        is_next = parent == (self._path[-1] if self._path else "")
        if is_next or (self._replayed <= MOST_REPLAYED and self._move(*self._walk(parent, before=name))):
            self._show(name)

    def move_to(self, leaf: str, *, is_final: bool = False) -> None:
        """Make an entry the leaf; "" changes nothing."""
        self.leaf = leaf or self.leaf
        if not self.session.is_started or not leaf:
            return
        if leaf not in self.entries:
            self.problem(Code.UNKNOWN_ID, f"leaf {leaf!r} is not an entry; the session ends with the last one")
            self.leaf = ""
        elif self._move(*self._walk(leaf, is_whole=is_final), is_final=is_final):
            self.leaf = ""

    def _walk(self, name: str, *, before: str = "", is_whole: bool = False) -> tuple[int, list[str]]:
        """Return how much of the path leads to an entry, and the entries that follow, without `before`.

        With `is_whole` the way begins at the entry's own root, even if that came late.
        """
        way, seen = list[str](), {before}
        while name in self.entries and name not in seen and (is_whole or name not in self._places):
            seen.add(name)
            way.append(name)
            name = self.entries[name].parent
        way.reverse()
        if not is_whole:
            return (self._places[name] + 1 if name in self._places and name not in seen else 0), way
        pairs = enumerate(zip(way, self._path, strict=False))
        same = next((at for at, (new, old) in pairs if new != old), min(len(way), len(self._path)))
        return same, way[same:]

    def _move(self, keep: int, new: list[str], *, is_final: bool = False) -> bool:
        """Change the path after its first `keep` entries; return False, and do nothing, after `MOST_REPLAYED`."""
        if keep == len(self._path) and not new:
            return True
        while 0 < keep < len(self._path) and self.entries[self._path[keep]].kind == _RESULT:
            keep -= 1  # a result is removed only together with its call
            new = [self._path[keep], *new]
        is_compacted = bool(self._compactions) and self._compactions[-1] >= keep
        wanted = [*self._path[:keep], *new] if is_compacted else new
        if not self._count_replayed(len(wanted)) and not is_final:
            return False
        self._remove_items(self._visible(len(self._path)) if is_compacted else self._path[keep:])
        self._cut(0 if is_compacted else keep)
        for name in self._show_compacted(wanted) if is_compacted else new:
            self._show(name)
        return True

    def _count_replayed(self, more: int) -> bool:
        before, self._replayed = self._replayed, self._replayed + more
        if self._replayed > MOST_REPLAYED >= before:
            message = f"more than {MOST_REPLAYED:,} entries are repeated on other branches: those are not followed"
            self.problem(Code.CAPTURE_TOO_LARGE, message)
        return self._replayed <= MOST_REPLAYED

    def _cut(self, size: int) -> None:
        for name in self._path[size:]:
            del self._places[name]
        del self._path[size:]
        while self._compactions and self._compactions[-1] >= size:
            self._compactions.pop()

    def _extend(self, names: Iterable[str]) -> None:
        for name in names:
            at = self._places[name] = len(self._path)
            self._path.append(name)
            if self.entries[name].kind == _COMPACTION:
                self._compactions.append(at)

    def _first_kept(self, at: int) -> int:
        """Return the index of the first entry that the compaction at an index keeps; its own if it keeps none."""
        first = word(self.entries[self._path[at]].members, "firstKeptEntryId")
        return min(at, self._places.get(first, at))

    def _kept(self, at: int) -> list[str]:
        """Return the entries that the compaction at an index keeps."""
        kept = self._path[self._first_kept(at) : at]
        return [name for name in kept if self.entries[name].kind != _COMPACTION]

    def _visible(self, size: int) -> list[str]:
        """Return the visible entries of the path: those kept by the last compaction, itself, and all after it."""
        last = next((at for at in reversed(self._compactions) if at < size), -1)
        shown = self._path[max(0, last) : size]
        return [*self._kept(last), *shown] if last >= 0 else shown

    # events

    def _show(self, name: str) -> None:
        """Append an entry to the path and emit it; an answer is a turn the first time."""
        kind = self.entries[name].kind
        self._extend((name,))
        if kind == _COMPACTION:
            self._show_compaction(name)
        elif kind == _ANSWER and name not in self._answers:
            self._answers.add(name)
            self._show_answer(name)
        else:
            self._show_items(name)

    def _show_compacted(self, wanted: list[str]) -> list[str]:
        """Emit a path up to its last compaction, as compacted; return the entries after it."""
        last = next((at for at in reversed(range(len(wanted))) if self.entries[wanted[at]].kind == _COMPACTION), -1)
        if last < 0:
            return wanted
        self._extend(wanted[: last + 1])
        kept = self._kept(last)
        for name in kept:
            self._show_items(name)
        self._compact(wanted[last], kept)
        return wanted[last + 1 :]

    def _show_compaction(self, name: str) -> None:
        """Emit a compaction; entries that it keeps, but an earlier one dropped, are emitted again."""
        at = len(self._path) - 1
        first = self._first_kept(at)
        kept = self._kept(at) if self._count_replayed(at - first) else []
        before = self._compactions[-2] if len(self._compactions) > 1 else -1
        if kept and before >= 0 and first < self._first_kept(before):
            self._remove_items(self._visible(at))
            for other in kept:
                self._show_items(other)
        self._compact(name, kept)

    def _compact(self, name: str, kept: list[str]) -> None:
        members, uuids = self._go_to(name), dict.fromkeys(self._uuids(kept))
        count = members.get("tokensBefore", b"")
        before = int(count) if count.isdigit() and len(count) < 16 else None
        self.session.prune(name, uuids, summary=summary_of(members), pre_tokens=before)

    def _show_answer(self, name: str) -> None:
        """Emit an answer as a turn, sent at the time of the entry before it."""
        session, message = self.session, message_in(self._go_to(name))
        at, stop, usage = session.at, word(message, "stopReason"), billed_of(message.get("usage", b"null"))
        session.counter.asked_at = self.entries[self._path[-2]].at if len(self._path) > 1 else at
        turn = session.start_turn(word(message, "model") or None)
        self._show_items(name)
        if stop not in pi.UNFINISHED:
            session.end_turn(usage, word(message, "responseId") or None)
            return
        if usage is not None and not any(msgspec.structs.astuple(usage)[:4]):
            usage = None  # a failed request has zeros for unknown counts
        ended = e.TurnFailed if stop == "error" else e.TurnCanceled
        session.emit(ended(turn=turn, at=at, usage=usage, error=word(message, "errorMessage") or None))

    def _show_items(self, name: str) -> None:
        session, members = self.session, self._go_to(name)
        if self.entries[name].kind == _RESULT:
            session.emit(replace(result_of(members), at=session.at))
        for item in items_of(name, session.line.data):
            session.append(item)
            if isinstance(item, ToolCall):
                self._calls[item.call_id] = item.uuid

    def _go_to(self, name: str) -> Members:
        """Make an entry the place of the next events; return its members."""
        entry = self.entries[name]
        self.session.line, self.session.at = entry.line, entry.at
        return entry.members

    def _uuids(self, names: Iterable[str]) -> Iterable[str]:
        """Yield the uuids of entries' items: of a result its call's, of a compaction its divider's."""
        for name in names:
            entry = self.entries[name]
            if entry.kind == _COMPACTION:
                yield name
            elif (
                entry.kind == _RESULT
                and (call := self._calls.get(word(message_in(entry.members), "toolCallId"))) is not None
            ):
                yield call
            yield from (item.uuid for item in items_of(name, entry.line.data))

    def _remove_items(self, names: Sequence[str]) -> None:
        self.session.line, self.session.at = self.place, None
        self.session.remove(dict.fromkeys(self._uuids(name for name in names if self.entries[name].kind != _RESULT)))


_HEADER = frozenset(("version", "leafId"))
_ENTRY = frozenset(("type", "id", "parentId", "timestamp"))
_DELTA = frozenset(("newEntries", "removedEntryIds"))
_OPENING = re.compile(rb'[ \t\r\n]*\{[ \t\r\n]*"(?:type|id|parentId|timestamp|message)"')


class Flue(RecordReader):
    """Reader of flue's sessions."""

    name: ClassVar[str] = "flue"
    yields: ClassVar[Yields] = "events"
    times: ClassVar[int] = 4  # a line may be a whole session
    most: ClassVar[int] = 1_000_000

    def __init__(self) -> None:
        super().__init__()
        self._tree = FlueTree()

    @classmethod
    def recognises(cls, head: bytes) -> bool:
        record = raw_members(next(iter(first_records(head)), b"")) or {}
        if record.keys() >= _ENTRY:
            return kind_of(record) != ""
        if record:
            is_header = record.keys() >= _HEADER and "type" not in record
            return (is_header and record.get("entries", b"[")[:1] == b"[") or _is_delta(record)
        at = array_at(head, (".entries",)) if head.removeprefix(BOM).lstrip(SPACE)[:1] == b"{" else -1
        return at >= 0 and _OPENING.match(head, at) is not None and b'"parentId"' in head

    def _values(self, data: bytes, line: Line) -> Sequence[Read]:
        record, tree = raw_members(data) or {}, self._tree
        tree.place = Line(line.number, line.byte, data)
        if record.get("entries", b"")[:1] == b"[":
            self._read_session(data, record, line)
        elif _is_delta(record):
            tree.is_known, tree.leaf = True, ""
            tree.remove([word({"id": raw}, "id") for raw in array(record.get("removedEntryIds", b"[]"))])
            for raw in array(record.get("newEntries", b"[]")):
                tree.place = Line(line.number, line.byte, raw)
                self._add(raw)
            tree.move_to(word(record, "leafId"))
        elif "type" not in record and not _HEADER.isdisjoint(record):
            self._read_header(record)
            tree.leaf = word(record, "leafId")
        else:
            self._add(data)
        return tree.session.take()

    def _read_header(self, record: Members) -> None:
        tree, version = self._tree, record.get("version", b"2")
        tree.is_known = True
        tree.created = tree.created or word(record, "createdAt") or None
        if version != b"2":
            shown = printable(cut_masked(version.decode("utf-8", "replace"), 20))
            tree.problem(Code.BAD_HEADER, f"session version {shown} is not 2; read as version 2")

    def _read_session(self, data: bytes, record: Members, line: Line) -> None:
        """Read a whole session; each entry has its own place in the file."""
        self._read_header(record)
        listed, tree = record["entries"], self._tree
        start = line.data.find(data[:1]) + next(m.value for m in reversed(member_ranges(data)) if m.key == "entries")
        ranges = element_ranges(listed)
        names = {word(raw_members(listed[begin:end]) or {}, "id") for begin, end in ranges}
        tree.remove([name for name in tree.entries if name not in names])
        number, before = line.number + line.data.count(b"\n", 0, start), 0
        for begin, end in ranges:
            number += listed.count(b"\n", before, begin)
            tree.place, before = Line(number, line.byte + start + begin, listed[begin:end]), begin
            self._add(listed[begin:end])
        tree.leaf = ""
        tree.move_to(word(record, "leafId"))

    def _add(self, raw: bytes) -> None:
        """Add an entry; one with a known id changes nothing."""
        record, tree = raw_members(raw) or {}, self._tree
        name = word(record, "id")
        if not name or "type" not in record:
            tree.problem(Code.UNKNOWN_RECORD, "neither a header, an entry nor a delta; kept as opaque")
            tree.session.emit(e.OpaqueEvent(record=Raw(raw)))
            return
        if (known := tree.entries.get(name)) is not None:
            if known.line.data != raw:
                tree.problem(Code.DUPLICATE_UUID, f"entry {name!r} is repeated with other content; the first is used")
            return
        kind = kind_of(record)
        if not kind:
            shown = printable(cut_masked(word(record, "type"), 60))
            tree.problem(Code.UNKNOWN_RECORD, f"entry {name!r} of unknown type {shown!r}; kept as opaque")
        at = word(record, "timestamp") or None
        tree.add(name, FlueEntry(tree.place, kind, word(record, "parentId"), at))

    def _rest(self) -> Sequence[Read]:
        self._tree.finish()
        return self._tree.session.take()


def _is_delta(record: Members) -> bool:
    return "type" not in record and any(record.get(key, b"")[:1] == b"[" for key in _DELTA)
