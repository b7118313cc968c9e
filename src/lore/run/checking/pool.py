"""Work on several files at a time, in other processes; results come in the order of the files.

At most `AHEAD` files a process are handed out or wait for an earlier result, so memory is bounded by the sessions that
are read at the same time, not by the folder. Streams, which can be read only once, are read in this process. If a
process dies, the files that were handed out are repeated, each alone, and the one whose process dies again is named in
its result. The other processes end with this one (an interrupt, an error, a kill).
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import threading
from collections import deque
from collections.abc import Callable, Generator, Iterable
from concurrent.futures import Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from multiprocessing.connection import Connection
from multiprocessing.connection import wait as wait_for
from multiprocessing.process import BaseProcess
from typing import Generic, TypeAlias, TypeVar

from msgspec.structs import replace

from lore.errors import LoreError
from lore.recording.inputs import Input

AHEAD = 16
POLL_SECONDS = 0.1  # between two reports of progress, and two checks of the processes, while a result is awaited
_SAFE_PATH = "PYTHONSAFEPATH"
DIED = "the process that judged it was killed, perhaps for want of memory"

R = TypeVar("R")
Submitted: TypeAlias = tuple[Input, Future[R] | None]  # None: this process works on the file


class ProcessPool(Generic[R]):
    """Processes that work on files. Close the generator of `results`, or use it up, to end them."""

    def __init__(
        self, jobs: int, run_locally: Callable[[Input], R], run_in_worker: Callable[[Input], R],
        progress: Callable[[int], None] | None = None,
    ) -> None:  # fmt: skip
        self._jobs = min(jobs, 61) if sys.platform == "win32" else jobs
        self._run_locally = run_locally  # works on a file in this process
        self._run_in_worker = run_in_worker  # works on a file in another process: it can be pickled, like its result
        self._progress = progress  # called with the bytes done
        self._done_bytes = 0
        self._executor: ProcessPoolExecutor | None = None

    def results(self, files: Iterable[Input]) -> Generator[R]:
        """Yield the result of each file, in order. `run_locally` gets a file whose process died twice."""
        remaining, waiting = iter(files), deque[Submitted[R]]()
        finished = False
        try:
            while True:
                while len(waiting) < AHEAD * self._jobs and (file := next(remaining, None)) is not None:
                    waiting.append((file, self._submit(file)))
                if not waiting:
                    finished = True
                    return
                file, future = waiting[0]
                try:
                    result = self._result(file, future, waiting)
                except BrokenProcessPool:
                    self._end()
                    for waiting_file, waiting_future in waiting:
                        yield self._repeat(waiting_file, waiting_future)
                    waiting.clear()
                    continue
                waiting.popleft()
                self._done_bytes += file.size
                yield result
        finally:
            if not finished:
                _kill(self._executor)
            self._end()

    def _submit(self, file: Input) -> Future[R] | None:
        if file.stream or file.error is not None:
            return None
        try:
            with starting_processes():  # the executor may start one with its queues, and one for each file
                self._executor = self._executor or _executor(self._jobs)
                return self._executor.submit(self._run_in_worker, file)
        except BrokenProcessPool as error:  # one died while no result was awaited
            failed_future: Future[R] = Future()
            failed_future.set_exception(error)
            return failed_future

    def _result(self, file: Input, future: Future[R] | None, waiting: Iterable[Submitted[R]]) -> R:
        """Wait for a result; raises BrokenProcessPool if a process died."""
        if future is None:
            return self._run_locally(file)
        while True:
            if self._progress is not None:
                finished = sum(entry.size for entry, result in waiting if result is not None and result.done())
                self._progress(self._done_bytes + finished)
            if wait((future,), POLL_SECONDS).done:
                return future.result()
            sentinels = [process.sentinel for process in _processes(self._executor)]
            if sentinels and wait_for(sentinels, 0):  # one died: while it sends a result, it blocks the others
                _kill(self._executor)

    def _repeat(self, file: Input, future: Future[R] | None) -> R:
        """Return the result of a file that waited when a process died; if that process had it, run it again alone."""
        self._done_bytes += file.size
        if future is None:
            return self._run_locally(file)
        if not future.cancelled() and not isinstance(future.exception(), BrokenProcessPool):
            return future.result()
        with starting_processes():
            self._executor = _executor(1)
        try:
            return self._result(file, self._submit(file), ())
        except BrokenProcessPool:
            return self._run_locally(replace(file, error=LoreError(DIED)))
        finally:
            self._end()

    def _end(self) -> None:
        if self._executor is not None:
            self._executor.shutdown(wait=True, cancel_futures=True)
        self._executor = None


def _processes(executor: ProcessPoolExecutor | None) -> list[BaseProcess]:
    started: dict[int, BaseProcess] | None = getattr(executor, "_processes", None)
    return list((started or {}).values())


def _kill(executor: ProcessPoolExecutor | None) -> None:
    """End all processes, and stop waiting for a result that one of them may have begun to send."""
    for process in _processes(executor):
        process.terminate()
    writer: Connection | None = getattr(getattr(executor, "_result_queue", None), "_writer", None)
    if writer is not None:
        writer.close()  # so that the other end sees that nothing more will come


def _executor(jobs: int) -> ProcessPoolExecutor:
    """Start processes by fork if that is safe, that is, without other threads, also those of `fsspec`."""
    can_fork = sys.platform == "linux" and threading.active_count() == 1 and "fsspec" not in sys.modules
    method = "fork" if can_fork and "fork" in multiprocessing.get_all_start_methods() else "spawn"
    context = multiprocessing.get_context(method)
    return ProcessPoolExecutor(jobs, mp_context=context, initializer=_initialize_worker)


def _initialize_worker() -> None:
    """Ignore interrupts, which the parent handles, and end when it has ended."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = multiprocessing.parent_process()

    def exit_with_parent() -> None:
        if parent is not None:
            wait_for([parent.sentinel])
            os._exit(1)

    threading.Thread(target=exit_with_parent, daemon=True).start()


@contextmanager
def starting_processes() -> Generator[None]:
    """While it is open, new Python processes import no module of the current folder, and interrupts are blocked.

    Interrupts are blocked if the system can do that: a process that is just starting would print an error.
    """
    old_value, blocks = os.environ.get(_SAFE_PATH), hasattr(signal, "pthread_sigmask")
    old_mask = signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGINT,)) if blocks else None
    os.environ[_SAFE_PATH] = "1"  # a `multiprocessing.py` may lie in the current folder
    try:
        yield
    finally:
        if old_value is None:
            del os.environ[_SAFE_PATH]
        else:
            os.environ[_SAFE_PATH] = old_value
        if old_mask is not None:
            signal.pthread_sigmask(signal.SIG_SETMASK, old_mask)
