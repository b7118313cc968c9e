"""What `lore store` does with stored sessions, import apart: list, show, verify, export, delete, append."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

from msgspec import Raw
from msgspec.structs import astuple

from lore.errors import LoreError
from lore.formats.lines import read_lines
from lore.model.events import MAIN
from lore.model.results import copy_fields
from lore.model.results import store as results
from lore.model.times import parse_timestamp
from lore.run.stored.event_lines import SessionAppender
from lore.store import base
from lore.store.deltas import session_with_forks
from lore.store.lines import check_id
from lore.store.registry import NO_EVENTS, ignore, load_notes
from lore.store.reserved import DEFAULT_USER, drop_reserved, refuse_header, refuse_reserved


class SessionFilter(NamedTuple):
    """Which sessions of a store are listed; None is any. `since` is in seconds since the epoch.

    Sessions that name no user or no agent are those of the default ones, as where memory is kept. `memory` takes the
    sessions in which lore keeps memory, too.
    """

    project_id: str | None = None
    user_id: str | None = None
    agent_id: str | None = None
    since: float | None = None
    memory: bool = False

    def takes(self, summary: base.SessionSummary) -> bool:
        """Tell whether a session is one of these, its time apart."""
        user, agent = summary.user_id or DEFAULT_USER, summary.agent_id or MAIN
        return self.user_id in (None, user) and self.agent_id in (None, agent)


ANY = SessionFilter()


def listed(store: base.Store, selection: SessionFilter = ANY, tell: base.Tell = ignore) -> results.StoreList:
    """List sessions of a store; `tell` hears how many have no time that `since` could be compared with."""
    found = store.list(selection.project_id)
    chosen = [summary for summary in (found if selection.memory else drop_reserved(found)) if selection.takes(summary)]
    if selection.since is not None:
        times = [parse_timestamp(summary.last_used_at) for summary in chosen]
        if untimed := times.count(None):
            sessions = "1 session says" if untimed == 1 else f"{untimed:,} sessions say"
            tell(f"note: {sessions} no time of use, and cannot be chosen by --since")
        pairs = zip(chosen, times, strict=True)
        chosen = [summary for summary, at in pairs if at is not None and at >= selection.since]
    return results.StoreList(store=store.url, sessions=[_session(summary) for summary in chosen])


def shown(store: base.Store, session_id: str) -> results.StoreShown:
    """Say what is known of a session without reading its events; raises UnknownSessionError."""
    summaries = {summary.session_id: summary for summary in store.list()}
    if session_id not in summaries:
        store.load(session_id)  # damaged, so that it is in no list: this says so
        raise base.UnknownSessionError(session_id, store.url)
    family = session_with_forks(session_id, {name: summary.parent_session_id for name, summary in summaries.items()})
    return results.StoreShown(
        store=store.url, session=_session(summaries[session_id]),
        metadata=Raw(store.load(session_id, after=NO_EVENTS).metadata),
        prompt_deltas=len(store.prompt_deltas(session_id)), forks=sorted(set(family) - {session_id}),
    )  # fmt: skip


def _session(summary: base.SessionSummary) -> results.SessionRow:
    return copy_fields(
        results.SessionRow, summary, events=summary.head.number, bytes=summary.size, used_at=summary.last_used_at,
        head=results.StoredHead(*summary.head),
    )  # fmt: skip


def verified(store: base.Store, session_ids: Sequence[str]) -> results.StoreVerified:
    """Recompute every digest of these sessions, by default of all; raises UnknownSessionError."""
    found = base.Verified.of([*map(store.verify, dict.fromkeys(session_ids))] if session_ids else [store.verify()])
    return results.StoreVerified(
        store=store.url, sessions=found.sessions, events=found.events,
        damage=[results.StoredDamage(*astuple(damage)) for damage in found.damage],
        notes=list(dict.fromkeys(found.notes)),
    )  # fmt: skip


def moved(store: base.Store, session_ids: Sequence[str], project_id: str) -> results.StoreWritten:
    """Make sessions another project's, all that are named or none; raises UnknownSessionError before any is moved."""
    check_id(project_id, "project id")
    session_ids = list(dict.fromkeys(session_ids))
    for session_id in session_ids:
        if load_notes(store, session_id) is None:
            raise base.UnknownSessionError(session_id, store.url)
    for session_id in session_ids:
        store.move(session_id, project_id)
    return results.StoreWritten(store=store.url, op="move", session_ids=session_ids, project_id=project_id)


def resolved(store: base.Store, client_key: str) -> results.StoreResolved:
    """Return the session that a client means; raises LoreError where it means none."""
    session_id = store.resolve(client_key)
    if session_id is None:
        raise LoreError(f"the store knows no client {client_key!r}", hint="`lore store bind CLIENT_KEY SESSION_ID`")
    return results.StoreResolved(store=store.url, client_key=client_key, session_id=session_id)


def deleted(store: base.Store, session_ids: Sequence[str], *, dry_run: bool = False) -> results.StoreWritten:
    """Delete sessions and those forked from them, all that are named or none; with `dry_run` only say which.

    Raises UnknownSessionError before anything is deleted.
    """
    parents = {summary.session_id: summary.parent_session_id for summary in store.list()}
    for session_id in session_ids:
        if session_id not in parents and not _is_damaged(store, session_id):
            raise base.UnknownSessionError(session_id, store.url)
    gone: dict[str, None] = {}
    for session_id in session_ids:
        if session_id not in gone:  # it may have gone with another, whose fork it was
            gone.update(dict.fromkeys(session_with_forks(session_id, parents) if dry_run else store.delete(session_id)))
    return results.StoreWritten(store=store.url, op="delete", session_ids=list(gone), dry_run=dry_run)


def _is_damaged(store: base.Store, session_id: str) -> bool:
    """Tell whether a session is there that can be in no list; such a one can be deleted all the same."""
    try:
        return load_notes(store, session_id) is not None
    except base.DamagedError:
        return True


def exported(store: base.Store, session_id: str) -> Iterator[bytes]:
    """Return the lines of a session's log, each with its end; raises UnknownSessionError, DamagedError at once."""
    events = store.load(session_id).events
    return (event + b"\n" for event in events)


def append_lines(
    store: base.Store, session_id: str, data: Iterable[bytes], say: Callable[[str], None], *,
    clock: base.Clock = base.now,
) -> Iterator[results.StoreAppended]:  # fmt: skip
    """Append the events of these bytes, one delta each; yield each one's number as soon as it is durable.

    `say` hears of events that readers of logs keep without understanding them. Raises LoreError for the first line
    that is refused; ConflictError where it expects another number than it can have.
    """
    refuse_reserved(session_id)
    appender = SessionAppender(store, session_id, clock, refuse_header)
    for line in read_lines(data):
        yield appender.append(line, say)
