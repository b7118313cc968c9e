"""Measure: alternating runs, medians, ratios. Figures of one machine mean nothing; their ratios do."""

import gc
import statistics
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple


class Ratio(NamedTuple):
    """The median of a ratio over pairs of runs, its extremes, and the median seconds of both sides."""

    median: float
    low: float
    high: float
    left_seconds: float
    right_seconds: float

    def __str__(self) -> str:
        return f"{self.median:.2f} ({self.low:.2f} to {self.high:.2f})"


Clock = Callable[[], float]
CPU: Clock = time.process_time  # for work in this process: what other programs do to the machine counts less
WALL: Clock = time.perf_counter  # for whole processes


def seconds(run: Callable[[], object], clock: Clock) -> float:
    """Time one call, with nothing left to collect before it."""
    gc.collect()
    start = clock()
    run()
    return clock() - start


def alternate(left: Callable[[], object], right: Callable[[], object], pairs: int, clock: Clock) -> Ratio:
    """Time left, right, left, right, …; return left against right."""
    timed = [(seconds(left, clock), seconds(right, clock)) for _ in range(pairs)]
    ratios = [mine / theirs for mine, theirs in timed]
    lefts, rights = zip(*timed, strict=True)
    middle = statistics.median
    return Ratio(middle(ratios), min(ratios), max(ratios), middle(lefts), middle(rights))


def process(*command: str | Path, codes: tuple[int, ...] = (0,)) -> None:
    """Run a whole process; raise RuntimeError for another exit code."""
    done = subprocess.run([str(word) for word in command], capture_output=True, check=False)
    if done.returncode not in codes:
        said = done.stderr.decode("utf-8", "replace").strip()
        raise RuntimeError(f"{command[0]} ended with {done.returncode}: {said}")
