"""Results as Parquet files: `turns.parquet`, `sessions.parquet`, `findings.parquet` in one folder.

Each file is written completely or not at all, in groups of rows, so that memory stays small. Values out of range for
their column (a count of more than 64 bits, an impossible time) are NULL. Needs PyArrow, the extra `tables`.

Columns contain only numbers and names, except `message` and `evidence`. Unknown values are NULL, never 0. Dollars are
US dollars; times are UTC, without a zone. Columns are only added, unless `VERSION` changes.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Generator, Iterable, Mapping
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from importlib import import_module
from typing import Any, BinaryIO, Literal, NamedTuple, TypeAlias, cast

import msgspec

from lore.errors import LoreError, install_hint
from lore.files import make_folder, replaced
from lore.model import CODES, Finding, mask_credentials
from lore.recording import show
from lore.run import TabledRecording, TabledRequest

VERSION = 1  # of the columns: `lore.tables` in the metadata of a file

Kind: TypeAlias = Literal["text", "texts", "integer", "number", "yes or no", "time"]


class Column(NamedTuple):
    """A column: its name, the kind of its values, their meaning and unit."""

    name: str
    kind: Kind
    meaning: str


_PATH = Column("path", "text", "the name of the recording, the same in all three tables")
_CHAIN = Column("chain", "text", "the conversation: main, or that of a subagent")
_LINE = Column("line", "integer", "the line of the recording")

TABLES: dict[str, tuple[Column, ...]] = {
    "turns": (
        _PATH,
        Column("session", "text", "the session: for files of subagents the path of the main file"),
        Column("agent", "text", "the agent that wrote the recording: Claude Code, Codex, …"),
        Column("project", "text", "the folder in which the agent worked"),
        _CHAIN,
        Column("subagent", "yes or no", "whether the chain is not the main one"),
        Column("turn", "integer", "number of the request in its chain, from 1"),
        _LINE,
        Column("sent_at", "time", "time of sending"),
        Column("answered_at", "time", "time of the first byte of the response"),
        Column("model", "text", "the model"),
        Column("client", "text", "the client with its version"),
        Column("gateway", "text", "the host of a recorded gateway, else empty"),
        Column("response_id", "text", "the id of the response at the provider"),
        Column("billed", "yes or no", "whether usage with a count of the prompt was recorded"),
        Column("prompt_tokens", "integer", "size of the prompt"),
        Column("uncached_tokens", "integer", "input neither read from nor written to the cache"),
        Column("read_tokens", "integer", "input read from the cache"),
        Column("write_tokens", "integer", "input written to the cache"),
        Column("output_tokens", "integer", "generated tokens"),
        Column("dollars", "number", "the whole cost: the sum of the next five columns"),
        Column("reading_dollars", "number", "reading the cache, as if no cached tokens had been lost"),
        Column("context_dollars", "number", "new input"),
        Column("output_dollars", "number", "output"),
        Column("tools_dollars", "number", "tools that the provider runs"),
        Column("again_dollars", "number", "re-billed: extra cost of tokens that were cached but not read"),
        Column("at_least", "yes or no", "whether a count or a price is unknown, so that the cost is higher"),
        Column("recorded_dollars", "number", "the cost that the log states itself"),
        Column("loss_code", "text", "the main cause of tokens that were not read; `lore explain CODE`"),
        Column("loss_name", "text", "the name of the cause"),
        Column("loss_kind", "text", "waste, expected or unattributable"),
        Column("loss_tokens", "integer", "tokens that were cached but not read"),
        Column("loss_names", "texts", "tools, servers, hooks or fields that the cause names, at most three"),
        Column("loss_lifetime", "number", "lifetime of the cache in seconds, if a pause was longer"),
        Column("appended", "yes or no", "if the prompt only grew: whether all cached tokens were read"),
        Column("compacted", "yes or no", "whether a compaction removed earlier messages"),
        Column("copied", "yes or no", "whether another recording has the same response: do not sum these rows"),
    ),
    "sessions": (
        _PATH,
        Column("session", "text", "the session"),
        Column("session_id", "text", "the id of the session in the recording"),
        Column("agent", "text", "the agent that wrote the recording"),
        Column("format", "text", "the format of the recording"),
        Column("project", "text", "the folder in which the agent worked"),
        Column("written_at", "time", "time of the last change"),
        Column("bytes", "integer", "size of the recording"),
        Column("requests", "integer", "number of requests"),
        Column("problems", "integer", "number of problems"),
        Column("message", "text", "why it could not be read completely"),
    ),
    "findings": (
        Column("code", "text", "the code of the finding; `lore explain CODE`"),
        Column("name", "text", "the name of the code"),
        Column("kind", "text", "waste, expected or unattributable"),
        Column("severity", "text", "error, warning or note"),
        _PATH,
        _CHAIN,
        Column("turn", "integer", "number of the request in its chain, as in turns; the second of a pair"),
        _LINE,
        Column("section", "text", "tools, system or messages"),
        Column("json_path", "text", "the place in the request body"),
        Column("byte_offset", "integer", "the first byte that differs"),
        Column("dialect", "text", "the API of the request"),
        Column("lost_bytes", "integer", "bytes after the difference that an earlier request had sent"),
        Column("lost_tokens", "integer", "tokens that were cached but not read"),
        Column("lost_dollars", "number", "their extra cost, compared with reading them"),
        Column("tokens", "text", "source of the counts: billed or estimated"),
        Column("fidelity", "text", "how exactly the recording contains the prompt"),
        Column("confidence", "text", "how certain the numbers are"),
        Column("strength", "text", "how well the evidence explains the loss"),
        Column("actor", "text", "who can act"),
        Column("times", "integer", "number of turns with this finding"),
        Column("more", "integer", "number of further places with the same code"),
        Column("paused", "number", "seconds without a request before it"),
        Column("message", "text", "the finding, in a sentence"),
        Column("fix", "text", "what to do"),
        Column("evidence", "text", "the evidence as JSON"),
        Column("fingerprint", "text", "identifies the same finding in other runs"),
    ),
}


ROWS = 20_000  # of a group, which is kept in memory and then written
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC).replace(tzinfo=None)
_MAGIC = b"PAR1"
_MOST_MASKED = 4_096  # texts in the cache of masked texts, as names repeat often


@contextmanager
def parquet(folder: str) -> Generator[ParquetTables]:
    """Open the three tables in a folder; raises LoreError if they cannot be written there."""
    arrow = _arrow()
    shown = show(folder)
    if os.path.lexists(folder) and not os.path.isdir(folder):
        raise LoreError(f"{shown} is not a folder", hint="name one: --report parquet=FOLDER")
    for name in TABLES:
        path = _path(folder, name)
        if os.path.lexists(path) and not _is_parquet(path):
            raise LoreError(f"{show(path)} is not a table of lore", hint="name another folder")
    try:
        make_folder(folder)
        with ExitStack() as stack:
            files = {name: stack.enter_context(replaced(_path(folder, name))) for name in TABLES}
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
        raise LoreError(f"cannot write tables into {shown}: {reason}") from None


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
        self._kinds: dict[str, Kind] = {column.name: column.kind for column in TABLES[name]}
        metadata = {"lore.tables": str(VERSION), **{column.name: column.meaning for column in TABLES[name]}}
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
    "texts": lambda value: [_text(each) for each in cast("Iterable[object]", value or ())],
    "number": lambda value: float(value) if isinstance(value, (int, float)) and abs(value) < 1e300 else None,
}  # fmt: skip
