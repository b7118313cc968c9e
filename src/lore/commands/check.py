"""`lore check`: judge recordings, for CI."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

from msgspec import Struct
from msgspec.structs import replace

from lore.commands import common
from lore.config import Loaded
from lore.errors import LoreError, lacks_plug_in
from lore.judge.policy import Policy, Ruling
from lore.model.fact import count_of
from lore.model.results import CheckResult, Summary
from lore.plugins import entry_points
from lore.recording.corpus import STDIN, is_stream
from lore.recording.inputs import inputs
from lore.recording.opening import Options
from lore.report.forms.base import Report
from lore.report.forms.terminal import Terminal, known_cost
from lore.report.sentences import describe_interruption
from lore.run.checking.check import CheckOutcome, CheckRun, check
from lore.run.checking.verdicts import CheckContext
from lore.run.outputs import Target, parse_targets, reporting_errors, write_reports

if TYPE_CHECKING:
    from lore.commands import flags
    from lore.commands.lint import LintOptions


_NAMED = 5  # fixed findings that are named, at most


class CheckOptions(Struct, frozen=True):
    """The options of `lore check`."""

    paths: Annotated[
        list[str] | None,
        "PATH...",
        "Recordings, folders, stores, or patterns ('logs/**/*.jsonl'); default: this project's logs or all.",
    ] = None
    last: flags.Last = False
    since: flags.Since = None
    select: flags.Select = None
    ignore: flags.Ignore = None
    min_reuse: Annotated[
        float | None,
        "Report requests that could reuse, by their bytes, less than this share (0 to 1); if min_reuse in the"
        " settings is stricter, that holds.",
    ] = None
    baseline: Annotated[str | None, "Findings listed in this file do not fail; only new ones do."] = None
    update_baseline: Annotated[bool, "Write the findings of this run into the --baseline file."] = False
    report: flags.Reports = None
    redact: flags.Redact = False
    jobs: Annotated[
        str | None,
        "--jobs",
        "-j",
        "How many files to judge at a time (default: the number of cores). With the extra dask: the address"
        " of a Dask scheduler, whose workers judge them.",
    ] = None
    pass_over: flags.PassOver = False
    as_json: flags.AsJson = False
    format: flags.Format = None
    config: flags.Config = None
    verbose: flags.Verbose = False
    quiet: flags.Quiet = False


@common.takes(CheckOptions)
def run(options: CheckOptions) -> int:
    """Find cache breaks in recordings: the cause, cost and fix of each.

    Exit code 1 if a finding is an error: waste, damage that makes verdicts wrong, an exceeded budget; 2 if a setting is
    wrong, or no input could be judged; 3 if some input could not be judged, and the others were. `lore explain CODE`
    says what a finding means. --report parquet=FOLDER writes tables (lore guide tables).

    Settings are in lore.toml, or in pyproject.toml below [tool.lore]. [check]: select, ignore, count_as_waste (lists of
    codes, their beginnings or names), max_tail_tokens; and budgets, judged whatever is selected: min_reuse, max_breaks,
    max_lost_tokens. [[check.per_path]]: path, and other settings for these recordings. [[check.exempt]]: code, path,
    reason, and perhaps chain, json_path. Paths are relative to the settings file; `*` is one name, `**` any folders.
    """
    loaded = common.find_settings(options.config)
    context, workers = _context(options, loaded), _workers(options.jobs)
    tables, kinds = _split_tables(options.report or [])
    reports = parse_targets(kinds, as_json=options.as_json)
    page = common.page_among(reports, opens=False, settings=loaded.file, baseline=options.baseline, name="check")
    selection = common.chosen_inputs(options.paths or [], last=options.last, since=options.since, format=options.format)
    page_files = [] if page is None else common.require_rereadable(inputs(selection.paths, selection.accepts))
    with (
        common.progress(is_on=not options.verbose) as progress,
        common.interruptible(is_on=not any(map(is_stream, selection.paths))) as interrupted,
        reporting_errors(
            reports,
            [*selection.paths, *filter(None, (context.baseline, context.settings))],
            partial(CheckResult, summary=Summary()),
        ),
    ):
        job = CheckRun(
            accepts=selection.accepts, looked=selection.looked, pass_over=options.pass_over or bool(selection.looked),
            workers=workers, progress=progress, interrupted=interrupted,
        )  # fmt: skip
        if tables is None:
            outcome = check(selection.paths, context, job)
        else:
            from lore.run.spending.tables import check_into_tables

            outcome = check_into_tables(*tables, selection.paths, context, job, common.tell)
    code = _report(options, context, outcome, reports, selection.paths)
    if page is not None and not outcome.result.interrupted:
        from lore.commands.pages import write_pages
        from lore.report.html.page import introduce_report

        intro = introduce_report(outcome.result, outcome.counted, verbose=options.verbose)
        write_pages(page, intro, page_files, context, verbose=options.verbose, colour=None)
    return code


def _context(options: CheckOptions, loaded: Loaded) -> CheckContext:
    """Return how to judge: by the settings, and the options of `lore check` that override them."""
    baseline = options.baseline
    if options.update_baseline and baseline is None:
        raise LoreError("--update-baseline names no file", hint="give it with --baseline FILE")
    if baseline is not None and baseline in ("", STDIN):
        raise LoreError("a baseline is a file", hint="--baseline lore-baseline.json")
    if options.min_reuse is not None and not 0 <= options.min_reuse <= 1:
        raise LoreError(f"--min-reuse {options.min_reuse:g} is not a share from 0 to 1", hint="0.9 is 90 %")
    context = context_of(loaded, options)
    shares = [share for share in (options.min_reuse, context.policy.min_reuse) if share is not None]
    return replace(
        context, baseline=baseline or "", renews_baseline=options.update_baseline,
        policy=replace(context.policy, min_reuse=max(shares, default=None)),
        options=Options(format=options.format, rules=loaded.settings.assemble, log=common.log(options.verbose)),
    )  # fmt: skip


def context_of(loaded: Loaded, options: CheckOptions | LintOptions) -> CheckContext:
    """Return settings combined with the options that `check` and `lint` share: `--select` replaces, `--ignore` adds.

    Paths in settings are relative to their file, or to the working directory if the file was named. Raises LoreError
    for options that contradict each other.
    """
    common.refuse((options.quiet and options.verbose, "-q and -v contradict each other", "leave one out"))
    select, ignore = (  # several may be joined by commas
        tuple(part.strip() for text in selectors or () for part in text.split(",") if part.strip())
        for selectors in (options.select, options.ignore)
    )
    ruling = Ruling(select=select, ignore=ignore)
    Policy(select=ruling.select, ignore=ruling.ignore).check_selectors("--")
    conflict = next((name for name in ruling.select if name.lower() in map(str.lower, ruling.ignore)), None)
    if conflict is not None:
        raise LoreError(f"--select and --ignore both name {conflict}", hint="leave it out of one of them")
    context, policy = CheckContext.of(loaded), loaded.settings.check
    policy = replace(policy, select=ruling.select or policy.select, ignore=(*policy.ignore, *ruling.ignore))
    root = "" if options.config is not None else context.root
    return replace(context, policy=policy, root=root, redact=options.redact, option_ruling=ruling)


def _describe_fixed(fixed: list[str], *, is_written: bool, redact: bool) -> str:
    """Return the entries of the baseline that no finding matches any more."""
    action = "removed from" if is_written else "still listed in"
    names = [text.removesuffix(": no finding matches it") for text in ([] if redact else fixed[:_NAMED])]
    more = f"{len(fixed) - len(names):,} more"
    named = "; ".join(names + [more] * (0 < len(names) < len(fixed)))
    hint = "" if is_written else " (--update-baseline removes them)"
    return f"fixed, and {action} the baseline: {named or count_of(len(fixed), 'finding')}{hint}"


def _workers(jobs: str | None) -> Any:
    """Return how many processes judge, or the cluster that does; raises LoreError for a wrong number or name."""
    if jobs is None:
        return common.count_cores()
    if jobs.lstrip("-").isdecimal():
        if int(jobs) < 1:
            raise LoreError(f"--jobs {jobs} is less than 1", hint="leave it out to use all cores")
        return int(jobs)
    for point in entry_points("lore.clusters"):
        return point.load()(jobs, common.tell)
    raise lacks_plug_in("scale", f"--jobs {jobs}", "dask")


def _split_tables(reports: list[str]) -> tuple[tuple[str, str] | None, list[str]]:
    """Return the tables that `--report` asks for (form and folder), and the other reports."""
    if not reports:
        return None, reports
    from lore.run.spending.tables import table_forms

    forms = table_forms()
    tables = [text for text in reports if text.partition("=")[0] in forms]
    form, _, folder = tables[0].partition("=") if tables else ("", "", "")
    if tables and (len(tables) > 1 or folder in ("", "-")):
        raise LoreError("tables are written into one folder", hint=f"--report {form}=FOLDER")
    return (form, folder) if tables else None, [text for text in reports if text not in tables]


def _report(
    options: CheckOptions, context: CheckContext, outcome: CheckOutcome, reports: list[Target], paths: list[str],
) -> int:  # fmt: skip
    """Write the reports and notes, name the inputs that could not be judged, and return the exit code."""
    stopped = outcome.result.interrupted
    if stopped and not stopped.files:
        return common.INTERRUPTED
    if stopped:
        if any(target.path for target in reports) or context.renews_baseline:
            common.tell("interrupted: no file is written")
        reports = [target for target in reports if not target.path]
        if options.quiet or all(target.kind != "terminal" for target in reports):
            common.tell(describe_interruption(stopped))
    if outcome.baselined is not None:
        cost = known_cost(outcome.result.summary)
        kept = f", and {outcome.unseen:,} kept that this run did not look for" if outcome.unseen else ""
        common.tell(f"baseline written: {count_of(outcome.baselined, 'finding')}{cost}{kept}")
    if outcome.fixed:
        common.tell(_describe_fixed(outcome.fixed, is_written=outcome.baselined is not None, redact=options.redact))
    more_commands: list[tuple[str, str]] = []
    if outcome.longest[0]:
        from lore.report.commands import compaction_advice

        more_commands = [*compaction_advice(*outcome.longest)]
    terminal = Terminal(outcome.counted, quiet=options.quiet, more_commands=more_commands)
    writers: dict[str, Report] = {"terminal": terminal}
    if any(target.kind == "junit" for target in reports):
        from lore.report.forms.ci import Junit

        writers["junit"] = Junit(outcome.recordings, outcome.unjudged)
    with common.writing():
        write_reports(outcome.result, reports, paths, common.out(None), verbose=options.verbose, writers=writers)
    for note in outcome.notes:
        common.tell(note)
    common.name_unjudged(outcome.unjudged, verbose=options.verbose)
    if stopped:
        return common.INTERRUPTED
    judged = outcome.result.summary.turns or len(
        {*outcome.recordings}.difference(problem.file for problem in outcome.unjudged)
    )
    return common.exit_code(outcome.unjudged, failed=outcome.failed, judged=judged)
