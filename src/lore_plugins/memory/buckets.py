"""What is remembered, and how a store of sessions keeps it, of any kind: no tables, only what every store promises.

A user's anchor is a session; each agent's anchor is forked from it, and notes the number of the volume, forked from
that, which holds the records. So `store.delete` of an anchor takes all below it along. Rules:
- a line that is none of these records is counted, and changes nothing; the latest record of a name holds; a change
  takes away before it adds;
- a change is one delta, so one transaction, and is made again where another writer came between;
- a log is never shortened, and memory has to be: where something is to be gone, or a volume is mostly of the past, it
  is sealed with the change, its image becomes the next volume, the anchor's note moves there (that decides), and the
  old one is deleted. A writer that finds a sealed volume, or an old one, finishes that first; what a process that died
  in between left behind is never read, and goes with the next move or wipe;
- a wipe is noted on the anchor first: from then on nothing below it is read, however its deletion ends.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from hashlib import sha256
from secrets import token_hex
from typing import NamedTuple, TypeAlias

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from lore.model import SessionStarted, decode_time, encode
from lore.store import (
    NOTHING,
    ConflictError,
    Head,
    SessionData,
    SessionDelta,
    Store,
    StoreError,
    UnknownSessionError,
    noted,
    save_delta,
)
from lore_plugins.memory.identities import MemoryBucket, anchor_of, owner_of

SECTIONS: tuple[str, ...] = ("facts", "preferences", "decisions", "tasks", "open_items")
KINDS: tuple[str, ...] = (*SECTIONS, "topics")
GENERAL = "general"
MOST_MARKS = 500  # sessions of a bucket whose marks are kept: the oldest go, and the horizon stands for them


class Structure(Struct, frozen=True):
    """What was extracted, by kind: texts in the order in which they were learnt."""

    facts: tuple[str, ...] = ()
    preferences: tuple[str, ...] = ()
    decisions: tuple[str, ...] = ()
    tasks: tuple[str, ...] = ()
    open_items: tuple[str, ...] = ()

    def of(self, section: str) -> tuple[str, ...]:
        """The texts of one section."""
        found: tuple[str, ...] = getattr(self, section)
        return found

    @property
    def is_empty(self) -> bool:
        """Whether nothing is known."""
        return not any(map(self.of, SECTIONS))


class _MemoryRecord(Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="kind"):
    at: str | None = None


class Remembered(_MemoryRecord, frozen=True, kw_only=True, tag="remembered"):
    """A text that is known from now on; `session_id` says where it was said."""

    section: str
    text: str
    session_id: str | None = None


class Forgotten(_MemoryRecord, frozen=True, kw_only=True, tag="forgotten"):
    """A text that is not known any more."""

    section: str
    text: str


class Topic(_MemoryRecord, frozen=True, kw_only=True, tag="topic"):
    """A consolidated topic; hidden from `expires_at` on."""

    topic: str
    summary: str
    content: str
    expires_at: str | None = None


class Superseded(_MemoryRecord, frozen=True, kw_only=True, tag="superseded"):
    """A topic that another one took the place of."""

    topic: str


class Extracted(_MemoryRecord, frozen=True, kw_only=True, tag="extracted"):
    """What was extracted changed: there is something to dream over."""

    session_id: str | None = None


class Consolidated(_MemoryRecord, frozen=True, kw_only=True, tag="dreamt"):
    """All that was extracted so far has been dreamt over."""


class Learnt(_MemoryRecord, frozen=True, kw_only=True, tag="learnt"):
    """How far a session was learnt from, as `extraction.mark_of` notes it."""

    session_id: str
    mark: tuple[str, ...]


class Horizon(_MemoryRecord, frozen=True, kw_only=True, tag="horizon"):
    """Marks up to `at` were dropped: a session without a mark that has been silent since was learnt from."""


class Sealed(_MemoryRecord, frozen=True, kw_only=True, tag="sealed"):
    """The volume takes no more records: its contents move to the next one."""


Record: TypeAlias = Remembered | Forgotten | Topic | Superseded | Extracted | Consolidated | Learnt | Horizon | Sealed
_DECODER = msgspec.json.Decoder(Record)


class KnownMemory(Struct):
    """What a bucket holds. `is_fresh`: something was extracted since the last dream; `odd` lines are no records.

    `learnt` are the marks of sessions, the oldest first; `horizon` is when the latest was made that was let go of.
    """

    entries: dict[tuple[str, str], Remembered] = {}
    topics: dict[str, Topic] = {}
    is_fresh: bool = False
    is_sealed: bool = False
    odd: int = 0
    learnt: dict[str, Learnt] = {}
    horizon: str | None = None

    @property
    def structure(self) -> Structure:
        """What was extracted."""
        found: dict[str, list[str]] = {section: [] for section in SECTIONS}
        for section, text in self.entries:
            found[section].append(text)
        return Structure(**{section: tuple(texts) for section, texts in found.items()})

    def visible(self, now: str) -> tuple[Topic, ...]:
        """The topics that have not expired at a time (RFC 3339), by name."""
        return tuple(topic for _, topic in sorted(self.topics.items()) if not has_expired(topic, now))

    def counts(self) -> dict[str, int]:
        """How many of each kind there are."""
        return {**{section: len(self.structure.of(section)) for section in SECTIONS}, "topics": len(self.topics)}


def has_expired(topic: Topic, now: str) -> bool:
    """Tell whether a topic is not to be shown any more; a time that cannot be read is none."""
    ends = None if topic.expires_at is None else decode_time(encode(topic.expires_at))
    today = decode_time(encode(now))
    return ends is not None and today is not None and ends <= today


def known_of(lines: Iterable[bytes]) -> KnownMemory:
    """Fold the lines behind a header. Costs O(their bytes)."""
    known = KnownMemory()
    for line in lines:
        try:
            _take(known, _DECODER.decode(line))
        except (ValueError, RecursionError):
            known.odd += 1
    return known


def _take(known: KnownMemory, record: Record) -> None:
    match record:
        case Remembered() | Forgotten() if record.section not in SECTIONS:
            known.odd += 1
        case Remembered():
            known.entries[(record.section, record.text)] = record
        case Forgotten():
            known.entries.pop((record.section, record.text), None)
        case Topic():
            known.topics[record.topic] = record
        case Superseded():
            known.topics.pop(record.topic, None)
        case Extracted() | Consolidated():
            known.is_fresh = isinstance(record, Extracted)
        case Learnt():
            known.learnt.pop(record.session_id, None)
            known.learnt[record.session_id] = record
            if len(known.learnt) > MOST_MARKS:
                known.horizon = known.learnt.pop(next(iter(known.learnt))).at or known.horizon
        case Horizon():
            known.horizon = record.at
        case Sealed():
            known.is_sealed = True


def applied(known: KnownMemory, records: Iterable[Record]) -> KnownMemory:
    """Return what is known after a change."""
    return replace(known_of(lines_of([*whole(known), *records])), odd=known.odd)


def whole(known: KnownMemory) -> Iterator[Record]:
    """Yield the fewest records that give what is known."""
    yield from known.entries.values()
    yield from known.topics.values()
    if known.horizon is not None:
        yield Horizon(at=known.horizon)
    yield from known.learnt.values()
    if known.is_fresh:
        yield Extracted()


def lines_of(records: Iterable[Record]) -> tuple[bytes, ...]:
    """Write records as lines of a session."""
    return tuple(map(msgspec.json.encode, records))


def replaced(known: KnownMemory, new: Structure, *, at: str, session_id: str | None) -> tuple[Record, ...]:
    """Return the records that turn what is known into a structure: removals first, then additions."""
    wanted = dict.fromkeys((section, text) for section in SECTIONS for text in new.of(section))
    gone = [Forgotten(section=key[0], text=key[1], at=at) for key in known.entries if key not in wanted]
    new_keys = [key for key in wanted if key not in known.entries]
    came = [Remembered(section=key[0], text=key[1], at=at, session_id=session_id) for key in new_keys]
    return (*gone, *came, Extracted(at=at, session_id=session_id)) if gone or came else ()


def consolidated(
    known: KnownMemory, topics: Mapping[str, Topic], supersedes: Iterable[str], *, at: str, is_whole: bool = True
) -> tuple[Record, ...]:
    """Return the change of a dream; after one that is not whole, what was extracted waits for the next one."""
    gone = [name for name in known.topics if name in set(supersedes) and name not in topics]
    old = {name: replace(topic, at=topics[name].at) for name, topic in known.topics.items() if name in topics}
    return (
        *(Superseded(topic=name, at=at) for name in gone),
        *(topic for name, topic in topics.items() if old.get(name) != topic),
        *((Consolidated(at=at),) if known.is_fresh and is_whole else ()),
    )


def id_of(section: str, text: str) -> str:
    """Return the name by which an entry can be taken away: its section, and 8 digits of its text's SHA-256."""
    return f"{section}.{sha256(text.encode('utf-8', 'surrogatepass')).hexdigest()[:8]}"


