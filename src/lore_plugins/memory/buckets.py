"""Remembered texts and topics, and how a store keeps them as sessions.

Every store works, because only sessions are used. A user has an anchor session; each agent's anchor is forked from it
and names the current volume, a session forked from that anchor, which holds the records. `store.delete` of an anchor
therefore deletes everything below it. Rules:

- An invalid line is counted and ignored. The latest record of a name wins. A change removes before it adds.
- A change is one delta, so one transaction; it is repeated if another writer wrote first.
- A session log is never shortened, but memory must be. To remove something for good, or when a volume holds mostly
  outdated records, the change also seals the volume; its current contents become the next volume; the agent's anchor is
  pointed there (the deciding write); the old volume is deleted. A writer that finds a sealed or an old volume completes
  that first. Volumes left by a process that died are never read; the next move or wipe deletes them.
- A wipe is first noted on the anchor: from then on nothing below it is read, even if the deletion is interrupted.
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
    load_notes,
)
from lore_plugins.memory.identities import MemoryBucket, anchor_id, parse_owner

SECTIONS: tuple[str, ...] = ("facts", "preferences", "decisions", "tasks", "open_items")
KINDS: tuple[str, ...] = (*SECTIONS, "topics")
GENERAL = "general"
MOST_MARKS = 500  # sessions whose marks a bucket keeps; the oldest are dropped, and `horizon` covers them


class MemoryTexts(Struct, frozen=True):
    """The extracted texts by section, each in the order in which they were learned."""

    facts: tuple[str, ...] = ()
    preferences: tuple[str, ...] = ()
    decisions: tuple[str, ...] = ()
    tasks: tuple[str, ...] = ()
    open_items: tuple[str, ...] = ()

    def section(self, name: str) -> tuple[str, ...]:
        """Return the texts of one section."""
        texts: tuple[str, ...] = getattr(self, name)
        return texts

    @property
    def is_empty(self) -> bool:
        """Whether no section has a text."""
        return not any(map(self.section, SECTIONS))


class _MemoryRecord(Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="kind"):
    at: str | None = None


class Remembered(_MemoryRecord, frozen=True, kw_only=True, tag="remembered"):
    """Add a text; `session_id` is the session that it was learned from."""

    section: str
    text: str
    session_id: str | None = None


class Forgotten(_MemoryRecord, frozen=True, kw_only=True, tag="forgotten"):
    """Remove a text."""

    section: str
    text: str


class Topic(_MemoryRecord, frozen=True, kw_only=True, tag="topic"):
    """Add or replace a topic; sessions do not get it from `expires_at` on."""

    topic: str
    summary: str
    content: str
    expires_at: str | None = None


class Superseded(_MemoryRecord, frozen=True, kw_only=True, tag="superseded"):
    """Remove a topic."""

    topic: str


class Extracted(_MemoryRecord, frozen=True, kw_only=True, tag="extracted"):
    """The texts changed: the next dream has something to do."""

    session_id: str | None = None


class Consolidated(_MemoryRecord, frozen=True, kw_only=True, tag="dreamt"):
    """A dream has covered all texts."""


class Learnt(_MemoryRecord, frozen=True, kw_only=True, tag="learnt"):
    """How far a session was learned from: `extraction.mark_of`."""

    session_id: str
    mark: tuple[str, ...]


class Horizon(_MemoryRecord, frozen=True, kw_only=True, tag="horizon"):
    """Marks made up to `at` were dropped: a session without a mark, silent since then, counts as learned from."""


class Sealed(_MemoryRecord, frozen=True, kw_only=True, tag="sealed"):
    """The volume takes no more records: its contents move to the next one."""


Record: TypeAlias = Remembered | Forgotten | Topic | Superseded | Extracted | Consolidated | Learnt | Horizon | Sealed
_DECODER = msgspec.json.Decoder(Record)


class KnownMemory(Struct):
    """The contents of a bucket."""

    entries: dict[tuple[str, str], Remembered] = {}  # by section and text
    topics: dict[str, Topic] = {}  # by name
    is_fresh: bool = False  # whether texts changed since the last dream
    is_sealed: bool = False
    unreadable: int = 0  # lines that are not valid records
    learnt: dict[str, Learnt] = {}  # marks by session, the oldest first
    horizon: str | None = None  # when the latest dropped mark was made

    @property
    def texts(self) -> MemoryTexts:
        """The extracted texts."""
        by_section: dict[str, list[str]] = {section: [] for section in SECTIONS}
        for section, text in self.entries:
            by_section[section].append(text)
        return MemoryTexts(**{section: tuple(texts) for section, texts in by_section.items()})

    def visible_topics(self, now: str) -> tuple[Topic, ...]:
        """Return the topics that have not expired at a time (RFC 3339), by name."""
        return tuple(topic for _, topic in sorted(self.topics.items()) if not has_expired(topic, now))

    def counts(self) -> dict[str, int]:
        """Return the number of entries of each kind."""
        return {**{section: len(self.texts.section(section)) for section in SECTIONS}, "topics": len(self.topics)}


def has_expired(topic: Topic, now: str) -> bool:
    """Return whether a topic has expired; an unreadable time never expires."""
    ends = None if topic.expires_at is None else decode_time(encode(topic.expires_at))
    today = decode_time(encode(now))
    return ends is not None and today is not None and ends <= today


def fold_records(lines: Iterable[bytes]) -> KnownMemory:
    """Return the memory that the lines after a session's header describe. Costs O(their bytes)."""
    known = KnownMemory()
    for line in lines:
        try:
            _apply_record(known, _DECODER.decode(line))
        except (ValueError, RecursionError):
            known.unreadable += 1
    return known


