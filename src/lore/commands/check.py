"""`lore check`: judge recordings, for CI."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer

from lore.commands import common, flags
from lore.commands.pages import page_among, read_twice, write_pages
from lore.commands.tables import judge_into, tables_among

if TYPE_CHECKING:
    from lore.config import Loaded
    from lore.judge.messages import Finding
    from lore.model.codes import Reader
    from lore.report.forms.terminal import FindingsWriter
    from lore.run.checking.check import CheckOutcome
    from lore.run.checking.verdicts import CheckContext
    from lore.run.reports import Target


@common.quiet_pipe
def run(
    paths: Annotated[
        list[str] | None,
        typer.Argument(
            help="Recordings, folders, stores, or patterns ('logs/**/*.jsonl'); default: where agents keep logs."
        ),
    ] = None,
    last: flags.Last = False,
    since: flags.Since = None,
    select: flags.Select = None,
    ignore: flags.Ignore = None,
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
        str | None, typer.Option("--baseline", help="Findings listed in this file do not fail; only new ones do.")
    ] = None,
    update_baseline: Annotated[
        bool, typer.Option("--update-baseline", help="Write the findings of this run into the --baseline file.")
    ] = False,
    report: flags.Reports = None,
    open_page: flags.Open = False,
    redact: flags.Redact = False,
    reader: flags.For = None,
    jobs: Annotated[
        int | None, typer.Option("--jobs", "-j", min=1, help="Files judged at a time; default: the number of cores.")
    ] = None,
    cluster: Annotated[
        str | None,
        typer.Option(
            "--cluster",
            help="Judge on a Dask cluster: the address of its scheduler, or local (--jobs workers here). Extra: dask.",
        ),
    ] = None,
    pass_over: flags.PassOver = False,
    system: flags.System = None,
    tools: flags.Tools = None,
    follow: Annotated[
        bool, typer.Option("--follow", help="Judge one recording as it is written, until interrupted.")
    ] = False,
    as_json: flags.AsJson = False,
    format: flags.Format = None,
    config: flags.Config = None,
    color: flags.Colour = None,
    verbose: flags.Verbose = False,
) -> int:
    """Judge recordings, for CI.

    Exit code 1 where a session wastes its cache, 2 where a name cannot be read, 3 where not all could be
    judged. `lore explain CODE` says what a finding means.

    Settings stand in lore.toml, or in pyproject.toml below [tool.lore]. [check]: select, ignore, count_as_waste
    (lists of codes, their beginnings or names), min_reuse, max_breaks, max_lost_tokens. [[check.per_path]]: path,
    and what holds there instead. [[check.exempt]]: code, path, reason, and perhaps chain, json_path. Paths are
    relative to the file of the settings; `*` is one name, `**` any folders.
    """
    from msgspec.structs import replace

    from lore.errors import LoreError
    from lore.judge.policy import Budgets
    from lore.recording.corpus import is_stream
    from lore.recording.inputs import inputs
    from lore.recording.opening import Options
    from lore.run.checking.check import check
    from lore.run.reports import at_once, keep_apart, targets

    loaded = common.found_settings(config)
    given = Budgets(min_reuse=min_reuse, max_breaks=max_breaks, max_lost_tokens=max_lost_tokens)
    fault = given.fault()
    if fault:
        raise LoreError(fault)
    budgets = given.over(loaded.settings.check.budgets)
    given_reports, tables = tables_among(report or [])
    reports = targets(given_reports, as_json=as_json)
    context = context_of(
        loaded, explicit=config is not None, select=select or (), ignore=ignore or (), baseline=baseline,
        update=update_baseline, redact=redact, reader=common.reader_named(reader),
    )  # fmt: skip
    options = Options(
        format=format,
        rules=loaded.settings.assemble,
        completion=common.completion(system, tools, strict=False),
        log=common.log(verbose),
    )
    if follow:
        kinds = at_once(reports)
        common.refuse(
            (tables is not None, "--follow writes no tables", "leave --report parquet out"),
            (jobs is not None, "--follow judges one recording, in this process", "leave --jobs out"),
            (cluster is not None, "--follow judges one recording as it grows", "leave --cluster out"),
            (since is not None or last, "--follow takes one recording",
             "name the file, and leave --since and --last out"),
            (pass_over, "--follow judges the recording that is named", "leave --pass-over out"),
            (baseline is not None, "--follow says findings as they come", "leave --baseline out"),
            (bool(kinds), f"--follow writes no {kinds[0] if kinds else ''} report",
             "leave --report out, or use --json"),
        )  # fmt: skip
        is_json = any(report.kind == "json" for report in reports)
        context = replace(context, budgets=budgets, options=options)
        return follow_one(paths or [], context, as_json=is_json, color=color, verbose=verbose)
    workers = None
    if cluster is not None:
        from lore.run.checking.check import cluster_at

        has_its_own = jobs is not None and cluster != "local"
        common.refuse((has_its_own, "--jobs does not set how many workers a cluster has", "leave --jobs out"))
        workers = cluster_at(cluster, jobs or common.cores(), common.tell)
    page = page_among(reports, opens=open_page, needed=needed(loaded, baseline), name="check")
    keep_apart(reports, needed(loaded, baseline))
    which = flags.chosen_inputs(paths or [], last=last, since=since, format=format)
    streamed: FindingsWriter | None = None
    hear: Callable[[Sequence[Finding]], object] | None = None
    if may_stream(reports):
        from lore.report.forms.terminal import FindingsWriter

        streamed = FindingsWriter(common.out(color), verbose=verbose)
        hear = common.writing()(streamed.write)
    again = [] if page is None else read_twice(inputs(which.paths, which.wanted))
    with (
        common.progress(wanted=not verbose, colour=color) as report_progress,
        common.interruptible(wanted=not any(map(is_stream, which.paths))) as interrupted,
    ):
        judge = partial(
            check, which.paths, budgets, options, context=context, jobs=common.cores() if jobs is None else jobs,
            progress=report_progress, wanted=which.wanted, looked=which.looked,
            pass_over=pass_over or bool(which.looked), interrupted=interrupted, cluster=workers,
            hear=hear,
        )  # fmt: skip
        outcome = judge() if tables is None else judge_into(tables, lambda take: judge(tabled=take), redact=redact)
    code = _answer(outcome, context, reports, which.paths, color=color, verbose=verbose, streamed=streamed)
    if page is not None and not outcome.result.interrupted:
        from lore.report.html.intros import of_check
        from lore.run.pages import PageRequest

        request = PageRequest(options, dated=context.dated, redact=redact, reader=context.reader)
        intro = of_check(outcome.result, verbose=verbose)
        write_pages(page, intro, again, request, verbose=verbose, colour=color)
    return code


def may_stream(reports: list[Target]) -> bool:
    """Return whether findings are written as files are judged: in a text report without a progress bar."""
    texts = [target for target in reports if target.kind == "terminal"]
    beside = [target for target in reports if not target.path]
    return texts == beside and len(texts) == 1 and not sys.stderr.isatty()


def _answer(
    outcome: CheckOutcome, context: CheckContext, reports: list[Target], paths: list[str], *, color: bool | None,
    verbose: bool, streamed: FindingsWriter | None,
) -> int:  # fmt: skip
    """Report the size of a new baseline, write the reports, and return the exit code."""
    from lore.report.forms.terminal import Terminal
    from lore.report.plain import counted
    from lore.report.sentences.findings import describe_interruption
    from lore.run.reports import write_reports

    if outcome.baselined is not None:
        kept = f", {outcome.unseen:,} of them kept: not looked for in this run" if outcome.unseen else ""
        common.tell(f"{context.path} knows {counted(outcome.baselined, 'finding')} now{kept}")
    stopped = outcome.result.interrupted
    if stopped and not stopped.files:
        return common.INTERRUPTED
    if stopped:
        if any(target.path for target in reports) or context.update:
            common.tell("interrupted: no file is written")
        reports = [target for target in reports if not target.path]
        if all(target.kind != "terminal" for target in reports):
            common.tell(describe_interruption(stopped))
    with common.writing():
        terminal = None if streamed is None else Terminal(streamed)
        write_reports(outcome.result, reports, paths, common.out(color), os.environ, verbose=verbose, terminal=terminal)
    if stopped:
        return common.INTERRUPTED
    if outcome.failed:
        return 1
    return 3 if outcome.incomplete else 0


def follow_one(
    paths: list[str], context: CheckContext, *, as_json: bool, color: bool | None, verbose: bool
) -> int:  # fmt: skip
    """Write findings when their turn is complete, and the sums when interrupted."""
    from lore.errors import LoreError
    from lore.model.results import CheckResult
    from lore.recording.tailing import every
    from lore.report.forms.registry import REPORTS
    from lore.report.forms.terminal import write_findings
    from lore.report.redacted.results import redacted
    from lore.run.checking.watch import follow_check

    if len(paths) != 1 or os.path.isdir(paths[0]):
        raise LoreError("--follow takes one recording", hint="name the file that is being written")

    console = common.out(color)
    with common.interruptible() as interrupted:
        for result in follow_check(paths[0], context, common.tell, wait=lambda: every() and not interrupted()):
            shown = redacted(result) if context.redact and result is not None else result
            if shown is None:
                sys.stdout.flush()
            elif as_json:
                common.write_json(shown)
            elif isinstance(shown, CheckResult):
                REPORTS["terminal"].write(shown, console, verbose=True)
            elif verbose or shown.severity != "note":
                write_findings([shown], console)
    return common.INTERRUPTED


def context_of(
    loaded: Loaded, *, explicit: bool, select: Sequence[str], ignore: Sequence[str], baseline: str | None, update: bool,
    redact: bool, reader: Reader | None,
) -> CheckContext:  # fmt: skip
    """Return settings combined with options: `--select` replaces the settings' codes, `--ignore` adds to them.

    Paths in settings are relative to the file that was found, or to the working directory if it was named.
    """
    import msgspec

    from lore.errors import LoreError
    from lore.files import relative
    from lore.judge.policy import NarrowedRun, Policy
    from lore.recording import corpus
    from lore.run.checking.verdicts import CheckContext

    if update and baseline is None:
        raise LoreError("--update-baseline names no file", hint="give it with --baseline FILE")
    if baseline is not None and (not baseline or baseline == corpus.STDIN):
        raise LoreError("a baseline is a file", hint="--baseline lore-baseline.json")
    narrowed = NarrowedRun(_listed(select), _listed(ignore))
    Policy(select=narrowed.select, ignore=narrowed.ignore).known("--")
    both = next((name for name in narrowed.select if name.lower() in map(str.lower, narrowed.ignore)), None)
    if both is not None:
        raise LoreError(f"--select and --ignore both name {both}", hint="leave it out of one of them")
    policy = loaded.settings.check.policy
    policy = msgspec.structs.replace(
        policy, select=narrowed.select or policy.select, ignore=(*policy.ignore, *narrowed.ignore)
    )
    file = loaded.file
    return CheckContext(
        policy=policy,
        settings="" if file is None else corpus.show(relative(file)),
        root="" if file is None or explicit else str(file.parent),
        path=baseline or "",
        update=update,
        redact=redact,
        narrowed=narrowed,
        dated=common.dated_rules(loaded),
        reader=reader or loaded.settings.check.reader,
    )


def needed(loaded: Loaded, baseline: str | None) -> dict[str, str]:
    """Name the files of a run that no report may replace."""
    found = {} if loaded.file is None else {"the file of the settings": str(loaded.file)}
    return found if baseline is None else {**found, "the baseline": baseline}


def _listed(given: Sequence[str]) -> tuple[str, ...]:
    """Return selectors, also those that are joined by commas."""
    return tuple(part.strip() for text in given for part in text.split(",") if part.strip())
