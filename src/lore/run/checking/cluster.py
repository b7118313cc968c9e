"""Judge files on a Dask cluster; results come in the order of the files, to the byte those of one process.

In: the address of a scheduler, or `local` for workers on this machine; files. Out: their results. Rules: files are
packed into tasks by size, large ones go first and alone; only results travel back, as bytes. Every worker must run the
same lore with the same rules, and see the same files: that is looked at before work starts, and again by each task,
for workers that join later. A worker that dies costs its tasks, which the scheduler gives to others; a file whose task
dies again when nothing else runs is named in its result, as `pool.py` does.

Why futures and not a bag that is reduced as a tree: results are added up in the order of the files (which request is a
copy of which depends on it), so a tree would carry them all to its root, where futures give each as it comes and
forget it. `Result.merge` is there for who wants a bag.

A scheduler runs whatever somebody sends it. The local one speaks TLS with a certificate of its own, so that other
users of the machine cannot.
"""

from __future__ import annotations

import ipaddress
import os
import queue
from collections import Counter
from collections.abc import Callable, Generator, Iterator
from contextlib import ExitStack, contextmanager
from importlib import import_module
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from lore.errors import LoreError
from lore.judge.file_record import decode, encode
from lore.judge.totals import FileResult
from lore.model.ledger import Ledger
from lore.recording import corpus
from lore.recording.inputs import Input, ahead
from lore.run.checking.judging import Hearer, judge_apart
from lore.run.checking.pool import DIED, starting_processes
from lore.run.checking.program import Program, program, rules_digest
from lore.run.checking.verdicts import CheckConfig

LOCAL = "local"
# A worker that dies once may be an accident; what it had is fetched no longer than a machine takes to answer itself.
# A worker that is started again later must not import modules of the current folder either.
LOCAL_SETTINGS = {"distributed.scheduler.allowed-failures": 1, "distributed.comm.timeouts.connect": "3s",
                  "distributed.nanny.pre-spawn-environ.PYTHONSAFEPATH": "1"}  # fmt: skip
TASK_BYTES = 64 * 1024 * 1024  # a file that is larger is a task of its own
TASK_FILES = 200
DEATHS = 2  # workers that die while they have a file alone, and nothing else runs, before the file is blamed
ASKED = 3  # times that workers are asked what they are, where one dies meanwhile
_CRITICAL = 50  # the level of logs: what a worker that died leaves behind is said in results
POLL_SECONDS = 0.2
CONNECT_SECONDS = 10.0
JOIN_SECONDS = 30  # how long a scheduler without workers is waited for
_INSTALL = "pip install 'lore-cache[dask]'"


class Task(NamedTuple):
    """Files that one worker judges: their places among all, and how many bytes they have."""

    places: tuple[int, ...]
    size: int


class _Came(NamedTuple):
    """A result as it travels."""

    record: bytes
    ledger: Ledger | None

    @classmethod
    def of(cls, result: FileResult) -> _Came:
        return cls(encode(result), result.ledger)


class Worker(NamedTuple):
    """What a worker is: its lore, a digest of a user's rules as it reads them, its folder."""

    program: Program
    rules: str
    folder: str


