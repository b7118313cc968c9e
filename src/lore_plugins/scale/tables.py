"""Results as Parquet files: `turns.parquet`, `sessions.parquet`, `findings.parquet` in one folder.

Each file is written completely or not at all, in groups of rows, so that memory stays small. Values out of range for
their column (a count of more than 64 bits, an impossible time) are NULL. Needs PyArrow, the extra `tables`.
`data/columns.toml` lists the columns.

Columns contain only numbers and names, except `message` and `evidence`. Unknown values are NULL, never 0. Dollars are
US dollars; times are UTC, without a zone. Columns are only added, unless `VERSION` changes.
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Callable, Generator, Iterable, Mapping
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime, timedelta
from functools import cache, lru_cache
from importlib import import_module, resources
from typing import Any, BinaryIO, Literal, TypeAlias, cast

import msgspec

from lore.errors import LoreError, install_hint
from lore.files import make_folder, replaced
from lore.model import CODES, Finding, mask_credentials
from lore.recording import show
from lore.run import TabledRecording, TabledRequest

VERSION = 1  # of the columns: `lore.tables` in the metadata of a file

Kind: TypeAlias = Literal["text", "texts", "integer", "number", "yes or no", "time"]


@cache
def columns() -> dict[str, dict[str, tuple[Kind, str]]]:
    """Return kind and meaning of each column, by table and name."""
    text = resources.files("lore_plugins.scale").joinpath("data", "columns.toml").read_text("utf-8")
    return msgspec.convert(tomllib.loads(text), dict[str, dict[str, tuple[Kind, str]]])


ROWS = 20_000  # of a group, which is kept in memory and then written
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC).replace(tzinfo=None)
_MAGIC = b"PAR1"
_MOST_MASKED = 4_096  # texts in the cache of masked texts, as names repeat often


@contextmanager
def parquet(folder: str) -> Generator[ParquetTables]:
    """Open the three tables in a folder; raises LoreError if they cannot be written there."""
    arrow = _arrow()
    label = show(folder)
    if os.path.lexists(folder) and not os.path.isdir(folder):
        raise LoreError(f"{label} is not a folder", hint="name one: --report parquet=FOLDER")
    for name in columns():
        path = _path(folder, name)
        if os.path.lexists(path) and not _is_parquet(path):
            raise LoreError(f"{show(path)} is not a table of lore", hint="name another folder")
    try:
        make_folder(folder)
        with ExitStack() as stack:
            files = {name: stack.enter_context(replaced(_path(folder, name))) for name in columns()}
            tables = {name: _Table(arrow, name, file) for name, file in files.items()}
            try:
                yield ParquetTables(tables)
            finally:
                for table in tables.values():
                    table.close()
    except LoreError:
        raise
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise LoreError(f"cannot write tables into {label}: {reason}") from None


def _arrow() -> Any:
    """Return PyArrow, which has no types."""
    try:
        import_module("pyarrow.parquet")
        return import_module("pyarrow")
    except ImportError:
        message = "tables need PyArrow, which is not installed"
        raise LoreError(message, hint=install_hint("tables")) from None


def _path(folder: str, name: str) -> str:
    return os.path.join(folder, f"{name}.parquet")


def _is_parquet(path: str) -> bool:
    try:
        with open(path, "rb") as file:
            return os.path.isfile(path) and file.read(len(_MAGIC)) == _MAGIC
    except OSError:
        return False


class ParquetTables:
    """The tables while they are written: first rows of recordings, at the end rows of findings."""

    def __init__(self, tables: dict[str, _Table]) -> None:
        self._tables = tables

    def add(self, recording: TabledRecording) -> None:
        """Add a recording, and its requests."""
        ledger = recording.ledger
        self._tables["sessions"].add({
            **msgspec.structs.asdict(ledger), "session": recording.session, "agent": recording.agent,
            "session_id": ledger.session, "requests": len(ledger.rows), "written_at": ledger.written,
        })  # fmt: skip
        for request in recording.requests:
            self._tables["turns"].add(_turn(ledger.path, request))

    def finish(self, findings: Iterable[Finding]) -> str:
        """Add the findings and close the tables; return a text with the number of rows and bytes."""
        for finding in findings:
            row = msgspec.structs.asdict(finding)
            row["evidence"] = None if finding.evidence is None else msgspec.json.encode(finding.evidence).decode()
            self._tables["findings"].add({**row, "byte_offset": finding.offset})
        size = sum(table.end() for table in self._tables.values())
        rows = ", ".join(
            f"{table.count:,} {'row' if table.count == 1 else 'rows'} of {name}" for name, table in self._tables.items()
        )
        return f"{rows}, {size / 1e6:,.2f} MB"


class _Table:
    """A file to which rows are added."""

    def __init__(self, arrow: Any, name: str, file: BinaryIO) -> None:
        types = {
            "text": arrow.string(), "texts": arrow.list_(arrow.string()), "integer": arrow.int64(),
            "number": arrow.float64(), "yes or no": arrow.bool_(), "time": arrow.timestamp("ms"),
        }  # fmt: skip
        self._arrow, self._file = arrow, file
        meanings = columns()[name]
        self._kinds: dict[str, Kind] = {column: kind for column, (kind, _) in meanings.items()}
        metadata = {"lore.tables": str(VERSION), **{column: meaning for column, (_, meaning) in meanings.items()}}
        self._schema = arrow.schema([(key, types[kind]) for key, kind in self._kinds.items()], metadata)
        self._writer = arrow.parquet.ParquetWriter(file, self._schema, compression="zstd")
        self._rows: list[dict[str, object]] = []
        self.count = 0

    def add(self, row: Mapping[str, object]) -> None:
        """Add a row, by the names of its columns."""
        self._rows.append({name: _CELLS[kind](row.get(name)) for name, kind in self._kinds.items()})
        self.count += 1
        if len(self._rows) >= ROWS:
            self._write()

    def _write(self) -> None:
        self._writer.write_table(self._arrow.Table.from_pylist(self._rows, self._schema))
        self._rows.clear()

    def end(self) -> int:
        """Write the remaining rows and close the writer; return the bytes of the file."""
        self._write()
        self.close()
        return self._file.tell()

    def close(self) -> None:
        """Close the writer, which may be closed already."""
        self._writer.close()


def _turn(path: str, tabled: TabledRequest) -> dict[str, object]:
    request, row = tabled.request, tabled.request.row
    cells: dict[str, object] = {
        **msgspec.structs.asdict(row), "path": path, "session": request.session, "agent": request.agent,
        "project": request.project or None, "subagent": request.subagent, "turn": row.number,
        "sent_at": row.at, "answered_at": row.answered, "copied": tabled.copied,
    }  # fmt: skip
    if row.spent is not None:
        cells |= {f"{name}_dollars": paid for name, paid in msgspec.structs.asdict(row.spent).items()}
        cells["dollars"] = row.spent.total
    if row.recorded is not None:
        cells["recorded_dollars"] = row.recorded.dollars
    if row.loss is not None:
        cells |= {f"loss_{name}": value for name, value in msgspec.structs.asdict(row.loss).items()}
        cells["loss_name"] = CODES[row.loss.code].name
    return cells


_masked = lru_cache(_MOST_MASKED)(mask_credentials)


def _text(value: object) -> str | None:
    """Return text without credentials; lone surrogates, which UTF-8 cannot encode, become escapes."""
    return None if value is None else _masked(str(value)).encode("utf-8", "backslashreplace").decode()


def _integer(value: object) -> int | None:
    return value if isinstance(value, int) and -(2**63) <= value < 2**63 else None


def _time(value: object) -> datetime | None:
    try:
        return _EPOCH + timedelta(seconds=value) if isinstance(value, (int, float)) else None
    except (OverflowError, ValueError):
        return None


_CELLS: dict[Kind, Callable[[Any], object]] = {
    "text": _text, "integer": _integer, "time": _time, "yes or no": lambda value: value,
    "texts": lambda value: [_text(text) for text in cast("Iterable[object]", value or ())],
    "number": lambda value: float(value) if isinstance(value, (int, float)) and abs(value) < 1e300 else None,
}  # fmt: skip
