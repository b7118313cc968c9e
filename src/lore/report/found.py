"""Write the results of `lore sessions` and `lore formats` for a person."""

from __future__ import annotations

from datetime import datetime

from lore.model.fact import format_money
from lore.model.results.found import FormatsResult, FoundSession, FoundSessions
from lore.report.console import Console, line
from lore.report.plain import counted
from lore.report.table import TableColumn, TextTable, write_table

_AGES = ((86_400, "d"), (3_600, "h"), (60, "m"), (1, "s"))
_SESSION = (
    TableColumn("age", right=True), TableColumn("agent"), TableColumn("requests", right=True, drop=1),
    TableColumn("read", right=True, drop=2), TableColumn("wasted", right=True), TableColumn("unexplained", right=True),
    TableColumn("project"),
)  # fmt: skip
_DEEPER = " " * 4
_NEAR = 0.01  # costs that differ by less agree
_COLUMNS = ("requests", "bills", "system_prompt", "tools", "compaction")


def write_sessions(result: FoundSessions, out: Console, *, now: float) -> None:
    """Write three lines a session: its figures, title and path; then what was read, and what lore cannot read.

    Tokens are wasted that were re-billed without need: bare `lore` counts what was expected as re-billed, too.
    """
    rows = [_row(session, now) for session in result.sessions]
    table = TextTable(_SESSION, rows, out)
    if rows:
        table.write_head()
    for session, row in zip(result.sessions, rows, strict=True):
        table.write(row)
        if session.title:
            out.print(line(f"{_DEEPER}{session.title}"))
        out.print(line((f"{_DEEPER}{session.path}", "dim")))
        _write_message(session, out)
    for failure in result.failed:
        out.print(line((f"! {failure}", "yellow")))
    shown = f"{len(result.sessions):,} of {counted(result.found, 'session')}"
    more = ": --all shows and reads them all" if result.found > len(result.sessions) else ""
    read = f"{_size(result.read_bytes)} read of {_size(result.bytes)}"
    out.print(line(f"{shown}, {read}{more}" if result.found else "no sessions of agents that lore reads are here"))
    for logs in result.unread:
        what = f"{counted(logs.files, 'file')} in {logs.path}"
        out.print(line((f"not read: {logs.title}, {what}: {logs.message}", "yellow")))


def _write_message(session: FoundSession, out: Console) -> None:
    """Write what has to be known of a row's numbers: most of its requests have no bill, or it could not be read."""
    if session.requests and session.billed_requests and session.billed_requests * 2 < session.requests:
        billed = f"{session.billed_requests:,} of {session.requests:,} requests have a bill"
        out.print(line((f"{_DEEPER}{billed}", "yellow")))
    stated, priced = session.recorded_dollars, session.dollars
    if stated is not None and (priced is None or abs(stated - priced) > _NEAR * stated):
        known = "unknown" if priced is None else format_money(priced)
        out.print(line((f"{_DEEPER}cost: {known} by lore's prices, {format_money(stated)} as recorded", "yellow")))
    if session.message is not None:
        more = f" ({counted(session.problems, 'problem')})" if session.problems > 1 else ""
        out.print(line((f"{_DEEPER}! {session.message}{more}", "yellow")))


def _row(session: FoundSession, now: float) -> tuple[str, ...]:
    money = f"  ({format_money(session.paid_again_dollars)} wasted)" if session.paid_again_dollars else ""
    return (
        _age(session.written_at, now), session.agent, _number(session.requests), _number(session.read_tokens),
        _number(session.paid_again_tokens), _number(session.unexplained_tokens), (session.project or "-") + money,
    )  # fmt: skip


def _number(count: int | None) -> str:
    return "-" if count is None else f"{count:,}"


def _age(written: str | None, now: float) -> str:
    if written is None:
        return "-"
    seconds = max(0.0, now - datetime.fromisoformat(written).timestamp())
    unit, letter = next((part for part in _AGES if seconds >= part[0]), _AGES[-1])
    return f"{int(seconds // unit):,}{letter}"


def _size(size: int) -> str:
    return f"{size / 1e6:,.1f} MB" if size >= 100_000 else counted(size, "byte")


def write_formats(result: FormatsResult, out: Console) -> None:
    """Write a line a format: what it holds, how near it is to what was sent, what it can answer."""
    heads = ("format", "fidelity", *(name.replace("_", " ") for name in _COLUMNS), "what it is")
    rows = [
        (found.name, found.fidelity, *(getattr(found, name) for name in _COLUMNS),
         found.title + (f"; not in it: {found.lacks}" if found.lacks else ""))
        for found in result.formats
    ]  # fmt: skip
    write_table([TableColumn(head) for head in heads], rows, out)
    out.print(line(""))
    out.print(line(("named, and not read:", "bold")))
    for named in result.unread:
        out.print(line(f"  {named.what}: {named.message}"))
