"""Check files on a Dask cluster: one task per file, results in the order of the files.

If a worker dies, Dask runs its task on another worker. A file that kills several workers is reported as unreadable, as
with `lore check --jobs`. Workers read the recordings themselves, so they need the same files and the same lore with the
same settings; both are compared before work starts.

A scheduler runs any code that a client sends. So the local one requires a TLS certificate, which other users of the
machine do not have.
"""

from __future__ import annotations

import ipaddress
import os
import re
import threading
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any
from urllib.parse import urlsplit

from lore.errors import LoreError, install_hint
from lore.judge import FileResult
from lore.recording import Input, show
from lore.run import DIED, ClusterJob, starting_processes

LOCAL = "local"
_ADDRESS = re.compile(r"(tcp|tls|wss?|ucx)://[^/\s]+:\d{1,5}")
POLL_SECONDS = 0.2  # between checks for an interrupt
CONNECT_SECONDS = 10.0
JOIN_SECONDS = 30  # to wait for the first worker
# Workers import nothing from the current folder, and Dask gives up soon on a task whose workers die.
_LOCAL_SETTINGS = {
    "distributed.nanny.pre-spawn-environ.PYTHONSAFEPATH": "1", "distributed.comm.timeouts.connect": "10s",
    "distributed.scheduler.allowed-failures": 1,
}  # fmt: skip
_ASKED = 3
_SILENT = 50  # log level: results report dead workers


