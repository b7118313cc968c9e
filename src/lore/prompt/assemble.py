"""Assemble the prompt of a chain's latest turn.

In: a session, one of its chains. Out: a prompt whose segments up to its tail are a prefix of the next
turn's, unless an event said otherwise. Rules: what did not change since the last call is not rendered
again but shared, so assembling all turns of a session costs O(its bytes); the result is the same as
that of a fresh assembler. Deltas and persisted context stand before the entry of their place, or before
the next one where text may stand: never last, never behind a result but before a real user message.

Not safe between threads: one assembler follows one chain.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable
from itertools import islice, takewhile
from operator import attrgetter
from typing import NamedTuple

import msgspec
from msgspec import Raw, Struct

from lore.model.canonical import encode, printable, text_of
from lore.model.codes import Code, Problem
from lore.model.events import Mark
from lore.model.inserts import Insert
from lore.model.items import NULL, CompactDivider, Item, OpaqueItem, TextBlock, is_absent
from lore.model.jsonslice import table
from lore.model.mask import cut_masked
from lore.model.state import Chain, Entry, FoldedSession
from lore.model.turn import Prompt, Segment
from lore.model.vector import Vector
from lore.prompt import base, layout
from lore.prompt.breakpoints import (
    AUTOMATIC,
    Breakpoints,
    HeadEnds,
    RecordedBreakpoint,
    cache_key,
    find_head_ends,
    keep_recorded,
    place_breakpoints,
)
from lore.prompt.layout import is_from_user, is_real, tail_of
from lore.prompt.system_messages import placement, takes_one_system_message

VOLATILE = "context of this turn"
_ORDER = attrgetter("order")
_BEHIND_ALL = 2**62  # a place that no entry of a timeline has


class Assembled(NamedTuple):
    """A prompt, what was wrong with the turn's context, and what the dialect could not express."""

    prompt: Prompt
    problems: tuple[Problem, ...]
    omitted: Vector[str]


class _End(Struct, frozen=True, gc=False):
    """Where a group of entries begins: entries, inserts, segments and omissions before it; the place behind them.

    `told` are the inserts before it of those that stand behind results; `results`: what stands last are a tool's
    results; `model`: it is the model's own; `breakpoint_at` is the last segment that may carry a cache breakpoint, -1
    for none.
    """

    entries: int = 0
    inserts: int = 0
    told: int = 0
    segments: int = 0
    omitted: int = 0
    place: base.Spot = base.Spot()
    results: bool = False
    model: bool = False
    breakpoint_at: int = -1


