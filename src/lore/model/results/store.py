"""What is answered of sessions, by `lore fold`, `lore knowledge` and `lore store`.

Stores are named by their URLs, without passwords. Counts of what is remembered are by kind: facts, preferences,
decisions, tasks, open_items, topics.
"""

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
    """What a folded session is."""

    id: str
    format: str
    fidelity: str
    model: str | None
    chains: list[ChainResult]


class SessionUsage(UsageResult, frozen=True):
    """Usage summed over all chains."""

    turns: int


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
    usage: SessionUsage
    problems: list[Problem]


class FollowedLine(CommandResult, frozen=True, kw_only=True):
    """One line of `lore fold --follow --json`: an event, as lore's log spells it, or a snapshot.

    `cursor` is EPOCH:N, with N events of the log folded: the one on this line, or all in the snapshot.
    """

    cursor: str
    event: Raw | UnsetType = UNSET
    snapshot: FoldResult | UnsetType = UNSET


class StoreResult(CommandResult, frozen=True, kw_only=True):
    """An answer about a store."""

    store: str


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


class StoreShown(StoreResult, frozen=True, kw_only=True):
    """`lore store show --json`; `forks` are the sessions that would be deleted with it."""

    session: SessionRow
    metadata: Raw
    prompt_deltas: int
    forks: list[str]


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


class KnowledgeEntry(Struct, frozen=True):
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
    knowledge: list[KnowledgeEntry]
    problems: list[Problem]


class KnowledgeWritten(CommandResult, frozen=True, kw_only=True):
    """`lore knowledge add, update, remove --json`: the entries, whole ids; `written` counts the records appended."""

    op: str
    ids: list[str]
    written: int
