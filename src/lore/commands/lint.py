"""`lore lint`: will this request be cached at all?"""

from __future__ import annotations

from functools import partial
from typing import Annotated

import typer
from msgspec import Struct
from msgspec.structs import replace

from lore.commands import common, flags
from lore.commands.check import context_of, files_kept, name_unjudged
from lore.commands.pages import page_among, write_pages
from lore.model.results.lint import LintResult, LintSummary
from lore.recording.opening import Options
from lore.report.forms.junit import Junit
from lore.report.forms.lint import LintTerminal
from lore.report.forms.registry import Report
from lore.run.lint import lint
from lore.run.reports import reporting_errors, targets, write_reports
from lore.tokens.o200k import Counter


class LintOptions(Struct, frozen=True):
    """The options of `lore lint`."""

    bodies: Annotated[
        list[str],
        typer.Argument(help="Request bodies, captures, cassettes, folders or patterns; `-` is standard input; PATH#N."),
    ]
    cache: Annotated[
        str | None,
        typer.Option("--cache", help="Who would cache it, whatever it looks like; an unknown word lists them."),
    ] = None
    model: Annotated[
        str | None, typer.Option("--model", help="The model of bodies that name none (Gemini's, Bedrock's).")
    ] = None
    select: flags.Select = None
    ignore: flags.Ignore = None
    report: flags.Reports = None
    open_page: flags.Open = False
    redact: flags.Redact = False
    reader: flags.For = None
    pass_over: flags.PassOver = False
    as_json: flags.AsJson = False
    dialect: flags.Dialect = None
    format: flags.Format = None
    config: flags.Config = None
    color: flags.Colour = None
    verbose: flags.Verbose = False


@common.takes(LintOptions)
def run(options: LintOptions) -> int:
    """Predict if a request is cached, which part, for how long, with what saving; and report its faults.

    One request is enough: nothing is compared, and no usage is needed. `lore check` compares requests and says what
    really changed. Exit code 1 if a provider refuses the request, a breakpoint has no effect, or no request of a file
    would be cached; 2 if a name cannot be read, 3 if not everything could be examined. [check] in lore.toml holds here,
    too: select, ignore, count_as_waste, exempt.
    """
    verbose = options.verbose
    loaded, reader = common.found_settings(options.config), common.reader_named(options.reader)
    reports = targets(options.report or (), as_json=options.as_json)
    explicit = options.config is not None
    context = replace(
        context_of(loaded, options.select, options.ignore, explicit=explicit, redact=options.redact, reader=reader),
        options=Options(
            format=options.format, dialect=options.dialect, rules=loaded.settings.assemble, counter=Counter(),
            log=common.log(verbose),
        ),
    )  # fmt: skip
    page = page_among(reports, opens=options.open_page, needed=files_kept(loaded), name="lint")
    with (
        common.progress(wanted=not verbose, colour=options.color) as progress,
        reporting_errors(reports, options.bodies, partial(LintResult, summary=LintSummary(), rules=None, requests=[])),
    ):
        result, unjudged = lint(
            options.bodies, context, cache=options.cache, model=options.model, pass_over=options.pass_over,
            progress=progress,
        )  # fmt: skip
    junit = Junit([row.path for row in result.requests], unjudged)
    own: dict[str, Report] = {"terminal": LintTerminal(), "junit": junit}
    with common.writing():
        write_reports(result, reports, options.bodies, common.out(options.color), verbose=verbose, own=own)
    name_unjudged(unjudged)
    if page is not None:
        from lore.report.html.answers import introduce_report

        intro = introduce_report(result, verbose=verbose)
        write_pages(page, intro, [], context, verbose=verbose, colour=options.color)
    return 1 if result.summary.errors else 3 if unjudged else 0
