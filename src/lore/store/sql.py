"""A store in an SQL database: everything that sqlite and PostgreSQL share.

A database gives what is abstract in `SqlStore`: a transaction, an error in lore's words for each of its own, a check
of its files, vacuum and close. Rules:
- a call is one transaction; what reads sees one state of the store;
- what writes to a session holds it alone: sqlite's one writer, the lock on the session's row in PostgreSQL (`lock`);
- a delta costs a look at the session's row and at its last event, and the rows that are new: nothing is counted and
  nothing summed up;
- `load` derives the digest of what it read and compares it with the stored one, so that a line that was changed, is
  missing, or out of order is an error, never less than was stored.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import ClassVar

from msgspec.structs import replace

from lore.store.base import (
    EMPTY,
    Checkpoint,
    ConflictError,
    Damage,
    DamagedError,
    DeltaRow,
    Head,
    Salvaged,
    SessionData,
    SessionDelta,
    SessionSummary,
    UnknownSessionError,
    Verified,
)  # fmt: skip
from lore.store.deltas import Settled, bound_to, checked, digests_of, same_header, settle, with_forks
from lore.store.lines import (
    NOTHING,
    Activity,
    SessionHeader,
    activity,
    follow,
    good_id,
    is_id,
    note,
    read_header,
    rows_of,
)
from lore.store.sql_tables import (
    COLUMNS,
    HINT,
    SqlSession,
    Transaction,
    Value,
    decoded,
    encoded,
    kept_rows,
    put_events,
    put_rows,
    typed,
)  # fmt: skip
from lore.store.sql_verify import orphans, salvaged, verify_session


class SqlStore(ABC):
    """Sessions in the tables of `sql_tables`."""

    lock: ClassVar[str] = ""  # ends a SELECT of a session's row that will be written
    url: str  # what it was opened by, without passwords

    @abstractmethod
    def transaction(self, *, write: bool) -> AbstractContextManager[Transaction]:
        """Open a transaction: committed at its end, rolled back on an error.

        One that does not write sees one state of the store from its first statement on. Errors of the database
        leave it as StoreError or DamagedError.
        """

    def integrity(self) -> Sequence[Damage]:
        """Return what the database itself finds damaged in its files; else that is found where events are read."""
        return ()

    def notes(self) -> tuple[str, ...]:
        """Return remarks about the store that are not damage."""
        return ()

    @abstractmethod
    def vacuum(self) -> int:
        """Give back what is not needed any more; returns by how many bytes the store became smaller."""

    @abstractmethod
    def close(self) -> None:
        """Let go of files and connections. The store cannot be used any more."""

    # sessions

    def create(self, header: bytes) -> Head:
        found = read_header(header)
        digests = digests_of((found.line,))
        head = Head(1, digests[0].hex(), NOTHING.note)
        with self.transaction(write=True) as tx:
            key = _insert(tx, found, head, len(found.line) + 1, activity((found.line,)))
            if key is None:
                known = self._found(tx, found.session_id, write=True)
                lines = known.lines(0, 1)
                if not lines:
                    raise DamagedError(f"session {found.session_id!r}: event 1 is missing", hint=HINT)
                return same_header(lines[0], found, known.head)
            put_events(tx, key, 1, (found.line,), digests)
            return head

    def load(self, session_id: str, *, after: int = 0) -> SessionData:
        after = max(0, after)
        with self.transaction(write=False) as tx:
            session = self._found(tx, session_id)
            summary, head, metadata = session.summary, session.head, session.metadata
            start = min(after, head.number)
            lines, base = session.lines(start), session.digest(start)
            last = None if base is None else [bytes.fromhex(base), *follow(bytes.fromhex(base), lines)][-1].hex()
            whole = len(lines) == head.number - start and last == head.digest
            if not whole or note(session.leaf_id, metadata) != head.note:
                raise _damaged(verify_session(session).damage, session_id)
        return summary.data(lines, after + 1, metadata)

    def save(self, data: SessionData) -> Head:
        digests = digests_of(data.events)
        used = activity(data.events)
        with self.transaction(write=True) as tx:
            known = self._find(tx, data.session_id, write=True)
            header = checked(data, None if known is None else known.head, digests)
            head = Head(len(digests), digests[-1].hex(), note(data.leaf_id, data.metadata))
            key = _insert(tx, header, head, 0, used) if known is None else known.key
            if key is None:  # made since the look above: its row was not there to be locked
                raise ConflictError(
                    f"session {data.session_id!r} was created meanwhile", hint="load it, and save again"
                )
            tx.execute("DELETE FROM events WHERE session = ?", (key,))
            tx.execute("DELETE FROM prompt_deltas WHERE session_id = ?", (data.session_id,))
            put_events(tx, key, 1, data.events, digests)
            put_rows(tx, data.session_id, data.project_id, rows_of(data.events))
            _set(tx, key, head, {
                "project_id": data.project_id, "parent_session_id": header.parent_session_id,
                "created_at": encoded(data.created_at), "updated_at": encoded(data.updated_at),
                "leaf_id": encoded(data.leaf_id), "metadata": bytes(data.metadata),
                "size": sum(map(len, data.events)) + len(data.events), **_used(used),
            })  # fmt: skip
            return head

    def save_delta(self, session_id: str, delta: SessionDelta) -> Head:
        with self.transaction(write=True) as tx:
            session = self._found(tx, session_id, write=True)
            session.check()
            settled = settle(delta, session)
            if not settled.is_empty:
                self._append(tx, session, settled, delta)
            return settled.head

    def _append(self, tx: Transaction, session: SqlSession, settled: Settled, delta: SessionDelta) -> None:
        summary = session.summary
        put_events(tx, session.key, session.head.number + 1, settled.lines, settled.digests)
        put_rows(tx, summary.session_id, summary.project_id, rows_of(settled.lines))
        columns: dict[str, Value] = {"size": summary.size + sum(map(len, settled.lines)) + len(settled.lines)}
        columns |= _used(activity(settled.lines, session.activity))
        if settled.noted:
            columns |= {"leaf_id": encoded(settled.leaf_id), "metadata": settled.metadata}
        times = {"created_at": encoded(delta.created_at), "updated_at": encoded(delta.updated_at)}
        _set(tx, session.key, settled.head, columns | {name: at for name, at in times.items() if at})

    def delete(self, session_id: str) -> tuple[str, ...]:
        with self.transaction(write=True) as tx:
            return self._delete(tx, session_id)

    def _delete(self, tx: Transaction, session_id: str) -> tuple[str, ...]:
        self._found(tx, session_id, write=True)
        gone = with_forks(session_id, _parents(tx))
        tx.executemany("DELETE FROM sessions WHERE session_id = ?", ((name,) for name in gone))
        return gone

    def list(self, project_id: str | None = None) -> Sequence[SessionSummary]:
        where, values = ("", ()) if project_id is None else (" WHERE project_id = ?", (project_id,))
        if project_id is not None and not is_id(project_id):
            return []
        with self.transaction(write=False) as tx:
            rows = tx.execute(f"SELECT {COLUMNS} FROM sessions{where} ORDER BY session_id", values)  # noqa: S608
            return [SqlSession(tx, row).summary for row in rows]

    def move(self, session_id: str, project_id: str) -> None:
        good_id(project_id, "project id")
        with self.transaction(write=True) as tx:
            session = self._found(tx, session_id, write=True)
            tx.execute("UPDATE sessions SET project_id = ? WHERE session = ?", (project_id, session.key))
            tx.execute("UPDATE prompt_deltas SET project_id = ? WHERE session_id = ?", (project_id, session_id))

    # beside the sessions

    def bind(self, client_key: str, session_id: str, *, replace: bool = False) -> None:
        good_id(client_key, "client key")
        with self.transaction(write=True) as tx:
            session = self._found(tx, session_id, write=True)
            then = "DO UPDATE SET session = excluded.session" if replace else "DO NOTHING"
            tx.execute(
                f"INSERT INTO bindings (client_key, session) VALUES (?, ?) ON CONFLICT (client_key) {then}",  # noqa: S608
                (client_key, session.key),
            )
            known = _bound(tx, client_key)
            if known != session_id:
                raise bound_to(known)

    def resolve(self, client_key: str) -> str | None:
        if not is_id(client_key):
            return None
        with self.transaction(write=False) as tx:
            return _bound(tx, client_key)

    def prompt_deltas(self, session_id: str) -> Sequence[DeltaRow]:
        with self.transaction(write=False) as tx:
            self._found(tx, session_id)
            return kept_rows(tx, session_id)

    def checkpoint(self, session_id: str) -> Checkpoint | None:
        with self.transaction(write=False) as tx:
            session = self._found(tx, session_id)
            rows = tx.execute("SELECT number, digest, format, data FROM checkpoints WHERE session = ?", (session.key,))
            for number, digest, reader, data in typed(rows, int, bytes, bytes, bytes):
                return Checkpoint(number, decoded(digest) or "", decoded(reader) or "", data)
            return None

    def save_checkpoint(self, session_id: str, checkpoint: Checkpoint) -> None:
        with self.transaction(write=True) as tx:
            session = self._found(tx, session_id, write=True)
            tx.execute(
                "INSERT INTO checkpoints (session, number, digest, format, data) VALUES (?, ?, ?, ?, ?) "
                "ON CONFLICT (session) DO UPDATE SET number = excluded.number, digest = excluded.digest, "
                "format = excluded.format, data = excluded.data",
                (session.key, checkpoint.number, encoded(checkpoint.digest), encoded(checkpoint.format),
                 bytes(checkpoint.data)),
            )  # fmt: skip

    # the whole store

    def verify(self, session_id: str | None = None) -> Verified:
        """Recompute every digest, and compare rows with the events they come from. Costs O(bytes).

        Each session is looked at in one transaction of its own; a part that the database cannot read is damage.
        """
        if session_id is not None:
            verified = self._verify(session_id)
            if verified is None:
                raise UnknownSessionError(session_id)
            return replace(verified, notes=self.notes())
        damage, names = [*self.integrity()], list[str]()
        try:
            with self.transaction(write=False) as tx:
                names = sorted(_parents(tx))
                damage += orphans(tx)
        except DamagedError as error:
            damage.append(Damage(None, None, "tables", error.message, "the sessions that can be listed"))
        seen = list(filter(None, map(self._verify, names)))  # None: deleted since it was listed
        damage += [each for session in seen for each in session.damage]
        return Verified(len(seen), sum(session.events for session in seen), tuple(damage), self.notes())

    def _verify(self, session_id: str) -> Verified | None:
        try:
            with self.transaction(write=False) as tx:
                session = self._find(tx, session_id)
                return None if session is None else verify_session(session)
        except DamagedError as error:
            damage = Damage(session_id, None, "sessions row", error.message, "nothing is known of it")
            return Verified(1, 0, (damage,))

    def salvage(self, session_id: str) -> Salvaged:
        """Return the events whose digest follows from the one before; none where its own row cannot be read."""
        with self.transaction(write=False) as tx:
            return salvaged(self._found(tx, session_id))

    # looking up

    def _find(self, tx: Transaction, session_id: str, *, write: bool = False) -> SqlSession | None:
        if not is_id(session_id):
            return None
        lock = self.lock if write else ""
        rows = tx.execute(f"SELECT {COLUMNS} FROM sessions WHERE session_id = ?{lock}", (session_id,))  # noqa: S608
        return SqlSession(tx, rows[0]) if rows else None

    def _found(self, tx: Transaction, session_id: str, *, write: bool = False) -> SqlSession:
        session = self._find(tx, session_id, write=write)
        if session is None:
            raise UnknownSessionError(session_id)
        return session


def _parents(tx: Transaction) -> dict[str, str | None]:
    """Return all sessions with their parents."""
    return dict(typed(tx.execute("SELECT session_id, parent_session_id FROM sessions"), str, str | None))


def _bound(tx: Transaction, client_key: str) -> str | None:
    rows = tx.execute(
        "SELECT session_id FROM bindings JOIN sessions USING (session) WHERE client_key = ?", (client_key,)
    )
    return typed(rows, str)[0][0] if rows else None


def _insert(tx: Transaction, header: SessionHeader, head: Head, size: int, used: Activity) -> int | None:
    """Insert the row of a session; None where there is one."""
    rows = tx.execute(
        "INSERT INTO sessions (session_id, project_id, parent_session_id, created_at, metadata, head_number, "
        "head_digest, head_note, size, user_id, agent_id, turns, used_at) "
        "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (session_id) DO NOTHING RETURNING session",
        (header.session_id, header.project_id, header.parent_session_id, encoded(header.at), EMPTY, head.number,
         bytes.fromhex(head.digest), bytes.fromhex(head.note), size, encoded(header.user_id),
         encoded(header.agent_id), used.turns, encoded(used.used_at)),
    )  # fmt: skip
    return rows[0][0] if rows else None


def _used(used: Activity) -> dict[str, Value]:
    """Return the columns that say how far a session was used."""
    return {"turns": used.turns, "used_at": encoded(used.used_at)}


def _set(tx: Transaction, key: int, head: Head, columns: dict[str, Value]) -> None:
    """Write a session's head and other columns; their names come from this file alone."""
    columns = {
        "head_number": head.number, "head_digest": bytes.fromhex(head.digest), "head_note": bytes.fromhex(head.note),
        **columns,
    }  # fmt: skip
    names = ", ".join(f"{name} = ?" for name in columns)
    tx.execute(f"UPDATE sessions SET {names} WHERE session = ?", (*columns.values(), key))  # noqa: S608


def _damaged(damage: Sequence[Damage], session_id: str) -> DamagedError:
    """Return the error for the first place that is damaged."""
    if not damage:
        return DamagedError(f"session {session_id!r} is not as it was written", hint=HINT)
    first = damage[0]
    return DamagedError(f"session {session_id!r}: {first.place}: {first.message}; {first.recoverable}", hint=HINT)
