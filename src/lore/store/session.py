"""A session that a harness keeps in a store: folded in memory, saved by its new events.

    session = lore.open("sqlite:agent.db", "demo", model="claude-opus-5", system=SYSTEM, tools=TOOLS)   new, or resumed
    session.user("Any news?")
    answer = client.messages.create(**session.request(current_time=now()))      saved, then it may be sent
    session.assistant(answer)                                                   saved

`request` and `assistant` save before they return. Events of `user`, `result`, `apply` and `begin_turn` remain
unsaved until then, or until `save`; these methods do not use the store. A save sends all unsaved events as one delta.
They remain unsaved until the store has answered, so a delta that failed or was never answered is sent again: the store
recognises its events. A stored session has a `created_at` and an `updated_at` by its clock, and as `leaf_id` the uuid
of the main chain's last item (before there is one, the session's own id).

Threads may share a `StoredSession`. For asyncio there are `request_async`, `assistant_async` and `save_async`, which
work in a thread; other calls of the session wait for them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from itertools import count, takewhile
from types import TracebackType
from typing import Any, Self, Unpack

from msgspec.structs import replace

from lore.conversation import open_turn, with_lock
from lore.errors import LoreError, MisuseError, kind_of
from lore.events.strict import JsonObject, Tools, check_event, check_time, expect, reject_unknown_names
from lore.fold.timeline import index_of
from lore.model import events as e
from lore.model.codes import Problem
from lore.model.state import FoldedSession
from lore.model.turn import Prompt
from lore.prompt.base import Dialect, Rules
from lore.sdk.objects import receive_response
from lore.sdk.replies import Reply
from lore.session import AutomaticCompaction, Context, Session
from lore.store.base import (
    Clock,
    ConflictError,
    Head,
    SessionData,
    SessionDelta,
    Store,
    Tell,
    UnknownSessionError,
    now,
)
from lore.store.deltas import is_same_event
from lore.store.lines import check_line, is_id
from lore.store.registry import ignore, open_store


class StoredSession(Session):
    """A session of a store, for a harness.

    >>> with lore.open("memory:", "demo", model="claude-opus-5") as session:
    ...     uuid = session.user("Any news?")
    ...     arguments = session.request(current_time="09:00")
    ...     session.assistant("Nothing.").text
    'Nothing.'
    """

    _is_closed = False

    def __init__(
        self, store: Store, data: SessionData, *, dialect: Dialect | str | None = None, rules: Rules | None = None,
        clock: Clock = now, compaction: AutomaticCompaction | None = None,
    ) -> None:  # fmt: skip
        super().__init__(dialect=dialect, rules=rules, clock=clock, compaction=compaction)
        self.store = store
        self.session_id = data.session_id
        self.owns_store = False  # whether closing the session closes its store
        self._withheld: set[tuple[str, int | None]] = set()  # unsaved turns (chain, number) that no caller has yet
        self._load(data)

    def _load(self, data: SessionData) -> None:
        """Start again from the stored state, without unsaved events."""
        self._read(data.log)
        self._log.clear()  # other than in `Session`, it has only the events that are not saved yet
        self.created_at, self.updated_at = data.created_at, data.updated_at
        self.head = data.head
        self.leaf_id = data.leaf_id
        self._saved_item = None if data.leaf_id is None else self._last_uuid()  # the last item when a leaf was saved

    @classmethod
    def open(
        cls, store: Store, session_id: str, *, dialect: Dialect | str | None = None, rules: Rules | None = None,
        clock: Clock = now, compaction: AutomaticCompaction | None = None,
    ) -> StoredSession:  # fmt: skip
        """Continue a stored session; raises UnknownSessionError, DamagedError. Costs O(its events).

        Raises LoreError if the session began in another dialect: its answers are stored as that provider gave them.
        """
        _check_store(store)
        data = store.load(session_id)
        session = cls(store, data, dialect=dialect, rules=rules, clock=clock, compaction=compaction)
        first, requested = session.state.dialect, session.dialect.name
        if first not in (None, requested):
            message = f"session {session_id!r} began in the dialect {first}, and cannot continue in {requested}"
            raise LoreError(message, hint=f"open it with dialect={first!r}, or begin a session with another id")
        return session

    def log(self, after: int = 0) -> bytes:
        """Return the session's log: the stored events, which it loads, and those that are not saved yet."""
        self._refuse_if_closed()
        saved = self.head.number
        stored = self.store.load(self.session_id, after=after).events[: saved - after] if after < saved else ()
        return _join((*stored, *self.delta().new_events[max(0, after - saved) :]))

    # events

    @with_lock
    def apply(self, *events: e.Event) -> tuple[Problem, ...]:
        """Apply events, and hold them for the next save; returns their problems.

        Raises MisuseError for an object that is not an event, and StoreError for an event that no store accepts (it is
        too long): held, it would make every save fail.
        """
        problems: list[Problem] = []
        for event in events:
            check_event(event)
            check_line(e.encode(event))
            problems += super().apply(event)
        return tuple(problems)

    def _begin_request(self, chain: str, at: str | None, context: Mapping[str, Any]) -> Prompt:
        turns = self.state.chain(chain).turns
        prompt = super()._begin_request(chain, at, context)
        if self.state.chain(chain).turns > turns:
            self._withheld.add((chain, open_turn(self.state.chain(chain))))
        return prompt

    def _save_new(self) -> None:
        self.save()

    async def request_async(
        self, *, chain: str = e.MAIN, at: str | None = None, **context: Unpack[Context]
    ) -> dict[str, Any]:
        """Do the same as `request` in a thread, without blocking the event loop."""
        return await asyncio.to_thread(self.request, chain=chain, at=at, **context)

    async def assistant_async(self, response: object, *, chain: str = e.MAIN) -> Reply:
        """Apply the answer of an asynchronous client, and save it without blocking the event loop."""
        return await asyncio.to_thread(self.assistant, await receive_response(response), chain=chain)

    # saving

    def delta(self, *, at: str | None = None) -> SessionDelta:
        """Return the events that are not known to be saved; `at` is the time of saving, else the clock's."""
        at, leaf = self._time() if at is None else check_time(at, "at is"), self._last_uuid()
        return SessionDelta(
            base=self.head, new_events=tuple(map(e.encode, self._log)),
            leaf_id=leaf if leaf != self._saved_item and is_id(leaf) else None,  # stores keep no other uuid
            created_at=None if self.created_at else at, updated_at=at,
        )  # fmt: skip

    def _last_uuid(self) -> str:
        """Return the last item's uuid; without items the session's own id."""
        last = self.state.main().entries.last()
        return self.session_id if last is None else last.item.uuid

    @with_lock
    def save(self, *, at: str | None = None) -> Head:
        """Save the new events, durably. Raises ConflictError if another writer was faster: then `reload`.

        After any error the unsaved events remain, for the next save.
        """
        self._refuse_if_closed()
        delta = self.delta(at=at)
        if delta.new_events or delta.leaf_id is not None:
            self.head = self.store.save_delta(self.session_id, delta)
            self._log.clear()
            self._withheld.clear()
            if delta.leaf_id is not None:
                self.leaf_id, self._saved_item = delta.leaf_id, self._last_uuid()
            self.created_at, self.updated_at = delta.created_at or self.created_at, delta.updated_at
        return self.head

    async def save_async(self, *, at: str | None = None) -> Head:
        """Do the same as `save` in a thread.

        Cancelling the call does not undo what the store has begun to write; the next save sends it again.
        """
        return await asyncio.to_thread(self.save, at=at)

    def _refuse_if_closed(self) -> None:
        if self._is_closed:
            hint = "open it again: lore.open(store, session_id)"
            raise LoreError(f"session {self.session_id!r} is closed", hint=hint)

    @with_lock
    def reload(self) -> tuple[e.Event, ...]:
        """Load the session as other writers stored it, apply the unsaved events to it, and return the others' events.

        Unsaved events that the store has already are dropped, and so is a turn that `request` began and could not save:
        the next request begins it again, and states what others added. An unsaved item whose uuid another item has gets
        a new uuid, an unsaved turn whose number another turn has the next number. The session is folded again: O(its
        events).
        """
        self._refuse_if_closed()
        waiting = self.delta().new_events
        data = self.store.load(self.session_id)
        remote = data.events[self.head.number :]
        stored_count = sum(takewhile(bool, map(is_same_event, remote, waiting)))
        self._load(data)
        new = Session.events_of(_join(remote[stored_count:]))
        sent = [
            event for event in Session.events_of(_join(waiting[stored_count:]))
            if (event.chain, getattr(event, "turn", None)) not in self._withheld
        ]  # fmt: skip
        self._withheld.clear()
        unsaved = _rebase_events(sent, self.state, new)
        self._saved.add(unsaved)  # a turn keeps the deltas that it was sent with
        self.apply(*unsaved)
        return tuple(new)

    def close(self) -> None:
        """Save the unsaved events, and close the store if `lore.open` opened it.

        From then on the state in memory can be read (`state`, `messages`, …); methods that change the session or read
        the store raise LoreError.
        """
        if self._is_closed:
            return
        try:
            self.save()
            self._is_closed = True
        finally:
            if self.owns_store:
                self._is_closed = True
                self.store.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _check_store(store: object) -> None:
    """Raise MisuseError for an object that is not a store, most often a URL."""
    if not callable(getattr(store, "load", None)):
        hint = "lore.open_store(url), or lore.open(url, session_id, …)"
        raise MisuseError(f"store is {kind_of(store)}, expected a store: {hint}", hint=hint)


