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
from operator import attrgetter
from typing import NamedTuple

from msgspec import Raw, Struct

from lore.model.canonical import encode, printable, text_of
from lore.model.codes import Code
from lore.model.items import NULL, CompactDivider, Item, TextBlock, is_absent
from lore.model.jsonslice import table
from lore.model.problems import Problem
from lore.model.prompt import Prompt, Segment
from lore.model.state import Chain, Entry, Insert, Session
from lore.model.vector import Vector
from lore.prompt import breakpoints, layout
from lore.prompt.base import Dialect, Finishing, Place, Rendered, Unit
from lore.prompt.models import takes_system_messages
from lore.prompt.settings import Policy, Rules
from lore.prompt.speakers import is_from_user, is_real
from lore.prompt.tail import tail_of

VOLATILE = "context of this turn"


class Assembled(NamedTuple):
    """A prompt, what was wrong with the turn's context, and what the dialect could not express."""

    prompt: Prompt
    problems: tuple[Problem, ...]
    omitted: Vector[str]


class _End(Struct, frozen=True, gc=False):
    """Where a group of entries begins: entries, inserts, segments and omissions before it; the place behind them.

    `results`: what stands last are a tool's results; `model`: it is the model's own; `breakpoint_at` is the last
    segment that may carry a cache breakpoint, -1 for none.
    """

    entries: int = 0
    inserts: int = 0
    segments: int = 0
    omitted: int = 0
    place: Place = Place()
    results: bool = False
    model: bool = False
    breakpoint_at: int = -1


class Assembler:
    """Assemble one chain's turns, in any order; cheapest in the order they came."""

    def __init__(self, dialect: Dialect, policy: Policy | None = None, rules: Rules | None = None) -> None:
        self.dialect = dialect
        self._finishing = dialect if isinstance(dialect, Finishing) else None
        self.rules = rules or Rules()
        self.policy: Policy = policy or self.rules.tail
        self._entries: Vector[Entry] = Vector()
        self._inserts: list[Insert] = []
        self._placed = _Placed({}, (Vector(), Vector()))
        self._segments: Vector[Segment] = Vector()
        self._groups: list[_End] = []
        self._end = _End()
        self._omitted: Vector[str] = Vector()
        self._recorded: list[breakpoints.Recorded] = []
        self._head_key: object = None
        self._head: tuple[Segment, ...] = ()
        self._params_of: Raw = NULL
        self._params: dict[str, bytes] = {}

    def assemble(self, session: Session, chain: Chain) -> Assembled:
        """Return the prompt of the chain's latest turn. Costs O(what changed since the last call)."""
        odd = self._headed(session, chain)
        first = self.dialect.first(self._head)
        begun = self._groups[0] if self._groups else self._end
        if begun.place != first:
            self._forget(0)
            self._end = _End(place=first)
        self._follow(chain)
        self._render(chain.entries)
        tail, problems = self._tail(session, chain)
        if chain.params is not self._params_of:
            self._params_of, self._params = chain.params, table(bytes(chain.params)) or {}
        placed = self._with_breakpoints(session, chain)
        prompt = Prompt(
            dialect=self.dialect.name, fidelity="reconstructed", model=chain.model, head=self._head,
            messages=self._segments, tail=tail, params=self._params,
            breakpoints=placed.positions, breakpoint_values=placed.values,
        )  # fmt: skip
        if self._finishing is not None:
            prompt = self._finishing.finish(prompt)
        return Assembled(prompt, (*odd, *problems, *placed.problems), self._omitted)

    def _headed(self, session: Session, chain: Chain) -> tuple[Problem, ...]:
        """Render tools and system prompt where they changed; say what is wrong with them then."""
        key = (
            chain.system, chain.tools, chain.pinned, chain.pinned_layers, session.start_layers, session.id,
            session.attachments, session.is_own,
        )  # fmt: skip
        if self._head_key is not None and key == self._head_key:
            return ()
        texts = layout.system_texts(session, chain)
        self._head = self.dialect.head(chain.tools or (), tuple([one.text for one in texts]))
        said = [one for one in self._head if one.section == "system" and one.kind != "envelope"]
        for segment, one in zip(said, texts, strict=False):
            segment.origin = one.origin
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
        placed = _Placed(chain.deltas, (chain.persisted, chain.outside))
        gone, new = _changed(self._placed, placed)
        self._placed = placed
        if not gone and not new:
            return
        first = min(map(_ORDER, (*gone, *new)))
        same = bisect_left(self._inserts, first, key=_ORDER)
        left = {one.key for one in gone}
        behind = [one for one in self._inserts[same:] if one.key not in left]
        self._inserts[same:] = sorted((*behind, *new), key=_ORDER)
        place = self._inserts[same].place if same < len(self._inserts) else self._end.entries
        while self._groups and (self._end.inserts > same or self._end.entries > place):
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
            if self._end.results and _sums_up_nothing(entries[at].item):
                units = ()
            self._end = self._group(units, at, size, entries[at].item, segments, omitted)
            at += size
        self._segments = self._segments.extend(segments)
        self._omitted = self._omitted.extend(omitted)

    def _group(
        self, units: tuple[Unit, ...], at: int, size: int, first: Item, segments: list[Segment], omitted: list[str]
    ) -> _End:
        """Render a group of entries, and before it the inserts whose place has come."""
        end, due = self._end, self._due(units, at, first)
        units = (*[unit for insert in self._inserts[end.inserts : due] for unit in layout.inserted(insert)], *units)
        place, last, breakpoint_at, count, left_out = end.place, "", end.breakpoint_at, end.segments, end.omitted
        for unit in units:
            rendered = self._rendered(unit, place)
            made = rendered.segments
            found = next((at for at in range(len(made) - 1, -1, -1) if self.dialect.takes_breakpoint(made[at])), None)
            breakpoint_at = breakpoint_at if found is None else count + found
            self._recorded += [
                breakpoints.Recorded(count + at, one.breakpoint)
                for at, one in enumerate(made)
                if one.breakpoint is not None
            ]
            count += len(made)
            segments += rendered.segments
            omitted += rendered.omitted
            left_out += len(rendered.omitted)
            place = rendered.after
            last = unit.role if rendered.segments else last
        results, model = (last == "results", last == "assistant") if last else (end.results, end.model)
        return _End(end.entries + size, due, count, left_out, place, results, model, breakpoint_at)

    def _due(self, units: tuple[Unit, ...], at: int, first: Item) -> int:
        """Count the inserts up to a group: they wait for one that text may stand before, and that says something."""
        begun = due = self._end.inserts
        if self._end.results and not is_from_user(first):
            return begun
        while (
            due < len(self._inserts)
            and self._inserts[due].place <= at
            and (not self._inserts[due].outside or is_real(first))
        ):
            due += 1
        if due > begun and not any(self.dialect.render(unit, self._end.place).segments for unit in units):
            return begun
        return due

    def _rendered(self, unit: Unit, place: Place) -> Rendered:
        rendered = self.dialect.render(unit, place)
        for segment in rendered.segments:
            segment.origin = unit.origin
        return rendered

    def _tail(self, session: Session, chain: Chain) -> tuple[tuple[Segment, ...], tuple[Problem, ...]]:
        context = chain.turn.context if chain.turn is not None else NULL
        if not session.is_own or (is_absent(context) and not session.turn_layers):
            return (), ()
        own = self.policy == "system" and takes_system_messages(chain.model, self.dialect.name)
        text, problems = tail_of(session, context, authority=own)
        written = chain.persisted.last()
        said_already = chain.turn is not None and written is not None and written.number == chain.turn.turn
        if not text or self.policy == "persist" or said_already:
            return (), problems
        if self._end.model and not own:
            return (), (
                *problems,
                Problem(Code.CONTEXT_LEFT_OUT, "no message of the user's is last: its context is left out"),
            )
        said = (TextBlock(Raw(encode(text))),)
        unit = Unit("system" if own else "user", said, joins=not own, origin=VOLATILE)
        return self._rendered(unit, self._end.place).segments, problems

    def _with_breakpoints(self, session: Session, chain: Chain) -> breakpoints.Placed:
        """Place the cache breakpoints; sessions of other tools keep those that they recorded."""
        if self.rules.breakpoints == "none":
            return breakpoints.NONE
        head = self._head
        if self.rules.breakpoints == "recorded" or not session.is_own:
            return breakpoints.recorded(head, self._recorded)
        ends = self._before(chain.sent_before), self._end.breakpoint_at
        return breakpoints.place(self.dialect, chain.model, self.rules, head, self._segments, ends)

    def _before(self, entries: int) -> int:
        """Return the last segment that could carry a breakpoint when the prompt was made of this many entries."""
        if entries >= self._end.entries:
            return self._end.breakpoint_at
        low, high = 0, len(self._groups)
        while low < high:
            middle = (low + high) // 2
            low, high = (middle + 1, high) if self._groups[middle].entries < entries else (low, middle)
        return self._groups[low].breakpoint_at if low < len(self._groups) else -1


