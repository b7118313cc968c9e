"""What a turn adds to its session: durable deltas, persisted context, resets, as events.

In: a session and the turn that is about to start. Out: the events that come before it, which the caller
folds and (where it keeps a log) appends. Derived from facts alone: where the log holds them already,
nothing is left to derive, so reading a log that was persisted and one that was not give the same prompts.

Rules: what changed is measured against what the prompt says, entry by entry, by meaning; a new delta
stands directly before the last real user message that was not sent yet, and waits where there is none;
the ninth delta is a reset instead. Not safe between threads: one planner follows one chain.
"""

from __future__ import annotations

import operator
from collections.abc import Iterable

import msgspec
from msgspec import Raw

from lore.model.canonical import encode, text_of
from lore.model.events import MAIN, CacheReset, ContextPersisted, Event, Layer, PromptDelta, TurnStarted
from lore.model.inserts import Told, moved, place_in, selector, told
from lore.model.items import NULL, is_absent
from lore.model.materiality import signature
from lore.model.state import Chain, Fact, Session
from lore.prompt.ahead import Ahead
from lore.prompt.knowledge import News, delta_text
from lore.prompt.placing import anchor, safe
from lore.prompt.settings import Rules
from lore.prompt.tail import tail_of

_replace = msgspec.structs.replace
MOST_DELTAS = 8
CAP_REASON = f"{MOST_DELTAS} durable deltas: knowledge is pinned anew"


