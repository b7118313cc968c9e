"""`lore sql`: a question about recordings that lore has no command for."""

from __future__ import annotations

import sys
import time
from contextlib import nullcontext
from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer

from lore.cli import common, flags

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager

    from lore.config import Loaded
    from lore.model.ledger import Ledger
    from lore.recording.inputs import Input
    from lore.recording.opening import Options
    from lore.run.checking.check import CheckOutcome
    from lore.run.spending.sql import SqlSource

SHOWN = 50  # rows
PARQUET = "parquet"


@common.quiet_pipe
def run(
    query: Annotated[str | None, typer.Argument(help="SQL as DuckDB has it; default: list tables and columns.")] = None,
    paths: Annotated[
        list[str] | None,
        typer.Argument(
            help="Recordings, or one folder of tables, here or in a bucket; default: where agents keep logs."
        ),
    ] = None,
    every: Annotated[bool, typer.Option("--all", help=f"Every row, not the first {SHOWN}.")] = False,
    as_csv: Annotated[bool, typer.Option("--csv", help="Every row, separated by commas.")] = False,
    no_cache: flags.NoCache = False,
    redact: flags.Redact = False,
    as_json: flags.AsJson = False,
    config: flags.Config = None,
    color: flags.Colour = None,
    verbose: flags.Verbose = False,
) -> int:
    """Ask in SQL what recordings cost and what was found in them.

    Three tables: turns (a row a request), sessions (a row a recording), findings (a row a finding of `lore check`).
    Requests that several recordings hold are `copied` in all but one: leave them out of sums.

    Recordings are read once, and what was read is kept in your cache folder, in numbers and names alone. A folder that
    `lore check … --report parquet=FOLDER` wrote is asked as it is. A query only reads, and nothing but these tables.
    Needs the extra `lore-cache[tables]`.
    """
    from lore.run.spending.sql import asked, checked, first
    from lore.run.spending.tables import needed

    common.refuse((as_json and as_csv, "--json and --csv are two answers", "leave one out"))
    if query is None:
        from lore.model.results.tables import TABLES, TablesResult
        from lore.report.queried import write_tables

        return common.answer(TablesResult(tables=TABLES), write_tables, as_json=as_json, color=color)
    needed()
    checked(query)
    tables = _tables(query, paths or [], common.found_settings(config), no_cache=no_cache, redact=redact, color=color,
                     verbose=verbose)  # fmt: skip
    with tables as source, asked(source.folder, query) as found:
        from lore.report.queried import write_csv_rows, write_json_rows, write_rows

        for failure in source.failed:
            common.tell(failure)
        code = 3 if source.failed else 0
        if as_csv:
            write_csv_rows(found.columns, found.rows, sys.stdout)
        elif as_json:
            write_json_rows(found.columns, found.types, found.rows, sys.stdout)
        else:
            from lore.model.results.tables import SqlResult

            rows, more = first(found.rows, None if every else SHOWN)
            write_rows(SqlResult(columns=found.columns, types=found.types, rows=rows, more=more), common.out(color))
    return code


def _tables(
    query: str, paths: list[str], loaded: Loaded, *, no_cache: bool, redact: bool, color: bool | None, verbose: bool
) -> AbstractContextManager[SqlSource]:
    """Return the folder of tables that is asked: the one that is named, or one that is made of recordings."""
    from lore.recording.recent import nothing
    from lore.run.checking.check import CheckContext, check
    from lore.run.spending.overview import gathered
    from lore.run.spending.sql import SqlSource, is_tables, made_tables, names_findings
    from lore.run.spending.tables import TablesRequest, WrittenTables, shortened, write_judged, write_tables

    folders = [path for path in paths if is_tables(path)]
    if folders:
        common.refuse(
            (len(paths) > 1, "a folder of tables is asked alone", "name it alone, or recordings"),
            (redact, "tables are asked as they were written", "give --redact where they are written: lore check"),
        )
        return nullcontext(SqlSource(folders[0]))
    found = gathered(common.surroundings(), paths, None)
    for failure in found.failed:
        common.tell(failure)
    if not found.logs:
        raise nothing(found.looked)
    ledgers = common.ledgers_of(loaded, no_cache=no_cache, verbose=verbose, now=time.time())

    def write(folder: str) -> WrittenTables:
        with common.progress(wanted=not verbose, colour=color, what="reading") as shown:
            if not names_findings(query):
                return write_tables(
                    folder, TablesRequest(found.logs, redact=redact, jobs=common.cores()), ledgers, shown
                )
            files = [log.file for log in found.logs]
            settings, root = loaded.settings.check, "" if loaded.file is None else str(loaded.file.parent)
            context = CheckContext(
                settings.policy, root=root, redact=redact, dated=common.dated_rules(loaded), reader=settings.reader
            )
            judge = partial(
                check, found.looked, settings.budgets, ledgers.options, context=context, jobs=common.cores(),
                progress=shown, pass_over=True, files=files,
            )  # fmt: skip
            outcome, tables = write_judged(
                folder, lambda take: judge(tabled=take), ledgers, logs=found.logs, redact=redact
            )
            assert tables is not None, "nothing interrupts it but an exception"
            if short := shortened(outcome.result.findings):
                common.tell(short)
            return tables

    return made_tables(write)


def folder_among(reports: list[str]) -> tuple[list[str], str | None]:
    """Take `parquet=FOLDER` out of what --report asks for; raises LoreError where it cannot be written."""
    folders = [text.partition("=")[2] for text in reports if text.partition("=")[0] == PARQUET]
    if not folders:
        return reports, None
    from lore.errors import LoreError
    from lore.run.spending.tables import refuse

    if len(folders) > 1 or folders[0] in ("", "-"):
        raise LoreError("tables are written into one folder", hint=f"--report {PARQUET}=FOLDER")
    refuse(folders[0])
    return [text for text in reports if text.partition("=")[0] != PARQUET], folders[0]


def judge_into(
    folder: str, judge: Callable[[Callable[[Input, Ledger | None], None]], CheckOutcome], options: Options,
    loaded: Loaded, *, redact: bool,
) -> CheckOutcome:  # fmt: skip
    """Write the tables of recordings while they are judged, and say what is in them."""
    from lore.recording import corpus
    from lore.report.plain import counted
    from lore.run.spending.ledgers import Ledgers, folder_of
    from lore.run.spending.tables import shortened, write_judged

    ledgers = Ledgers(options, folder_of(common.surroundings()), dated=common.dated_rules(loaded), now=time.time())
    outcome, done = write_judged(folder, judge, ledgers, redact=redact)
    if done is not None:
        rows = ", ".join(f"{counted(number, 'row')} of {name}" for name, number in done.rows.items())
        common.tell(f"{corpus.show(folder)}: {rows}, {done.bytes / 1e6:,.2f} MB")
        if short := shortened(outcome.result.findings):
            common.tell(f"{corpus.show(folder)}: {short}")
    return outcome
