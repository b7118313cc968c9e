"""`postgresql://…`: sessions in a PostgreSQL database, safe under many writers.

In a database: schema `lore`, with the tables of `sql_tables` and one that says which version of it they are. It is made
where it is not there; a schema of that name that is another program's, or a newer lore's, is refused untouched.
Rules:
- who writes to a session holds its row (`FOR UPDATE`) until the end: writers of one session wait for each other,
  writers of different sessions do not;
- `synchronous_commit` is on for what lore writes, whatever the server's default is; with `fsync` off nothing helps, and
  `verify` says so;
- a connection that broke is made again, and the call done again, for some seconds (`postgres_link`).

Threads: an object is one connection, and calls wait for each other: open one for each thread that is to write at the
same time. Fork: a child process makes its own connection. Who may read: whoever the server lets in and GRANTs
schema `lore` to; a user that may only SELECT can list and load.

What the URL may say is libpq's (its documentation, section 34.1.1): `connect_timeout`, `sslmode`,
`options=-clock_timeout=60s` and so on; PGPASSWORD and ~/.pgpass keep a password out of it.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager
from functools import wraps
from typing import TYPE_CHECKING, Any, TypeVar, cast

from lore.store.base import FormatError, StoreError, Tell  # fmt: skip
from lore.store.registry import shown
from lore.store.sql import SqlStore
from lore.store.sql_tables import LATEST, POSTGRES, STEPS, TABLES, Transaction, refuse_newer, take

if TYPE_CHECKING:
    from lore.store.postgres_link import Cursor, Link

HINT = "pip install 'lore-cache[postgres]'"
_LOCK = 0x6C6F7265  # of the advisory lock under which the schema is made: "lore"
_STAMP = "CREATE TABLE lore_store (only_row BOOLEAN PRIMARY KEY CHECK (only_row), version BIGINT NOT NULL)"
_RELATIONS = (
    "SELECT relname FROM pg_catalog.pg_class JOIN pg_catalog.pg_namespace AS n ON n.oid = relnamespace "
    "WHERE nspname = 'lore' AND relkind IN ('r', 'p', 'v', 'm', 'f', 'S')"
)
_SIZE = (
    "SELECT coalesce(sum(pg_total_relation_size(c.oid)), 0)::bigint FROM pg_catalog.pg_class AS c "
    "JOIN pg_catalog.pg_namespace AS n ON n.oid = relnamespace WHERE nspname = 'lore' AND relkind = 'r'"
)
_NOTED = {
    "fsync": "the server runs with fsync off: what is acknowledged can be lost when its machine stops",
    "full_page_writes": "the server runs with full_page_writes off: pages can be torn when its machine stops",
}

F = TypeVar("F", bound=Callable[..., Any])


def _again(method: F) -> F:
    """Do a call again where its connection broke; each is done twice as if once."""

    @wraps(method)
    def call(self: Postgres, /, *args: Any, **kwargs: Any) -> Any:
        return self.link.again(lambda: method(self, *args, **kwargs))

    return cast("F", call)


class Postgres(SqlStore):
    """A store in schema `lore` of a PostgreSQL database."""

    lock = " FOR UPDATE"

    def __init__(self, link: Link) -> None:
        """Keep a link; `open` makes sure of what it leads to."""
        self.link, self.url = link, link.url

    @classmethod
    def open(cls, url: str, tell: Tell) -> Postgres:
        """Connect, and make the schema where it is missing or older.

        Raises FormatError for a schema that is another program's or newer, StoreError where there is no connection.
        """
        try:
            from lore.store.postgres_link import Link
        except ImportError as error:
            raise StoreError(f"PostgreSQL's client cannot be used: {error}", hint=HINT) from None
        store = cls(Link(url, shown(url), tell))
        try:
            store.prepare()
        except BaseException:
            store.close()
            raise
        return store

    @contextmanager
    def transaction(self, *, write: bool) -> Generator[Transaction]:
        from lore.store.postgres_link import READ, WRITE

        with self.link.transaction(WRITE if write else READ, "SELECT version FROM lore.lore_store") as tx:
            if tx.first != (LATEST,):
                self._refuse(-1 if tx.first is None else tx.first[0])
            yield tx

    def _refuse(self, version: int) -> None:
        refuse_newer(version, self.url)
        raise FormatError(f"{self.url} has schema version {version} by now, not {LATEST}", hint="open it again")

    @_again
    def prepare(self) -> None:
        """Make the schema, or what is missing of it. Writes nothing where it is there.

        Clients that open a new database at once wait for each other; those that write to an older schema are waited
        for, and refused afterwards.
        """
        from lore.store.postgres_link import READ, WRITE

        with self.link.transaction(READ) as tx:
            if self._version(tx) == LATEST:
                return
        with self.link.transaction(WRITE, f"SELECT pg_advisory_xact_lock({_LOCK})") as tx:
            version = self._version(tx)
            if version == LATEST:
                return
            if version == 0:
                self.begin_schema(tx)
            tx.execute("LOCK TABLE lore_store IN ACCESS EXCLUSIVE MODE")
            for step in STEPS[self._version(tx) :]:
                take(step, tx, POSTGRES)
                tx.execute("UPDATE lore_store SET version = ?", (step.version,))
        if version:
            self.link.tell(f"{self.url}: brought from schema version {version} to {LATEST}")

    def _version(self, tx: Cursor) -> int:
        """Return which version of the schema there is, 0 where there is none; raises FormatError."""
        names = {name for (name,) in tx.execute(_RELATIONS)}
        if not names:
            return 0
        rows = tx.execute("SELECT version FROM lore.lore_store") if "lore_store" in names else ()
        if len(rows) != 1:
            raise FormatError(
                f"{self.url}: schema lore is another program's ({', '.join(sorted(names)[:3])})",
                hint="give another database; nothing was changed",
            )
        refuse_newer(rows[0][0], self.url)
        return rows[0][0]

    def begin_schema(self, tx: Transaction) -> None:
        """Make schema lore, with its stamp and without a table."""
        if not tx.execute("SELECT 1 FROM pg_catalog.pg_namespace WHERE nspname = 'lore'"):
            tx.execute("CREATE SCHEMA lore")  # not IF NOT EXISTS, which asks for the right to create even so
        tx.execute(_STAMP)
        tx.execute("INSERT INTO lore_store VALUES (true, 0)")

    def delete(self, session_id: str) -> tuple[str, ...]:
        """Delete a session and its forks; see `Store`.

        Where COMMIT was not answered and the session is not there any more, it was this call that deleted it.
        """
        gone: tuple[str, ...] = ()

        def once() -> tuple[str, ...]:
            nonlocal gone
            with self.transaction(write=True) as tx:
                if gone and self._find(tx, session_id) is None:
                    return gone
                gone = self._delete(tx, session_id)
                return gone

        return self.link.again(once)

    def notes(self) -> tuple[str, ...]:
        with self.transaction(write=False) as tx:
            return tuple(note for name, note in _NOTED.items() if tx.execute(f"SHOW {name}") == [("off",)])

    @_again
    def vacuum(self) -> int:
        """Rewrite each table without dead rows, under an exclusive lock. Costs O(the store)."""
        before = self._size()
        self.link.alone(f"VACUUM (FULL, ANALYZE) lore.{table}" for table in sorted(TABLES))
        return max(0, before - self._size())

    def _size(self) -> int:
        with self.transaction(write=False) as tx:
            return tx.execute(_SIZE)[0][0]

    def close(self) -> None:
        self.link.close()


for _name in (
    "create", "load", "save", "save_delta", "list", "move", "bind", "resolve", "prompt_deltas", "checkpoint",
    "save_checkpoint", "verify", "salvage",
):  # fmt: skip
    setattr(Postgres, _name, _again(getattr(SqlStore, _name)))
