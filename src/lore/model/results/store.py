"""What is answered of sessions, by `lore fold`, `lore knowledge`, `lore store` and `lore memory`.

Stores are named by their URLs, without passwords. Counts of what is remembered are by kind: facts, preferences,
decisions, tasks, open_items, topics.
"""

from __future__ import annotations

from typing import Literal

from msgspec import UNSET, Raw, Struct, UnsetType

from lore.model.codes import Problem
from lore.model.results import CommandResult


class ChainResult(Struct, frozen=True):
    """One chain of a folded session."""

    id: str
    kind: str
    turns: int
    items: int


class SessionResult(Struct, frozen=True):
    """What a folded session is."""

    id: str
    format: str
    fidelity: str
    model: str | None
    chains: list[ChainResult]


class UsageResult(Struct, frozen=True):
    """Usage summed over all chains. `partial_output` is true where the log is known to hold only a part of the output
    tokens of some turns, and left out elsewhere.
    """

    turns: int
    uncached_tokens: int | None
    read_tokens: int | None
    write_tokens: int | None
    output_tokens: int | None
    partial_output: Literal[True] | UnsetType = UNSET


class TurnResult(Struct, frozen=True):
    """One request of a folded session, with its times as they were recorded and what was billed for it.

    `state` is `open` where no end of it was recorded. `ended_at` is when its response came: its end, or its first line
    where a format has no other time. The counts sum the passes of a response; unknown is null.
    """

    chain: str
    turn: int
    state: Literal["open", "completed", "failed", "canceled"]
    started_at: str | None = None
    ended_at: str | None = None
    uncached_tokens: int | None = None
    read_tokens: int | None = None
    write_tokens: int | None = None
    output_tokens: int | None = None


class InjectedResult(Struct, frozen=True):
    """Text that was put between the items: a durable delta, a turn's context, context from outside.

    `number` is a delta's seq, a context's turn; `before_turn` counts the requests up to the one that it came before,
    `insert_at` the items before it. `content` is as the log spells it; `saved`: the log holds it, lore has not only
    derived it.
    """

    kind: Literal["delta", "context", "outside"]
    number: int
    before_turn: int
    insert_at: int
    saved: bool
    content: Raw


class FoldResult(CommandResult, frozen=True, kw_only=True):
    """`lore fold --json`; `timeline` holds the items of the main chain as lore's log spells them.

    `item_turns` has for each of them the turn that was under way when it came (0: none yet), `injected` what stands
    between them. `turns` are the requests of all chains, in the order in which they began.
    """

    session: SessionResult
    timeline: list[Raw]
    item_turns: list[int]
    injected: list[InjectedResult]
    pruned: list[str]
    turns: list[TurnResult]
    usage: UsageResult
    problems: list[Problem]


class Followed(CommandResult, frozen=True, kw_only=True):
    """One line of `lore fold --follow --json`: an event, as lore's log spells it, or a snapshot.

    `cursor` is EPOCH:N, with N events of the log folded: the one on this line, or all in the snapshot.
    """

    cursor: str
    event: Raw | UnsetType = UNSET
    snapshot: FoldResult | UnsetType = UNSET


class StoreResult(CommandResult, frozen=True, kw_only=True):
    """An answer about a store."""

    store: str


class MemoryResult(StoreResult, frozen=True, kw_only=True):
    """An answer about what is remembered of a user."""

    user: str


class StoredHead(Struct, frozen=True):
    """How far a session is stored: its last event's number, the digest of all events, that of its notes."""

    number: int
    digest: str
    note: str


class SessionRow(Struct, frozen=True, kw_only=True):
    """One stored session; `bytes` is the size of its log, `events` the number of its last event.

    `user_id` and `agent_id` are its header's. `turns` counts the model requests that it began, of all chains, and
    `used_at` is the last time that an event carries, else that of the last save; null where the store does not know.
    """

    session_id: str
    events: int
    bytes: int
    project_id: str | None
    parent_session_id: str | None
    leaf_id: str | None
    created_at: str | None
    updated_at: str | None
    user_id: str | None
    agent_id: str | None
    turns: int | None
    used_at: str | None
    head: StoredHead


class StoreList(StoreResult, frozen=True, kw_only=True):
    """`lore store list --json`; sessions in the order of their ids."""

    sessions: list[SessionRow]


class StoredCheckpoint(Struct, frozen=True):
    """A folded state that is kept beside a session: how far it goes, its reader, its size."""

    number: int
    format: str
    bytes: int


class StoreShown(StoreResult, frozen=True, kw_only=True):
    """`lore store show --json`; `forks` are the sessions that would be deleted with it."""

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


class StoreImported(StoreResult, frozen=True, kw_only=True):
    """`lore store import --json`.

    `requests` counts files below folders that hold prompts and make no session (assembled ones, and recorded requests
    where prompts are to be completed), `skipped` those that are no
    recordings, `joined` the subagents' files that became chains of their sessions.
    """

    sessions: list[ImportedSession]
    requests: int
    skipped: int
    joined: int
    problems: list[Problem]


class StoreAppended(Struct, frozen=True):
    """One line of `lore store append`: the number under which an event is stored, durably."""

    session_id: str
    id: int


class StoreWritten(StoreResult, frozen=True, kw_only=True):
    """`lore store delete, move, bind --json`: the sessions that it was done to; with `dry_run` it was not done."""

    op: str
    session_ids: list[str]
    project_id: str | None = None
    client_key: str | None = None
    dry_run: bool = False


class StoreResolved(StoreResult, frozen=True, kw_only=True):
    """`lore store resolve --json`."""

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


class StoreVerified(StoreResult, frozen=True, kw_only=True):
    """`lore store verify --json`: what was looked at, and what is damaged; `notes` are no damage."""

    sessions: int
    events: int
    damage: list[StoredDamage]
    notes: list[str]


class StoreVacuumed(StoreResult, frozen=True, kw_only=True):
    """`lore store vacuum --json`: by how many bytes the store became smaller."""

    freed_bytes: int


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


class KnownFact(Struct, frozen=True):
    """One entry of what a session knows.

    `state`: `pinned` in the prompt, told by a `delta`, or `waiting` for a turn that tells it; None where the
    chain's prompt holds no knowledge of lore's.
    """

    id: str
    category: str
    title: str
    content: str
    state: str | None


class KnowledgeResult(CommandResult, frozen=True, kw_only=True):
    """`lore knowledge list --json`; entries in the order in which prompts show them."""

    session: str
    knowledge: list[KnownFact]
    problems: list[Problem]


class KnowledgeWritten(CommandResult, frozen=True, kw_only=True):
    """`lore knowledge add, update, remove --json`: the entries, whole ids; `written` counts the records appended."""

    op: str
    ids: list[str]
    written: int
