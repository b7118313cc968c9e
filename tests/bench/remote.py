"""Many small recordings in a bucket against the same on a disk, with each of the clients.

The service is that of the tests (`store/s3_server.py`), in a process of its own, and answers after as long as one in
the same region does. It is Python, too, and shares the machine: the figures are those of lore with a slow service.
"""

from __future__ import annotations

import multiprocessing
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection
from pathlib import Path

from bench import clock
from lore.judge.policy import Budgets
from lore.recording import remote
from lore.recording.opening import Options
from lore.run.checking.check import check
from store.s3_server import CREDENTIALS, ObjectServer

LATENCY = 0.01  # seconds
BAR = "at most 10 times (obstore)"


def small(folder: Path, number: int, log: bytes, times: int) -> tuple[str, str, str, bool]:
    """Return measure, bar, what was measured, and whether it was met."""
    place = folder / "small"
    place.mkdir(exist_ok=True)
    for name in range(number):
        (place / f"{name:05}.jsonl").write_bytes(log)
    measure = f"`lore check` of {number:,} recordings of {len(log):,} bytes in a bucket against the same on a disk"
    found: dict[str, list[float]] = {}
    with _served(number, log) as requests:
        for _ in range(times):
            found.setdefault("disk", []).append(_seconds(str(place), number))
            for client in ("obstore", "fsspec"):
                os.environ["LORE_REMOTE"] = client
                found.setdefault(client, []).append(_seconds("s3://b/small", number))
        del os.environ["LORE_REMOTE"]
        sent = requests()
    best = {name: sorted(seconds)[len(seconds) // 2] for name, seconds in found.items()}
    ratios = {name: best[name] / best["disk"] for name in ("obstore", "fsspec")}
    told = (
        f"obstore {ratios['obstore']:.1f}, fsspec {ratios['fsspec']:.1f} times; {best['obstore']:.2f} s and "
        f"{best['fsspec']:.2f} s against {best['disk']:.2f} s; each request is answered after {LATENCY * 1000:.0f} ms; "
        f"{sent / times / number:.2f} requests for a recording with both"
    )
    return measure, BAR, told, ratios["obstore"] <= 10


def _seconds(path: str, number: int) -> float:
    def judge() -> None:
        summary = check([path], Budgets(), Options()).result.summary
        if summary.files != number:
            raise RuntimeError(f"{path} is not judged as it was made: {summary}")

    return clock.seconds(judge, clock.WALL)


@contextmanager
def _served(number: int, log: bytes) -> Iterator[Callable[[], int]]:
    """Serve these recordings, and name the service in the environment; yields what counts its requests."""
    context = multiprocessing.get_context("spawn")
    here, there = context.Pipe()
    server = context.Process(target=_serve, args=(there, number, log), daemon=True)
    server.start()
    settings = {**CREDENTIALS, "AWS_ENDPOINT_URL": here.recv(), "AWS_REGION": "us-east-1"}
    before = {name: os.environ.get(name) for name in settings}
    os.environ.update(settings)
    remote._source.cache_clear()

    def requests() -> int:
        here.send(None)
        return here.recv()

    try:
        yield requests
    finally:
        server.terminate()
        server.join()
        for name, value in before.items():
            os.environ.pop(name) if value is None else os.environ.__setitem__(name, value)


def _serve(pipe: Connection, number: int, log: bytes) -> None:
    with ObjectServer(page=1000) as service:
        for name in range(number):
            service.keep(f"b/small/{name:05}.jsonl", log)
        service.fail = lambda _: LATENCY
        pipe.send(service.endpoint)
        pipe.recv()
        pipe.send(len(service.requests))
        time.sleep(60)
