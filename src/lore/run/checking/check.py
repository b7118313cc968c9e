"""Judge recordings, and report what was found: what `lore check` answers.

In: paths. Out: a summary, findings, problems; reports of them. Rules: files of a folder that are no recordings are
passed over and counted; a file that a folder holds and that cannot be read makes the run incomplete; one that was
named is an error. Findings come in the order of the files and of their lines, whatever the number of processes that
judge them; behind them what is said of the whole run: budgets, exemptions, the baseline.

Reports go to files whole or not at all. One without a file goes to standard output, where several may stand only if
each is made of lines; without any for standard output, a person's report stands there too. Where GitHub gives a step
summary and `github` is asked for, that is written as well.
"""

from __future__ import annotations

import io
import os
from collections import ChainMap
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import closing
from functools import cache
from typing import TYPE_CHECKING, NamedTuple

import msgspec
from msgspec import UNSET, Struct, UnsetType

from lore.errors import LoreError
from lore.files import relative
from lore.judge import baseline
from lore.judge.baseline import Baseline, BaselineEntry, BaselineRecorder, KnownFindings, stale
from lore.judge.policy import Budgets, NarrowedRun, Policy
from lore.judge.totals import RunTotals
from lore.model.codes import Reader
from lore.model.ledger import Ledger
from lore.model.results import CheckResult, Finding, Interruption
from lore.recording import corpus, filesystem
from lore.recording.base import load_plugins, register_plugins
from lore.recording.inputs import Input, inputs, path_of, place_of
from lore.recording.opening import Options, reader_named
from lore.report.forms.registry import REPORTS, Report
from lore.report.redacted.findings import redacted_finding
from lore.run.checking.exemptions import unused_exemptions
from lore.run.checking.judging import Cluster, Means, Progress, judged
from lore.run.checking.verdicts import CheckConfig
from lore.run.dated import PACKAGED, Dated
from lore.run.outputs import open_output, refuse_recording

if TYPE_CHECKING:
    from lore.report.console import Console
    from lore.report.forms.terminal import Reported

SUMMARY_LIMIT = 1024 * 1024  # bytes of a step summary: GitHub refuses one that is larger


class CheckOutcome(Struct, frozen=True):
    """The result, whether a finding is an error, and whether an input could not be judged.

    `baselined` counts the findings of a baseline that was written, `unseen` those of them that this run did not
    look for, and left in it.
    """

    result: CheckResult
    failed: bool
    incomplete: bool
    baselined: int | None = None
    unseen: int = 0


class CheckContext(Struct, frozen=True):
    """What findings are held against: settings and a baseline.

    `settings` is the file they come from, `root` what their paths are relative to (empty: the current folder);
    `path` is the baseline's file (empty: there is none), which `update` writes anew. `redact`: what is said
    carries no content. `narrowed` is what was asked for in this run alone; `dated` by which rules; `reader` whom
    findings speak to.
    """

    policy: Policy = Policy()
    settings: str = ""
    root: str = ""
    path: str = ""
    update: bool = False
    redact: bool = False
    narrowed: NarrowedRun = NarrowedRun()
    dated: Dated = PACKAGED
    reader: Reader | None = None


NOTHING = CheckContext()


def check(
    paths: list[str], budgets: Budgets, options: Options, *, context: CheckContext = NOTHING, jobs: int = 1,
    progress: Progress | None = None, wanted: Callable[[Input], bool] | None = None, looked: tuple[str, ...] = (),
    pass_over: bool = False, interrupted: Callable[[], bool] = bool, hear: Callable[[Sequence[Finding]], object] = len,
    cluster: Cluster | None = None, tabled: Callable[[Input, Ledger | None], object] | None = None,
) -> CheckOutcome:  # fmt: skip
    """Judge every recording under these paths; raises LoreError for one that was named and is none.

    `jobs` files are judged at a time, in processes of their own where there is enough to do, or all by the workers of a
    `cluster`. `progress` is told how many bytes of how many have been judged; files that are not `wanted` are not
    opened. `looked` names the places where recordings were looked for, if nobody named these. With `pass_over` a named
    file that is no recording is passed over and counted, as one in a folder is. `interrupted` is asked after every
    turn: what was judged until then is the result, nothing is said of what the run as a whole lacks, and no baseline is
    written. `hear` is told the findings of each file as soon as it and those before it are judged; those of the whole
    run come with the result alone. `tabled` is told each file, with its ledger where one was made.
    """
    load_plugins()
    context.policy.known(f"{context.settings}: check." if context.settings else "check.")
    if options.format is not None:
        reader_named(options.format)
    context.dated.known()
    files = [file._replace(optional=pass_over) for file in inputs(paths, wanted)]
    before = _baseline(context)
    known = None if before is None else KnownFindings(Baseline() if context.update else before)
    recorder = BaselineRecorder() if context.update else None
    totals = RunTotals(known, recorder)
    config = config_of(context, budgets, options)._replace(tabled=tabled is not None)
    read = heard = 0
    with closing(judged(files, config, Means(jobs, cluster), progress, interrupted)) as results:
        for file, result in zip(files, results, strict=False):  # those of an interrupted run end earlier
            read += 1
            for line in result.log:
                options.log(line)
            if result.error is not None:
                raise result.error
            totals.take(result)
            if tabled is not None:
                tabled(file, result.ledger)
            if fresh := totals.since(heard):
                heard += len(fresh)
                hear(fresh)
    stopped = Interruption(read, len(files)) if interrupted() else UNSET
    folder = next((path for path in paths if path != corpus.STDIN and not os.path.isfile(path)), None)
    if (
        stopped is UNSET
        and not totals.summary.files
        and not totals.incomplete
        and (folder is not None or wanted is not None)
    ):
        raise _nothing(folder or paths[0], looked, chosen=wanted is not None)
    result = concluded(totals, context, budgets, paths[0], None if context.update else known, stopped)
    baselined, unseen = None, 0
    if recorder is not None and before is not None and not stopped:
        entries, unseen = baseline.renewed(before, recorder.entries(), _Extent(totals, context).covers)
        with open_output(context.path, force=True) as file:
            file.write(baseline.encode(entries))
        baselined = sum(entry.count for entry in entries)
    return CheckOutcome(result, totals.failed, totals.incomplete, baselined, unseen)


