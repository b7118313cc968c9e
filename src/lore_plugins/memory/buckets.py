"""Remembered texts and topics, and the sessions in which a store keeps them.

Every store works, because only sessions are used. A user has an anchor session; each agent's anchor is forked from it
and names the current volume: a session, forked from that anchor, whose lines are the whole memory. `store.delete` of an
anchor therefore deletes everything below it. Rules:

- A session log is never shortened, but memory must be. So a change writes the next volume, points the agent's anchor to
  it (the deciding write), and deletes the previous volume. A writer whose anchor changed meanwhile starts again.
- The anchor names the previous volume, too: if a process dies before it deleted that one, the next change does. Other
  volumes are never read; a change with `purge`, or a wipe, deletes them.
- A wipe is first noted on the anchor: from then on nothing below it is read, even if the deletion is interrupted.
- An invalid line is counted and ignored.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from hashlib import sha256
from secrets import token_hex
from typing import TypeAlias

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from lore.model import SessionStarted, decode_time, encode
from lore.store import (
    NOTHING,
    ConflictError,
    SessionData,
    SessionDelta,
    Store,
    StoreError,
    UnknownSessionError,
    load_notes,
)
from lore_plugins.memory.identities import MemoryBucket, anchor_id, parse_owner
from lore_plugins.memory.results import MemoryWiped

SECTIONS: tuple[str, ...] = ("facts", "preferences", "decisions", "tasks", "open_items")
KINDS: tuple[str, ...] = (*SECTIONS, "topics")
GENERAL = "general"
MOST_MARKS = 500  # limit of sessions whose marks a bucket keeps; the oldest are dropped, and set `horizon`


Texts: TypeAlias = dict[str, tuple[str, ...]]  # by section, each in the order in which they were learned
NO_TEXTS: Texts = dict.fromkeys(SECTIONS, ())


class _Line(Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="kind"):
    at: str | None = None  # when it was learned, made or removed (RFC 3339)


class MemoryText(_Line, frozen=True, kw_only=True, tag="remembered"):
    """A remembered text."""

    section: str  # one of `SECTIONS`
    text: str
    session_id: str | None = None  # the session that it was learned from; None: unknown


class Topic(_Line, frozen=True, kw_only=True, tag="topic"):
    """A topic: texts that a dream (`topics.consolidate`) summed up for sessions."""

    topic: str  # its name
    summary: str
    content: str
    expires_at: str | None = None  # sessions do not get it from this time on; None: never


class SessionMark(_Line, frozen=True, kw_only=True, tag="learnt"):
    """How far a session was learned from."""

    session_id: str
    mark: tuple[str, ...]  # `extraction.mark_of` its entries


class _State(_Line, frozen=True, kw_only=True, tag="state"):  # fields of `KnownMemory`
    is_fresh: bool = False
    horizon: str | None = None


_DECODER = msgspec.json.Decoder(MemoryText | Topic | SessionMark | _State)


class KnownMemory(Struct, frozen=True):
    """The contents of a bucket."""

    entries: dict[tuple[str, str], MemoryText] = {}  # by section and text
    topics: dict[str, Topic] = {}  # by name
    is_fresh: bool = False  # texts changed since the last dream, so the next one is due
    unreadable: int = 0  # invalid lines that were ignored; the next change drops them
    marks: dict[str, SessionMark] = {}  # by session, the oldest first
    horizon: str | None = (
        None  # the time of the last dropped mark: sessions without entries since then are not learned from
    )

    @property
    def texts(self) -> Texts:
        """The texts of all sections."""
        return {section: tuple(text for kind, text in self.entries if kind == section) for section in SECTIONS}

    def visible_topics(self, now: str) -> tuple[Topic, ...]:
        """Return the topics that have not expired at the time `now` (RFC 3339), sorted by name."""
        return tuple(topic for _, topic in sorted(self.topics.items()) if not has_expired(topic, now))

    def counts(self) -> dict[str, int]:
        """Return the number of texts in each section, and of topics, by kind (`KINDS`)."""
        return {**{section: len(texts) for section, texts in self.texts.items()}, "topics": len(self.topics)}

    def with_texts(self, new: Texts, *, at: str, session_id: str | None) -> KnownMemory:
        """Return the memory with the texts `new` instead of its own; known ones keep their time and session."""
        new_keys = dict.fromkeys((section, text) for section in SECTIONS for text in new[section])
        if new_keys.keys() == self.entries.keys():
            return self
        entries = {key: entry for key, entry in self.entries.items() if key in new_keys}
        for section, text in new_keys:
            entry = MemoryText(section=section, text=text, at=at, session_id=session_id)
            entries.setdefault((section, text), entry)
        return replace(self, entries=entries, is_fresh=True)

    def with_mark(self, mark: SessionMark) -> KnownMemory:
        """Return the memory with this mark as the newest; a mark beyond `MOST_MARKS` is dropped and sets `horizon`."""
        marks = {name: old_mark for name, old_mark in self.marks.items() if name != mark.session_id}
        marks[mark.session_id] = mark
        dropped_at = marks.pop(next(iter(marks))).at if len(marks) > MOST_MARKS else None
        return replace(self, marks=marks, horizon=dropped_at or self.horizon)

    def with_topics(self, new: Mapping[str, Topic], superseded: Iterable[str], *, is_whole: bool) -> KnownMemory:
        """Return the memory with a dream's topics, without superseded ones; its texts remain due unless `is_whole`."""
        removed_names = set(superseded) - new.keys()
        topics = {name: topic for name, topic in self.topics.items() if name not in removed_names}
        for name, topic in new.items():
            if name not in topics or replace(topics[name], at=topic.at) != topic:
                topics[name] = topic
        return replace(self, topics=topics, is_fresh=self.is_fresh and not is_whole)

    def without_entries(self, texts: Collection[tuple[str, str]], topics: Collection[str]) -> KnownMemory:
        """Return the memory without these texts (section, text) and topics (names)."""
        entries = {key: entry for key, entry in self.entries.items() if key not in texts}
        is_fresh = self.is_fresh or len(entries) < len(self.entries)
        other_topics = {name: topic for name, topic in self.topics.items() if name not in topics}
        return replace(self, entries=entries, topics=other_topics, is_fresh=is_fresh)

    def lines(self) -> Iterator[bytes]:
        """Yield the memory as the lines that `parse_memory` reads."""
        state = _State(is_fresh=self.is_fresh, horizon=self.horizon)
        for line in (*self.entries.values(), *self.topics.values(), *self.marks.values(), state):
            yield msgspec.json.encode(line)


