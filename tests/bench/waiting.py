"""Commands that people wait for: the news of a thousand sessions, one small file.

Figures come as (measure, bar, measured, met), the fields of a row, in CPU time of whole processes, which other work on
the machine changes less than wall time.
"""

import json
import os
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from functools import partial
from itertools import product
from pathlib import Path

from bench import clock
from bench.recordings import ABSENT, Fields, sessions
from model.making import dumps
from pictures.home import Session

SMALL_RATIO = 10
TIMES = 5  # how often the corpus is copied
PARSE = """
import sys, orjson
for path in sys.argv[1:]:
    for line in open(path, "rb"):
        try:
            orjson.loads(line)
        except ValueError:  # two objects on one line
            pass
"""  # without lore's modules, whose import takes as long as parsing 50 MB
OTHER_FOLDERS = ("CLAUDE_CONFIG_DIR", "CODEX_HOME", "XDG_DATA_HOME", "XDG_CONFIG_HOME")
NOTHING_NEW_SECONDS, ONE_GREW_SECONDS = 0.6, 0.7  # of CPU


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


def unknown(folder: Path, lore: tuple[str, ...], most: int, runs: int) -> Fields:
    """Bare `lore` that reads the sessions of the corpus for the first time, against `orjson.loads` over their lines."""
    measure, bar = (
        f"`lore` without a cache over the Claude Code sessions of the corpus, {TIMES} times",
        "at most 4 times",
    )
    paths = sessions(most)
    if not paths:
        return measure, bar, ABSENT, None
    copies = list[Path]()
    for number, path in product(range(TIMES), paths):
        copies.append(folder / f"cold/.claude/projects/-{path.stem}/{number}.jsonl")
        copies[-1].parent.mkdir(parents=True, exist_ok=True)
        copies[-1].write_bytes(path.read_bytes().replace(b'"msg_0', b'"msg_%d' % (number + 1)))  # no copies of requests
    environment = {**os.environ, "HOME": str(folder / "cold"), "XDG_CACHE_HOME": str(folder / "cold/.cache")}
    for name in OTHER_FOLDERS:
        environment.pop(name, None)
    commands = (*lore, "--json", "--no-cache"), (sys.executable, "-c", PARSE, *map(str, copies))
    runs_of = (partial(subprocess.run, words, env=environment, capture_output=True, check=True) for words in commands)
    ratio = clock.alternate(*runs_of, runs, children)
    said = f"{ratio}; {ratio.left_seconds:.2f} s against {ratio.right_seconds:.2f} s of CPU"
    return measure, bar, said, ratio.median <= 4


def known(folder: Path, lore: tuple[str, ...], number: int, runs: int) -> Iterator[Fields]:
    """Bare `lore` where every session is known, and where one of them grew."""
    made = home(folder / "home", number, datetime.fromtimestamp(time.time(), UTC))
    environment = {**os.environ, "HOME": str(made), "XDG_CACHE_HOME": str(made / ".cache")}
    for name in OTHER_FOLDERS:
        environment.pop(name, None)
    log = next(made.glob(".claude/projects/*/0.jsonl"))
    whole = log.read_bytes()

    def run() -> None:
        done = subprocess.run([*lore, "--json"], env=environment, capture_output=True, check=True)
        found = json.loads(done.stdout)["total"]["sessions"]
        if found != number:
            raise RuntimeError(f"{found:,} of {number:,} sessions are counted")

    def grow(place: int) -> None:
        log.write_bytes(whole if place % 2 else b"".join(whole.splitlines(keepends=True)[:-2]))

    cold = clock.seconds(run, clock.WALL)
    for measure, bar, prepare in (("nothing new", NOTHING_NEW_SECONDS, lambda _: None),
                                  ("one that grew", ONE_GREW_SECONDS, grow)):  # fmt: skip
        walls, used = list[float](), list[float]()
        for place in range(runs):
            prepare(place)
            before = children()
            walls.append(clock.seconds(run, clock.WALL))
            used.append(children() - before)
        middle = statistics.median(used)
        said = f"{middle:.2f} s ({min(used):.2f} to {max(used):.2f}), {statistics.median(walls):.2f} s of wall time"
        said = f"{said}; {cold:.2f} s without a cache"
        yield f"`lore` with {measure}, {number:,} sessions known", f"{bar} s of CPU", said, middle <= bar


def one_small_file(lore: tuple[str, ...], file: Path, runs: int) -> Fields:
    """`lore check` of one small file against bare Python."""
    run, bare = (*lore, "check", file), (sys.executable, "-c", "pass")
    clock.process(*run)
    found = clock.alternate(lambda: clock.process(*run), lambda: clock.process(*bare), runs, children)
    said = f"{found}; {found.left_seconds * 1000:.0f} ms against {found.right_seconds * 1000:.0f} ms of CPU"
    measure = f"`lore check` of one file of {file.stat().st_size / 1e3:,.0f} KB against `python -c pass`"
    return measure, f"at most {SMALL_RATIO} times", said, found.median <= SMALL_RATIO
