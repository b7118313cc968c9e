"""Bare `lore`: what was spent, over all agents of this machine, and what to do first."""

from __future__ import annotations

import os
import time
from typing import Annotated

import typer

from lore.cli import flags
from lore.cli.common import cores, found_settings, ledgers_of, out, progress, quiet_pipe, surroundings, write_json
from lore.cli.pages import page_target, write_spending

GROUPS = ("day", "session", "model", "project", "agent")


@quiet_pipe
def run(
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

    Without a command: what agents spent here in the last 7 days, what was paid again, and what to do first. What was
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
    from lore.recording import recent
    from lore.recording.agents.logs import agent_named
    from lore.run.spending.overview import WEEK, OverviewRequest, summed

    if by is not None and by not in GROUPS:
        raise LoreError(f"--by {by}: no such grouping", hint=did_you_mean(by, GROUPS, "groupings"))
    page = page_target(report, opens=open_page, name="overview", taken=as_json)
    loaded, now, here = found_settings(config), time.time(), surroundings()
    request = OverviewRequest(
        since=now - WEEK if since is None else recent.since(since, now), until=now,
        agent=None if agent is None else agent_named(agent), by=by, compared=compare, jobs=cores(),
        project="" if project is None else os.path.abspath(project) if project in (".", "..") else project,
    )  # fmt: skip
    ledgers = ledgers_of(loaded, no_cache=no_cache, verbose=verbose, now=now)
    with progress(wanted=not verbose, colour=color, what="reading") as shown:
        found = summed(here, request, ledgers, shown)
    result = found.result
    if redact:
        from lore.report.redacted.results import redacted_overview

        result = redacted_overview(result)
    if as_json:
        write_json(result)
    elif page is None or page.path:
        from lore.report.commands import OverviewSelection, in_shell
        from lore.report.overview import write_overview

        own = agent is not None or recent.whereabouts(here, wide=False).paths  # a command without a path takes others
        places = tuple(filter(None, (in_shell(place, here.home) for place in result.looked))) if own else ()
        chosen = OverviewSelection(since or "7d", agent or "", "" if redact else request.project, places)
        write_overview(result, out(color), chosen)
    if page is not None:
        write_spending(page, found._replace(result=result), ledgers, redact=redact, verbose=verbose, colour=color)
    return 0
