"""`lore lint`: will this request be cached at all?"""

from __future__ import annotations

import os
from typing import Annotated

import typer

from lore.commands import flags
from lore.commands.check import context_of, files_kept
from lore.commands.common import found_settings, log, out, progress, quiet_pipe, reader_named, writing
from lore.commands.pages import page_among, write_pages


@quiet_pipe
def run(
    bodies: Annotated[
        list[str],
        typer.Argument(help="Request bodies, captures, cassettes, folders or patterns; `-` is standard input; PATH#N."),
    ],
    cache: Annotated[
        str | None,
        typer.Option("--cache", help="Who would cache it, whatever it looks like; an unknown word lists them."),
    ] = None,
    model: Annotated[
        str | None, typer.Option("--model", help="The model of bodies that name none (Gemini's, Bedrock's).")
    ] = None,
    select: flags.Select = None,
    ignore: flags.Ignore = None,
    report: flags.Reports = None,
    open_page: flags.Open = False,
    redact: flags.Redact = False,
    reader: flags.For = None,
    pass_over: flags.PassOver = False,
    as_json: flags.AsJson = False,
    dialect: flags.Dialect = None,
    format: flags.Format = None,
    config: flags.Config = None,
    color: flags.Colour = None,
    verbose: flags.Verbose = False,
) -> int:
    """Predict if a request is cached, which part, for how long, with what saving; and report its faults.

    One request is enough: nothing is compared, and no bill is needed. `lore check` compares requests and says what
    really changed. Exit code 1 where a provider refuses the request or a breakpoint counts for nothing, 2 where a name
    cannot be read, 3 where not all could be looked at. [check] in lore.toml holds here, too: select, ignore, exempt.
    """
    from lore.recording.opening import Options
    from lore.report.forms.junit import Junit
    from lore.report.forms.lint import LintTerminal
    from lore.run.lint import lint
    from lore.run.reports import keep_apart, targets, write_reports
    from lore.tokens.o200k import Counter

    loaded = found_settings(config)
    reports = targets(report or (), as_json=as_json)
    context = context_of(
        loaded, select, ignore, explicit=config is not None, redact=redact, reader=reader_named(reader)
    )
    options = Options(
        format=format, dialect=dialect, rules=loaded.settings.assemble, counter=Counter(), log=log(verbose)
    )
    page = page_among(reports, opens=open_page, needed=files_kept(loaded), name="lint")
    keep_apart(reports, files_kept(loaded))
    with progress(wanted=not verbose, colour=color) as shown:
        outcome = lint(bodies, options, context, cache=cache, model=model, pass_over=pass_over, progress=shown)
    with writing():
        own = {"terminal": LintTerminal(), "junit": Junit([request.path for request in outcome.result.requests])}
        write_reports(outcome.result, reports, bodies, out(color), os.environ, verbose=verbose, own=own)
    if page is not None:
        from lore.report.html.intros import of_report
        from lore.run.pages import PageRequest

        intro = of_report(outcome.result, verbose=verbose)
        write_pages(page, intro, [], PageRequest(options), verbose=verbose, colour=color)
    if outcome.failed:
        return 1
    return 3 if outcome.incomplete else 0