def _apply_record(known: KnownMemory, record: Record) -> None:
    match record:
        case Remembered() | Forgotten() if record.section not in SECTIONS:
            known.unreadable += 1
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


def _applied(known: KnownMemory, records: Iterable[Record]) -> KnownMemory:
    return replace(fold_records(_encoded([*_minimal_records(known), *records])), unreadable=known.unreadable)


def _minimal_records(known: KnownMemory) -> Iterator[Record]:
    yield from known.entries.values()
    yield from known.topics.values()
    if known.horizon is not None:
        yield Horizon(at=known.horizon)
    yield from known.learnt.values()
    if known.is_fresh:
        yield Extracted()


def _encoded(records: Iterable[Record]) -> tuple[bytes, ...]:
    return tuple(map(msgspec.json.encode, records))


def records_to_texts(known: KnownMemory, new: MemoryTexts, *, at: str, session_id: str | None) -> tuple[Record, ...]:
    """Return the records that turn the known texts into `new`: removals first, then additions."""
    wanted = dict.fromkeys((section, text) for section in SECTIONS for text in new.section(section))
    removed = [Forgotten(section=key[0], text=key[1], at=at) for key in known.entries if key not in wanted]
    new_keys = [key for key in wanted if key not in known.entries]
    added = [Remembered(section=key[0], text=key[1], at=at, session_id=session_id) for key in new_keys]
    return (*removed, *added, Extracted(at=at, session_id=session_id)) if removed or added else ()


def records_of_dream(
    known: KnownMemory, topics: Mapping[str, Topic], supersedes: Iterable[str], *, at: str, is_whole: bool = True
) -> tuple[Record, ...]:
    """Return the records of a dream; if it fell back (`is_whole` false), the texts stay due for the next one."""
    removed = [name for name in known.topics if name in set(supersedes) and name not in topics]
    old = {name: replace(topic, at=topics[name].at) for name, topic in known.topics.items() if name in topics}
    return (
        *(Superseded(topic=name, at=at) for name in removed),
        *(topic for name, topic in topics.items() if old.get(name) != topic),
        *((Consolidated(at=at),) if known.is_fresh and is_whole else ()),
    )


def entry_id(section: str, text: str) -> str:
    """Return the id that `lore memory delete` takes: the section, and 8 digits of the text's SHA-256."""
    return f"{section}.{sha256(text.encode('utf-8', 'surrogatepass')).hexdigest()[:8]}"


ATTEMPTS = 50  # tries of a write that other writers interrupt
SMALL_VOLUME, MOST_OUTDATED = 64, 4  # a volume moves when it has more than 64 lines, and 4 times the current records
HINT_WIPE = "`lore memory wipe` finishes it"
BUSY = "gave up after repeated write conflicts, or a wipe was interrupted"

MakeRecords = Callable[[KnownMemory], Iterable[Record]]


class _AnchorNotes(msgspec.Struct):
    volume: str | None = None  # the current volume
    old: str | None = None  # the volume before it, until it is deleted
    wiped: bool = False  # a wipe has begun


class _BucketPlace(NamedTuple):
    anchor: SessionData
    notes: _AnchorNotes
    data: SessionData | None  # the volume; None if it does not exist

    @property
    def known(self) -> KnownMemory:
        return fold_records(() if self.data is None else self.data.events[1:])


