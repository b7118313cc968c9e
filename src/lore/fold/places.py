"""The places of inserts: they follow the entries that they stand before."""

from __future__ import annotations

from collections.abc import Callable, Container

import msgspec

from lore.model.events import ContextPersisted, PromptDelta
from lore.model.inserts import Insert
from lore.model.state import Chain
from lore.model.vector import Vector


def end(chain: Chain) -> None:
    """End all deltas, and what is pinned."""
    chain.pinned, chain.deltas = None, {}
    chain.unsaved = tuple([one for one in chain.unsaved if not isinstance(one, PromptDelta)])


def move(chain: Chain, place_of: Callable[[int], int | None]) -> None:
    """Give every insert its new place, after entries came, went or moved; one without a place goes."""
    if chain.outside:
        moved = (_at(one, place_of(one.place)) for one in chain.outside)
        chain.outside = _new(chain.outside, [one for one in moved if one is not None])
    if not chain.deltas and not chain.persisted:
        return
    chain.deltas = {one.number: kept for one in chain.deltas.values() if (kept := _at(one, place_of(one.place)))}
    _keep(chain, [kept for one in chain.persisted if (kept := _at(one, place_of(one.place)))])


def drop(chain: Chain, gone: Container[int]) -> None:
    """Let the context that was persisted before these entries go with them."""
    if chain.outside:
        chain.outside = _new(chain.outside, [one for one in chain.outside if one.place not in gone])
    if chain.persisted:
        _keep(chain, [one for one in chain.persisted if one.place not in gone])


def _keep(chain: Chain, persisted: list[Insert]) -> None:
    before = chain.persisted
    chain.persisted = _new(before, persisted)
    if chain.persisted is not before and any(isinstance(one, ContextPersisted) for one in chain.unsaved):
        held = {one.number for one in persisted}
        chain.unsaved = tuple(
            [one for one in chain.unsaved if not isinstance(one, ContextPersisted) or one.turn in held]
        )


def _new(before: Vector[Insert], inserts: list[Insert]) -> Vector[Insert]:
    """Return a vector of these that shares what it can with the one before, which it is where nothing differs."""
    pairs = enumerate(zip(before, inserts, strict=False))
    same = next((at for at, (one, other) in pairs if one is not other), min(len(before), len(inserts)))
    return before if same == len(before) == len(inserts) else before.cut(same).extend(inserts[same:])


def _at(insert: Insert, place: int | None) -> Insert | None:
    if place is None or place == insert.place:
        return None if place is None else insert
    return msgspec.structs.replace(insert, place=place)