def config_of(context: CheckContext, budgets: Budgets, options: Options) -> CheckConfig:
    """Return how files are judged; `context.path` names the baseline that they are compared with."""
    return CheckConfig(
        options, budgets, context.policy, context.root, compared=bool(context.path), dated=context.dated,
        reader=context.reader, redact=context.redact,
    )  # fmt: skip


def concluded(
    totals: RunTotals, context: CheckContext, budgets: Budgets, path: str, known: KnownFindings | None = None,
    stopped: Interruption | UnsetType = UNSET,
) -> CheckResult:  # fmt: skip
    """Return what all files come to; budgets of the run are exceeded at `path`."""
    ends = [*totals.over(budgets, context.policy, place_of(path, context.root))]
    if not stopped:
        extent = _Extent(totals, context)
        ends += unused_exemptions(totals, context.policy, context.settings, context.root, context.narrowed)
        ends += () if known is None else stale(known, place_of(context.path, context.root), extent.covers)
    ruling = context.policy.ruling("", budgets)
    totals.conclude(ends, ruling, redacted_finding if context.redact else None)
    return msgspec.structs.replace(totals.checked(context.reader), interrupted=stopped)


def _nothing(path: str, looked: tuple[str, ...], *, chosen: bool) -> LoreError:
    from lore.recording.recent import nothing, nothing_new  # noqa: PLC0415 - slow to import, and rare

    if chosen:
        return nothing_new(path)
    if looked:
        return nothing(looked)
    return LoreError(f"no recordings in {corpus.show(path)}", hint="`lore check` reads session logs and request bodies")


def _baseline(context: CheckContext) -> Baseline | None:
    """Read the baseline, if there is one; raises LoreError where it cannot be read or is damaged.

    One that is to be written anew may be missing or empty; a file that is none would be lost, and with a damaged one
    what it knows of files that a run does not judge.
    """
    path, shown = context.path, corpus.show(context.path)
    if not path:
        return None
    if context.update:
        if not os.path.lexists(path) or (os.path.isfile(path) and os.path.getsize(path) == 0):
            return Baseline()
        refuse_recording(path)
    if not os.path.lexists(path):
        raise LoreError(f"there is no baseline {shown}", hint="write it with --update-baseline")
    if os.path.isdir(path):
        raise LoreError(f"{shown} is a folder, and a baseline is a file", hint=f"--baseline {shown}/lore-baseline.json")
    return baseline.decode(b"".join(corpus.pieces(path)), shown)


class _Extent(Struct, frozen=True):
    """Of which entries of a baseline a run can say that nothing needs them.

    What a run did not look at, or not look for, or could not read whole, is not gone. So a run over the files of one
    commit, over `--last`, or with `--select`, takes nothing out of a baseline.
    """

    totals: RunTotals
    context: CheckContext

    def covers(self, entry: BaselineEntry) -> bool:
        """Tell whether this run could have matched an entry: its file was judged whole for that, or is gone."""
        if not self.context.narrowed.looks_for(entry.code) or entry.path in self.totals.partly:
            return False
        if entry.path in self.totals.whole:
            return True
        elsewhere = filesystem.is_remote(entry.path) or corpus.is_stored(entry.path)
        return not elsewhere and not os.path.lexists(path_of(entry.path, self.context.root))


# reports


class Target(NamedTuple):
    """A kind of report, and the file it goes to; empty: standard output."""

    kind: str
    path: str = ""


@cache
def load_reports() -> None:
    """Fill the registry of reports once a process; raises LoreError for a plug-in that cannot be loaded."""
    register_plugins("lore.reports", REPORTS, call=True)


