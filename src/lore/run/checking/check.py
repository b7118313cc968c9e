"""Check recordings: what `lore check` answers.

Findings come in the order of the files and of their lines, whatever judges the files; those about the whole run
(budgets, exemptions, the baseline) come last.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing, suppress
from functools import partial
from typing import Protocol

from msgspec import UNSET, Struct, UnsetType
from msgspec.structs import replace

from lore.errors import LoreError, lacks_plug_in
from lore.judge import baseline
from lore.judge.baseline import Baseline, BaselineEntry, BaselineRecorder, KnownFindings, stale
from lore.judge.policy import Budgets
from lore.judge.totals import FileResult, RunTotals
from lore.model.ledger import Ledger
from lore.model.results import CheckResult, Finding, Interruption
from lore.plugins import published
from lore.recording import corpus, filesystem
from lore.recording.base import load_plugins
from lore.recording.inputs import Input, ahead, fetched_ahead, inputs
from lore.recording.opening import Options, reader_named
from lore.run.checking.bodies import join_bodies
from lore.run.checking.exemptions import unused_exemptions
from lore.run.checking.places import path_of, place_of
from lore.run.checking.verdicts import CheckContext, InterruptedRunError, judge_file
from lore.run.outputs import open_output, refuse_recording
from lore.store.registry import ignore

SMALL = 8 * 1024 * 1024  # bytes in all that are judged before a second process would have started
Progress = Callable[[int, int], None]


class CheckOutcome(Struct, frozen=True):
    """The answer of a check."""

    result: CheckResult
    failed: bool  # a finding is an error
    incomplete: bool  # an input could not be judged
    baselined: int | None = None  # findings of the baseline that was written
    unseen: int = 0  # of them, those that this run did not look for


NOTHING = CheckContext()


def check(
    paths: list[str], budgets: Budgets, options: Options, *, context: CheckContext = NOTHING, jobs: int = 1,
    progress: Progress | None = None, wanted: Callable[[Input], bool] | None = None, looked: tuple[str, ...] = (),
    pass_over: bool = False, interrupted: Callable[[], bool] | None = None,
    hear: Callable[[Sequence[Finding]], object] | None = None, cluster: Cluster | None = None,
    tabled: Callable[[Input, Ledger | None], object] | None = None,
) -> CheckOutcome:  # fmt: skip
    """Judge every recording under these paths; raises LoreError for a named file that is not a recording.

    jobs        files judged at a time
    progress    called with the bytes judged, and the bytes in all
    wanted      which files are opened; None: all
    looked      where recordings were looked for, if none were named
    pass_over   named files that are not recordings are counted, as those in folders are
    interrupted asked after every turn; an interrupted run has no findings about the whole, and writes no baseline
    hear        called with the findings of each file, in order; those about the whole run are in the result alone
    tabled      called with each file and its ledger
    """
    load_plugins()
    context = replace(context, budgets=budgets, options=options, tabled=tabled is not None)
    context.policy.known(f"{context.settings}: check." if context.settings else "check.")
    if options.format is not None:
        reader_named(options.format)
    context.dated.known()
    files = [file._replace(optional=pass_over) for file in inputs(paths, wanted)]
    if not (context.tabled or context.path or context.policy.is_by_path):  # these are about single files
        files = join_bodies(files, options.format)
    before = _baseline(context)
    known = None if before is None else KnownFindings(Baseline() if context.update else before)
    recorder = BaselineRecorder() if context.update else None
    totals = RunTotals(known, recorder)
    hearer = _Hearer(progress, interrupted, sum(file.size for file in files))
    read = heard = 0
    with closing(_judged(files, context, hearer, jobs, cluster)) as results:
        for file, result in zip(files, results, strict=False):  # an interrupted run has fewer results
            read += 1
            for line in result.log:
                options.log(line)
            if result.error is not None:
                raise result.error
            totals.take(result)
            if tabled is not None:
                tabled(file, result.ledger)
            if hear is not None and (fresh := totals.since(heard)):
                heard += len(fresh)
                hear(fresh)
    stopped = Interruption(read, len(files)) if hearer.is_interrupted() else UNSET
    if stopped is UNSET and not totals.summary.files and not totals.incomplete:
        _raise_if_nothing(paths, looked, chosen=wanted is not None)
    result = concluded(totals, context, paths[0], None if context.update else known, stopped)
    baselined, unseen = None, 0
    if recorder is not None and before is not None and not stopped:
        entries, unseen = baseline.renewed(before, recorder.entries(), partial(_could_match, totals, context))
        with open_output(context.path, force=True) as file:
            file.write(baseline.encode(entries))
        baselined = sum(entry.count for entry in entries)
    return CheckOutcome(result, totals.failed, totals.incomplete, baselined, unseen)


def concluded(
    totals: RunTotals, context: CheckContext, path: str, known: KnownFindings | None = None,
    stopped: Interruption | UnsetType = UNSET,
) -> CheckResult:  # fmt: skip
    """Return the result of all files; findings about budgets of the run name `path`."""
    ends = [*totals.over(context.budgets, context.policy, place_of(path, context.root))]
    if not stopped:
        ends += unused_exemptions(totals, context.policy, context.settings, context.root, context.narrowed)
        if known is not None:
            ends += stale(known, place_of(context.path, context.root), partial(_could_match, totals, context))
    totals.conclude(ends, context.ruling(""), context.shown)
    return replace(totals.checked(context.reader), interrupted=stopped)


def _raise_if_nothing(paths: Sequence[str], looked: tuple[str, ...], *, chosen: bool) -> None:
    """Raise LoreError if a folder was searched; named files that are not recordings are counted."""
    from lore.run.recent import nothing, nothing_new  # noqa: PLC0415 - slow to import, and rare

    folder = next((path for path in paths if path != corpus.STDIN and not os.path.isfile(path)), None)
    if chosen:
        raise nothing_new(folder or paths[0])
    if folder is None:
        return
    if looked:
        raise nothing(looked)
    hint = "`lore check` reads session logs and request bodies"
    raise LoreError(f"no recordings in {corpus.show(folder)}", hint=hint)


# the baseline


def _baseline(context: CheckContext) -> Baseline | None:
    """Read the baseline, if there is one; raises LoreError if it cannot be read or is damaged.

    One that is to be replaced may be missing or empty, but not damaged: its entries about files that this run does not
    judge would be lost.
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


