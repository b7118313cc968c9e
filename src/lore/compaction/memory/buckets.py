"""Memory in a store of sessions, of any kind: no tables of its own, only what every store promises.

A user's anchor is a session; each agent's anchor is forked from it, and notes the number of the volume, forked from
that, which holds the records. So `store.delete` of an anchor takes all below it along. Rules:
- a change is one delta, so one transaction, and is made again where another writer came between;
- a log is never shortened, and memory has to be: where something is to be gone, or a volume is mostly of the past, it
  is sealed with the change, its image becomes the next volume, the anchor's note moves there (that decides), and the
  old one is deleted. A writer that finds a sealed volume, or an old one, finishes that first; what a process that died
  in between left behind is never read, and goes with the next move or wipe;
- a wipe is noted on the anchor first: from then on nothing below it is read, however its deletion ends;
- the audit log is a session of its own for each user, which no wipe takes away: what was done, for which agent, from
  which session, how many of each kind, the names of topics that a dream dropped; never what was remembered else.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from secrets import token_hex
from typing import NamedTuple

import msgspec
from msgspec import Struct

from lore.compaction.memory.identities import Bucket, anchor_of, audit_of, owner_of
from lore.compaction.memory.records import KINDS, Known, Record, Sealed, applied, known_of, lines_of, whole
from lore.errors import LoreError
from lore.model.canonical import encode
from lore.model.events import SessionStarted
from lore.model.events import encode as encode_event
from lore.model.mask import mask
from lore.store.base import ConflictError, Head, SessionData, SessionDelta, Store, StoreError, Tell, UnknownSessionError
from lore.store.deltas import save_delta
from lore.store.lines import NOTHING
from lore.store.registry import noted

ATTEMPTS = 50
FEW, MOSTLY_PAST = 64, 4  # lines of a volume that are never too many; as many times what is alive are
HINT_WIPE = "`lore memory wipe` finishes it"
BUSY = "gave up after repeated write conflicts, or a wipe was interrupted"

MakeRecords = Callable[[Known], Iterable[Record]]


class _Notes(msgspec.Struct):
    """What an anchor notes: the volume that holds, one that may not be deleted yet, a wipe that has begun."""

    volume: str | None = None
    old: str | None = None
    wiped: bool = False


class _Place(NamedTuple):
    """Where a bucket is: its anchor as it was read, what it notes, the volume where there is one."""

    anchor: SessionData
    notes: _Notes
    data: SessionData | None


def read(store: Store, bucket: Bucket) -> Known:
    """Return what is remembered; empty where there is no such bucket. Raises StoreError."""
    for _ in range(ATTEMPTS):
        user, place = noted(store, anchor_of(bucket.user)), _place(store, bucket)
        if place is None or place.notes.wiped or (user is not None and _notes(user).wiped):
            return Known()
        if place.data is not None:
            return known_of(place.data.events[1:])
        if place.notes.volume is None:
            return Known()  # begun, and nothing written yet
    message = f"the session that {bucket.anchor} names is gone: what was remembered is lost"
    raise StoreError(message, hint="`lore memory wipe` clears the rest away")


def change(store: Store, bucket: Bucket, make: MakeRecords, *, at: str, purge: bool = False) -> Known:
    """Change what is remembered in one transaction, and return the result; `make` may be called several times.

    With `purge` what is taken away is not kept in the log either. Raises StoreError; then nothing was changed, unless
    it says that the change is stored.
    """
    for _ in range(ATTEMPTS):
        try:
            place = _begun(store, bucket, at)
            if place.data is None:  # moved on since, or gone
                continue
            if place.notes.old is not None:  # a process died after it had moved on from this volume
                _delete(store, bucket.volume(place.notes.old))
                _note(store, place.anchor, {"old": None})
            known = known_of(place.data.events[1:])
            if known.is_sealed:
                _move(store, bucket, place, known)
                continue
            records = tuple(make(known))
            if not records:
                return known
            after = applied(known, records)
            lines = lines_of(records)
            alive = len(after.entries) + len(after.topics) + len(after.learnt) + 2
            seal = purge or len(place.data.events) + len(lines) > max(FEW, MOSTLY_PAST * alive)
            new = (*lines, *lines_of((Sealed(at=at),))) if seal else lines
            save_delta(store, place.data.session_id, SessionDelta(base=place.data.head, new_events=new, updated_at=at))
        except (ConflictError, UnknownSessionError):
            continue  # somebody else wrote, moved or wiped it: look again
        if seal:
            _finish(store, bucket)
        return after
    read(store, bucket)  # says so where it is gone
    raise StoreError(BUSY, hint=HINT_WIPE)


def _place(store: Store, bucket: Bucket) -> _Place | None:
    anchor = noted(store, bucket.anchor)
    if anchor is None:
        return None
    notes = _notes(anchor)
    try:
        return _Place(anchor, notes, None if notes.volume is None else store.load(bucket.volume(notes.volume)))
    except UnknownSessionError:
        return _Place(anchor, notes, None)


def _notes(anchor: SessionData) -> _Notes:
    """Read what an anchor notes; raises StoreError where its metadata is not ours."""
    try:
        return msgspec.json.decode(anchor.metadata, type=_Notes)
    except msgspec.DecodeError as error:
        raise StoreError(
            f"{anchor.session_id} notes no memory: {error}", hint="`lore memory wipe` removes it"
        ) from None


def _begun(store: Store, bucket: Bucket, at: str) -> _Place:
    """Return where a bucket is, made where it was not; ConflictError where a wipe has begun."""
    user = noted(store, anchor_of(bucket.user))
    if user is None:
        store.create(_header(anchor_of(bucket.user), bucket.user, at=at))
    elif _notes(user).wiped:
        raise ConflictError("a wipe is under way", hint=HINT_WIPE)
    if noted(store, bucket.anchor) is None:
        store.create(_header(bucket.anchor, bucket.user, bucket.agent, anchor_of(bucket.user), at=at))
    place = _place(store, bucket)
    if place is None or place.notes.wiped:
        raise ConflictError("a wipe is under way", hint=HINT_WIPE)
    if place.notes.volume is None:
        _point(store, bucket, place, ())
        raise ConflictError("begun", hint="look again")
    return place


def _header(
    session_id: str, user: str, agent: str | None = None, parent: str | None = None, *, at: str | None = None
) -> bytes:
    """Return the header of a session of memory. The time tells an anchor from the one of
    the same name before a wipe: a writer that holds the old one notes nothing in the new one.
    """
    return encode_event(
        SessionStarted(session_id=session_id, at=at, user_id=user, agent_id=agent, parent_session_id=parent)
    )


def _finish(store: Store, bucket: Bucket) -> None:
    """Move on from a volume that this change sealed; if another writer interferes, the next change does it."""
    place = _place(store, bucket)
    known = Known() if place is None or place.data is None else known_of(place.data.events[1:])
    if place is None or not known.is_sealed:
        return
    try:
        _move(store, bucket, place, known)
    except (ConflictError, UnknownSessionError):
        return
    except StoreError as error:
        error.message += "; the change is stored, what it took away is still in the store's log"
        raise


def _move(store: Store, bucket: Bucket, place: _Place, known: Known) -> None:
    """Write a sealed volume's image as the next one, point there, delete the sealed one. ConflictError: others did."""
    assert place.notes.volume is not None
    sealed = bucket.volume(place.notes.volume)
    there = {summary.session_id for summary in store.list()}
    left = [name for name in there if name.startswith(f"{bucket.anchor}/") and name != sealed]
    learnt = {name: mark for name, mark in known.learnt.items() if name in there}  # none of deleted sessions
    head = _point(store, bucket, place, lines_of(whole(msgspec.structs.replace(known, learnt=learnt))))
    for name in (*left, sealed):  # made before the anchor was noted, so nobody can point there
        _delete(store, name)
    save_delta(store, bucket.anchor, SessionDelta(base=head, metadata=encode({"old": None})))


