"""The path through the entries of a flue session, as events: what the model sees is the way from a root to the leaf.

In: entries as they come, what was removed, which entry is the leaf. Out: events. Entries are a tree; the way to an
entry goes along parents as far as they are there. Where it moves to another branch, items are taken back and come
again; answers on branches that were left are turns all the same. A compaction keeps the way from its
`firstKeptEntryId`; where that is not on it, nothing.

Cost is O(bytes of the entries): of what comes again because of branches and compactions there is a bound, behind which
branches are followed at the end only.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from lore.formats.base import Read
from lore.formats.pi import flue_messages as messages
from lore.model import events as e
from lore.model.codes import Code, Problem
from lore.model.items import Item, ToolCall
from lore.model.jsonslice import table

MOST_REPLAYED = 100_000  # entries that come again; a session that a person steers has some hundred of them
_RESULT, _COMPACTION = "toolResult", "compaction"


class FlueEntry(Struct, frozen=True, gc=False):
    """An entry as it stands, what it is, whose child, and where it was read."""

    raw: bytes
    kind: str
    parent: str
    line: int
    byte: int


class FlueMemory(Struct):
    """What is remembered: all entries, the path, and what the next one needs.

    `known` says that there is a session; `waiting` are entries before the first answer, which says what its header
    needs; `named` is the leaf of a header,
    which holds when all that follows it was read; `answers` were turns already, `calls` are the items of
    calls; `replayed` counts what came again,
    `removed` is what could not be removed because of that.
    """

    entries: dict[str, FlueEntry] = {}
    path: list[str] = []
    waiting: list[str] = []
    known: bool = False
    begun: bool = False
    created: str | None = None
    named: str = ""
    turn: int = 0
    model: str | None = None
    answers: dict[str, None] = {}
    calls: dict[str, str] = {}
    replayed: int = 0
    removed: list[str] = []


class _Walk(NamedTuple):
    """The way to an entry: how much of the path stays, and what comes behind it."""

    keep: int
    new: list[str]


class FluePath:
    """The path, and the events of every change of it; `place` is where problems stand: a line and its byte."""

    def __init__(self, state: FlueMemory | None = None) -> None:
        self.state = state or FlueMemory()
        self.place = (1, 0)
        self._places: dict[str, int] = {}  # of the path's entries
        self._folds: list[int] = []  # the places of its compactions
        self._found: list[Read] = []
        path, self.state.path = self.state.path, []
        self._extend(path)

    def taken(self) -> list[Read]:
        """Return what was found since the last call."""
        found, self._found = self._found, []
        return found

    def put(self, name: str, entry: FlueEntry) -> None:
        """Take an entry that is new."""
        self.state.entries[name] = entry
        if self.state.begun:
            self._follow(name)
            return
        self.state.waiting.append(name)
        if entry.kind == "assistant":
            self.begin()

    def begin(self) -> None:
        """Write the header, with what the first answer says of model and dialect, and what waited for it."""
        state = self.state
        state.begun = True
        waiting, state.waiting = state.waiting, []
        first = state.entries[waiting[0]] if waiting else None
        last = state.entries[waiting[-1]] if waiting else None
        answer = messages.answer_of(table(last.raw) or {}) if last and last.kind == "assistant" else None
        at = state.created or (messages.word(table(first.raw) or {}, "timestamp") if first else "") or None
        state.model = answer.model if answer else None
        place = self.place
        self.place = (first.line, first.byte) if first else (1, 0)
        self.emit(e.SessionStarted(session_id="", at=at, model=state.model, dialect=answer.dialect if answer else None))
        self.place = place
        for name in waiting:
            self._follow(name)

    def finish(self) -> None:
        """Lead to the leaf that a header named, along parents that came late."""
        state = self.state
        if not state.begun and (state.known or state.entries):
            self.begin()
        if state.removed:
            self.remove(state.removed, final=True)
        self.lead(state.named or (state.path[-1] if state.path else ""), final=True)
        root = state.entries[state.path[0]] if state.path else None
        if root is not None and root.parent:
            self.place = root.line, root.byte
            loop = root.parent in state.entries
            shown = f"the parents of {state.path[0]!r} form a circle" if loop else f"parent {root.parent!r} is missing"
            self.problem(Code.DANGLING_PARENT, f"{shown}: the session begins here, as flue would read it")

    def _follow(self, name: str) -> None:
        """Go on with an entry that has just come."""
        state = self.state
        if name in self._places:
            return
        parent = state.entries[name].parent
        is_next = parent == (state.path[-1] if state.path else "")
        if is_next or (state.replayed <= MOST_REPLAYED and self._move(self._walk(parent, before=name))):
            self._show(name)

    def lead(self, leaf: str, *, final: bool = False) -> None:
        """Make an entry the leaf; nothing where none is named."""
        state = self.state
        state.named = leaf or state.named
        if not state.begun or not leaf:
            return
        if leaf not in state.entries:
            self.problem(Code.UNKNOWN_ID, f"leaf {leaf!r} is no entry; the session ends with the last one")
            state.named = ""
        elif self._move(self._walk(leaf, whole=final), final=final):
            state.named = ""

    def _walk(self, name: str, *, before: str = "", whole: bool = False) -> _Walk:
        """Return the way to an entry (`before` another one), from the path or, `whole`, from its own root."""
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
        """Make a way the path; False where more came again than lore replays."""
        state, entries = self.state, self.state.entries
        keep, new = walk
        if keep == len(state.path) and not new:
            return True
        while 0 < keep < len(state.path) and entries[state.path[keep]].kind == _RESULT:
            keep -= 1  # a call loses its result only with itself
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
        """Show a way up to its last compaction as that leaves it; return what stands behind."""
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
            message = f"more than {MOST_REPLAYED:,} entries come again on other branches: those are not followed"
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
        """Forget entries; one that the path goes through ends it."""
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
        """Return where what the compaction at a place of the path keeps begins: there where it keeps nothing."""
        own = table(self.state.entries[self.state.path[at]].raw) or {}
        return min(at, self._places.get(messages.word(own, "firstKeptEntryId"), at))

    def _kept(self, at: int) -> list[str]:
        """Return what the compaction at a place of the path keeps."""
        kept = self.state.path[self._begin_of(at) : at]
        return [name for name in kept if self.state.entries[name].kind != _COMPACTION]

    def _visible(self, size: int) -> list[str]:
        """Return what the timeline shows of the path: its last compaction, what that kept, what follows."""
        last = next((at for at in reversed(self._folds) if at < size), -1)
        shown = self.state.path[max(0, last) : size]
        return [*self._kept(last), *shown] if last >= 0 else shown

    # events

    def _show(self, name: str) -> None:
        """Put an entry at the end of the path and into the timeline; an answer is a turn the first time."""
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
        own = table(entry.raw) or {}
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
        """Write an answer as a turn: its request went out when what stands before it was there."""
        state = self.state
        own = table(entry.raw) or {}
        answer = messages.answer_of(own)
        before = table(state.entries[state.path[-2]].raw) or {} if len(state.path) > 1 else own
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
        """Compact to what is kept; what an earlier compaction had dropped, and this one keeps, comes again."""
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
        own = table(entry.raw) or {}
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
        """Name the items of entries; a result's is its call, a compaction's its divider."""
        for name in names:
            entry = self.state.entries[name]
            if entry.kind == _COMPACTION:
                yield name
            elif entry.kind == _RESULT:
                call = self.state.calls.get(messages.call_of(table(entry.raw) or {}))
                if call is not None:
                    yield call
            yield from (item.uuid for item in self._items(name))

    def _take_back(self, names: Sequence[str]) -> None:
        results = self.state.entries
        found = tuple(dict.fromkeys(self._uuids(name for name in names if results[name].kind != _RESULT)))
        if found:
            self.emit(e.Remove(uuids=found))

    def emit(self, event: e.Event, entry: FlueEntry | None = None) -> None:
        line, byte = (entry.line, entry.byte) if entry is not None else self.place
        self._found.append(Read(event, line, byte))

    def problem(self, code: Code, message: str) -> None:
        line, byte = self.place
        self._found.append(Read(Problem(code, message, line=line, byte=byte), line, byte))