def read_bucket(store: Store, bucket: MemoryBucket) -> KnownMemory:
    """Return what a bucket holds, empty if it does not exist. Raises StoreError."""
    for _ in range(ATTEMPTS):
        user, place = load_notes(store, anchor_id(bucket.user)), _place(store, bucket)
        if place is None or place.notes.wiped or (user is not None and _notes(user).wiped):
            return KnownMemory()
        if place.data is not None or place.notes.volume is None:  # None: the anchor is new, nothing was written yet
            return place.known
    message = f"the session that {bucket.anchor} names is missing: its memory is lost"
    raise StoreError(message, hint="`lore memory wipe` clears the rest away")


def change_bucket(
    store: Store, bucket: MemoryBucket, make: MakeRecords, *, at: str, purge: bool = False
) -> KnownMemory:
    """Change a bucket in one transaction, and return its new contents; `make` may be called several times.

    With `purge` the removed records are deleted from the log too. Raises StoreError; then nothing was changed, unless
    the message says that the change is stored.
    """
    for _ in range(ATTEMPTS):
        try:
            place = _create_or_open(store, bucket, at)
            if place.data is None:  # moved or deleted meanwhile
                continue
            if place.notes.old is not None:  # a process died before it deleted the previous volume
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
            after = _applied(known, records)
            lines = _encoded(records)
            current = len(after.entries) + len(after.topics) + len(after.learnt) + 2
            seal = purge or len(place.data.events) + len(lines) > max(SMALL_VOLUME, MOST_OUTDATED * current)
            new = (*lines, *_encoded((Sealed(at=at),))) if seal else lines
            store.save_delta(place.data.session_id, SessionDelta(base=place.data.head, new_events=new, updated_at=at))
        except (ConflictError, UnknownSessionError):
            continue  # another writer wrote, moved or wiped the bucket: read it again
        if seal:
            try:  # if another writer interferes, the next change moves the bucket
                with suppress(ConflictError, UnknownSessionError):
                    _move(store, bucket, place, after)
            except StoreError as error:
                error.message += "; the change is stored, but the removed entries are still in the store's log"
                raise
        return after
    read_bucket(store, bucket)  # raises if the volume is missing
    raise StoreError(BUSY, hint=HINT_WIPE)


def _place(store: Store, bucket: MemoryBucket) -> _BucketPlace | None:
    anchor = load_notes(store, bucket.anchor)
    if anchor is None:
        return None
    notes = _notes(anchor)
    try:
        return _BucketPlace(anchor, notes, None if notes.volume is None else store.load(bucket.volume(notes.volume)))
    except UnknownSessionError:
        return _BucketPlace(anchor, notes, None)


def _notes(anchor: SessionData) -> _AnchorNotes:
    try:
        return msgspec.json.decode(anchor.metadata, type=_AnchorNotes)
    except msgspec.DecodeError as error:
        message = f"the notes of session {anchor.session_id} are not those of a memory: {error}"
        raise StoreError(message, hint="`lore memory wipe` removes it") from None


def _create_or_open(store: Store, bucket: MemoryBucket, at: str) -> _BucketPlace:
    """Return a bucket's place, creating its anchors and volume. Raise ConflictError if the caller must retry."""
    user = load_notes(store, anchor_id(bucket.user))
    if user is None:
        store.create(header_line(anchor_id(bucket.user), bucket.user, at=at))
    elif _notes(user).wiped:
        raise ConflictError("a wipe is under way", hint=HINT_WIPE)
    if load_notes(store, bucket.anchor) is None:
        store.create(header_line(bucket.anchor, bucket.user, bucket.agent, anchor_id(bucket.user), at=at))
    place = _place(store, bucket)
    if place is None or place.notes.wiped:
        raise ConflictError("a wipe is under way", hint=HINT_WIPE)
    if place.notes.volume is None:
        _point_to_new_volume(store, bucket, place, ())
        raise ConflictError("the bucket was created", hint="read it again")
    return place


def header_line(
    session_id: str, user: str, agent: str | None = None, parent: str | None = None, *, at: str | None = None
) -> bytes:
    """Return the first line of a session that holds memory.

    `at` makes an anchor differ from one of the same name that was wiped, so a writer with the old one gets a conflict.
    """
    return msgspec.json.encode(
        SessionStarted(session_id=session_id, at=at, user_id=user, agent_id=agent, parent_session_id=parent)
    )


