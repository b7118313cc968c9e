"""What `lore sql` answers, for a person: the rows of a query, or the tables that there are; and rows as CSV."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import IO

import orjson
from rich.console import Console

from lore.model.results.tables import SqlResult, TablesResult
from lore.report.console import line
from lore.report.forms.json_report import render
from lore.report.plain import cell, counted
from lore.report.table import TableColumn, write_table

_BATCH = 1_000  # rows that are encoded at a time
_FLOWS = ("message", "fix", "evidence")  # columns whose text may be long
_NUMBERS = ("BIGINT", "INTEGER", "DOUBLE", "HUGEINT", "FLOAT", "DECIMAL", "UBIGINT", "SMALLINT", "UINTEGER", "TINYINT")
_HEADS = (TableColumn("column"), TableColumn("type"), TableColumn(""))


def write_rows(result: SqlResult, out: Console) -> None:
    """Write the rows of a query."""
    flows = bool(result.columns) and result.columns[-1] in _FLOWS
    heads = [
        TableColumn(name, kind.startswith(_NUMBERS)) for name, kind in zip(result.columns, result.types, strict=True)
    ]
    rows = [list(map(_shown, row)) for row in result.rows]
    write_table(heads, rows, out, flows=flows)
    more = ", and there are more: --all, --csv or --json gives every row" if result.more else ""
    out.print(line((f"{counted(len(rows), 'row')}{more}", "dim")))


def _shown(value: object) -> str:
    match value:
        case None:
            return "-"
        case bool():
            return "yes" if value else "no"
        case int():
            return f"{value:,}"
        case float():
            return f"{value:,.4g}" if abs(value) < 1_000 else f"{value:,.0f}"
        case str():
            return value
        case _:
            return orjson.dumps(value).decode()


def write_csv_rows(columns: list[str], rows: Iterable[list[object]], out: IO[str]) -> None:
    """Write rows as they come, separated by commas; what is unknown is empty, a list is JSON."""
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(list(map(cell, columns)))
    for row in rows:
        writer.writerow([
            cell(orjson.dumps(value).decode() if isinstance(value, (list, dict)) else value) for value in row
        ])  # fmt: skip


def write_json_rows(columns: list[str], types: list[str], rows: Iterator[list[object]], out: IO[str]) -> None:
    """Write a `SqlResult` of all rows as they come: the bytes that `render` gives of it."""
    batch = list(islice(rows, _BATCH))
    before, _, after = render(SqlResult(columns=columns, types=types, rows=[])).rpartition('"rows":[]')
    out.write(f'{before}"rows":[')
    parted = ""
    while batch:
        out.write(parted + render(batch)[1:-1])
        parted, batch = ",", list(islice(rows, _BATCH))
    out.write(f"]{after}\n")


def write_tables(result: TablesResult, out: Console) -> None:
    """Write the tables that there are, with what their columns mean."""
    for name, columns in result.tables.items():
        out.print(line((name, "bold")))
        rows = [(f"  {column.name}", column.kind, column.meaning) for column in columns]
        write_table(_HEADS, rows, out, head=False)
        out.print()
    example = "SELECT loss_name, count(*), sum(again_dollars) FROM turns WHERE NOT copied GROUP BY ALL ORDER BY 3 DESC"
    out.print(line(f'lore sql "{example}"'))
