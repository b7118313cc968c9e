"""What a store is: sessions kept as logs, one event after another, and paid for by what is new.

Words: an event of a session is stored as the line that its log holds, to the byte, and has a number: the
first, its header, is 1. A head is how far a session is stored: the number of its last event, the digest of
all of them (`lines`), and the digest of what is noted beside them (leaf and metadata). A delta is what is
new since a head, its base.

Rules that every store keeps (`lore.testing.StoreContract` holds each):
- nothing is ever deleted from a log: what is taken back is a `remove` event behind it; empty never means
  delete;
- a delta is stored whole or not at all, and durable when the call returns; one that arrives twice changes
  nothing; one whose base is not the stored state is refused, naming both;
- what comes out can be changed by nobody: values are immutable;
- a store of a newer format is refused, and not touched.

How to add one: write a class with the methods of `Store` (`save_delta` may be left out: `deltas.save_delta`
then loads, adds, and saves in full), publish a function `(url, tell) -> Store` under the entry-point group
`lore.stores` with the scheme of its URLs as name, and run `lore.testing.StoreContract` over it
(the page: `WRITING.md` beside this file).

Threads and asyncio: each method may be called from any thread; calls of one object wait for each other where
the store needs that. None knows an event loop: `asyncio.to_thread` calls one from there.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple, Protocol, Self, TypeVar

from msgspec import Struct

from lore.errors import LoreError, Where

VERSION = 1  # of the format in which sessions are handed to stores and come out of them
EMPTY = b"{}"
_HINT_DAMAGED = "`lore store verify` names each damaged place"

Tell = Callable[[str], None]
S = TypeVar("S", bound=Struct)


class Head(NamedTuple):
    """How far a session is stored: its last number, the digest of its events (64 hex digits), that of its notes."""

    number: int
    digest: str
    note: str

    def __str__(self) -> str:
        return f"event {self.number} ({self.digest[:8]}, notes {self.note[:8]})"


class SessionDelta(Struct, frozen=True, kw_only=True):
    """What is new of a session since `base`.

    `new_events` are lines of its log without their ends, `removed_ids` uuids of items: stored as one `remove`
    event before the new ones. `leaf_id` None stays as it is; the keys of `metadata` (a JSON object) replace those
    of the same name, others stay. Times are RFC 3339, kept and never compared.
    """

    base: Head
    new_events: tuple[bytes, ...] = ()
    removed_ids: tuple[str, ...] = ()
    leaf_id: str | None = None
    metadata: bytes = EMPTY
    created_at: str | None = None
    updated_at: str | None = None
    version: int = VERSION


def like(kind: type[S], known: object, **more: object) -> S:
    """Return a record of a kind: `more`, and of its other fields those that another record has."""
    fields = (name for name in kind.__struct_fields__ if name not in more and hasattr(known, name))
    return kind(**{name: getattr(known, name) for name in fields}, **more)


class SessionData(Struct, frozen=True, kw_only=True):
    """A session as it is stored; `events` are the lines numbered from `first` on, without their ends.

    The header, event 1, names the session, and stays as it was written when the session is moved: `project_id` is
    where it is now. Only what was loaded with `after` begins later than at 1.
    """

    session_id: str
    head: Head
    events: tuple[bytes, ...]
    first: int = 1
    project_id: str | None = None
    parent_session_id: str | None = None
    leaf_id: str | None = None
    metadata: bytes = EMPTY
    created_at: str | None = None
    updated_at: str | None = None
    version: int = VERSION

    @property
    def log(self) -> bytes:
        """The events as a log, each line with its end. Costs O(bytes)."""
        return b"\n".join((*self.events, b""))


class SessionSummary(Struct, frozen=True, kw_only=True):
    """One session of a list; `size` is that of its log in bytes.

    `user_id` and `agent_id` are its header's. `turns` counts the model requests that it began, of all chains, and
    `used_at` is the last time that an event of it carries; None where the store does not keep that.
    """

    session_id: str
    head: Head
    size: int
    project_id: str | None = None
    parent_session_id: str | None = None
    leaf_id: str | None = None
    created_at: str | None = None
    updated_at: str | None = None
    user_id: str | None = None
    agent_id: str | None = None
    turns: int | None = None
    used_at: str | None = None

    @property
    def last_used_at(self) -> str | None:
        """When it was last used, as far as the store knows: its last event's time, else that of its last save."""
        return self.used_at or self.updated_at or self.created_at


class SessionState(SessionSummary, frozen=True, kw_only=True):
    """All that is known of a session beside its events."""

    metadata: bytes = EMPTY

    def data(self, events: tuple[bytes, ...], first: int) -> SessionData:
        """Return the session with these events, numbered from `first` on."""
        return like(SessionData, self, events=events, first=first)


class DeltaRow(Struct, frozen=True):
    """A durable prompt delta as it is kept: `selector` and `content` are JSON text, to the byte.

    `selector` is that of the latest record of this `seq`, `content` that of the first (design, section 3).
    """

    session_id: str
    seq: int
    project_id: str | None
    selector: bytes
    content: bytes


