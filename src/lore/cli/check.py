"""`lore check`: judge recordings, for CI."""

from __future__ import annotations

from typing import Annotated

import typer

from lore.cli.common import (
    AsJson,
    Colour,
    Config,
    Format,
    System,
    Tools,
    Verbose,
    completion,
    log,
    out,
    quiet_pipe,
    settings,
    writing,
)


@quiet_pipe
def run(
    paths: Annotated[
        list[str] | None,
        typer.Argument(help="Recordings, folders of them, or patterns ('logs/**/*.jsonl'); default: this folder."),
    ] = None,
    min_reuse: Annotated[
        float | None, typer.Option("--min-reuse", help="Every pair reuses at least this share.")
    ] = None,
    max_busts: Annotated[int | None, typer.Option("--max-busts", help="At most this many unexpected busts.")] = None,
    max_lost_tokens: Annotated[
        int | None, typer.Option("--max-lost-tokens", help="At most this many tokens lost unexpectedly.")
    ] = None,
    jobs: Annotated[
        int | None, typer.Option("--jobs", "-j", min=1, help="Files judged at a time; default: the number of cores.")
    ] = None,
    pass_over: Annotated[
        bool, typer.Option("--pass-over", help="Pass over files that are no recordings, also those that are named.")
    ] = False,
    system: System = None,
    tools: Tools = None,
    follow: Annotated[
        bool, typer.Option("--follow", help="Judge one recording as it is written, until interrupted.")
    ] = False,
    as_json: AsJson = False,
    format: Format = None,
    config: Config = None,
    color: Colour = None,
    verbose: Verbose = False,
) -> int:
    """Judge recordings, for CI.

    Exit code 1 where a session wastes its cache, 2 where a name cannot be read, 3 where not all could be
    judged.
    """
    from lore.check.budgets import Budgets
    from lore.cli.progress import progress
    from lore.errors import LoreError
    from lore.run.check import check, cores
    from lore.run.options import Options

    loaded = settings(config)
    given = Budgets(min_reuse=min_reuse, max_busts=max_busts, max_lost_tokens=max_lost_tokens)
    fault = given.fault()
    if fault:
        raise LoreError(fault)
    budgets = given.over(loaded.check)
    options = Options(
        format=format,
        rules=loaded.assemble,
        completion=completion(system, tools, strict=False),
        log=log(verbose),
    )
    if follow:
        if jobs is not None:
            raise LoreError("--follow judges one recording, in this process", hint="leave --jobs out")
        from lore.cli.check_follow import follow_one

        return follow_one(paths or [], budgets, options, as_json=as_json, color=color, verbose=verbose)
    with progress(wanted=not verbose, colour=color) as told:
        result, failed, incomplete = check(
            paths or ["."], budgets, options, jobs=cores() if jobs is None else jobs, progress=told, pass_over=pass_over
        )
    from lore.report.registry import REPORTS

    with writing():
        REPORTS["json" if as_json else "terminal"].write(result, out(color), verbose=verbose)
    if failed:
        return 1
    return 3 if incomplete else 0
