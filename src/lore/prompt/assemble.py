"""Assemble the prompt of a chain's latest turn: the head (tools, system prompt), messages, tail and breakpoints.

The segments up to the tail are a prefix of the next turn's, unless an event is a reason for it to change. Segments that
did not change since the last call are shared and not rendered again, so that all turns of a session cost O(its bytes);
the result is the same as that of a new assembler.

Entries are rendered in groups: a message, or a response with its calls and results. An insert (a durable delta or
persisted context) is rendered before the group at whose entry it was recorded; if no text may be placed there, before
the next group that allows it. Inserts are never last, and come after a tool's results only before a real user message.
Not safe between threads: one assembler follows one chain.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable
from functools import cache, partial
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
from lore.model.jsonslice import raw_members
from lore.model.mask import cut_masked
from lore.model.providers import AcceptedBreakpoints
from lore.model.state import Chain, Entry, FoldedSession
from lore.model.turn import Prompt, Segment
from lore.model.vector import Vector
from lore.prompt import base, layout
from lore.prompt import breakpoints as b
from lore.prompt.layout import is_from_user, is_real, tail_of
from lore.prompt.system_messages import placement, takes_one_system_message

VOLATILE = "context of this turn"  # the origin of the tail's segments
_ORDER = attrgetter("order")
_AFTER_ALL = 2**62  # a place after every entry of a timeline


class Assembled(NamedTuple):
    """An assembled prompt."""

    prompt: Prompt  # with its tail and breakpoints
    problems: tuple[Problem, ...]  # of the turn's context, the tools and the breakpoints
    omitted: Vector[str]  # names of what the dialect could not express


class _RenderState(Struct, frozen=True, gc=False):
    """The state after a group of entries is rendered, from which rendering can restart."""

    entries: int = 0  # entries of the timeline that are rendered
    inserts: int = 0  # of `before_entries`, those that are rendered
    inserts_after_results: int = 0  # of `after_results`, those that are rendered
    segments: int = 0  # of the messages
    omitted: int = 0  # blocks that the dialect could not express
    place: base.Spot = base.Spot()  # where the next message begins
    role: base.Role | None = None  # of the last message, `results` if it holds those of tools; None without messages
    breakpoint_at: int = -1  # the last segment that can carry a breakpoint; -1: none


class Assembler:
    """Assembles one chain's turns, in any order; cheapest in the order in which they came."""

    def __init__(
        self, dialect: base.Dialect, rules: base.Rules | None = None,
        accepted: Callable[[str, str | None], AcceptedBreakpoints | None] = lambda api, model: None,
    ) -> None:  # fmt: skip
        self.dialect = dialect
        self.rules = rules or base.Rules()
        self._accepted = accepted  # where an API (a dialect's name) accepts breakpoints for a model; None: not known
        self._finish: Callable[[Prompt], Prompt] | None = getattr(dialect, "finish", None)
        self._verbatim: Callable[[bytes, base.Spot], base.Rendered | None] | None = getattr(dialect, "verbatim", None)
        self._key_member: Callable[[str | None], str | None] | None = getattr(dialect, "cache_key_member", None)
        self._in_loops = base.expresses(dialect, base.IN_LOOPS)
        self._placement = cache(partial(placement, dialect=dialect, rules=self.rules))
        self._is_own = False
        # The head, and the parts of the state that it was rendered from.
        self._head_key: tuple[object, ...] | None = None
        self._head: tuple[Segment, ...] = ()
        self._head_ends = b.HeadEnds()
        self._cache_key: str | None = None
        # The messages: `_ends` has the end before each group of entries.
        self._entries: Vector[Entry] = Vector()
        self._inserts = _Inserts()
        self._segments: Vector[Segment] = Vector()
        self._ends: list[_RenderState] = []
        self._end = _RenderState()
        self._omitted: Vector[str] = Vector()
        self._recorded: list[tuple[int, bytes]] = []  # recorded breakpoints by position in the messages

    def assemble(self, session: FoldedSession, chain: Chain, *, finished: bool = True) -> Assembled:
        """Return the prompt of the chain's latest turn. Costs O(what changed since the last call).

        Before the first turn it is that of the entries so far, without the turn's context. Without `finished`, call
        `finish` on a prompt to get it as the dialect sends it.
        """
        problems = self._render_head(session, chain)
        first = self.dialect.first(self._head)
        if session.is_own != self._is_own:  # breakpoints are placed only in lore's own sessions
            self._is_own = session.is_own
            self._drop_from(0)
        if (self._ends[0] if self._ends else self._end).place != first:
            self._drop_from(0)
            self._end = _RenderState(place=first)
        self._update_inserts(chain)
        self._render_messages(chain.entries)
        tail, tail_problems = self._render_tail(session, chain)
        params = raw_members(bytes(chain.params)) or {}
        if session.is_own and self.rules.breakpoints == "lore" and self._cache_key and self._key_member is not None:
            member = self._key_member(chain.model)  # for the key by which the API finds the shared part's cache
            params = params if member is None or member in params else {**params, member: encode(self._cache_key)}
        placed = self._plan_breakpoints(session, chain, params)
        mark = self.dialect.breakpoint(chain.model, self.rules.ttl) if placed.positions and session.is_own else None
        if mark is not None and mark.options and self.rules.breakpoints == "lore":
            params = {mark.options: mark.value, **params}
        prompt = Prompt(
            dialect=self.dialect.name, fidelity="reconstructed", model=chain.model, head=self._head,
            messages=self._segments, tail=tail, params=params,
            breakpoints=placed.positions, breakpoint_values=placed.values,
            auto_breakpoint=params.get(b.AUTOMATIC, b"null") != b"null",
        )  # fmt: skip
        return Assembled(
            self.finish(prompt) if finished else prompt, (*problems, *tail_problems, *placed.problems), self._omitted
        )

    def finish(self, prompt: Prompt) -> Prompt:
        """Return a prompt as the dialect sends it: the same object, or the text of a chat template, then O(prompt)."""
        return prompt if self._finish is None else self._finish(prompt)

    def _render_head(self, session: FoldedSession, chain: Chain) -> tuple[Problem, ...]:
        """Render tools and system prompt if they changed; return the problems of changed tools."""
        takes_one = takes_one_system_message(chain.model, self.dialect, self.rules)
        key = (
            chain.system, chain.tools, chain.pinned, chain.pinned_layers, session.start_layers, session.id,
            session.attachments, session.is_own, chain.announced, takes_one,
        )  # fmt: skip
        if key == self._head_key:
            return ()
        texts = layout.system_texts(session, chain, self.rules)
        if takes_one and texts:
            whole_text = b'"' + b"\\n\\n".join([block.text[1:-1] for block in texts]) + b'"'
            texts = (layout.SystemText(whole_text, ", ".join(dict.fromkeys(block.origin for block in texts))),)
        self._head = self.dialect.head(chain.tools or (), tuple([block.text for block in texts]))
        system = [segment for segment in self._head if segment.section == "system" and segment.kind != "envelope"]
        for segment, block in zip(system, texts, strict=False):
            segment.origin = block.origin
        shared = 1 + max((at for at, segment in enumerate(self._head) if layout.is_shared(segment)), default=-1)
        self._head_ends = b.find_head_ends(self.dialect, self._head, shared)
        self._cache_key = b.cache_key(self._head[:shared]) if shared else None
        previous_key, self._head_key = self._head_key, key
        has_same_tools = previous_key is not None and previous_key[1] == chain.tools
        return () if has_same_tools else _duplicate_tools(chain.tools or ())

    def _drop_from(self, entries: int) -> None:
        """Drop the groups that hold or follow the entry at this index."""
        while self._ends and self._end.entries > entries:
            self._end = self._ends.pop()
        self._cut_to_end()

    def _cut_to_end(self) -> None:
        """Drop all segments after `_end`."""
        self._segments = self._segments.cut(self._end.segments)
        self._omitted = self._omitted.cut(self._end.omitted)
        while self._recorded and self._recorded[-1][0] >= self._end.segments:
            self._recorded.pop()

    def _update_inserts(self, chain: Chain) -> None:
        """Update the inserts; drop the groups from the first insert that is new, moved or removed."""
        changes = self._inserts.update(chain)
        if changes is None:
            return
        (same, place), (same_after, place_after) = changes  # an insert after results belongs to their group
        while self._ends and (
            self._end.inserts > same
            or self._end.inserts_after_results > same_after
            or self._end.entries > min(place, place_after - 1)
        ):
            self._end = self._ends.pop()
        self._cut_to_end()

    def _render_messages(self, entries: Vector[Entry]) -> None:
        same = self._entries.common(entries)
        continues = 0 < same < len(entries) and entries[same].group == entries[same - 1].group
        self._drop_from(same - 1 if continues else same)
        self._entries = entries
        segments: list[Segment] = []
        omitted: list[str] = []
        at = self._end.entries
        for size, units in layout.build_units(entries.since(at)):
            self._ends.append(self._end)
            first = entries[at].item
            if self._end.role == "results" and type(first) is CompactDivider:
                # A message of its own would read as the user's next turn, so the summary joins the results' message. If
                # nothing was pruned, everything in the summary is before it, and it is left out.
                units = tuple([msgspec.structs.replace(unit, joins=True) for unit in units if first.pruned])
            self._end = self._render_group(units, at, size, first, segments, omitted)
            at += size
        self._segments = self._segments.extend(segments)
        self._omitted = self._omitted.extend(omitted)

    def _render_group(
        self, units: tuple[base.Unit, ...], at: int, size: int, first: Item, segments: list[Segment], omitted: list[str]
    ) -> _RenderState:
        """Render `size` entries at `at` with their inserts into both lists and `_recorded`; return the new end."""
        end = self._end
        inserts, after_results, units = self._with_inserts(units, at, size, first)
        place, role, breakpoint_at = end.place, end.role, end.breakpoint_at
        count, omitted_count = end.segments, end.omitted
        for unit in units:
            rendered = self._render_unit(unit, place)
            for position, segment in enumerate(rendered.segments, count):
                if self._is_own and self.dialect.takes_breakpoint(segment):
                    breakpoint_at = position
                if segment.breakpoint is not None:
                    self._recorded.append((position, segment.breakpoint))
            count += len(rendered.segments)
            segments += rendered.segments
            omitted += rendered.omitted
            omitted_count += len(rendered.omitted)
            place = rendered.after
            role = unit.role if rendered.segments and not unit.joins else role
        return _RenderState(
            end.entries + size, inserts, after_results, count, omitted_count, place, role, breakpoint_at
        )

    def _with_inserts(
        self, units: tuple[base.Unit, ...], at: int, size: int, first: Item
    ) -> tuple[int, int, tuple[base.Unit, ...]]:
        """Put the due inserts around a group's units; return the counts of `_RenderState`, and all units."""
        end = self._end
        due = self._inserts.after_results[end.inserts_after_results :]
        waiting = list(takewhile(lambda insert: insert.place <= at + size, due))
        before: list[Insert] = []  # they wait for a group that text may precede and that says something
        if end.role != "results" or is_from_user(first):
            before = [insert for insert in waiting if insert.place <= at]
            for insert in self._inserts.before_entries[end.inserts :]:
                if insert.place > at or (insert.outside and not is_real(first)):
                    break
                before.append(insert)
            if before and not any(self.dialect.render(unit, end.place).segments for unit in units):
                before = []
        late = sum(insert.after_results for insert in before)
        inserts, after_results = end.inserts + len(before) - late, end.inserts_after_results + late
        after: list[Insert] = []  # if the dialect has no place for them, they come before the next group
        if self._in_loops and (units[-1].role if units else end.role) == "results":
            after = waiting[late:]
        opening = [unit for insert in before for unit in layout.build_insert_units(insert)]
        closing = [unit for insert in after for unit in layout.build_insert_units(insert, after_results=True)]
        return inserts, after_results + len(after), (*opening, *units, *closing)

    def _render_unit(self, unit: base.Unit, place: base.Spot) -> base.Rendered:
        recorded = self._verbatim(unit.message, place) if unit.message and self._verbatim is not None else None
        rendered = recorded or self.dialect.render(unit, place)
        for segment in rendered.segments:
            segment.origin = unit.origin
        return rendered

    def _render_tail(self, session: FoldedSession, chain: Chain) -> tuple[tuple[Segment, ...], tuple[Problem, ...]]:
        context = chain.turn.context if chain.turn is not None else NULL
        if not session.is_own or (is_absent(context) and not session.turn_layers):
            return (), ()
        is_system = self.rules.tail == "system" and self._placement(chain.model).accepted
        text, instructions, problems = tail_of(session, context, separate=is_system)
        written = chain.persisted.last()
        in_history = chain.turn is not None and written is not None and written.number == chain.turn.turn
        if self.rules.tail == "persist" or in_history:
            return (), problems
        if text and self._end.role == "assistant":
            left_out = Problem(Code.CONTEXT_LEFT_OUT, "no message of the user's is last: its context is left out")
            text, problems = "", (*problems, left_out)
        segments: list[Segment] = []
        place = self._end.place
        texts: tuple[tuple[base.Role, str], ...] = (("user", text), ("system", instructions))
        for role, words in texts:
            if words:
                blocks = (TextBlock(Raw(encode(words))),)
                rendered = self._render_unit(base.Unit(role, blocks, joins=role == "user", origin=VOLATILE), place)
                segments += rendered.segments
                place = rendered.after
        return tuple(segments), problems

    def _plan_breakpoints(self, session: FoldedSession, chain: Chain, params: dict[str, bytes]) -> b.PlannedBreakpoints:
        """Return where the cache breakpoints are; sessions of other tools keep the recorded ones."""
        if self.rules.breakpoints == "none":
            return b.PlannedBreakpoints()
        is_recorded = not session.is_own and self.dialect.name == (chain.dialect or session.dialect)
        if is_recorded and chain.turn is not None and chain.turn.breakpoints:
            placed = {self._position_of(mark): bytes(mark.value) for mark in chain.turn.breakpoints}
            positions = tuple(sorted(at for at in placed if at >= 0))
            return b.PlannedBreakpoints(positions, tuple([placed[at] for at in positions]))
        if self.rules.breakpoints == "recorded" or not session.is_own:
            return b.keep_recorded(self._head, self._recorded)
        previous, latest = self._last_markable(chain.sent_before), self._end.breakpoint_at
        return b.place_breakpoints(
            self.dialect, chain.model, self.rules, params,
            self._head_ends, len(self._head), self._segments, previous, latest,
            self._accepted(self.dialect.name, chain.model) or b.EVERYWHERE,
        )  # fmt: skip

    def _position_of(self, mark: Mark) -> int:
        """Return the position of the segment to which a recorded breakpoint belongs; -1 if the prompt lacks it."""
        if mark.section == "messages":
            at = bisect_left(self._ends, mark.at, key=attrgetter("entries"))
            end = self._ends[at] if at < len(self._ends) else self._end
            position = end.segments - 1 - mark.after
            return len(self._head) + position if position >= 0 else -1
        section = (at for at, segment in enumerate(self._head)
                   if segment.section == mark.section and segment.kind != "envelope")  # fmt: skip
        return next(islice(section, max(mark.at, 0), None), -1)

    def _last_markable(self, entries: int) -> int:
        """Return the last segment of the first `entries` that can carry a breakpoint; -1 without one."""
        if entries >= self._end.entries:
            return self._end.breakpoint_at
        at = bisect_left(self._ends, entries, key=attrgetter("entries"))
        return self._ends[at].breakpoint_at if at < len(self._ends) else -1


