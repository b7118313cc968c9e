"""`Folding`: the only way session state changes.

It takes any event in any state. An event that does not fit (an unknown id, the end of a turn that is not under way, a
second header) changes nothing and is reported as a problem.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from msgspec import Raw
from msgspec.structs import replace

from lore.fold import inserts, timeline, turns
from lore.fold.knowledge import change_knowledge
from lore.fold.timeline import Problems, note_change, problem
from lore.model import events as e
from lore.model.canonical import text_of
from lore.model.codes import Code
from lore.model.items import is_absent
from lore.model.jsonslice import raw_members
from lore.model.limits import SESSION_LAYERS
from lore.model.mask import cut_masked, mask
from lore.model.providers import without_platform
from lore.model.state import HOOKS, LONGEST, QUOTED, SIGNS, Chain, Fact, FoldedSession, Sign, bounded_names


class Folding:
    """Applies events to a session. It changes copies, never a state that it got or returned. Not thread-safe."""

    __slots__ = ("_chains", "_copies", "_knowledge", "_session")

    def __init__(self, state: FoldedSession) -> None:
        self._session = state
        # copies of the session's knowledge and removed ids, with changes that `_session` does not have yet
        self._knowledge: tuple[dict[str, Fact], dict[str, None]] | None = None
        self._chains = state.chains  # chains that are not being changed
        self._copies: dict[str, Chain] = {}  # chains that are being changed: no state holds these copies

    @property
    def session(self) -> FoldedSession:
        """The session with current knowledge, but its chains as they were at the last call of `state`.

        Costs O(1), after changes of knowledge once O(entries). Read current chains with `chain`.
        """
        if self._knowledge is not None:
            (facts, removed), self._knowledge = self._knowledge, None
            self._session = replace(self._session, knowledge=facts, removed=removed)
        return self._session

    def state(self) -> FoldedSession:
        """Return the state after all events so far. Costs O(chains)."""
        if self._copies or self._chains is not self.session.chains:
            current_chains = {
                name: chain for name, chain in self._copies.items() if name in self._chains or self._has_begun(chain)
            }
            self._session = replace(self.session, chains={**self._chains, **current_chains})
            self._chains, self._copies = self._session.chains, {}
        return self.session

    def chain(self, name: str) -> Chain:
        """Return a chain after all events so far; later events do not change it. O(1), once O(chains) after `state`.

        For an unknown name it is a new chain (`FoldedSession.new_chain`), which the session does not get.
        """
        chain = self._copies.pop(name, None)
        if chain is None or (name not in self._chains and not self._has_begun(chain)):
            return self._chains.get(name) or self.session.new_chain(name)
        if self._chains is self.session.chains:
            self._chains = dict(self._chains)
        self._chains[name] = chain
        return chain

    def peek(self, name: str) -> Chain:
        """Return a chain that the next event may change in place, so read it at once. Costs O(1).

        For an unknown name it is a new chain, as in `chain`. Unlike `chain` this does not make the next event copy it.
        """
        return self._copies.get(name) or self._chains.get(name) or self.session.new_chain(name)

    def forget(self, name: str) -> None:
        """Drop a chain that no later event names. Costs O(chains)."""
        self._copies.pop(name, None)
        self._chains = {other: chain for other, chain in self._chains.items() if other != name}

    def apply(self, event: e.Event) -> Problems:
        """Apply one event and return its problems. May begin a chain, and may adopt another tool's session."""
        problems = self._change(event)
        if type(event) in _KINDS_OF_LORE and not self._session.is_own:
            session, chain = self.session, self.peek(event.chain)
            layers = session.start_layers or session.late_layers or session.turn_layers
            if session.knowledge or layers or chain.deltas or chain.persisted or chain.outside:
                self._adopt()  # an unreadable event added nothing: the session remains the other tool's
        return problems

    def _change(self, event: e.Event) -> Problems:
        """Apply one event to session and chain; of the rules for adoption only that for a turn's context."""
        if type(event) is e.SessionChanged:
            if event.tools is not None and self._session.is_own:
                event = replace(event, tools=_keep_tool_order(self._copy_of(event.chain).tools or (), event.tools))
            if event.title is not None:
                self._session = replace(self.session, title=event.title)
        on_chain = _ON_CHAIN.get(type(event))
        if on_chain is not None:
            chain = self._copies.get(event.chain) or self._copy_of(event.chain)
            if type(event) is e.CompactApplied and self._session.is_own:
                return (*timeline.report_removed_calls(chain, event), *on_chain(chain, event))
            return on_chain(chain, event)
        if type(event) is e.TurnStarted:
            if not self._session.is_own and raw_members(bytes(event.context)) is not None:
                self._adopt()
            chain = self._copy_of(event.chain)
            problems = turns.start_turn(chain, event)
            if chain.pinned is None:
                inserts.pin(chain, self.session)
            return problems
        if type(event) is e.Knowledge:
            if self._knowledge is None:
                self._knowledge = dict(self._session.knowledge), dict(self._session.removed)
            return change_knowledge(*self._knowledge, event)
        if type(event) in _WITHOUT_EFFECT:
            return ()
        self._session, problems = _ON_SESSION[type(event)](self.state(), event)
        self._chains = self._session.chains
        return problems

    def derive(self, event: e.Event) -> Problems:
        """Apply an event that lore made itself, add it to the chain's `unsaved` events, and return its problems.

        A second `PromptDelta` of a number moves the delta and may lack the content: then the first one is added again,
        and `save` sets its place.
        """
        deltas = [delta for delta in self._copy_of(event.chain).unsaved if isinstance(delta, e.PromptDelta)]
        problems = self.apply(event)
        chain = self._copies[event.chain]
        first = (delta for delta in deltas if isinstance(event, e.PromptDelta) and delta.seq == event.seq)
        chain.unsaved = (*chain.unsaved, next(first, event))
        return problems

    def save(self, name: str) -> tuple[e.Event, ...]:
        """Return a chain's unsaved events in order, with their current places, and clear `unsaved`."""
        chain = self._copy_of(name)
        events, chain.unsaved = inserts.unsaved_events(chain), ()
        return events

    def _adopt(self) -> None:
        """Set `adopted`: lore continues another tool's session. Note it as a change in each chain that has turns."""
        self._session = replace(self.session, adopted=True)
        for name in {**self._chains, **self._copies}:
            chain = self._copy_of(name)
            if chain.turns:
                detail = f"a session of {self._session.format} continues as lore's own"
                note_change(chain, Code.SESSION_CHANGED, detail)

    def _copy_of(self, name: str) -> Chain:
        chain = self._copies.get(name)
        if chain is None:
            original = self._chains.get(name)
            chain = self._copies[name] = self._session.new_chain(name) if original is None else replace(original)
        return chain

    def _has_begun(self, chain: Chain) -> bool:
        """Return whether an event has changed a chain that the header made; else no state gets it."""
        fresh = self.session.new_chain(chain.id)
        return any(getattr(chain, name) != getattr(fresh, name) for name in Chain.__struct_fields__ if name != "index")


