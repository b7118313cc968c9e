"""Plan a run on many machines: record what tasks take here, then simulate a scheduler over these times.

    python tests/bench/fleet.py record FOLDER… > tasks.jsonl
    python tests/bench/fleet.py plan tasks.jsonl [--terabytes 10] [--workers 50]… [--price 0.0408]

A task is some files, packed by size in their order as a cluster packs them: at most `TASK_BYTES`, at most `TASK_FILES`,
a larger file alone. Times are CPU seconds of this machine. The simulated scheduler gives the next task to the worker
that is free first, tasks above `TASK_BYTES` before the others; one process puts results together in the order of the
files, as `lore check` does. A worker reads an object, then judges it: reading costs a first byte and a rate, which are
arguments, since they depend on the network.
"""

from __future__ import annotations

import argparse
import bisect
import heapq
import itertools
import math
import os
import pickle
import random
import statistics
import sys
import time
import tracemalloc
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from lore.judge.policy import Budgets
from lore.judge.totals import FileResult, RunTotals
from lore.recording.inputs import Input, inputs
from lore.recording.opening import Options
from lore.run.checking.cluster import TASK_BYTES, TASK_FILES
from lore.run.checking.verdicts import CheckConfig, judge_file

GB = 10**9
LIST_KEYS, LIST_PRICE, GET_PRICE = 1_000, 0.005 / 1_000, 0.0004 / 1_000  # S3 Standard, us-east-1, 2026-11: dollars


class Task(msgspec.Struct, frozen=True):
    """What one task took: CPU seconds on a worker, and `merge` of them where results are put together.

    `result` is how many bytes travel back, `kept` how many of memory the sums keep of them.
    """

    size: int
    files: int
    requests: int
    seconds: float
    merge: float = 0.0
    result: int = 0
    kept: int = 0


class Run(NamedTuple):
    """A simulated run: seconds until the last task and the last merge ended, and its workers' share of idle time.

    `held` is the largest number of results that waited for those of earlier files.
    """

    judged: float
    merged: float
    idle: float
    held: int


def packed(files: Sequence[Input], most: int = TASK_BYTES) -> Iterator[list[Input]]:
    """Pack files into tasks, in their order."""
    task: list[Input] = []
    size = 0
    for file in files:
        if task and (size + file.size > most or len(task) == TASK_FILES):
            yield task
            task, size = [], 0
        task.append(file)
        size += file.size
    if task:
        yield task


def record(paths: list[str], most: int = TASK_BYTES) -> Iterator[Task]:
    """Judge files task by task in this process, and merge each result as it would come back."""
    config, totals, traced = CheckConfig(Options(), Budgets()), RunTotals(), RunTotals()
    for task in packed(inputs(paths), most):
        start = time.process_time()
        travelling = pickle.dumps([judge_file(file, config) for file in task], pickle.HIGHEST_PROTOCOL)
        judged = time.process_time()
        results: list[FileResult] = pickle.loads(travelling)
        requests = sum(result.summary.turns for result in results)
        for result in results:
            totals.take(result)
        merged = time.process_time()
        del results
        size = sum(file.size for file in task)
        yield Task(
            size, len(task), requests, judged - start, merged - judged, len(travelling), _kept(traced, travelling)
        )


def _kept(totals: RunTotals, travelling: bytes) -> int:
    """Return how many bytes of memory sums take to keep what they need of some results."""
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        for result in pickle.loads(travelling):
            totals.take(result)
        return max(0, tracemalloc.get_traced_memory()[0] - before)
    finally:
        tracemalloc.stop()


