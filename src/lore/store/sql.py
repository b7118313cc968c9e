"""A store in an SQL database: everything that sqlite and PostgreSQL share.

A database gives what is abstract in `SqlStore`: a transaction, an error in lore's words for each of its own, a check
of its files, vacuum and close. Rules:
- a call is one transaction; what reads sees one state of the store;
- what writes to a session holds it alone: sqlite's one writer, the lock on the session's row in PostgreSQL (`lock`);
- a delta costs a look at the session's row and at its last event, and the rows that are new: nothing is counted and
  nothing summed up;
- `load` derives the digest of what it read and compares it with the stored one, so that a line that was changed, is
  missing, or out of order is an error, never less than was stored;
- `verify` compares each row with the one before it, and derived rows with the events: one changed line is found alone,
  since the next event follows from the stored digest; a changed digest is told from a changed line by whether the next
  event follows from the derived one. An event is surely whole where its digest follows from the one stored before it.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from itertools import pairwise
from typing import ClassVar, NamedTuple, TypeVar

from msgspec.structs import replace

from lore.store.base import (
    DamagedError,
    DamagedPlace,
    DeltaRow,
    Head,
    SessionData,
    SessionSummary,
    StoreError,
    UnknownSessionError,
    Verified,
)
from lore.store.deltas import AddingStore, Addition, Decide, bound_to, with_forks
from lore.store.lines import SEED, activity, follow, good_id, is_id, note, put_together, read_header, rows_of
from lore.store.sql_tables import (
    COLUMNS,
    Event,
    SqlSession,
    SqlTransaction,
    columns_of,
    events_of,
    kept_rows,
    put_events,
    put_rows,
    typed,
)

_T = TypeVar("_T")


class SqlStore(AddingStore):
    """Sessions in the tables of `sql_tables`."""

    lock: ClassVar[str] = ""  # ends a SELECT of a session's row that will be written

    @abstractmethod
    def transaction(self, *, write: bool) -> AbstractContextManager[SqlTransaction]:
        """Open a transaction: committed at its end, rolled back on an error.

        One that does not write sees one state of the store from its first statement on. Errors of the database
        leave it as StoreError or DamagedError.
        """

    def integrity(self) -> Sequence[DamagedPlace]:
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

    def load(self, session_id: str, *, after: int = 0) -> SessionData:
        after = max(0, after)
        with self.transaction(write=False) as tx:
            session = self._found(tx, session_id)
            state, head = session.state, session.head
            start = min(after, head.number)
            lines, base = session.lines(start), session.digest(start)
            last = None if base is None else [bytes.fromhex(base), *follow(bytes.fromhex(base), lines)][-1].hex()
            whole = len(lines) == head.number - start and last == head.digest
            if not whole or note(state.leaf_id, state.metadata) != head.note:
                raise _damaged(verify_session(session).damage, session_id)
        return state.data(lines, after + 1)

    def _write(self, session_id: str, decide: Decide[_T]) -> _T:
        with self.transaction(write=True) as tx:
            while True:
                session = self._find(tx, session_id, write=True)
                if session is not None:
                    session.check()
                result, addition = decide(session)
                if addition is None or _add(tx, session, addition):
                    return result

    def delete(self, session_id: str) -> tuple[str, ...]:
        with self.transaction(write=True) as tx:
            return self._delete(tx, session_id)

    def _delete(self, tx: SqlTransaction, session_id: str) -> tuple[str, ...]:
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
            damage.append(DamagedPlace(None, None, "tables", error.message, "the sessions that can be listed"))
        return Verified.of((Verified(0, 0, tuple(damage)), *map(self._verify, names)), notes=self.notes())

    def _verify(self, session_id: str) -> Verified | None:
        try:
            with self.transaction(write=False) as tx:
                session = self._find(tx, session_id)
                return None if session is None else verify_session(session)
        except DamagedError as error:
            damage = DamagedPlace(session_id, None, "sessions row", error.message, "nothing is known of it")
            return Verified(1, 0, (damage,))

    # looking up

    def _find(self, tx: SqlTransaction, session_id: str, *, write: bool = False) -> SqlSession | None:
        if not is_id(session_id):
            return None
        lock = self.lock if write else ""
        rows = tx.execute(f"SELECT {COLUMNS} FROM sessions WHERE session_id = ?{lock}", (session_id,))  # noqa: S608
        return SqlSession(tx, rows[0]) if rows else None

    def _found(self, tx: SqlTransaction, session_id: str, *, write: bool = False) -> SqlSession:
        session = self._find(tx, session_id, write=write)
        if session is None:
            raise UnknownSessionError(session_id)
        return session


def _parents(tx: SqlTransaction) -> dict[str, str | None]:
    """Return all sessions with their parents."""
    return dict(typed(tx.execute("SELECT session_id, parent_session_id FROM sessions"), str, str | None))


def _bound(tx: SqlTransaction, client_key: str) -> str | None:
    rows = tx.execute(
        "SELECT session_id FROM bindings JOIN sessions USING (session) WHERE client_key = ?", (client_key,)
    )
    return typed(rows, str)[0][0] if rows else None


def _add(tx: SqlTransaction, session: SqlSession | None, addition: Addition) -> bool:
    """Write what comes behind a session; False where a new one was made by another since it was looked for."""
    state, then = addition.state, addition.then()
    columns = columns_of(then, None if session is None else state)
    values = tuple(columns.values())
    if session is None:
        names, places = ", ".join(columns), ", ".join("?" * len(columns))  # names come from this file alone
        sql = f"INSERT INTO sessions ({names}) VALUES ({places}) ON CONFLICT (session_id) DO NOTHING RETURNING session"  # noqa: S608
        rows = tx.execute(sql, values)
        if not rows:
            return False
        key = rows[0][0]
        put_events(tx, key, 1, (addition.header or b"",), (bytes.fromhex(state.head.digest),))
    else:
        key = session.key
        names = ", ".join(f"{name} = ?" for name in columns)
        tx.execute(f"UPDATE sessions SET {names} WHERE session = ?", (*values, key))  # noqa: S608
        if "project_id" in columns:
            sql = "UPDATE prompt_deltas SET project_id = ? WHERE session_id = ?"
            tx.execute(sql, (then.project_id, then.session_id))
    put_events(tx, key, state.head.number + 1, addition.lines, addition.digests)
    put_rows(tx, then.session_id, then.project_id, rows_of(addition.lines))
    return True


def _damaged(damage: Sequence[DamagedPlace], session_id: str) -> DamagedError:
    """Return the error for the first place that is damaged."""
    if not damage:
        return DamagedError(f"session {session_id!r} is not as it was written")
    first = damage[0]
    return DamagedError(f"session {session_id!r}: {first.place}: {first.message}; {first.recoverable}")


# is what is stored what was written?


class _Found(NamedTuple):
    number: int | None
    place: str
    message: str


class _Read(NamedTuple):
    """A session's events as far as the database can read them, which of them are surely whole, what is damaged."""

    events: list[Event]
    whole: list[int]
    found: list[_Found]