def _move(store: Store, bucket: MemoryBucket, place: _BucketPlace, known: KnownMemory) -> None:
    """Write the contents of a sealed volume to a new one, point the anchor to it, delete the sealed one.

    Raise ConflictError if another writer did so first.
    """
    assert place.notes.volume is not None
    sealed = bucket.volume(place.notes.volume)
    session_ids = {summary.session_id for summary in store.list()}
    leftovers = [name for name in session_ids if name.startswith(f"{bucket.anchor}/") and name != sealed]
    learnt = {name: mark for name, mark in known.learnt.items() if name in session_ids}  # no marks of deleted sessions
    records = _minimal_records(msgspec.structs.replace(known, learnt=learnt))
    head = _point_to_new_volume(store, bucket, place, _encoded(records))
    for name in (*leftovers, sealed):  # made before the anchor was read, so no writer can still point there
        _delete(store, name)
    store.save_delta(bucket.anchor, SessionDelta(base=head, metadata=encode({"old": None})))


def _point_to_new_volume(store: Store, bucket: MemoryBucket, place: _BucketPlace, lines: tuple[bytes, ...]) -> Head:
    """Write a volume, then name it on the anchor as it was read, which decides between writers.

    The name is random: with a repeated name, a late writer's change to the deleted first volume would create it again.
    """
    volume = token_hex(8)
    name = bucket.volume(volume)
    events = (header_line(name, bucket.user, bucket.agent, bucket.anchor), *lines)
    store.save(SessionData(session_id=name, head=NOTHING, events=events, parent_session_id=bucket.anchor))
    try:
        return _note(store, place.anchor, {"volume": volume, "old": place.notes.volume})
    except (ConflictError, UnknownSessionError):
        _delete(store, name)
        raise


def _note(store: Store, anchor: SessionData, notes: dict[str, object]) -> Head:
    return store.save_delta(anchor.session_id, SessionDelta(base=anchor.head, metadata=encode(notes)))


def _delete(store: Store, session_id: str) -> None:
    with suppress(UnknownSessionError):
        store.delete(session_id)


class WipedMemory(NamedTuple):
    """What a wipe removes."""

    agents: dict[str, dict[str, int]]  # counts by agent and kind
    sessions: frozenset[str] = frozenset()  # the sessions that the texts were learned from

    @property
    def counts(self) -> dict[str, int]:
        """The sums by kind."""
        return {kind: sum(counts[kind] for counts in self.agents.values()) for kind in KINDS}


def wipe(store: Store, user: str, agent: str | None = None) -> WipedMemory:
    """Delete a user's memory, or one agent's part of it; a second wipe finds nothing.

    The audit log remains. Raises StoreError; after an interrupted wipe nothing is read any more, and the next wipe
    finishes it. Unreadable memory counts as empty.
    """
    anchor = anchor_id(user) if agent is None else MemoryBucket(user, agent).anchor
    for _ in range(ATTEMPTS):
        data = load_notes(store, anchor)
        if data is None or b'"wiped":true' in data.metadata:
            break
        with suppress(ConflictError, UnknownSessionError):
            _note(store, data, {"wiped": True})
            break
    else:
        raise StoreError(BUSY, hint=HINT_WIPE)
    found = preview_wipe(store, user, agent)
    _delete(store, anchor)
    for summary in store.list():
        if summary.session_id.startswith(f"{anchor}/"):
            _delete(store, summary.session_id)
    return found


def preview_wipe(store: Store, user: str, agent: str | None = None) -> WipedMemory:
    """Return what a wipe would remove now; unreadable memory counts as empty."""
    counts, sessions = dict[str, dict[str, int]](), set[str]()
    for name in agents_by_user(store).get(user, ()):
        if agent in (None, name):
            try:
                place = _place(store, MemoryBucket(user, name))
            except StoreError:
                place = None
            known = KnownMemory() if place is None else place.known
            counts[name] = known.counts()
            sessions.update(entry.session_id for entry in known.entries.values() if entry.session_id is not None)
    return WipedMemory(counts, frozenset(sessions))


def agents_by_user(store: Store) -> dict[str, tuple[str, ...]]:
    """Return the agents that remember something of each user, sorted. Costs a list of the store's sessions."""
    found: dict[str, set[str]] = {}
    for summary in store.list():
        owner = parse_owner(summary.session_id)
        if owner is not None:
            found.setdefault(owner[0], set()).update(() if owner[1] is None else (owner[1],))
    return {user: tuple(sorted(found[user])) for user in sorted(found)}