def simulate(
    tasks: Sequence[Task], workers: Sequence[float], *, rate: float = 0.0, first_byte: float = 0.0,
    dispatch: float = 0.0, large_first: bool = True,
) -> Run:  # fmt: skip
    """Run tasks, in the order of their files, on workers, each as many times slower than recorded as it says.

    `rate` is bytes a second of one reading worker (0: reading costs nothing), `first_byte` seconds an object,
    `dispatch` seconds that the scheduler needs for each task, one after another. Cost O(tasks x log workers).
    """
    order = sorted(range(len(tasks)), key=lambda place: large_first and tasks[place].size <= TASK_BYTES)
    free = [(0.0, place) for place in range(len(workers))]
    ends, busy = [0.0] * len(tasks), 0.0
    for number, place in enumerate(order, 1):
        task = tasks[place]
        since, worker = heapq.heappop(free)
        reading = task.files * first_byte + (task.size / rate if rate else 0.0)
        took = task.seconds * workers[worker] + reading
        ends[place] = max(since, number * dispatch) + took
        busy += took
        heapq.heappush(free, (ends[place], worker))
    done, merged, held = sorted(ends), 0.0, 0
    for place, (task, end) in enumerate(zip(tasks, ends, strict=True)):
        begins = max(merged, end)
        held = max(held, bisect.bisect_right(done, begins) - place)
        merged = begins + task.merge
    judged = max(ends, default=0.0)
    return Run(judged, merged, 1 - busy / (judged * len(workers)) if judged else 0.0, held)


def drawn(recorded: Sequence[Task], size: int, seed: int = 1) -> list[Task]:
    """Draw recorded tasks at random, with repetition, until they have as many bytes."""
    chance, tasks, total = random.Random(seed), list[Task](), 0
    while total < size:
        tasks.append(chance.choice(recorded))
        total += tasks[-1].size
    return tasks


def huge(recorded: Sequence[Task], size: int) -> Task:
    """Return the task of one file of a size, by what recorded ones take a byte and a request."""
    share = size / sum(task.size for task in recorded)
    total = {name: sum(getattr(task, name) for task in recorded) for name in Task.__struct_fields__}
    total |= {"size": size / share, "files": 1 / share}
    scaled = {name: value * share for name, value in total.items()}
    whole = ("size", "files", "requests", "result", "kept")
    return Task(**{name: round(value) if name in whole else value for name, value in scaled.items()})


def costs(recorded: Sequence[Task]) -> str:
    """Say what tasks took, by gigabyte, request and file."""
    total = huge(recorded, sum(task.size for task in recorded))
    files = sum(task.files for task in recorded)
    seconds = [task.seconds / task.size for task in recorded if task.size]
    spread = statistics.pstdev(seconds) / statistics.fmean(seconds)
    return (
        f"recorded: {len(recorded):,} tasks of {total.size / GB:.2f} GB, {files:,} files, {total.requests:,} requests\n"
        f"a worker: {total.seconds / total.size * GB:.1f} CPU s/GB, {total.seconds / total.requests * 1e3:.3f} ms a "
        f"request, {total.seconds / files * 1e3:.2f} ms a file; tasks differ by {spread:.0%}\n"
        f"putting together: {total.merge / total.size * GB:.2f} CPU s/GB, {total.merge / total.requests * 1e6:.1f} µs "
        f"a request, {total.merge / files * 1e3:.2f} ms a file; {total.result / total.size * GB / 1e6:.1f} MB/GB "
        f"travel, {total.kept / total.requests:.0f} bytes of memory a request\n"
    )


class Network(NamedTuple):
    """What reading costs: bytes a second of one worker, seconds an object, seconds of a page of a listing."""

    rate: float
    first_byte: float
    page: float


def needed(work: float, listing: float, hours: float) -> int | None:
    """Return how many workers do so many seconds of work in these hours, listing first; None: no number does."""
    left = hours * 3600 - listing
    return math.ceil(work / left) if left > 0 else None


