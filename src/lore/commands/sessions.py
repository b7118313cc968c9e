"""`lore sessions`: the sessions that agents keep on this machine, the newest first.

A subagent's file belongs to its session; a session that cannot be read is a row with its problem. Cost: a look at every
log's name and time, then reading the shown ones without a kept ledger, up to `most_bytes`: a session beyond that is
listed and not counted.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from datetime import datetime
from functools import partial
from itertools import islice, takewhile
from typing import Annotated

import typer
from msgspec.structs import replace

from lore.commands import common, flags
from lore.errors import LoreError
from lore.judge.sums import Copies, Sums
from lore.model.fact import format_money
from lore.model.ledger import Ledger
from lore.model.results.found import FoundSession, FoundSessions
from lore.recording import corpus
from lore.recording.agents.limits import plan_notes
from lore.recording.agents.logs import AGENTS, Agent, Surroundings, agent_named
from lore.recording.agents.sessions import AgentLog, agent_logs, folder_of, newest_first
from lore.recording.base import load_plugins
from lore.recording.inputs import by_start
from lore.recording.titles import title_of
from lore.report.commands import OverviewSelection, in_shell, shorten_path
from lore.report.console import Console, TableColumn, line, write_table
from lore.report.overview import (
    cost_of,
    few_counted,
    rebilled_of,
    share_read,
    unpriced_parts,
    write_command,
    write_no_sessions,
)
from lore.report.plain import counted, day_of, last_part, when
from lore.report.status_line import span
from lore.run import recent
from lore.run.spending import overview
from lore.run.spending.ledgers import Ledgers, Progress

MOST_BYTES = 256 * 1024 * 1024  # bytes read for one answer: some seconds
SHOWN = 20
NOT_COUNTED = "not counted: --all reads it"
NO_RECORDING = "unrecognised format"


def run(
    agent: flags.Agent = None,
    since: flags.Since = None,
    project: flags.Project = None,
    limit: Annotated[
        int, typer.Option("--limit", "-n", min=1, help="At most this many, those with the newest requests.")
    ] = SHOWN,
    every: Annotated[bool, "--all", "All of them, each read to its end: as long as `lore check` takes."] = False,
    no_cache: flags.NoCache = False,
    redact: flags.Redact = False,
    as_json: flags.AsJson = False,
    config: flags.Config = None,
    color: flags.Colour = None,
    verbose: flags.Verbose = False,
) -> int:
    """List the sessions that agents keep here, the newest first.

    Each row has the time of the latest request, agent, requests, cost, the share of the prompts that was read from a
    cache, the re-billed part, project, title and path. Requests copied from another session (a fork, a resumed one) are
    not counted. The sessions shown are read for these figures, at most 256 MB; --all reads all. `lore check PATH` shows
    why tokens were re-billed. Results are kept in your cache folder, in numbers and names alone; nothing leaves this
    machine.
    """
    loaded, now, surroundings = common.find_settings(config), time.time(), common.surroundings()
    ledgers = common.ledgers_of(loaded, no_cache=no_cache, verbose=verbose, now=now)
    with common.progress(is_on=not verbose, colour=color, what="reading") as progress:
        listing = list_sessions(
            surroundings, ledgers, agent=None if agent is None else agent_named(agent), project=project or "",
            since=None if since is None else recent.parse_since(since, now), most=None if every else limit,
            most_bytes=None if every else MOST_BYTES, progress=progress,
        )  # fmt: skip
    result = common.redacted_if(redact, listing)
    choice = OverviewSelection(since or "", "", agent or "", project or "", home=surroundings.home)
    show = partial(write_sessions, now=now, choice=choice)
    common.answer(result, show, as_json=as_json, color=color)
    expected_messages = (None, NOT_COUNTED, NO_RECORDING)
    unread = [session for session in listing.sessions if session.message not in expected_messages]
    return common.exit_code([*listing.failed, *unread])


def list_sessions(
    surroundings: Surroundings, ledgers: Ledgers, *, agent: Agent | None = None, project: str = "",
    since: float | None = None, most: int | None = SHOWN, most_bytes: int | None = MOST_BYTES,
    progress: Progress | None = None,
) -> FoundSessions:  # fmt: skip
    """List at most `most` sessions of agents (None: all), the newest first.

    `project` is a folder or the end of its path (empty: all projects), `since` is in seconds since the epoch. At most
    `most_bytes` (None: all) are read for their counts.
    """
    load_plugins()
    groups, places, failed = agent_logs(surroundings, agent)
    databases = {log.file.path.rpartition("#")[0] for logs in groups for log in logs if not log.file.size}
    total = sum(log.file.size for logs in groups for log in logs)
    for path in filter(None, databases):
        with suppress(OSError, ValueError):
            total += os.stat(path).st_size

    def is_of_project(log: AgentLog) -> bool:
        with suppress(LoreError):
            return overview.is_in_project(folder_of(log) or "", project)
        return False

    by_time, count = newest_first(groups, is_of_project if project else None), len(groups)
    if since is not None or project:
        by_time = list(takewhile(lambda pair: since is None or pair[0] >= since, by_time))
        count = len(by_time)
    newest = [logs for _, logs in islice(by_time, most)]
    cached_ledgers = ledgers.find_kept(log.file for logs in newest for log in logs) if most_bytes is not None else {}
    bytes_to_read, omitted_paths = 0, set[str]()
    for logs in newest:
        size = sum(log.file.size for log in logs if log.file.path not in cached_ledgers)
        if most_bytes is not None and bytes_to_read + size > most_bytes:
            omitted_paths.add(logs[0].file.path)
        else:
            bytes_to_read += size
    files = [log.file for logs in newest if logs[0].file.path not in omitted_paths for log in logs]
    by_path = {file.path: ledger for file, ledger in ledgers.read(files, progress)}
    copies, rows = Copies(), list[FoundSession]()
    for logs in by_start(newest, lambda logs: logs[0].file):
        message = NOT_COUNTED if logs[0].file.path in omitted_paths else NO_RECORDING
        rows.insert(0, _row(logs, by_path, message, copies))
    rows.sort(key=lambda row: row.latest_at or row.written_at or "", reverse=True)  # a copied log has a new file time
    return FoundSessions(
        sessions=rows, found=count, bytes=total, read_bytes=ledgers.read_bytes,
        unread=overview.unread_logs(places, failed), looked=overview.searched_places(places), failed=failed,
    )  # fmt: skip


def _row(logs: list[AgentLog], by_path: Mapping[str, Ledger], message: str, copies: Copies) -> FoundSession:
    """Return the row of a session with its subagents' requests; `message` says why it has no ledger."""
    main_log = logs[0]
    row = FoundSession(
        "" if main_log.agent is None else main_log.agent.name, corpus.show(main_log.file.path),
        when(main_log.written, "%Y-%m-%dT%H:%M:%SZ") or None,
        sum(log.file.size for log in logs) or None, title=title_of(main_log.file.path),
    )  # fmt: skip
    first = by_path.get(main_log.file.path)
    if first is None:
        return replace(row, message=message)
    log_ledgers = [(log, by_path[log.file.path]) for log in logs if log.file.path in by_path]
    row = replace(
        row, bytes=row.bytes or first.bytes, project=first.project,
        problems=sum(ledger.problems for _, ledger in log_ledgers),
        message=next((ledger.message for _, ledger in log_ledgers if ledger.message is not None), None),
    )  # fmt: skip
    if not first.format:
        return row
    sums, latest, copies_before = Sums(), None, copies.count
    logged = overview.logged_work(log.file.path for log in logs)
    for log, ledger in log_ledgers:
        for request in overview.every_request(ledger, log):
            latest = max(latest or 0.0, request.at or 0.0) or None
            if not copies.has(request.row, log.file.path):
                sums.add(overview.drop_logged(request, logged))
    spending = sums.result(row.path, row.title)
    billed = spending.billed_requests
    return replace(
        row, format=first.format, session_id=first.session or None, counted=True, requests=spending.requests,
        model=next((request.model for request in reversed(first.rows) if request.model is not None), None),
        billed_requests=billed, read_tokens=spending.read_tokens if billed else None,
        paid_again_tokens=spending.paid_again_tokens if billed else None, paid_again_dollars=spending.paid_again,
        unexplained_tokens=spending.unexplained_tokens if billed else None, dollars=spending.dollars,
        recorded_dollars=spending.recorded_dollars, spending=spending,
        latest_at=when(latest, "%Y-%m-%dT%H:%M:%SZ") or None, copied=copies.count - copies_before,
    )  # fmt: skip