def parse_memory(lines: Iterable[bytes]) -> KnownMemory:
    """Return the memory in a volume's lines after its header; invalid ones are counted. Costs O(their bytes)."""
    entries, topics, marks = dict[tuple[str, str], MemoryText](), dict[str, Topic](), dict[str, SessionMark]()
    state, unreadable = _State(), 0
    for line in lines:
        try:
            match record := _DECODER.decode(line):
                case MemoryText() if record.section in SECTIONS:
                    entries[(record.section, record.text)] = record
                case Topic():
                    topics[record.topic] = record
                case SessionMark():
                    marks[record.session_id] = record
                case _State():
                    state = record
                case _:
                    unreadable += 1
        except (ValueError, RecursionError):
            unreadable += 1
    return KnownMemory(entries, topics, state.is_fresh, unreadable, marks, state.horizon)


def has_expired(topic: Topic, now: str) -> bool:
    """Return whether a topic has expired at the time `now`; False if one of the times is unreadable."""
    end = None if topic.expires_at is None else decode_time(encode(topic.expires_at))
    time = decode_time(encode(now))
    return end is not None and time is not None and end <= time


def entry_id(section: str, text: str) -> str:
    """Return the id that `lore memory delete` takes: the section, and 8 digits of the text's SHA-256."""
    return f"{section}.{sha256(text.encode('utf-8', 'surrogatepass')).hexdigest()[:8]}"


ATTEMPTS = 50  # tries of a read or write that other writers interrupt
HINT_WIPE = "`lore memory wipe` finishes it"
BUSY = "gave up after repeated write conflicts, or a wipe was interrupted"