class _Inserts:
    """A chain's inserts: those before entries, and those after results, in the message of the results."""

    def __init__(self) -> None:
        self.before_entries: list[Insert] = []
        self.after_results: list[Insert] = []
        self._deltas: dict[int, Insert] = {}
        self._contexts: tuple[Vector[Insert], ...] = (Vector(), Vector())

    def update(self, chain: Chain) -> tuple[tuple[int, int], tuple[int, int]] | None:
        """Update both lists from a chain; return the first change in each, None if nothing changed.

        That is the number of leading inserts that are unchanged, and the place of the insert after them. Costs O(deltas
        + changes).
        """
        previous, current = self._deltas, chain.deltas
        dropped = [insert for number, insert in previous.items() if current.get(number) is not insert]
        new = [insert for number, insert in current.items() if previous.get(number) is not insert]
        contexts = (chain.persisted, chain.outside)
        for before, now in zip(self._contexts, contexts, strict=True):
            if before is not now:
                same = before.common(now)
                dropped += before.since(same)
                new += now.since(same)
        self._deltas, self._contexts = current, contexts
        if not dropped and not new:
            return None
        changes: list[tuple[int, int]] = []
        for inserts, after_results in ((self.before_entries, False), (self.after_results, True)):
            removed = {insert.key: insert for insert in dropped if insert.after_results is after_results}
            added = [insert for insert in new if insert.after_results is after_results]
            same = len(inserts)
            if removed or added:
                same = bisect_left(inserts, min(map(_ORDER, (*removed.values(), *added))), key=_ORDER)
                later = [insert for insert in inserts[same:] if insert.key not in removed]
                inserts[same:] = sorted((*later, *added), key=_ORDER)
            changes.append((same, inserts[same].place if same < len(inserts) else _AFTER_ALL))
        return changes[0], changes[1]


