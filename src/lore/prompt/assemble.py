"""Assemble the prompt of a chain's latest turn.

In: a session, one of its chains. Out: a prompt whose segments up to its tail are a prefix of the next
turn's, unless an event said otherwise. Rules: what did not change since the last call is not rendered
again but shared, so assembling all turns of a session costs O(its bytes); the result is the same as
that of a fresh assembler.

Not safe between threads: one assembler follows one chain.
"""

from __future__ import annotations

from typing import Literal, NamedTuple, TypeAlias

from msgspec import Raw, Struct

from lore.model.canonical import encode
from lore.model.items import NULL, TextBlock, is_absent
from lore.model.jsonslice import table
from lore.model.problems import Problem
from lore.model.prompt import Prompt, Segment
from lore.model.state import Chain, Entry, Session
from lore.model.vector import Vector
from lore.prompt import layout
from lore.prompt.base import Dialect, Place, Unit
from lore.prompt.models import takes_system_messages
from lore.prompt.tail import tail_of

Policy: TypeAlias = Literal["system", "user"]
POLICIES: tuple[Policy, ...] = ("system", "user")


class Assembled(NamedTuple):
    """A prompt, what was wrong with the turn's context, and what the dialect could not express."""

    prompt: Prompt
    problems: tuple[Problem, ...]
    omitted: Vector[str]


class _Mark(Struct, frozen=True, gc=False):
    """Where a group of entries begins: entries, segments and omissions before it, and the place behind those."""

    entries: int
    segments: int
    place: Place
    omitted: int


class Assembler:
    """Assemble one chain's turns, in any order; cheapest in the order they came."""

    def __init__(self, dialect: Dialect, policy: Policy = "system") -> None:
        self.dialect = dialect
        self.policy: Policy = policy
        self._entries: Vector[Entry] = Vector()
        self._segments: Vector[Segment] = Vector()
        self._groups: list[_Mark] = []
        self._end = _Mark(0, 0, Place(), 0)
        self._omitted: Vector[str] = Vector()
        self._head_key: object = None
        self._head: tuple[Segment, ...] = ()
        self._params_of: Raw = NULL
        self._params: dict[str, bytes] = {}

    def assemble(self, session: Session, chain: Chain) -> Assembled:
        """Return the prompt of the chain's latest turn. Costs O(what changed since the last call)."""
        head = self._headed(session, chain)
        first = self.dialect.first(head)
        if not self._groups:
            self._end = _Mark(0, 0, first, 0)
        elif self._groups[0].place != first:
            self._forget(0)
            self._end = _Mark(0, 0, first, 0)
        self._render(chain.entries)
        tail, problems = self._tail(session, chain)
        if chain.params is not self._params_of:
            self._params_of, self._params = chain.params, table(bytes(chain.params)) or {}
        prompt = Prompt(
            dialect=self.dialect.name, fidelity="reconstructed", model=chain.model, head=head,
            messages=self._segments, tail=tail, params=self._params,
        )  # fmt: skip
        return Assembled(prompt, problems, self._omitted)

    def _headed(self, session: Session, chain: Chain) -> tuple[Segment, ...]:
        key = (chain.system, chain.tools, chain.pinned, session.start_layers, session.id, session.attachments)
        if self._head_key is None or key != self._head_key:
            self._head = self.dialect.head(chain.tools or (), layout.system_texts(session, chain))
            self._head_key = key
        return self._head

    def _forget(self, entries: int) -> None:
        """Drop the groups that hold or follow the entry at this index."""
        while self._groups and self._end.entries > entries:
            self._end = self._groups.pop()
        self._segments = self._segments.cut(self._end.segments)
        self._omitted = self._omitted.cut(self._end.omitted)

    def _render(self, entries: Vector[Entry]) -> None:
        same = self._entries.common(entries)
        continues = 0 < same < len(entries) and entries[same].group == entries[same - 1].group
        self._forget(same - 1 if continues else same)
        self._entries = entries
        segments: list[Segment] = []
        omitted: list[str] = []
        end, render = self._end, self.dialect.render
        before, left_out = end.segments, end.omitted
        for size, units in layout.units(entries.since(end.entries)):
            self._groups.append(end)
            place = end.place
            for unit in units:
                rendered = render(unit, place)
                for segment in rendered.segments:
                    segment.origin = unit.origin
                segments += rendered.segments
                omitted += rendered.omitted
                place = rendered.after
            end = _Mark(end.entries + size, before + len(segments), place, left_out + len(omitted))
        self._end = end
        self._segments = self._segments.extend(segments)
        self._omitted = self._omitted.extend(omitted)

    def _tail(self, session: Session, chain: Chain) -> tuple[tuple[Segment, ...], tuple[Problem, ...]]:
        context = chain.turn.context if chain.turn is not None else NULL
        if session.format != "lore" or (is_absent(context) and not session.turn_layers):
            return (), ()
        own = self.policy == "system" and takes_system_messages(chain.model, self.dialect.name)
        text, problems = tail_of(session, context, authority=own)
        if not text:
            return (), problems
        unit = Unit(
            "system" if own else "user", (TextBlock(Raw(encode(text))),), joins=not own, origin="context of this turn"
        )
        rendered = self.dialect.render(unit, self._end.place)
        for segment in rendered.segments:
            segment.origin = unit.origin
        return rendered.segments, problems
