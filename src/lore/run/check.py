"""Judge recordings: what `lore check` answers.

In: paths. Out: a summary, findings, problems. Rules: files of a folder that are no recordings are passed
over and counted; a file that a folder holds and that cannot be read makes the run incomplete; one that
was named is an error. Findings come in the order of the files and of their lines, whatever the number of
processes that judge them.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Generator
from contextlib import closing
from functools import partial
from typing import NamedTuple

from lore import corpus
from lore.check.base import Place
from lore.check.budgets import Budgets, over_budget
from lore.errors import LoreError
from lore.model.results import Checked
from lore.run import plugins
from lore.run.inputs import Input, inputs
from lore.run.judging import FileResult, How
from lore.run.merging import Merged
from lore.run.options import Options
from lore.run.pool import Pool, here
from lore.run.recording import reader_named

SMALL = 8 * 1024 * 1024  # bytes in all: starting processes would cost more than it saves

Progress = Callable[[int, int], None]


class Outcome(NamedTuple):
    """The result, whether a finding is an error, and whether an input could not be judged."""

    result: Checked
    failed: bool
    incomplete: bool


def cores() -> int:
    """Count the cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def check(
    paths: list[str], budgets: Budgets, options: Options, *, jobs: int = 1, progress: Progress | None = None,
    pass_over: bool = False,
) -> Outcome:  # fmt: skip
    """Judge every recording under these paths; raises LoreError for one that was named and is none.

    `jobs` files are judged at a time, in processes of their own where there is enough to do. `progress`
    is told how many bytes of how many have been judged. With `pass_over` a named file that is no recording is
    passed over and counted, as one in a folder is.
    """
    plugins.load()
    if options.format is not None:
        reader_named(options.format)
    files = [one._replace(optional=pass_over) for one in inputs(paths)]
    merged = Merged()
    with closing(_results(files, How(options, budgets), jobs, progress)) as results:
        for result in results:
            for said in result.log:
                options.log(said)
            if result.error is not None:
                raise result.error
            merged.take(result)
    folder = next((path for path in paths if path != corpus.STDIN and not os.path.isfile(path)), None)
    if folder is not None and not merged.summary.files and not merged.incomplete:
        hint = "`lore check` reads session logs and request bodies"
        raise LoreError(f"no recordings in {corpus.show(folder)}", hint=hint)
    merged.keep(over_budget(merged.summary, budgets, Place(corpus.show(paths[0]))))
    return Outcome(merged.checked(), merged.failed, merged.incomplete)


def _results(files: list[Input], how: How, jobs: int, progress: Progress | None) -> Generator[FileResult]:
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
