"""Compute the change that a call makes to a stored session (pure functions), and write it (`DeltaStore`).
- Removed ids become one `remove` event before the new events.
- A delta whose base is the stored head is appended. After an older base, the delta's own events may be stored
  already, all or the first of them, in their order: only the others are added. So a delta may arrive twice, and may
  be sent again with more events because its answer was lost.
- The order of leaf and metadata is not recorded. If all events of a delta are stored and its leaf and metadata are not,
  these are added if no other writer has appended since; else the delta is refused: a retry never restores old metadata.
- A delta that continues neither the head nor events of its own is refused: ConflictError, with both heads.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property, partial
from typing import Any, NamedTuple, Protocol, TypeAlias

from msgspec.structs import replace

from lore.model.canonical import canonical, encode
from lore.model.jsonslice import object_of, raw_members
from lore.store.base import (
    EMPTY,
    VERSION,
    ConflictError,
    DamagedError,
    Head,
    SessionData,
    SessionDelta,
    SessionSummary,
    StoreError,
    UnknownSessionError,
    notes_of,
    refuse_other_version,
    verify_hint,
)
from lore.store.lines import (
    SEED,
    check_id,
    check_line,
    check_notes,
    count_activity,
    digest_lines,
    digest_notes,
    read_header,
)

_HINT_AGAIN = "load the session again (`reload()` keeps the unsaved events on top: do not repeat them), and save"


class Stored(Protocol):
    """A stored session, while its store keeps other writers out."""

    @property
    def summary(self) -> SessionSummary:
        """Everything that is stored except the events."""
        ...

    def digest(self, number: int) -> str | None:
        """Return the digest after event `number` (0: before the first); None if there is no such event."""
        ...

    def lines(self, after: int, count: int) -> Sequence[bytes]:
        """Return at most `count` events, those after event `after`."""
        ...


class PendingChange(NamedTuple):
    """The change that a call makes."""

    before: SessionSummary  # the stored state; with head NOTHING if the session is new
    after: SessionSummary  # the state to store; its head is the base for the caller's next delta
    lines: Sequence[bytes]  # to append; for a new session the header first
    digests: Sequence[bytes]  # after each of the lines


# Returns the change to write, or the head if nothing is to be written: the stored one, or that of the caller's own last
# event, as the base for its next delta.
Decide: TypeAlias = Callable[[Stored | None], PendingChange | Head]


def plan_append(
    before: SessionSummary, lines: Sequence[bytes], digests: Sequence[bytes] | None = None, **notes: Any
) -> PendingChange:
    """Return the change that appends lines to a session, and sets fields of its summary (`notes`)."""
    if digests is None:
        digests = digest_lines(bytes.fromhex(before.head.digest), lines)
    turns, used_at = count_activity(lines, before.turns or 0, before.used_at)
    size = before.size + sum(map(len, lines)) + len(lines)
    after = replace(before, turns=turns, used_at=used_at, size=size, **notes)
    digest = digests[-1].hex() if digests else before.head.digest
    head = Head(before.head.number + len(lines), digest, digest_notes(after.leaf_id, after.metadata))
    return PendingChange(before, replace(after, head=head), lines, digests)


def plan_delta(delta: SessionDelta, stored: Stored) -> PendingChange | Head:
    """Return the change that a delta makes to a session, or its head if there is nothing to change (see `Decide`).

    Raises ConflictError, StoreError. Costs O(the delta).
    """
    refuse_other_version("a delta of", delta.version, VERSION)
    check_notes(delta.leaf_id, delta.created_at, delta.updated_at)
    removed = (encode({"kind": "remove", "uuids": delta.removed_ids}),) if delta.removed_ids else ()
    lines = tuple(map(check_line, (*removed, *delta.new_events)))
    base, before, head = delta.base, stored.summary, stored.summary.head
    stored_count = _count_stored(lines, base, stored)
    leaf_id = before.leaf_id if delta.leaf_id is None else delta.leaf_id
    metadata = merge_metadata(before.metadata, delta.metadata)
    is_noted = digest_notes(leaf_id, metadata) == head.note  # leaf and metadata are stored already
    is_last = base.number + stored_count == head.number  # no other writer has appended since
    if not is_noted and not (is_last and (base.note == head.note or 0 < stored_count < len(lines))):
        raise _conflict(base, head)
    if not is_last:
        number = base.number + stored_count
        return Head(number, stored.digest(number) or "", head.note)
    if is_noted and stored_count == len(lines):
        return head
    created_at, updated_at = delta.created_at or before.created_at, delta.updated_at or before.updated_at
    return plan_append(
        before, lines[stored_count:], leaf_id=leaf_id, metadata=metadata, created_at=created_at, updated_at=updated_at
    )


def _count_stored(lines: Sequence[bytes], base: Head, stored: Stored) -> int:
    """Return how many of a delta's events are stored already; raises ConflictError if others are in their place."""
    head = stored.summary.head
    if (base.number, base.digest) == (head.number, head.digest):
        return 0
    if lines and base.number < head.number and stored.digest(base.number) == base.digest:
        stored_lines = stored.lines(base.number, len(lines))
        if all(map(is_same_event, stored_lines, lines)):
            return len(stored_lines)
    raise _conflict(base, head)


def is_same_event(line: bytes, other: bytes) -> bool:
    """Return whether two lines are the same event, perhaps with other spacing or order of members."""
    return line == other or canonical(line) == canonical(other)


def _conflict(base: Head, stored: Head) -> ConflictError:
    message = f"the delta builds on {base}, the store holds {stored}"
    return ConflictError(message, hint=_HINT_AGAIN, base=base, stored=stored)