class Assembler:
    """Assemble one chain's turns, in any order; cheapest in the order they came."""

    def __init__(self, dialect: base.Dialect, rules: base.Rules | None = None) -> None:
        self.dialect = dialect
        self._finishing = dialect if isinstance(dialect, base.Finishing) else None
        self._verbatim = dialect if isinstance(dialect, base.Verbatim) else None
        self.rules = rules or base.Rules()
        self._entries: Vector[Entry] = Vector()
        self._in_loops = base.expresses(dialect, base.IN_LOOPS)
        self._inserts = _Inserts()
        self._segments: Vector[Segment] = Vector()
        self._groups: list[_End] = []
        self._end = _End()
        self._omitted: Vector[str] = Vector()
        self._recorded: list[RecordedBreakpoint] = []
        self._head_key: object = None
        self._is_own = False
        self._head: tuple[Segment, ...] = ()
        self._head_ends = HeadEnds()
        self._cache_key: str | None = None
        self._params: tuple[Raw, dict[str, bytes]] = (NULL, {})

    def assemble(self, session: FoldedSession, chain: Chain, *, finished: bool = True) -> Assembled:
        """Return the prompt of the chain's latest turn. Costs O(what changed since the last call).

        `finished`: as the dialect sends it; else `finish` makes that of it, for those that are looked at.
        """
        odd = self._headed(session, chain)
        first = self.dialect.first(self._head)
        if session.is_own != self._is_own:  # of others no breakpoint is placed
            self._is_own = session.is_own
            self._forget(0)
        begun = self._groups[0] if self._groups else self._end
        if begun.place != first:
            self._forget(0)
            self._end = _End(place=first)
        self._follow(chain)
        self._render(chain.entries)
        tail, problems = self._tail(session, chain)
        params = self._params_with_key(session, chain)
        placed = self._with_breakpoints(session, chain, params)
        prompt = Prompt(
            dialect=self.dialect.name, fidelity="reconstructed", model=chain.model, head=self._head,
            messages=self._segments, tail=tail, params=params,
            breakpoints=placed.positions, breakpoint_values=placed.values,
            auto_breakpoint=params.get(AUTOMATIC, b"null") != b"null",
        )  # fmt: skip
        return Assembled(
            self.finish(prompt) if finished else prompt, (*odd, *problems, *placed.problems), self._omitted
        )

    @property
    def finishes(self) -> bool:
        """Whether the dialect makes another prompt of each that is assembled."""
        return self._finishing is not None

    def finish(self, prompt: Prompt) -> Prompt:
        """Return a prompt as the dialect sends it; most send it as it is."""
        return prompt if self._finishing is None else self._finishing.finish(prompt)

    def _headed(self, session: FoldedSession, chain: Chain) -> tuple[Problem, ...]:
        """Render tools and system prompt where they changed; say what is wrong with them then."""
        one = takes_one_system_message(chain.model, self.dialect, self.rules)
        key = (
            chain.system, chain.tools, chain.pinned, chain.pinned_layers, session.start_layers, session.id,
            session.attachments, session.is_own, chain.announced, one,
        )  # fmt: skip
        if self._head_key is not None and key == self._head_key:
            return ()
        texts = layout.as_texts(layout.system_texts(session, chain, self.rules))
        texts = layout.as_one(texts) if one else texts
        self._head = self.dialect.head(chain.tools or (), tuple([block.text for block in texts]))
        system = [segment for segment in self._head if segment.section == "system" and segment.kind != "envelope"]
        for segment, block in zip(system, texts, strict=False):
            segment.origin = block.origin
        shared = 1 + max((at for at, segment in enumerate(self._head) if layout.is_shared(segment)), default=-1)
        self._head_ends = find_head_ends(self.dialect, self._head, shared)
        self._cache_key = cache_key(self._head[:shared]) if shared else None
        known = self._head_key
        self._head_key = key
        if known is not None and isinstance(known, tuple) and known[1] == chain.tools:
            return ()
        return _doubled(chain.tools or ())

    def _forget(self, entries: int) -> None:
        """Drop the groups that hold or follow the entry at this index."""
        while self._groups and self._end.entries > entries:
            self._end = self._groups.pop()
        self._cut()

    def _cut(self) -> None:
        self._segments = self._segments.cut(self._end.segments)
        self._omitted = self._omitted.cut(self._end.omitted)
        while self._recorded and self._recorded[-1].position >= self._end.segments:
            self._recorded.pop()

    def _follow(self, chain: Chain) -> None:
        """Take the chain's inserts; drop the groups behind the first one that is new, moved or gone."""
        followed = self._inserts.follow(chain)
        if followed is None:
            return
        (same, place), (told, before) = followed  # what stands behind results belongs to the group that ends there
        while self._groups and (
            self._end.inserts > same or self._end.told > told or self._end.entries > min(place, before - 1)
        ):
            self._end = self._groups.pop()
        self._cut()

    def _render(self, entries: Vector[Entry]) -> None:
        same = self._entries.common(entries)
        continues = 0 < same < len(entries) and entries[same].group == entries[same - 1].group
        self._forget(same - 1 if continues else same)
        self._entries = entries
        segments: list[Segment] = []
        omitted: list[str] = []
        at = self._end.entries
        for size, units in layout.units(entries.since(at)):
            self._groups.append(self._end)
            first = entries[at].item
            if self._end.results and type(first) is CompactDivider:
                # A message of its own would read as the user's next turn: it joins the result's. Where nothing was
                # pruned, all that its summary says stands before it.
                units = tuple([msgspec.structs.replace(unit, joins=True) for unit in units if first.pruned])
            self._end = self._group(units, at, size, first, segments, omitted)
            at += size
        self._segments = self._segments.extend(segments)
        self._omitted = self._omitted.extend(omitted)

    def _group(
        self, units: tuple[base.Unit, ...], at: int, size: int, first: Item, segments: list[Segment], omitted: list[str]
    ) -> _End:
        """Render a group of entries, before it the inserts whose place has come, and those that stand behind it."""
        end = self._end
        due, told, units = self._with_inserts(units, at, size, first)
        place, last, breakpoint_at, count, left_out = end.place, "", end.breakpoint_at, end.segments, end.omitted
        for unit in units:
            rendered = self._rendered(unit, place)
            made = rendered.segments
            able = (at for at in range(len(made) - 1, -1, -1) if self.dialect.takes_breakpoint(made[at]))
            found = next(able, None) if self._is_own else None
            breakpoint_at = breakpoint_at if found is None else count + found
            self._recorded += [
                RecordedBreakpoint(count + at, segment.breakpoint)
                for at, segment in enumerate(made)
                if segment.breakpoint is not None
            ]
            count += len(made)
            segments += rendered.segments
            omitted += rendered.omitted
            left_out += len(rendered.omitted)
            place = rendered.after
            last = unit.role if rendered.segments and not unit.joins else last
        results, model = (last == "results", last == "assistant") if last else (end.results, end.model)
        return _End(end.entries + size, due, told, count, left_out, place, results, model, breakpoint_at)

    def _with_inserts(self, units: tuple[base.Unit, ...], at: int, size: int, first: Item) -> _Due:
        """Put inserts around a group's units: they wait for one that text may stand before, and that says something.

        What belongs behind results comes as soon as there are some; in a dialect without a place for it, it waits too.
        """
        end = self._end
        waiting = list(takewhile(lambda insert: insert.place <= at + size, self._inserts.behind.since(end.told)))
        before: list[Insert] = []
        if not end.results or is_from_user(first):
            before = [insert for insert in waiting if insert.place <= at]
            for insert in self._inserts.all.since(end.inserts):
                if insert.place > at or (insert.outside and not is_real(first)):
                    break
                before.append(insert)
            if before and not any(self.dialect.render(unit, end.place).segments for unit in units):
                before = []
        told = end.told + sum(insert.behind for insert in before)
        due = end.inserts + len(before) - (told - end.told)
        behind: list[Insert] = []
        if self._in_loops and (units[-1].role == "results" if units else end.results):
            behind = waiting[told - end.told :]
        told += len(behind)
        said = [unit for insert in before for unit in layout.inserted(insert)]
        later = [unit for insert in behind for unit in layout.inserted(insert, behind=True)]
        return _Due(due, told, (*said, *units, *later))

    def _rendered(self, unit: base.Unit, place: base.Spot) -> base.Rendered:
        own = self._verbatim.verbatim(unit.message, place) if unit.message and self._verbatim is not None else None
        rendered = own or self.dialect.render(unit, place)
        for segment in rendered.segments:
            segment.origin = unit.origin
        return rendered

    def _tail(self, session: FoldedSession, chain: Chain) -> tuple[tuple[Segment, ...], tuple[Problem, ...]]:
        context = chain.turn.context if chain.turn is not None else NULL
        if not session.is_own or (is_absent(context) and not session.turn_layers):
            return (), ()
        own = self.rules.tail == "system" and placement(chain.model, self.dialect, self.rules).accepted
        text, problems = tail_of(session, context, authority=own)
        written = chain.persisted.last()
        in_history = chain.turn is not None and written is not None and written.number == chain.turn.turn
        if not text or self.rules.tail == "persist" or in_history:
            return (), problems
        if self._end.model and not own:
            left_out = Problem(Code.CONTEXT_LEFT_OUT, "no message of the user's is last: its context is left out")
            return (), (*problems, left_out)
        blocks = (TextBlock(Raw(encode(text))),)
        unit = base.Unit("system" if own else "user", blocks, joins=not own, origin=VOLATILE)
        return self._rendered(unit, self._end.place).segments, problems

    def _params_with_key(self, session: FoldedSession, chain: Chain) -> dict[str, bytes]:
        """Return the request's parameters, with the key under which the API looks for the shared part's cache."""
        if chain.params is not self._params[0]:
            self._params = (chain.params, table(bytes(chain.params)) or {})
        params = self._params[1]
        if not session.is_own or self.rules.breakpoints != "lore" or self._cache_key is None:
            return params
        member = self.dialect.cache_key_member(chain.model) if isinstance(self.dialect, base.KeyedCaching) else None
        return params if member is None or member in params else {**params, member: encode(self._cache_key)}

    def _with_breakpoints(self, session: FoldedSession, chain: Chain, params: dict[str, bytes]) -> Breakpoints:
        """Place the cache breakpoints; sessions of other tools keep those that they recorded."""
        if self.rules.breakpoints == "none":
            return Breakpoints()
        given = self._recorded_marks(session, chain)
        if given:
            placed = {self._position_of(mark): bytes(mark.value) for mark in given}
            positions = tuple(sorted(at for at in placed if at >= 0))
            return Breakpoints(positions, tuple([placed[at] for at in positions]))
        if self.rules.breakpoints == "recorded" or not session.is_own:
            return keep_recorded(self._head, self._recorded)
        previous, latest = self._before(chain.sent_before), self._end.breakpoint_at
        return place_breakpoints(
            self.dialect, chain.model, self.rules, params,
            self._head_ends, len(self._head), self._segments, previous, latest,
        )  # fmt: skip

    def _recorded_marks(self, session: FoldedSession, chain: Chain) -> tuple[Mark, ...]:
        """Return the breakpoints of a turn that was recorded as a request in this dialect."""
        is_recorded = not session.is_own and self.dialect.name == (chain.dialect or session.dialect)
        return chain.turn.breakpoints or () if is_recorded and chain.turn is not None else ()

    def _position_of(self, mark: Mark) -> int:
        """Return the segment that a recorded breakpoint is on; -1 if there is none."""
        if mark.section == "messages":
            at = bisect_left(self._groups, mark.at, key=attrgetter("entries"))
            end = self._groups[at] if at < len(self._groups) else self._end
            found = end.segments - 1 - mark.after
            return len(self._head) + found if found >= 0 else -1
        section = (at for at, segment in enumerate(self._head)
                   if segment.section == mark.section and segment.kind != "envelope")  # fmt: skip
        return next(islice(section, max(mark.at, 0), None), -1)

    def _before(self, entries: int) -> int:
        """Return the last segment that could carry a breakpoint when the prompt was made of this many entries."""
        if entries >= self._end.entries:
            return self._end.breakpoint_at
        at = bisect_left(self._groups, entries, key=attrgetter("entries"))
        return self._groups[at].breakpoint_at if at < len(self._groups) else -1


