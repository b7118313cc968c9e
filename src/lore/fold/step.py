"""`step(state, event)`: the only way session state changes.

In: a state and an event. Out: the next state and the problems of that event. Rules: total (any event,
any state), pure (the old state stays as it was), one table kind -> function. An unknown id, a turn that
ends but is not under way, a second header are no-ops with a problem.

`Folding` is the same for many events in a row: it steps on copies of its own, which `state` hands out.
"""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from typing import Any, NamedTuple

import msgspec
from msgspec import Raw

from lore.fold import compaction, inserts, timeline, turns
from lore.fold.knowledge import Learned
from lore.fold.timeline import Problems, note
from lore.fold.tools import late_last
from lore.model import events as e
from lore.model.codes import Code, Problem
from lore.model.items import is_absent
from lore.model.state import LONGEST, SIGNS, Chain, Session, Sign, bounded

MOST_LAYERS = 1_000  # each is looked at in every turn in which one of them changed

_replace = msgspec.structs.replace


class Step(NamedTuple):
    """The state after an event, and what was wrong with the event."""

    state: Session
    problems: Problems = ()


def step(state: Session, event: e.Event) -> Step:
    """Apply one event. Costs O(1), compaction and removal O(items that they move), knowledge O(entries)."""
    folding = Folding(state)
    problems = folding.apply(event)
    return Step(folding.state(), problems)


class Folding:
    """A session that is being folded. No state that went in or came out is ever changed.

    Not safe between threads.
    """

    __slots__ = ("_chains", "_learned", "_own", "_session")

    def __init__(self, state: Session) -> None:
        self._session = state
        self._learned: Learned | None = None
        self._chains = state.chains
        self._own: dict[str, Chain] = {}

    @property
    def session(self) -> Session:
        """What all chains share; its `chains` are up to date only in `state()`. Costs O(1), after changes of
        what is known once O(entries).
        """
        if self._learned is not None:
            self._session, self._learned = self._learned.into(self._session), None
        return self._session

    def apply(self, event: e.Event) -> Problems:
        """Apply one event."""
        kind = type(event)
        if kind in _LORES_OWN and not self._session.is_own:
            self._adopt()
        if kind is e.SessionChanged:
            event = self._in_order(event)  # pyright: ignore[reportArgumentType]
        on_chain = _ON_CHAIN.get(kind)
        if on_chain is not None:
            return on_chain(self._own.get(event.chain) or self._mine(event.chain), event)
        if isinstance(event, e.TurnStarted):
            return self._start(event)
        if isinstance(event, e.Knowledge):
            if self._learned is None:
                self._learned = Learned(self._session)
            return self._learned.change(event)
        session = self.state() if isinstance(event, _OF_CHAINS) else self.session
        self._session, problems = _ON_SESSION[type(event)](session, event)
        if isinstance(event, _OF_CHAINS):
            self._chains = self.session.chains
        return problems

    def _adopt(self) -> None:
        """Take a session that another tool recorded as lore's own from here on: the log goes on with lore's events."""
        self._session = _replace(self.session, adopted=True)
        for name in {**self._chains, **self._own}:
            chain = self._mine_now(name)
            if chain.turns:
                note(chain, Code.SESSION_CHANGED, f"a session of {self._session.format} goes on as lore's own")

    def _in_order(self, event: e.SessionChanged) -> e.SessionChanged:
        """Keep the places of tools that lore has sent; what other tools recorded was sent as it is."""
        if event.tools is None or not self._session.is_own:
            return event
        return _replace(event, tools=late_last(self._mine_now(event.chain).tools or (), event.tools))

    def derive(self, event: e.Event) -> Problems:
        """Apply an event that lore derived and the log does not hold; the chain remembers it as unsaved."""
        before = self._mine_now(event.chain).unsaved
        problems = self.apply(event)
        inserts.derived(self._own[event.chain], event, before)
        return problems

    def save(self, name: str) -> tuple[e.Event, ...]:
        """Return a chain's unsaved events in order, as they hold now, and take them as saved."""
        chain = self._mine_now(name)
        events, chain.unsaved = inserts.unsaved(chain), ()
        return events

    def _mine_now(self, name: str) -> Chain:
        return self._own.get(name) or self._mine(name)

    def _mine(self, name: str) -> Chain:
        """Return a chain that no state holds, to be changed."""
        chain = self._own[name] = copy(self._chains.get(name) or self._session.new_chain(name))
        return chain

    def _start(self, event: e.TurnStarted) -> Problems:
        if not self._session.is_own and not is_absent(event.context):
            self._adopt()
        chain = self._mine_now(event.chain)
        problems = turns.start(chain, event)
        if chain.pinned is None:
            chain.pinned = tuple(self.session.knowledge.values())
            chain.pinned_layers = self.session.late_layers
        return problems

    def chain(self, name: str) -> Chain:
        """Return a chain as it is now: O(1), whatever the number of chains."""
        chain = self._own.pop(name, None)
        if chain is None or (name not in self._chains and self._is_untouched(chain)):
            return self._chains.get(name) or self.session.new_chain(name)
        if self._chains is self.session.chains:
            self._chains = dict(self._chains)
        self._chains[name] = chain
        return chain

    def state(self) -> Session:
        """Return the state after all events so far. Costs O(chains)."""
        if self._own or self._chains is not self.session.chains:
            known = self._chains
            new = {name: one for name, one in self._own.items() if name in known or not self._is_untouched(one)}
            self._session = _replace(self.session, chains={**known, **new})
            self._chains, self._own = self._session.chains, {}
        return self.session

    def _is_untouched(self, chain: Chain) -> bool:
        """Tell whether a chain that no event has begun is still as it was: then there is none."""
        fresh = self.session.new_chain(chain.id)
        return all(getattr(chain, name) == getattr(fresh, name) for name in Chain.__struct_fields__ if name != "index")


