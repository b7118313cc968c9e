"""What agents spent here (bare `lore`), what they keep (`lore sessions`), and two sides of it (`lore compare`)."""

from __future__ import annotations

import os
import time
from functools import partial
from typing import Annotated

import typer

from lore.commands import common, flags
from lore.commands.pages import page_target, write_pages, write_spending

GROUPS = ("day", "session", "model", "project", "agent")


@common.quiet_pipe
def overview(
    context: typer.Context,
    since: Annotated[
        str | None, typer.Option("--since", help="What was sent since then: 30m, 2h, 1d, 1w, or a date; default: 7d.")
    ] = None,
    agent: Annotated[
        str | None, typer.Option("--agent", help="Recordings of this agent alone; an unknown word lists them.")
    ] = None,
    project: Annotated[
        str | None,
        typer.Option("--project", help="Sessions of this project alone: its folder, or the end of its path."),
    ] = None,
    by: Annotated[
        str | None, typer.Option("--by", help="Also a line for each day, session, model, project or agent.")
    ] = None,
    compare: Annotated[bool, typer.Option("--compare", help="Also the same length of time before that.")] = False,
    no_cache: flags.NoCache = False,
    report: flags.Page = None,
    open_page: flags.Open = False,
    redact: flags.Redact = False,
    as_json: flags.AsJson = False,
    config: flags.Config = None,
    color: flags.Colour = None,
    verbose: flags.Verbose = False,
    version: Annotated[bool, typer.Option("--version", "-V", help="Print the version and exit.")] = False,
) -> int:
    """Judge prompt caches offline, and assemble prompts whose prefix does not move.

    Without a command: what agents spent here in the last 7 days, what was re-billed, and what to do first. What was
    read is kept in your cache folder, in numbers and names alone. Nothing leaves this machine.
    """
    if context.invoked_subcommand is not None:
        given = {name for name, value in context.params.items() if value not in (None, False, [], ())}
        option = next((each.opts[0] for each in context.command.params if each.name in given), None)
        if option is not None:
            raise typer.BadParameter(f"{option} stands behind the command: lore {context.invoked_subcommand} {option}")
        return 0
    if version:
        from lore import __version__

        print(f"lore {__version__}")
        return 0
    from lore.errors import LoreError, did_you_mean
    from lore.recording.agents.logs import agent_named
    from lore.run import recent
    from lore.run.spending.overview import WEEK, OverviewRequest, summed

    if by is not None and by not in GROUPS:
        raise LoreError(f"--by {by}: no such grouping", hint=did_you_mean(by, GROUPS, "groupings"))
    page = page_target(report, opens=open_page, name="overview", taken=as_json)
    loaded, now, here = common.found_settings(config), time.time(), common.surroundings()
    request = OverviewRequest(
        since=now - WEEK if since is None else recent.since(since, now), until=now,
        agent=None if agent is None else agent_named(agent), by=by, compared=compare, jobs=common.cores(),
        project="" if project is None else os.path.abspath(project) if project in (".", "..") else project,
    )  # fmt: skip
    ledgers = common.ledgers_of(loaded, no_cache=no_cache, verbose=verbose, now=now)
    with common.progress(wanted=not verbose, colour=color, what="reading") as shown:
        found = summed(here, request, ledgers, shown)
    result = found.result
    if redact:
        from lore.report.redacted.results import redacted

        result = redacted(result)
    if as_json:
        common.write_json(result)
    elif page is None or page.path:
        from lore.report.commands import OverviewSelection, in_shell
        from lore.report.overview import write_overview

        own = agent is not None or recent.whereabouts(here, wide=False).paths  # a command without a path takes others
        places = tuple(filter(None, (in_shell(place, here.home) for place in result.looked))) if own else ()
        chosen = OverviewSelection(since or "7d", agent or "", "" if redact else request.project, places)
        write_overview(result, common.out(color), chosen)
    if page is not None:
        write_spending(page, found._replace(result=result), ledgers, redact=redact, verbose=verbose, colour=color)
    return 3 if result.failed else 0


@common.quiet_pipe
def sessions(
    agent: Annotated[
        str | None, typer.Option("--agent", help="Those of this agent alone; an unknown word lists them.")
    ] = None,
    since: Annotated[
        str | None, typer.Option("--since", help="Sessions written since then: 30m, 2h, 1d, 1w, or a date.")
    ] = None,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, help="At most this many.")] = 20,
    every: Annotated[
        bool, typer.Option("--all", help="All of them, each read to its end: as long as `lore check` takes.")
    ] = False,
    no_cache: flags.NoCache = False,
    redact: flags.Redact = False,
    as_json: flags.AsJson = False,
    config: flags.Config = None,
    color: flags.Colour = None,
    verbose: flags.Verbose = False,
) -> int:
    """List the sessions that agents keep here, the newest first.

    Of each: the agent, the project, its age, its requests, the tokens that were read from a cache, those that were
    re-billed as waste, and those that were re-billed though nothing in the log explains it. Sessions that are
    shown are read for that, up to 256 MB of them; --all reads all.
    `lore check PATH` says why tokens were re-billed. What was read is kept in your cache folder, in numbers and
    names alone; nothing leaves this machine.
    """
    from lore.recording.agents.logs import agent_named
    from lore.run import recent
    from lore.run.spending.sessions import MOST_BYTES, SessionsRequest, is_incomplete, sessions

    loaded, now = common.found_settings(config), time.time()
    request = SessionsRequest(
        agent=None if agent is None else agent_named(agent),
        since=None if since is None else recent.since(since, now),
        most=None if every else limit,
        most_bytes=None if every else MOST_BYTES,
        jobs=common.cores(),
    )
    ledgers = common.ledgers_of(loaded, no_cache=no_cache, verbose=verbose, now=now)
    with common.progress(wanted=not verbose, colour=color, what="reading") as shown:
        found = sessions(common.surroundings(), request, ledgers, shown)
    incomplete = is_incomplete(found)
    if redact:
        from lore.report.redacted.results import redacted

        found = redacted(found)
    from lore.report.found import write_sessions

    common.answer(found, partial(write_sessions, now=now), as_json=as_json, color=color)
    return 3 if incomplete else 0


_SIDE = "A path, or KEY:VALUE (agent, model, version, client, gateway, project) or FROM..TO, joined by commas."


@common.quiet_pipe
def compare(
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
    loaded, now = common.found_settings(config), time.time()
    request = CompareRequest(side_of(left, now), side_of(right, now), tuple(paths or ()), common.cores())
    ledgers = common.ledgers_of(loaded, no_cache=no_cache, verbose=verbose, now=now)
    with common.progress(wanted=not verbose, colour=color, what="reading") as shown, common.unquoted(redact=redact):
        result = compare(common.surroundings(), request, ledgers, shown)
    if redact:
        from lore.report.redacted.results import redacted

        result = redacted(result)
    if page is None or page.path:
        common.answer(result, write_comparison, as_json=as_json, color=color)
    if page is not None:
        from lore.report.html.intros import of_comparison
        from lore.run.pages import PageRequest

        shown_as = PageRequest(ledgers.options, redact=redact)
        write_pages(page, of_comparison(result), [], shown_as, verbose=verbose, colour=color)
    return 3 if result.failed else 0