_SESSION = (
    TableColumn("latest", right=True), TableColumn("agent"), TableColumn("requests", right=True, drop=1),
    TableColumn("cost", right=True), TableColumn("share read", right=True, drop=2),
    TableColumn("re-billed", right=True), TableColumn("session"),
)  # fmt: skip
_NEAR = 0.01  # costs that differ by less agree


def write_sessions(result: FoundSessions, out: Console, *, now: float, choice: OverviewSelection) -> None:
    """Write a table of sessions, with title and path; then how many there are, and logs that lore cannot read."""
    home = choice.home
    if result.sessions:
        rows = [_cells(session, now) for session in result.sessions]
        details = [
            [f"    {text}" for text in (in_shell(session.path, home) or session.path, *_notes(session))]
            for session in result.sessions
        ]
        write_table(_SESSION, rows, out, notes=details)
        sums = [session.spending for session in result.sessions if session.spending is not None]
        if text := unpriced_parts(*[spending for spending in sums if spending.dollars is not None]):
            out.print(line((text, "dim")))
        logs = [(session.agent, session.path) for session in reversed(result.sessions) if session.counted]
        for note in plan_notes(logs):
            out.print(note)
    for failure in result.failed:
        out.print(line((f"! {failure}", "yellow")))
    extent = f"{len(result.sessions):,} of {counted(result.found, 'session')}"
    hints = ", the newest (--all lists all)" if result.found > len(result.sessions) else ""
    filters = ((" of ", choice.agent), (" of project ", choice.project), (" since ", choice.since))
    selected = "".join(f"{word}{value}" for word, value in filters if value)
    if result.found or selected:
        out.print(line(f"{extent}{hints}" if result.found else f"no sessions{selected}: lore sessions lists all"))
        if result.found > 1 and result.sessions:
            oldest = day_of(min(filter(None, map(_latest, result.sessions)), default=None))
            out.print("the costliest first:")
            write_command(choice._replace(since=choice.since or oldest).summing("--by session"), out)
    else:
        write_no_sessions(out)
    for logs in result.unread:
        what = f"{counted(logs.files, 'file')} in {shorten_path(logs.path, home, 40)}"
        out.print(line((f"not read: {logs.title}, {what}: {logs.message}", "yellow")))


