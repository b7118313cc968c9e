"""`lore sessions`: what recordings agents keep on this machine."""

from __future__ import annotations

import time
from functools import partial
from typing import Annotated

import typer

from lore.cli import flags
from lore.cli.common import answer, cores, found_settings, ledgers_of, progress, quiet_pipe, surroundings


@quiet_pipe
def run(
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
    paid again without need, and those that were paid again though nothing in the log explains it. Sessions that are
    shown are read for that, up to 256 MB of them; --all reads all.
    `lore check PATH` says why tokens were paid again. What was read is kept in your cache folder, in numbers and
    names alone; nothing leaves this machine.
    """
    from lore.recording import recent
    from lore.recording.agents.logs import agent_named
    from lore.run.spending.sessions import MOST_BYTES, SessionsRequest, sessions

    loaded, now = found_settings(config), time.time()
    request = SessionsRequest(
        agent=None if agent is None else agent_named(agent),
        since=None if since is None else recent.since(since, now),
        most=None if every else limit,
        most_bytes=None if every else MOST_BYTES,
        jobs=cores(),
    )
    ledgers = ledgers_of(loaded, no_cache=no_cache, verbose=verbose, now=now)
    with progress(wanted=not verbose, colour=color, what="reading") as shown:
        found = sessions(surroundings(), request, ledgers, shown)
    if redact:
        from lore.report.redacted.results import redacted_sessions

        found = redacted_sessions(found)
    from lore.report.found import write_sessions

    answer(found, partial(write_sessions, now=now), as_json=as_json, color=color)
    return 0