ATTEMPTS = 50  # times that a write is tried again after another writer's
FEW, MOSTLY_PAST = 64, 4  # lines of a volume that are never too many; as many times what is alive are
HINT_WIPE = "`lore memory wipe` finishes it"
BUSY = "gave up after repeated write conflicts, or a wipe was interrupted"

MakeRecords = Callable[[KnownMemory], Iterable[Record]]


class _Notes(msgspec.Struct):
    """What an anchor notes: the volume that holds, one that may not be deleted yet, a wipe that has begun."""

    volume: str | None = None
    old: str | None = None
    wiped: bool = False


class _BucketPlace(NamedTuple):
    """Where a bucket is: its anchor as it was read, what it notes, the volume where there is one."""

    anchor: SessionData
    notes: _Notes
    data: SessionData | None

    @property
    def known(self) -> KnownMemory:
        """What the volume holds."""
        return known_of(() if self.data is None else self.data.events[1:])


def read(store: Store, bucket: MemoryBucket) -> KnownMemory:
    """Return what is remembered; empty where there is no such bucket. Raises StoreError."""
    for _ in range(ATTEMPTS):
        user, place = noted(store, anchor_of(bucket.user)), _place(store, bucket)
        if place is None or place.notes.wiped or (user is not None and _notes(user).wiped):
            return KnownMemory()
        if place.data is not None or place.notes.volume is None:  # begun, and nothing written yet
            return place.known
    message = f"the session that {bucket.anchor} names is gone: what was remembered is lost"
    raise StoreError(message, hint="`lore memory wipe` clears the rest away")