def _join(lines: Sequence[bytes]) -> bytes:
    return b"\n".join((*lines, b""))


# unsaved events, after another writer stored its own


def _rebase_events(unsaved: Sequence[e.Event], stored: FoldedSession, new: Iterable[e.Event]) -> list[e.Event]:
    """Return unsaved events, changed so that they can follow the `new` ones of another writer, which `stored` has.

    No item of the other writer is replaced: an unsaved item with a used uuid gets a new uuid, also in events about it.
    A turn with a used number gets the next one; events that lore derived for it are left out, as they are derived
    again. A compaction also keeps the other writer's items, which it did not know.
    """
    others = [(event.chain, event.item.uuid) for event in new if isinstance(event, e.Append)]
    used_ids = {(event.chain, event.item.uuid) for event in unsaved if isinstance(event, e.Append)}
    uuids, turns, latest = dict[tuple[str, str], str](), dict[tuple[str, int | None], int](), dict[str, int]()
    rebased: list[e.Event] = []
    for event in unsaved:
        chain, changed = event.chain, event
        state = stored.chain(chain)
        match event:
            case e.Append(item=item):
                index = index_of(state)
                place = index.place(item.uuid)
                if place is not None and state.entries[place].item != item:
                    names = (f"{item.uuid}-{number}" for number in count(2))
                    free = (name for name in names if name not in index.numbers and (chain, name) not in used_ids)
                    uuids[chain, item.uuid] = next(free)
                changed = replace(event, item=replace(item, uuid=uuids.get((chain, item.uuid), item.uuid)))
            case e.PatchText(uuid=uuid):
                changed = replace(event, uuid=uuids.get((chain, uuid), uuid))
            case e.Remove(uuids=removed):
                changed = replace(event, uuids=tuple(uuids.get((chain, uuid), uuid) for uuid in removed))
            case e.CompactApplied(preserved_uuids=preserved):
                mine = tuple(uuids.get((chain, uuid), uuid) for uuid in preserved or ())
                changed = replace(event, preserved_uuids=(*mine, *(uuid for name, uuid in others if name == chain)))
            case e.TurnStarted(turn=turn):
                previous = latest.get(chain, 0 if state.turn is None else state.turn.turn)
                latest[chain] = max(turn, previous + 1)
                if latest[chain] != turn:
                    turns[chain, turn] = latest[chain]
                changed = replace(event, turn=latest[chain])
            case e.TurnCompleted(turn=turn) | e.TurnFailed(turn=turn) | e.TurnCanceled(turn=turn):
                changed = replace(event, turn=turns.get((chain, turn), turn))
            case e.PromptDelta(turn=turn) | e.ContextPersisted(turn=turn) | e.CacheReset(turn=turn):
                if (chain, turn) in turns:
                    continue
            case _:
                pass
        rebased.append(changed)
    return rebased


