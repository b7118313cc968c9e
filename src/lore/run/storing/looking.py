"""What is stored: the sessions of a store, one of them, what is damaged, what a client means."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Raw

from lore.errors import LoreError
from lore.model.stored import (
    SessionRow,
    StoredCheckpoint,
    StoredDamage,
    StoredHead,
    StoreList,
    StoreResolved,
    StoreShown,
    StoreVacuumed,
    StoreVerified,
)
from lore.run.storing.reserved import of_users
from lore.store.address import BEYOND
from lore.store.base import Damage, Store, Summary, UnknownSessionError
from lore.store.forks import with_forks


def listed(store: Store, project_id: str | None = None, *, memory: bool = False) -> StoreList:
    """List the sessions of a store, or of one project; with `memory` those in which lore keeps memory, too."""
    found = store.list(project_id)
    return StoreList(store=store.url, sessions=[_session(one) for one in (found if memory else of_users(found))])


def shown(store: Store, session_id: str) -> StoreShown:
    """Say what is known of a session without reading its events; raises UnknownSessionError."""
    every = store.list()
    found = next((one for one in every if one.session_id == session_id), None)
    if found is None:
        store.load(session_id)  # damaged, so that it is in no list: this says so
        raise UnknownSessionError(session_id)
    kept = store.checkpoint(session_id)
    gone = with_forks(session_id, {one.session_id: one.parent_session_id for one in every})
    return StoreShown(
        store=store.url, session=_session(found), metadata=Raw(store.load(session_id, after=BEYOND).metadata),
        prompt_deltas=len(store.prompt_deltas(session_id)), forks=sorted(set(gone) - {session_id}),
        checkpoint=None if kept is None else StoredCheckpoint(kept.number, kept.format, len(kept.data)),
    )  # fmt: skip


def _session(one: Summary) -> SessionRow:
    return SessionRow(
        session_id=one.session_id, events=one.head.number, bytes=one.size, project_id=one.project_id,
        parent_session_id=one.parent_session_id, leaf_id=one.leaf_id, created_at=one.created_at,
        updated_at=one.updated_at, head=StoredHead(*one.head),
    )  # fmt: skip


def verified(store: Store, session_ids: Sequence[str]) -> StoreVerified:
    """Derive every digest of these sessions anew, or of all where none is named; raises UnknownSessionError."""
    found = [store.verify(one) for one in dict.fromkeys(session_ids)] if session_ids else [store.verify()]
    return StoreVerified(
        store=store.url, sessions=sum(one.sessions for one in found), events=sum(one.events for one in found),
        damage=[_damage(damage) for one in found for damage in one.damage],
        notes=list(dict.fromkeys(note for one in found for note in one.notes)),
    )  # fmt: skip


def _damage(one: Damage) -> StoredDamage:
    return StoredDamage(one.session_id, one.number, one.place, one.message, one.recoverable)


def resolved(store: Store, client_key: str) -> StoreResolved:
    """Return the session that a client means; raises LoreError where it means none."""
    session_id = store.resolve(client_key)
    if session_id is None:
        raise LoreError(f"the store knows no client {client_key!r}", hint="`lore store bind CLIENT_KEY SESSION_ID`")
    return StoreResolved(store=store.url, client_key=client_key, session_id=session_id)


def vacuumed(store: Store) -> StoreVacuumed:
    """Give back what a store does not need any more."""
    return StoreVacuumed(store=store.url, freed_bytes=store.vacuum())