def plan(recorded: Sequence[Task], given: argparse.Namespace, network: Network) -> str:
    """Say what a run costs, how many workers it needs, and how long it takes on those that are given."""
    tasks = drawn(recorded, int(given.terabytes * 10**12))
    files, requests = (sum(getattr(task, name) for task in tasks) for name in ("files", "requests"))
    pages = -(-files // LIST_KEYS)
    listing, asked = pages * network.page, pages * LIST_PRICE + files * GET_PRICE
    reading = files * network.first_byte + sum(task.size for task in tasks) / network.rate
    judging = sum(task.seconds for task in tasks)
    enough = needed(judging + reading, listing, given.hours)
    price = "" if enough is None else f", ${enough * given.price * given.hours + asked:,.2f}"
    merging, kept = sum(task.merge for task in tasks), sum(task.kept for task in tasks) / GB
    big = huge(recorded, int(given.huge * GB))
    return f"""{costs(recorded)}
{given.terabytes:g} TB like these: {len(tasks):,} tasks, {files:,} files, {requests:,} requests
work: {judging / 3600:.1f} CPU hours of judging, {reading / 3600:.1f} hours of reading
listing: {pages:,} pages one after another, {listing:,.0f} s; requests to the store: ${asked:,.2f}
putting together: {merging:,.0f} s in one process, {kept:.1f} GB of memory
one file of {given.huge:g} GB: {big.seconds + big.size / network.rate:,.0f} s on one worker
in {given.hours:g} h with the listing: {"no" if enough is None else f"{enough:,}"} workers{price}

| workers | case | judged after | put together after | idle | results held | price |
|---|---|---|---|---|---|---|
{os.linesep.join(_cases(tasks, big, given, network, asked))}"""


def _cases(
    tasks: list[Task], big: Task, given: argparse.Namespace, network: Network, asked: float
) -> Iterator[str]:  # fmt: skip
    """Simulate each case with each number of workers; the listing is not in the times."""
    cases = (
        ("even", tasks, 0.0, True),
        (f"1 worker in 20 is {given.slow:g} times slower", tasks, 0.05, True),
        (f"with {given.huge:g} GB in one file, first", [*tasks, big], 0.0, True),
        (f"with {given.huge:g} GB in one file, last", [*tasks, big], 0.0, False),
    )
    for workers, (name, work, share, large_first) in itertools.product(given.workers, cases):
        slow = round(workers * share)
        run = simulate(
            work, [given.slow] * slow + [1.0] * (workers - slow), rate=network.rate, first_byte=network.first_byte,
            dispatch=given.dispatch, large_first=large_first,
        )  # fmt: skip
        price = workers * given.price * run.judged / 3600 + asked
        yield (
            f"| {workers} | {name} | {run.judged / 60:.1f} min | {run.merged / 60:.1f} min | {run.idle:.1%} "
            f"| {run.held:,} | ${price:,.2f} |"
        )


def main(arguments: list[str] | None = None) -> int:
    """Record tasks, or plan with recorded ones."""
    parser = argparse.ArgumentParser(description="Plan a run on many machines.")
    commands = parser.add_subparsers(dest="command", required=True)
    recording = commands.add_parser("record", help="judge recordings task by task; a line of JSON for each")
    recording.add_argument("paths", nargs="+")
    recording.add_argument("--task-bytes", type=int, default=TASK_BYTES)
    planning = commands.add_parser("plan", help="simulate a scheduler over recorded tasks")
    planning.add_argument("tasks", type=Path)
    planning.add_argument("--terabytes", type=float, default=10)
    planning.add_argument("--huge", type=float, default=5, help="GB of the largest file")
    planning.add_argument("--hours", type=float, default=1)
    planning.add_argument("--workers", type=int, action="append", help="vCPUs, one worker each (repeatable)")
    planning.add_argument("--price", type=float, default=0.0408, help="dollars a vCPU-hour")
    planning.add_argument("--slow", type=float, default=3, help="how many times slower one worker in 20 is")
    planning.add_argument("--rate", type=float, default=85, help="MB/s that one worker reads; 0: reading is free")
    planning.add_argument("--first-byte", type=float, default=0.1, help="seconds until an object comes")
    planning.add_argument("--at-once", type=int, default=1, help="objects that a worker asks for at a time")
    planning.add_argument("--page", type=float, default=0.15, help="seconds of a page of 1,000 keys")
    planning.add_argument("--dispatch", type=float, default=0.001, help="seconds of the scheduler a task")
    given = parser.parse_args(arguments)
    if given.command == "record":
        for task in record(given.paths, given.task_bytes):
            sys.stdout.write(msgspec.json.encode(task).decode() + os.linesep)
        return 0
    recorded = [msgspec.json.decode(line, type=Task) for line in given.tasks.read_bytes().splitlines()]
    given.workers = given.workers or [100]
    print(
        plan(recorded, given, Network(given.rate * 1e6 or float("inf"), given.first_byte / given.at_once, given.page))
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
