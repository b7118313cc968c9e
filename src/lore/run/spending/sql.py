"""A question in SQL about recordings: what `lore sql` answers.

In: a query, and recordings or a folder of tables (`tables.py`), here or in a bucket. Out: names and types of columns,
and rows of JSON values, as they come. Rules: DuckDB runs in this process, and may read these tables and nothing else:
no file, no network, no extension, no setting; one statement that reads, so nothing is written but what does not fit
into MEMORY, into a folder that goes with the answer. Tables in a bucket are not copied: DuckDB reads the columns that
it needs, through lore's own client. Times are in UTC, wherever this machine stands. DuckDB computes in a thread, so
that Ctrl-C ends it. Findings are looked for where the query names them. Needs PyArrow and DuckDB, the extra `tables`.
"""

from __future__ import annotations

import math
import os
import re
import tempfile
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import closing, contextmanager
from datetime import UTC, date, datetime, time
from decimal import Decimal
from importlib import import_module
from itertools import islice
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple, TypeVar, cast

from lore.errors import LoreError, Where
from lore.model.results.tables import TABLES, VERSION
from lore.recording import corpus, filesystem
from lore.run.spending.tables import WrittenTables, table_path

if TYPE_CHECKING:
    import duckdb

MEMORY = "1GB"
SPILLED = "10GB"  # of what does not fit into memory, on disk
BATCH = 1_000  # rows that are fetched at a time
_SCHEME = "lore"  # of remote tables, in DuckDB's eyes
_WRITE = "lore check RECORDINGS --report parquet=FOLDER"
_REMOTE = "pip install 'lore-cache[remote]'"
_READS = ("SELECT", "EXPLAIN")
_LOCKED = (
    "SET enable_progress_bar = false",  # it stands on standard output
    "SET TimeZone = 'UTC'", "SET autoinstall_known_extensions = false", "SET autoload_known_extensions = false",
    "SET allowed_directories = [{folder}]", "SET enable_external_access = false", "SET lock_configuration = true",
)  # fmt: skip
_PLACE = re.compile(r"\n\nLINE (\d+): (.*)\n( *)\^", re.DOTALL)
_FINDINGS = re.compile(r"\bfindings\b", re.IGNORECASE)

T = TypeVar("T")


class Rows(NamedTuple):
    """What a query answers: rows come as they are asked for, as JSON has them."""

    columns: list[str]
    types: list[str]
    rows: Iterator[list[object]]


def is_tables(path: str) -> bool:
    """Tell whether a folder holds tables, as `--report parquet=FOLDER` writes them; LoreError: it is one."""
    if path.lower().startswith(("http://", "https://")):  # of a web server nobody hears what is there
        return False
    if path.endswith(".parquet") and filesystem.is_file(path):
        folder = corpus.show(os.path.dirname(path) or ".")
        raise LoreError(f"{corpus.show(path)} is one table", hint=f"name its folder: {folder}")
    return filesystem.is_file(table_path(path, "turns"))


def names_findings(query: str) -> bool:
    """Tell whether a query may ask for findings."""
    return _FINDINGS.search(query) is not None


class SqlSource(NamedTuple):
    """A folder of tables, and the recordings that are not in them, with why."""

    folder: str
    failed: Sequence[str] = ()


@contextmanager
def made_tables(write: Callable[[str], WrittenTables]) -> Generator[SqlSource]:
    """Write tables into a folder of their own for as long as they are asked; raises LoreError where they lack all."""
    with tempfile.TemporaryDirectory(prefix="lore-sql-") as folder:
        written = write(folder)
        if not written.rows["turns"] and len(written.failed) == written.rows["sessions"]:
            raise LoreError(
                next(iter(written.failed), "there are no recordings"), hint="`lore formats` lists what is read"
            )
        yield SqlSource(folder, written.failed)


def checked(query: str) -> None:
    """Raise LoreError, before recordings are read, where a query could not be asked of any tables."""
    with tempfile.TemporaryDirectory(prefix="lore-sql-") as nothing, asked(nothing, query, explained=True):
        pass


