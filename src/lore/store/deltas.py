"""What a call adds to what is stored: the one place that decides, for every store.

In: a delta, the stored head, and a look at stored events. Out: the lines to append and the head behind them, or
ConflictError. Pure. Rules:
- what is taken back becomes one `remove` event before the new ones;
- a base that is the stored head is gone on from; behind an older one the delta's own events may stand already,
  all or the first of them, in their order: they are not stored again, the others are added (a delta that arrives
  twice, and one that was sent again with more, because its answer was lost);
- leaf and metadata are not numbered: where all its events stand already, a delta's notes do too (it changes nothing),
  or nobody appended or noted since its base (they are added), or it is refused: a retry never brings old notes back;
- anything else is another writer's state, and refused, naming both.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from typing import NamedTuple, Protocol, TypeVar, cast

import msgspec

from lore.model.canonical import canonical, encode
from lore.model.jsonslice import object_of, table
from lore.store.base import (
    EMPTY,
    VERSION,
    ConflictError,
    DeltaStore,
    Head,
    SessionData,
    SessionDelta,
    SessionState,
    Store,
    StoreError,
    UnknownSessionError,
    like,
    refuse_other_version,
)
from lore.store.lines import (
    NOTHING,
    SEED,
    Activity,
    SessionHeader,
    activity,
    follow,
    good_id,
    good_line,
    good_notes,
    note,
    read_header,
)

_T = TypeVar("_T")
HINT_AGAIN = "load the session again, and save what is new on top of it"


class Stored(Protocol):
    """A stored session under its lock."""

    @property
    def head(self) -> Head:
        """How far it is stored."""
        ...

    @property
    def leaf_id(self) -> str | None:
        """Its leaf."""
        ...

    @property
    def metadata(self) -> bytes:
        """Its metadata."""
        ...

    @abstractmethod
    def digest(self, number: int) -> str | None:
        """Return the digest behind event `number` (0: of no events); None where there is none."""
        ...

    @abstractmethod
    def lines(self, after: int, count: int) -> Sequence[bytes]:
        """Return at most `count` events that came after a number."""
        ...


class Settled(NamedTuple):
    """What to write: lines and the digest behind each, the notes, and the head that is then stored.

    `head` is what the writer may build on: where more is stored already than it sent, that of its own last event.
    """

    lines: tuple[bytes, ...]
    digests: tuple[bytes, ...]
    leaf_id: str | None
    metadata: bytes
    head: Head
    noted: bool

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to write."""
        return not self.lines and not self.noted


def settle(delta: SessionDelta, stored: Stored) -> Settled:
    """Decide what a delta adds to what is stored; raises ConflictError, StoreError. Costs O(the delta)."""
    refuse_other_version("a delta of", delta.version, VERSION)
    good_notes(delta.leaf_id, delta.created_at, delta.updated_at)
    lines, head, base = lines_of(delta), stored.head, delta.base
    known = _known(lines, delta, stored)
    leaf_id = stored.leaf_id if delta.leaf_id is None else delta.leaf_id
    metadata = merged(stored.metadata, delta.metadata)
    noted = note(leaf_id, metadata)
    is_last = base.number + known == head.number  # nobody appended since
    if noted != head.note and not (is_last and (base.note == head.note or 0 < known < len(lines))):
        raise refused(base, head)  # the notes of others would be lost, or its own
    if not is_last:
        number = base.number + known
        at = Head(number, stored.digest(number) or "", head.note)
        return Settled((), (), stored.leaf_id, stored.metadata, at, noted=False)
    new = lines[known:]
    digests = tuple(follow(bytes.fromhex(head.digest), new))
    after = Head(head.number + len(new), digests[-1].hex() if digests else head.digest, noted)
    return Settled(new, digests, leaf_id, metadata, after, noted=noted != head.note)


def _known(lines: tuple[bytes, ...], delta: SessionDelta, stored: Stored) -> int:
    """Count the delta's events that are stored already; raises ConflictError where others stand in their place."""
    base, head = delta.base, stored.head
    if (base.number, base.digest) == (head.number, head.digest):
        return 0
    if not lines or base.number >= head.number or stored.digest(base.number) != base.digest:
        raise refused(base, head)
    there = stored.lines(base.number, len(lines))
    if not all(map(is_same, there, lines)):
        raise refused(base, head)
    return len(there)


def lines_of(delta: SessionDelta) -> tuple[bytes, ...]:
    """Return the events that a delta stands for, in the order in which they are stored."""
    removed = (encode({"kind": "remove", "uuids": delta.removed_ids}),) if delta.removed_ids else ()
    return tuple(map(good_line, (*removed, *delta.new_events)))


def is_same(left: bytes, right: bytes) -> bool:
    """Tell whether two events say the same, however they are spelled."""
    return left == right or canonical(left) == canonical(right)