def merge_metadata(stored: bytes, new: bytes) -> bytes:
    """Return a JSON object with the keys of `new` over those of `stored`; raises StoreError for other JSON."""
    if new.strip(b" \t\r\n") == b"{}":
        return stored
    members = raw_members(new)
    if members is None:
        raise StoreError("metadata is not a JSON object", hint="give an object")
    return object_of({**(raw_members(stored) or {}), **members})


def digests_of(events: Iterable[bytes]) -> list[bytes]:
    """Return the digest after each event of a whole session."""
    return digest_lines(SEED, events)


class WholeSession:
    """A session that was loaded in full, as the `Stored` of `plan_delta`."""

    def __init__(self, data: SessionData) -> None:
        self._events = data.events
        self.summary = SessionSummary(**notes_of(data), size=len(data.log))

    @cached_property
    def _digests(self) -> list[bytes]:
        return [SEED, *digests_of(self._events)]

    def digest(self, number: int) -> str | None:
        return self._digests[number].hex() if 0 <= number < len(self._digests) else None

    def lines(self, after: int, count: int) -> Sequence[bytes]:
        return self._events[after : after + count]


class DeltaStore(ABC):
    """The methods that write to one session, for stores that can change it while they keep other writers out."""

    url: str

    @contextmanager
    def _name_command(self) -> Generator[None]:
        """Add to errors about damage a hint that names the command which shows it."""
        try:
            yield
        except DamagedError as error:
            error.hint = error.hint or verify_hint(self.url)
            raise

    def intact_events(self, session_id: str) -> tuple[bytes, ...]:
        """Return a session's events before the first damaged place; raises UnknownSessionError, DamagedError."""
        return ()

    @abstractmethod
    def _change(self, session_id: str, decide: Decide) -> Head:
        """Write the change that `decide` returns, whole or not at all, and return the head after it.

        `decide` is called with the stored session, or None for a new one; perhaps several times.
        """

    def create(self, header: bytes) -> Head:
        line = check_line(header)
        new = read_header(line)

        def decide(stored: Stored | None) -> PendingChange | Head:
            if stored is None:
                return plan_append(new, (line,))
            first = stored.lines(0, 1)
            if not first:
                raise DamagedError(f"session {new.session_id!r}: event 1 is missing")
            if is_same_event(first[0], line):
                return stored.summary.head
            message = f"session {new.session_id!r} exists with another header"
            raise ConflictError(message, hint="append to it, or choose another id", stored=stored.summary.head)

        return self._change(new.session_id, decide)

    def save(self, data: SessionData) -> Head:
        if data.first != 1 or not data.events:
            raise StoreError("a session that is saved in full begins with event 1", hint="load it without `after`")
        header = read_header(data.events[0])
        if header.session_id != data.session_id:
            raise StoreError(f"the header names session {header.session_id!r}, not {data.session_id!r}")
        check_notes(data.leaf_id, data.created_at, data.updated_at)
        if data.project_id is not None:
            check_id(data.project_id, "project id")
        merge_metadata(EMPTY, data.metadata)
        digests = digests_of(data.events)
        base = Head(len(digests), digests[-1].hex(), digest_notes(data.leaf_id, data.metadata))

        def decide(stored: Stored | None) -> PendingChange | Head:
            before = header if stored is None else stored.summary
            count = before.head.number
            if count and (count > len(digests) or digests[count - 1].hex() != before.head.digest):
                message = f"the session ends with {base}, the store holds {before.head}, which it does not contain"
                raise ConflictError(message, hint=_HINT_AGAIN, base=base, stored=before.head)
            change = plan_append(
                before, tuple(map(check_line, data.events[count:])), digests[count:], project_id=data.project_id,
                leaf_id=data.leaf_id, metadata=bytes(data.metadata), created_at=data.created_at,
                updated_at=data.updated_at,
            )  # fmt: skip
            return change.after.head if change.after == before else change

        return self._change(data.session_id, decide)

    def save_delta(self, session_id: str, delta: SessionDelta) -> Head:
        """Add a delta and return the head after it; raises ConflictError, UnknownSessionError. Costs O(the delta)."""
        return self._change_existing(session_id, partial(plan_delta, delta))

    def move(self, session_id: str, project_id: str) -> None:
        check_id(project_id, "project id")

        def plan(stored: Stored) -> PendingChange | Head:
            before = stored.summary
            return before.head if before.project_id == project_id else plan_append(before, (), project_id=project_id)

        self._change_existing(session_id, plan)

    def _change_existing(self, session_id: str, plan: Callable[[Stored], PendingChange | Head]) -> Head:
        def decide(stored: Stored | None) -> PendingChange | Head:
            if stored is None:
                raise self._unknown(session_id)
            return plan(stored)

        return self._change(session_id, decide)

    def _unknown(self, session_id: str) -> UnknownSessionError:
        return UnknownSessionError(session_id)


def binding_conflict(session_id: str | None) -> ConflictError:
    """Return the error for a client that is bound to another session."""
    return ConflictError(f"the client is bound to session {session_id!r}", hint="replace it if that is meant")


def session_with_forks(session_id: str, parents: Mapping[str, str | None]) -> tuple[str, ...]:
    """Return a session preceded by all that were forked from it or its forks: each before its parent, as for deletion.

    `parents` has the parent of each session. A session that is its own ancestor is returned once. Costs O(sessions).
    """
    children: dict[str, list[str]] = defaultdict(list)
    for name, parent in sorted(parents.items()):
        if parent is not None:
            children[parent].append(name)
    sessions = {session_id: None}
    waiting = [session_id]
    while waiting:
        new = [child for child in children[waiting.pop()] if child not in sessions]
        sessions.update(dict.fromkeys(new))
        waiting += new
    return tuple(reversed(sessions))
