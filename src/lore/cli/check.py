"""`lore check`: judge recordings, for CI."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from lore.cli.common import (
    AsJson,
    Colour,
    Config,
    For,
    Format,
    Redact,
    System,
    Tools,
    Verbose,
    completion,
    found_settings,
    log,
    out,
    quiet_pipe,
    reader_named,
    tell,
    writing,
)

if TYPE_CHECKING:
    from lore.run.reporting import Target


@quiet_pipe
def run(
    paths: Annotated[
        list[str] | None,
        typer.Argument(
            help="Recordings, folders, stores, or patterns ('logs/**/*.jsonl'); default: where agents keep logs."
        ),
    ] = None,
    last: Annotated[bool, typer.Option("--last", help="Judge the newest session alone, with its subagents.")] = False,
    since: Annotated[
        str | None, typer.Option("--since", help="Judge files written since then: 30m, 2h, 1d, 1w, or a date.")
    ] = None,
    select: Annotated[
        list[str] | None, typer.Option("--select", help="Find only these: codes, their beginnings (LORE1), names.")
    ] = None,
    ignore: Annotated[list[str] | None, typer.Option("--ignore", help="Do not find these; see --select.")] = None,
    min_reuse: Annotated[
        float | None, typer.Option("--min-reuse", help="Every pair reuses at least this share.")
    ] = None,
    max_breaks: Annotated[
        int | None, typer.Option("--max-breaks", help="At most this many unexpected cache breaks.")
    ] = None,
    max_lost_tokens: Annotated[
        int | None, typer.Option("--max-lost-tokens", help="At most this many tokens lost unexpectedly.")
    ] = None,
    baseline: Annotated[
        str | None, typer.Option("--baseline", help="Findings that this file knows do not fail; only new ones do.")
    ] = None,
    update_baseline: Annotated[
        bool, typer.Option("--update-baseline", help="Write the findings of this run into the --baseline file.")
    ] = False,
    report: Annotated[
        list[str] | None,
        typer.Option(
            "--report",
            help="KIND or KIND=FILE, also several: terminal, json, jsonl, markdown, junit, sarif, github.",
        ),
    ] = None,
    redact: Redact = False,
    reader: For = None,
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
    judged. `lore explain CODE` says what a finding means.

    Settings stand in lore.toml, or in pyproject.toml below [tool.lore]. [check]: select, ignore, count_as_waste
    (lists of codes, their beginnings or names), min_reuse, max_breaks, max_lost_tokens. [[check.per_path]]: path,
    and what holds there instead. [[check.exempt]]: code, path, reason, and perhaps chain, json_path. Paths are
    relative to the file of the settings; `*` is one name, `**` any folders.
    """
    from lore.cli.checking import Wanted, chosen, held_against, needed, write
    from lore.cli.progress import progress
    from lore.errors import LoreError
    from lore.judge.policy import Budgets
    from lore.recording.opening import Options
    from lore.report.terminal import counted
    from lore.run.check import check, cores
    from lore.run.reporting import keep_apart, targets

    loaded = found_settings(config)
    given = Budgets(min_reuse=min_reuse, max_breaks=max_breaks, max_lost_tokens=max_lost_tokens)
    fault = given.fault()
    if fault:
        raise LoreError(fault)
    budgets = given.over(loaded.settings.check.budgets)
    asked = targets(report or (), as_json=as_json)
    against = held_against(
        loaded, explicit=config is not None, select=select or (), ignore=ignore or (), baseline=baseline,
        update=update_baseline, redact=redact, reader=reader_named(reader),
    )  # fmt: skip
    options = Options(
        format=format,
        rules=loaded.settings.assemble,
        completion=completion(system, tools, strict=False),
        log=log(verbose),
    )
    if follow:
        from lore.cli.check_follow import follow_one, refuse

        refuse(jobs=jobs, baseline=baseline, since=since, last=last, pass_over=pass_over, asked=asked)
        return follow_one(paths or [], budgets, options, against, as_json=_is_json(asked), color=color, verbose=verbose)
    keep_apart(asked, needed(loaded, baseline))
    which = chosen(paths or [], Wanted(last=last, since=since, format=format))
    with progress(wanted=not verbose, colour=color) as told:
        outcome = check(
            which.paths, budgets, options, against=against, jobs=cores() if jobs is None else jobs, progress=told,
            wanted=which.wanted, looked=which.looked, pass_over=pass_over,
        )  # fmt: skip
    if outcome.baselined is not None:
        kept = f", {outcome.unseen:,} of them kept: not looked for in this run" if outcome.unseen else ""
        tell(f"{baseline} knows {counted(outcome.baselined, 'finding')} now{kept}")
    with writing():
        write(outcome.result, asked, which.paths, out(color), verbose=verbose)
    if outcome.failed:
        return 1
    return 3 if outcome.incomplete else 0


def _is_json(asked: list[Target]) -> bool:
    return any(one.kind == "json" for one in asked)