def verify_session(session: SqlSession) -> Verified:
    """Compare all that is stored of one session with what its events say. Costs O(bytes)."""
    read = _read(session)
    saved = _recoverable(read.whole)
    return Verified(
        1, len(read.events), tuple(DamagedPlace(session.summary.session_id, *each, saved) for each in read.found)
    )


def _read(session: SqlSession) -> _Read:
    summary, head, noted = session.summary, session.summary.head, note(session.leaf_id, session.metadata)
    events, good, failure = list[Event](), list[int](), None
    try:
        for part in events_of(session.tx, session.key):
            events += part
    except StoreError as error:  # a page that the database cannot read: what was read before it stands
        failure = error
    inside = [event for event in events if event.number <= head.number]
    found = _compared(inside, good)
    if failure is None:
        found += _ends(events, inside, head)
        derived = put_together(summary.session_id, summary.project_id, rows_of(event.line for event in inside))
        try:
            found += [
                *_row(inside, session, noted, whole=not found),
                *_deltas(derived, kept_rows(session.tx, summary.session_id)),
            ]
        except StoreError as error:
            failure = error
    if failure is not None:
        last = inside[-1].number if inside else 0
        message = f"the database cannot read them: {failure}"
        found.append(_Found(last + 1, f"events behind row {last}", message))
    return _Read(inside, good, found)


def _compared(events: Iterable[Event], good: list[int]) -> list[_Found]:
    """Compare each event with the one before it; put down the numbers of those that follow."""
    found: list[_Found] = []
    last, before = 0, SEED  # the last event seen, and the digest stored with it
    derived: bytes | None = None  # the digest that it should have, where it has another
    for number, line, digest in events:
        place = f"events row {number}"
        if number != last + 1:
            found.append(_Found(last + 1, f"events row {last + 1}", f"{_span(last + 1, number - 1)} missing"))
            found.append(_Found(number, place, "it cannot be checked: what came before is missing"))
        elif (follows := follow(before, (line,))[0]) == digest:
            derived = None
            good.append(number)
        elif derived is not None and follow(derived, (line,))[0] == digest:
            found[-1] = _Found(last, f"events row {last}", "its digest is damaged, its line is whole")
            derived = None
            good += [last, number]
        else:
            found.append(_Found(number, place, "its line is not as it was written"))
            derived = follows
        last, before = number, digest
    return found


