"""What `lore memory` answers. Counts are by kind: facts, preferences, decisions, tasks, open_items, topics."""

from __future__ import annotations

from msgspec import Struct

SCHEMA = 2


class RememberedUser(Struct, frozen=True, kw_only=True):
    """A user of whom something is remembered, by which agents, and how much by all of them."""

    user: str
    agents: list[str]
    counts: dict[str, int]


class MemoryUsers(Struct, frozen=True, kw_only=True):
    """`lore memory users --json`; in the order of their ids."""

    schema: int = SCHEMA
    store: str
    users: list[RememberedUser]


class RememberedTopic(Struct, frozen=True, kw_only=True):
    """A topic; one that is `expired` is hidden from sessions until a dream takes it away."""

    topic: str
    summary: str
    content: str
    at: str | None
    expires_at: str | None
    expired: bool


class RememberedText(Struct, frozen=True, kw_only=True):
    """Something that was extracted; `id` is what `lore memory delete` takes, `session_id` where it was said."""

    id: str
    kind: str
    text: str
    at: str | None
    session_id: str | None


class AuditEntry(Struct, frozen=True, kw_only=True):
    """One thing that was done, never what was remembered; `session_deleted` is null where no session is named."""

    at: str
    op: str
    agent: str | None
    session_id: str | None
    session_deleted: bool | None
    removed: dict[str, int]
    added: dict[str, int]
    failure: str | None


class RememberedAgent(Struct, frozen=True, kw_only=True):
    """What one agent remembers; `undreamt` tells whether something came since the last dream.

    `last_failure` is the latest time that it could not remember, or fell back; `unreadable` lines are no records.
    """

    agent: str
    counts: dict[str, int]
    undreamt: bool
    topics: list[RememberedTopic]
    texts: list[RememberedText]
    last_failure: AuditEntry | None
    unreadable: int


class MemoryShown(Struct, frozen=True, kw_only=True):
    """`lore memory list, show, export --json`; `list` leaves out `texts` and the topics' `content`."""

    schema: int = SCHEMA
    store: str
    user: str
    agents: list[RememberedAgent]


class MemoryDeleted(Struct, frozen=True, kw_only=True):
    """`lore memory delete --json`; `still_in` are topics that hold a text which was deleted."""

    schema: int = SCHEMA
    store: str
    user: str
    deleted: list[str]
    counts: dict[str, int]
    still_in: list[str]


class MemoryWiped(Struct, frozen=True, kw_only=True):
    """`lore memory wipe --json`: what was taken away, in all and by agent; the audit log stays."""

    schema: int = SCHEMA
    store: str
    user: str
    agent: str | None
    counts: dict[str, int]
    agents: dict[str, dict[str, int]]


class MemoryAudit(Struct, frozen=True, kw_only=True):
    """`lore memory audit --json`, oldest first; `unreadable` lines of the log are no entries."""

    schema: int = SCHEMA
    store: str
    user: str
    entries: list[AuditEntry]
    unreadable: int


class MemoryExtracted(Struct, frozen=True, kw_only=True):
    """`lore memory extract --json`; `failure` says why what was known stays as it was.

    `skipped` says why there was nothing to learn from.
    """

    schema: int = SCHEMA
    store: str
    user: str
    agent: str
    session_id: str
    removed: dict[str, int]
    added: dict[str, int]
    skipped: str | None
    failure: str | None


class MemoryDreamt(Struct, frozen=True, kw_only=True):
    """`lore memory dream --json`; `skipped` says why there was no dream, `failure` why it fell back to one topic."""

    schema: int = SCHEMA
    store: str
    user: str
    agent: str
    topics: list[str]
    superseded: list[str]
    skipped: str | None
    failure: str | None
