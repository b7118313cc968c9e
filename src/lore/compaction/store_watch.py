"""Watch a store: compact its sessions when it is due, and remember them once they are idle, until stopped.

Each look lists the heads, and reads the sessions that have changed. A session is compacted between turns, never while a
request is out; one that another writer changes or compacts meanwhile is left for the next look. KeyboardInterrupt ends
the watch anywhere: a save is whole or not made, and the next watch does the rest. With a memory (`base.StoreMemory`) it
learns from pruned messages, and from a session after `gap_secs` of silence.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

from lore.compaction.activity import SessionActivity
from lore.compaction.base import SessionMemory, StoreMemory, Waiting, is_idle
from lore.compaction.executor import Dependencies
from lore.compaction.extractive import Extractive
from lore.compaction.hooks import Continuous
from lore.compaction.policy import AFTER_TURN, AUTOMATIC
from lore.compaction.settings import Compaction
from lore.compaction.summarizers import dependencies_of
from lore.errors import LoreError
from lore.model.events import MAIN, SessionStarted
from lore.model.state import DividerPlace
from lore.prompt.base import Rules as Assembly
from lore.prompt.layout import is_real
from lore.session import Session
from lore.store.base import ConflictError, Head, Store, StoreError, Tell, UnknownSessionError, verify_hint
from lore.store.registry import mask_url
from lore.store.reserved import drop_reserved
from lore.store.session import StoredSession


class WatchCallbacks(NamedTuple):
    """How a watch waits, and whom it informs."""

    wait: Callable[[], bool]  # waits until the next look; False ends the watch
    report: Tell  # receives a line for each compaction, and for each session that was learned from
    tell: Tell  # receives what else the user should know
    clock: Callable[[], float] = time.time
    explain: Tell | None = None  # receives why each trigger fires or is skipped


@dataclass(slots=True)
class _WatchedSession:
    """A session as the last look left it."""

    head: Head | None = None  # as it was looked at; None: not yet
    header: SessionStarted | None = None  # another session may have its name by now
    memory: SessionMemory | None = None  # None: nothing of it is remembered
    waiting: Waiting = field(default_factory=Waiting)
    looks_again: bool = False  # even if it does not change
    learnt_moves: int = 0  # its `SessionActivity.moves` when it was learned from
    silent_since: float | None = None  # when its latest item came; None: there is nothing to learn from it


class Watch:
    """Looks at one store again and again, with this process' environment; not safe between threads.

    `divider` is the setting by which its sessions are folded.
    """

    def __init__(
        self, store: Store, settings: Compaction | None, callbacks: WatchCallbacks, memory: StoreMemory | None = None,
        *, divider: DividerPlace = "before",
    ) -> None:  # fmt: skip
        self._store, self._settings, self._callbacks = store, settings, callbacks
        self._divider: DividerPlace = divider
        self._memory, self._gap_secs = memory, 0 if memory is None else memory.gap_secs
        self._seen: dict[str, _WatchedSession] = {}

    def run(self) -> int:
        """Look until the wait ends the watch; return the number of compactions. An error of the first look ends it."""
        count = self.look()
        while self._callbacks.wait():
            try:
                count += self.look()
            except StoreError as error:  # a watch runs for days, and a store that is away may come back
                self._callbacks.tell(f"{mask_url(self._store.url)}: {error.message}; the next look tries again")
        return count

    def look(self) -> int:
        """Look once: compact changed sessions that are due, learn from idle ones; return the number of compactions."""
        heads = {summary.session_id: summary.head for summary in drop_reserved(self._store.list())}
        self._seen = {name: self._seen.get(name) or _WatchedSession() for name in heads}
        count = 0
        for name, head in heads.items():
            watched = self._seen[name]
            if watched.head != head or watched.looks_again:
                watched.head = head
                count += self._try(self._compact, name)
        now = self._callbacks.clock()
        for name, watched in list(self._seen.items()):
            if is_idle(self._gap_secs, watched.silent_since, now):
                self._try(self._learn, name)
        return count

    def _try(self, do: Callable[[str], bool], session_id: str) -> bool:
        """Call `do` for a session; report an error, so that other sessions are not affected."""
        try:
            return do(session_id)
        except UnknownSessionError:  # deleted since it was listed
            pass
        except LoreError as error:
            self._callbacks.tell(f"{session_id}: {error.message}")
        return False

    def _learn(self, session_id: str) -> bool:
        """Learn from an idle session, and consolidate."""
        continuous, watched = self._open(session_id)
        if watched.memory is None:
            return False
        line = watched.memory.remember_idle_session(continuous.chain().entries, continuous.activity.moved_at)
        if line is None:
            note = "another pass is at work for this agent and user, skipped until the next look"
            self._callbacks.tell(f"{session_id}: {note}")
            return False
        watched.learnt_moves, watched.silent_since = continuous.activity.moves, None
        if line:
            self._callbacks.report(f"{session_id}: idle: {line}")
        return bool(line)

    def _compact(self, session_id: str) -> bool:
        """Compact a session that has changed, if that is due."""
        continuous, watched = self._open(session_id)
        stored, activity = continuous.stored, continuous.activity
        if watched.memory is not None and activity.moves > watched.learnt_moves:
            watched.silent_since = activity.moved_at
        chain, now = stored.state.main(), self._callbacks.clock()
        is_open = chain.turn is not None and (chain.last is None or chain.last.turn != chain.turn.turn)
        if self._settings is None or chain.id != MAIN or is_open:
            return False
        unsent = chain.entries.since(min(chain.sent_entries, len(chain.entries)))
        has_message = any(is_real(entry.item) for entry in unsent)  # only then a pause has ended
        watched.looks_again = False
        try:
            outcome = continuous.compact_if_due(AUTOMATIC if has_message else AFTER_TURN, now)
        except ConflictError:
            self._callbacks.tell(f"{session_id}: another writer changed it meanwhile, skipped until the next look")
            return False
        watched.looks_again = continuous.is_locked  # the other compaction may end without having compacted this session
        if outcome is None or not outcome.events:
            return False
        context = f", {outcome.context_tokens:,} tokens of outside context" if outcome.context_tokens else ""
        pruned = f"{outcome.pruned:,} messages pruned, {outcome.kept:,} kept{context}"
        self._callbacks.report(f"{session_id}: {outcome.trigger}: {pruned}")
        return True

    def _open(self, session_id: str) -> tuple[Continuous, _WatchedSession]:
        """Read a session; costs O(its events)."""
        data = self._store.load(session_id)
        activity = SessionActivity(Session.events_of(data.log))
        header = activity.header
        if header is None:  # no store accepts such a session: another program wrote it
            raise StoreError("the log has no header", hint=verify_hint(self._store.url))
        watched = self._seen[session_id]
        if watched.header != header:
            memory = None if self._memory is None else self._memory.of_session(header)
            watched = self._seen[session_id] = _WatchedSession(watched.head, header, memory)
        stored = StoredSession(self._store, data, rules=Assembly(divider=self._divider))

        def with_session_name(tell: Tell) -> Tell:
            return lambda text: tell(f"{session_id}: {text}")

        tell, explain = with_session_name(self._callbacks.tell), self._callbacks.explain
        dependencies = Dependencies(Extractive(), tell=tell)
        if self._settings is not None:
            dependencies = dependencies_of(self._settings, tell, session_id, *activity.owner)
        continuous = Continuous(
            stored, self._settings, dependencies, memory=watched.memory, activity=activity, waiting=watched.waiting,
            explain=None if explain is None else with_session_name(explain),
        )  # fmt: skip
        return continuous, watched
