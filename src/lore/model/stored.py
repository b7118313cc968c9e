"""What `lore store` answers. Stores are named by their URLs, without passwords."""

from __future__ import annotations

from msgspec import Raw, Struct

from lore.model.codes import Problem

SCHEMA = 2


class StoredHead(Struct, frozen=True):
    """How far a session is stored: its last event's number, the digest of all events, that of its notes."""

    number: int
    digest: str
    note: str


class SessionRow(Struct, frozen=True, kw_only=True):
    """One stored session; `bytes` is the size of its log, `events` the number of its last event."""

    session_id: str
    events: int
    bytes: int
    project_id: str | None
    parent_session_id: str | None
    leaf_id: str | None
    created_at: str | None
    updated_at: str | None
    head: StoredHead


class StoreList(Struct, frozen=True, kw_only=True):
    """`lore store list --json`; sessions in the order of their ids."""

    schema: int = SCHEMA
    store: str
    sessions: list[SessionRow]


class StoredCheckpoint(Struct, frozen=True):
    """A folded state that is kept beside a session: how far it goes, its reader, its size."""

    number: int
    format: str
    bytes: int


class StoreShown(Struct, frozen=True, kw_only=True):
    """`lore store show --json`; `forks` are the sessions that would be deleted with it."""

    schema: int = SCHEMA
    store: str
    session: SessionRow
    metadata: Raw
    prompt_deltas: int
    forks: list[str]
    checkpoint: StoredCheckpoint | None


class ImportedSession(Struct, frozen=True, kw_only=True):
    """What came of one input.

    `state`: `created`, `extended`, `unchanged`, `conflict` (what is stored differs), `failed`; with the last two
    `message` says why. `new_events` were stored by this run, `events` are stored now; both null with the last two.
    """

    path: str
    session_id: str | None
    state: str
    new_events: int | None
    events: int | None
    message: str | None = None


class StoreImported(Struct, frozen=True, kw_only=True):
    """`lore store import --json`.

    `requests` counts files below folders that hold requests instead of sessions, `skipped` those that are no
    recordings, `joined` the subagents' files that became chains of their sessions.
    """

    schema: int = SCHEMA
    store: str
    sessions: list[ImportedSession]
    requests: int
    skipped: int
    joined: int
    problems: list[Problem]


class StoreAppended(Struct, frozen=True):
    """One line of `lore store append`: the number under which an event is stored, durably."""

    session_id: str
    id: int


class StoreWritten(Struct, frozen=True, kw_only=True):
    """`lore store delete, move, bind --json`: the sessions that it was done to; with `dry_run` it was not done."""

    schema: int = SCHEMA
    store: str
    op: str
    session_ids: list[str]
    project_id: str | None = None
    client_key: str | None = None
    dry_run: bool = False


class StoreResolved(Struct, frozen=True, kw_only=True):
    """`lore store resolve --json`."""

    schema: int = SCHEMA
    store: str
    client_key: str
    session_id: str


class StoredDamage(Struct, frozen=True):
    """Something stored that is not as it was written: where, what, what of it can be recovered.

    `session_id` is null where all of the store is meant, `number` where it is not one event's.
    """

    session_id: str | None
    number: int | None
    place: str
    message: str
    recoverable: str


class StoreVerified(Struct, frozen=True, kw_only=True):
    """`lore store verify --json`: what was looked at, and what is damaged; `notes` are no damage."""

    schema: int = SCHEMA
    store: str
    sessions: int
    events: int
    damage: list[StoredDamage]
    notes: list[str]


class StoreVacuumed(Struct, frozen=True, kw_only=True):
    """`lore store vacuum --json`: by how many bytes the store became smaller."""

    schema: int = SCHEMA
    store: str
    freed_bytes: int