class Planner:
    """Plan one chain's turns, in order; what did not change since the last one is not looked at again."""

    def __init__(self, rules: Rules, ahead: Ahead | None = None) -> None:
        self.rules = rules
        self._ahead = ahead or Ahead()
        self._pinned: tuple[object, object] = (None, None)
        self._base = Told({}, (), {})
        self._facts: dict[str, Fact] = {}
        self._signs: dict[str, str] = {}
        self._layers: dict[int, tuple[Layer, str]] = {}
        self._settled: tuple[object, ...] = ()

    def plan(self, session: Session, chain: Chain, turn: TurnStarted) -> list[Event]:
        """Return the events that come before a turn. Costs O(1) where nothing changed, else O(entries known)."""
        if not session.is_own:
            return []
        events = list(_nudges(chain))
        place = anchor(chain)
        if place is None:
            return events
        saved = self._saved(chain, turn, place)
        events += saved if saved is not None else self._knowledge(session, chain, turn, place)
        return [*events, *self._context(session, chain, turn, place)]

    def _saved(self, chain: Chain, turn: TurnStarted, place: int) -> list[Event] | None:
        """Return what the log says further on that this turn brought; None where it says nothing."""
        reset = self._ahead.reset(chain.id, turn.turn)
        if reset is not None and chain.reset != turn.turn:
            return [reset]
        found = [one for one in self._ahead.deltas(chain.id, turn.turn) if one.seq not in chain.deltas]
        return [_replace(one, selector=moved(one.selector, place)) for one in found] or None

    def _knowledge(self, session: Session, chain: Chain, turn: TurnStarted, place: int) -> Iterable[Event]:
        if chain.pinned is None:
            return  # the turn itself pins what is known
        seen = (session.knowledge, session.late_layers, session.start_layers, chain.pinned, chain.deltas)
        if len(self._settled) == len(seen) and all(map(operator.is_, self._settled, seen)):
            return
        news, signs = self._news(session, chain)
        if not news.changed and not news.layers and not (news.removed and self.rules.removals):
            self._settled = seen
            return
        if len(chain.deltas) >= MOST_DELTAS:
            yield CacheReset(reason=CAP_REASON, turn=turn.turn, chain=_name(chain))
            return
        names = {*session.knowledge, *session.removed, *signs}
        text = delta_text(session.id, news, names, self.rules.knowledge_tokens)
        layers = {layer.name: _sign(layer) for layer in news.layers}
        changed = {fact.id: self._signs[fact.id] for fact in news.changed}
        chosen = selector(place, Told(changed, news.removed, layers))
        seq = self._ahead.seq(chain.id, chain.seqs)
        yield PromptDelta(seq=seq, selector=chosen, content=_content(text), turn=turn.turn, chain=_name(chain))

    def _context(self, session: Session, chain: Chain, turn: TurnStarted, place: int) -> Iterable[Event]:
        """Write the turn's context into history, or the latest one that still waits; as the log says, if it does."""
        context, number = turn.context, turn.turn
        if is_absent(context) and chain.waiting is not None:
            context, number = chain.waiting.context, chain.waiting.turn
        written = chain.persisted.last()
        if written is not None and (written.number == number or written.age == chain.turns):
            return  # written since the turn before began: it is this turn's, whichever turn's context it holds
        saved = self._ahead.context(chain.id, number)
        if saved is not None:
            yield _replace(saved, insert_at=place)
        elif self.rules.tail == "persist":
            text = tail_of(session, NULL if is_absent(context) else context, authority=False).text
            if text:
                yield ContextPersisted(turn=number, insert_at=place, content=_content(text), chain=_name(chain))

    def _news(self, session: Session, chain: Chain) -> tuple[News, dict[str, str]]:
        """Compare what is known with what the prompt says; also return the signatures of the latter."""
        said = self.said(chain)
        for name, fact in session.knowledge.items():
            if self._facts.get(name) is not fact:
                self._facts[name], self._signs[name] = fact, signature(fact.title, fact.content)
        changed = [fact for name, fact in session.knowledge.items() if said.changed.get(name) != self._signs[name]]
        gone = [name for name in said.changed if name in session.removed]
        layers = {layer.name: self._layer(layer) for layer in session.start_layers} | said.layers
        late = [layer for layer in session.late_layers if layers.get(layer.name, _NOTHING) != self._layer(layer)]
        return News(tuple(changed), tuple(gone), tuple(late)), said.changed

    def _layer(self, layer: Layer) -> str:
        """Return a layer's signature, made once."""
        known = self._layers.get(id(layer))
        if known is None or known[0] is not layer:
            known = self._layers[id(layer)] = (layer, _sign(layer))
        return known[1]

    def said(self, chain: Chain) -> Told:
        """Return what the prompt says: what is pinned, advanced by every delta."""
        if chain.pinned is not self._pinned[0] or chain.pinned_layers is not self._pinned[1]:
            pinned = {fact.id: signature(fact.title, fact.content) for fact in chain.pinned or ()}
            self._base = Told(pinned, (), {layer.name: _sign(layer) for layer in chain.pinned_layers})
            self._pinned = (chain.pinned, chain.pinned_layers)
        entries, layers = dict(self._base.changed), dict(self._base.layers)
        for delta in sorted(chain.deltas.values(), key=lambda delta: delta.number):
            news = told(delta)
            entries.update(news.changed)
            layers.update(news.layers)
            for name in news.removed:
                entries.pop(name, None)
        return Told(entries, (), layers)


def _name(chain: Chain) -> str:
    """Return a chain's name; the main one's is that very text, or an encoder would not know it for the default."""
    return MAIN if chain.id == MAIN else chain.id


def _sign(layer: Layer) -> str:
    return signature("", text_of(bytes(layer.text)))


_NOTHING = signature("", "")  # a layer without text says nothing, so it is no news where it said nothing before


def _content(text: str) -> Raw:
    return Raw(encode([{"role": "user", "text": text}]))


def _nudges(chain: Chain) -> Iterable[Event]:
    """Move deltas that were not sent yet to where they may stand, and write down where they stand: once."""
    for delta in chain.deltas.values():
        place = delta.place if delta.place < chain.sent else safe(chain.entries, delta.place, chain.sent)
        if place_in(delta.selector) != place:
            yield PromptDelta(seq=delta.number, selector=moved(delta.selector, place), chain=_name(chain))