class DaskCluster:
    """Workers of a Dask scheduler, or `workers` processes on this machine; `warn` prints a line for the user."""

    def __init__(self, address: str, workers: int, warn: Callable[[str], None]) -> None:
        self._address = address if address == LOCAL or "://" in address else f"tcp://{address}"
        self._workers, self._warn = workers, warn
        if self._address != LOCAL and not _ADDRESS.fullmatch(self._address):
            hint = "--jobs NUMBER, --jobs local, or the address that `dask scheduler` prints: --jobs tcp://HOST:8786"
            raise LoreError(f"{show(address)} is not the address of a scheduler", hint=hint)
        try:
            self._dask: Any = import_module("distributed")
        except ImportError:
            raise LoreError("--jobs ADDRESS needs Dask, which is not installed", hint=install_hint("dask")) from None

    def results(self, files: list[Input], job: ClusterJob) -> Iterator[FileResult]:
        """Yield the result of each file, in order. Streams can be read only once and are checked here."""
        with self._local() if self._address == LOCAL else self._remote() as client:
            self._compare_workers(client, job, files)
            # Largest files first: otherwise one worker may still read a large file when all others are idle.
            places = sorted((place for place, file in enumerate(files) if _is_sent(file)), key=lambda n: -files[n].size)
            tasks: list[Any] = client.map(job.apart, [files[place] for place in places], pure=False) if places else []
            waiting = dict(zip(places, tasks, strict=True))
            fetched: dict[int, FileResult | None] = {}  # None: the workers died
            done = 0
            try:
                for place, file in enumerate(files):
                    if place in waiting:
                        fetched[place] = self._result(client, waiting.pop(place), job, done)
                        if fetched[place] is None:  # get all other results first: the file may kill workers again
                            others = {other: self._result(client, task, job, done) for other, task in waiting.items()}
                            fetched |= others
                            waiting.clear()
                    if place in fetched:
                        yield fetched.pop(place) or self._judge_alone(client, file, job, done)
                    else:
                        yield job.here(file)
                    done += file.size
            finally:
                if waiting and client.status == "running":
                    client.cancel(list(waiting.values()), force=True)

    def _judge_alone(self, client: Any, file: Input, job: ClusterJob, done: int) -> FileResult:
        """Check a file again while no other task runs: if workers die now, this file is the cause."""
        result = self._result(client, client.submit(job.apart, file, pure=False), job, done)
        return result or job.here(file._replace(error=LoreError(DIED)))

    def _result(self, client: Any, task: Any, job: ClusterJob, done: int) -> FileResult | None:
        """Wait for a task; return None if its workers died, which may be due to another file."""
        try:
            self._wait(client, task, job, done)
            return task.result()
        except self._dask.KilledWorker:
            return None
        except (OSError, self._dask.CancelledError):
            raise LoreError("the scheduler is gone", hint="start it, and run this again") from None

    @staticmethod
    def _wait(client: Any, task: Any, job: ClusterJob, done: int) -> None:
        ended = threading.Event()

        def end(_: object) -> None:
            ended.set()

        task.add_done_callback(end)
        job.tell(done)
        while not ended.wait(POLL_SECONDS):
            job.tell(done)
            if client.status != "running":
                raise ConnectionError

    @contextmanager
    def _local(self) -> Generator[Any]:
        """Start workers on this machine: processes with one thread, which ignore interrupts."""
        with import_module("dask").config.set(_LOCAL_SETTINGS):
            try:
                with starting_processes():
                    cluster = self._dask.LocalCluster(
                        n_workers=self._workers, threads_per_worker=1, processes=True, host="127.0.0.1", security=True,
                        dashboard_address="127.0.0.1:0", silence_logs=_SILENT,
                    )  # fmt: skip
            except ImportError as error:  # certificates need cryptography
                raise LoreError(f"--jobs local cannot start: {error}", hint=install_hint("dask")) from None
            with cluster, self._dask.Client(cluster, set_as_default=False) as client:
                yield client

    @contextmanager
    def _remote(self) -> Generator[Any]:
        """Connect to a scheduler; certificates come from Dask's own settings."""
        shown = show(self._address)
        if not _is_private(self._address):
            self._warn(f"warning: {shown} is neither on this machine nor TLS: findings are sent unencrypted")
        try:
            client = self._dask.Client(self._address, timeout=CONNECT_SECONDS, set_as_default=False)
        except (OSError, TimeoutError, ValueError) as error:
            reason = str(error).partition("\n")[0]
            raise LoreError(f"no scheduler answers at {shown}: {reason}", hint="start it: dask scheduler") from None
        with client:
            yield client

    def _compare_workers(self, client: Any, job: ClusterJob, files: list[Input]) -> None:
        """Raise LoreError for a worker with another lore, other settings or other files than this process."""
        try:
            client.wait_for_workers(1, timeout=JOIN_SECONDS)
        except TimeoutError:
            message = f"{show(self._address)} has no worker after {JOIN_SECONDS} seconds"
            raise LoreError(message, hint="start one: dask worker ADDRESS") from None
        relative = any(not (os.path.isabs(file.path) or "://" in file.path) for file in files if _is_sent(file))
        answers: dict[str, Any] = {}
        for _ in range(_ASKED):
            answers = client.run(_describe_worker, job.maker, on_error="return")
            if not any(isinstance(answer, OSError) for answer in answers.values()):
                break  # OSError: a worker may have died, and Dask starts another
        here = _describe_worker(job.maker)
        for worker, answer in sorted(answers.items()):
            if isinstance(answer, BaseException) or answer[0] != here[0]:
                what = f" ({answer})" if isinstance(answer, BaseException) else ""
                message = f"the worker {worker} has another lore, other plug-ins or another file of rules{what}"
                raise LoreError(message, hint="install the same lore and its extras there, and copy the file of rules")
            if relative and answer[1] != here[1]:
                message = f"the worker {worker} runs in another folder, where these names mean other files"
                raise LoreError(message, hint="name recordings by absolute paths that every worker sees")


def _describe_worker(maker: Callable[[], str]) -> tuple[str, str]:
    """Return what the results of a worker depend on: the digest of its lore, and its folder."""
    return maker(), os.getcwd()


def _is_sent(file: Input) -> bool:
    return not file.stream and file.error is None


def _is_private(address: str) -> bool:
    """Return whether data sent to this address is safe from others on the network."""
    parts = urlsplit(address)
    if parts.scheme in ("tls", "wss") or parts.hostname == "localhost":
        return True
    try:
        return ipaddress.ip_address(parts.hostname or "").is_loopback
    except ValueError:
        return False
