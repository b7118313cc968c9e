"""`memory:`: sessions that live as long as their process. Nothing is written anywhere.

Safe between threads: one lock, held for each call.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from threading import RLock

import msgspec

from lore.store.applying import checked, digests_of, same_header, settle
from lore.store.base import (
    EMPTY,
    Checkpoint,
    ConflictError,
    Damage,
    DeltaRow,
    Head,
    SessionData,
    SessionDelta,
    Summary,
    Tell,
    UnknownSessionError,
    Verified,
)  # fmt: skip
from lore.store.deltas import put_together, rows_of
from lore.store.header import NOTHING, follow, note, read_header, with_forks
from lore.store.ids import good_id


@dataclass(slots=True)
class _Session:
    """One session: what `settle` looks at, and what is written behind it."""

    events: list[bytes]
    digests: list[bytes]
    head: Head
    project_id: str | None = None
    parent_session_id: str | None = None
    leaf_id: str | None = None
    metadata: bytes = EMPTY
    created_at: str | None = None
    updated_at: str | None = None
    checkpoint: Checkpoint | None = None
    size: int = field(default=0)

    def digest(self, number: int) -> str | None:
        if number == 0:
            return NOTHING.digest
        return self.digests[number - 1].hex() if 0 < number <= len(self.digests) else None

    def lines(self, after: int, count: int) -> Sequence[bytes]:
        return self.events[after : after + count]


class Memory:
    """A store in memory."""

    url = "memory:"

    def __init__(self) -> None:
        self._sessions: dict[str, _Session] = {}
        self._clients: dict[str, str] = {}
        self._lock = RLock()

    @classmethod
    def open(cls, url: str, tell: Tell) -> Memory:
        """Open a store of its own at each call."""
        return cls()

    def create(self, header: bytes) -> Head:
        found = read_header(header)
        with self._lock:
            known = self._sessions.get(found.session_id)
            if known is not None:
                return same_header(known.events[0], found, known.head)
            digests = digests_of((found.line,))
            made = _Session([found.line], digests, Head(1, digests[0].hex(), NOTHING.note), found.project_id,
                            found.parent_session_id, created_at=found.at, size=len(found.line) + 1)  # fmt: skip
            self._sessions[found.session_id] = made
            return made.head

    def load(self, session_id: str, *, after: int = 0) -> SessionData:
        with self._lock:
            session = self._named(session_id)
            after = max(0, after)
            return SessionData(
                session_id=session_id, head=session.head, events=tuple(session.events[after:]), first=after + 1,
                project_id=session.project_id, parent_session_id=session.parent_session_id, leaf_id=session.leaf_id,
                metadata=session.metadata, created_at=session.created_at, updated_at=session.updated_at,
            )  # fmt: skip

    def _named(self, session_id: str) -> _Session:
        found = self._sessions.get(session_id)
        if found is None:
            raise UnknownSessionError(session_id)
        return found

    def save(self, data: SessionData) -> Head:
        digests = digests_of(data.events)
        with self._lock:
            known = self._sessions.get(data.session_id)
            header = checked(data, None if known is None else known.head, digests)
            head = Head(len(digests), digests[-1].hex(), note(data.leaf_id, data.metadata))
            self._sessions[data.session_id] = _Session(
                list(data.events), digests, head, data.project_id, header.parent_session_id, data.leaf_id,
                data.metadata, data.created_at, data.updated_at, None if known is None else known.checkpoint,
                len(data.log),
            )  # fmt: skip
            return head

    def save_delta(self, session_id: str, delta: SessionDelta) -> Head:
        with self._lock:
            session = self._named(session_id)
            settled = settle(delta, session)
            if not settled.is_empty:
                session.events += settled.lines
                session.digests += settled.digests
                session.size += sum(map(len, settled.lines)) + len(settled.lines)
                session.leaf_id, session.metadata, session.head = settled.leaf_id, settled.metadata, settled.head
                session.created_at = delta.created_at or session.created_at
                session.updated_at = delta.updated_at or session.updated_at
            return settled.head

    def delete(self, session_id: str) -> tuple[str, ...]:
        with self._lock:
            self._named(session_id)
            gone = with_forks(session_id, {name: session.parent_session_id for name, session in self._sessions.items()})
            for gone_id in gone:
                del self._sessions[gone_id]
            self._clients = {key: bound for key, bound in self._clients.items() if bound not in gone}
            return gone

    def list(self, project_id: str | None = None) -> Sequence[Summary]:
        with self._lock:
            return [
                Summary(
                    session_id=name, head=session.head, size=session.size, project_id=session.project_id,
                    parent_session_id=session.parent_session_id, leaf_id=session.leaf_id, created_at=session.created_at,
                    updated_at=session.updated_at,
                )
                for name, session in sorted(self._sessions.items())
                if project_id is None or session.project_id == project_id
            ]  # fmt: skip

    def move(self, session_id: str, project_id: str) -> None:
        good_id(project_id, "project id")
        with self._lock:
            self._named(session_id).project_id = project_id

    def bind(self, client_key: str, session_id: str, *, replace: bool = False) -> None:
        good_id(client_key, "client key")
        with self._lock:
            self._named(session_id)
            known = self._clients.get(client_key, session_id)
            if known != session_id and not replace:
                raise ConflictError(f"the client is bound to session {known!r}", hint="replace it if that is meant")
            self._clients[client_key] = session_id

    def resolve(self, client_key: str) -> str | None:
        with self._lock:
            return self._clients.get(client_key)

    def prompt_deltas(self, session_id: str) -> Sequence[DeltaRow]:
        with self._lock:
            session = self._named(session_id)
            return put_together(session_id, session.project_id, rows_of(session.events))

    def checkpoint(self, session_id: str) -> Checkpoint | None:
        with self._lock:
            return self._named(session_id).checkpoint

    def save_checkpoint(self, session_id: str, checkpoint: Checkpoint) -> None:
        with self._lock:
            self._named(session_id).checkpoint = msgspec.structs.replace(checkpoint, data=bytes(checkpoint.data))

    def verify(self, session_id: str | None = None) -> Verified:
        with self._lock:
            every = self._sessions if session_id is None else {session_id: self._named(session_id)}
            damage: list[Damage] = []
            for name, session in every.items():
                derived = follow(bytes.fromhex(NOTHING.digest), session.events)
                for number, (digest, found) in enumerate(zip(session.digests, derived, strict=True), 1):
                    if digest != found:
                        damage.append(Damage(name, number, "memory", "its digest does not hold", "nothing"))
                        break
            return Verified(len(every), sum(len(session.events) for session in every.values()), tuple(damage))

    def vacuum(self) -> int:
        return 0

    def close(self) -> None:
        """Nothing to let go of."""
