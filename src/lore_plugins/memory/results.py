"""What `lore memory` answers, as JSON."""

from __future__ import annotations

from msgspec import Struct

from lore.model import StoreResult


class MemoryResult(StoreResult, frozen=True, kw_only=True):
    """An answer about what is remembered of a user."""

    user: str


class RememberedUser(Struct, frozen=True, kw_only=True):
    """A user of whom something is remembered, by which agents (`*`: what agents share), how much by all of them."""

    user: str
    agents: list[str]
    counts: dict[str, int]


class MemoryUsers(StoreResult, frozen=True, kw_only=True):
    """`lore memory users --json`; in the order of their ids."""

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
    """One thing that was done, never what was remembered; `session_deleted` is null where no session is named.

    `unusable` counts answers of a model that could not be used; each was asked for again once. `dropped` names the
    topics that a dream superseded, or let go of because they had expired or were too many. Where `agent` is `*`, which
    is memory that agents share, `by` is who it was.
    """

    at: str
    op: str
    agent: str | None
    session_id: str | None
    session_deleted: bool | None
    removed: dict[str, int]
    added: dict[str, int]
    failure: str | None
    unusable: int
    dropped: list[str]
    by: str | None


class RememberedAgent(Struct, frozen=True, kw_only=True):
    """What one agent (`*`: agents that share it) remembers; `undreamt`: whether something came since the last dream.

    `last_failure` is the latest time that it could not remember, or fell back; `unreadable` lines are no records.
    """

    agent: str
    counts: dict[str, int]
    undreamt: bool
    topics: list[RememberedTopic]
    texts: list[RememberedText]
    last_failure: AuditEntry | None
    unreadable: int


class MemoryShown(MemoryResult, frozen=True, kw_only=True):
    """`lore memory list, show, export --json`; `list` leaves out `texts` and the topics' `content`."""

    agents: list[RememberedAgent]


class MemoryDeleted(MemoryResult, frozen=True, kw_only=True):
    """`lore memory delete --json`; `still_in` are topics that hold a text which was deleted."""

    deleted: list[str]
    counts: dict[str, int]
    still_in: list[str]


class MemoryWiped(MemoryResult, frozen=True, kw_only=True):
    """`lore memory wipe --json`: what was taken away, in all and by agent; the audit log stays.

    `entries` counts texts and topics, `sessions` those that the texts were learnt from.
    """

    agent: str | None
    entries: int
    sessions: int
    counts: dict[str, int]
    agents: dict[str, dict[str, int]]


class MemoryAudit(MemoryResult, frozen=True, kw_only=True):
    """`lore memory audit --json`, oldest first; `unreadable` lines of the log are no entries."""

    entries: list[AuditEntry]
    unreadable: int


class MemoryExtracted(MemoryResult, frozen=True, kw_only=True):
    """`lore memory extract --json`; `failure` says why what was known stays as it was.

    `skipped` says why there was nothing to learn from; `shared` whether it is what agents share.
    """

    agent: str
    shared: bool
    session_id: str
    removed: dict[str, int]
    added: dict[str, int]
    skipped: str | None
    failure: str | None


class MemoryDreamt(MemoryResult, frozen=True, kw_only=True):
    """`lore memory dream --json`; `skipped` says why there was no dream, `failure` why it fell back to one topic.

    `shared` tells whether it is what agents share.
    """

    agent: str
    shared: bool
    topics: list[str]
    superseded: list[str]
    skipped: str | None
    failure: str | None