class _AnchorNotes(msgspec.Struct):
    volume: str | None = None  # the name of the current volume; None: nothing was written yet
    old: str | None = None  # the name of the previous volume, which may not be deleted yet
    wiped: bool = False  # a wipe has begun


def read_bucket(store: Store, bucket: MemoryBucket) -> KnownMemory:
    """Return a bucket's memory, empty if it does not exist or a wipe has begun. Raises StoreError."""
    for _ in range(ATTEMPTS):
        user, anchor = load_notes(store, anchor_id(bucket.user)), load_notes(store, bucket.anchor)
        if anchor is None or _parse_notes(anchor).wiped or (user is not None and _parse_notes(user).wiped):
            return KnownMemory()
        memory = _load_volume(store, bucket, _parse_notes(anchor))
        if memory is not None:
            return memory
    message = f"the session that {bucket.anchor} names is missing: its memory is lost"
    raise StoreError(message, hint="`lore memory wipe` clears the rest away")


def change_bucket(
    store: Store, bucket: MemoryBucket, change: Callable[[KnownMemory], KnownMemory], *, at: str, purge: bool = False
) -> KnownMemory:
    """Write `change(memory)` to a bucket in one transaction, and return the new memory.

    After a conflict `change` is called again, with the other writer's memory. With `purge` all earlier volumes are
    deleted, also those that interrupted processes left. Raises StoreError; then nothing was changed, unless its
    message says that the change is stored.
    """
    for _ in range(ATTEMPTS):
        try:
            anchor = _create_or_open(store, bucket, at)
            notes = _parse_notes(anchor)
            memory = _load_volume(store, bucket, notes)
            if memory is None:  # replaced or deleted meanwhile
                continue
            if notes.old is not None:
                _delete(store, bucket.volume(notes.old))
            new_memory = change(memory)
            if new_memory == memory:
                return memory
            if purge:  # listed before the anchor is changed, so no writer can still point to one of these
                outdated = [name for name in _session_ids(store) if name.startswith(f"{bucket.anchor}/")]
            else:
                outdated = [] if notes.volume is None else [bucket.volume(notes.volume)]
            _point_to_new_volume(store, bucket, anchor, notes, new_memory)
        except (ConflictError, UnknownSessionError):
            continue  # another writer changed or wiped the bucket: read it again
        try:
            for name in outdated:
                _delete(store, name)
        except StoreError as error:
            error.message += "; the change is stored, but the removed entries are still in the store's log"
            raise
        return replace(new_memory, unreadable=0)
    read_bucket(store, bucket)  # raises if the volume is missing
    raise StoreError(BUSY, hint=HINT_WIPE)


def _parse_notes(anchor: SessionData) -> _AnchorNotes:
    try:
        return msgspec.json.decode(anchor.metadata, type=_AnchorNotes)
    except msgspec.DecodeError as error:
        message = f"the notes of session {anchor.session_id} are not those of a memory: {error}"
        raise StoreError(message, hint="`lore memory wipe` removes it") from None


def _load_volume(store: Store, bucket: MemoryBucket, notes: _AnchorNotes) -> KnownMemory | None:
    """Return the memory in the current volume; empty if nothing was written yet, None if the volume is missing."""
    if notes.volume is None:
        return KnownMemory()
    try:
        return parse_memory(store.load(bucket.volume(notes.volume)).events[1:])
    except UnknownSessionError:
        return None


def _create_or_open(store: Store, bucket: MemoryBucket, at: str) -> SessionData:
    """Return a bucket's anchor; create it and the user's if missing. Raise ConflictError if a wipe has begun."""
    user_anchor = anchor_id(bucket.user)
    user = load_notes(store, user_anchor)
    if user is None:
        store.create(header_line(user_anchor, bucket.user, at=at))
    anchor = load_notes(store, bucket.anchor)
    if anchor is None:
        store.create(header_line(bucket.anchor, bucket.user, bucket.agent, user_anchor, at=at))
        anchor = load_notes(store, bucket.anchor)
    if anchor is None or _parse_notes(anchor).wiped or (user is not None and _parse_notes(user).wiped):
        raise ConflictError("a wipe is under way", hint=HINT_WIPE)
    return anchor


