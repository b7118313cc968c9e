"""Judge recordings: what `lore check` answers.

In: paths. Out: a summary, findings, problems. Rules: files of a folder that are no recordings are passed
over and counted; a file that a folder holds and that cannot be read makes the run incomplete; one that
was named is an error. Findings come in the order of the files and of their lines, whatever the number of
processes that judge them; behind them what is said of the whole run: budgets, exemptions, the baseline.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Generator, Iterator
from contextlib import closing
from functools import partial
from typing import NamedTuple

import msgspec

from lore.errors import LoreError
from lore.judge.base import Place, finding
from lore.judge.baseline import Baseline, Known, Recorder, stale
from lore.judge.policy import Budgets, Narrowed, Policy
from lore.judge.tally import decide, settle
from lore.model.codes import Code, Reader
from lore.model.evidence import Unneeded
from lore.model.results import Checked, Finding
from lore.recording import corpus, plugins
from lore.recording.inputs import Input, inputs, place_of
from lore.recording.opening import Options, reader_named
from lore.recording.recent import nothing
from lore.report.redacted import redacted, redacted_error, redacted_finding
from lore.report.sentences import worded
from lore.run import baselines
from lore.run.check_file import CheckConfig, FileResult
from lore.run.merging import Merged
from lore.run.pool import Pool, here
from lore.run.verdicts import PACKAGED, Dated

SMALL = 8 * 1024 * 1024  # bytes in all: starting processes would cost more than it saves

Progress = Callable[[int, int], None]


class Outcome(NamedTuple):
    """The result, whether a finding is an error, and whether an input could not be judged.

    `baselined` counts the findings of a baseline that was written, `unseen` those of them that this run did not
    look for, and left in it.
    """

    result: Checked
    failed: bool
    incomplete: bool
    baselined: int | None = None
    unseen: int = 0


def cores() -> int:
    """Count the cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


class CheckContext(NamedTuple):
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
    narrowed: Narrowed = Narrowed()
    dated: Dated = PACKAGED
    reader: Reader | None = None


NOTHING = CheckContext()


def check(
    paths: list[str], budgets: Budgets, options: Options, *, against: CheckContext = NOTHING, jobs: int = 1,
    progress: Progress | None = None, wanted: Callable[[Input], bool] | None = None, looked: tuple[str, ...] = (),
    pass_over: bool = False,
) -> Outcome:  # fmt: skip
    """Judge every recording under these paths; raises LoreError for one that was named and is none.

    `jobs` files are judged at a time, in processes of their own where there is enough to do. `progress`
    is told how many bytes of how many have been judged; files that are not `wanted` are not opened. `looked`
    names the places where recordings were looked for, if nobody named these. With `pass_over` a named file that
    is no recording is passed over and counted, as one in a folder is.
    """
    plugins.load()
    against.policy.known(f"{against.settings}: check." if against.settings else "check.")
    if options.format is not None:
        reader_named(options.format)
    against.dated.known()
    every = (one._replace(optional=pass_over) for one in inputs(paths))
    files = [file for file in every if wanted is None or wanted(file)]
    known = Known(_baseline(against)) if against.path else None
    recorder = Recorder(redacted_finding if against.redact else None) if against.update else None
    merged = Merged(known, recorder)
    merged.extent.narrowed, merged.extent.root = against.narrowed, against.root
    how = CheckConfig(
        options,
        budgets,
        against.policy,
        against.root,
        compared=known is not None,
        dated=against.dated,
        reader=against.reader,
    )
    with closing(_results(files, how, jobs, progress)) as results:
        for result in results:
            for said in result.log:
                options.log(said)
            if result.error is not None:
                raise redacted_error(result.error) if against.redact else result.error
            merged.take(result)
    folder = next((path for path in paths if path != corpus.STDIN and not os.path.isfile(path)), None)
    if not merged.summary.files and not merged.incomplete and (folder is not None or wanted is not None):
        raise _nothing(folder or paths[0], looked, chosen=wanted is not None)
    _conclude(merged, paths[0], budgets, against, known)
    baselined, unseen = None, 0
    if recorder is not None:
        baselined, unseen = baselines.update(against.path, recorder.entries(), merged.extent.about)
    checked = merged.checked(against.reader)
    if against.redact:
        result = redacted(checked)
    else:
        result = msgspec.structs.replace(checked, findings=list(map(worded, checked.findings)))
    return Outcome(result, merged.failed, merged.incomplete, baselined, unseen)


def _nothing(path: str, looked: tuple[str, ...], *, chosen: bool) -> LoreError:
    if chosen:
        return LoreError(f"no recordings in {corpus.show(path)} are as new as --since asks", hint="leave --since out")
    if looked:
        return nothing(looked)
    return LoreError(f"no recordings in {corpus.show(path)}", hint="`lore check` reads session logs and request bodies")


def _baseline(against: CheckContext) -> Baseline:
    """Read the baseline; one that is to be written is read to see that it is one, and then knows nothing yet."""
    found = baselines.replaceable(against.path) if against.update else baselines.read(against.path)
    return Baseline() if against.update else found


def _conclude(merged: Merged, first: str, budgets: Budgets, against: CheckContext, known: Known | None) -> None:
    """Say what is to be said of the whole run."""
    policy, ends = against.policy, list[Finding]()
    ends += merged.over(budgets, policy, place_of(first, against.root))
    ends += _unused(merged, against)
    if known is not None and not against.update:
        ends += stale(known, place_of(against.path, against.root), merged.extent.about)
    for one in ends:
        decided = decide(one, policy.ruling("", budgets))
        merged.failed = settle((decided.found,), merged.summary, {}) or merged.failed
        if not decided.found.out:
            merged.keep((decided.finding,))


def _unused(merged: Merged, against: CheckContext) -> Iterator[Finding]:
    """Find exemptions that excuse nothing any more."""
    place = Place(against.settings or "lore.toml")
    for number, one in enumerate(against.policy.exempt):
        if not merged.excused[number] and merged.extent.outlived(one):
            where = " ".join(filter(None, (one.path, one.chain, one.json_path)))
            unneeded = Unneeded("exemption", one.code, where, one.reason)
            yield finding(Code.EXEMPTION_UNUSED, place, unneeded, json_path=f"check.exempt[{number}]")


def _results(files: list[Input], how: CheckConfig, jobs: int, progress: Progress | None) -> Generator[FileResult]:
    """Yield the result of each file, in order."""
    total = sum(file.size for file in files)
    able = min(jobs, sum(not file.stream for file in files))
    if able > 1 and total >= SMALL:
        yield from Pool(able, how, partial(_tell, progress, total, 0) if progress else None).results(files)
        return
    done = 0
    for file in files:
        yield here(file, how, partial(_tell, progress, total, done) if progress else None)
        done += file.size


def _tell(progress: Progress, total: int, before: int, done: int) -> None:
    progress(before + done, total)
