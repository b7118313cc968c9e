"""Sessions of pi and oh-my-pi (`~/.pi/agent/sessions`, `~/.omp/agent/sessions`), versions 1 to 3, and of OpenClaw.

A line is an entry of a tree: the prompt is made of the path from the root to the last entry, from its last compaction
(or reset) on. An assistant's message is one request, whose own time is when it went out and whose line's is when it was
answered; counts leave out what the cache read and wrote. One that was aborted or failed is a request without a bill
where all its counts are 0, and what it said is in no later prompt. A session may speak to several APIs: each answer
names its own.

An entry that does not follow the last one goes on from another: what stands behind that one is taken back, and what
stands on the other branch comes again. A compaction keeps what stands from an entry on (in version 1 by its place in
the file), or brings what it keeps along (`retainedTail`). Memory: a name and some numbers an entry; the lines of the
latest, up to `REPLAYED_BYTES`, for what comes again.

Neither system prompt nor tools are in the file, but for the system prompt of oh-my-pi's subagents. A summary that says
what it was billed was a request, on a chain of its own; older ones say nothing of it.

Sources: pi's session-format.md and session-manager.ts, oh-my-pi's session.md (autumn 2026); counts over 44 public
sessions.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import ClassVar, NamedTuple

from msgspec import UNSET, Raw, Struct, field

from lore.formats.base import Clock
from lore.formats.bills import name_of
from lore.formats.lines import each
from lore.formats.pi import messages
from lore.formats.pi.messages import PiEntry, PiMessage
from lore.formats.transcripts import TranscriptLines, TranscriptTurns
from lore.formats.values import item_name, stamp_at, text_in
from lore.model import events as e
from lore.model.canonical import text_of
from lore.model.codes import Code
from lore.model.items import OpaqueItem, is_absent
from lore.model.jsonslice import raw_members
from lore.model.limits import REPLAYED_BYTES, REPLAYED_ENTRIES
from lore.model.mask import cut_masked, mask
from lore.model.state import Sign

_ENTRY = frozenset(("type", "id", "parentId", "timestamp"))
_ENTRY_TYPES = messages.SILENT | {"thinking_level_change", "compaction", "branch_summary", "custom_message"}
RESULT, COMPACTION, RESET = -1, -2, -3  # what an entry is that has no items of its own


class PiTree(Struct):
    """All entries, and the path.

    By number: `names`, `parents`, `depths` on their branch from 0, `sizes` (how many items, or what else). `fold` is
    the place on the path of its last compaction or reset, -1 where there is none, `kept` that of the first entry which
    it keeps. `tails` names the items that compactions brought themselves. `lines` are the latest, oldest first.
    """

    names: list[str] = []
    parents: list[int] = []
    depths: list[int] = []
    sizes: list[int] = []
    path: list[int] = []
    fold: int = -1
    kept: int = -1
    tails: dict[int, tuple[str, ...]] = {}
    lines: dict[int, bytes] = {}
    line_bytes: int = 0

    @property
    def leaf(self) -> int:
        """The last entry of the path; 0: none."""
        return self.path[-1] if self.path else 0

    def add(self, name: str, line: bytes) -> int:
        """Put a new entry behind the leaf; return its number."""
        names, path = self.names, self.path
        names.append(name)
        self.parents.append(path[-1] if path else 0)
        self.depths.append(len(path))
        self.sizes.append(0)
        number = len(names)
        path.append(number)
        self.lines[number] = line
        self.line_bytes += len(line)
        if self.line_bytes > REPLAYED_BYTES:
            while self.line_bytes > REPLAYED_BYTES // 2 and len(self.lines) > 0:  # the older lines go
                self.line_bytes -= len(self.lines.pop(next(iter(self.lines))))
        return number

    def is_on_path(self, number: int) -> bool:
        """Tell whether the path goes through an entry."""
        depth = self.depths[number - 1]
        return depth < len(self.path) and self.path[depth] == number

    def uuids_of(self, numbers: list[int]) -> tuple[str, ...]:
        """Return the items that entries made: of a result none, of a compaction its divider and its tail."""
        found: list[str] = []
        for number in numbers:
            name, size = self.names[number - 1], self.sizes[number - 1]
            found += [item_name(name, at) for at in range(size)]
            found += (name, *self.tails.get(number, ())) if size == COMPACTION else ()
        return tuple(found)

    def size(self, number: int) -> int:
        """Return how many items an entry made, or what else it is."""
        return self.sizes[number - 1]

    def between(self, first: int, end: int) -> list[int]:
        """Return the entries of a part of the path that a compaction may keep: no compactions, no resets."""
        return [number for number in self.path[first:end] if self.size(number) > COMPACTION]

    def shown(self) -> list[int]:
        """Return what the timeline holds of the path."""
        if self.fold < 0:
            return self.path
        return [self.path[self.fold], *self.between(self.kept, self.fold), *self.path[self.fold + 1 :]]

    def way(self, parent: int) -> Way:
        """Return how the path gets to another leaf."""
        new: list[int] = []
        while parent and not self.is_on_path(parent):
            new.append(parent)
            parent = self.parents[parent - 1]
        keep = self.depths[parent - 1] + 1 if parent else 0
        while 0 < keep < len(self.path) and self.size(self.path[keep]) == RESULT:
            keep -= 1  # a call loses its result only with itself
            new.append(self.path[keep])
        new.reverse()
        folded = self.fold >= keep or any(self.size(number) <= COMPACTION for number in new)
        return Way(keep, new, folded)


class Way(NamedTuple):
    """A way to another leaf: how much of the path stays, what comes behind it; `folded`: it crosses a compaction."""

    keep: int
    new: list[int]
    folded: bool


_UUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}(?=\.jsonl$|$)")


def _is_known(own: dict[str, bytes]) -> bool:
    """Return whether a record is an entry of pi's, of a file whose header is missing."""
    kind = text_in(own["type"])
    role = text_in((raw_members(own.get("message", b"null")) or {}).get("role", b""))
    return role in messages.ROLES if kind == "message" else kind in _ENTRY_TYPES