def _start_session(state: FoldedSession, event: e.SessionStarted) -> tuple[FoldedSession, Problems]:
    if state.started:
        return state, problem(Code.BAD_HEADER, "a second session_started; the first holds")
    values = {name: getattr(event, name) for name in ("model", "system", "tools", "params")}
    state = replace(
        state, id=event.session_id, at=event.at, format=event.origin or state.format, dialect=event.dialect,
        provider=event.provider, title=event.title, attachments=event.attachments, started=True, **values,
    )  # fmt: skip
    chain = replace(state.chain(event.chain), **values)  # events may have come before the header
    state = replace(state, chains={**state.chains, chain.id: chain})
    if event.v == 1:
        return state, ()
    return state, problem(Code.BAD_HEADER, f"log version {event.v} is not 1; read as version 1")


def _add_layer(state: FoldedSession, event: e.Layer) -> tuple[FoldedSession, Problems]:
    if event.when not in ("once_at_start", "every_turn"):
        return state, problem(Code.MALFORMED_RECORD, f"layer {event.name!r} has unknown `when` {event.when!r}")
    is_late = any(chain.turns for chain in state.chains.values())
    field = "turn_layers" if event.when == "every_turn" else "late_layers" if is_late else "start_layers"
    layers: tuple[e.Layer, ...] = getattr(state, field)
    names = [layer.name for layer in layers]
    if event.name in names:
        place = names.index(event.name)
        layers = (*layers[:place], event, *layers[place + 1 :])
    elif len(names) < SESSION_LAYERS:
        layers = (*layers, event)
    else:
        message = f"layer {event.name!r}: more than {SESSION_LAYERS} layers, skipped"
        return state, problem(Code.MALFORMED_RECORD, message)
    return replace(state, **{field: layers}), ()


