"""Durable deltas and persisted context in the fold: where they stand, and when they end.

Rules: nothing is put before an entry that was sent already, so a place in what was sent is taken as the first place
behind it; what was sent keeps place and content; what comes again (a derived event that was saved later) changes
nothing; a reset ends all deltas, but an id keeps the short form under which it was shown. Places follow the entries
that they stand before.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable

import msgspec

from lore.fold.timeline import Problems, end_deltas, note, problem
from lore.model.codes import Code
from lore.model.events import CacheReset, ContextPersisted, Event, PromptDelta
from lore.model.inserts import Insert, delta_news, insert_texts, is_behind, place_in, shown_ids, with_place
from lore.model.items import is_absent
from lore.model.limits import SESSION_DELTAS
from lore.model.state import Chain, FoldedSession

_replace = msgspec.structs.replace


def pin(chain: Chain, session: FoldedSession) -> None:
    """Pin what is known, for the chain's first turn and after each reset. Costs O(entries known)."""
    chain.pinned = tuple(session.knowledge.values())
    chain.pinned_layers = session.late_layers
    if chain.turns == 1:
        chain.announced = bool(chain.pinned or chain.pinned_layers or session.removed)
    chain.shown = shown_ids(session.knowledge, chain.shown)


def _unreadable(message: str) -> Problems:
    return problem(Code.UNREADABLE_DELTA, message)


def delta(chain: Chain, event: PromptDelta) -> Problems:
    """Put a durable delta in its place; a known one may be given another selector, never another content."""
    wanted = place_in(event.selector)
    if wanted is None:
        return _unreadable(f"prompt_delta {event.seq}: unreadable selector, skipped")
    known = chain.deltas.get(event.seq)
    if known is not None:
        return _again(chain, event, known, wanted)
    if insert_texts(event.content) is None:
        return _unreadable(f"prompt_delta {event.seq}: unreadable content, skipped")
    if len(chain.deltas) >= SESSION_DELTAS:
        return _unreadable(f"prompt_delta {event.seq}: more than {SESSION_DELTAS} without a reset, skipped")
    place, problems = _placed(chain, wanted, f"prompt_delta {event.seq}")
    behind = is_behind(event.selector, event.content)
    made = Insert(place, chain.turns, event.seq, event.content, event.selector, behind=behind)
    chain.deltas = {**chain.deltas, event.seq: made}
    news = delta_news(made)
    chain.shown = shown_ids([*news.changed, *news.removed], chain.shown)
    chain.seqs = max(chain.seqs, event.seq + 1)
    return problems


def _again(chain: Chain, event: PromptDelta, known: Insert, wanted: int) -> Problems:
    was_sent = known.place < chain.sent or (known.behind and known.age < chain.turns)
    place = known.place if was_sent else _placed(chain, wanted, "")[0]
    behind = known.behind if was_sent else is_behind(event.selector, known.content)
    chain.deltas = {**chain.deltas, event.seq: _replace(known, place=place, selector=event.selector, behind=behind)}
    _mark_saved(chain, lambda held: isinstance(held, PromptDelta) and held.seq == event.seq)
    if not is_absent(event.content) and event.content != known.content:
        return _unreadable(f"prompt_delta {event.seq} comes again with other content; the first holds")
    if was_sent and wanted != known.place:
        return _unreadable(f"prompt_delta {event.seq} was sent at {known.place}, not {wanted}; it stays")
    return ()


def _placed(chain: Chain, wanted: int, what: str) -> tuple[int, Problems]:
    size = len(chain.entries)
    if wanted > size:
        return size, _unreadable(f"{what}: insert_at {wanted} is outside a history of {size}; put at its end")
    if wanted < chain.sent:
        return chain.sent, _unreadable(f"{what}: insert_at {wanted} is before what was sent already; put behind it")
    return wanted, ()


def context(chain: Chain, event: ContextPersisted) -> Problems:
    """Write a turn's context into history: once, and turn after turn. What came from outside is no turn's own."""
    if event.outside:
        return _outside(chain, event)
    latest = chain.persisted.last()
    if latest is not None and event.turn <= latest.number:
        at = bisect_left(range(len(chain.persisted)), event.turn, key=lambda at: chain.persisted[at].number)
        if chain.persisted[at].number == event.turn:
            _mark_saved(chain, lambda held: isinstance(held, ContextPersisted) and held.turn == event.turn)
            return ()
        return _unreadable(f"context_persisted of turn {event.turn} comes after that of {latest.number}, skipped")
    if insert_texts(event.content) is None or event.insert_at < 0:
        return _unreadable(f"context_persisted of turn {event.turn}: unreadable, skipped")
    place, problems = _placed(chain, event.insert_at, f"context_persisted of turn {event.turn}")
    chain.persisted = chain.persisted.append(Insert(place, chain.turns, event.turn, event.content))
    if chain.waiting is not None and chain.waiting.turn <= event.turn:
        chain.waiting = None
    return problems


def _outside(chain: Chain, event: ContextPersisted) -> Problems:
    """Put context from outside in its place: the turn's own may stand beside it, or wait on.

    A turn may have several, of compactions in a row: each has a number of its own, the turn's or the next free one.
    """
    what, number, latest = f"outside context of turn {event.turn}", event.turn, chain.outside.last()
    if latest is not None and event.turn <= latest.number:
        if event.content == latest.content:
            return ()
        number = latest.number + 1
    if insert_texts(event.content) is None or event.insert_at < 0:
        return _unreadable(f"{what}: unreadable, skipped")
    place, problems = _placed(chain, event.insert_at, what)
    chain.outside = chain.outside.append(Insert(place, chain.turns, number, event.content, outside=True))
    return problems


def _mark_saved(chain: Chain, is_it: Callable[[Event], bool]) -> None:
    """Take a derived event as saved: the log holds it. They are saved in order, so it is the first or near it."""
    at = next((number for number, event in enumerate(chain.unsaved) if is_it(event)), None)
    if at is not None:
        chain.unsaved = chain.unsaved[:at] + chain.unsaved[at + 1 :]


def reset(chain: Chain, event: CacheReset) -> Problems:
    """Give the prefix up: what is known is pinned anew with the next turn. One that names its turn works once."""
    if event.turn is not None:
        if chain.reset is not None and event.turn <= chain.reset:
            _mark_saved(chain, lambda held: isinstance(held, CacheReset) and held.turn == event.turn)
            return ()
        chain.reset = event.turn
    end_deltas(chain)
    note(chain, Code.CACHE_RESET, event.reason)
    return ()


def derived(chain: Chain, event: Event, before: tuple[Event, ...]) -> None:
    """Remember an event that was derived and applied; `before` was unsaved until then.

    A delta that only moves keeps the event that brought it, content and all.
    """
    brought = event
    if isinstance(event, PromptDelta):
        same = (held for held in before if isinstance(held, PromptDelta) and held.seq == event.seq)
        brought = next(same, event)
    chain.unsaved = (*chain.unsaved, brought)


def unsaved(chain: Chain) -> tuple[Event, ...]:
    """Return the unsaved events with their places as they are now. Costs nothing where there are none."""
    if not chain.unsaved:
        return ()
    held_at = {insert.number: insert.place for insert in chain.persisted}
    found: list[Event] = []
    for event in chain.unsaved:
        if isinstance(event, PromptDelta) and event.seq in chain.deltas:
            held = chain.deltas[event.seq]
            event = _replace(event, selector=with_place(held.selector, held.place))
        elif isinstance(event, ContextPersisted):
            event = _replace(event, insert_at=held_at.get(event.turn, event.insert_at))
        found.append(event)
    return tuple(found)
