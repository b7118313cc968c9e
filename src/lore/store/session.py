"""A session that a harness keeps in a store: folded in memory, paid for by what is new.

    stored = StoredSession.begin(store, event("session_started", session_id="s1", system="…"))     new, or resumed
    stored.apply(event("append", item={"type": "user_message", "uuid": "u1", "text": "hi"}))
    prompt = stored.begin_turn({"current_time": "…"})
    stored.save()                                                          durable: then the request may be sent

Rules: the delta is what is held behind the head, which advances only when the store has said so; what failed, or was
never answered, is sent again with the next delta (a store takes what it has already for what it is). What is taken
back while nothing waits goes as `removed_ids`, else as a `remove` event at its place, so that folding what is stored
gives this session's state at any moment.

Not safe between threads: one harness, one `StoredSession`. For asyncio there is `save_async`; events may be applied
while it waits, and are saved with the next call.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from itertools import takewhile
from typing import Any

from lore import __version__
from lore.errors import LoreError
from lore.model.canonical import encode as encode_json
from lore.model.events import MAIN, Event, Remove, SessionStarted, encode
from lore.model.turn import Prompt
from lore.prompt.base import Dialect, Rules
from lore.session import Session
from lore.store.base import EMPTY, Checkpoint, Head, SessionData, SessionDelta, Store, Tell
from lore.store.deltas import is_same, lines_of, merged, save_delta
from lore.store.lines import follow, good_line, good_notes
from lore.store.registry import silent

FOLDED = f"lore {__version__} session"  # of a checkpoint's data: another version folds anew


class StoredSession:
    """A session of a store, as a harness goes on with it."""

    def __init__(self, store: Store, data: SessionData, session: Session) -> None:
        self.store = store
        self.session_id = data.session_id
        self._lock = asyncio.Lock()
        self._take(data, session)

    def _take(self, data: SessionData, session: Session) -> None:
        """Begin where the store is."""
        self.session = session
        self.head = data.head
        self.metadata = data.metadata
        self.leaf_id = data.leaf_id
        self._held: list[bytes] = []
        self._removed: tuple[str, ...] = ()  # before what is held
        self._leaf: str | None = None
        self._metadata = EMPTY

    @classmethod
    def begin(
        cls, store: Store, header: Event, *, dialect: Dialect | str | None = None, rules: Rules | None = None,
        tell: Tell = silent,
    ) -> StoredSession:  # fmt: skip
        """Create a session, or go on with the one that has this very header; ConflictError for another header."""
        if not isinstance(header, SessionStarted):
            raise LoreError("a session begins with session_started", hint='event("session_started", session_id=…)')
        store.create(encode(header))
        return cls.open(store, header.session_id, dialect=dialect, rules=rules, tell=tell)

    @classmethod
    def open(
        cls, store: Store, session_id: str, *, dialect: Dialect | str | None = None, rules: Rules | None = None,
        tell: Tell = silent,
    ) -> StoredSession:  # fmt: skip
        """Go on with a stored session; raises UnknownSessionError, DamagedError.

        Costs O(its events), with a checkpoint O(its items) and what came after it. A checkpoint that does not fit
        is passed over, and `tell` hears why.
        """
        checkpoint = store.checkpoint(session_id)
        if checkpoint is not None:
            try:
                return cls._resumed(store, session_id, checkpoint, dialect, rules)
            except LoreError as error:
                tell(f"the checkpoint of session {session_id} is not used: {error.message}; all events are folded")
        data = store.load(session_id)
        return cls(store, data, Session.read(data.log, dialect=dialect, rules=rules))

    @classmethod
    def _resumed(
        cls, store: Store, session_id: str, known: Checkpoint, dialect: Dialect | str | None, rules: Rules | None
    ) -> StoredSession:
        if known.format != FOLDED:
            raise LoreError(f"it is of {known.format}, this is {FOLDED}")
        data = store.load(session_id, after=known.number)
        if not _leads(known, data):
            raise LoreError("it is of other events than those that are stored")
        session = Session.load(known.data, dialect=dialect, rules=rules)
        for event in Session.events_of(data.log):
            session.apply(event)
        return cls(store, data, session)

    def apply(self, *events: Event) -> None:
        """Apply events to the session, and hold them for the next save; those that cannot be are among its problems.

        Raises StoreError for one that no store takes (it is too long): held, it would fail every save from here on.
        """
        for event in events:
            line = good_line(encode(event))
            self.session.apply(event)
            self._held.append(line)

    def begin_turn(
        self, context: Mapping[str, Any] | None = None, *, chain: str = MAIN, at: str | None = None
    ) -> Prompt:
        """Begin the next turn and return its prompt; what the log must hold for it waits for `save`."""
        prompt, events = self.session.begin_turn(context, chain=chain, at=at)
        self._held += map(encode, events)
        return prompt

    @property
    def saved(self) -> set[int]:
        """The numbers of the events that the store has said it holds."""
        return set(range(1, self.head.number + 1))

    @property
    def turns(self) -> int:
        """How many turns of the main chain have begun."""
        return self.session.state.main().turns

    def unanswered(self, chain: str = MAIN) -> Prompt | None:
        """Return the prompt of a turn that has begun and not ended: now, or before the harness was killed.

        It has the bytes that were sent then, as long as nothing was applied since.
        """
        state = self.session.state.chain(chain)
        ended = 0 if state.last is None else state.last.turn
        return None if state.turn is None or state.turn.turn == ended else self.session.assembled(chain).prompt

    def remove(self, *uuids: str) -> None:
        """Take items back: an overflow recovery, a rewind. Their events stay in the log."""
        gone = Remove(uuids=uuids)
        if not uuids:
            return
        self.session.apply(gone)
        if self._held or self._removed:
            self._held.append(encode(gone))
        else:
            self._removed = uuids

    def note(self, metadata: Mapping[str, Any] | None = None, *, leaf_id: str | None = None) -> None:
        """Note keys of the metadata, or the leaf, beside the events; what is left out stays as it is."""
        good_notes(leaf_id)
        self._metadata = merged(self._metadata, encode_json(dict(metadata or {})))
        self._leaf = self._leaf if leaf_id is None else leaf_id

    def delta(self, *, at: str | None = None) -> SessionDelta:
        """Return what is not known to be saved; `at` is the time of saving. Costs O(what is new)."""
        return SessionDelta(
            base=self.head, new_events=tuple(self._held), removed_ids=self._removed, leaf_id=self._leaf,
            metadata=self._metadata, updated_at=at,
        )  # fmt: skip

    def save(self, *, at: str | None = None) -> Head:
        """Save what is new, durably. Raises ConflictError where another writer was faster: then `reload`.

        After any error all that was not saved is still held.
        """
        self._refuse_meanwhile()
        delta = self.delta(at=at)
        if not _is_empty(delta):
            self._saved(delta, save_delta(self.store, self.session_id, delta))
        return self.head

    async def save_async(self, *, at: str | None = None) -> Head:
        """Do the same without holding up the event loop: the store works in a thread, one call after another.

        Cancelling the call does not undo what the store has begun to write; the next save sends it again.
        """
        async with self._lock:
            delta = self.delta(at=at)
            if not _is_empty(delta):
                self._saved(delta, await asyncio.to_thread(save_delta, self.store, self.session_id, delta))
            return self.head

    def _saved(self, delta: SessionDelta, head: Head) -> None:
        """Go on behind a delta that the store has taken; more may be held by now."""
        self._held = self._held[len(delta.new_events) :]
        self.head = head
        self._removed = self._removed[len(delta.removed_ids) :]
        self.metadata = merged(self.metadata, delta.metadata)
        self.leaf_id = self.leaf_id if delta.leaf_id is None else delta.leaf_id
        self._leaf = None if self._leaf == delta.leaf_id else self._leaf
        self._metadata = EMPTY if self._metadata == delta.metadata else self._metadata

    def _refuse_meanwhile(self) -> None:
        if self._lock.locked():
            raise LoreError("the session is being saved", hint="wait for `save_async` first")

    def reload(self) -> tuple[Event, ...]:
        """Take what other writers have stored, put what is held on top of it, and return what is new of theirs.

        What the store had taken already is not held any more. The session is folded anew: O(its events).
        """
        self._refuse_meanwhile()
        waiting = lines_of(self.delta())
        noted = self._metadata, self._leaf
        data = self.store.load(self.session_id)
        remote = data.events[self.head.number :]
        known = sum(1 for _ in takewhile(lambda pair: is_same(*pair), zip(remote, waiting, strict=False)))
        self._take(data, Session.read(data.log, dialect=self.session.dialect, rules=self.session.rules))
        self._metadata, self._leaf = noted
        self.apply(*Session.events_of(_log(waiting[known:])))
        return tuple(Session.events_of(_log(remote[known:])))

    def checkpoint(self) -> None:
        """Keep the folded state of what is saved, so that the next `open` begins there. Costs O(items).

        Raises LoreError where something waits to be saved: a checkpoint is of stored events.
        """
        self._refuse_meanwhile()
        if self._held or self._removed:
            raise LoreError("events wait to be saved: a checkpoint is of stored ones", hint="save first")
        self.store.save_checkpoint(
            self.session_id, Checkpoint(self.head.number, self.head.digest, FOLDED, self.session.dump())
        )


def _leads(known: Checkpoint, data: SessionData) -> bool:
    """Tell whether the events behind a checkpoint go on from its digest to the head's."""
    try:
        begin = bytes.fromhex(known.digest)
    except ValueError:
        return False
    fits = data.first == known.number + 1 and known.number <= data.head.number
    return fits and [begin, *follow(begin, data.events)][-1].hex() == data.head.digest


def _log(lines: Sequence[bytes]) -> bytes:
    return b"\n".join((*lines, b""))


def _is_empty(delta: SessionDelta) -> bool:
    return not delta.new_events and not delta.removed_ids and delta.leaf_id is None and delta.metadata == EMPTY