def _could_match(totals: RunTotals, context: CheckContext, entry: BaselineEntry) -> bool:
    """Return whether this run could have matched an entry: its file was judged from end to end, or no longer exists.

    So a run over the files of one commit, over `--last`, or with `--select`, removes nothing from a baseline.
    """
    if not context.narrowed.looks_for(entry.code) or entry.path in totals.partly:
        return False
    if entry.path in totals.whole:
        return True
    elsewhere = filesystem.is_remote(entry.path) or corpus.is_stored(entry.path)
    return not elsewhere and not os.path.lexists(path_of(entry.path, context.root))


# who judges files: this process, others of this machine, a cluster


class ClusterJob(Struct, frozen=True):
    """What a cluster needs to judge files. `apart` and `maker` can be pickled."""

    here: Callable[[Input], FileResult]  # judges a file in this process
    apart: Callable[[Input], FileResult]  # judges a file in any process
    maker: Callable[[], str]  # returns a text that is the same wherever files are judged alike
    tell: Callable[[int], None]  # takes how many bytes are judged; raises InterruptedRunError


class Cluster(Protocol):
    """Workers elsewhere that judge files: `lore check --cluster ADDRESS`.

    To add one, publish `(address, workers, warn) -> Cluster` under the entry-point group `lore.clusters`; `workers` is
    how many to start if the cluster is to run on this machine, `warn` takes a line for the user.
    """

    def results(self, files: list[Input], job: ClusterJob) -> Iterator[FileResult]:
        """Yield the result of each file, in order. What can be read only once is judged here."""
        ...


def cluster_at(address: str, workers: int, warn: Callable[[str], None]) -> Cluster:
    """Return the cluster at an address; raises LoreError if it is missing, or its plug-in is."""
    for point in published("lore.clusters"):
        return point.load()(address, workers, warn)
    raise lacks_plug_in("scale", "--cluster", "dask")


class _Hearer(Struct, frozen=True):
    """Passes progress on, and asks whether the run was interrupted."""

    progress: Progress | None
    interrupted: Callable[[], bool] | None
    total: int  # bytes

    def is_interrupted(self) -> bool:
        return self.interrupted is not None and self.interrupted()

    def tell(self, before: int, done: int) -> None:
        if self.is_interrupted():
            raise InterruptedRunError
        if self.progress is not None:
            self.progress(before + done, self.total)


def _judged(
    files: list[Input], context: CheckContext, hearer: _Hearer, jobs: int, cluster: Cluster | None
) -> Generator[FileResult]:
    """Yield the result of each file, in order; work elsewhere is abandoned if the run is interrupted."""
    here = partial(judge_file, context=context)
    silenced = replace(context, options=replace(context.options, log=ignore, counter=None))  # can be pickled
    able = min(jobs, sum(not file.stream for file in files))
    if cluster is not None:
        from lore.run.checking.program import maker_of  # noqa: PLC0415 - few runs have a cluster

        silenced = replace(silenced, root=os.path.abspath(silenced.root))
        job = ClusterJob(
            here, partial(judge_apart, context=silenced), partial(maker_of, silenced), partial(hearer.tell, 0)
        )
        with suppress(InterruptedRunError):
            yield from cluster.results(files, job)
    elif able > 1 and hearer.total >= SMALL and not fetched_ahead(files):
        from lore.run.checking.pool import ProcessPool  # noqa: PLC0415 - few runs have enough to judge

        apart = partial(judge_apart, context=silenced)
        with suppress(InterruptedRunError):
            yield from ProcessPool(able, here, apart, partial(hearer.tell, 0)).results(files)
    else:
        done = 0
        for file in ahead(files):
            if hearer.is_interrupted():
                return
            yield judge_file(file, context, partial(hearer.tell, done))
            done += file.size


def judge_apart(file: Input, context: CheckContext) -> FileResult:
    """Judge a file in another process; the result carries the lines to log."""
    log: list[str] = []
    result = judge_file(file, replace(context, options=replace(context.options, log=log.append)))
    result.log = log
    return result
