"""`lore report`: what recordings hold, in a form that another program shows.

A form is a row of `FORMS`: a name, the function that makes it of what was chosen, and what to do with the file.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from lore.cli.common import (
    Colour,
    Config,
    Force,
    Output,
    Redact,
    Verbose,
    dated_rules,
    found_settings,
    log,
    progress,
    quiet_pipe,
    surroundings,
    tell,
    unquoted,
)
from lore.cli.inputs import Chosen, chosen_inputs
from lore.cli.overview import NoCache

if TYPE_CHECKING:
    from lore.recording.inputs import Input
    from lore.run.ledgers import Ledgers, Progress


class Material(NamedTuple):
    """What a form is made of: the recordings that were chosen, their ledgers, who hears how far it is."""

    files: list[Input]
    which: Chosen
    ledgers: Ledgers
    redact: bool
    progress: Progress | None


class Written(NamedTuple):
    """A form's bytes, and the exit code."""

    data: bytes
    code: int


class Form(NamedTuple):
    """How a form is made, and what to do with its file."""

    make: Callable[[Material], Written]
    then: str


def _trace(chosen: Material) -> Written:
    from lore.report.json_report import render
    from lore.run.check import cores
    from lore.run.tracing import traced

    found = traced(
        chosen.files,
        chosen.ledgers,
        looked=chosen.which.looked,
        redact=chosen.redact,
        progress=chosen.progress,
        jobs=cores(),
    )
    for text in found.failed:
        tell(f"not in the trace: {text}")
    if not found.requests:
        tell("note: no recording holds a request: the trace is empty")
    if found.copied:
        tell(f"note: {found.copied:,} requests that other files hold as well stand in the trace once")
    if "note" in found.trace.otherData:
        tell(f"note: {found.trace.otherData['note']}")
    return Written(render(found.trace).encode() + b"\n", 3 if found.failed else 0)


FORMS: dict[str, Form] = {"trace": Form(_trace, "open it at https://ui.perfetto.dev or chrome://tracing")}

# What other commands write.
ELSEWHERE = {
    "html": "lore simulate PATH --report html=page.html writes a page for a browser",
    "json": "lore simulate PATH --json writes every turn",
    "csv": "lore simulate PATH --csv writes a line a turn",
}


@quiet_pipe
def run(
    paths: Annotated[
        list[str] | None,
        typer.Argument(
            help="Sessions, captures, folders, patterns ('logs/**/*.jsonl'), or `-`; default: where agents keep logs."
        ),
    ] = None,
    format: Annotated[str, typer.Option("--format", help=f"The form: {', '.join(FORMS)}.")] = "trace",
    output: Output = None,
    force: Force = False,
    last: Annotated[bool, typer.Option("--last", help="The newest session alone.")] = False,
    since: Annotated[
        str | None, typer.Option("--since", help="Files written since then: 30m, 2h, 1d, 1w, or a date.")
    ] = None,
    redact: Redact = False,
    no_cache: NoCache = False,
    config: Config = None,
    color: Colour = None,
    verbose: Verbose = False,
) -> int:
    """Write recordings in a form that another program shows.

    trace: Chrome trace events, for https://ui.perfetto.dev and chrome://tracing, which read them in the browser and
    send them nowhere. A process is a session, a lane a chain, a slice a request, named by the cause where it paid
    again; counters are the tokens read, written and uncached. Times are the recording's; where it has none, turns stand
    a second apart and say so. A slice ends where the response began, or after a second where that is not recorded.
    """
    from lore.errors import LoreError, did_you_mean
    from lore.recording.inputs import inputs
    from lore.recording.opening import Options
    from lore.recording.writing import written
    from lore.run.ledgers import Ledgers, folder_of

    if format not in FORMS:
        hint = ELSEWHERE.get(format) or did_you_mean(format, FORMS, "forms")
        raise LoreError(f"--format {format}: no such form", hint=hint)
    if output is None and sys.stdout.isatty():
        raise LoreError(f"a {format} is for another program, not for a terminal", hint=f"name a file: -o {format}.json")
    loaded = found_settings(config)
    which = chosen_inputs(paths or [], last=last, since=since)
    files = [file._replace(optional=bool(which.looked)) for file in inputs(which.paths)]
    files = [file for file in files if which.wanted is None or which.wanted(file)]
    options = Options(rules=loaded.settings.assemble, log=log(verbose))
    folder = "" if no_cache else folder_of(surroundings())
    ledgers = Ledgers(options, folder, dated=dated_rules(loaded), now=time.time())
    with unquoted(redact=redact), progress(wanted=not verbose, colour=color, what="reading") as shown:
        data, code = FORMS[format].make(Material(files, which, ledgers, redact, shown))
    if output in (None, "-"):
        sys.stdout.buffer.write(data)
        sys.stdout.flush()
        return code
    with written(output, force=force, inputs=[file.path for file in files]) as file:
        file.write(data)
    tell(f"wrote {output}, {len(data):,} bytes: {FORMS[format].then}")
    return code
