"""Commands about what agents spent: bare `lore`, `lore sessions`, `lore report`.

`lore sessions`: a subagent's file belongs to its session; a session that cannot be read is a row with its problem.
Cost: a look at every log's name and time, then reading the shown ones without a kept ledger, up to `most_bytes`: a
session beyond that is listed and not counted.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from datetime import datetime
from functools import partial
from itertools import islice, takewhile
from pathlib import PurePath
from typing import Annotated

import typer
from msgspec import Struct
from msgspec.structs import replace

from lore.commands import common, flags
from lore.errors import LoreError, Where, did_you_mean
from lore.judge.sums import Copies, LedgerRequest, Sums, is_part, rebilled_dollars
from lore.model.codes import Code, Problem
from lore.model.fact import count_of, format_money
from lore.model.ledger import Ledger
from lore.model.results.found import FoundSession, FoundSessions
from lore.recording import corpus
from lore.recording.agents.limits import plan_notes
from lore.recording.agents.logs import AGENTS, Agent, Surroundings, agent_named
from lore.recording.agents.sessions import AgentLog, agent_logs, folder_of, newest_first
from lore.recording.base import load_plugins
from lore.recording.inputs import Input, inputs
from lore.recording.titles import title_of
from lore.report import overview as screen
from lore.report.commands import OverviewSelection, in_shell, shorten_path
from lore.report.console import Console, TableColumn, line, write_table
from lore.report.forms.base import render
from lore.report.plain import day_of, project_name, when
from lore.report.status_line import span
from lore.run import arguments
from lore.run.spending import overview as summing
from lore.run.spending.ledgers import Ledgers, Progress

GROUPS = ("day", "week", "month", "session", "model", "project", "agent")


class OverviewOptions(Struct, frozen=True):
    """The options of `lore` without a command."""

    context: typer.Context
    since: Annotated[str | None, "Requests sent since then: 30m, 2h, 1d, 1w, or a date; default: 7d."] = None
    until: Annotated[str | None, "Requests sent before that; a date: until its end."] = None
    agent: flags.Agent = None
    project: flags.Project = None
    by: Annotated[str | None, "Also a line for each day, week, month, session, model, project or agent."] = None
    compare: Annotated[bool, "Also the same length of time before that."] = False
    no_cache: flags.NoCache = False
    report: flags.Page = None
    open_page: flags.Open = False
    redact: flags.Redact = False
    as_json: flags.AsJson = False
    config: flags.Config = None
    color: flags.Colour = None
    verbose: flags.Verbose = False
    version: Annotated[bool, "--version", "-V", "Print the version and exit."] = False


@common.takes(OverviewOptions)
def overview(options: OverviewOptions) -> int:
    """Find out why an LLM agent's prompt cache missed, what it cost, and how to fix it.

    Without a command: the spending of this machine's agents in the last 7 days, the re-billed part, its causes, and the
    first thing to change. Days are those of this machine's time zone. Results are kept in your cache folder, in numbers
    and names alone. Nothing leaves this machine.
    """
    if options.context.invoked_subcommand is not None:
        context = options.context
        set_names = {name for name, value in context.params.items() if value not in (None, False, [], ())}
        option = next((param.opts[0] for param in context.command.params if param.name in set_names), None)
        if option is not None:
            command = context.invoked_subcommand
            raise typer.BadParameter(f"{option} belongs after the command: lore {command} {option}")
        return 0
    if options.version:
        from lore import __version__

        print(f"lore {__version__}")
        return 0
    page = common.page_target(options.report, opens=options.open_page, name="overview", in_use=options.as_json)
    loaded, now, surroundings = common.find_settings(options.config), time.time(), common.surroundings()
    request = _request(now, options)._replace(by_day=page is not None)
    ledgers = common.ledgers_of(loaded, no_cache=options.no_cache, verbose=options.verbose, now=now)
    with common.progress(is_on=not options.verbose, colour=options.color, what="reading") as progress:
        sums = summing.sum_spending(surroundings, request, ledgers, progress)
    result = common.redacted_if(options.redact, sums.result)
    if options.as_json:
        common.write_json(result)
    elif page is None or page.path:
        # `lore check` without a path takes the logs of this project if it has some.
        is_elsewhere = options.agent is not None or arguments.find_agent_logs(surroundings, project=True)
        places = filter(None, (in_shell(place, surroundings.home) for place in result.looked if is_elsewhere))
        selection = OverviewSelection(  # as typed, for the commands that a report names
            options.since or "7d", options.until or "", options.agent or "", "" if options.redact else request.project,
            tuple(places), surroundings.home,
        )  # fmt: skip
        screen.write_overview(result, common.out(options.color), selection, verbose=options.verbose)
    if page is not None:
        from lore.commands.pages import write_spending

        write_spending(
            page, sums._replace(result=result), ledgers, redact=options.redact, verbose=options.verbose,
            colour=options.color,
        )  # fmt: skip
    return common.exit_code(result.failed)


def _request(now: float, options: OverviewOptions) -> summing.OverviewRequest:
    """Return what to sum; raises LoreError for an unknown grouping, or a span that is empty."""
    by, project = options.by, options.project
    if by is not None and by not in GROUPS:
        raise LoreError(f"--by {by}: no such grouping", hint=did_you_mean(by, GROUPS, "groupings"))
    end = now if options.until is None else arguments.parse_until(options.until, now)
    begin = end - summing.WEEK if options.since is None else arguments.parse_since(options.since, now)
    if begin >= end and options.until is None:
        raise LoreError(f"--since {options.since} is in the future", hint="name an earlier time: --since 2026-01-01")
    if begin >= end:
        raise LoreError("--until is not after --since", hint="name a later time: --since 2026-01-01 --until 2026-01-31")
    return summing.OverviewRequest(
        since=begin, until=end, agent=None if options.agent is None else agent_named(options.agent), by=by,
        compared=options.compare, limits=options.until is None,
        project="" if project is None else os.path.abspath(project) if project in (".", "..") else project,
    )  # fmt: skip


MOST_BYTES = 256 * 1024 * 1024  # bytes read for one answer: some seconds
SHOWN = 20
NOT_COUNTED = "not counted: --all reads it"
NO_RECORDING = "unrecognised format"
_DEPTH = 4  # folders above a file, one of which may be a session's own


def sessions(
    agent: flags.Agent = None,
    since: flags.Since = None,
    until: flags.Until = None,
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
    not counted. The sessions shown are read for these figures, at most 256 MB; --all reads all, and lists those without
    a request, too. `lore check PATH` shows why tokens were re-billed. Results are kept in your cache folder, in numbers
    and names alone; nothing leaves this machine.
    """
    loaded, now, surroundings = common.find_settings(config), time.time(), common.surroundings()
    ledgers = common.ledgers_of(loaded, no_cache=no_cache, verbose=verbose, now=now)
    begin, end = arguments.parse_span(since, until, now)
    with common.progress(is_on=not verbose, colour=color, what="reading") as progress:
        listing = list_sessions(
            surroundings, ledgers, agent=None if agent is None else agent_named(agent), project=project or "",
            since=begin, until=end, most=None if every else limit,
            most_bytes=None if every else MOST_BYTES, progress=progress,
        )  # fmt: skip
    result = common.redacted_if(redact, listing)
    choice = OverviewSelection(since or "", until or "", agent or "", project or "", home=surroundings.home)
    show = partial(write_sessions, now=now, choice=choice)
    common.answer(result, show, as_json=as_json, color=color)
    expected_messages = (None, NOT_COUNTED, NO_RECORDING)
    unread = [session for session in listing.sessions if session.message not in expected_messages]
    return common.exit_code([*listing.failed, *unread])