class _UnchangedInserts(NamedTuple):
    """How many inserts of a list stay as they were, and the place of the first one behind them (else the largest)."""

    size: int
    place: int


class _OrderedInserts:
    """Inserts of one kind, in order."""

    def __init__(self) -> None:
        self._inserts: list[Insert] = []

    def change(self, gone: Iterable[Insert], new: Iterable[Insert]) -> _UnchangedInserts:
        """Let some go and others come."""
        left, come = {insert.key: insert for insert in gone}, list(new)
        same = len(self._inserts)
        if left or come:
            same = bisect_left(self._inserts, min(map(_ORDER, (*left.values(), *come))), key=_ORDER)
            behind = [insert for insert in self._inserts[same:] if insert.key not in left]
            self._inserts[same:] = sorted((*behind, *come), key=_ORDER)
        return _UnchangedInserts(same, self._inserts[same].place if same < len(self._inserts) else _BEHIND_ALL)

    def since(self, count: int) -> list[Insert]:
        """Return the inserts behind the first `count`."""
        return self._inserts[count:]


class _InsertChanges(NamedTuple):
    """What stays of both lists."""

    inserts: _UnchangedInserts
    behind: _UnchangedInserts


class _Inserts:
    """The inserts that stand before entries (`all`), and those that stand `behind` results, in their message."""

    def __init__(self) -> None:
        self.all = _OrderedInserts()
        self.behind = _OrderedInserts()
        self._deltas: dict[int, Insert] = {}
        self._contexts: tuple[Vector[Insert], ...] = (Vector(), Vector())

    def follow(self, chain: Chain) -> _InsertChanges | None:
        """Take a chain's inserts; None where nothing changed. Costs O(deltas + what differs)."""
        contexts = (chain.persisted, chain.outside)
        had, has = self._deltas, chain.deltas
        gone: list[Insert] = []
        new: list[Insert] = []
        if had is not has:
            gone = [insert for number, insert in had.items() if has.get(number) is not insert]
            new = [insert for number, insert in has.items() if had.get(number) is not insert]
        for before, now in zip(self._contexts, contexts, strict=True):
            if before is not now:
                same = before.common(now)
                gone += before.since(same)
                new += now.since(same)
        self._deltas, self._contexts = has, contexts
        if not gone and not new:
            return None
        front, behind = (
            ([insert for insert in gone if insert.behind is so], [insert for insert in new if insert.behind is so])
            for so in (False, True)
        )
        return _InsertChanges(self.all.change(*front), self.behind.change(*behind))


