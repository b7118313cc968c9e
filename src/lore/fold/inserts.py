"""Texts between the items in the fold: durable deltas, and context that was written into the history.

Functions that apply an event change the chain and return the event's problems. An insert is never put before an item
that a request has sent: its place becomes the first one after the items that were sent. Inserts that were sent keep
their place and content. A derived event that comes again, because the log holds it now, changes nothing. A reset ends
all deltas; an id keeps the short form under which a prompt showed it.
"""

from __future__ import annotations

from bisect import bisect_left

from msgspec.structs import replace

from lore.fold.timeline import Problems, note_change, problem
from lore.model.codes import Code
from lore.model.events import CacheReset, ContextPersisted, Event, PromptDelta
from lore.model.inserts import Insert, delta_news, insert_texts, joins_results, selector_place, shorten_ids, with_place
from lore.model.items import is_absent
from lore.model.limits import SESSION_DELTAS
from lore.model.state import Chain, FoldedSession


def pin(chain: Chain, session: FoldedSession) -> None:
    """Replace the chain's pinned knowledge and layers by all entries and the late layers of the session now.

    New ids get a short form. At the chain's first turn `announced` notes whether there were any. Callers choose when.
    Costs O(entries).
    """
    chain.pinned = tuple(session.knowledge.values())
    chain.pinned_layers = session.late_layers
    if chain.turns == 1:
        chain.announced = bool(chain.pinned or chain.pinned_layers or session.removed)
    chain.short_ids = shorten_ids(session.knowledge, chain.short_ids)


def add_delta(chain: Chain, event: PromptDelta) -> Problems:
    """Put a durable delta at the place (number of items before it) in its selector.

    A place among the items that were sent is a problem: the delta is put after them. A place past the end is a problem,
    too: the delta is put at the end. A delta of a known number keeps its content (other content is a problem) and gets
    the new selector. It moves only if it was not sent; a new place for a sent delta is a problem. An unreadable or
    surplus delta is a problem, and skipped.
    """
    target, what = selector_place(event.selector), f"prompt_delta {event.seq}"
    if target is None:
        return _unreadable(f"{what}: unreadable selector, skipped")
    previous = chain.deltas.get(event.seq)
    if previous is not None:
        return _repeat_delta(chain, event, previous, target)
    if _mark_saved(chain, event):
        return ()  # it was sent, and a reset ended it before it was saved
    if insert_texts(event.content) is None:
        return _unreadable(f"{what}: unreadable content, skipped")
    if len(chain.deltas) >= SESSION_DELTAS:
        return _unreadable(f"{what}: more than {SESSION_DELTAS} without a reset, skipped")
    place, problems = _allowed_place(chain, target, what)
    after_results = joins_results(event.selector, event.content)
    delta = Insert(place, chain.turns, event.seq, event.content, event.selector, after_results=after_results)
    chain.deltas = {**chain.deltas, event.seq: delta}
    news = delta_news(delta)
    chain.short_ids = shorten_ids([*news.changed, *news.removed], chain.short_ids)
    chain.seqs = max(chain.seqs, event.seq + 1)
    return problems


def _repeat_delta(chain: Chain, event: PromptDelta, previous: Insert, target: int) -> Problems:
    was_sent = previous.place < chain.sent_entries or (previous.after_results and previous.age < chain.turns)
    place, problems = (previous.place, ()) if was_sent else _allowed_place(chain, target, f"prompt_delta {event.seq}")
    after_results = previous.after_results if was_sent else joins_results(event.selector, previous.content)
    delta = replace(previous, place=place, selector=event.selector, after_results=after_results)
    chain.deltas = {**chain.deltas, event.seq: delta}
    _mark_saved(chain, event)
    if not is_absent(event.content) and event.content != previous.content:
        return _unreadable(f"prompt_delta {event.seq} comes again with other content; the first holds")
    if was_sent and target != previous.place:
        return _unreadable(f"prompt_delta {event.seq} was sent at {previous.place}, not {target}; it stays")
    return problems


def _allowed_place(chain: Chain, target: int, what: str) -> tuple[int, Problems]:
    size = len(chain.entries)
    if target > size:
        return size, _unreadable(f"{what}: insert_at {target} is outside a history of {size}; put at its end")
    if target < chain.sent_entries:
        fault = _unreadable(f"{what}: insert_at {target} is before items that were sent; put after them")
        return chain.sent_entries, fault
    return target, ()


