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

from lore.formats import (
    BOM,
    SPACE,
    Line,
    Read,
    RecordReader,
    SessionBuilder,
    Yields,
    array_at,
    decode_usage,
    first_records,
    opens,
    output_of,
    result_of,
    text_at,
    text_in,
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
    ToolCall,
    UserMessage,
    array,
    cut_masked,
    element_ranges,
    member_ranges,
    members_at,
    printable,
)
from lore.model import events as e

Members: TypeAlias = dict[str, bytes]

_SUMMARIES = ("compaction", "branch_summary")
_ROLES = ("user", "assistant", "toolResult")
_BRANCH, _CONTEXT = b"[Branch Summary]", b"[Context Summary]"  # the headings that flue writes into a prompt


def _message_in(members: Members) -> Members:
    return members_at(members, "message")


def _kind_of(members: Members) -> str:
    """Return an entry's kind: a message's role, else its type; empty if it is unknown."""
    kind, known = text_at(members, "type"), _SUMMARIES
    if kind == "message":
        kind, known = text_at(_message_in(members), "role"), _ROLES
    return kind if kind in known else ""


def _items_of(name: str, raw: bytes) -> tuple[Item, ...]:
    """Return the items of an entry; a tool's result or a compaction has none."""
    members = members_at(raw)
    message = _message_in(members)
    content = message.get("content", b"null")
    match _kind_of(members), content[:1]:
        case "user", b'"':
            return (UserMessage(name, text=Raw(content)),)
        case "user", b"[":
            return (UserMessage(name, blocks=_blocks(content)),)
        case "assistant", b"[":
            return _answer_items(name, message)
        case "toolResult" | "compaction", _:
            return ()
        case "branch_summary", _ if (text := _summary_of(members, _BRANCH)) != NULL:
            return (UserMessage(name, text=text, source="context_injection"),)
        case _:
            return (OpaqueItem(name, Raw(raw)),)


def _summary_of(members: Members, heading: bytes) -> Raw:
    """Return a summary with its heading, as flue puts it into the prompt; NULL if there is none."""
    text = members.get("summary", b"")
    if text[:1] != b'"':
        return NULL
    return Raw(text if text[1:].startswith(heading) else b'"' + heading + b"\\n\\n" + text[1:])


def _answer_items(name: str, message: Members) -> tuple[Item, ...]:
    """Return the items of a response: one message with all blocks, then the calls."""
    response, stop = text_at(message, "responseId") or name, text_at(message, "stopReason")
    parts = list(enumerate(pi.parts_of(Raw(message["content"]))))
    calls = [
        ToolCall(f"{name}:{number}", part.id, part.name, part.arguments, response_id=response)
        for number, part in parts
        if type(part) is pi.PiCall
    ]
    blocks = tuple([pi.block_of(part) for _, part in parts if type(part) is not pi.PiCall])
    stop = pi.STOP_REASONS.get(stop, stop) or None
    answer = AssistantMessage(name, blocks=blocks, stop_reason=stop, response_id=response)
    return (answer, *calls) if blocks else tuple(calls)


def _blocks(content: bytes) -> tuple[Block, ...]:
    return tuple(map(pi.block_of, pi.parts_of(Raw(content))))


def _result_of(members: Members, at: str | None) -> e.PatchToolCall:
    """Return a tool's result as the change of its call."""
    message = _message_in(members)
    status: Status = "failed" if message.get("isError") == b"true" else "completed"
    content = Raw(message.get("content", b'""'))
    output = result_of(_blocks(bytes(content))) if opens(content) == "[" else output_of(content)
    detail = Raw(message["details"]) if message.get("details", b"null") != b"null" else NULL
    return e.PatchToolCall(call_id=text_at(message, "toolCallId"), status=status, output=output, detail=detail, at=at)


MOST_REPLAYED = 100_000  # repeated entries; real sessions have some hundred
_RESULT, _COMPACTION, _ANSWER = "toolResult", "compaction", "assistant"
_HEADER = frozenset(("version", "leafId"))
_ENTRY = frozenset(("type", "id", "parentId", "timestamp"))
_DELTA = frozenset(("newEntries", "removedEntryIds"))
_OPENING = re.compile(rb'[ \t\r\n]*\{[ \t\r\n]*"(?:type|id|parentId|timestamp|message)"')


class _FlueEntry(Struct, frozen=True, gc=False):
    line: Line  # its place and bytes
    kind: str
    parent: str
    at: str | None

    @property
    def members(self) -> Members:
        """The entry's JSON, sliced each time: entries are held for the whole file."""
        return members_at(self.line.data)


