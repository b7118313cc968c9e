"""Plan the events by which lore adds text to a session before a turn:

- a durable delta: a text in the history that states which knowledge changed since the prompt stated it,
- a reset: all knowledge is pinned again in the system prompt, and the deltas are dropped (`reset_reason` says when),
- persisted context: a turn's volatile context, written into the history.

The caller folds the events and, if it keeps a log, appends them. They depend on the session alone, and none is planned
that the log has already: prompts are the same whether or not the planned events of earlier turns were saved.

A delta is put directly before the last unsent message of the user; without one it waits. Text that lore adds is never
last, never inside a response or between a call and its result, and comes after a tool's result only before a message of
the user: a model reads it there as the user's next turn, which once made one repeat itself until its context was full.
In a tool loop, a delta may extend the message of the last results every `max_loop_turns` turns, if the dialect has a
place for it.

Not safe between threads: one planner follows one chain.
"""

from __future__ import annotations

import operator
from collections.abc import Iterable
from itertools import accumulate, takewhile
from typing import TypeAlias, TypeVar

import msgspec
from msgspec import Raw

from lore.model.canonical import encode, text_of
from lore.model.events import MAIN, CacheReset, ContextPersisted, Event, Layer, PromptDelta, TurnStarted
from lore.model.inserts import (
    DeltaNews,
    delta_news,
    joins_results,
    selector,
    selector_place,
    shorten_ids,
    signature,
    with_place,
)
from lore.model.items import NULL, ToolCall, is_absent, text_in
from lore.model.limits import SESSION_DELTAS, TOOL_LOOP_ITEMS
from lore.model.state import Chain, Entry, Fact, FoldedSession
from lore.model.times import parse_timestamp
from lore.model.vector import Vector
from lore.prompt.base import IN_LOOPS, Dialect, Rules, expresses
from lore.prompt.knowledge import News, delta_text, pinned_text
from lore.prompt.layout import is_announced, is_from_user, tail_of

_replace = msgspec.structs.replace
CHEAP_RESET_DELTAS = 8  # deltas since a reset, after which another one is made if it costs nothing or pays
HOUR, DAY = 3_600, 86_400  # the longest lifetimes of a cache with breakpoints, and without

Saved: TypeAlias = PromptDelta | ContextPersisted | CacheReset
_S = TypeVar("_S", PromptDelta, ContextPersisted, CacheReset)
SAVED_KINDS = (b"prompt_delta", b"context_persisted", b"cache_reset")  # a line without any of these holds none


class SavedEvents:
    """Deltas, contexts and resets that were planned for a turn, and are in the log after it.

    `lore assemble --persist` appends them there. They were sent, whatever other settings (or another version of lore)
    would plan now, so they are looked up before a turn is planned. Only events that name their turn are found.
    """

    def __init__(self, events: Iterable[Event] = ()) -> None:
        self._events: dict[tuple[type[Saved], str, int | None], list[Saved]] = {}
        self._seqs: dict[str, int] = {}
        self.add(events)

    def add(self, events: Iterable[Event]) -> None:
        """Add the planned events among these of a log."""
        for event in events:
            is_outside = type(event) is ContextPersisted and event.outside  # such context is never planned
            if not isinstance(event, Saved) or event.turn is None or is_outside:
                continue
            self._events.setdefault((type(event), event.chain, event.turn), []).append(event)
            if type(event) is PromptDelta:
                self._seqs[event.chain] = max(self._seqs.get(event.chain, 0), event.seq + 1)

    def events_of(self, kind: type[_S], chain: str, turn: int) -> list[_S]:
        """Return the saved events of a kind that name this chain and turn; context from outside is left out."""
        return self._events.get((kind, chain, turn), [])  # pyright: ignore[reportReturnType] - the key holds the kind

    def next_seq(self, chain: str, least: int) -> int:
        """Return the next delta's seq: `least`, or one above the chain's saved deltas that name a turn, if higher."""
        return max(least, self._seqs.get(chain, 0))