class _Due(NamedTuple):
    """Inserts and those behind results up to the end of a group, and its units with those that are new."""

    inserts: int
    told: int
    units: tuple[base.Unit, ...]


def _doubled(tools: tuple[Raw, ...]) -> tuple[Problem, ...]:
    """Name tools that are listed twice: providers refuse such a list."""
    counts = Counter(_name(tool) for tool in tools)
    twice = [printable(name) for name, count in counts.items() if name and count > 1]
    shown = f"{len(twice)} tool names are listed more than once: {cut_masked(', '.join(twice), 160)}"
    return (Problem(Code.DUPLICATE_TOOL_NAMES, shown),) if twice else ()


def _name(tool: Raw) -> str:
    own = table(bytes(tool)) or {}
    inner = table(own.get("function", b"null")) or own
    return text_of(inner["name"]) if "name" in inner else ""


class Unsaid:
    """Name the records in a growing timeline that no prompt can hold; costs O(what changed)."""

    def __init__(self) -> None:
        self._entries: Vector[Entry] = Vector()
        self._places: list[int] = []
        self._types: Vector[str] = Vector()

    def of(self, entries: Vector[Entry]) -> Vector[str]:
        """Return the types of the opaque items, in the order of the timeline."""
        same = self._entries.common(entries)
        while self._places and self._places[-1] >= same:
            self._places.pop()
        self._types = self._types.cut(len(self._places))
        for place, entry in enumerate(entries.since(same), same):
            if isinstance(entry.item, OpaqueItem):
                self._places.append(place)
                kind = (table(bytes(entry.item.record)) or {}).get("type", b"")
                self._types = self._types.append(text_of(kind) if kind[:1] == b'"' else "opaque")
        self._entries = entries
        return self._types


def rated(prompt: Prompt, *, whole: bool, left_out: int) -> Prompt:
    """Return the prompt with its fidelity: `structural` where nothing of it is missing or left out."""
    if not whole or left_out or prompt.fidelity != "reconstructed":
        return prompt
    return msgspec.structs.replace(prompt, fidelity="structural")
