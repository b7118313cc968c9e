"""The JSON results of `lore memory`. Counts are by kind: facts, preferences, decisions, tasks, open_items, topics."""

from __future__ import annotations

from msgspec import Struct

from lore.model import StoreResult


class MemoryResult(StoreResult, frozen=True, kw_only=True):
    """A result about one user."""

    user: str


class RememberedUser(Struct, frozen=True, kw_only=True):
    """A user with memory."""

    user: str
    agents: list[str]  # agents with memory of the user; `*`: the memory that agents share
    counts: dict[str, int]


class MemoryUsers(StoreResult, frozen=True, kw_only=True):
    """`lore memory users --json`."""

    users: list[RememberedUser]  # by name


class RememberedTopic(Struct, frozen=True, kw_only=True):
    """A topic."""

    topic: str
    summary: str
    content: str
    at: str | None
    expires_at: str | None
    expired: bool  # sessions do not get it, and the next dream removes it


class RememberedText(Struct, frozen=True, kw_only=True):
    """An extracted text."""

    id: str  # what `lore memory delete` takes
    kind: str
    text: str
    at: str | None
    session_id: str | None  # the session that it was learned from


class AuditEntry(Struct, frozen=True, kw_only=True):
    """One change of memory; never the remembered texts."""

    at: str
    op: str  # extract, dream, summary, delete or wipe
    agent: str | None  # `*`: the memory that agents share; null: all agents
    session_id: str | None
    session_deleted: bool | None  # null if no session is named
    removed: dict[str, int]
    added: dict[str, int]
    failure: str | None
    unusable: int  # model answers that could not be used; each question was repeated once
    by: str | None  # the agent that changed the shared memory


class RememberedAgent(Struct, frozen=True, kw_only=True):
    """The memory of one agent, or the shared one (agent `*`)."""

    agent: str
    counts: dict[str, int]
    undreamt: bool  # whether texts changed since the last dream
    topics: list[RememberedTopic]
    texts: list[RememberedText]
    last_failure: AuditEntry | None  # the latest entry that failed or fell back
    unreadable: int  # lines of the log that are not valid records


class MemoryShown(MemoryResult, frozen=True, kw_only=True):
    """`lore memory show, export --json`."""

    agents: list[RememberedAgent]


class MemoryDeleted(MemoryResult, frozen=True, kw_only=True):
    """`lore memory delete --json`."""

    deleted: list[str]
    counts: dict[str, int]
    still_in: list[str]  # topics that still contain a deleted text


class MemoryWiped(MemoryResult, frozen=True, kw_only=True):
    """`lore memory wipe --json`; the audit log remains."""

    agent: str | None
    entries: int  # texts and topics
    sessions: int  # sessions that the texts were learned from
    counts: dict[str, int]
    agents: dict[str, dict[str, int]]  # counts by agent


class MemoryAudit(MemoryResult, frozen=True, kw_only=True):
    """`lore memory audit --json`."""

    entries: list[AuditEntry]  # oldest first
    unreadable: int  # lines of the log that are not valid entries


class MemoryExtracted(MemoryResult, frozen=True, kw_only=True):
    """`lore memory extract --json`."""

    agent: str
    shared: bool  # whether it went to the memory that agents share
    session_id: str
    removed: dict[str, int]
    added: dict[str, int]
    skipped: str | None  # why there was nothing to learn from
    failure: str | None  # why memory remains unchanged


class MemoryDreamt(MemoryResult, frozen=True, kw_only=True):
    """`lore memory dream --json`."""

    agent: str
    shared: bool  # whether it is the memory that agents share
    topics: list[str]
    superseded: list[str]
    skipped: str | None  # why there was no dream
    failure: str | None  # why it fell back to one topic