class Planner:
    """Plans one chain's turns, in order."""

    def __init__(self, rules: Rules, saved: SavedEvents | None = None) -> None:
        self.rules = rules
        self._log = saved or SavedEvents()
        self._delivered_state: tuple[object, ...] = ()  # the latest state whose knowledge the prompt states in full

    def plan(self, session: FoldedSession, chain: Chain, turn: TurnStarted, dialect: Dialect) -> list[Event]:
        """Return the events that lore adds before a turn: moves of deltas, a new delta or a reset, context to persist.

        They are those that the log has for this turn, else new ones. Their place is before the latest message of the
        user that no request has sent. Without one the turn is inside a tool loop: then no context is persisted, and a
        delta follows the results, if the loop is long and the dialect has a place for it. Empty for sessions of other
        tools. Costs O(1) if nothing changed, else O(entries known).
        """
        if not session.is_own:
            return []
        events: list[Event] = []
        for delta in chain.deltas.values():  # record again those that are not where their selector says
            stays = delta.after_results or delta.place < chain.sent_entries
            at = delta.place if stays else allowed_place(chain.entries, delta.place, chain.sent_entries)
            if selector_place(delta.selector) != at:
                moved = with_place(delta.selector, at)
                events.append(PromptDelta(seq=delta.number, selector=moved, chain=_chain_name(chain)))
        unsent = range(len(chain.entries) - 1, chain.sent_entries - 1, -1)
        place = next((at for at in unsent if is_from_user(chain.entries[at].item)), None)
        in_loop, place = place is None, len(chain.entries) if place is None else place
        if in_loop and not _answers_calls(chain.entries, place):
            return events
        saved = self._saved_events(chain, turn, place)
        if saved is not None:
            events += [
                event
                for event in saved
                if not (in_loop and isinstance(event, PromptDelta)) or joins_results(event.selector, event.content)
            ]
        elif not in_loop or expresses(dialect, IN_LOOPS):
            events += self._knowledge_events(session, chain, turn, place, dialect, after_results=in_loop)
        return events if in_loop else [*events, *self._context_events(session, chain, turn, place)]

    def _saved_events(self, chain: Chain, turn: TurnStarted, place: int) -> list[Event] | None:
        """Return the log's reset or deltas for this turn, without deltas that the chain has; None if it has none."""
        resets = self._log.events_of(CacheReset, chain.id, turn.turn)
        if resets and chain.reset != turn.turn:
            return [resets[0]]
        deltas = self._log.events_of(PromptDelta, chain.id, turn.turn)
        new = [delta for delta in deltas if delta.seq not in chain.deltas]
        if not new and not any(chain.deltas[delta.seq].age == chain.turns for delta in deltas):
            return None
        return [_replace(delta, selector=with_place(delta.selector, place)) for delta in new]

    def _knowledge_events(
        self, session: FoldedSession, chain: Chain, turn: TurnStarted, place: int, dialect: Dialect, *,
        after_results: bool,
    ) -> Iterable[Event]:  # fmt: skip
        if chain.pinned is None:
            return  # the turn itself pins all knowledge
        state = (session.knowledge, session.late_layers, session.start_layers, chain.pinned, chain.deltas)
        if len(self._delivered_state) == len(state) and all(map(operator.is_, self._delivered_state, state)):
            return
        if after_results and not _is_long(chain, self.rules.max_loop_turns):
            return
        news = self._news(session, chain)
        if not news.changed and not news.layers and not (news.removed and self.rules.removals):
            self._delivered_state = state
            return
        lifetime = DAY if dialect.breakpoint(chain.model, self.rules.ttl) is None else HOUR
        if reason := reset_reason(session, chain, turn.at, lifetime):
            yield CacheReset(reason=reason, turn=turn.turn, chain=_chain_name(chain))
            return
        ids = shorten_ids([*(fact.id for fact in news.changed), *news.removed], chain.short_ids)
        name = session.id if is_announced(chain, self.rules) else None
        text, delivered, shortened = delta_text(name, news, ids, self.rules.knowledge_tokens)
        layers = {layer.name: _sign(layer) for layer in news.layers}
        changed = {fact.id: _sign_fact(fact) for fact in news.changed if fact.id in delivered}
        changed |= dict.fromkeys(sorted(shortened), "")  # shown under their ids, but still to be delivered
        chosen = selector(place, DeltaNews(changed, news.removed, layers), after_results=after_results)
        seq = self._log.next_seq(chain.id, chain.seqs)
        yield PromptDelta(seq=seq, selector=chosen, content=_content(text), turn=turn.turn, chain=_chain_name(chain))

    def _context_events(self, session: FoldedSession, chain: Chain, turn: TurnStarted, place: int) -> Iterable[Event]:
        """Yield the event that writes the turn's or the waiting context into the history: the log's, if it has one."""
        context, number = turn.context, turn.turn
        if is_absent(context) and chain.waiting is not None:
            context, number = chain.waiting.context, chain.waiting.turn
        written = chain.persisted.last()
        if written is not None and (written.number == number or written.age == chain.turns):
            return  # one was written since the previous turn began, whichever turn's context it holds
        saved = self._log.events_of(ContextPersisted, chain.id, number)
        if saved:
            yield _replace(saved[0], insert_at=place)
        elif self.rules.tail == "persist":
            text = tail_of(session, NULL if is_absent(context) else context, separate=False).text
            if text:
                yield ContextPersisted(turn=number, insert_at=place, content=_content(text), chain=_chain_name(chain))

    def _news(self, session: FoldedSession, chain: Chain) -> News:
        """Return how knowledge and layers differ from those that the prompt states."""
        stated = self.signatures_in_prompt(chain)
        changed = [fact for name, fact in session.knowledge.items() if stated.changed.get(name) != _sign_fact(fact)]
        removed = [name for name in stated.changed if name in session.removed]
        layers = {layer.name: _sign(layer) for layer in session.start_layers} | stated.layers
        late = [layer for layer in session.late_layers if layers.get(layer.name, _NOTHING) != _sign(layer)]
        outdated = frozenset(fact.id for fact in changed if fact.id in stated.changed)
        return News(tuple(changed), tuple(removed), tuple(late), outdated)

    def signatures_in_prompt(self, chain: Chain) -> DeltaNews:
        """Return signatures of the knowledge that the prompt states: the pinned entries, updated by every delta.

        Of the result `changed` has entries by id (an empty signature if a delta showed the entry cut), `layers` has
        layers by name; `removed` is empty.
        """
        entries = {fact.id: _sign_fact(fact) for fact in chain.pinned or ()}
        layers = {layer.name: _sign(layer) for layer in chain.pinned_layers}
        for delta in sorted(chain.deltas.values(), key=lambda delta: delta.number):
            news = delta_news(delta)
            entries.update(news.changed)
            layers.update(news.layers)
            for name in news.removed:
                entries.pop(name, None)
        return DeltaNews(entries, (), layers)