def list_sessions(
    surroundings: Surroundings, ledgers: Ledgers, *, agent: Agent | None = None, project: str = "",
    since: float | None = None, until: float | None = None, most: int | None = SHOWN,
    most_bytes: int | None = MOST_BYTES, progress: Progress | None = None,
) -> FoundSessions:  # fmt: skip
    """List at most `most` sessions of agents that have a request (None: all sessions), the newest first.

    `project` is a folder or the end of its path (empty: all projects); the latest request was sent at `since` or
    later, and the session began before `until`, in seconds since the epoch. At most
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
            return summing.is_in_project(folder_of(log) or "", project)
        return False

    by_time, count = newest_first(groups, is_of_project if project else None), len(groups)
    if since is not None or until is not None or project:
        by_time = takewhile(lambda pair: since is None or pair[0] >= since, by_time)
        by_time = [pair for pair in by_time if arguments.is_in_span(pair[1][0].file, None, until)]
        count = len(by_time)
    newest, omitted_paths, by_path = list[list[AgentLog]](), set[str](), dict[str, Ledger]()
    bytes_to_read, groups_by_time = 0, (logs for _, logs in by_time)
    while batch := list(islice(groups_by_time, None if most is None else most - len(newest))):
        kept = ledgers.find_kept(log.file for logs in batch for log in logs) if most_bytes is not None else {}
        for logs in batch:
            size = sum(log.file.size for log in logs if log.file.path not in kept)
            if most_bytes is not None and bytes_to_read + size > most_bytes:
                omitted_paths.add(logs[0].file.path)
            else:
                bytes_to_read += size
        files = [log.file for logs in batch if logs[0].file.path not in omitted_paths for log in logs]
        by_path.update((file.path, ledger) for file, ledger in ledgers.read(files, progress))
        newest += [logs for logs in batch if most is None or logs[0].file.path in omitted_paths
                   or any(_is_shown(log.file.path, by_path.get(log.file.path)) for log in logs)]  # fmt: skip
    copies, rows, order = Copies(), list[FoundSession](), {path: place for place, path in enumerate(by_path)}
    for logs in sorted(newest, key=lambda logs: order.get(logs[0].file.path, len(order))):
        message = NOT_COUNTED if logs[0].file.path in omitted_paths else NO_RECORDING
        rows.insert(0, _make_row(logs, by_path, message, copies))
    rows.sort(key=lambda row: row.latest_at or row.written_at or "", reverse=True)  # a copied log has a new file time
    return FoundSessions(
        sessions=rows, found=count, bytes=total, read_bytes=ledgers.read_bytes,
        unread=summing.unread_logs(places, failed), looked=summing.searched_places(places), failed=failed,
    )  # fmt: skip


def _is_shown(path: str, ledger: Ledger | None) -> bool:
    """Return whether a log has a request or a fault, or is unrecognised; the log of a login has no request.

    Other files in a session's own folder (Claude Code's `journal.jsonl` of a workflow) are no logs.
    """
    if ledger is not None:
        return bool(ledger.rows or ledger.message)
    extension, folders = os.path.splitext(path)[1], islice(PurePath(path).parents, _DEPTH)
    return not any(os.path.exists(f"{folder}{extension}") for folder in folders)


def _make_row(logs: list[AgentLog], by_path: Mapping[str, Ledger], message: str, copies: Copies) -> FoundSession:
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
        row, project=first.project,
        problems=sum(ledger.problems for _, ledger in log_ledgers),
        message=next((ledger.message for _, ledger in log_ledgers if ledger.message is not None), None),
    )  # fmt: skip
    if not first.format:
        return row
    sums, latest, copies_before = Sums(), None, copies.count
    logged = summing.logged_work(log.file.path for log in logs)
    for log, ledger in log_ledgers:
        for request in summing.every_request(ledger, log):
            latest = max(latest or 0.0, request.at or 0.0) or None
            if not copies.has(request.row, log.file.path):
                sums.add(summing.drop_logged(request, logged))
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
            [f"    {text}" for text in (in_shell(session.path, home) or session.path, *_notes_on(session))]
            for session in result.sessions
        ]
        sums = [session.spending for session in result.sessions if session.spending is not None]
        priced = [spending for spending in sums if spending.dollars is not None]
        if len(priced) > 1:
            cost = screen.money(sum(spending.dollars or 0.0 for spending in priced), is_part=any(map(is_part, priced)))
            rebilled = screen.money(sum(rebilled_dollars(spending) or 0.0 for spending in priced))
            rows.append(("", "all", f"{sum(spending.requests for spending in sums):,}", cost, "", rebilled, ""))
            details.append([])
        write_table(_SESSION, rows, out, notes=details)
        if text := screen.describe_missing_cost(*priced):
            out.print(line((text, "dim")))
        logs = [(session.agent, session.path) for session in reversed(result.sessions) if session.counted]
        for note in plan_notes(logs):
            out.print(note)
    for failure in result.failed:
        out.print(line((f"! {failure}", "yellow")))
    count, hints = len(result.sessions), ""
    if result.found > count:
        hints = f" of {count_of(result.found, 'log')}, the newest with a request (--all lists all)"
    elif silent := sum(not session.requests and session.message != NOT_COUNTED for session in result.sessions):
        count -= silent
        hints = f", and {count_of(silent, 'other log')}: no request of its own, or not a recording"
    extent = count_of(count, "session")
    filters = ((" of ", choice.agent), (" of project ", choice.project), (" since ", choice.since),
               (" until ", choice.until))  # fmt: skip
    selected = "".join(f"{word}{value}" for word, value in filters if value)
    if result.found or selected:
        out.print(line(f"{extent}{hints}" if result.found else f"no sessions{selected}: lore sessions lists all"))
        most = max(result.sessions, key=lambda session: session.paid_again_dollars or 0.0, default=None)
        if most is not None and most.paid_again_dollars and (path := in_shell(most.path, home)):
            out.print(f"most re-billed as waste, {screen.money(most.paid_again_dollars)}:")
            screen.write_command(f"lore check {path}", out)
        if result.found > 1 and result.sessions:
            oldest = day_of(min(filter(None, map(_latest, result.sessions)), default=None))
            out.print("the costliest first:")
            screen.write_command(choice._replace(since=choice.since or oldest).summing("--by session"), out)
    else:
        screen.write_no_sessions(out)
    for logs in result.unread:
        what = f"{count_of(logs.files, 'file')} in {shorten_path(logs.path, home, 40)}"
        out.print(line((f"not read: {logs.title}, {what}: {logs.message}", "yellow")))


def _cells(session: FoundSession, now: float) -> tuple[str, ...]:
    """Return the figures of a session with its project and title."""
    sums = session.spending
    figures = (
        ("-", "-", "-", "-") if sums is None
        else (f"{sums.requests:,}", screen.cost_of(sums), screen.share_read(sums), screen.rebilled_of(sums))
    )  # fmt: skip
    project = project_name(session.project or "")
    name = ": ".join(filter(None, (project, session.title or "without a title")))
    latest = _latest(session)
    age = 0.0 if latest is None else max(0.0, now - latest)
    when_sent = "-" if latest is None else f"{span(age)} ago" if age < summing.WEEK else day_of(latest)
    agent = next((agent.title for agent in AGENTS if agent.name == session.agent), session.agent)
    return when_sent, agent, *figures, name


def _latest(session: FoundSession) -> float | None:
    """Return when the latest request was sent, else when the log was written, in seconds since the epoch."""
    latest = session.latest_at or session.written_at
    return None if latest is None else datetime.fromisoformat(latest).timestamp()


def _notes_on(session: FoundSession) -> Iterator[str]:
    """Yield notes on the figures of a session."""
    if session.spending is not None and (few := screen.few_counted(session.spending)):
        yield few
    if session.copied:
        yield f"not counted here: {count_of(session.copied, 'request')} inherited or copied from another session"
    stated, priced = session.recorded_dollars, session.dollars
    if stated is not None and (priced is None or abs(stated - priced) > _NEAR * stated):
        yield f"recorded by the agent itself: {format_money(stated)}"
    if session.message is not None:
        more = f" ({count_of(session.problems, 'problem')})" if session.problems > 1 else ""
        yield f"! {session.message}{more}"


FORMS = ("trace", "json", common.HTML)


class ReportOptions(common.CommonOptions, frozen=True):
    """The options of `lore report`."""

    paths: flags.Paths = None
    format: Annotated[str | None, f"The form: {', '.join(FORMS)}; default: html for -o FILE.html, else trace."] = None
    output: flags.Output = None
    force: flags.Force = False
    open_page: flags.Open = False
    last: flags.Last = False
    since: flags.Since = None
    until: flags.Until = None
    redact: flags.Redact = False
    no_cache: flags.NoCache = False


@common.takes(ReportOptions)
def report(options: ReportOptions) -> int:
    """Write recordings in a form that another program shows.

    trace: Chrome trace events, for https://ui.perfetto.dev, which reads them in the browser and sends them nowhere. A
    process is a session, a lane a chain, a slice a request, named by the cause if it re-billed tokens; counters are the
    tokens read, written and uncached. Times are the recording's; without them, turns are a second apart, and the lane's
    name says so. A slice ends when the response began, or after a second if that is not recorded.

    html: a page for a browser, with the cost of the recordings and each session turn by turn; FILE.html is one page,
    another name a folder. json: their cost, as `lore --json` writes it.
    """
    is_page = (options.output or "").endswith((".html", ".htm"))
    form = options.format or (common.HTML if is_page else "trace")
    on_terminal = options.output is None and sys.stdout.isatty()
    common.refuse(
        (form not in FORMS, f"--format {form}: no such form", did_you_mean(form, FORMS, "forms")),
        (on_terminal and form == "trace", "a trace is for another program, not for a terminal",
         "name a file: -o trace.json"),
        (options.open_page and form != common.HTML, f"--open shows a page, and {form} is none", "--format html --open"),
        (on_terminal and form == common.HTML and not options.open_page, "a page is for a browser, not for a terminal",
         "--open, or name a file: -o page.html"),
    )  # fmt: skip
    page = None
    if form == common.HTML:  # refused, before anything is read, if it cannot be written
        targets = None if options.output is None and options.open_page else [f"html={options.output or '-'}"]
        page = common.page_target(targets, opens=options.open_page, name="report")
        if page is not None and options.output is not None and not options.force and os.path.isfile(page.path):
            raise LoreError(f"{options.output} exists", hint="name another file, or overwrite it with --force")
    loaded, now = common.find_settings(options.config), time.time()
    selection = common.chosen_inputs(
        options.paths or [], last=options.last, since=options.since, until=options.until, command="report"
    )
    files = [replace(file, optional=bool(selection.looked)) for file in inputs(selection.paths, selection.accepts)]
    if page is not None:
        common.require_rereadable(files)
    ledgers = common.ledgers_of(loaded, no_cache=options.no_cache, verbose=options.verbose, now=now)
    since, until = arguments.parse_span(options.since, options.until, now)
    reading = common.progress(is_on=not options.verbose, colour=options.color, what="reading")
    with common.redact_errors(redact=options.redact), reading as progress:
        if form == "trace":
            return _write_trace(files, selection, ledgers, options, progress)
        for file in files:
            if file.is_only and not file.stream:
                corpus.open_head(file.path)  # it has to exist; several are reported below
        request = summing.OverviewRequest(since, now if until is None else until, tuple(selection.paths), by_day=True)
        spending = summing.sum_spending(common.surroundings(), request, ledgers, progress)
        if not spending.result.files:
            raise arguments.no_recordings_error(selection.looked or selection.paths)
    spending = spending._replace(result=common.redacted_if(options.redact, spending.result))
    for text in spending.result.failed:
        common.tell(f"not read: {text}")
    if page is None:
        _write(render(spending.result).encode() + b"\n", "for its fields: lore schema overview", options, files)
    else:
        from lore.commands.pages import write_spending

        write_spending(page, spending, ledgers, redact=options.redact, verbose=options.verbose, colour=options.color)
    return common.exit_code(spending.result.failed)


def _write_trace(
    files: list[Input], selection: common.Selection, ledgers: Ledgers, options: ReportOptions, progress: Progress | None
) -> int:  # fmt: skip
    """Write a trace with each request once; raises LoreError without recordings, or for a damaged named one."""
    from lore.report.redacted import redacted_error
    from lore.report.trace import trace_of

    copies, failures, requests, recordings = Copies(), list[Problem](), list[tuple[str, LedgerRequest]](), 0
    for file, ledger in ledgers.read(files, progress):
        recordings += 1
        if ledger.message is not None:
            hint = "name recordings: `lore formats` lists what lore reads"
            error = LoreError(ledger.message, hint=hint, where=Where(ledger.path))
            error = redacted_error(error) if options.redact else error
            if file.is_only and not ledger.rows:
                raise error
            failures.append(Problem(Code.UNREADABLE_FILE, error.message, file=ledger.path))
        for request in summing.requests_of(ledger, AgentLog(None, file, None), copies, set()):
            row = common.redacted_if(options.redact, request.row)
            requests.append((corpus.show(file.path), request._replace(row=row)))
    if not recordings:
        raise arguments.no_recordings_error(selection.looked or selection.paths)
    trace = trace_of(requests)
    common.name_unjudged(failures, "not in the trace", verbose=True)
    if not requests:
        common.tell("note: no recording holds a request: the trace is empty")
    if copies.count:
        common.tell(f"note: {copies.count:,} requests in several files are in the trace once")
    if "note" in trace.otherData:
        common.tell(f"note: {trace.otherData['note']}")
    _write(render(trace).encode() + b"\n", "open it at https://ui.perfetto.dev", options, files)
    return common.exit_code(failures)


def _write(data: bytes, advice: str, options: ReportOptions, files: list[Input]) -> None:
    """Write to standard output, or to a file and print `advice`: what to do with it."""
    with common.destination(options.output, force=options.force, inputs=[file.path for file in files]) as file:
        file.write(data)
    if options.output not in (None, "-"):
        common.tell(f"wrote {options.output}, {len(data):,} bytes: {advice}")
