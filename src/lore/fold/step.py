"""`step(state, event)`: the only way session state changes.

In: a state and an event. Out: the next state and the problems of that event. Rules: total (any event,
any state), pure (the old state stays as it was), one table kind -> function. An unknown id, a turn that
ends but is not under way, a second header are no-ops with a problem.

`Folding` is the same for many events in a row: it steps on copies of its own, which `state` hands out.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import msgspec
from msgspec import Raw

from lore.fold import inserts, timeline
from lore.fold.knowledge import Learned
from lore.fold.timeline import Problems, note, problem, settle
from lore.model import events as e
from lore.model.canonical import text_of
from lore.model.codes import Code
from lore.model.items import is_absent
from lore.model.jsonslice import table
from lore.model.limits import SESSION_CLIENTS, SESSION_LAYERS
from lore.model.mask import cut_masked, mask
from lore.model.state import LONGEST, SIGNS, Chain, ClosedTurn, FoldedSession, OpenTurn, Sign, Totals, Waiting, bounded

_ENDS = {e.TurnCompleted: "completed", e.TurnFailed: "failed", e.TurnCanceled: "canceled"}
MOST_TOKENS = 10**9  # tokens of a request: none has as many

_replace = msgspec.structs.replace


class FoldStep(NamedTuple):
    """The state after an event, and what was wrong with the event."""

    state: FoldedSession
    problems: Problems = ()


def step(state: FoldedSession, event: e.Event) -> FoldStep:
    """Apply one event. Costs O(1), compaction and removal O(items that they move), knowledge O(entries)."""
    folding = Folding(state)
    problems = folding.apply(event)
    return FoldStep(folding.state(), problems)


class Folding:
    """A session that is being folded. No state that went in or came out is ever changed.

    Not safe between threads.
    """

    __slots__ = ("_chains", "_learned", "_own", "_session")

    def __init__(self, state: FoldedSession) -> None:
        self._session = state
        self._learned: Learned | None = None
        self._chains = state.chains
        self._own: dict[str, Chain] = {}

    @property
    def session(self) -> FoldedSession:
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
            return on_chain(self._own.get(event.chain) or self._copied(event.chain), event)
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
            chain = self._own_chain(name)
            if chain.turns:
                note(chain, Code.SESSION_CHANGED, f"a session of {self._session.format} goes on as lore's own")

    def _in_order(self, event: e.SessionChanged) -> e.SessionChanged:
        """Keep the places of tools that lore has sent, new ones behind; what other tools recorded was sent as it is."""
        if event.tools is None or not self._session.is_own:
            return event
        known = self._own_chain(event.chain).tools or ()
        places = {tool_name(tool): place for place, tool in reversed(list(enumerate(known)))}
        tools = sorted(event.tools, key=lambda tool: places.get(tool_name(tool), len(known)))
        return _replace(event, tools=tuple(tools))

    def derive(self, event: e.Event) -> Problems:
        """Apply an event that lore derived and the log does not hold; the chain remembers it as unsaved."""
        before = self._own_chain(event.chain).unsaved
        problems = self.apply(event)
        inserts.derived(self._own[event.chain], event, before)
        return problems

    def save(self, name: str) -> tuple[e.Event, ...]:
        """Return a chain's unsaved events in order, as they hold now, and take them as saved."""
        chain = self._own_chain(name)
        events, chain.unsaved = inserts.unsaved(chain), ()
        return events

    def _own_chain(self, name: str) -> Chain:
        return self._own.get(name) or self._copied(name)

    def _copied(self, name: str) -> Chain:
        """Return a chain that no state holds, to be changed."""
        known = self._chains.get(name)
        chain = self._own[name] = self._session.new_chain(name) if known is None else _replace(known)
        return chain

    def _start(self, event: e.TurnStarted) -> Problems:
        if not self._session.is_own and not is_absent(event.context):
            self._adopt()
        chain = self._own_chain(event.chain)
        problems = _start_turn(chain, event)
        if chain.pinned is None:
            inserts.pin(chain, self.session)
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

    def peek(self, name: str) -> Chain:
        """Return a chain to be looked at before the next event, which may change it: O(1), and nothing is copied."""
        return self._own.get(name) or self._chains.get(name) or self.session.new_chain(name)

    def forget(self, name: str) -> None:
        """Drop a chain that no event will name again. Costs O(chains)."""
        self._own.pop(name, None)
        self._chains = {known: chain for known, chain in self._chains.items() if known != name}

    def state(self) -> FoldedSession:
        """Return the state after all events so far. Costs O(chains)."""
        if self._own or self._chains is not self.session.chains:
            known = self._chains
            new = {name: chain for name, chain in self._own.items() if name in known or not self._is_untouched(chain)}
            self._session = _replace(self.session, chains={**known, **new})
            self._chains, self._own = self._session.chains, {}
        return self.session

    def _is_untouched(self, chain: Chain) -> bool:
        """Tell whether a chain that no event has begun is still as it was: then there is none."""
        fresh = self.session.new_chain(chain.id)
        return all(getattr(chain, name) == getattr(fresh, name) for name in Chain.__struct_fields__ if name != "index")