def reset_reason(session: FoldedSession, chain: Chain, at: str | None, lifetime: float) -> str:
    """Return why news should be pinned in the system prompt by a reset; empty if it should become another delta.

    A reset writes the pinned text and the history to the cache again, at 1.25 times the price of input, while the next
    request would have read them at 0.1. It drops headings and outdated entries of deltas, which cost 0.1 in every
    request. So it pays after (1.25 - 0.1) / 0.1 * written / dropped requests. From the eighth delta on it is made if
    nothing is left in the cache, or if at least as much is dropped as is written, which pays within 12 requests.
    Without a known time the cache is taken to live. `SESSION_DELTAS` limits the deltas in any case, since each costs
    work in every turn. Costs O(entries known and text dropped).
    """
    count = len(chain.deltas)
    if count < CHEAP_RESET_DELTAS:
        return ""
    previous, now = parse_timestamp(chain.turn.at if chain.turn else None), parse_timestamp(at)
    if previous is not None and now is not None and now - previous > lifetime:
        return "the cache has expired: knowledge is pinned again"
    if count >= SESSION_DELTAS:
        return f"{count} durable deltas: knowledge is pinned again"
    ids = shorten_ids(session.knowledge, chain.short_ids)
    written = len(pinned_text(session.knowledge.values(), ids, session.late_layers))
    pinned = len(pinned_text(chain.pinned or (), chain.short_ids, chain.pinned_layers))
    dropped = pinned + sum(len(bytes(delta.content)) for delta in chain.deltas.values()) - written
    sizes = accumulate((len(text_in(entry.item)) for entry in chain.entries), initial=written)
    return "" if any(size > dropped for size in sizes) else "outdated deltas: knowledge is pinned again"


def _chain_name(chain: Chain) -> str:
    """Return a chain's name; for the main one the constant itself, which the encoder recognises as the default."""
    return MAIN if chain.id == MAIN else chain.id


def _sign(layer: Layer) -> str:
    return signature("", text_of(bytes(layer.text)))


def _sign_fact(fact: Fact) -> str:
    return signature(fact.title, fact.content)


_NOTHING = signature("", "")  # an empty layer is no news if the prompt states nothing of it


def _content(text: str) -> Raw:
    return Raw(encode([{"role": "user", "text": text}]))


def allowed_place(entries: Vector[Entry], desired: int, floor: int = 0) -> int:
    """Return the last place from `floor` to `desired` before which lore may put a text; `floor` if none is allowed.

    Places are numbers of entries. Allowed are those before an item from the user, and those between two messages if the
    first has no calls. The end of the timeline is not allowed.
    """
    place = max(floor, min(desired, len(entries) - 1))
    while place > floor and not is_from_user(entries[place].item):
        if entries[place].group != entries[place - 1].group and not _answers_calls(entries, place):
            break
        place -= 1
    return place


def _answers_calls(entries: Vector[Entry], place: int) -> bool:
    """Return whether a place directly follows a response with calls, and so their results."""
    before = (entries[at] for at in range(place - 1, -1, -1))
    response = takewhile(lambda entry: entry.group == entries[place - 1].group, before)
    return any(isinstance(entry.item, ToolCall) for entry in response)


def _is_long(chain: Chain, most: int) -> bool:
    """Return whether the tool loop has `most` turns, or `TOOL_LOOP_ITEMS` items, since it began or its last delta."""
    if not most:
        return False
    latest = max((delta.place for delta in chain.deltas.values() if delta.after_results), default=0)
    last = len(chain.entries) - TOOL_LOOP_ITEMS
    turns: set[int] = set()
    for place in range(len(chain.entries) - 1, max(latest, last) - 1, -1):
        entry = chain.entries[place]
        if is_from_user(entry.item):
            return False
        if isinstance(entry.item, ToolCall):
            turns.add(entry.turn)
        if len(turns) >= most:
            return True
    return latest < last