class PiLevel(Struct, gc=False):
    """The level of thinking: as it is, and as the last request was asked with."""

    now: str | None = None
    asked: str | None = None


class PiMemory(Struct):
    """All that the reader remembers.

    `headers` counts lines that begin a session, `summaries` those that were billed; `skipped` are the calls of
    responses that were given up; `replayed` counts what came again on another branch.
    """

    session: str | None = None
    title: str = ""
    headers: int = 0
    turns: TranscriptTurns = field(default_factory=TranscriptTurns)
    dialect: str | None = None
    level: PiLevel = field(default_factory=PiLevel)
    skipped: dict[str, None] = {}
    replayed: int = 0
    summaries: int = 0
    tree: PiTree = field(default_factory=PiTree)


class Pi(TranscriptLines[PiMemory]):
    """Reader of pi's session files."""

    name: ClassVar[str] = "pi"
    clock: ClassVar[Clock] = "end"
    memory = PiMemory

    def __init__(self) -> None:
        super().__init__()
        self._numbers: dict[str, int] = {}  # of entries, by name

    @classmethod
    def recognises(cls, head: bytes) -> bool:
        for line in each(head):
            own = raw_members(line) or {}
            kind = own.get("type", b"")
            if kind == b'"session"':
                return own.get("id", b"")[:1] == b'"' and not {"timestamp", "cwd"}.isdisjoint(own)
            if kind != b'"title"':  # oh-my-pi's, before the header
                return own.keys() >= _ENTRY and "source" not in own and _is_known(own)  # flue's entries have a source
        return False

    def _take(self, data: bytes) -> None:
        entry = messages.entry_of(data)
        self._at = entry.timestamp
        if entry.type == "session":
            self._header(entry)
        elif entry.type == "title":
            self._memory.title = text_in(entry.title)
        else:
            self._begin_session("")
            self._entry(entry, data)

    # the tree

    def _header(self, entry: PiEntry) -> None:
        memory = self._memory
        memory.headers += 1
        if memory.headers > 1:
            another = "another session begins in the same file; its entries are read as this one's"
            self._problem(Code.BAD_HEADER, another)
        parent = entry.parent_session or entry.branched_from
        named = None if parent is None else _UUID.search(parent)
        self._memory.title = self._memory.title or text_in(entry.title)
        self._begin_session(entry.id or "", parent if named is None else named[0])

    def _begin_session(self, name: str, parent: str | None = None) -> None:
        if self._memory.session is None:
            self._memory.session = name
            title = self._memory.title or None
            self._emit(e.SessionStarted(session_id=name, at=self._at, parent_session_id=parent, title=title))

    def _entry(self, entry: PiEntry, data: bytes) -> None:
        tree = self._memory.tree
        name = entry.id or f"entry-{len(tree.names) + 1}"
        if name in self._numbers:
            self._problem(Code.DUPLICATE_UUID, f"entry {mask(name)[:60]!r} came before; passed over")
            return
        parent = self._parent(entry)
        if parent != tree.leaf:
            self._move(tree.way(parent))
        self._numbers[name] = number = tree.add(name, data)
        message = entry.message
        if entry.usage is not None and entry.type in ("compaction", "branch_summary"):
            self._bill_summary(name, entry.usage)
        if entry.type == "compaction":
            self._compact(number, entry)
        elif entry.type == "reset_boundary":
            self._reset(number)
        elif entry.type == "message" and message is not None and message.role == "assistant":
            self._answer(number, entry, message)
        else:
            self._show(number, entry)

    def _parent(self, entry: PiEntry) -> int:
        leaf = self._memory.tree.leaf
        if entry.parent_id is UNSET:
            return leaf
        if entry.parent_id is None:
            return 0
        known = self._numbers.get(entry.parent_id)
        if known is None:
            detail = f"parent {mask(entry.parent_id)[:60]!r} is not in the file before its child; file order carries on"
            self._problem(Code.DANGLING_PARENT, detail)
        return leaf if known is None else known

    def _move(self, way: Way) -> None:
        """Go on from another entry: take back what stands behind it, and show what its branch holds."""
        memory, tree = self._memory, self._memory.tree
        gone = tree.uuids_of(tree.shown() if way.folded else tree.path[way.keep :])
        tree.path[way.keep :] = way.new
        self._remove(gone)
        if not way.folded:
            self._again(way.new)
            return
        folds = [place for place, number in enumerate(tree.path) if tree.size(number) <= COMPACTION]
        tree.fold = tree.kept = folds[-1] if folds else -1
        if not folds:
            self._again(tree.path)
        elif tree.size(tree.path[tree.fold]) == COMPACTION:
            self._fold_again(tree.path[tree.fold])
        memory.skipped = {}
        self._again(tree.path[tree.fold + 1 :] if folds else [])

    def _fold_again(self, number: int) -> None:
        """Show what a compaction kept, and the compaction, after a move."""
        tree = self._memory.tree
        line = tree.lines.get(number)
        if line is None:
            self._lost(1)
            return
        entry = messages.entry_of(line)
        tree.kept = self._first_kept(entry, tree.fold)
        kept = tree.between(tree.kept, tree.fold)
        self._again(kept)
        now, self._at = self._at, entry.timestamp
        self._apply(number, entry, kept)
        self._at = now

    def _again(self, numbers: Iterable[int]) -> None:
        """Show entries that were shown before."""
        memory, lost = self._memory, 0
        for number in numbers:
            memory.replayed += 1
            line = memory.tree.lines.get(number) if memory.replayed <= REPLAYED_ENTRIES else None
            if line is not None:
                entry = messages.entry_of(line)
                now, self._at = self._at, entry.timestamp
                self._show(number, entry)
                self._at = now
            else:
                lost += memory.tree.size(number) > 0
        self._lost(lost)

    def _lost(self, count: int) -> None:
        if count:
            detail = f"{count} entries of another branch lie too far back; the timeline goes on without them"
            self._problem(Code.CAPTURE_TOO_LARGE, detail)

    # entries, by type

    def _show(self, number: int, entry: PiEntry) -> None:
        """Put what an entry says into the timeline; a response makes no turn here."""
        tree, name = self._memory.tree, self._memory.tree.names[number - 1]
        made: messages.Made | None
        try:
            made = self._made(entry, name)
        except (ValueError, RecursionError) as error:
            self._problem(Code.MALFORMED_RECORD, f"{cut_masked(str(error).partition(chr(10))[0], 120)}; kept as opaque")
            made = (OpaqueItem(name, Raw(self._line.data)),)
        if made is None:
            kind, name_of_kind = (
                ("message of role", entry.message.role) if entry.message else ("entry type", entry.type)
            )
            self._problem(Code.UNKNOWN_RECORD, f"unknown {kind} {mask(name_of_kind)[:60]!r}; kept as opaque")
            made = (OpaqueItem(name, Raw(self._line.data)),)
        if isinstance(made, e.PatchToolCall):
            tree.sizes[number - 1] = RESULT
            self._result(made)
            return
        tree.sizes[number - 1] = len(made)
        for item in made:
            self._append(item)
        if messages.has_image(made):
            self._observe(Sign("image"))

    def _made(self, entry: PiEntry, name: str) -> messages.Made | None:
        """Return what an entry is in a prompt; () for what changes something else."""
        match entry.type:
            case "message":
                return None if entry.message is None else messages.made_of(entry.message, name, entry.timestamp)
            case "custom_message":
                return (messages.told(name, entry.content),)
            case "branch_summary":
                text = messages.summary_of(entry.summary, messages.BRANCH)
                return () if is_absent(text) else (messages.summed(name, text),)
            case "thinking_level_change":
                self._memory.level.now = entry.thinking_level
                return ()
            case "session_init":
                if bytes(entry.system_prompt)[:1] == b'"':
                    self._emit(e.SessionChanged(system=entry.system_prompt, at=self._at))
                return ()
            case "title_change" | "session_info":
                title = text_in(entry.title if entry.type == "title_change" else entry.name)
                if title and title != self._memory.title:
                    self._memory.title = title
                    self._emit(e.SessionChanged(title=title, at=self._at))
                return ()
            case kind:
                return () if kind in messages.SILENT else None

    def _result(self, made: e.PatchToolCall) -> None:
        if made.call_id in self._memory.skipped:
            return
        self._emit(made)
        if messages.has_image(made):
            self._observe(Sign("image"))

    def _answer(self, number: int, entry: PiEntry, message: PiMessage) -> None:
        """Make a response a turn."""
        memory, at = self._memory, self._at
        turns, level = memory.turns, memory.level
        dialect = messages.dialect_of(message.api)
        if (message.model, dialect) != (turns.model, memory.dialect):
            turns.model, memory.dialect = message.model or turns.model, dialect or memory.dialect
            self._emit(e.SessionChanged(model=message.model, dialect=dialect))
        if level.now != level.asked:
            if level.asked is not None and level.now is not None:
                self._observe(Sign("effort", before=level.asked, after=level.now))
            level.asked = level.now
        turns.turn += 1
        asked = stamp_at(message.timestamp) or at
        self._emit(e.TurnStarted(turn=turns.turn, at=asked))
        self._show(number, entry)
        self._end(message)

    def _end(self, message: PiMessage) -> None:
        memory, turn, bill = self._memory, self._memory.turns.turn, messages.billed(message.usage, self._memory.dialect)
        if message.stop_reason not in messages.GIVEN_UP:
            name = message.response_id or name_of(message.timestamp, bill)
            self._end_turn(memory.turns, bill, name)
            return
        memory.skipped.update(dict.fromkeys(messages.calls_of(message)))
        error = text_of(bytes(message.error_message)) if bytes(message.error_message)[:1] == b'"' else None
        failed = message.stop_reason == "error"
        ended = e.TurnFailed if failed else e.TurnCanceled
        self._emit(ended(turn=turn, at=self._at, usage=bill, error=error or None))
        self._observe(Sign("api-error" if failed else "interrupt"))

    # compactions

    def _bill_summary(self, name: str, usage: messages.PiUsage) -> None:
        """Make a summary a request on a chain of its own, of the session's model; a fork's copy has the same name."""
        memory, at, bill = self._memory, self._at, messages.billed(usage, self._memory.dialect)
        if bill is None:
            return
        memory.summaries += 1
        chain = f"utility-{memory.summaries}"
        self._emit(e.SessionChanged(model=memory.turns.model, dialect=memory.dialect, chain=chain))
        self._emit(e.TurnStarted(turn=1, at=at, chain=chain))
        self._emit(e.TurnCompleted(turn=1, at=at, usage=bill, response_id=f"{name}:summary", chain=chain))

    def _compact(self, number: int, entry: PiEntry) -> None:
        """Compact to what is kept; what an earlier compaction had dropped, and this one keeps, comes again."""
        tree = self._memory.tree
        place = len(tree.path) - 1
        first = self._first_kept(entry, place)
        kept = tree.between(first, place)
        if tree.fold >= 0 and first < min(tree.kept, tree.fold):
            self._remove(tree.uuids_of(tree.shown()[:-1]))
            self._again(kept)
        tree.fold, tree.kept = place, first
        self._apply(number, entry, kept)

    def _first_kept(self, entry: PiEntry, place: int) -> int:
        """Return the place on the path of the first entry that a compaction keeps: its own, where it keeps none."""
        tree = self._memory.tree
        number = 0
        if entry.retained_tail is not None:
            return place
        if entry.first_kept_entry_id is not None:
            number = self._numbers.get(entry.first_kept_entry_id, 0)
        elif entry.first_kept_entry_index is not None and 0 < entry.first_kept_entry_index <= len(tree.names):
            number = entry.first_kept_entry_index  # of all lines, the header's first
        return min(place, tree.depths[number - 1]) if number and tree.is_on_path(number) else place

    def _apply(self, number: int, entry: PiEntry, kept: list[int]) -> None:
        tree, at = self._memory.tree, self._at
        tree.sizes[number - 1] = COMPACTION
        before = bytes(entry.tokens_before)
        tokens = int(before) if before.isdigit() and len(before) < 16 else None
        summary = messages.summary_of(entry.summary)
        self._prune(tree.names[number - 1], tree.uuids_of(kept), pre=tokens, summary=summary)
        tail: list[str] = []
        for place, raw in enumerate(entry.retained_tail or ()):
            made = messages.made_of(messages.message_of(bytes(raw)), f"{tree.names[number - 1]}:{place}", at) or ()
            if isinstance(made, e.PatchToolCall):
                self._result(made)
            else:
                for item in made:
                    self._append(item)
                    tail.append(item.uuid)
        if tail:
            tree.tails[number] = tuple(tail)

    def _reset(self, number: int) -> None:
        """Begin anew: nothing before a reset is in a prompt."""
        tree = self._memory.tree
        gone = tree.uuids_of(tree.shown())
        tree.sizes[number - 1] = RESET
        tree.fold = tree.kept = len(tree.path) - 1
        if gone:
            self._emit(e.Remove(uuids=gone))
