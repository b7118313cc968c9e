"""`lore report`: write recordings in a form that another program shows.

A form is a row of `FORMS`: a name, and the function that makes it of what was chosen.
"""

from __future__ import annotations

import os
import sys
import time
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from lore.commands import common, flags
from lore.commands.pages import HTML, PageTarget, page_target, read_twice, write_spending

if TYPE_CHECKING:
    from lore.recording.inputs import Input
    from lore.run.spending.ledgers import Ledgers, Progress
    from lore.run.spending.overview import Summed


class Material(NamedTuple):
    """What a form is made of: the recordings that were chosen, their ledgers, who hears how far it is.

    `since` and `now` are in seconds since the epoch; requests before `since` are not summed.
    """

    files: list[Input]
    which: flags.Chosen
    ledgers: Ledgers
    redact: bool
    since: float | None
    now: float
    progress: Progress | None


class WrittenReport(NamedTuple):
    """A form's bytes, what to do with them, and the exit code."""

    data: bytes
    then: str
    code: int


def _trace(chosen: Material) -> WrittenReport:
    from lore.report.forms.json_report import render
    from lore.run.spending.tracing import traced

    looked = chosen.which.looked or tuple(chosen.which.paths)
    found = traced(
        chosen.files, chosen.ledgers, looked=looked, redact=chosen.redact, progress=chosen.progress, jobs=common.cores()
    )
    for text in found.failed:
        common.tell(f"not in the trace: {text}")
    if not found.requests:
        common.tell("note: no recording holds a request: the trace is empty")
    if found.copied:
        common.tell(f"note: {found.copied:,} requests in several files are in the trace once")
    if "note" in found.trace.otherData:
        common.tell(f"note: {found.trace.otherData['note']}")
    data = render(found.trace).encode() + b"\n"
    return WrittenReport(data, "open it at https://ui.perfetto.dev", 3 if found.failed else 0)


def _spent(chosen: Material) -> Summed:
    """Return the cost of the recordings, as bare `lore` does for sessions; raises LoreError if there are none."""
    from lore.recording import corpus
    from lore.report.redacted.results import redacted
    from lore.run.recent import nothing
    from lore.run.spending.overview import OverviewRequest, summed

    for file in chosen.files:
        if file.named and not file.stream:
            corpus.open_head(file.path)  # a named file has to exist; missing others are reported below
    request = OverviewRequest(
        since=chosen.since, until=chosen.now, paths=tuple(chosen.which.paths), jobs=common.cores()
    )
    found = summed(common.surroundings(), request, chosen.ledgers, chosen.progress)
    if not found.result.files:
        raise nothing(chosen.which.looked or chosen.which.paths)
    result = redacted(found.result) if chosen.redact else found.result
    for text in result.failed:
        common.tell(f"not read: {text}")
    return found._replace(result=result)


def _json(chosen: Material) -> WrittenReport:
    from lore.report.forms.json_report import render

    result = _spent(chosen).result
    data = render(result).encode() + b"\n"
    return WrittenReport(data, "for its fields: lore schema overview", 3 if result.failed else 0)


FORMS = {"trace": _trace, "json": _json}
ELSEWHERE = {"csv": "lore simulate PATH --csv writes a line a turn"}  # what other commands write


@common.quiet_pipe
def run(
    paths: Annotated[
        list[str] | None,
        typer.Argument(
            help="Sessions, captures, folders, patterns ('logs/**/*.jsonl'), or `-`; default: where agents keep logs."
        ),
    ] = None,
    format: Annotated[str, typer.Option("--format", help=f"The form: {', '.join((*FORMS, HTML))}.")] = "trace",
    output: flags.Output = None,
    force: flags.Force = False,
    open_page: flags.Open = False,
    last: Annotated[
        bool, typer.Option("--last", help="The newest session alone; without a path, of this project.")
    ] = False,
    since: Annotated[
        str | None, typer.Option("--since", help="Files written since then: 30m, 2h, 1d, 1w, or a date.")
    ] = None,
    redact: flags.Redact = False,
    no_cache: flags.NoCache = False,
    config: flags.Config = None,
    color: flags.Colour = None,
    verbose: flags.Verbose = False,
) -> int:
    """Write recordings in a form that another program shows.

    trace: Chrome trace events, for https://ui.perfetto.dev, which reads them in the browser and sends them nowhere. A
    process is a session, a lane a chain, a slice a request, named by the cause if it re-billed tokens; counters are the
    tokens read, written and uncached. Times are the recording's; where it has none, turns stand a second apart and say
    so. A slice ends where the response began, or after a second where that is not recorded.

    html: a page for a browser, what the recordings cost and each session turn by turn; FILE.html is one page, another
    name a folder. json: what they cost, as `lore --json` says it.
    """
    from lore.errors import did_you_mean
    from lore.recording.inputs import inputs
    from lore.run import recent

    known = (*FORMS, HTML)
    on_terminal = output is None and format == "trace" and sys.stdout.isatty()
    common.refuse(
        (format not in known, f"--format {format}: no such form",
         ELSEWHERE.get(format) or did_you_mean(format, known, "forms")),
        (on_terminal, "a trace is for another program, not for a terminal", "name a file: -o trace.json"),
        (open_page and format != HTML, f"--open shows a page, and {format} is none", "--format html --open"),
    )  # fmt: skip
    page = _page_of(output, opens=open_page, force=force) if format == HTML else None
    loaded, now = common.found_settings(config), time.time()
    which = flags.chosen_inputs(paths or [], last=last, since=since)
    files = [file._replace(optional=bool(which.looked)) for file in inputs(which.paths, which.wanted)]
    if page is not None:
        read_twice(files)
    ledgers = common.ledgers_of(loaded, no_cache=no_cache, verbose=verbose, now=now)
    begin = None if since is None else recent.since(since, now)
    with common.unquoted(redact=redact), common.progress(wanted=not verbose, colour=color, what="reading") as shown:
        chosen = Material(files, which, ledgers, redact, begin, now, shown)
        spent = None if page is None else _spent(chosen)
        made = None if spent is not None else FORMS[format](chosen)
    if page is not None and spent is not None:
        write_spending(page, spent, ledgers, redact=redact, verbose=verbose, colour=color)
        return 3 if spent.result.failed else 0
    assert made is not None, "every other form is data"
    return _write(made, output, files, force=force)


def _page_of(output: str | None, *, opens: bool, force: bool) -> PageTarget:
    """Return where pages are written; raises LoreError, before anything is read, if that is impossible."""
    from lore.errors import LoreError

    if output is None and not opens and sys.stdout.isatty():
        raise LoreError("a page is for a browser, not for a terminal", hint="--open, or name a file: -o page.html")
    page = page_target(None if output is None and opens else [f"html={output or '-'}"], opens=opens, name="report")
    assert page is not None, "a page is asked for"
    if output is not None and not force and os.path.isfile(page.path):
        raise LoreError(f"{output} exists", hint="name another file, or overwrite it with --force")
    return page


def _write(made: WrittenReport, output: str | None, files: list[Input], *, force: bool) -> int:
    """Write a form to standard output, or to a file, and say what to do with that; return the exit code."""
    from lore.run.outputs import open_output

    if output in (None, "-"):
        sys.stdout.buffer.write(made.data)
        sys.stdout.flush()
        return made.code
    with open_output(output, force=force, inputs=[file.path for file in files]) as file:
        file.write(made.data)
    common.tell(f"wrote {output}, {len(made.data):,} bytes: {made.then}")
    return made.code
