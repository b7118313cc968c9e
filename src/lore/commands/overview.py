"""Bare `lore`: the spending of agents here, the re-billed part of it, and the first thing to change."""

from __future__ import annotations

import os
import time
from typing import Annotated

import typer
from msgspec import Struct

from lore.commands import common, flags
from lore.errors import LoreError, did_you_mean
from lore.recording.agents.logs import agent_named
from lore.report.commands import OverviewSelection, in_shell
from lore.run import recent
from lore.run.spending.overview import WEEK, OverviewRequest, sum_spending

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
        sums = sum_spending(surroundings, request, ledgers, progress)
    result = common.redacted_if(options.redact, sums.result)
    if options.as_json:
        common.write_json(result)
    elif page is None or page.path:
        from lore.report.overview import write_overview

        selection = _selection(result.looked, options, "" if options.redact else request.project)
        write_overview(result, common.out(options.color), selection, verbose=options.verbose)
    if page is not None:
        from lore.commands.pages import write_spending

        write_spending(
            page, sums._replace(result=result), ledgers, redact=options.redact, verbose=options.verbose,
            colour=options.color,
        )  # fmt: skip
    return common.exit_code(result.failed)


def _request(now: float, options: OverviewOptions) -> OverviewRequest:
    """Return what to sum; raises LoreError for an unknown grouping, or a span that is empty."""
    by, project = options.by, options.project
    if by is not None and by not in GROUPS:
        raise LoreError(f"--by {by}: no such grouping", hint=did_you_mean(by, GROUPS, "groupings"))
    end = now if options.until is None else recent.parse_until(options.until, now)
    begin = end - WEEK if options.since is None else recent.parse_since(options.since, now)
    if begin >= end and options.until is None:
        raise LoreError(f"--since {options.since} is in the future", hint="name an earlier time: --since 2026-01-01")
    if begin >= end:
        raise LoreError("--until is not after --since", hint="name a later time: --since 2026-01-01 --until 2026-01-31")
    return OverviewRequest(
        since=begin, until=end, agent=None if options.agent is None else agent_named(options.agent), by=by,
        compared=options.compare, limits=options.until is None,
        project="" if project is None else os.path.abspath(project) if project in (".", "..") else project,
    )  # fmt: skip


def _selection(looked: list[str], options: OverviewOptions, project: str) -> OverviewSelection:
    """Return the options as typed, for the commands that a report names."""
    surroundings = common.surroundings()
    # `lore check` without a path takes the logs of this project if it has some.
    is_elsewhere = options.agent is not None or recent.find_agent_logs(surroundings, project=True)
    places = tuple(filter(None, (in_shell(place, surroundings.home) for place in looked))) if is_elsewhere else ()
    return OverviewSelection(
        options.since or "7d", options.until or "", options.agent or "", project, places, surroundings.home
    )  # fmt: skip