@contextmanager
def asked(folder: str, query: str, *, explained: bool = False) -> Generator[Rows]:
    """Run a query over a folder of tables; raises LoreError for what is none, or may not be.

    A table that the folder lacks has no rows. With `explained` it is planned and not run.
    """
    import duckdb  # noqa: PLC0415 - an extra

    with (
        tempfile.TemporaryDirectory(prefix="lore-sql-") as spilled,
        closing(
            duckdb.connect(
                config={"memory_limit": MEMORY, "temp_directory": spilled, "max_temp_directory_size": SPILLED}
            )
        ) as connection,
    ):
        _open(connection, folder)
        try:
            answer = _run(connection, query, explained=explained)
            described = answer.description or []
            names = [name for name, *_ in described]
            yield Rows(names, [str(kind) for _, kind, *_ in described], _rows(connection, answer))
        except duckdb.Error as error:
            raise _damaged(connection, folder, error) or _refused(query, str(error)) from None


def _open(connection: duckdb.DuckDBPyConnection, folder: str) -> None:
    """Make the tables known, then let nothing else be opened."""
    import duckdb  # noqa: PLC0415 - an extra

    place = os.path.join(folder, "")
    if filesystem.is_remote(folder):
        connection.register_filesystem(_bucket())
        place = f"{_SCHEME}://{place}"
    for name, columns in TABLES.items():
        path = table_path(folder, name)
        if not _is_there(path):
            nothing = ", ".join(f"NULL::{_NULLS[column.kind]} AS {column.name}" for column in columns)
            connection.execute(f"CREATE VIEW {name} AS SELECT {nothing} WHERE false")  # noqa: S608
            continue
        try:
            _fits(connection, path, _quoted(f"{place}{name}.parquet"))
            connection.execute(f"CREATE VIEW {name} AS SELECT * FROM read_parquet({_quoted(f'{place}{name}.parquet')})")  # noqa: S608
        except duckdb.Error as error:
            raise _unreadable(path, error) from None
    for statement in _LOCKED:
        connection.execute(statement.format(folder=_quoted(place)))


def _is_there(path: str) -> bool:
    """Tell whether there is a table; raises LoreError where that may not be known."""
    try:
        filesystem.status(path)
    except FileNotFoundError:
        return False
    except OSError as error:
        raise corpus.unreadable(path, error) from None
    return True


def _bucket() -> Any:
    """Return a file system, as DuckDB takes one, whose names are remote ones behind `lore://`."""
    try:
        base: Any = import_module("fsspec").AbstractFileSystem
    except ImportError:
        raise LoreError("tables in a bucket need fsspec, which is not installed", hint=_REMOTE) from None

    class BucketFilesystem(base):
        protocol, cachable = _SCHEME, False

        def _open(self, path: str, **_: object) -> BinaryIO:
            return filesystem.opened(path)

        def info(self, path: str, **_: object) -> dict[str, object]:
            path = path.removeprefix(f"{_SCHEME}://")
            return {"name": path, "size": filesystem.status(path).size or 0, "type": "file"}

        def modified(self, path: str) -> datetime:
            return datetime.fromtimestamp(0, UTC)  # nothing is kept by it

    return BucketFilesystem()


def _damaged(connection: duckdb.DuckDBPyConnection, folder: str, error: duckdb.Error) -> LoreError | None:
    """Name the table that cannot be read to its end, if that is why a query failed; costs a look at all of them.

    What DuckDB says of a damaged page names no file.
    """
    import duckdb  # noqa: PLC0415 - an extra

    if isinstance(error, (duckdb.ProgrammingError, duckdb.DataError, duckdb.OutOfMemoryException)):  # of the query
        return None
    for name in TABLES:
        try:
            connection.execute(f"SELECT max(hash({name})) FROM {name}").fetchall()  # noqa: S608
        except duckdb.Error as found:
            return _unreadable(table_path(folder, name), found)
    return None


def _unreadable(path: str, error: Exception) -> LoreError:
    reason = str(error).partition("\n")[0].replace(f"{_SCHEME}://", "")
    return LoreError(f"{corpus.show(path)} cannot be read: {reason}", hint=_WRITE, where=Where(corpus.show(path)))


_NULLS = {
    "text": "VARCHAR", "texts": "VARCHAR[]", "integer": "BIGINT", "number": "DOUBLE", "yes or no": "BOOLEAN",
    "time": "TIMESTAMP",
}  # fmt: skip