def _sums_up_nothing(item: Item) -> bool:
    """Tell whether a compaction pruned nothing: all that its summary says stands before it.

    Behind a tool's result the summary would read as the user's next turn.
    """
    return type(item) is CompactDivider and item.pruned == 0


class _Placed(NamedTuple):
    """What stands between the entries, as a chain had it."""

    deltas: dict[int, Insert]
    contexts: tuple[Vector[Insert], Vector[Insert]]


_ORDER = attrgetter("order")


def _changed(before: _Placed, now: _Placed) -> tuple[list[Insert], list[Insert]]:
    """Return the inserts that went and those that came. Costs O(deltas + what differs)."""
    gone: list[Insert] = []
    new: list[Insert] = []
    if before.deltas is not now.deltas:
        gone = [one for number, one in before.deltas.items() if now.deltas.get(number) is not one]
        new = [one for number, one in now.deltas.items() if before.deltas.get(number) is not one]
    for had, has in zip(before.contexts, now.contexts, strict=True):
        if had is not has:
            same = had.common(has)
            gone += had.since(same)
            new += has.since(same)
    return gone, new


def _doubled(tools: tuple[Raw, ...]) -> tuple[Problem, ...]:
    """Name tools that are listed twice: providers refuse such a list."""
    counts = Counter(_name(tool) for tool in tools)
    twice = [printable(name) for name, count in counts.items() if name and count > 1]
    if not twice:
        return ()
    return (
        Problem(
            Code.DUPLICATE_TOOL_NAMES, f"{len(twice)} tool names are listed more than once: {', '.join(twice)[:160]}"
        ),
    )


def _name(tool: Raw) -> str:
    own = table(bytes(tool)) or {}
    inner = table(own.get("function", b"null")) or own
    return text_of(inner["name"]) if "name" in inner else ""
