"""Events that were held while another writer stored its own, as they fit behind those.

In: the held events, the session with what was stored, what is new of it. Out: the events. Rules: no item of another
writer is replaced: an item whose uuid another one has gets a uuid of its own, and what is held about it follows; a
turn that began gets the next number, and what lore derived for it is left out: it is derived anew; a compaction keeps
the items that it did not know. Cost: O(what is held and new), and an index of the session.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from msgspec.structs import replace

from lore.fold.timeline import index_of
from lore.model.events import (
    Append,
    CacheReset,
    CompactApplied,
    ContextPersisted,
    Event,
    PatchText,
    PromptDelta,
    Remove,
    TurnCanceled,
    TurnCompleted,
    TurnFailed,
    TurnStarted,
)
from lore.model.state import Session


def rebased(held: Sequence[Event], stored: Session, new: Iterable[Event]) -> list[Event]:
    """Return held events as they fit behind the `new` ones of another writer, which `stored` has."""
    others = [(event.chain, event.item.uuid) for event in new if isinstance(event, Append)]
    uuids = _uuids(held, stored, {(event.chain, event.item.uuid) for event in held if isinstance(event, Append)})
    turns = _turns(held, stored)

    def moved(event: Event) -> Event | None:
        chain = event.chain
        match event:
            case Append(item=item):
                return replace(event, item=replace(item, uuid=uuids.get((chain, item.uuid), item.uuid)))
            case PatchText(uuid=uuid):
                return replace(event, uuid=uuids.get((chain, uuid), uuid))
            case Remove(uuids=gone):
                return replace(event, uuids=tuple(uuids.get((chain, uuid), uuid) for uuid in gone))
            case CompactApplied(preserved_uuids=kept):
                mine = tuple(uuids.get((chain, uuid), uuid) for uuid in kept or ())
                return replace(event, preserved_uuids=(*mine, *(uuid for name, uuid in others if name == chain)))
            case TurnStarted(turn=turn) | TurnCompleted(turn=turn) | TurnFailed(turn=turn) | TurnCanceled(turn=turn):
                return replace(event, turn=turns.get((chain, turn), turn))
            case PromptDelta(turn=turn) | ContextPersisted(turn=turn) | CacheReset(turn=turn):
                return None if turn is not None and (chain, turn) in turns else event
            case _:
                return event

    return [event for event in map(moved, held) if event is not None]


def _uuids(held: Sequence[Event], stored: Session, taken: set[tuple[str, str]]) -> dict[tuple[str, str], str]:
    """Return new uuids of held items, by chain and uuid, where another item has theirs."""
    found: dict[tuple[str, str], str] = {}
    for event in held:
        if not isinstance(event, Append):
            continue
        chain, uuid = event.chain, event.item.uuid
        state = stored.chain(chain)
        known = index_of(state).uuids
        if uuid not in known or state.entries[known[uuid]].item == event.item:
            continue
        number = 2
        while f"{uuid}-{number}" in known or (chain, f"{uuid}-{number}") in taken:
            number += 1
        found[chain, uuid] = f"{uuid}-{number}"
    return found


def _turns(held: Sequence[Event], stored: Session) -> dict[tuple[str, int], int]:
    """Return new numbers of the turns that began, by chain and number, where another turn has theirs."""
    found: dict[tuple[str, int], int] = {}
    latest: dict[str, int] = {}
    for event in held:
        if isinstance(event, TurnStarted):
            opened = stored.chain(event.chain).turn
            before = latest.get(event.chain, 0 if opened is None else opened.turn)
            latest[event.chain] = max(event.turn, before + 1)
            if latest[event.chain] != event.turn:
                found[event.chain, event.turn] = latest[event.chain]
    return found
