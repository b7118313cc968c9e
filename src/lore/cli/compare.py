"""`lore compare`: two recordings, folders, spans of time, versions, models or agents side by side."""

from __future__ import annotations

import time
from typing import Annotated

import typer

from lore.cli import flags
from lore.cli.common import answer, cores, found_settings, ledgers_of, progress, quiet_pipe, surroundings, unquoted
from lore.cli.pages import page_target, write_pages

_SIDE = "A path, or KEY:VALUE (agent, model, version, client, gateway, project) or FROM..TO, joined by commas."


@quiet_pipe
def run(
    left: Annotated[str, typer.Argument(metavar="A", help=_SIDE)],
    right: Annotated[str, typer.Argument(metavar="B", help="The other side.")],
    paths: Annotated[
        list[str] | None, typer.Option("--in", help="Where recordings lie; default: where agents keep them.")
    ] = None,
    no_cache: flags.NoCache = False,
    report: flags.Page = None,
    open_page: flags.Open = False,
    redact: flags.Redact = False,
    as_json: flags.AsJson = False,
    config: flags.Config = None,
    color: flags.Colour = None,
    verbose: flags.Verbose = False,
) -> int:
    """Compare two sides: what was read, lost and paid.

    It says which differences are more than chance.

    Recordings or folders (lore compare before/ after/), a client's releases (version:<2.1.215 version:>=2.1.215),
    agents (agent:codex agent:pi), models, gateways (gateway:openrouter.ai gateway:none), spans of time (14d..7d 7d..).
    Intervals hold at 95 %; where counts are small it says so.
    """
    from lore.report.comparison import write_comparison
    from lore.run.spending.compare import CompareRequest, compare, side_of

    page = page_target(report, opens=open_page, name="compare", taken=as_json)
    loaded, now = found_settings(config), time.time()
    request = CompareRequest(side_of(left, now), side_of(right, now), tuple(paths or ()), cores())
    ledgers = ledgers_of(loaded, no_cache=no_cache, verbose=verbose, now=now)
    with progress(wanted=not verbose, colour=color, what="reading") as shown, unquoted(redact=redact):
        result = compare(surroundings(), request, ledgers, shown)
    if redact:
        from lore.report.redacted.results import redacted_comparison

        result = redacted_comparison(result)
    if page is None or page.path:
        answer(result, write_comparison, as_json=as_json, color=color)
    if page is not None:
        from lore.report.html.intros import of_comparison
        from lore.run.pages import PageRequest

        shown_as = PageRequest(ledgers.options, redact=redact)
        write_pages(page, of_comparison(result), [], shown_as, verbose=verbose, colour=color)
    return 0