def refused(base: Head, stored: Head) -> ConflictError:
    """Return the error for a delta whose base is not the stored state."""
    message = f"the delta builds on {base}, the store holds {stored}"
    return ConflictError(message, hint=HINT_AGAIN, base=base, stored=stored)


def merged(before: bytes, more: bytes) -> bytes:
    """Put the keys of a JSON object over those of another; raises StoreError where one is none."""
    if more.strip(b" \t\r\n") == b"{}":
        return before
    new, old = table(more), table(before)
    if new is None:
        raise StoreError("metadata is no JSON object", hint="give an object")
    return object_of({**(old or {}), **new})


class Addition(NamedTuple):
    """What comes behind a session: events with the digest behind each, and its notes by then, which `notes` has.

    `state` is what it comes behind; of a new session it is that of its header alone, which is then given as well.
    """

    state: SessionState
    notes: SessionState
    lines: Sequence[bytes]
    digests: Sequence[bytes]
    header: bytes | None = None

    def then(self) -> SessionState:
        """Return the state that it leads to. Costs a look at each line."""
        state, notes = self.state, self.notes
        digest = self.digests[-1].hex() if self.digests else state.head.digest
        used = activity(self.lines, Activity(state.turns or 0, state.used_at))
        return msgspec.structs.replace(
            notes, head=Head(state.head.number + len(self.lines), digest, note(notes.leaf_id, notes.metadata)),
            size=state.size + sum(map(len, self.lines)) + len(self.lines), turns=used.turns, used_at=used.used_at,
        )  # fmt: skip

    def of_all(self, header: SessionHeader, events: Sequence[bytes], digests: Sequence[bytes]) -> Addition:
        """Return the same as a new session of these events, the header first."""
        return Addition(_begun(header, digests[0]), self.notes, events[1:], digests[1:], header.line)


class StoredView(Stored):
    """A stored session under its lock, as a store of this package shows it to what decides."""

    @property
    @abstractmethod
    def state(self) -> SessionState:
        """The session's state; raises DamagedError."""

    @abstractmethod
    def header(self) -> SessionHeader:
        """Return the session's header; raises DamagedError."""

    @property
    def head(self) -> Head:
        return self.state.head

    @property
    def leaf_id(self) -> str | None:
        return self.state.leaf_id

    @property
    def metadata(self) -> bytes:
        return self.state.metadata


Decide = Callable[[StoredView | None], tuple[_T, Addition | None]]


class AddingStore(ABC):
    """What is the same in all stores of this package: what a call adds to a session."""

    url: str

    @abstractmethod
    def _write(self, session_id: str, decide: Decide[_T]) -> _T:
        """Add what a function makes of a session, of None where there is none, and return its answer.

        It is asked about what is stored then, perhaps several times; all that it adds is stored, or nothing.
        """

    def _unknown(self, session_id: str) -> UnknownSessionError:
        return UnknownSessionError(session_id)

    def create(self, header: bytes) -> Head:
        found = read_header(header)
        data = like(SessionData, found, head=NOTHING, events=(found.line,), created_at=found.at)

        def begin(known: StoredView | None) -> tuple[Head, Addition | None]:
            if known is not None:
                return same_header(known.header().line, found, known.head), None
            return _whole(data, digests_of(data.events), None)

        return self._write(found.session_id, begin)

    def save(self, data: SessionData) -> Head:
        """Write what is new of a session in full; see `Store`."""
        digests = digests_of(data.events)
        return self._write(data.session_id, lambda known: _whole(data, digests, None if known is None else known.state))

    def save_delta(self, session_id: str, delta: SessionDelta) -> Head:
        def add(known: StoredView | None) -> tuple[Head, Addition | None]:
            if known is None:
                raise self._unknown(session_id)
            settled, state = settle(delta, known), known.state
            if settled.is_empty:
                return settled.head, None
            notes = msgspec.structs.replace(
                state, leaf_id=settled.leaf_id, metadata=settled.metadata,
                created_at=delta.created_at or state.created_at, updated_at=delta.updated_at or state.updated_at,
            )  # fmt: skip
            return settled.head, Addition(state, notes, settled.lines, settled.digests)

        return self._write(session_id, add)

    def move(self, session_id: str, project_id: str) -> None:
        good_id(project_id, "project id")

        def change(known: StoredView | None) -> tuple[None, Addition | None]:
            if known is None:
                raise self._unknown(session_id)
            if known.state.project_id == project_id:
                return None, None
            return None, Addition(known.state, msgspec.structs.replace(known.state, project_id=project_id), (), ())

        self._write(session_id, change)