def targets(reports: Iterable[str], *, as_json: bool = False) -> list[Target]:
    """Read what --report and --json ask for; raises LoreError for what cannot be."""
    load_reports()
    found = [Target("json")] if as_json else []
    for text in reports:
        kind, equals, path = text.partition("=")
        if kind not in REPORTS:
            from lore.run.spending.tables import table_forms  # noqa: PLC0415 - few runs name a report that is none

            raise LoreError(f"no report is called {kind!r}", hint="reports: " + ", ".join((*REPORTS, *table_forms())))
        if equals and not path:
            raise LoreError(f"--report {text} names no file", hint=f"--report {kind}=FILE, or --report {kind}")
        filesystem.refuse_output(path)
        found.append(Target(kind, "" if path == "-" else path))
    on_stdout = [target.kind for target in found if not target.path]
    again = next((kind for place, kind in enumerate(on_stdout) if kind in on_stdout[:place]), None)
    if again is not None:
        raise LoreError(
            f"{again} is asked for twice on standard output",
            hint=f"leave one out (--json is --report {again})" if again == "json" else "leave one out",
        )
    if len(on_stdout) > 1 and not all(REPORTS[kind].mixes for kind in on_stdout):
        message = f"{' and '.join(on_stdout)} cannot share standard output"
        raise LoreError(message, hint=f"give one of them a file: --report {on_stdout[-1]}=FILE")
    paths = [os.path.realpath(target.path) for target in found if target.path and not corpus.is_stream(target.path)]
    twice = next((path for place, path in enumerate(paths) if path in paths[:place]), None)
    if twice is not None:
        raise LoreError(f"two reports go to {corpus.show(relative(twice))}", hint="give each a file of its own")
    return found if on_stdout else [Target("terminal"), *found]


def keep_apart(reports: Iterable[Target], taken: Mapping[str, str]) -> None:
    """Raise LoreError, before anything is judged, for a report that could not be written, or only over what is needed.

    `taken` are files that no report may replace, by what they are.
    """
    for path in (target.path for target in reports if target.path and not corpus.is_stream(target.path)):
        shown = corpus.show(path)
        for what, other in taken.items():
            if corpus.is_same(path, other) or os.path.realpath(path) == os.path.realpath(other):
                raise LoreError(f"{shown} is {what}, and no report goes there", hint="name another file")
        folder = os.path.dirname(path)
        if folder and not os.path.isdir(folder):
            message = f"cannot write {shown}: there is no folder {corpus.show(folder)}"
            raise LoreError(message, hint="make the folder first, or name a file in another")


def at_once(reports: Iterable[Target]) -> list[str]:
    """Name the kinds that cannot be written while a recording grows."""
    return [target.kind for target in reports if target.path or target.kind not in ("terminal", "json")]


def write_reports(
    result: Reported, reports: list[Target], paths: list[str], out: Console, environment: Mapping[str, str], *,
    verbose: bool, terminal: Report | None = None,
) -> None:  # fmt: skip
    """Write all reports: files first, so that a closed pipe loses none of them.

    `paths` are what was judged: no report replaces a recording. `terminal`: the report for a person, if not the usual.
    """
    kinds = REPORTS if terminal is None else ChainMap({"terminal": terminal}, REPORTS)
    recordings = [path for path in paths if path != corpus.STDIN and not os.path.isdir(path)]
    for target in reports:
        if target.path:
            _write(target.path, text(kinds[target.kind], result, verbose=verbose), recordings)
    path = environment.get("GITHUB_STEP_SUMMARY")
    if path and any(target.kind == "github" for target in reports):
        _add_step_summary(path, text(kinds["markdown"], result, verbose=verbose))
    for target in reports:
        if not target.path:
            kinds[target.kind].write(result, out, verbose=verbose)


def text(report: Report, result: Reported, *, verbose: bool) -> bytes:
    """Return a report as it stands in a file."""
    from lore.report.console import console  # noqa: PLC0415 - slow to import, and most runs write no file

    stream = io.StringIO()
    report.write(result, console(stream, colour=False, terminal=False), verbose=verbose)
    return stream.getvalue().encode("utf-8", "backslashreplace")


def _write(path: str, data: bytes, recordings: list[str]) -> None:
    if not corpus.is_stream(path):
        refuse_recording(path)
        with open_output(path, force=True, inputs=recordings) as file:
            file.write(data)
        return
    try:  # a pipe or a device keeps its name
        with open(path, "wb") as file:
            file.write(data)
    except OSError as error:
        raise LoreError(f"cannot write {corpus.show(path)}: {(error.strerror or str(error)).lower()}") from None


def _add_step_summary(path: str, data: bytes) -> None:
    try:
        with open(path, "ab") as file:  # other steps of the same job may have written to it
            if file.tell() + len(data) <= SUMMARY_LIMIT:
                file.write(data)
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise LoreError(f"cannot write the step summary {corpus.show(path)}: {reason}") from None