def _start_turn(chain: Chain, event: e.TurnStarted) -> Problems:
    """Open a turn: the changes noted since the last one become its own."""
    problems: Problems = ()
    if chain.turn is not None and event.turn <= chain.turn.turn:
        problems = problem(Code.TURN_OUT_OF_ORDER, f"turn {event.turn} starts after turn {chain.turn.turn}")
        chain.reset = None  # numbers begin again: a reset of this turn is none that was made before
    settle(chain)
    chain.turns += 1
    chain.sent_before, chain.sent = chain.sent, len(chain.entries)
    written = chain.persisted.last()
    if not is_absent(event.context) and (written is None or written.number != event.turn):
        chain.waiting = Waiting(event.turn, event.context)
    chain.previous, chain.last = chain.last, None
    chain.turn = OpenTurn(
        event.turn, event.at, event.context, chain.since, chain.signs, event.breakpoints, event.call, event.given_up,
    )  # fmt: skip
    chain.since = chain.signs = ()
    chain.before = chain.totals = _replace(chain.totals, turns=chain.turns)
    return problems


def _end_turn(chain: Chain, event: e.TurnCompleted | e.TurnFailed | e.TurnCanceled) -> Problems:
    """Close the turn; a second closing of the same turn replaces the first."""
    if chain.turn is None or event.turn != chain.turn.turn:
        if chain.previous is not None and event.turn == chain.previous.turn:
            return _end_late(chain, event, chain.previous)
        return problem(Code.TURN_OUT_OF_ORDER, f"turn {event.turn} ends but is not the one under way")
    usage, problems = _believable(event.usage)
    response, hashes = (event.response_id, event.hashes) if isinstance(event, e.TurnCompleted) else (None, None)
    chain.last = ClosedTurn(event.turn, _ENDS[type(event)], event.at, usage, event.verdict, response, hashes)
    chain.totals = _add(chain.before, usage)
    return problems


def _end_late(chain: Chain, event: e.TurnCompleted | e.TurnFailed | e.TurnCanceled, before: ClosedTurn) -> Problems:
    """Put the bill of the turn before the latest right: its last line came after the next one began."""
    usage, problems = _believable(event.usage)
    if usage is not None:
        chain.previous = _replace(before, usage=usage)
        chain.before = _add(_add(chain.before, before.usage, -1), usage)
        chain.totals = _add(_add(chain.totals, before.usage, -1), usage)
    return problems


def _believable(usage: e.Usage | None) -> tuple[e.Usage | None, Problems]:
    """Take counts that no request can have, below 0 or past 10^9, as unknown."""
    if usage is None:
        return None, ()
    odd = _impossible(usage)
    inner = [_impossible(found) for found in usage.iterations] if usage.iterations else []
    if not odd and not any(inner):
        return usage, ()
    passes = tuple([_replace(found, **none) for found, none in zip(usage.iterations, inner, strict=True)])
    names = dict.fromkeys(name for none in (odd, *inner) for name in none)
    message = f"{', '.join(names)} cannot be: taken as unknown"
    return _replace(usage, iterations=passes, **odd), problem(Code.MALFORMED_RECORD, message)


def _impossible(counts: e.Usage) -> dict[str, None]:
    """Name the counts that no request can have."""
    known = (
        counts.uncached_tokens, counts.read_tokens, counts.write_tokens, counts.output_tokens,
        counts.write_5m_tokens, counts.write_1h_tokens,
    )  # fmt: skip
    counted = list(filter(None, known))
    if not counted or 0 < min(counted) <= max(counted) <= MOST_TOKENS:
        return {}
    return {e.COUNTS[at]: None for at, count in enumerate(known) if count is not None and not 0 <= count <= MOST_TOKENS}


def _add(totals: Totals, usage: e.Usage | None, sign: int = 1) -> Totals:
    if usage is None:
        return totals
    uncached, read, write, output = (
        totals.uncached_tokens, totals.read_tokens, totals.write_tokens, totals.output_tokens,
    )  # fmt: skip
    for counts in usage.passes:
        if counts.uncached_tokens is not None:
            uncached = (uncached or 0) + sign * counts.uncached_tokens
        if counts.read_tokens is not None:
            read = (read or 0) + sign * counts.read_tokens
        if counts.write_tokens is not None:
            write = (write or 0) + sign * counts.write_tokens
        if counts.output_tokens is not None:
            output = (output or 0) + sign * counts.output_tokens
    known = not usage.client or usage.client in totals.clients or len(totals.clients) >= SESSION_CLIENTS
    clients = totals.clients if known else (*totals.clients, usage.client)
    return Totals(totals.turns, uncached, read, write, output, clients)


