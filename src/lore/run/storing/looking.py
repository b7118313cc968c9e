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
    return StoreList(
        store=store.url, sessions=[_session(summary) for summary in (found if memory else of_users(found))]
    )


def shown(store: Store, session_id: str) -> StoreShown:
    """Say what is known of a session without reading its events; raises UnknownSessionError."""
    every = store.list()
    found = next((summary for summary in every if summary.session_id == session_id), None)
    if found is None:
        store.load(session_id)  # damaged, so that it is in no list: this says so
        raise UnknownSessionError(session_id)
    kept = store.checkpoint(session_id)
    gone = with_forks(session_id, {summary.session_id: summary.parent_session_id for summary in every})
    return StoreShown(
        store=store.url, session=_session(found), metadata=Raw(store.load(session_id, after=BEYOND).metadata),
        prompt_deltas=len(store.prompt_deltas(session_id)), forks=sorted(set(gone) - {session_id}),
        checkpoint=None if kept is None else StoredCheckpoint(kept.number, kept.format, len(kept.data)),
    )  # fmt: skip


def _session(summary: Summary) -> SessionRow:
    return SessionRow(
        session_id=summary.session_id, events=summary.head.number, bytes=summary.size, project_id=summary.project_id,
        parent_session_id=summary.parent_session_id, leaf_id=summary.leaf_id, created_at=summary.created_at,
        updated_at=summary.updated_at, head=StoredHead(*summary.head),
    )  # fmt: skip


def verified(store: Store, session_ids: Sequence[str]) -> StoreVerified:
    """Recompute every digest of these sessions, by default of all; raises UnknownSessionError."""
    results = [store.verify(name) for name in dict.fromkeys(session_ids)] if session_ids else [store.verify()]
    return StoreVerified(
        store=store.url, sessions=sum(result.sessions for result in results),
        events=sum(result.events for result in results),
        damage=[_damage(damage) for result in results for damage in result.damage],
        notes=list(dict.fromkeys(note for result in results for note in result.notes)),
    )  # fmt: skip


def _damage(damage: Damage) -> StoredDamage:
    return StoredDamage(damage.session_id, damage.number, damage.place, damage.message, damage.recoverable)


def resolved(store: Store, client_key: str) -> StoreResolved:
    """Return the session that a client means; raises LoreError where it means none."""
    session_id = store.resolve(client_key)
    if session_id is None:
        raise LoreError(f"the store knows no client {client_key!r}", hint="`lore store bind CLIENT_KEY SESSION_ID`")
    return StoreResolved(store=store.url, client_key=client_key, session_id=session_id)


def vacuumed(store: Store) -> StoreVacuumed:
    """Give back what a store does not need any more."""
    return StoreVacuumed(store=store.url, freed_bytes=store.vacuum())