class Cluster:
    """Workers of a scheduler. `tell` hears warnings; `workers` is how many a local one has."""

    def __init__(self, address: str, tell: Callable[[str], None], *, workers: int = 1) -> None:
        self._address = address if address == LOCAL or "://" in address else f"tcp://{address}"
        self._tell = tell
        self._workers = workers
        if self._address != LOCAL and not _is_address(self._address):
            hint = "--cluster local, or the address that `dask scheduler` prints: --cluster tcp://HOST:8786"
            raise LoreError(f"{corpus.show(address)} is no address of a scheduler", hint=hint)
        self._dask = _distributed()

    def results(
        self, files: list[Input], here: Callable[[Input], FileResult], config: CheckConfig, hearer: Hearer
    ) -> Generator[FileResult]:  # fmt: skip
        """Yield the result of each file, in order; what can be read only once is judged `here`.

        Raises LoreError where a worker differs, or the scheduler goes away; StoppedError where the run is interrupted.
        """
        config = config._replace(root=os.path.abspath(config.root))
        with ExitStack() as stack:
            client = stack.enter_context(self._local() if self._address == LOCAL else self._remote())
            this = Worker(program(), rules_digest(config.dated.path), os.getcwd())
            self._compare(client, this, config, files)
            run = _Run(client, files, here, config, this)
            stack.callback(run.cancel)
            yield from run.results(hearer)

    @contextmanager
    def _local(self) -> Generator[Any]:
        """Start workers on this machine, each a process with one thread; interrupts do not reach them."""
        with import_module("dask").config.set(LOCAL_SETTINGS):
            try:
                with starting_processes():
                    cluster = self._dask.LocalCluster(
                        n_workers=self._workers, threads_per_worker=1, processes=True, host="127.0.0.1", security=True,
                        dashboard_address="127.0.0.1:0", silence_logs=_CRITICAL,
                    )  # fmt: skip
            except ImportError as error:  # certificates need cryptography
                raise LoreError(f"--cluster local cannot start: {error}", hint=_INSTALL) from None
            with cluster, self._dask.Client(cluster, set_as_default=False) as client:
                yield client

    @contextmanager
    def _remote(self) -> Generator[Any]:
        """Connect to a scheduler; its certificates are those of Dask's own settings."""
        shown = corpus.show(self._address)
        if not _is_private(self._address):
            self._tell(f"warning: {shown} is neither on this machine nor TLS: findings travel as they are")
        try:
            client = self._dask.Client(self._address, timeout=CONNECT_SECONDS, set_as_default=False)
        except (OSError, TimeoutError, ValueError) as error:
            reason = str(error).partition("\n")[0]
            raise LoreError(f"no scheduler answers at {shown}: {reason}", hint="start it: dask scheduler") from None
        with client:
            yield client

    def _compare(self, client: Any, this: Worker, config: CheckConfig, files: list[Input]) -> None:
        """Raise LoreError for a worker that would judge otherwise than this process, or other files."""
        try:
            client.wait_for_workers(1, timeout=JOIN_SECONDS)
        except TimeoutError:
            message = f"{corpus.show(self._address)} has no worker after {JOIN_SECONDS} seconds"
            raise LoreError(message, hint="start one: dask worker ADDRESS") from None
        relative = any(not (os.path.isabs(file.path) or file.stream or "://" in file.path) for file in files)
        answers: dict[str, Any] = {}
        for _ in range(ASKED):
            answers = client.run(_probe(config.dated.path), on_error="return")
            if not any(isinstance(answer, OSError) for answer in answers.values()):
                break  # else a worker died meanwhile: the scheduler drops it, or has another in its place
        for address, answer in sorted(answers.items()):
            if isinstance(answer, BaseException):
                raise LoreError(f"the worker {address} cannot judge: {answer}", hint="mend it, or stop it")
            if isinstance(answer, str):
                message = f"the worker {address} has no lore, or an older one: {answer}"
                raise LoreError(message, hint=f"install lore {this.program.version} there, as it is here")
            differ(address, Worker(Program(*answer[0]), *answer[1:]), this, relative=relative)


def differ(address: str, worker: Worker, this: Worker, *, relative: bool) -> None:
    """Raise LoreError where a worker differs from this process; `relative`: files are named from the folder here."""
    there, here = worker.program, this.program
    if there.version != here.version:
        message = f"the worker {address} runs lore {there.version}, and this is lore {here.version}"
        raise LoreError(message, hint=f"install lore {here.version} on every worker")
    if there.digest != here.digest:
        message = f"the worker {address} runs another build of lore {here.version}: its files differ from those here"
        raise LoreError(message, hint="install the same build on every worker")
    for what, theirs, ours in (("plug-ins", there.plugins, here.plugins), ("packages", there.optional, here.optional)):
        if theirs != ours:
            names = ", ".join(sorted({*theirs} ^ {*ours}))
            raise LoreError(f"the worker {address} has other {what}: {names}", hint="install the same on every worker")
    if worker.rules != this.rules:
        message = f"the worker {address} reads another file of rules under the name that the settings give"
        raise LoreError(message, hint="put the same file there")
    if relative and worker.folder != this.folder:
        message = f"the worker {address} runs in {corpus.show(worker.folder)}, where these names mean other files"
        raise LoreError(message, hint="name recordings by absolute paths that every worker sees")


def _probe(rules: str) -> Callable[[], object]:
    """Return what a worker runs to say what it is; it travels by value, since the worker may have no lore."""

    def probe() -> object:
        import os  # noqa: PLC0415

        try:
            from lore.run.checking.program import program, rules_digest  # noqa: PLC0415
        except ImportError as error:
            return str(error)
        return tuple(program()), rules_digest(rules), os.getcwd()

    return probe