def _ends(events: Sequence[Event], inside: Sequence[Event], head: Head) -> Iterator[_Found]:
    """Compare the last event with the stored head."""
    following = head.number + 1
    if len(events) > len(inside):
        yield _Found(
            following, f"events row {following}", f"{_span(following, events[-1].number)} behind the stored head"
        )
    last, digest = (inside[-1].number, inside[-1].digest) if inside else (0, SEED)
    if last < head.number:
        yield _Found(last + 1, f"events row {last + 1}", f"{_span(last + 1, head.number)} missing")
    elif digest.hex() != head.digest:
        yield _Found(None, "sessions row", "its digest is not that of the last event")


def _span(first: int, last: int) -> str:
    return f"event {first} is" if first == last else f"events {first} to {last} are"


def _row(events: Sequence[Event], session: SqlSession, noted: str, *, whole: bool) -> Iterator[_Found]:
    """Compare the session's row with its events, of which `whole` says that none is damaged."""
    summary, count = session.summary, len(events)
    if noted != session.head.note:
        yield _Found(None, "sessions row", "leaf or metadata are not as they were written")
    size = sum(len(event.line) for event in events) + count
    if count and events[-1].number == session.head.number == count and size != summary.size:
        yield _Found(None, "sessions row", f"its size is {summary.size}, that of its events {size}")
    if not events or events[0].number != 1:
        return
    try:
        header = read_header(events[0].line)
    except StoreError as error:
        yield _Found(1, "events row 1", error.message)
        return
    if (header.session_id, header.parent_session_id) != (summary.session_id, summary.parent_session_id):
        yield _Found(1, "sessions row", "its id or its parent is not that of the header")
    if (header.user_id, header.agent_id) != (summary.user_id, summary.agent_id):
        yield _Found(1, "sessions row", "its user or its agent is not that of the header")
    if whole and activity([event.line for event in events]) != (summary.turns, summary.used_at):
        yield _Found(None, "sessions row", "its turns or its last use are not those of its events")


def _deltas(derived: Iterable[DeltaRow], kept: Iterable[DeltaRow]) -> Iterator[_Found]:
    """Compare rows of prompt deltas with those that the events give."""
    logged, there = {row.seq: row for row in derived}, {row.seq: row for row in kept}
    for seq in sorted(logged.keys() | there.keys()):
        if logged.get(seq) == there.get(seq):
            continue
        message = "it is not as the events say" if seq in there else "it is missing"
        message = message if seq in logged else "no event says it"
        yield _Found(None, f"prompt_deltas row {seq}", message)


def _recoverable(good: list[int]) -> str:
    """Say which events are as they were written."""
    if not good:
        return "no event is surely as it was written"
    cuts = [0, *(at for at, (number, other) in enumerate(pairwise(good), 1) if other != number + 1), len(good)]
    spans = [(good[first], good[last - 1]) for first, last in pairwise(cuts)]
    words = [f"{first}" if first == last else f"{first} to {last}" for first, last in spans]
    some = " and ".join(filter(None, (", ".join(words[:-1]), words[-1])))
    return f"event {some} is as it was written" if len(good) == 1 else f"events {some} are as they were written"


_OF = "session NOT IN (SELECT session FROM sessions)"
_ORPHANS = {
    "events": f"SELECT session, count(*) FROM events WHERE {_OF} GROUP BY session",  # noqa: S608
    "bindings": f"SELECT client_key, count(*) FROM bindings WHERE {_OF} GROUP BY client_key",  # noqa: S608
    "prompt_deltas": "SELECT session_id, count(*) FROM prompt_deltas WHERE session_id NOT IN "
                     "(SELECT session_id FROM sessions) GROUP BY session_id",
}  # fmt: skip


def orphans(tx: SqlTransaction) -> list[DamagedPlace]:
    """Return the rows that belong to no session."""
    return [
        DamagedPlace(None, None, f"{table} of {name!r}", f"{count} rows belong to no session", "the rows themselves")
        for table, sql in _ORPHANS.items()
        for name, count in tx.execute(sql)
    ]