def _with_chain(state: Session, chain: Chain) -> Session:
    return _replace(state, chains={**state.chains, chain.id: chain})


def _session_started(state: Session, event: e.SessionStarted) -> Step:
    if state.started:
        return Step(state, (Problem(Code.BAD_HEADER, "a second session_started; the first holds"),))
    problems: tuple[Problem, ...] = ()
    if event.v != 1:
        problems = (Problem(Code.BAD_HEADER, f"log version {event.v} is not 1; read as version 1"),)
    opened = _replace(
        state,
        id=event.session_id,
        at=event.at,
        format=event.origin or state.format,
        model=event.model,
        dialect=event.dialect,
        system=event.system,
        tools=event.tools,
        params=event.params,
        attachments=event.attachments,
        started=True,
    )
    if event.chain in opened.chains:  # events came before the header: give it to their chain too
        held = _replace(
            opened.chains[event.chain],
            model=event.model, system=event.system, tools=event.tools, params=event.params,
        )  # fmt: skip
        return Step(_with_chain(opened, held), problems)
    return Step(_with_chain(opened, opened.chain(event.chain)), problems)


def _session_changed(chain: Chain, event: e.SessionChanged) -> Problems:
    moved: list[str] = []
    for name in ("params", "system"):
        value: Raw = getattr(event, name)
        if not is_absent(value) and value != getattr(chain, name):
            setattr(chain, name, value)
            moved.append(name)
    if event.tools is not None and event.tools != chain.tools:
        chain.tools = event.tools
        moved.append("tools")
    if moved:
        note(chain, Code.SESSION_CHANGED, " and ".join(moved) + " changed")
    if event.model is not None and event.model != chain.model:
        if chain.model is not None:
            note(chain, Code.MODEL_CHANGED, f"model changed from {chain.model} to {event.model}")
        chain.model = event.model
    return ()


def _layer(state: Session, event: e.Layer) -> Step:
    if event.when not in ("once_at_start", "every_turn"):
        return Step(state, (Problem(Code.MALFORMED_RECORD, f"layer {event.name!r} has unknown `when` {event.when!r}"),))
    begun = any(chain.turns for chain in state.chains.values())
    late = event.when == "once_at_start" and begun
    field = "turn_layers" if event.when == "every_turn" else "late_layers" if late else "start_layers"
    layers: tuple[e.Layer, ...] = getattr(state, field)
    names = [layer.name for layer in layers]
    if len(names) >= MOST_LAYERS and event.name not in names:
        return Step(
            state, (Problem(Code.MALFORMED_RECORD, f"layer {event.name!r}: more than {MOST_LAYERS} layers, skipped"),)
        )
    if event.name in names:
        place = names.index(event.name)
        layers = (*layers[:place], event, *layers[place + 1 :])
    else:
        layers = (*layers, event)
    return Step(_replace(state, **{field: layers}))


def _observed(chain: Chain, event: e.Observed) -> Problems:
    """Keep a sign for the next turn, one of each name: one that comes again is joined to what it said before."""
    if event.name not in SIGNS:
        return (
            Problem(Code.MALFORMED_RECORD, f"observed {event.name[:60]!r} is no sign that lore knows; passed over"),
        )
    kept = tuple(sign for sign in chain.signs if sign.name != event.name)
    names, removed, before = event.names, event.removed, event.before[:LONGEST]
    if len(kept) < len(chain.signs):
        known = next(sign for sign in chain.signs if sign.name == event.name)
        names, removed, before = (*known.names, *names), (*known.removed, *removed), known.before
    chain.signs = (*kept, Sign(event.name, bounded(names), bounded(removed), before, event.after[:LONGEST]))
    return ()


def _unchanged(_: Chain, __: e.CompactStarted | e.Saved) -> Problems:
    return ()


def _opaque(state: Session, _: e.OpaqueEvent) -> Step:
    return Step(_replace(state, opaque=state.opaque + 1))


_ON_CHAIN: dict[type, Callable[[Chain, Any], Problems]] = {
    e.Append: timeline.append,
    e.PatchText: timeline.patch_text,
    e.PatchToolCall: timeline.patch_tool_call,
    e.ToolResultCleared: timeline.clear_results,
    e.Remove: timeline.remove,
    e.CompactStarted: _unchanged,
    e.CompactApplied: compaction.compact,
    e.TurnCompleted: turns.end,
    e.TurnFailed: turns.end,
    e.TurnCanceled: turns.end,
    e.SessionChanged: _session_changed,
    e.PromptDelta: inserts.delta,
    e.ContextPersisted: inserts.context,
    e.CacheReset: inserts.reset,
    e.Observed: _observed,
    e.Saved: _unchanged,
}

_ON_SESSION: dict[type, Callable[[Session, Any], Step]] = {
    e.SessionStarted: _session_started,
    e.Layer: _layer,
    e.OpaqueEvent: _opaque,
}

# What only a log of lore's own has; a turn's context is the other.
_LORES_OWN = frozenset((e.Knowledge, e.Layer, e.PromptDelta, e.ContextPersisted))

_OF_CHAINS = (e.SessionStarted, e.Layer)  # what on the session looks at its chains