def _cells(session: FoundSession, now: float) -> tuple[str, ...]:
    """Return the figures of a session with its project and title."""
    sums = session.spending
    figures = (
        ("-", "-", "-", "-") if sums is None
        else (f"{sums.requests:,}", cost_of(sums), share_read(sums), rebilled_of(sums))
    )  # fmt: skip
    project = last_part(session.project or "")
    name = ": ".join(filter(None, (project, session.title or "without a title")))
    latest = _latest(session)
    age = 0.0 if latest is None else max(0.0, now - latest)
    when_sent = "-" if latest is None else f"{span(age)} ago" if age < overview.WEEK else day_of(latest)
    agent = next((agent.title for agent in AGENTS if agent.name == session.agent), session.agent)
    return when_sent, agent, *figures, name


def _latest(session: FoundSession) -> float | None:
    """Return when the latest request was sent, else when the log was written, in seconds since the epoch."""
    latest = session.latest_at or session.written_at
    return None if latest is None else datetime.fromisoformat(latest).timestamp()


def _notes(session: FoundSession) -> Iterator[str]:
    """Yield notes on the figures of a session."""
    if session.spending is not None and (few := few_counted(session.spending)):
        yield few
    if session.copied:
        yield f"not counted here: {counted(session.copied, 'request')} inherited or copied from another session"
    stated, priced = session.recorded_dollars, session.dollars
    if stated is not None and (priced is None or abs(stated - priced) > _NEAR * stated):
        cost = "unknown" if priced is None else format_money(priced)
        yield f"cost: {cost} by lore's prices, {format_money(stated)} as recorded"
    if session.message is not None:
        more = f" ({counted(session.problems, 'problem')})" if session.problems > 1 else ""
        yield f"! {session.message}{more}"