def header_line(
    session_id: str, user: str, agent: str | None = None, parent: str | None = None, *, at: str | None = None
) -> bytes:
    """Return the first line of an anchor, a volume or the audit log.

    `at` makes an anchor differ from a wiped one of the same name, so a writer that read the old one gets a conflict.
    """
    return msgspec.json.encode(
        SessionStarted(session_id=session_id, at=at, user_id=user, agent_id=agent, parent_session_id=parent)
    )


def _point_to_new_volume(
    store: Store, bucket: MemoryBucket, anchor: SessionData, notes: _AnchorNotes, memory: KnownMemory
) -> None:
    """Write the memory as a new volume and name it on the anchor; ConflictError if that changed since it was read.

    The name is random: with a repeated name, a late writer could point to a volume that another one deleted.
    """
    volume = token_hex(8)
    name = bucket.volume(volume)
    events = (header_line(name, bucket.user, bucket.agent, bucket.anchor), *memory.lines())
    store.save(SessionData(session_id=name, head=NOTHING, events=events, parent_session_id=bucket.anchor))
    try:
        _write_notes(store, anchor, {"volume": volume, "old": notes.volume})
    except (ConflictError, UnknownSessionError):
        _delete(store, name)
        raise


def _write_notes(store: Store, anchor: SessionData, notes: dict[str, object]) -> None:
    store.save_delta(anchor.session_id, SessionDelta(base=anchor.head, metadata=encode(notes)))


def _session_ids(store: Store) -> list[str]:
    return [summary.session_id for summary in store.list()]


def _delete(store: Store, session_id: str) -> None:
    with suppress(UnknownSessionError):
        store.delete(session_id)


def wipe(store: Store, user: str, agent: str | None = None) -> MemoryWiped:
    """Delete a user's memory, or one agent's part of it, and return the counts of removed entries.

    The audit log remains. Raises StoreError. The memory of an interrupted wipe is not read, and the next wipe finishes
    it. Unreadable memory counts as empty.
    """
    anchor = anchor_id(user) if agent is None else MemoryBucket(user, agent).anchor
    for _ in range(ATTEMPTS):
        data = load_notes(store, anchor)
        if data is None or b'"wiped":true' in data.metadata:
            break
        with suppress(ConflictError, UnknownSessionError):
            _write_notes(store, data, {"wiped": True})
            break
    else:
        raise StoreError(BUSY, hint=HINT_WIPE)
    result = preview_wipe(store, user, agent)
    _delete(store, anchor)
    for name in _session_ids(store):
        if name.startswith(f"{anchor}/"):
            _delete(store, name)
    return result


def preview_wipe(store: Store, user: str, agent: str | None = None) -> MemoryWiped:
    """Return the counts of texts and topics that a wipe would remove now; unreadable memory counts as empty."""
    agents, sessions = dict[str, dict[str, int]](), set[str]()
    for name in agents_by_user(store).get(user, ()):
        if agent in (None, name):
            bucket, memory = MemoryBucket(user, name), None
            with suppress(StoreError):
                anchor = load_notes(store, bucket.anchor)
                memory = None if anchor is None else _load_volume(store, bucket, _parse_notes(anchor))
            memory = memory or KnownMemory()
            agents[name] = memory.counts()
            sessions.update(entry.session_id for entry in memory.entries.values() if entry.session_id is not None)
    counts = {kind: sum(agent_counts[kind] for agent_counts in agents.values()) for kind in KINDS}
    return MemoryWiped(
        store=store.url, user=user, agent=agent, entries=sum(counts.values()), sessions=len(sessions), counts=counts,
        agents=agents,
    )  # fmt: skip


def agents_by_user(store: Store) -> dict[str, tuple[str, ...]]:
    """Return by user, both sorted, the agents that have sessions of memory. Lists all sessions of the store."""
    agents: dict[str, set[str]] = {}
    for name in _session_ids(store):
        owner = parse_owner(name)
        if owner is not None:
            agents.setdefault(owner[0], set()).update(() if owner[1] is None else (owner[1],))
    return {user: tuple(sorted(agents[user])) for user in sorted(agents)}
