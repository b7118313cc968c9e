"""Results as tables: what recordings cost and what was found in them, as Parquet files (`lore.model.results.tables`).

In: recordings, their ledgers, findings. Out: `turns.parquet`, `sessions.parquet`, `findings.parquet` in one folder.
Rules: each is written whole or not at all, in groups of rows as ledgers come, so memory does not grow with them; what a
column cannot hold (a count past 64 bits, a time past the calendar) is NULL. Needs PyArrow, the extra `tables`.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Mapping
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple, cast

import msgspec

from lore.errors import LoreError
from lore.files import make_folder, replaced
from lore.judge.spending import Copies, LedgerRequest
from lore.judge.totals import FINDINGS_KEPT
from lore.model.codes import CODES
from lore.model.ledger import Ledger
from lore.model.mask import mask
from lore.model.results import Finding
from lore.model.results.tables import TABLES, VERSION, Kind
from lore.recording import corpus
from lore.recording.agents.companions import session_of
from lore.recording.inputs import Input
from lore.recording.recent import written
from lore.report.redacted.results import redacted
from lore.run.spending.ledgers import Ledgers, placed
from lore.run.spending.overview import agent_of, every_request
from lore.run.spending.sessions import AgentLog

if TYPE_CHECKING:
    from lore.run.checking.check import CheckOutcome

ROWS = 20_000  # of a group: what is held before it is written
MAGIC = b"PAR1"
HINT = "pip install 'lore-cache[tables]'"
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC).replace(tzinfo=None)
_INTEGER = 2**63

Row = Mapping[str, object]


class WrittenTables(NamedTuple):
    """How many rows each table has, and the bytes of all."""

    rows: dict[str, int]
    bytes: int


def _needed() -> None:
    """Raise LoreError if PyArrow is not installed."""
    if find_spec("pyarrow") is None:
        raise LoreError("tables need PyArrow, which is not installed", hint=HINT)


def shortened(findings: Iterable[Finding]) -> str:
    """Say that a run kept no more findings than these; empty where it kept all."""
    most = max(Counter(finding.severity for finding in findings).values(), default=0)
    return f"findings holds the first {FINDINGS_KEPT:,} of each severity" if most >= FINDINGS_KEPT else ""


def refuse(folder: str) -> None:
    """Raise LoreError, before anything is read, where tables cannot be written, or only over files of others."""
    _needed()
    shown = corpus.show(folder)
    if "://" in folder:
        raise LoreError(f"cannot write {shown}: lore writes to this machine only", hint="name a folder here")
    if os.path.lexists(folder) and not os.path.isdir(folder):
        raise LoreError(f"{shown} is no folder", hint="name one: --report parquet=FOLDER")
    for name in TABLES:
        path = table_path(folder, name)
        if os.path.lexists(path) and not _is_parquet(path):
            raise LoreError(f"{corpus.show(path)} is no table of lore's", hint="name another folder")


def table_path(folder: str, name: str) -> str:
    """Return where a table lies."""
    return os.path.join(folder, f"{name}.parquet")


def _is_parquet(path: str) -> bool:
    try:
        with open(path, "rb") as file:
            return os.path.isfile(path) and file.read(len(MAGIC)) == MAGIC
    except OSError:
        return False


def write_judged(
    folder: str, judge: Callable[[Callable[[Input, Ledger | None], None]], CheckOutcome], ledgers: Ledgers, *,
    redact: bool = False,
) -> tuple[CheckOutcome, WrittenTables | None]:  # fmt: skip
    """Write the tables of recordings while they are judged; None of them where that is interrupted.

    `judge` hands over each file, in order, with its ledger; one that lacks it, since it could not be read or its result
    was kept, is read for it. Raises LoreError where tables cannot be written, and leaves what was there before.
    """
    try:
        with _tables(folder, redact=redact) as tables:

            def take(file: Input, ledger: Ledger | None) -> None:
                found = ledgers.of(file) if ledger is None else placed(ledger, file)
                if found is not None:
                    tables.add(AgentLog(None, file, written(file)), found)

            outcome = judge(take)
            if outcome.result.interrupted:
                raise _StoppedError(outcome)  # noqa: TRY301 - so that what was begun is left
            tables.add_findings(outcome.result.findings)
    except _StoppedError as stopped:
        return stopped.outcome, None
    return outcome, tables.written()


class _StoppedError(Exception):
    """The run was interrupted, and leaves no tables."""

    def __init__(self, outcome: CheckOutcome) -> None:
        super().__init__()
        self.outcome = outcome


@contextmanager
def _tables(folder: str, *, redact: bool) -> Generator[_Tables]:
    """Open tables to be written, whole or not at all; raises LoreError where that fails."""
    refuse(folder)
    try:
        make_folder(folder)
        with ExitStack() as stack:
            yield _Tables(folder, {name: stack.enter_context(_table(folder, name)) for name in TABLES}, redact=redact)
    except LoreError:
        raise
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise LoreError(f"cannot write tables into {corpus.show(folder)}: {reason}") from None


class _Tables:
    """Rows of recordings as they come, at the end those of findings."""

    def __init__(self, folder: str, tables: dict[str, _Table], *, redact: bool) -> None:
        self._folder, self._tables, self._redact = folder, tables, redact
        self._copies = Copies()

    def add(self, log: AgentLog, ledger: Ledger) -> None:
        """Add a recording."""
        shown = redacted(ledger) if self._redact else ledger
        self._tables["sessions"].add(_session(shown, log))
        for sent in every_request(shown, log):
            copied = self._copies.has(sent.row, log.file.path)
            self._tables["turns"].add({**_turn(shown.path, sent), "copied": copied})

    def add_findings(self, findings: Iterable[Finding]) -> None:
        """Add what was found in all."""
        for finding in findings:
            self._tables["findings"].add(_finding(finding))

    def written(self) -> WrittenTables:
        """Say what was written, when it is whole."""
        size = sum(os.path.getsize(table_path(self._folder, name)) for name in TABLES)
        return WrittenTables({name: table.count for name, table in self._tables.items()}, size)


@contextmanager
def _table(folder: str, name: str) -> Generator[_Table]:
    """Open a table to be written; its file takes its name at the end."""
    with replaced(table_path(folder, name)) as file:
        table = _Table(name, file)
        try:
            yield table
            table.write()
        finally:
            table.close()


class _Table:
    """A file that rows are added to."""

    def __init__(self, name: str, file: BinaryIO) -> None:
        arrow: Any = import_module("pyarrow")  # an extra, which has no types
        self._arrow = arrow

        types = {
            "text": arrow.string(), "texts": arrow.list_(arrow.string()), "integer": arrow.int64(),
            "number": arrow.float64(), "yes or no": arrow.bool_(), "time": arrow.timestamp("ms"),
        }  # fmt: skip
        self._kinds: dict[str, Kind] = {column.name: column.kind for column in TABLES[name]}
        metadata = {"lore.tables": str(VERSION), **{column.name: column.meaning for column in TABLES[name]}}
        self._schema = arrow.schema([(key, types[kind]) for key, kind in self._kinds.items()], metadata)
        self._writer = import_module("pyarrow.parquet").ParquetWriter(file, self._schema, compression="zstd")
        self._rows: list[dict[str, object]] = []
        self.count = 0

    def add(self, row: Row) -> None:
        """Add a row, by the names of its columns."""
        self._rows.append({name: _HELD[kind](row.get(name)) for name, kind in self._kinds.items()})
        self.count += 1
        if len(self._rows) >= ROWS:
            self.write()

    def write(self) -> None:
        """Write the rows that are held."""
        self._writer.write_table(self._arrow.Table.from_pylist(self._rows, self._schema))
        self._rows.clear()

    def close(self) -> None:
        """Write the end of the file."""
        self._writer.close()


# values that a column can hold


def _text(value: object) -> str | None:
    """Return text without credentials, as UTF-8 has it: half a surrogate pair, as recordings may say, is an escape."""
    return None if value is None else _masked(str(value)).encode("utf-8", "backslashreplace").decode()


_MOST_MASKED = 4_096  # texts that are remembered as they are shown: names come again and again
_masked = lru_cache(_MOST_MASKED)(mask)


def _texts(value: object) -> list[str | None]:
    return list(map(_text, cast("Iterable[object]", value or ())))


def _integer(value: object) -> int | None:
    return value if isinstance(value, int) and -_INTEGER <= value < _INTEGER else None


def _time(value: object) -> datetime | None:
    try:
        return _EPOCH + timedelta(seconds=value) if isinstance(value, (int, float)) else None
    except (OverflowError, ValueError):
        return None


_HELD: dict[Kind, Callable[[Any], object]] = {
    "text": _text, "texts": _texts, "integer": _integer, "time": _time,
    "number": lambda value: float(value) if isinstance(value, (int, float)) and abs(value) < 1e300 else None,
    "yes or no": lambda value: value,
}  # fmt: skip


# rows


def _session(ledger: Ledger, log: AgentLog) -> Row:
    path = log.file.path
    own = corpus.show(session_of(path) or path)
    return {
        **msgspec.structs.asdict(ledger), "session": own, "agent": agent_of(ledger, log), "session_id": ledger.session,
        "requests": len(ledger.rows), "written_at": ledger.written,
    }  # fmt: skip


def _turn(path: str, request: LedgerRequest) -> Row:
    row = request.row
    found: dict[str, object] = {
        **msgspec.structs.asdict(row), "path": path, "session": request.session, "agent": request.agent,
        "project": request.project or None, "subagent": request.subagent, "turn": row.number,
        "sent_at": row.at, "answered_at": row.answered,
    }  # fmt: skip
    if row.spent is not None:
        found |= {f"{name}_dollars": paid for name, paid in msgspec.structs.asdict(row.spent).items()}
        found["dollars"] = row.spent.total
    if row.loss is not None:
        found |= {f"loss_{name}": value for name, value in msgspec.structs.asdict(row.loss).items()}
        found["loss_name"] = CODES[row.loss.code].name
    return found


def _finding(finding: Finding) -> Row:
    row = msgspec.structs.asdict(finding)
    row["evidence"] = None if finding.evidence is None else msgspec.json.encode(finding.evidence).decode()
    return {**row, "byte_offset": finding.offset}