def _change_session(chain: Chain, event: e.SessionChanged) -> Problems:
    before, changed_names = chain.since, list[str]()
    for name in ("params", "system"):
        value: Raw = getattr(event, name)
        if not is_absent(value) and value != getattr(chain, name):
            setattr(chain, name, value)
            changed_names.append(name)
    if event.tools is not None and event.tools != chain.tools:
        chain.tools = event.tools
        changed_names.append("tools")
    if changed_names:
        note_change(chain, Code.SESSION_CHANGED, " and ".join(changed_names) + " changed")
    if event.dialect is not None and event.dialect != chain.dialect:
        if chain.turns:
            note_change(chain, Code.SESSION_CHANGED, f"requests have the shape of {event.dialect}")
        chain.dialect = event.dialect
    if event.model is not None and event.model != chain.model:
        if chain.model is not None and without_platform(chain.model) != without_platform(event.model):
            note_change(chain, Code.MODEL_CHANGED, f"model changed from {chain.model} to {event.model}")
        chain.model = event.model
    if event.observed:
        chain.since = before
    return ()


def _keep_tool_order(old_tools: tuple[Raw, ...], tools: tuple[Raw, ...]) -> tuple[Raw, ...]:
    """Return the tools in another order: those of `old_tools` first, in their old order, then new ones."""
    places = {tool_name(tool): place for place, tool in reversed(list(enumerate(old_tools)))}
    return tuple(sorted(tools, key=lambda tool: places.get(tool_name(tool), len(old_tools))))


def tool_name(tool: Raw) -> str:
    """Return a tool's name, a member of its `function` or else of the tool; without a name the JSON text."""
    members = raw_members(bytes(tool)) or {}
    function = raw_members(members.get("function", b"null")) or members
    return text_of(function.get("name", bytes(tool)))


def _note_sign(chain: Chain, event: e.Observed) -> Problems:
    """Add a sign to `signs` for the next turn; a second one of the same name is merged with the first."""
    if event.name not in SIGNS:
        message = f"observed {mask(event.name)[:60]!r} is not a known signal; ignored"
        return problem(Code.MALFORMED_RECORD, message)
    others = tuple(sign for sign in chain.signs if sign.name != event.name)
    names, removed, before = event.names, event.removed, cut_masked(event.before, LONGEST)
    if len(others) < len(chain.signs):
        previous = next(sign for sign in chain.signs if sign.name == event.name)
        names, removed, before = (*previous.names, *names), (*previous.removed, *removed), previous.before
    after = cut_masked(event.after, QUOTED if event.name in HOOKS else LONGEST)
    version = cut_masked(event.version, LONGEST)
    chain.signs = (*others, Sign(event.name, bounded_names(names), bounded_names(removed), before, after, version))
    return ()


_ON_CHAIN: dict[type, Callable[[Chain, Any], Problems]] = {
    e.Append: timeline.append, e.PatchText: timeline.patch_text, e.PatchToolCall: timeline.patch_tool_call,
    e.ToolResultCleared: timeline.clear_results, e.Remove: timeline.remove, e.CompactApplied: timeline.compact,
    e.TurnCompleted: turns.end_turn, e.TurnFailed: turns.end_turn, e.TurnCanceled: turns.end_turn,
    e.SessionChanged: _change_session, e.Observed: _note_sign,
    e.PromptDelta: inserts.add_delta, e.ContextPersisted: inserts.add_context, e.CacheReset: inserts.reset,
}  # fmt: skip
_ON_SESSION: dict[type, Callable[[FoldedSession, Any], tuple[FoldedSession, Problems]]] = {
    e.SessionStarted: _start_session, e.Layer: _add_layer,
}  # fmt: skip
_WITHOUT_EFFECT = (e.CompactStarted, e.Saved, e.OpaqueEvent)

# Only lore writes these. One of them in another tool's session, or a turn's context, makes lore adopt the session.
_KINDS_OF_LORE = frozenset((e.Knowledge, e.Layer, e.PromptDelta, e.ContextPersisted))