def change(store: Store, bucket: MemoryBucket, make: MakeRecords, *, at: str, purge: bool = False) -> KnownMemory:
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
                continue
            known = place.known
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
            try:  # if another writer interferes, the next change does it
                with suppress(ConflictError, UnknownSessionError):
                    _move(store, bucket, place, after)
            except StoreError as error:
                error.message += "; the change is stored, what it took away is still in the store's log"
                raise
        return after
    read(store, bucket)  # says so where it is gone
    raise StoreError(BUSY, hint=HINT_WIPE)


def _place(store: Store, bucket: MemoryBucket) -> _BucketPlace | None:
    anchor = noted(store, bucket.anchor)
    if anchor is None:
        return None
    notes = _notes(anchor)
    try:
        return _BucketPlace(anchor, notes, None if notes.volume is None else store.load(bucket.volume(notes.volume)))
    except UnknownSessionError:
        return _BucketPlace(anchor, notes, None)


def _notes(anchor: SessionData) -> _Notes:
    """Read what an anchor notes; raises StoreError where its metadata is not ours."""
    try:
        return msgspec.json.decode(anchor.metadata, type=_Notes)
    except msgspec.DecodeError as error:
        raise StoreError(
            f"{anchor.session_id} notes no memory: {error}", hint="`lore memory wipe` removes it"
        ) from None


def _begun(store: Store, bucket: MemoryBucket, at: str) -> _BucketPlace:
    """Return where a bucket is, made where it was not; ConflictError where a wipe has begun."""
    user = noted(store, anchor_of(bucket.user))
    if user is None:
        store.create(header_of(anchor_of(bucket.user), bucket.user, at=at))
    elif _notes(user).wiped:
        raise ConflictError("a wipe is under way", hint=HINT_WIPE)
    if noted(store, bucket.anchor) is None:
        store.create(header_of(bucket.anchor, bucket.user, bucket.agent, anchor_of(bucket.user), at=at))
    place = _place(store, bucket)
    if place is None or place.notes.wiped:
        raise ConflictError("a wipe is under way", hint=HINT_WIPE)
    if place.notes.volume is None:
        _point(store, bucket, place, ())
        raise ConflictError("begun", hint="look again")
    return place


def header_of(
    session_id: str, user: str, agent: str | None = None, parent: str | None = None, *, at: str | None = None
) -> bytes:
    """Return the header of a session of memory. The time tells an anchor from the one of
    the same name before a wipe: a writer that holds the old one notes nothing in the new one.
    """
    return msgspec.json.encode(
        SessionStarted(session_id=session_id, at=at, user_id=user, agent_id=agent, parent_session_id=parent)
    )


def _move(store: Store, bucket: MemoryBucket, place: _BucketPlace, known: KnownMemory) -> None:
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


def _point(store: Store, bucket: MemoryBucket, place: _BucketPlace, lines: tuple[bytes, ...]) -> Head:
    """Write a volume, and note it on the anchor as it was read: that is what decides.

    Its name is by chance: no volume is ever made twice, or who is late with a change to the first would make it there.
    """
    volume = token_hex(8)
    name = bucket.volume(volume)
    events = (header_of(name, bucket.user, bucket.agent, bucket.anchor), *lines)
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
    anchor = anchor_of(user) if agent is None else MemoryBucket(user, agent).anchor
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
                place = _place(store, MemoryBucket(user, name))
            except StoreError:
                place = None
            known = KnownMemory() if place is None else place.known
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
