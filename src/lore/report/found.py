"""Write the results of `lore sessions` and `lore formats` for a person."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

from lore.model.fact import format_money
from lore.model.results.found import FormatsResult, FoundSession, FoundSessions
from lore.report.commands import in_shell, shorten_path
from lore.report.console import Console, line
from lore.report.overview import cost_of, rebilled_of, share_read, unpriced_parts
from lore.report.plain import counted, last_part
from lore.report.status_line import span
from lore.report.table import TableColumn, write_table

_SESSION = (
    TableColumn("age", right=True), TableColumn("agent"), TableColumn("requests", right=True, drop=1),
    TableColumn("cost", right=True), TableColumn("share read", right=True, drop=2),
    TableColumn("re-billed", right=True), TableColumn("session"),
)  # fmt: skip
_NEAR = 0.01  # costs that differ by less agree
_RECORDED = {"requests": "requests", "bills": "usage", "system_prompt": "system", "tools": "tools",
             "compaction": "compaction"}  # fmt: skip


def write_sessions(result: FoundSessions, out: Console, *, now: float, home: str = "") -> None:
    """Write a table of sessions, with title and path; then how many there are, and logs that lore cannot read."""
    if result.sessions:
        rows = [_row(session, now) for session in result.sessions]
        below = [
            [f"    {text}" for text in (in_shell(session.path, home) or session.path, *_notes(session))]
            for session in result.sessions
        ]
        write_table(_SESSION, rows, out, below=below)
        if any(session.spending is not None and session.spending.at_least for session in result.sessions):
            out.print(line(("at least: some tokens (mostly output) or a price of the session are unknown", "dim")))
    for failure in result.failed:
        out.print(line((f"! {failure}", "yellow")))
    shown = f"{len(result.sessions):,} of {counted(result.found, 'session')}"
    more = ": --all lists all" if result.found > len(result.sessions) else ""
    out.print(line(f"{shown}{more}" if result.found else "no sessions of agents that lore reads are here"))
    for logs in result.unread:
        what = f"{counted(logs.files, 'file')} in {shorten_path(logs.path, home, 40)}"
        out.print(line((f"not read: {logs.title}, {what}: {logs.message}", "yellow")))


def _row(session: FoundSession, now: float) -> tuple[str, ...]:
    """Return the figures of a session with its project and title."""
    sums = session.spending
    figures = (
        ("-", "-", "-", "-") if sums is None
        else (f"{sums.requests:,}", cost_of(sums), share_read(sums), rebilled_of(sums))
    )  # fmt: skip
    project = last_part(session.project or "")
    name = ": ".join(filter(None, (project, session.title or "without a title")))
    latest = session.latest_at or session.written_at
    age = "-" if latest is None else span(max(0.0, now - datetime.fromisoformat(latest).timestamp()))
    return age, session.agent, *figures, name


def _notes(session: FoundSession) -> Iterator[str]:
    """Yield notes on the figures of a session."""
    if session.requests and session.billed_requests and session.billed_requests * 2 < session.requests:
        yield f"{session.billed_requests:,} of {session.requests:,} requests have recorded tokens"
    elif session.dollars is not None and (sums := session.spending) is not None and (sums.unpriced or sums.unbilled):
        yield unpriced_parts(sums)
    if session.copied:
        yield f"not counted here: {counted(session.copied, 'request')} copied from another session"
    stated, priced = session.recorded_dollars, session.dollars
    if stated is not None and (priced is None or abs(stated - priced) > _NEAR * stated):
        known = "unknown" if priced is None else format_money(priced)
        yield f"cost: {known} by lore's prices, {format_money(stated)} as recorded"
    if session.message is not None:
        more = f" ({counted(session.problems, 'problem')})" if session.problems > 1 else ""
        yield f"! {session.message}{more}"


def write_formats(result: FormatsResult, out: Console) -> None:
    """Write the fidelity of each format, the kinds of content that it records, and below them its description."""
    columns = [TableColumn(head) for head in ("format", "fidelity", *_RECORDED.values())]
    rows = [(found.name, found.fidelity, *(getattr(found, name) for name in _RECORDED)) for found in result.formats]
    below = [
        [f"    {found.title}", *([f"    without {found.lacks}"] if found.lacks else [])] for found in result.formats
    ]
    write_table(columns, rows, out, below=below)
    out.print(line(("fidelity: how close a prompt is to the bytes that were sent (lore guide formats)", "dim")))
    out.print()
    out.print(line(("recognised, and not read:", "bold")))
    for named in result.unread:
        out.print(line(f"  {named.what}: {named.message}"))