def _point(store: Store, bucket: Bucket, place: _Place, lines: tuple[bytes, ...]) -> Head:
    """Write a volume, and note it on the anchor as it was read: that is what decides.

    Its name is by chance: no volume is ever made twice, or who is late with a change to the first would make it there.
    """
    volume = token_hex(8)
    name = bucket.volume(volume)
    events = (_header(name, bucket.user, bucket.agent, bucket.anchor), *lines)
    store.save(SessionData(session_id=name, head=NOTHING, events=events, parent_session_id=bucket.anchor))
    try:
        return _note(store, place.anchor, {"volume": volume, "old": place.notes.volume})
    except (ConflictError, UnknownSessionError):
        _delete(store, name)
        raise


def _note(store: Store, anchor: SessionData, notes: dict[str, object]) -> Head:
    return save_delta(store, anchor.session_id, SessionDelta(base=anchor.head, metadata=encode(notes)))


def _delete(store: Store, session_id: str) -> tuple[str, ...]:
    try:
        return store.delete(session_id)
    except UnknownSessionError:
        return ()


class Wiped(NamedTuple):
    """What a wipe takes away, by agent and kind, and the sessions that it was learnt from."""

    agents: dict[str, dict[str, int]]
    sessions: frozenset[str] = frozenset()

    @property
    def counts(self) -> dict[str, int]:
        """The sums by kind."""
        return {kind: sum(counts[kind] for counts in self.agents.values()) for kind in KINDS}