def _session_started(state: FoldedSession, event: e.SessionStarted) -> FoldStep:
    if state.started:
        return FoldStep(state, problem(Code.BAD_HEADER, "a second session_started; the first holds"))
    said = {name: getattr(event, name) for name in ("model", "system", "tools", "params")}
    opened = _replace(
        state, id=event.session_id, at=event.at, format=event.origin or state.format, dialect=event.dialect,
        provider=event.provider, attachments=event.attachments, started=True, **said,
    )  # fmt: skip
    chain = _replace(opened.chain(event.chain), **said)  # events may have come before the header
    state = _replace(opened, chains={**opened.chains, chain.id: chain})
    if event.v == 1:
        return FoldStep(state)
    return FoldStep(state, problem(Code.BAD_HEADER, f"log version {event.v} is not 1; read as version 1"))


def _session_changed(chain: Chain, event: e.SessionChanged) -> Problems:
    before, moved = chain.since, list[str]()
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
    if event.dialect is not None and event.dialect != chain.dialect:
        if chain.turns:
            note(chain, Code.SESSION_CHANGED, f"requests have the shape of {event.dialect}")
        chain.dialect = event.dialect
    if event.model is not None and event.model != chain.model:
        if chain.model is not None:
            note(chain, Code.MODEL_CHANGED, f"model changed from {chain.model} to {event.model}")
        chain.model = event.model
    if event.observed:
        chain.since = before
    return ()


def tool_name(tool: Raw) -> str:
    """Return a tool's name; a tool without one goes by its text."""
    own = table(bytes(tool)) or {}
    inner = table(own.get("function", b"null")) or own
    return text_of(inner.get("name", bytes(tool)))


def _layer(state: FoldedSession, event: e.Layer) -> FoldStep:
    if event.when not in ("once_at_start", "every_turn"):
        return FoldStep(
            state, problem(Code.MALFORMED_RECORD, f"layer {event.name!r} has unknown `when` {event.when!r}")
        )
    late = any(chain.turns for chain in state.chains.values())
    field = "turn_layers" if event.when == "every_turn" else "late_layers" if late else "start_layers"
    layers: tuple[e.Layer, ...] = getattr(state, field)
    names = [layer.name for layer in layers]
    if len(names) >= SESSION_LAYERS and event.name not in names:
        message = f"layer {event.name!r}: more than {SESSION_LAYERS} layers, skipped"
        return FoldStep(state, problem(Code.MALFORMED_RECORD, message))
    if event.name in names:
        place = names.index(event.name)
        layers = (*layers[:place], event, *layers[place + 1 :])
    else:
        layers = (*layers, event)
    return FoldStep(_replace(state, **{field: layers}))


def _observed(chain: Chain, event: e.Observed) -> Problems:
    """Keep a sign for the next turn, one of each name: one that comes again is joined to what it said before."""
    if event.name not in SIGNS:
        message = f"observed {mask(event.name)[:60]!r} is no sign that lore knows; passed over"
        return problem(Code.MALFORMED_RECORD, message)
    kept = tuple(sign for sign in chain.signs if sign.name != event.name)
    names, removed, before = event.names, event.removed, cut_masked(event.before, LONGEST)
    if len(kept) < len(chain.signs):
        known = next(sign for sign in chain.signs if sign.name == event.name)
        names, removed, before = (*known.names, *names), (*known.removed, *removed), known.before
    after, version = cut_masked(event.after, LONGEST), cut_masked(event.version, LONGEST)
    chain.signs = (*kept, Sign(event.name, bounded(names), bounded(removed), before, after, version))
    return ()


def _unchanged(_: Chain, __: e.CompactStarted | e.Saved) -> Problems:
    return ()


_ON_CHAIN: dict[type, Callable[[Chain, Any], Problems]] = {
    e.Append: timeline.append,
    e.PatchText: timeline.patch_text,
    e.PatchToolCall: timeline.patch_tool_call,
    e.ToolResultCleared: timeline.clear_results,
    e.Remove: timeline.remove,
    e.CompactStarted: _unchanged,
    e.CompactApplied: timeline.compact,
    e.TurnCompleted: _end_turn,
    e.TurnFailed: _end_turn,
    e.TurnCanceled: _end_turn,
    e.SessionChanged: _session_changed,
    e.PromptDelta: inserts.delta,
    e.ContextPersisted: inserts.context,
    e.CacheReset: inserts.reset,
    e.Observed: _observed,
    e.Saved: _unchanged,
}

_ON_SESSION: dict[type, Callable[[FoldedSession, Any], FoldStep]] = {
    e.SessionStarted: _session_started,
    e.Layer: _layer,
    e.OpaqueEvent: lambda state, _: FoldStep(_replace(state, opaque=state.opaque + 1)),
}

# What only a log of lore's own has; a turn's context is the other.
_LORES_OWN = frozenset((e.Knowledge, e.Layer, e.PromptDelta, e.ContextPersisted))

_OF_CHAINS = (e.SessionStarted, e.Layer)  # what on the session looks at its chains
