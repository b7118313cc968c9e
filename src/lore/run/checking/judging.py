"""Judge files: here, in other processes of this machine, or on a cluster.

In: files, and by what means. Out: their results in the order of the files, whatever the means. Work that runs elsewhere
is abandoned when the run is interrupted.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Generator, Iterator
from contextlib import suppress
from functools import partial
from typing import Protocol

from msgspec import Struct
from msgspec.structs import replace

from lore.errors import lacks_plug_in
from lore.judge.totals import FileResult
from lore.plugins import published
from lore.recording.inputs import Input, ahead, fetched_ahead
from lore.run.checking.verdicts import CheckConfig, InterruptedRunError, judge_file
from lore.store.registry import ignore

SMALL = 8 * 1024 * 1024  # bytes in all: starting processes would cost more than it saves

Progress = Callable[[int, int], None]


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
    """Return the cluster at an address; raises LoreError if there is none, or no plug-in for one."""
    for point in published("lore.clusters"):
        return point.load()(address, workers, warn)
    raise lacks_plug_in("scale", "--cluster", "dask")


class Means(Struct, frozen=True):
    """How files are judged: `jobs` at a time in processes of this machine, or on a `cluster`."""

    jobs: int = 1
    cluster: Cluster | None = None


class Hearer(Struct, frozen=True):
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
    silenced = config._replace(options=replace(config.options, log=ignore, counter=None))  # can be pickled
    able = min(means.jobs, sum(not file.stream for file in files))
    if means.cluster is not None:
        from lore.run.checking.program import maker_of  # noqa: PLC0415 - few runs have a cluster

        with suppress(InterruptedRunError):
            silenced = silenced._replace(root=os.path.abspath(silenced.root))
            apart, maker = partial(judge_apart, config=silenced), partial(maker_of, silenced)
            yield from means.cluster.results(files, ClusterJob(here, apart, maker, partial(hearer.tell, 0)))
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
    result = judge_file(file, config._replace(options=replace(config.options, log=log.append)))
    result.log = log
    return result