# `lore.open`


@reject_unknown_names
def open_session(
    store: str | Store, session_id: str, *, model: str | None = None, system: str | Sequence[str] | None = None,
    tools: Tools | None = None, params: JsonObject | None = None,
    dialect: Dialect | str | None = None, rules: Rules | None = None, attachments: Sequence[str] = (),
    user_id: str | None = None, project_id: str | None = None, clock: Clock = now,
    compaction: AutomaticCompaction | None = None, tell: Tell = ignore,
) -> StoredSession:  # fmt: skip
    """Begin a session in a store, or continue the one of this id: `lore.open`.

    `store` is a store, or a URL (`sqlite:agent.db`, `jsonl:DIR`, `postgresql://…`) whose store is closed with the
    session. The other arguments are those of `lore.Session`. If the session exists, arguments that differ from it
    (another model, system prompt, tools, parameters) apply from the next turn on. `clock` returns times as RFC 3339, by
    default the system's. `tell` receives messages for the user, such as a repair of the store. Raises StoreError, and
    LoreError if the session began in another dialect, or does not exist and no model is given to begin one.

    >>> session = lore.open("memory:", "demo", model="claude-opus-5", clock=lambda: "2026-11-20T10:00:00Z")
    >>> session.created_at, session.leaf_id
    ('2026-11-20T10:00:00Z', 'demo')
    """
    expect(session_id, str, "session_id", "a text")
    is_url = isinstance(store, str)
    opened = open_store(store, tell) if is_url else store
    continued = partial(
        StoredSession.open, opened, session_id, dialect=dialect, rules=rules, clock=clock, compaction=compaction
    )
    try:
        try:
            session = continued()
        except UnknownSessionError:
            if model is None:
                raise UnknownSessionError(session_id, opened.url, advice="model= begins one; ") from None
            new_session = Session(
                model, system=system, tools=tools, params=params, dialect=dialect, session_id=session_id,
                attachments=attachments, user_id=user_id, project_id=project_id, clock=clock,
            )  # fmt: skip
            with suppress(ConflictError):  # another process creates it at the same moment: continue that one
                opened.create(new_session.log()[:-1])  # its header
            session = continued()
        session.owns_store = is_url
        session.change(model=model, system=system, tools=tools, params=params)
        if session.leaf_id is None:
            session.save()  # a leaf
    except BaseException:
        if is_url:
            opened.close()
        raise
    return session