class DamagedPlace(Struct, frozen=True):
    """Something stored that is not as it was written: where, what, and what of it can be recovered.

    `number` is the event's, None where it is not one event's. With `session_id` None all of the store is meant.
    """

    session_id: str | None
    number: int | None
    place: str
    message: str
    recoverable: str


class Verified(Struct, frozen=True):
    """What was looked at, and what is damaged. `notes` are no damage, but a person should know them."""

    sessions: int
    events: int
    damage: tuple[DamagedPlace, ...] = ()
    notes: tuple[str, ...] = ()

    @classmethod
    def of(
        cls, sessions: Iterable[Verified | None], damage: Iterable[DamagedPlace] = (), notes: Iterable[str] = ()
    ) -> Self:
        """Put together what was found of each session (None: it was deleted meanwhile), and what of the store."""
        found = [each for each in sessions if each is not None]
        return cls(
            sum(each.sessions for each in found), sum(each.events for each in found),
            (*(damaged for each in found for damaged in each.damage), *damage),
            (*(noted for each in found for noted in each.notes), *notes),
        )  # fmt: skip


class StoreError(LoreError):
    """The store could not do what was asked: nothing was changed."""


class UnknownSessionError(StoreError):
    """The store has no such session; `url` is how the store may be shown."""

    def __init__(self, session_id: str, url: str = "") -> None:
        named = f" --store {shlex.quote(url)}" if url else ""
        message = f"{url or 'the store'} has no session {session_id!r}"
        super().__init__(message, hint=f"`lore store list{named}` names those it has")


class ConflictError(StoreError):
    """Another writer's state is stored: load again, and apply what is new on top of it."""

    def __init__(self, message: str, *, hint: str = "", base: Head | None = None, stored: Head | None = None) -> None:
        super().__init__(message, hint=hint)
        self.base = base
        self.stored = stored


class FormatError(StoreError):
    """The store is of another program, or of a newer lore; it was not touched."""


def refuse_other_version(what: str, version: int, known: int, where: Where | None = None) -> None:
    """Raise FormatError unless a version is the one that this lore reads and writes."""
    if version != known:
        hint = "use a newer lore" if version > known else "make a new store, and import the sessions again"
        message = f"{what} version {version}: this lore knows {known}"
        raise FormatError(message, hint=f"{hint}; nothing was changed", where=where)


class DamagedError(StoreError):
    """What is stored is not what was written; `lore store verify` says what can be recovered."""

    def __init__(self, message: str, *, hint: str = _HINT_DAMAGED, where: Where | None = None) -> None:
        super().__init__(message, hint=hint, where=where)


class Store(Protocol):
    """Where sessions are kept. Errors: StoreError and what is below it, nothing else."""

    @property
    def url(self) -> str:
        """What it was opened by, without passwords."""
        ...

    def create(self, header: bytes) -> Head:
        """Begin a session with its header, a `session_started` line.

        The same header again changes nothing; another one for the same id is a ConflictError.
        """
        ...

    def load(self, session_id: str, *, after: int = 0) -> SessionData:
        """Return a session, or what came after a number; raises UnknownSessionError, DamagedError."""
        ...

    def save(self, data: SessionData) -> Head:
        """Write a session in full, and create it where it is new: as it comes from `load`, with more events behind.

        Refused with ConflictError where the store holds an event that `data` does not. Costs O(its bytes).
        `data.head` is not looked at.
        """
        ...

    def delete(self, session_id: str) -> tuple[str, ...]:
        """Delete a session with its prompt deltas, bindings, and the sessions forked from it.

        Returns the ids of all that are gone, forks first; raises UnknownSessionError.
        """
        ...

    def list(self, project_id: str | None = None) -> Sequence[SessionSummary]:
        """List the sessions, those of one project where it is given, by their ids."""
        ...

    def move(self, session_id: str, project_id: str) -> None:
        """Make a session, and its prompt deltas, another project's."""
        ...

    def bind(self, client_key: str, session_id: str, *, replace: bool = False) -> None:
        """Remember which session a client means; for one that means another, ConflictError, unless `replace`."""
        ...

    def resolve(self, client_key: str) -> str | None:
        """Return the session that a client means. What is not known here is looked up before it is given up."""
        ...

    def prompt_deltas(self, session_id: str) -> Sequence[DeltaRow]:
        """Return a session's durable prompt deltas by `seq`."""
        ...

    def verify(self, session_id: str | None = None) -> Verified:
        """Recompute every digest, of one session or of all. Changes nothing. Costs O(bytes)."""
        ...

    def vacuum(self) -> int:
        """Give back what is not needed any more; returns by how many bytes the store became smaller."""
        ...

    def close(self) -> None:
        """Let go of files and connections. The store cannot be used any more."""
        ...


class DeltaStore(Store, Protocol):
    """A store that takes deltas: one delta costs what is new, whatever the session's length."""

    def save_delta(self, session_id: str, delta: SessionDelta) -> Head:
        """Add a delta and return the head behind it; raises ConflictError, UnknownSessionError."""
        ...
