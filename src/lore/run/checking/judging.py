"""Judge files: here, in other processes of this machine, or on a cluster; what a state has of them is taken from it.

In: files, and by what means. Out: their results in the order of the files, whatever the means. Rules: a result that
is kept stands for its file as long as the file is as it was (`state.py`); what is under way elsewhere is left when the
run is interrupted.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Generator
from contextlib import closing, suppress
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from lore.judge.totals import FileResult, ResultSource
from lore.recording.inputs import Input, ahead, fetched_ahead
from lore.run.checking import verdicts
from lore.run.checking.verdicts import CheckConfig, InterruptedRunError
from lore.store.registry import silent

if TYPE_CHECKING:
    from lore.run.checking.cluster import Cluster
    from lore.run.checking.state import CheckState

SMALL = 8 * 1024 * 1024  # bytes in all: starting processes would cost more than it saves

Progress = Callable[[int, int], None]


class Means(NamedTuple):
    """How files are judged: `jobs` at a time in processes of this machine, or on a `cluster`.

    A `state` has results of earlier runs, and takes those of this one.
    """

    jobs: int = 1
    cluster: Cluster | None = None
    state: CheckState | None = None


class Hearer(NamedTuple):
    """Who hears how many bytes of a `total` have been judged, and may interrupt."""

    progress: Progress | None
    interrupted: Callable[[], bool]
    total: int

    def tell(self, before: int, done: int) -> None:
        """Pass progress on; raises StoppedError where the run was interrupted."""
        if self.interrupted():
            raise InterruptedRunError
        if self.progress is not None:
            self.progress(before + done, self.total)


def judged(
    files: list[Input], config: CheckConfig, means: Means, progress: Progress | None = None,
    interrupted: Callable[[], bool] = bool,
) -> Generator[FileResult]:  # fmt: skip
    """Yield the result of each file, in order."""
    state = means.state
    if state is None:
        yield from _fresh(files, config, means, Hearer(progress, interrupted, sum(file.size for file in files)))
        return
    state.open(config)
    looked = [state.look(file, config) for file in files]
    todo = [file for file in looked if file is not None]
    hearer = Hearer(progress, interrupted, sum(file.size for file in todo))
    with closing(_fresh(todo, config._replace(sourced=True), means, hearer)) as fresh:
        try:
            for file, changed in zip(files, looked, strict=True):
                if interrupted():
                    return
                result = state.result(file, config) if changed is None else next(fresh, None)
                if result is None:
                    return
                yield result if changed is None else state.kept(changed, config, result)
        finally:
            state.close()


def _fresh(files: list[Input], config: CheckConfig, means: Means, hearer: Hearer) -> Generator[FileResult]:
    silenced = config._replace(options=dataclasses.replace(config.options, log=silent, counter=None))  # can travel
    able = min(means.jobs, sum(not file.stream for file in files))
    if means.cluster is not None:
        with suppress(InterruptedRunError):
            yield from means.cluster.results(files, partial(judge, config=config), silenced, hearer)
    elif able > 1 and hearer.total >= SMALL and not fetched_ahead(files):
        from lore.run.checking.pool import ProcessPool  # noqa: PLC0415 - few runs have enough to judge

        here, apart = partial(judge, config=config), partial(judge_apart, config=silenced)
        with suppress(InterruptedRunError):
            yield from ProcessPool(able, here, apart, partial(hearer.tell, 0)).results(files)
    else:
        done = 0
        for file in ahead(files):
            if hearer.interrupted():
                return
            yield judge(file, config, partial(hearer.tell, done))
            done += file.size


def judge_apart(file: Input, config: CheckConfig) -> FileResult:
    """Judge a file in a process of its own: what is to be said comes with the result."""
    log: list[str] = []
    result = judge(file, config._replace(options=dataclasses.replace(config.options, log=log.append)))
    result.log = log
    return result


def judge(file: Input, config: CheckConfig, progress: Callable[[int], None] | None = None) -> FileResult:
    """Judge a file; where results are kept, unless one of its content is, and with what it was made of."""
    if not config.sourced:
        return verdicts.judge_file(file, config, progress)
    from lore.run.checking.state import digest_of, is_as_listed, signature_of  # noqa: PLC0415 - few runs keep results

    signature = signature_of(file)
    digest = digest_of(file) if signature else ""
    if digest and digest == file.known and signature_of(file) == signature:
        return FileResult(source=ResultSource(signature, digest, unchanged=True))
    result = verdicts.judge_file(file, config, progress)
    if digest and signature_of(file) == signature and is_as_listed(file):
        result.source = ResultSource(signature, digest)
    return result
