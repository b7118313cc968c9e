"""A session that a harness keeps in a store: folded in memory, paid for by what is new.

    session = lore.open("sqlite:agent.db", "demo", model="claude-opus-5", system=SYSTEM, tools=TOOLS)   new, or resumed
    session.user("What is new?")
    answer = client.messages.create(**session.request(current_time=now()))      saved, then it may be sent
    session.assistant(answer)                                                   saved

Rules: `request` and `assistant` save before they return; what `user`, `result`, `apply` and `begin_turn` take is held
until then, or until `save`: they touch no store. The delta is what is held behind the head, which advances only when
the store has said so; what failed, or was never answered, is sent again with the next delta (a store takes what it has
already for what it is). What is taken back while nothing waits goes as `removed_ids`, else as a `remove` event at its
place, so that folding what is stored gives this session's state at any moment. A stored session has a `created_at`, an
`updated_at` and a `leaf_id`: times by its clock, and the uuid of the main chain's last item (before there is one, the
session's own id).

Not safe between threads: one harness, one `StoredSession`. For asyncio there are `request_async`, `assistant_async` and
`save_async`; events may be applied while they wait, and are saved with the next call.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Mapping, Sequence
from itertools import takewhile
from types import TracebackType
from typing import Any, Self, Unpack, cast

import msgspec

from lore.conversation import Begun, Context, Conversation
from lore.errors import LoreError, MisuseError
from lore.events.strict import JSON, check, kind_of, named, time_of
from lore.model.canonical import encode as encode_json
from lore.model.codes import Problem
from lore.model.events import MAIN, Event, Remove, SessionStarted, encode
from lore.model.state import FoldedSession as State
from lore.model.turn import Prompt
from lore.prompt.base import Dialect, Rules
from lore.sdk.objects import awaited
from lore.sdk.replies import Reply
from lore.session import Session, dialect_from, header_of
from lore.store.base import (
    EMPTY,
    ConflictError,
    Head,
    SessionData,
    SessionDelta,
    Store,
    Tell,
    UnknownSessionError,
)
from lore.store.deltas import is_same, lines_of, merged, save_delta
from lore.store.lines import good_line, good_notes, is_id
from lore.store.registry import open_store, silent
from lore.store.sync import Clock, now, rebased

_UNSURE = 8  # deltas: of more failures in a row the last ones are known


class StoredSession(Conversation):
    """A session of a store, as a harness goes on with it; `session` is what is folded of it.

    >>> with lore.open("memory:", "demo", model="claude-opus-5") as session:
    ...     uuid = session.user("What is new?")
    ...     arguments = session.request(current_time="09:00")
    ...     session.assistant("Nothing.").text
    'Nothing.'
    """

    def __init__(self, store: Store, data: SessionData, session: Session, *, clock: Clock = now) -> None:
        self.store = store
        self.session_id = data.session_id
        self._clock = clock
        self.owns_store = False  # whether closing the session closes its store
        self._lock = asyncio.Lock()
        self._take(data, session)

    def _take(self, data: SessionData, session: Session) -> None:
        """Begin where the store is."""
        self.session = session
        session.forget_log()  # the store has it
        self.created_at, self.updated_at = data.created_at, data.updated_at
        self.head = data.head
        self.metadata = data.metadata
        self.leaf_id = data.leaf_id
        self._held: list[bytes] = []
        self._unsure: deque[SessionDelta] = deque(maxlen=_UNSURE)  # sent, and never answered
        self._followed = None if data.leaf_id is None else self._last()  # the item that the stored leaf goes with
        self._removed: tuple[str, ...] = ()  # before what is held
        self._leaf: str | None = None
        self._metadata = EMPTY

    @classmethod
    def begin(
        cls, store: Store, header: Event, *, dialect: Dialect | str | None = None, rules: Rules | None = None,
        clock: Clock = now,
    ) -> StoredSession:  # fmt: skip
        """Create a session, or go on with the one that has this very header; ConflictError for another header."""
        check_store(store)
        if not isinstance(header, SessionStarted):
            hint = "lore.events.session_started(session_id, …)"
            raise MisuseError(f"a session begins with session_started, not with a {type(header).__name__}", hint=hint)
        store.create(encode(header))
        return cls.open(store, header.session_id, dialect=dialect, rules=rules, clock=clock)

    @classmethod
    def open(
        cls, store: Store, session_id: str, *, dialect: Dialect | str | None = None, rules: Rules | None = None,
        clock: Clock = now,
    ) -> StoredSession:  # fmt: skip
        """Continue a stored session; raises UnknownSessionError, DamagedError. Costs O(its events)."""
        check_store(store)
        data = store.load(session_id)
        return cls(store, data, Session.read(data.log, dialect=dialect, rules=rules, clock=clock), clock=clock)

    @property
    def state(self) -> State:
        return self.session.state

    @property
    def dialect(self) -> Dialect:
        return self.session.dialect

    def _time(self) -> str:
        return time_of(self._clock)

    def _log_derived(self, chain: str) -> None:
        self._held += map(encode, self.session.take_derived(chain))

    def apply(self, *events: Event) -> tuple[Problem, ...]:
        """Apply events to the session, and hold them for the next save; returns what was wrong with them.

        Raises MisuseError for what is no event, and StoreError for one that no store takes (it is too long): held, it
        would fail every save from here on.
        """
        found: list[Problem] = []
        for event in events:
            check(event)
            line = good_line(encode(event))
            found += self.session.apply(event)
            self._held.append(line)
        return tuple(found)

    def begin_turn(
        self, context: Mapping[str, Any] | None = None, *, chain: str = MAIN, at: str | None = None
    ) -> Begun:
        """Begin the next turn, as `Session.begin_turn` does; its events are held until they are saved."""
        begun = self.session.begin_turn(context, chain=chain, at=at)
        self._held += map(encode, begun.events)
        return begun

    def request(self, *, chain: str = MAIN, at: str | None = None, **context: Unpack[Context]) -> dict[str, Any]:
        """Begin the next turn and save it, as `Session.request` does otherwise: what it returns may be sent.

        A turn that was saved and never answered, because the program was killed, is asked again with the bytes of the
        first time. Raises what `save` raises, too; then the turn waits, and the next request is the same.
        """
        prompt = self._requested(chain, at, cast("Mapping[str, Any]", context))
        self.save()
        return self._arguments(prompt, chain)

    async def request_async(
        self, *, chain: str = MAIN, at: str | None = None, **context: Unpack[Context]
    ) -> dict[str, Any]:
        """Do the same without holding up the event loop while the store works."""
        prompt = self._requested(chain, at, cast("Mapping[str, Any]", context))
        arguments = self._arguments(prompt, chain)
        await self.save_async()
        return arguments

    def assistant(self, response: object, *, chain: str = MAIN) -> Reply:
        """Take the model's answer and save it, as `Session.assistant` does otherwise."""
        reply = super().assistant(response, chain=chain)
        self.save()
        return reply

    async def assistant_async(self, response: object, *, chain: str = MAIN) -> Reply:
        """Take what an asynchronous client gives, and save it without holding up the event loop."""
        events, reply = self._answered(await awaited(response), chain)
        self.apply(*events)
        await self.save_async()
        return reply

    @property
    def saved(self) -> set[int]:
        """The numbers of the events that the store has said it holds."""
        return set(range(1, self.head.number + 1))

    def unanswered(self, chain: str = MAIN) -> Prompt | None:
        """Return the prompt of a turn that has begun and not ended, as `Session.unanswered` does."""
        return self.session.unanswered(chain)

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
        """Return what is not known to be saved; `at` is the time of saving, the clock's where it is not given.

        Costs O(what is new).
        """
        at = at or self._time()
        return SessionDelta(
            base=self.head, new_events=tuple(self._held), removed_ids=self._removed, metadata=self._metadata,
            leaf_id=self._leaf or self._moved(), created_at=None if self.created_at else at, updated_at=at,
        )  # fmt: skip

    def _moved(self) -> str | None:
        """Return the last item's uuid where it is another than that of the last save, if a store takes it."""
        leaf = self._last()
        return None if leaf in (None, self._followed) or not is_id(leaf) else leaf

    def _last(self) -> str | None:
        """Return the last item's uuid; where there is none, the session's own id; None where only the header is."""
        last = self.session.state.main().entries.last()
        if last is not None:
            return last.item.uuid
        return self.session_id if self._held or self.head.number > 1 else None

    def save(self, *, at: str | None = None) -> Head:
        """Save what is new, durably. Raises ConflictError where another writer was faster: then `reload`.

        After any error all that was not saved is still held.
        """
        self._refuse_meanwhile()
        delta = self.delta(at=at)
        if not _is_empty(delta):
            self._unsure.append(delta)
            self._saved(self._delivered(delta))
        return self.head

    async def save_async(self, *, at: str | None = None) -> Head:
        """Do the same without holding up the event loop: the store works in a thread, one call after another.

        Cancelling the call does not undo what the store has begun to write; the next save sends it again.
        """
        async with self._lock:
            delta = self.delta(at=at)
            if not _is_empty(delta):
                self._unsure.append(delta)
                self._saved(await asyncio.to_thread(self._delivered, delta))
            return self.head

    def _delivered(self, delta: SessionDelta) -> list[tuple[SessionDelta, Head]]:
        """Give a delta to the store; returns what it has taken, and the head behind each.

        Where one before it was taken and the answer lost, the stored notes are that one's: it is sent as it was, which
        changes nothing, and then what has come since.
        """
        try:
            return [(delta, save_delta(self.store, self.session_id, delta))]
        except ConflictError:
            for before in list(self._unsure)[-2::-1]:
                try:
                    head = save_delta(self.store, self.session_id, before)
                except ConflictError:
                    continue
                rest = msgspec.structs.replace(
                    delta, base=head, new_events=delta.new_events[len(before.new_events) :],
                    removed_ids=delta.removed_ids[len(before.removed_ids) :],
                )  # fmt: skip
                return [(before, head), (rest, save_delta(self.store, self.session_id, rest))]
            raise

    def _saved(self, taken: list[tuple[SessionDelta, Head]]) -> None:
        """Go on behind deltas that the store has taken; more may be held by now."""
        for delta, head in taken:
            self._follow(delta, head)
        self._unsure.clear()

    def _follow(self, delta: SessionDelta, head: Head) -> None:
        self._held = self._held[len(delta.new_events) :]
        self.head = head
        self._removed = self._removed[len(delta.removed_ids) :]
        self.metadata = merged(self.metadata, delta.metadata)
        if delta.leaf_id is not None:
            self.leaf_id, self._followed = delta.leaf_id, self._last()
        self.created_at, self.updated_at = delta.created_at or self.created_at, delta.updated_at
        self.session.forget_log()
        self._leaf = None if self._leaf == delta.leaf_id else self._leaf
        self._metadata = EMPTY if self._metadata == delta.metadata else self._metadata

    def _refuse_meanwhile(self) -> None:
        if self._lock.locked():
            raise LoreError("the session is being saved", hint="wait for `save_async` first")

    def reload(self) -> tuple[Event, ...]:
        """Take what other writers have stored, put what is held on top of it, and return what is new of theirs.

        What the store had taken already is not held any more. A held item whose uuid another one has by now gets a new
        one, a turn that began the next number. The session is folded anew: O(its events).
        """
        self._refuse_meanwhile()
        waiting = lines_of(self.delta())
        noted = self._metadata, self._leaf
        data = self.store.load(self.session_id)
        remote = data.events[self.head.number :]
        known = sum(1 for _ in takewhile(lambda pair: is_same(*pair), zip(remote, waiting, strict=False)))
        session = self.session
        self._take(data, Session.read(data.log, dialect=session.dialect, rules=session.rules, clock=self._clock))
        self._metadata, self._leaf = noted
        new = Session.events_of(_log(remote[known:]))
        self.apply(*rebased(Session.events_of(_log(waiting[known:])), self.state, new))
        return tuple(new)

    def close(self) -> None:
        """Save what is held, and close the store where `lore.open` opened it."""
        try:
            self.save()
        finally:
            if self.owns_store:
                self.store.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def check_store(store: object) -> None:
    """Raise MisuseError for what is no store: a URL, most often."""
    if not callable(getattr(store, "load", None)):
        hint = "lore.open_store(url), or lore.open(url, session_id, …)"
        raise MisuseError(f"store is {kind_of(store)}, where a store is due: {hint}", hint=hint)


