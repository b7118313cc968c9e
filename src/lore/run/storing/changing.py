"""Delete sessions, move them, bind clients to them."""

from __future__ import annotations

from collections.abc import Sequence

from lore.model.stored import StoreWritten
from lore.store.address import noted
from lore.store.base import DamagedError, Store, UnknownSessionError
from lore.store.forks import with_forks


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
