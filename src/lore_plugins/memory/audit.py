"""The audit log of a user's memory: one session per user, kept when the memory is wiped.

An entry records the operation, the agent, the source session and counts by kind; never texts or names of topics.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import msgspec
from msgspec import Struct

from lore.errors import LoreError
from lore.model import mask_credentials
from lore.store import ConflictError, SessionDelta, Store, StoreError, Tell, UnknownSessionError, load_notes
from lore_plugins.memory.buckets import ATTEMPTS, header_line
from lore_plugins.memory.identities import audit_id

LONGEST_REASON = 200  # characters of a recorded failure


class AuditRecord(Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="kind", tag="memory_audit"):
    """One change of a user's memory."""

    at: str
    op: str  # extract, dream, summary, delete or wipe
    agent: str | None = None  # `identities.SHARED`: the shared bucket; None: all agents
    session_id: str | None = None  # the session that was learned from
    removed: Mapping[str, int] = {}  # removed entries, by kind
    added: Mapping[str, int] = {}  # added entries, by kind
    failure: str | None = None  # why the operation failed, or fell back to a simpler result
    unusable: int = 0  # model answers that could not be used; each question was repeated once
    by: str | None = None  # the agent that changed the shared bucket


class AuditLog(NamedTuple):
    """A user's audit log."""

    entries: tuple[AuditRecord, ...]  # oldest first
    unreadable: int  # lines that are not valid entries


_AUDIT_DECODER = msgspec.json.Decoder(AuditRecord)


def nonzero(counts: Mapping[str, int]) -> dict[str, int]:
    """Return the counts that are not zero."""
    return {kind: number for kind, number in counts.items() if number}


def append_audit(store: Store, user: str, record: AuditRecord, tell: Tell) -> None:
    """Append a record to a user's audit log, without zero counts; pass `tell` a sentence if that fails."""
    reason = None if record.failure is None else " ".join(mask_credentials(record.failure).split())[:LONGEST_REASON]
    removed, added = nonzero(record.removed), nonzero(record.added)
    line = msgspec.json.encode(msgspec.structs.replace(record, failure=reason, removed=removed, added=added))
    name = audit_id(user)
    try:
        for _ in range(ATTEMPTS):
            try:
                session = load_notes(store, name)
                head = store.create(header_line(name, user)) if session is None else session.head
                store.save_delta(name, SessionDelta(base=head, new_events=(line,), updated_at=record.at))
            except (ConflictError, UnknownSessionError):
                continue
            return
        raise StoreError("gave up after repeated write conflicts", hint="try again")  # noqa: TRY301
    except LoreError as error:
        tell(f"this {record.op} is missing in the audit log of user {user}: {error.message}")


def read_audit_log(store: Store, user: str) -> AuditLog:
    """Return a user's audit log, empty if it does not exist. Costs O(its bytes)."""
    try:
        lines = store.load(audit_id(user)).events[1:]
    except UnknownSessionError:
        return AuditLog((), 0)
    entries: list[AuditRecord] = []
    unreadable = 0
    for line in lines:
        try:
            entries.append(_AUDIT_DECODER.decode(line))
        except (ValueError, RecursionError):
            unreadable += 1
    return AuditLog(tuple(entries), unreadable)


def last_wipe(log: AuditLog, *agents: str) -> str | None:
    """Return when the memory of one of these agents, or of all agents, was wiped last; None if never."""
    wipes = (entry.at for entry in reversed(log.entries) if entry.op == "wipe" and entry.agent in (None, *agents))
    return next(wipes, None)


def last_failure(log: AuditLog, agent: str) -> AuditRecord | None:
    """Return an agent's latest entry that failed or fell back."""
    failures = (entry for entry in reversed(log.entries) if entry.failure is not None and entry.agent == agent)
    return next(failures, None)
