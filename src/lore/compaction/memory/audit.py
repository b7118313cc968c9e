"""Who changed what is remembered, and when: one session of the store for each user, which no wipe takes away.

An entry says what was done, for which agent, from which session, how many of each kind; never what was remembered.
That a session was deleted since is looked up when the log is read: the entry keeps its name.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import msgspec
from msgspec import Struct

from lore.compaction.memory.identities import audit_of
from lore.model.events import SessionStarted
from lore.model.events import encode as encode_event
from lore.model.mask import mask
from lore.store.applying import save_delta
from lore.store.base import ConflictError, SessionDelta, Store, StoreError, UnknownSessionError
from lore.store.registry import noted

ATTEMPTS = 50
LONGEST = 200  # characters of a reason


class AuditRecord(Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="kind", tag="memory_audit"):
    """One thing that was done. `op`: extract, dream, delete, wipe; `failure` says why it fell back, or did nothing."""

    at: str
    op: str
    agent: str | None = None
    session_id: str | None = None
    removed: Mapping[str, int] = {}
    added: Mapping[str, int] = {}
    failure: str | None = None


class Log(NamedTuple):
    """A user's audit log, oldest first; `odd` lines are no entries."""

    entries: tuple[AuditRecord, ...]
    odd: int


_DECODER = msgspec.json.Decoder(AuditRecord)


def some(counts: Mapping[str, int]) -> dict[str, int]:
    """Return the counts that say something."""
    return {kind: number for kind, number in counts.items() if number}


def note(store: Store, user: str, entry: AuditRecord) -> None:
    """Append an entry; raises StoreError."""
    reason = None if entry.failure is None else " ".join(mask(entry.failure).split())[:LONGEST]
    line = msgspec.json.encode(msgspec.structs.replace(entry, failure=reason))
    name = audit_of(user)
    for _ in range(ATTEMPTS):
        try:
            known = noted(store, name)
            head = (
                store.create(encode_event(SessionStarted(session_id=name, user_id=user)))
                if known is None
                else known.head
            )
            save_delta(store, name, SessionDelta(base=head, new_events=(line,), updated_at=entry.at))
        except (ConflictError, UnknownSessionError):
            continue
        return
    raise StoreError("gave up after repeated write conflicts", hint="try again")


def log_of(store: Store, user: str) -> Log:
    """Return a user's audit log; an empty one where there is none. Costs O(its bytes)."""
    try:
        lines = store.load(audit_of(user)).events[1:]
    except UnknownSessionError:
        return Log((), 0)
    entries: list[AuditRecord] = []
    odd = 0
    for line in lines:
        try:
            entries.append(_DECODER.decode(line))
        except (ValueError, RecursionError):
            odd += 1
    return Log(tuple(entries), odd)


def last_wipe(log: Log, agent: str) -> str | None:
    """Return when memory of an agent, or of all of them, was wiped last; None where it never was."""
    return next(
        (entry.at for entry in reversed(log.entries) if entry.op == "wipe" and entry.agent in (None, agent)), None
    )


def last_failure(log: Log, agent: str | None = None) -> AuditRecord | None:
    """Return the latest entry that fell back or failed, of one agent where it is given."""
    found = (entry for entry in reversed(log.entries) if entry.failure is not None and agent in (None, entry.agent))
    return next(found, None)
