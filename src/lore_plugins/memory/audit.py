"""The audit log of memory: a session of its own for each user, which no wipe takes away.

It says what was done, for which agent, from which session, how many of each kind, and the names of topics that a dream
dropped; never what was remembered else.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import msgspec
from msgspec import Struct

from lore.errors import LoreError
from lore.model import mask_credentials
from lore.store import ConflictError, SessionDelta, Store, StoreError, Tell, UnknownSessionError, noted, save_delta
from lore_plugins.memory.buckets import ATTEMPTS, header_of
from lore_plugins.memory.identities import audit_of

LONGEST_REASON = 200  # characters of the reason that a dream failed


class AuditRecord(Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="kind", tag="memory_audit"):
    """One thing that was done. `op`: extract, dream, summary, delete, wipe; `failure` says why it fell back, or did
    nothing; `unusable` counts answers of a model that could not be used, each asked for again once; `dropped` are the
    names of the topics that a dream superseded, or let go of because they had expired or were too many. Of memory that
    agents share `agent` is `identities.SHARED`, and `by` who it was.
    """

    at: str
    op: str
    agent: str | None = None
    session_id: str | None = None
    removed: Mapping[str, int] = {}
    added: Mapping[str, int] = {}
    failure: str | None = None
    unusable: int = 0
    dropped: tuple[str, ...] = ()
    by: str | None = None


class AuditLog(NamedTuple):
    """A user's audit log, oldest first; `odd` lines are no entries."""

    entries: tuple[AuditRecord, ...]
    odd: int


_AUDIT_DECODER = msgspec.json.Decoder(AuditRecord)


def nonzero(counts: Mapping[str, int]) -> dict[str, int]:
    """Return the counts that are not zero."""
    return {kind: number for kind, number in counts.items() if number}


def note_audit(store: Store, user: str, record: AuditRecord, tell: Tell) -> None:
    """Append a record to a user's audit log, its counts without zeros; a failure to do so is told."""
    reason = None if record.failure is None else " ".join(mask_credentials(record.failure).split())[:LONGEST_REASON]
    removed, added = nonzero(record.removed), nonzero(record.added)
    line = msgspec.json.encode(msgspec.structs.replace(record, failure=reason, removed=removed, added=added))
    name = audit_of(user)
    try:
        for _ in range(ATTEMPTS):
            try:
                known = noted(store, name)
                head = store.create(header_of(name, user)) if known is None else known.head
                save_delta(store, name, SessionDelta(base=head, new_events=(line,), updated_at=record.at))
            except (ConflictError, UnknownSessionError):
                continue
            return
        raise StoreError("gave up after repeated write conflicts", hint="try again")  # noqa: TRY301
    except LoreError as error:
        tell(f"the audit log of user {user} has no entry of this {record.op}: {error.message}")


def audit_log(store: Store, user: str) -> AuditLog:
    """Return a user's audit log; an empty one where there is none. Costs O(its bytes)."""
    try:
        lines = store.load(audit_of(user)).events[1:]
    except UnknownSessionError:
        return AuditLog((), 0)
    entries: list[AuditRecord] = []
    odd = 0
    for line in lines:
        try:
            entries.append(_AUDIT_DECODER.decode(line))
        except (ValueError, RecursionError):
            odd += 1
    return AuditLog(tuple(entries), odd)


def last_wipe(log: AuditLog, *agents: str) -> str | None:
    """Return when memory of one of these agents, or of all there are, was wiped last; None where it never was."""
    return next(
        (entry.at for entry in reversed(log.entries) if entry.op == "wipe" and entry.agent in (None, *agents)), None
    )


def last_failure(log: AuditLog, agent: str | None = None) -> AuditRecord | None:
    """Return the latest entry that fell back or failed, of one agent where it is given."""
    found = (entry for entry in reversed(log.entries) if entry.failure is not None and agent in (None, entry.agent))
    return next(found, None)