def _fits(connection: duckdb.DuckDBPyConnection, path: str, quoted: str) -> None:
    """Raise LoreError for tables of another version, and for files of others."""
    query = f"SELECT value FROM parquet_kv_metadata({quoted}) WHERE key = 'lore.tables'"  # noqa: S608
    found = connection.execute(query).fetchone()
    version = None if found is None else bytes(found[0]).decode("utf-8", "replace")
    if version != str(VERSION):
        other = "no table of lore's" if version is None else f"of version {corpus.show(version)}, not {VERSION}"
        raise LoreError(f"{corpus.show(path)} is {other}", hint=_WRITE)


def _quoted(path: str) -> str:
    return "'" + path.replace("'", "''") + "'"


def _run(
    connection: duckdb.DuckDBPyConnection, query: str, *, explained: bool
) -> duckdb.DuckDBPyConnection:  # fmt: skip
    statements = connection.extract_statements(query)
    if len(statements) != 1:
        raise LoreError("the query is empty" if not statements else "one query at a time", hint=_HINT)
    kind = statements[0].type.name
    if kind not in _READS:
        raise LoreError(f"{kind.lower()} is no query: tables are read, never written", hint=_HINT)
    asked_for = f"EXPLAIN {query}" if explained and kind == _READS[0] else statements[0]
    return _interruptible(connection, lambda: connection.execute(asked_for))


def _interruptible(connection: duckdb.DuckDBPyConnection, call: Callable[[], T]) -> T:
    """Return what a call of DuckDB's returns. It hears no Ctrl-C as long as it computes: its thread is told of it."""
    with ThreadPoolExecutor(1) as pool:
        future = pool.submit(call)
        try:
            return future.result()
        except KeyboardInterrupt:
            while not future.done():  # one that comes before a query begins is forgotten
                connection.interrupt()
                wait([future], 0.1)
            raise


_HINT = '`lore sql` lists the tables; lore sql "SELECT model, sum(dollars) FROM turns WHERE NOT copied GROUP BY model"'


def _refused(query: str, text: str) -> LoreError:
    """Put an error of DuckDB's into one sentence, with the line and column of the query that it is about."""
    message = _PLACE.split(text)[0].replace("\n", " ")
    kind, _, reason = message.partition(": ")
    place = _PLACE.search(text)
    where = ""
    if place is not None:
        lines = query.split("\n")
        number = int(place[1])
        column = len(place[3]) - len(f"LINE {number}: ") + 1
        cut = place[2].startswith("...")  # DuckDB shows the middle of a long line
        where = f" (line {number})" if cut or len(lines) < number else f" (line {number}, column {column})"
    if "disabled by configuration" in message:
        reason = "a query reads the tables of lore, and no other file"
    if kind.startswith("Out of Memory"):
        return LoreError(f"the query needs more than {MEMORY} of memory", hint="sum up, or ask for fewer rows")
    return LoreError(f"{reason or kind}{where}", hint="`lore sql` lists the tables and their columns")


def _rows(connection: duckdb.DuckDBPyConnection, answer: duckdb.DuckDBPyConnection) -> Iterator[list[object]]:
    while batch := _interruptible(connection, lambda: answer.fetchmany(BATCH)):
        for row in batch:
            yield list(map(plain, row))


def plain(value: object) -> object:
    """Return a value as JSON has it: times as ISO 8601, bytes in hexadecimal, what is no number as null."""
    match value:
        case bool() | None | str():
            return value
        case int():
            return value if abs(value) < 2**63 else float(value) if abs(value) < 2**1000 else str(value)
        case float():
            return value if math.isfinite(value) else None
        case Decimal():
            return float(value)
        case datetime():
            utc = value if value.tzinfo is None else value.astimezone(UTC).replace(tzinfo=None)
            return utc.isoformat(timespec="milliseconds") + "Z"
        case date() | time():
            return value.isoformat()
        case bytes():
            return value.hex()
        case list() | tuple():
            return list(map(plain, cast("Iterable[object]", value)))
        case dict():
            return {str(key): plain(each) for key, each in cast("dict[object, object]", value).items()}
        case _:
            return str(value)


def first(rows: Iterator[list[object]], most: int | None) -> tuple[list[list[object]], bool]:
    """Take at most so many rows; tell whether there are more."""
    found = list(islice(rows, most))
    return found, most is not None and next(rows, None) is not None
