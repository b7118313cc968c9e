"""What `lore store` does with stored sessions: list, show, verify, export, delete, move, bind them to clients."""

from __future__ import annotations

import os
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from typing import cast

from msgspec import Raw

from lore.compaction.memory.identities import of_users
from lore.errors import LoreError
from lore.model.results_store import (
    SessionRow,
    StoredCheckpoint,
    StoredDamage,
    StoredHead,
    StoreList,
    StoreResolved,
    StoreShown,
    StoreVacuumed,
    StoreVerified,
    StoreWritten,
)
from lore.store.applying import with_forks
from lore.store.base import Damage, DamagedError, SalvagingStore, Store, StoreError, Summary, Tell, UnknownSessionError
from lore.store.registry import BEYOND, address_of, may_be_there, noted, open_store, open_there, scheme_of
from lore.store.registry import shown as shown_url

GONE = "`memory:` is gone when this command ends"


@contextmanager
def opened(url: str, tell: Tell, *, new: bool = False) -> Generator[Store]:
    """Open a store and close it; `tell` hears what a person should know. Raises StoreError.

    One that is not there yet may be made only where it may be `new`.
    """
    named = address_of(url)
    if named is not None and not os.path.lexists(url.partition(":")[2]) and may_be_there(named.url):
        hint = f"--store {shown_url(named.url)}, and the session's id apart"
        raise StoreError(f"{shown_url(url)} names a session, not a store", hint=hint)
    store = open_store(url, tell) if new else open_there(url, tell)
    try:
        if scheme_of(url) == "memory":
            tell(f"note: {GONE}")
        yield store
    finally:
        store.close()


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


def deleted(store: Store, session_ids: Sequence[str], *, dry_run: bool = False) -> StoreWritten:
    """Delete sessions and those forked from them, all that are named or none; with `dry_run` only say which.

    Raises UnknownSessionError before anything is deleted.
    """
    parents = {summary.session_id: summary.parent_session_id for summary in store.list()}
    for session_id in session_ids:
        if session_id not in parents and not _is_damaged(store, session_id):
            raise UnknownSessionError(session_id)
    gone: dict[str, None] = {}
    for session_id in session_ids:
        if session_id not in gone:  # it may have gone with another, whose fork it was
            gone.update(dict.fromkeys(with_forks(session_id, parents) if dry_run else store.delete(session_id)))
    return StoreWritten(store=store.url, op="delete", session_ids=list(gone), dry_run=dry_run)


def _is_damaged(store: Store, session_id: str) -> bool:
    """Tell whether a session is there that can be in no list; such a one can be deleted all the same."""
    try:
        return noted(store, session_id) is not None
    except DamagedError:
        return True


def moved(store: Store, session_id: str, project_id: str) -> StoreWritten:
    """Make a session, and its prompt deltas, another project's."""
    store.move(session_id, project_id)
    return StoreWritten(store=store.url, op="move", session_ids=[session_id], project_id=project_id)


def bound(store: Store, client_key: str, session_id: str, *, replace: bool = False) -> StoreWritten:
    """Remember which session a client means; raises ConflictError where it means another, unless `replace`."""
    store.bind(client_key, session_id, replace=replace)
    return StoreWritten(store=store.url, op="bind", session_ids=[session_id], client_key=client_key)


def exported(store: Store, session_id: str) -> Iterator[bytes]:
    """Return the lines of a session's log, each with its end; raises UnknownSessionError, DamagedError at once."""
    events = store.load(session_id).events
    return (event + b"\n" for event in events)


def left(store: Store, session_id: str, tell: Tell) -> Iterator[bytes]:
    """Return the lines of a damaged session that are surely as they were written; `tell` hears how many are not there.

    Raises UnknownSessionError, and LoreError for a store of another package that cannot do that.
    """
    if not callable(getattr(store, "salvage", None)):
        raise LoreError(f"{store.url} cannot give out a part of a session", hint="leave --salvage out")
    found = cast("SalvagingStore", store).salvage(session_id)
    out = "nothing is" if not found.lost else "1 event is" if found.lost == 1 else f"{found.lost:,} events are"
    tell(f"note: {out} left out{': damaged or missing' if found.lost else ''}")
    return (event + b"\n" for event in found.events)
