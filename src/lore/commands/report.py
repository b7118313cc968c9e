"""`lore report`: write recordings as a trace, a page or JSON, for another program to show."""

from __future__ import annotations

import os
import sys
import time
from typing import Annotated

import typer
from msgspec.structs import replace

from lore.commands import common, flags
from lore.errors import LoreError, Where, did_you_mean
from lore.judge.sums import Copies, LedgerRequest
from lore.model.codes import Code, Problem
from lore.recording import corpus
from lore.recording.agents.sessions import AgentLog
from lore.recording.inputs import Input, by_start, inputs
from lore.report.forms.json_report import render
from lore.run import recent
from lore.run.recent import no_recordings_error
from lore.run.spending.ledgers import Ledgers, Progress
from lore.run.spending.overview import OverviewRequest, requests_of, sum_spending

FORMS = ("trace", "json", common.HTML)


class ReportOptions(common.CommonOptions, frozen=True):
    """The options of `lore report`."""

    paths: flags.Paths = None
    format: Annotated[
        str | None,
        typer.Option("--format", help=f"The form: {', '.join(FORMS)}; default: html for -o FILE.html, else trace."),
    ] = None
    output: flags.Output = None
    force: flags.Force = False
    open_page: flags.Open = False
    last: flags.Last = False
    since: flags.Since = None
    redact: flags.Redact = False
    no_cache: flags.NoCache = False


@common.takes(ReportOptions)
def run(options: ReportOptions) -> int:
    """Write recordings in a form that another program shows.

    trace: Chrome trace events, for https://ui.perfetto.dev, which reads them in the browser and sends them nowhere. A
    process is a session, a lane a chain, a slice a request, named by the cause if it re-billed tokens; counters are the
    tokens read, written and uncached. Times are the recording's; without them, turns are a second apart, and the lane's
    name says so. A slice ends when the response began, or after a second if that is not recorded.

    html: a page for a browser, with the cost of the recordings and each session turn by turn; FILE.html is one page,
    another name a folder. json: their cost, as `lore --json` writes it.
    """
    is_page = (options.output or "").endswith((".html", ".htm"))
    form, on_terminal = (
        options.format or (common.HTML if is_page else "trace"),
        options.output is None and sys.stdout.isatty(),
    )
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
    selection = common.chosen_inputs(options.paths or [], last=options.last, since=options.since, command="report")
    files = [replace(file, optional=bool(selection.looked)) for file in inputs(selection.paths, selection.accepts)]
    if page is not None:
        common.require_rereadable(files)
    ledgers = common.ledgers_of(loaded, no_cache=options.no_cache, verbose=options.verbose, now=now)
    since = None if options.since is None else recent.parse_since(options.since, now)
    reading = common.progress(is_on=not options.verbose, colour=options.color, what="reading")
    with common.redact_errors(redact=options.redact), reading as progress:
        if form == "trace":
            return _write_trace(files, selection, ledgers, options, progress)
        for file in files:
            if file.is_only and not file.stream:
                corpus.open_head(file.path)  # it has to exist; several are reported below
        request = OverviewRequest(since, now, tuple(selection.paths), by_day=True)
        spending = sum_spending(common.surroundings(), request, ledgers, progress)
        if not spending.result.files:
            raise no_recordings_error(selection.looked or selection.paths)
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
    for file, ledger in ledgers.read(by_start(files, lambda file: file), progress):
        recordings += 1
        if ledger.message is not None:
            hint = "name recordings: `lore formats` lists what lore reads"
            error = LoreError(ledger.message, hint=hint, where=Where(ledger.path))
            error = redacted_error(error) if options.redact else error
            if file.is_only and not ledger.rows:
                raise error
            failures.append(Problem(Code.UNREADABLE_FILE, error.message, file=ledger.path))
        for request in requests_of(ledger, AgentLog(None, file, None), copies, set()):
            row = common.redacted_if(options.redact, request.row)
            requests.append((corpus.show(file.path), request._replace(row=row)))
    if not recordings:
        raise no_recordings_error(selection.looked or selection.paths)
    trace = trace_of(requests)
    common.name_unjudged(failures, "not in the trace")
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