def _log(lines: Sequence[bytes]) -> bytes:
    return b"\n".join((*lines, b""))


def _is_empty(delta: SessionDelta) -> bool:
    return not delta.new_events and not delta.removed_ids and delta.leaf_id is None and delta.metadata == EMPTY


# `lore.open`: begin a session in a store, or go on with it, in one call


@named
def open_session(
    store: str | Store, session_id: str, *, model: str | None = None, system: str | Sequence[str] | None = None,
    tools: Sequence[JSON] | Mapping[str, JSON] | None = None, params: Mapping[str, JSON] | None = None,
    dialect: Dialect | str | None = None, rules: Rules | None = None, attachments: Sequence[str] = (),
    user_id: str | None = None, project_id: str | None = None, clock: Clock = now, tell: Tell = silent,
) -> StoredSession:  # fmt: skip
    """Begin a session in a store, or go on with the one of this id: `lore.open`.

    `store` is a URL (`sqlite:agent.db`, `jsonl:DIR`, `postgresql://…`), whose store is closed with the session, or a
    store. The other arguments are those of `lore.Session`; where the session is there already, what is given and
    differs (another model, system prompt, tools, parameters) is changed from the next turn on, what is not given
    stays. `clock` gives times as RFC 3339: the system's, by default. `tell` hears what a person should know: a store
    that was repaired. Raises StoreError, and LoreError where there is no such session and no model to begin one with.

    >>> session = lore.open("memory:", "demo", model="claude-opus-5", clock=lambda: "2026-11-20T10:00:00Z")
    >>> session.created_at, session.leaf_id
    ('2026-11-20T10:00:00Z', 'demo')
    """
    opened = open_store(store, tell) if isinstance(store, str) else store
    try:
        session = _opened(
            opened, session_id, clock, dialect_from(dialect), rules,
            {"system": system, "tools": tools, "params": params, "attachments": attachments, "user_id": user_id,
             "project_id": project_id}, model,
        )  # fmt: skip
        session.owns_store = isinstance(store, str)
        session.change(model=model, system=system, tools=tools, params=params)
        if session.leaf_id is None:
            last = session.state.main().entries.last()
            session.note(leaf_id=session_id if last is None else last.item.uuid)
            session.save()
    except BaseException:
        if isinstance(store, str):
            opened.close()
        raise
    return session


def _opened(
    store: Store, session_id: str, clock: Clock, dialect: Dialect | None, rules: Rules | None,
    given: dict[str, Any], model: str | None,
) -> StoredSession:  # fmt: skip
    """Go on with a session, or create it; where another process does so at the same moment, go on with that one."""
    try:
        return StoredSession.open(store, session_id, dialect=dialect, rules=rules, clock=clock)
    except UnknownSessionError:
        if model is None:
            error = UnknownSessionError(session_id, store.url)
            error.hint = f"model= begins one; {error.hint}"
            raise error from None
    header = header_of(model, dialect=dialect, session_id=session_id, at=clock(), **given)
    try:
        return StoredSession.begin(store, header, dialect=dialect, rules=rules, clock=clock)
    except ConflictError:
        return StoredSession.open(store, session_id, dialect=dialect, rules=rules, clock=clock)