def wipe(store: Store, user: str, agent: str | None = None) -> Wiped:
    """Take away all that is remembered of a user, or by one agent of the user's; a second time it takes nothing.

    The audit log stays. Raises StoreError; where a wipe was interrupted, nothing of it is read any more, and the next
    one finishes it. Memory that cannot be read is counted as none.
    """
    anchor = anchor_of(user) if agent is None else Bucket(user, agent).anchor
    for _ in range(ATTEMPTS):
        data = noted(store, anchor)
        if data is None or b'"wiped":true' in data.metadata:
            break
        with suppress(ConflictError, UnknownSessionError):
            _note(store, data, {"wiped": True})
            break
    else:
        raise StoreError(BUSY, hint=HINT_WIPE)
    found = to_wipe(store, user, agent)
    _delete(store, anchor)
    for summary in store.list():
        if summary.session_id.startswith(f"{anchor}/"):
            _delete(store, summary.session_id)
    return found


def to_wipe(store: Store, user: str, agent: str | None = None) -> Wiped:
    """Return what a wipe would take away by now; memory that cannot be read is counted as none. Changes nothing."""
    counts, sessions = dict[str, dict[str, int]](), set[str]()
    for name in owners(store).get(user, ()):
        if agent in (None, name):
            try:
                place = _place(store, Bucket(user, name))
            except StoreError:
                place = None
            known = known_of(() if place is None or place.data is None else place.data.events[1:])
            counts[name] = known.counts()
            sessions.update(entry.session_id for entry in known.entries.values() if entry.session_id is not None)
    return Wiped(counts, frozenset(sessions))


def owners(store: Store) -> dict[str, tuple[str, ...]]:
    """Return the agents that remember something of each user, both in order. Costs a list of the store's sessions."""
    found: dict[str, set[str]] = {}
    for summary in store.list():
        owner = owner_of(summary.session_id)
        if owner is not None:
            found.setdefault(owner[0], set()).update(() if owner[1] is None else (owner[1],))
    return {user: tuple(sorted(found[user])) for user in sorted(found)}


LONGEST_REASON = 200  # characters of the reason that a dream failed


class AuditRecord(Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="kind", tag="memory_audit"):
    """One thing that was done. `op`: extract, dream, summary, delete, wipe; `failure` says why it fell back, or did
    nothing; `unusable` counts answers of a model that could not be used, each asked for again once; `dropped` are the
    names of the topics that a dream superseded, or let go of because they had expired or were too many. Of memory that
    agents share `agent` is `identities.SHARED`, and `by` who it was.
    """

    at: str
    op: str
    agent: str | None = None
    session_id: str | None = None
    removed: Mapping[str, int] = {}
    added: Mapping[str, int] = {}
    failure: str | None = None
    unusable: int = 0
    dropped: tuple[str, ...] = ()
    by: str | None = None


class AuditLog(NamedTuple):
    """A user's audit log, oldest first; `odd` lines are no entries."""

    entries: tuple[AuditRecord, ...]
    odd: int


_DECODER = msgspec.json.Decoder(AuditRecord)


def nonzero(counts: Mapping[str, int]) -> dict[str, int]:
    """Return the counts that are not zero."""
    return {kind: number for kind, number in counts.items() if number}


def note_audit(store: Store, user: str, record: AuditRecord, tell: Tell) -> None:
    """Append a record to a user's audit log, its counts without zeros; a failure to do so is told."""
    reason = None if record.failure is None else " ".join(mask(record.failure).split())[:LONGEST_REASON]
    removed, added = nonzero(record.removed), nonzero(record.added)
    line = msgspec.json.encode(msgspec.structs.replace(record, failure=reason, removed=removed, added=added))
    name = audit_of(user)
    try:
        for _ in range(ATTEMPTS):
            try:
                known = noted(store, name)
                head = store.create(_header(name, user)) if known is None else known.head
                save_delta(store, name, SessionDelta(base=head, new_events=(line,), updated_at=record.at))
            except (ConflictError, UnknownSessionError):
                continue
            return
        raise StoreError("gave up after repeated write conflicts", hint="try again")  # noqa: TRY301
    except LoreError as error:
        tell(f"the audit log of user {user} has no entry of this {record.op}: {error.message}")


def audit_log(store: Store, user: str) -> AuditLog:
    """Return a user's audit log; an empty one where there is none. Costs O(its bytes)."""
    try:
        lines = store.load(audit_of(user)).events[1:]
    except UnknownSessionError:
        return AuditLog((), 0)
    entries: list[AuditRecord] = []
    odd = 0
    for line in lines:
        try:
            entries.append(_DECODER.decode(line))
        except (ValueError, RecursionError):
            odd += 1
    return AuditLog(tuple(entries), odd)


def last_wipe(log: AuditLog, *agents: str) -> str | None:
    """Return when memory of one of these agents, or of all there are, was wiped last; None where it never was."""
    return next(
        (entry.at for entry in reversed(log.entries) if entry.op == "wipe" and entry.agent in (None, *agents)), None
    )


def last_failure(log: AuditLog, agent: str | None = None) -> AuditRecord | None:
    """Return the latest entry that fell back or failed, of one agent where it is given."""
    found = (entry for entry in reversed(log.entries) if entry.failure is not None and agent in (None, entry.agent))
    return next(found, None)