def _duplicate_tools(tools: tuple[Raw, ...]) -> tuple[Problem, ...]:
    """Return a problem that names the tools which are listed twice: providers refuse such a list."""
    counts: Counter[str] = Counter()
    for tool in tools:
        outer = raw_members(bytes(tool)) or {}
        name = (raw_members(outer.get("function", b"null")) or outer).get("name", b'""')
        counts[text_of(name)] += 1
    twice = [printable(name) for name, count in counts.items() if name and count > 1]
    text = f"tool names that are listed more than once: {cut_masked(', '.join(twice), 160)}"
    return (Problem(Code.DUPLICATE_TOOL_NAMES, text),) if twice else ()


class OpaqueTypes:
    """Lists the types of the opaque items of a growing timeline, which no prompt can hold."""

    def __init__(self) -> None:
        self._entries: Vector[Entry] = Vector()
        self._places: list[int] = []
        self._types: Vector[str] = Vector()

    def types_in(self, entries: Vector[Entry]) -> Vector[str]:
        """Return the type of each opaque item, in order; `opaque` for one without a type.

        Costs O(what changed since the last call).
        """
        same = self._entries.common(entries)
        while self._places and self._places[-1] >= same:
            self._places.pop()
        self._types = self._types.cut(len(self._places))
        for place, entry in enumerate(entries.since(same), same):
            if isinstance(entry.item, OpaqueItem):
                self._places.append(place)
                kind = (raw_members(bytes(entry.item.record)) or {}).get("type", b"")
                self._types = self._types.append(text_of(kind) if kind[:1] == b'"' else "opaque")
        self._entries = entries
        return self._types


def raise_to_structural(prompt: Prompt, *, whole: bool, omitted_count: int) -> Prompt:
    """Return a `reconstructed` prompt as `structural` if the recording is `whole` and nothing was omitted."""
    if not whole or omitted_count or prompt.fidelity != "reconstructed":
        return prompt
    return msgspec.structs.replace(prompt, fidelity="structural")
