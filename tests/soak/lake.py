"""Soak a lake of recordings: many small ones and large ones, by one process and by workers of which one is killed.

    python tests/soak/lake.py [--small N] [--larges N] [--large-mb N] [--folder DIR] [--bucket] [--runs NAME,…]

Writes the recordings (the same for the same parameters; what stands in `--folder` already is not written again), then
runs `lore check --json` over them; `--bucket` serves the folder as a bucket on this machine. The runs, of which the
first is the one that others are held to:

- `process`    in one process
- `processes`  in several
- `cluster`    on local workers, of which the busiest is killed in the middle

`--answer FILE` keeps what the first run answered; where that file is there already, all runs are held to it.
`--captured` makes the large ones captures of many conversations, else each is one session that is compacted now and
then. Exit code 1 where an answer differs by a byte, or where a process held more memory than the bar.

    python tests/soak/lake.py --bucket --small 100000 --large-mb 5120       a lake, as people have them
    python tests/soak/lake.py --small 0 --larges 40 --large-mb 512 --runs processes     20 GB: is memory flat?
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from bench import captures, generate
from store.s3_server import CREDENTIALS, ObjectServer

COMPACTED = 100  # turns: a session that goes on for gigabytes was compacted
LORE = [sys.executable, "-m", "lore", "check", "--json"]
RUNS = ("process", "processes", "cluster")
PARTS = (0.1, 0.25, 0.5, 1.0)  # of the bytes, behind which the most memory is told
POLL_SECONDS = 0.5


class Lake(NamedTuple):
    """Recordings: how `lore check` is told of them, their bytes, requests to their service so far, its variables."""

    folder: Path
    name: str
    size: int
    requests: Callable[[], int]
    settings: dict[str, str]


class Ran(NamedTuple):
    """What a run answered, and what it took: seconds, CPU seconds, requests, the most MB of its processes."""

    code: int
    out: bytes
    seconds: float
    cpu: float
    requests: int
    own_mb: float
    worker_mb: float
    killed: bool


def write(folder: Path, small: int, larges: int, large_mb: int, *, captured: bool = False) -> int:
    """Write the recordings; return their bytes."""
    brief, total = [*generate.lines(2, name="small")], 0
    folder.mkdir(parents=True, exist_ok=True)
    for number in range(small):
        path = folder / f"{number % 97:02}" / f"{number}.jsonl"
        path.parent.mkdir(exist_ok=True)
        if not path.exists():
            path.write_bytes(b"".join(brief).replace(b'"small"', b'"small%d"' % number, 1))
        total += path.stat().st_size
    for number in range(larges):
        path, size = folder / f"large{number}.jsonl", 0
        if not path.exists():
            with open(path, "wb") as file:
                for line in large(folder, number, captured=captured):
                    size += file.write(line)
                    if size >= large_mb * 1024 * 1024:
                        break
        total += path.stat().st_size
    return total


def large(folder: Path, number: int, *, captured: bool) -> Iterator[bytes]:
    """Yield lines of a large recording, of captures those of the first one under other names."""
    if not captured:
        yield from generate.lines(10**9, name=f"large{number}", compact_every=COMPACTED)
    elif number == 0:
        yield from (captures.as_proxy(each, captures.TURNS) for each in itertools.count())
    else:
        with open(folder / "large0.jsonl", "rb") as first:
            for line in first:
                yield line.replace(b"bench-", b"bench%d-" % number).replace(b'"msg_', b'"msg%d_' % number)


class Watched:
    """The processes of a run, looked at while it goes on: CPU seconds, bytes read and the most MB of each."""

    def __init__(self, process: int) -> None:
        self.process = process
        self.cpu: dict[int, float] = {}
        self.read: dict[int, int] = {}
        self.peak_mb: dict[int, float] = {process: 0.0}
        self.below: list[int] = []

    def look(self) -> None:
        """Look at all of them, as /proc has them; those that end meanwhile keep what they had."""
        parents: dict[int, int] = {}
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit():
                try:
                    fields = (entry / "stat").read_text().rpartition(")")[2].split()
                except OSError:
                    continue
                parents[int(entry.name)] = int(fields[1])
                if int(entry.name) in self.peak_mb:
                    self.cpu[int(entry.name)] = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
        found = [self.process]
        for number in found:
            found += [child for child, parent in parents.items() if parent == number]
            try:
                status = dict(line.split(":", 1) for line in Path(f"/proc/{number}/status").read_text().splitlines())
                peak = int(status.get("VmHWM", "0").split()[0]) / 1024  # one that has ended has none
                self.peak_mb[number] = max(peak, self.peak_mb.get(number, 0.0))
                self.read[number] = int(Path(f"/proc/{number}/io").read_text().split()[1])
            except OSError:
                continue
        self.below = found[1:]


def run(lake: Lake, *args: str, kill_after: float = 0.0) -> Ran:
    """Run `lore check`, looking at its processes; kill the busiest below it after so many seconds."""
    begin, asked, killed, told = time.monotonic(), lake.requests(), False, 0
    process = subprocess.Popen([*LORE, *args, lake.name], cwd=lake.folder, stdout=subprocess.PIPE, env=lake.settings)
    assert process.stdout is not None
    out: list[bytes] = []
    reader = threading.Thread(target=lambda: out.append(process.stdout.read()))
    reader.start()
    watched = Watched(process.pid)
    while process.poll() is None:
        watched.look()
        while told < len(PARTS) and (read := sum(watched.read.values())) >= PARTS[told] * lake.size:
            print(f"  {read / 1e9:.1f} GB read from disk, at most {max(watched.peak_mb.values()):.0f} MB", flush=True)
            told += 1
        if kill_after and not killed and time.monotonic() - begin > kill_after and len(watched.below) > 1:
            os.kill(max(watched.below, key=lambda number: watched.peak_mb.get(number, 0)), signal.SIGKILL)
            killed = True
        time.sleep(POLL_SECONDS)
    reader.join()
    process.stdout.close()
    own = watched.peak_mb.pop(process.pid)
    return Ran(
        process.returncode, b"".join(out), time.monotonic() - begin, sum(watched.cpu.values()),
        lake.requests() - asked, own, max(watched.peak_mb.values(), default=0.0), killed,
    )  # fmt: skip


def main(arguments: list[str] | None = None) -> int:
    """Write recordings and judge them; return the exit code."""
    parser = argparse.ArgumentParser(description="soak a lake of recordings")
    parser.add_argument("--small", type=int, default=2_000)
    parser.add_argument("--larges", type=int, default=1)
    parser.add_argument("--large-mb", type=int, default=64)
    parser.add_argument("--captured", action="store_true", help="large ones are captures of many conversations")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--bar-mb", type=int, help="default: 150, and 3 for each thousand recordings")
    parser.add_argument("--kill-after", type=float, help="seconds; default: a third of those of the first run, and 8")
    parser.add_argument("--answer", type=Path)
    parser.add_argument("--folder")
    parser.add_argument("--bucket", action="store_true")
    parser.add_argument("--runs", default="process,cluster")
    given = parser.parse_args(arguments)
    runs = given.runs.split(",")
    if unknown := set(runs) - set(RUNS):
        parser.error(f"--runs: {', '.join(sorted(unknown))}: not one of {', '.join(RUNS)}")
    with ExitStack() as stack:
        folder = Path(given.folder or stack.enter_context(tempfile.TemporaryDirectory(prefix="lore-lake-")))
        size = write(folder, given.small, given.larges, given.large_mb, captured=given.captured)
        lake = Lake(folder, ".", size, int, dict(os.environ))
        if given.bucket:
            server = stack.enter_context(ObjectServer(page=1000))
            server.serve("lake", folder)
            lake.settings.update(CREDENTIALS, AWS_ENDPOINT_URL=server.endpoint, AWS_REGION="us-east-1")
            lake = lake._replace(name="s3://lake/", requests=lambda: len(server.requests))
        print(f"{given.small + given.larges:,} recordings, {size / 1e9:.2f} GB", flush=True)
        return compare(lake, runs, given)


def compare(lake: Lake, runs: list[str], given: argparse.Namespace) -> int:
    """Run it all; return the exit code."""
    several = ("--jobs", str(given.workers))
    cluster = ("--cluster", "local", *several)
    args = dict(zip(RUNS, (("--jobs", "1"), several, cluster), strict=True))
    answer: bytes = given.answer.read_bytes() if given.answer and given.answer.exists() else b""
    kill_after, failed = given.kill_after, False
    for name in runs:
        kills = name == "cluster"
        ran = run(lake, *args[name], kill_after=(kill_after or 8.0) if kills else 0.0)
        kill_after = kill_after or ran.seconds / 3 + 8
        said = b"exit %d\n%b" % (ran.code, ran.out)
        if not answer:
            answer = said
            if given.answer:
                given.answer.write_bytes(answer)
        large = max(ran.own_mb, ran.worker_mb) > (given.bar_mb or 150 + (given.small + given.larges) * 0.003)
        signs = {
            "killed": ran.killed, "DIFFERS": said != answer, "TOO LARGE": large,
            "ENDED BEFORE THE KILL": kills and not ran.killed,
        }  # fmt: skip
        failed = failed or any(holds for sign, holds in signs.items() if sign.isupper())
        print(
            f"{name:10} {ran.seconds:7.1f} s {ran.cpu:7.1f} s of CPU, {ran.requests:,} requests, {ran.own_mb:.0f} MB, "
            f"workers {ran.worker_mb:.0f} MB, exit {ran.code}",
            *(sign for sign, holds in signs.items() if holds), flush=True,
        )  # fmt: skip
    print(json.loads(answer.partition(b"\n")[2])["summary"])
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