def _whole(data: SessionData, digests: Sequence[bytes], state: SessionState | None) -> tuple[Head, Addition | None]:
    """Decide what a session that is saved in full, whose events have these digests, adds to what is stored."""
    header = checked(data, None if state is None else state.head, digests)
    before = _begun(header, digests[0]) if state is None else state
    noted = {name: getattr(data, name) for name in ("project_id", "leaf_id", "created_at", "updated_at")}
    notes = msgspec.structs.replace(before, metadata=bytes(data.metadata), **noted)
    number = before.head.number
    head = Head(len(digests), digests[-1].hex(), note(data.leaf_id, data.metadata))
    if state is not None and notes == state and number == head.number:
        return head, None
    first = header.line if state is None else None
    return head, Addition(before, notes, data.events[number:], digests[number:], first)


def _begun(header: SessionHeader, digest: bytes) -> SessionState:
    """Return the state of a session that is its header alone."""
    head, size = Head(1, digest.hex(), NOTHING.note), len(header.line) + 1
    return like(SessionState, header, head=head, size=size, **activity((header.line,))._asdict())


# a whole session


def checked(data: SessionData, stored: Head | None, digests: Sequence[bytes]) -> SessionHeader:
    """Check a session that is to be written in full, whose events have these digests; raises StoreError.

    Refused with ConflictError where the store holds an event that `data` does not.
    """
    refuse_other_version("a session of", data.version, VERSION)
    if data.first != 1 or not data.events:
        raise StoreError("a session that is saved in full begins with event 1", hint="load it without `after`")
    header = read_header(data.events[0])
    if header.session_id != data.session_id:
        raise StoreError(f"the header names session {header.session_id!r}, not {data.session_id!r}")
    good_notes(data.leaf_id, data.created_at, data.updated_at)
    if data.project_id is not None:
        good_id(data.project_id, "project id")
    merged(EMPTY, data.metadata)
    if stored is not None and not (stored.number <= len(digests) and digests[stored.number - 1].hex() == stored.digest):
        base = Head(len(digests), digests[-1].hex(), note(data.leaf_id, data.metadata))
        raise ConflictError(
            f"the session ends with {base}, the store holds {stored}, which it does not contain",
            hint=HINT_AGAIN, base=base, stored=stored,
        )  # fmt: skip
    for line in data.events[1 if stored is None else stored.number :]:
        good_line(line)
    return header


def digests_of(events: Iterable[bytes]) -> list[bytes]:
    """Return the digest behind each event of a whole session."""
    return follow(SEED, events)


def same_header(stored: bytes, header: SessionHeader, head: Head) -> Head:
    """Return the stored head where a session is created again with the same header; raises ConflictError."""
    if is_same(stored, header.line):
        return head
    raise ConflictError(
        f"session {header.session_id!r} exists with another header",
        hint="append to it, or choose another id", stored=head,
    )  # fmt: skip


def bound_to(session_id: str | None) -> ConflictError:
    """Return the error for a client that means another session."""
    return ConflictError(f"the client is bound to session {session_id!r}", hint="replace it if that is meant")


def save_delta(store: Store, session_id: str, delta: SessionDelta) -> Head:
    """Add a delta to a session and return the head behind it.

    Whether the store takes deltas is asked at each call. One that does not is loaded and saved in full: costs
    O(the session). Raises what the store's own `save_delta` raises.
    """
    if callable(getattr(store, "save_delta", None)):
        return cast("DeltaStore", store).save_delta(session_id, delta)
    data = store.load(session_id)
    settled = settle(delta, Whole(data))
    if not settled.is_empty:
        store.save(
            msgspec.structs.replace(
                data, events=(*data.events, *settled.lines), leaf_id=settled.leaf_id, metadata=settled.metadata,
                created_at=delta.created_at or data.created_at, updated_at=delta.updated_at or data.updated_at,
                head=settled.head,
            )
        )  # fmt: skip
    return settled.head


def with_forks(session_id: str, parents: Mapping[str, str | None]) -> tuple[str, ...]:
    """Return a session behind all that were forked from it, the latest forks first.

    `parents` has the parent of each session. One that is its own ancestor is met once. Costs O(sessions).
    """
    children: dict[str, list[str]] = defaultdict(list)
    for name, parent in sorted(parents.items()):
        if parent is not None:
            children[parent].append(name)
    found = {session_id: None}
    waiting = [session_id]
    while waiting:
        new = [child for child in children[waiting.pop()] if child not in found]
        found.update(dict.fromkeys(new))
        waiting += new
    return tuple(reversed(found))


class Whole:
    """A session that was loaded whole, as `settle` looks at it. Its digests are derived once, when asked for."""

    def __init__(self, data: SessionData) -> None:
        self.head, self.leaf_id, self.metadata = data.head, data.leaf_id, data.metadata
        self._events = data.events

    @cached_property
    def _digests(self) -> list[bytes]:
        return [SEED, *digests_of(self._events)]

    def digest(self, number: int) -> str | None:
        return self._digests[number].hex() if 0 <= number < len(self._digests) else None

    def lines(self, after: int, count: int) -> Sequence[bytes]:
        return self._events[after : after + count]