class _Run:
    """Hand tasks out, and take their results in the order of the files."""

    def __init__(
        self, client: Any, files: list[Input], here: Callable[[Input], FileResult], config: CheckConfig, this: Worker
    ) -> None:  # fmt: skip
        self._client = client
        self._files = files
        self._here = here
        self._config = config
        self._this = this
        self._done: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._running: dict[Any, Task] = {}
        self._came: dict[int, _Came] = {}
        self._suspects: list[Task] = []
        self._size = 0
        self._died: Counter[int] = Counter()  # by file: workers that died while nothing else ran
        self._alone = False  # the one task that runs is a suspect's

    def results(self, hearer: Hearer) -> Iterator[FileResult]:
        """Yield the result of each file."""
        tasks = packed(self._files)
        self._submit([task for task in tasks if task.size > TASK_BYTES], priority=1)
        self._submit([task for task in tasks if task.size <= TASK_BYTES], priority=0)
        for place, file in enumerate(self._files):
            if file.stream or file.error is not None:
                yield self._here(file)
                continue
            while place not in self._came:
                self._wait(hearer)
            came = self._came.pop(place)
            result = decode(came.record, self._config.ruling)
            result.ledger = came.ledger
            yield result

    def cancel(self) -> None:
        """Let go of what is not done; tasks that run end by themselves."""
        if self._running and self._client.status == "running":
            self._client.cancel(list(self._running), force=True)

    def _submit(self, tasks: list[Task], *, priority: int) -> None:
        work = [tuple(self._files[place] for place in task.places) for task in tasks]
        futures: list[Any] = self._client.map(
            judge_task, work, config=self._config, program=self._this.program, rules=self._this.rules,
            priority=priority, pure=False,
        ) if work else []  # fmt: skip
        self._running.update(zip(futures, tasks, strict=True))
        for future in futures:
            future.add_done_callback(self._done.put)

    def _wait(self, hearer: Hearer) -> None:
        """Take what the next task that ends gave; where none is left, try the files whose tasks died, one at a time."""
        hearer.tell(0, self._size)
        if not self._running:
            self._submit([self._suspects.pop()], priority=0)
            self._alone = True
        try:
            future = self._done.get(timeout=POLL_SECONDS)
        except queue.Empty:
            if self._client.status != "running":
                raise LoreError("the scheduler went away", hint="start it, and run this again") from None
            return
        if future.status in ("pending", "lost"):  # its worker died before its result was fetched: it runs again
            future.add_done_callback(self._done.put)
            return
        task = self._running.pop(future)
        self._take(future, task)
        future.release()

    def _take(self, future: Any, task: Task) -> None:
        alone = not self._running and self._alone
        self._alone = False
        if future.status not in ("finished", "error"):
            raise LoreError("the scheduler gave up this run's tasks", hint="run it again")
        try:
            came = future.result()
        except _distributed().KilledWorker:  # also of one that had finished, and was lost before it was fetched
            pass
        else:
            self._came.update(zip(task.places, came, strict=True))
            self._size += task.size
            return
        if len(task.places) > 1:
            self._submit([Task((place,), self._files[place].size) for place in task.places], priority=0)
            return
        place = next(iter(task.places))
        self._died[place] += alone
        if self._died[place] == DEATHS:
            result = self._here(self._files[place]._replace(error=LoreError(DIED)))
            self._came[place] = _Came.of(result)
        else:
            self._suspects.append(task)


def judge_task(
    files: tuple[Input, ...], config: CheckConfig, program: Program, rules: str
) -> list[_Came]:  # fmt: skip
    """Judge files on a worker; raises LoreError where it is not what the others are."""
    from lore.run.checking.program import program as program_here  # noqa: PLC0415

    if (program_here(), rules_digest(config.dated.path)) != (program, rules):
        raise LoreError("a worker that joined later runs another lore, or other rules", hint="install the same there")
    return [_Came.of(judge_apart(file, config)) for file in ahead(files)]


def packed(files: list[Input]) -> list[Task]:
    """Pack files into tasks, in their order; what is read here is in none."""
    tasks: list[Task] = []
    places: list[int] = []
    size = 0
    for place, file in enumerate(files):
        if file.stream or file.error is not None:
            continue
        if places and (size + file.size > TASK_BYTES or len(places) == TASK_FILES):
            tasks.append(Task(tuple(places), size))
            places, size = [], 0
        places.append(place)
        size += file.size
    return [*tasks, Task(tuple(places), size)] if places else tasks


def _distributed() -> Any:
    """Return Dask's client, which takes a second to load."""
    try:
        return import_module("distributed")
    except ImportError:
        raise LoreError("--cluster needs Dask, which is not installed", hint=_INSTALL) from None


def _is_address(address: str) -> bool:
    try:
        parts = urlsplit(address)
        known = parts.scheme in ("tcp", "tls", "ws", "wss", "ucx")
        return known and bool(parts.hostname) and parts.port is not None
    except ValueError:
        return False


def _is_private(address: str) -> bool:
    """Tell whether nobody on a network can read what goes there."""
    parts = urlsplit(address)
    if parts.scheme in ("tls", "wss") or parts.hostname == "localhost":
        return True
    try:
        return ipaddress.ip_address(parts.hostname or "").is_loopback
    except ValueError:
        return False
