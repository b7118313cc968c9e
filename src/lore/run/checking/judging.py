"""Judge files: here, in other processes of this machine, or on a cluster.

In: files, and by what means. Out: their results in the order of the files, whatever the means. Work that runs elsewhere
is abandoned when the run is interrupted.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Generator
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from lore.judge.totals import FileResult
from lore.recording.inputs import Input, ahead, fetched_ahead
from lore.run.checking.verdicts import CheckConfig, InterruptedRunError, judge_file
from lore.store.registry import silent

if TYPE_CHECKING:
    from lore.run.checking.cluster import Cluster

SMALL = 8 * 1024 * 1024  # bytes in all: starting processes would cost more than it saves

Progress = Callable[[int, int], None]


class Means(NamedTuple):
    """How files are judged: `jobs` at a time in processes of this machine, or on a `cluster`."""

    jobs: int = 1
    cluster: Cluster | None = None


class Hearer(NamedTuple):
    """Who hears how many bytes of a `total` have been judged, and may interrupt."""

    progress: Progress | None
    interrupted: Callable[[], bool]
    total: int

    def tell(self, before: int, done: int) -> None:
        """Pass progress on; raises InterruptedRunError if the run was interrupted."""
        if self.interrupted():
            raise InterruptedRunError
        if self.progress is not None:
            self.progress(before + done, self.total)


def judged(
    files: list[Input], config: CheckConfig, means: Means, progress: Progress | None = None,
    interrupted: Callable[[], bool] = bool,
) -> Generator[FileResult]:  # fmt: skip
    """Yield the result of each file, in order."""
    hearer = Hearer(progress, interrupted, sum(file.size for file in files))
    here = partial(judge_file, config=config)
    silenced = config._replace(options=dataclasses.replace(config.options, log=silent, counter=None))  # can be pickled
    able = min(means.jobs, sum(not file.stream for file in files))
    if means.cluster is not None:
        with suppress(InterruptedRunError):
            yield from means.cluster.results(files, here, silenced, hearer)
    elif able > 1 and hearer.total >= SMALL and not fetched_ahead(files):
        from lore.run.checking.pool import ProcessPool  # noqa: PLC0415 - few runs have enough to judge

        with suppress(InterruptedRunError):
            apart = partial(judge_apart, config=silenced)
            yield from ProcessPool(able, here, apart, partial(hearer.tell, 0)).results(files)
    else:
        done = 0
        for file in ahead(files):
            if hearer.interrupted():
                return
            yield judge_file(file, config, partial(hearer.tell, done))
            done += file.size


def judge_apart(file: Input, config: CheckConfig) -> FileResult:
    """Judge a file in another process; the result carries the lines to log."""
    log: list[str] = []
    result = judge_file(file, config._replace(options=dataclasses.replace(config.options, log=log.append)))
    result.log = log
    return result
