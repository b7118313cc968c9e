"""Commands that people wait for: the news of a thousand sessions, one small file.

Figures come as (measure, bar, measured, met), the fields of a row, in wall time of whole processes; those of one small
file in CPU time, which other work on the machine changes less.
"""

from __future__ import annotations

import json
import os
import resource
import statistics
import subprocess
import sys
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

from bench import clock
from bench.recordings import Fields
from model.making import dumps
from pictures.home import Session

SMALL_RATIO = 12  # 0.25 s where bare Python takes 17 ms
NOTHING_NEW_SECONDS = 0.3


def children() -> float:
    """Return the CPU seconds of processes that have ended: what else the machine does counts less in them."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def home(folder: Path, number: int, now: datetime) -> Path:
    """Make a home folder with `number` sessions of Claude Code in the days before a time."""
    for place in range(number):
        project = f"p{place % 20}"
        start = now - timedelta(hours=1 + place % 140)
        lines = Session(f"s{place}", project, start, "2.1.216").prompt("Go on.", 4).lines
        path = folder / f".claude/projects/-home-dev-{project}/{place}.jsonl"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"".join(dumps(line) + b"\n" for line in lines))
    return folder


def nothing_new(folder: Path, lore: tuple[str, ...], number: int, runs: int) -> Fields:
    """Bare `lore` where every session is known."""
    made = home(folder / "home", number, datetime.fromtimestamp(time.time(), UTC))
    environment = {**os.environ, "HOME": str(made), "XDG_CACHE_HOME": str(made / ".cache")}
    for name in ("CLAUDE_CONFIG_DIR", "CODEX_HOME", "XDG_DATA_HOME", "XDG_CONFIG_HOME"):
        environment.pop(name, None)

    def run() -> None:
        done = subprocess.run([*lore, "--json"], env=environment, capture_output=True, check=True)
        found = json.loads(done.stdout)["total"]["sessions"]
        if found != number:
            raise RuntimeError(f"{found:,} of {number:,} sessions are counted")

    cold = clock.seconds(run, clock.WALL)
    before = children()
    times = [clock.seconds(run, clock.WALL) for _ in range(runs)]
    used = (children() - before) / runs
    middle = statistics.median(times)
    said = f"{middle:.2f} s ({min(times):.2f} to {max(times):.2f}), {used:.2f} s of CPU; {cold:.2f} s without a cache"
    return f"`lore` with nothing new, {number:,} sessions known", "less than 0.3 s", said, middle < NOTHING_NEW_SECONDS


def one_small_file(lore: tuple[str, ...], file: Path, runs: int) -> Fields:
    """`lore check` of one small file against bare Python."""
    run, bare = (*lore, "check", file), (sys.executable, "-c", "pass")
    clock.process(*run)
    found = clock.alternate(lambda: clock.process(*run), lambda: clock.process(*bare), runs, children)
    said = f"{found}; {found.left_seconds * 1000:.0f} ms against {found.right_seconds * 1000:.0f} ms of CPU"
    measure = f"`lore check` of one file of {file.stat().st_size / 1e3:,.0f} KB against `python -c pass`"
    return measure, f"at most {SMALL_RATIO} times", said, found.median <= SMALL_RATIO
