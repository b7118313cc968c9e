"""Work on several files at a time, in other processes; results come in the order of the files.

At most `AHEAD` files a process are handed out or wait for an earlier result, so memory is bounded by the sessions that
are read at the same time, not by the folder. The largest files are started first. Streams, which can be read only once,
are read in this process. If a process dies, the files that were handed out are repeated, each alone, and the one whose
process dies again is named in its result. The other processes end with this one (an interrupt, an error, a kill).
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import threading
from collections import deque
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from multiprocessing.connection import Connection
from multiprocessing.connection import wait as wait_for
from multiprocessing.process import BaseProcess
from typing import Generic, TypeVar

from lore.errors import LoreError
from lore.recording.inputs import Input

AHEAD = 16
LARGE = 64 * 1024 * 1024  # bytes of a file that is begun before its turn
POLL_SECONDS = 0.1  # between two reports of progress, and two checks of the processes, while a result is awaited
_SAFE_PATH = "PYTHONSAFEPATH"
DIED = "the process that judged it was killed, perhaps for want of memory"

Progress = Callable[[int], None]
R = TypeVar("R")


class ProcessPool(Generic[R]):
    """Processes that work on files. Close it, or use it up.

    `here` works on a file in this process, `apart` in another: it must be able to travel there, as its result back.
    """

    def __init__(
        self, jobs: int, here: Callable[[Input], R], apart: Callable[[Input], R], progress: Progress | None = None
    ) -> None:  # fmt: skip
        self._jobs = min(jobs, 61) if sys.platform == "win32" else jobs
        self._here = here
        self._apart = apart
        self._progress = progress
        self._done = 0
        self._executor: ProcessPoolExecutor | None = None

    def results(self, files: list[Input]) -> Generator[R]:
        """Yield the result of each file."""
        todo, waiting = iter(enumerate(files)), deque[tuple[Input, Future[R] | None]]()
        finished = False
        try:
            begun = self._begun(files)
            while True:
                while len(waiting) < AHEAD * self._jobs and (numbered := next(todo, None)) is not None:
                    number, file = numbered
                    stays_here = file.stream or file.error is not None
                    waiting.append((file, None if stays_here else begun.pop(number, None) or self._submit(file)))
                if not waiting:
                    finished = True
                    return
                file, future = waiting[0]
                try:
                    result = self._result(file, future, waiting)
                except BrokenProcessPool:
                    yield from self._one_by_one(waiting)
                    waiting.clear()
                    begun.clear()  # they ended with their processes
                    continue
                waiting.popleft()
                self._done += file.size
                yield result
        finally:
            self._end(kill=not finished)

    def _begun(self, files: list[Input]) -> dict[int, Future[R]]:
        """Begin the largest files, one a process; return them by their numbers."""
        large = [number for number, file in enumerate(files) if file.size >= LARGE and not file.stream]
        large.sort(key=lambda number: -files[number].size)
        return {number: self._submit(files[number]) for number in large[: self._jobs]}

    def _result(self, file: Input, future: Future[R] | None, waiting: deque[tuple[Input, Future[R] | None]]) -> R:
        if future is None:
            return self._here(file)
        while not wait((future,), POLL_SECONDS).done:
            if self._progress is not None:
                self._progress(
                    self._done + sum(each.size for each, result in waiting if result is not None and result.done())
                )
            self._end_where_one_died()
        return future.result()

    def _one_by_one(self, waiting: deque[tuple[Input, Future[R] | None]]) -> Iterator[R]:
        """Finish the files that were handed out when a process died, each in a process alone."""
        self._end(kill=False)
        for file, future in waiting:
            self._done += file.size
            if future is None:
                yield self._here(file)
            elif future.done() and not future.cancelled() and not isinstance(future.exception(), BrokenProcessPool):
                yield future.result()
            else:
                yield self._alone(file)
        self._end(kill=False)

    def _alone(self, file: Input) -> R:
        with starting_processes():
            self._executor = self._executor or _executor(1)
        try:
            return self._result(file, self._submit(file), deque())
        except BrokenProcessPool:
            self._end(kill=False)
            return self._here(file._replace(error=LoreError(DIED)))

    def _submit(self, file: Input) -> Future[R]:
        try:
            with starting_processes():  # the executor may start one with its queues, and one for each file
                self._executor = self._executor or _executor(self._jobs)
                return self._executor.submit(self._apart, file)
        except BrokenProcessPool as error:  # one died while no result was awaited
            broken: Future[R] = Future()
            broken.set_exception(error)
            return broken

    def _end_where_one_died(self) -> None:
        """End all processes if one has died: while it sends a result, it blocks the others."""
        sentinels = [process.sentinel for process in self._processes()]
        if sentinels and wait_for(sentinels, 0):
            self._kill()

    def _processes(self) -> list[BaseProcess]:
        started: dict[int, BaseProcess] | None = getattr(self._executor, "_processes", None)
        return list((started or {}).values())

    def _kill(self) -> None:
        """End all processes, and the wait for what one of them may have begun to send."""
        for process in self._processes():
            process.terminate()
        writer: Connection | None = getattr(getattr(self._executor, "_result_queue", None), "_writer", None)
        if writer is not None:
            writer.close()  # so that the other end sees that nothing more will come

    def _end(self, *, kill: bool) -> None:
        if self._executor is None:
            return
        if kill:
            self._kill()
        self._executor.shutdown(wait=True, cancel_futures=True)
        self._executor = None


def _executor(jobs: int) -> ProcessPoolExecutor:
    return ProcessPoolExecutor(jobs, mp_context=multiprocessing.get_context(_method()), initializer=_begin)


def _method() -> str:
    """Return how processes start: by fork if that is safe, that is, without other threads.

    Clients for remote files have some that Python does not know.
    """
    safe = sys.platform == "linux" and threading.active_count() == 1 and "fsspec" not in sys.modules
    return "fork" if safe and "fork" in multiprocessing.get_all_start_methods() else "spawn"


def _begin() -> None:
    """Ignore interrupts, which the parent handles, and end when it has ended."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = multiprocessing.parent_process()
    if parent is not None:
        threading.Thread(target=_follow, args=(parent.sentinel,), daemon=True).start()


def _follow(sentinel: int) -> None:
    wait_for([sentinel])
    os._exit(1)


@contextmanager
def starting_processes() -> Generator[None]:
    """Start processes of Python that import no module of the current folder; hold interrupts back meanwhile.

    An interrupt is held back where the system can: a process that just starts would complain.
    """
    before = os.environ.get(_SAFE_PATH)
    os.environ[_SAFE_PATH] = "1"  # a `multiprocessing.py` may lie in the current folder
    try:
        with _interrupts_held():
            yield
    finally:
        if before is None:
            del os.environ[_SAFE_PATH]
        else:
            os.environ[_SAFE_PATH] = before


@contextmanager
def _interrupts_held() -> Generator[None]:
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGINT,))
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