def add_context(chain: Chain, event: ContextPersisted) -> Problems:
    """Write the context of a turn into the history, at the place `insert_at` or as `add_delta` corrects it.

    A second context of one turn changes nothing; one of an earlier turn than the latest, unreadable or empty content
    and a negative place are problems, and skipped. Context that is `outside` (of compactions) goes to a list of its
    own, which may have several of one turn: there only an event with the latest one's content and no later turn changes
    nothing.
    """
    if event.outside:
        return _add_outside_context(chain, event)
    if _mark_saved(chain, event):
        return ()
    latest = chain.persisted.last()
    if latest is not None and event.turn <= latest.number:
        at = bisect_left(range(len(chain.persisted)), event.turn, key=lambda at: chain.persisted[at].number)
        if chain.persisted[at].number == event.turn:
            return ()
        return _unreadable(f"context_persisted of turn {event.turn} comes after that of {latest.number}, skipped")
    if insert_texts(event.content) is None or event.insert_at < 0:
        return _unreadable(f"context_persisted of turn {event.turn}: unreadable, skipped")
    place, problems = _allowed_place(chain, event.insert_at, f"context_persisted of turn {event.turn}")
    chain.persisted = chain.persisted.append(Insert(place, chain.turns, event.turn, event.content))
    if chain.waiting is not None and chain.waiting.turn <= event.turn:
        chain.waiting = None
    return problems


def _add_outside_context(chain: Chain, event: ContextPersisted) -> Problems:
    """Put context that a compaction requested at its place; the turn's own context remains."""
    what, number, latest = f"outside context of turn {event.turn}", event.turn, chain.outside.last()
    if latest is not None and event.turn <= latest.number:
        if event.turn <= latest.turn and event.content == latest.content:
            return ()
        number = latest.number + 1  # of several compactions in a row the first has the turn's number
    if insert_texts(event.content) is None or event.insert_at < 0:
        return _unreadable(f"{what}: unreadable, skipped")
    place, problems = _allowed_place(chain, event.insert_at, what)
    context = Insert(place, chain.turns, number, event.content, outside=True, turn=event.turn)
    chain.outside = chain.outside.append(context)
    return problems


def reset(chain: Chain, event: CacheReset) -> Problems:
    """End all deltas: the next turn pins knowledge and layers again, and has this as a reason for its changes.

    Nothing changes if it names a turn and an earlier reset named that or a later one.
    """
    if event.turn is not None:
        if chain.reset is not None and event.turn <= chain.reset:
            _mark_saved(chain, event)
            return ()
        chain.reset = event.turn
    chain.pinned, chain.deltas = None, {}
    note_change(chain, Code.CACHE_RESET, event.reason)
    return ()


def _unreadable(message: str) -> Problems:
    return problem(Code.UNREADABLE_DELTA, message)


# Events that lore derived, until the log holds them


def unsaved_events(chain: Chain) -> tuple[Event, ...]:
    """Return the events that lore made and the log does not hold yet, in the order in which they were made.

    Deltas and contexts have the places at which they are now.
    """
    places = {insert.number: insert.place for insert in chain.persisted} if chain.unsaved else {}
    events: list[Event] = []
    for event in chain.unsaved:
        if isinstance(event, PromptDelta) and event.seq in chain.deltas:
            delta = chain.deltas[event.seq]
            event = replace(event, selector=with_place(delta.selector, delta.place))
        elif isinstance(event, ContextPersisted):
            event = replace(event, insert_at=places.get(event.turn, event.insert_at))
        events.append(event)
    return tuple(events)


def _mark_saved(chain: Chain, saved: PromptDelta | ContextPersisted | CacheReset) -> bool:
    """Remove the unsaved event of this kind and number, which the log holds; return whether there was one."""
    field = "seq" if isinstance(saved, PromptDelta) else "turn"
    number = getattr(saved, field)
    for at, event in enumerate(chain.unsaved):
        if type(event) is type(saved) and getattr(event, field) == number:
            chain.unsaved = chain.unsaved[:at] + chain.unsaved[at + 1 :]
            return True
    return False
