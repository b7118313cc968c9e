"""Results of `lore fold`, `lore knowledge` and `lore store`. Stores are named by their URLs, without passwords."""

from __future__ import annotations

from typing import Literal

from msgspec import UNSET, Raw, Struct, UnsetType

from lore.model.codes import Problem
from lore.model.results import CommandResult, UsageResult


class ChainResult(Struct, frozen=True):
    """One chain of a folded session."""

    id: str
    kind: str
    turns: int
    items: int


class SessionResult(Struct, frozen=True):
    """A folded session."""

    id: str
    format: str
    fidelity: str
    model: str | None
    chains: list[ChainResult]


class SessionUsage(UsageResult, frozen=True):
    """Usage summed over all chains."""

    turns: int


class TurnResult(Struct, frozen=True):
    """One request of a folded session. The counts sum the passes of its response."""

    chain: str
    turn: int
    state: Literal["open", "completed", "failed", "canceled"]  # open: no end was recorded
    started_at: str | None = None
    ended_at: str | None = None  # when the response ended, or began if the format records no other time
    uncached_tokens: int | None = None
    read_tokens: int | None = None
    write_tokens: int | None = None
    output_tokens: int | None = None


class InjectedResult(Struct, frozen=True):
    """Text between the items of a timeline: a durable delta, the context of a turn, or context from outside."""

    kind: Literal["delta", "context", "outside"]
    number: int  # the seq of a delta, the turn of a context
    before_turn: int  # the first turn whose prompt holds it
    insert_at: int  # items before it
    saved: bool  # the log holds it; otherwise lore derived it
    content: Raw


class FoldResult(CommandResult, frozen=True, kw_only=True):
    """`lore fold --json`."""

    session: SessionResult
    timeline: list[Raw]  # items of the main chain, as lore's log writes them
    item_turns: list[int]  # for each item, the turn under way when it was added; 0 before the first
    injected: list[InjectedResult]
    pruned: list[str]
    turns: list[TurnResult]  # of all chains, in the order in which they began
    usage: SessionUsage
    problems: list[Problem]


class FollowedLine(CommandResult, frozen=True, kw_only=True):
    """`lore fold --follow --json`: one line, with an event or a snapshot."""

    cursor: str  # EPOCH:N, with N events of the log folded
    event: Raw | UnsetType = UNSET  # as lore's log writes it
    snapshot: FoldResult | UnsetType = UNSET


# lore store


class StoreResult(CommandResult, frozen=True, kw_only=True):
    """The base of answers about a store."""

    store: str


class StoredHead(Struct, frozen=True):
    """How far a session is stored."""

    number: int  # of its last event
    digest: str  # of all events
    note: str  # digest of leaf and metadata


class SessionRow(Struct, frozen=True, kw_only=True):
    """One stored session. Null: the store does not record it."""

    session_id: str
    events: int  # the number of its last event
    bytes: int  # size of its log
    project_id: str | None
    parent_session_id: str | None
    leaf_id: str | None
    created_at: str | None
    updated_at: str | None
    user_id: str | None  # of its header
    agent_id: str | None
    turns: int | None  # model requests begun in all chains
    used_at: str | None  # time of the last event that has one, else of the last save
    head: StoredHead


class StoreList(StoreResult, frozen=True, kw_only=True):
    """`lore store list --json`."""

    sessions: list[SessionRow]  # in the order of their ids


class StoreShown(StoreResult, frozen=True, kw_only=True):
    """`lore store show --json`."""

    session: SessionRow
    metadata: Raw
    prompt_deltas: int
    forks: list[str]  # sessions that would be deleted with it


class ImportedSession(Struct, frozen=True, kw_only=True):
    """The outcome of importing one input."""

    path: str
    session_id: str | None
    state: str  # created, extended, unchanged, conflict (the stored session differs) or failed
    new_events: int | None  # stored by this run; null after a conflict or failure
    events: int | None  # stored now; null after a conflict or failure
    message: str | None = None  # the reason of a conflict or failure


class StoreImported(StoreResult, frozen=True, kw_only=True):
    """`lore store import --json`."""

    sessions: list[ImportedSession]
    requests: int  # files in folders that hold prompts and are not sessions
    skipped: int  # files in folders that are not recordings
    joined: int  # files of subagents that became chains of their sessions
    problems: list[Problem]


class StoreAppended(Struct, frozen=True):
    """`lore store append`: one line for each event that is stored durably."""

    session_id: str
    id: int  # the number of the event


class StoreWritten(StoreResult, frozen=True, kw_only=True):
    """`lore store delete, move, bind --json`."""

    op: str
    session_ids: list[str]
    project_id: str | None = None
    client_key: str | None = None
    dry_run: bool = False  # nothing was written


class StoreResolved(StoreResult, frozen=True, kw_only=True):
    """`lore store resolve --json`."""

    client_key: str
    session_id: str


class StoredDamage(Struct, frozen=True):
    """Stored data that differs from the data that was saved."""

    session_id: str | None  # null if it concerns the whole store
    number: int | None  # of the event, if it concerns one
    place: str
    message: str
    recoverable: str


class StoreVerified(StoreResult, frozen=True, kw_only=True):
    """`lore store verify --json`."""

    sessions: int  # how many were verified
    events: int
    damage: list[StoredDamage]
    notes: list[str]  # findings that are not damage


class StoreVacuumed(StoreResult, frozen=True, kw_only=True):
    """`lore store vacuum --json`."""

    freed_bytes: int


# lore knowledge


class KnowledgeEntry(Struct, frozen=True):
    """One entry of what a session knows."""

    id: str
    category: str
    title: str
    content: str
    state: str | None  # pinned, delta (sent later) or waiting (for a turn); null if the chain's prompt has no knowledge


class KnowledgeResult(CommandResult, frozen=True, kw_only=True):
    """`lore knowledge list --json`."""

    session: str
    knowledge: list[KnowledgeEntry]  # in the order of prompts
    problems: list[Problem]


class KnowledgeWritten(CommandResult, frozen=True, kw_only=True):
    """`lore knowledge add, update, remove --json`."""

    op: str
    ids: list[str]  # whole ids of the entries
    written: int  # records appended