class Flue(RecordReader):
    """Reader of flue's sessions."""

    name: ClassVar[str] = "flue"
    yields: ClassVar[Yields] = "events"
    line_limit_factor: ClassVar[int] = 4  # a line may be a whole session
    max_values: ClassVar[int] = 1_000_000

    def __init__(self) -> None:
        super().__init__()
        self._session = SessionBuilder()
        self._entries: dict[str, _FlueEntry] = {}
        self._place = Line(1, 0, b"")  # of the record that is read
        self._created: str | None = None
        self._is_known = False  # a record showed that the file is a session
        self._leaf = ""  # of a header, until all entries are read
        self._path: list[str] = []  # entries from the root to the current leaf
        self._places: dict[str, int] = {}  # index by entry of the path
        self._shown_items: dict[str, tuple[str, ...]] = {}  # items of the entries that the timeline shows
        self._early_names: list[str] = []  # entries before the first answer, which has model and dialect of the header
        self._answers: set[str] = set()  # answers that were emitted as turns
        self._calls: dict[str, str] = {}  # items by call id
        self._replayed = 0  # entries that were repeated
        self._is_final = False  # all entries are read

    @classmethod
    def recognises(cls, head: bytes) -> bool:
        record = members_at(next(iter(first_records(head)), b""))
        if record.keys() >= _ENTRY:
            return _kind_of(record) != ""
        if record:
            is_header = record.keys() >= _HEADER and "type" not in record
            return (is_header and record.get("entries", b"[")[:1] == b"[") or _is_delta(record)
        at = array_at(head, (".entries",)) if head.removeprefix(BOM).lstrip(SPACE)[:1] == b"{" else -1
        return at >= 0 and _OPENING.match(head, at) is not None and b'"parentId"' in head

    def _values(self, members: Members, line: Line) -> Sequence[Read]:
        data = line.data.strip(SPACE)
        self._place = Line(line.number, line.byte, data)
        if members.get("entries", b"")[:1] == b"[":
            self._read_session(data, members, line)
        elif _is_delta(members):
            self._is_known, self._leaf = True, ""
            self._remove(map(text_in, array(members.get("removedEntryIds", b"[]"))))
            for raw in array(members.get("newEntries", b"[]")):
                self._place = Line(line.number, line.byte, raw)
                self._add(raw)
            self._move_to(text_at(members, "leafId"))
        elif "type" not in members and not _HEADER.isdisjoint(members):
            self._read_header(members)
            self._leaf = text_at(members, "leafId")
        else:
            self._add(data)
        return self._session.take()

    def _flush(self) -> Sequence[Read]:
        """At the end of the file move to the final leaf, also along parents that came late; report a dangling one."""
        if not self._session.is_started and (self._is_known or self._entries):
            self._start()
        self._is_final = True
        last = self._path[-1] if self._path else ""
        self._move_to(self._leaf or (last if last in self._entries else next(reversed(self._entries), "")))
        root = self._entries[self._path[0]] if self._path else None
        if root is not None and root.parent:
            self._place = root.line
            name, parent = self._path[0], root.parent
            is_loop = parent in self._entries
            fault = f"the parents of {name!r} form a circle" if is_loop else f"parent {parent!r} is missing"
            self._report(Code.DANGLING_PARENT, f"{fault}: the session begins here, as flue would read it")
        return self._session.take()

    def _report(self, code: str, message: str) -> None:
        self._session.line = self._place
        self._session.problem(code, message)

    # entries

    def _read_header(self, record: Members) -> None:
        version = record.get("version", b"2")
        self._is_known = True
        self._created = self._created or text_at(record, "createdAt") or None
        if version != b"2":
            version_label = printable(cut_masked(version.decode("utf-8", "replace"), 20))
            self._report(Code.BAD_HEADER, f"session version {version_label} is not 2; read as version 2")

    def _read_session(self, data: bytes, record: Members, line: Line) -> None:
        self._read_header(record)
        entries = record["entries"]
        start = line.data.find(data[:1]) + next(m.value for m in reversed(member_ranges(data)) if m.key == "entries")
        ranges = element_ranges(entries)
        names = {text_at(members_at(entries[begin:end]), "id") for begin, end in ranges}
        self._remove([name for name in self._entries if name not in names])
        number, before = line.number + line.data.count(b"\n", 0, start), 0
        for begin, end in ranges:
            number += entries.count(b"\n", before, begin)
            self._place, before = Line(number, line.byte + start + begin, entries[begin:end]), begin
            self._add(entries[begin:end])
        self._leaf = ""
        self._move_to(text_at(record, "leafId"))

    def _add(self, raw: bytes) -> None:
        """Add an entry, unless its id is known; the first answer starts the session."""
        record = members_at(raw)
        name = text_at(record, "id")
        if not name or "type" not in record:
            self._report(Code.UNKNOWN_RECORD, "neither a header, an entry nor a delta; kept as opaque")
            self._session.emit(e.OpaqueEvent(record=Raw(raw)))
            return
        if (previous := self._entries.get(name)) is not None:
            if previous.line.data != raw:
                self._report(Code.DUPLICATE_UUID, f"entry {name!r} is repeated with other content; the first is used")
            return
        kind = _kind_of(record)
        if not kind:
            type_label = printable(cut_masked(text_at(record, "type"), 60))
            self._report(Code.UNKNOWN_RECORD, f"entry {name!r} of unknown type {type_label!r}; kept as opaque")
        at = text_at(record, "timestamp") or None
        self._entries[name] = _FlueEntry(self._place, kind, text_at(record, "parentId"), at)
        if self._session.is_started:
            self._append_to_branch(name)
            return
        self._early_names.append(name)
        if kind == _ANSWER:
            self._start()

    def _start(self) -> None:
        """Emit the header, with model and dialect of the first answer, and the waiting entries."""
        session, waiting, self._early_names = self._session, self._early_names, []
        first, last = (self._entries[waiting[at]] if waiting else None for at in (0, -1))
        message = _message_in(last.members) if last is not None and last.kind == _ANSWER else {}
        model, dialect = text_at(message, "model") or None, pi.dialect_of(text_at(message, "api"))
        session.line = first.line if first is not None else Line(1, 0, b"")
        session.start_session(at=self._created or (first.at if first else None), model=model, dialect=dialect)
        session.counter.model = model
        for name in waiting:
            self._append_to_branch(name)

    def _remove(self, names: Iterable[str]) -> None:
        """Remove entries; the path ends before the first removed one."""
        targets = dict.fromkeys(name for name in names if name in self._entries)
        places = [self._places[name] for name in targets if name in self._places]
        if places and self._follows_branches:
            self._change_path(min(places), [])
        self._early_names = [name for name in self._early_names if name not in targets]
        for name in targets:
            del self._entries[name]
        self._answers.difference_update(targets)

    # the path

    @property
    def _follows_branches(self) -> bool:
        """Whether branches are followed: until `MOST_REPLAYED` entries were shown again, and at the end."""
        return self._is_final or self._replayed <= MOST_REPLAYED

    def _append_to_branch(self, name: str) -> None:
        if name not in self._places and self._follows_branches:
            parent = self._entries[name].parent
            if parent != (self._path[-1] if self._path else ""):
                self._change_path(*self._walk(parent, before=name))
            if self._follows_branches:
                self._append(name)

    def _move_to(self, leaf: str) -> None:
        """Make an entry the leaf; "" changes nothing."""
        self._leaf = leaf or self._leaf
        if self._session.is_started and leaf and self._follows_branches:
            if leaf in self._entries:
                self._change_path(*self._walk(leaf))
            else:
                self._report(Code.UNKNOWN_ID, f"leaf {leaf!r} is not an entry; the session ends with the last one")
            self._leaf = "" if self._follows_branches else leaf

    def _walk(self, name: str, *, before: str = "") -> tuple[int, list[str]]:
        """Return how many entries of the current path lead to `name`, and the entries from there to it.

        The search stops at `before`, the entry that is being added. When all is read, the way begins at the entry's own
        root, even if that came late.
        """
        branch, visited_names = list[str](), {before}
        while name in self._entries and name not in visited_names and (self._is_final or name not in self._places):
            visited_names.add(name)
            branch.append(name)
            name = self._entries[name].parent
        branch.reverse()
        if not self._is_final:
            return (self._places[name] + 1 if name in self._places and name not in visited_names else 0), branch
        pairs = enumerate(zip(branch, self._path, strict=False))
        same_count = next((at for at, (new, old) in pairs if new != old), min(len(branch), len(self._path)))
        return same_count, branch[same_count:]

    def _change_path(self, keep: int, new: list[str]) -> None:
        """Keep the first `keep` entries of the path and append `new`.

        Keeps fewer if a tool result would lose its call. If a compaction is removed, emits everything again from the
        last one that remains. Does nothing once more than `MOST_REPLAYED` entries were repeated.
        """
        if keep == len(self._path) and not new:
            return
        while 0 < keep < len(self._path) and self._kind_at(self._path[keep]) == _RESULT:
            keep -= 1  # a result is removed only together with its call
            new = [self._path[keep], *new]
        is_compacted = any(self._kind_at(name) == _COMPACTION for name in self._path[keep:])
        if is_compacted:  # all is shown again, from the last compaction that remains
            keep, new = 0, [*self._path[:keep], *new]
        if not self._count_replayed(len(new)):
            return
        dropped_names = self._path[keep:]
        self._session.line, self._session.at = self._place, None
        self._session.remove(item for name in dropped_names for item in self._shown_items.pop(name, ()))
        del self._path[keep:]
        for name in dropped_names:
            del self._places[name]
        last = max((at for at, name in enumerate(new) if self._kind_at(name) == _COMPACTION), default=0)
        first_shown = last if is_compacted else 0
        for at, name in enumerate(new):
            self._append(name, is_shown=at >= first_shown)

    def _kind_at(self, name: str) -> str:
        return self._entries[name].kind if name in self._entries else ""

    def _count_replayed(self, more: int) -> bool:
        before, self._replayed = self._replayed, self._replayed + more
        if self._replayed > MOST_REPLAYED >= before:
            message = f"more than {MOST_REPLAYED:,} entries are repeated on other branches: those are not followed"
            self._report(Code.CAPTURE_TOO_LARGE, message)
        return self._follows_branches

    # events

    def _append(self, name: str, *, is_shown: bool = True) -> None:
        """Append an entry to the path and emit it, if it is shown; an answer is a turn the first time."""
        self._places[name] = len(self._path)
        self._path.append(name)
        kind = self._entries[name].kind
        if not is_shown:
            return
        if kind == _COMPACTION:
            self._compact(name)
        elif kind == _ANSWER and name not in self._answers:
            self._answers.add(name)
            self._show_answer(name)
        else:
            self._show_items(name)

    def _compact(self, name: str) -> None:
        """Emit a compaction; entries that it keeps, but the timeline does not show, are emitted before it."""
        at = self._places[name]
        first = min(at, self._places.get(text_at(self._entries[name].members, "firstKeptEntryId"), at))
        kept_names = self._path[first:at] if self._count_replayed(at - first) else []
        kept_names = [other for other in kept_names if self._entries[other].kind != _COMPACTION]
        if any(other not in self._shown_items for other in kept_names):
            self._session.line, self._session.at = self._place, None
            self._session.remove([item for items in self._shown_items.values() for item in items])
            for other in kept_names:
                self._show_items(other)
        calls = (text_at(_message_in(self._entries[other].members), "toolCallId") for other in kept_names)
        call_items = [self._calls[call] for call in calls if call in self._calls]
        items = [item for other in kept_names for item in self._shown_items[other]]
        members = self._set_event_source(name)
        count = members.get("tokensBefore", b"")
        before = int(count) if count.isdigit() and len(count) < 16 else None
        summary = _summary_of(members, _CONTEXT)
        self._session.prune(name, dict.fromkeys((*items, *call_items)), summary=summary, pre_tokens=before)
        self._shown_items = {other: self._shown_items[other] for other in kept_names} | {name: (name,)}

    def _show_answer(self, name: str) -> None:
        """Emit an answer as a turn, sent at the time of the entry before it."""
        session, message = self._session, _message_in(self._set_event_source(name))
        at, stop, usage = session.at, text_at(message, "stopReason"), decode_usage(message.get("usage", b"null"))
        session.counter.asked_at = self._entries[self._path[-2]].at if len(self._path) > 1 else at
        turn = session.start_turn(text_at(message, "model") or None)
        self._show_items(name)
        if stop not in pi.UNFINISHED:
            session.end_turn(usage, text_at(message, "responseId") or None)
            return
        if usage is not None and not any(msgspec.structs.astuple(usage)[:4]):
            usage = None  # a failed request has zeros for unknown counts
        ended = e.TurnFailed if stop == "error" else e.TurnCanceled
        session.emit(ended(turn=turn, at=at, usage=usage, error=text_at(message, "errorMessage") or None))

    def _show_items(self, name: str) -> None:
        session, members = self._session, self._set_event_source(name)
        if self._entries[name].kind == _RESULT:
            session.emit(_result_of(members, session.at))
        items = _items_of(name, session.line.data)
        self._shown_items[name] = tuple(item.uuid for item in items)
        for item in items:
            session.append(item)
            if isinstance(item, ToolCall):
                self._calls[item.call_id] = item.uuid

    def _set_event_source(self, name: str) -> Members:
        """Make an entry the place of the next events; return its members."""
        entry = self._entries[name]
        self._session.line, self._session.at = entry.line, entry.at
        return entry.members


def _is_delta(record: Members) -> bool:
    return "type" not in record and any(record.get(key, b"")[:1] == b"[" for key in _DELTA)
