"""Soak a lake of recordings: many small ones and large ones, by one process and by workers of which one is killed.

    python tests/soak/lake.py [--small N] [--large-mb N] [--larges N] [--workers N] [--bar-mb N] [--folder DIR]

Writes the recordings (the same for the same parameters), then runs `lore check --json` in one process, on a local
cluster of which a worker is killed in the middle, with a state that is empty, and with that state. Exit code 1 where an
answer differs by a byte from that of one process, or where any process of a run held more memory than the bar. What
stands in `--folder` already is not written again.

    python tests/soak/lake.py --small 0 --larges 40 --large-mb 512       20 GB: is memory flat?
    python tests/soak/lake.py --small 100000 --large-mb 5120             a lake, as people have them
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from bench import generate

COMPACTED = 100  # turns: a session that goes on for gigabytes was compacted
LORE = [sys.executable, "-m", "lore", "check", "--json"]


class Ran(NamedTuple):
    """What a run answered, what it took, and the most memory that one of its processes held."""

    code: int
    out: bytes
    seconds: float
    peak_mb: float
    killed: bool


def session(name: str, turns: int) -> Iterator[bytes]:
    """Yield the lines of a session that is compacted now and then."""
    for number, line in enumerate(generate.lines(turns)):
        if number == 0:
            yield json.dumps({**json.loads(line), "session_id": name}, separators=(",", ":")).encode() + b"\n"
            continue
        yield line
        if number % (COMPACTED * 7) == 0:  # seven lines a turn
            yield b'{"kind":"compact_applied","uuid":"%s-%d","trigger":"auto"}\n' % (name.encode(), number)


def write(folder: Path, small: int, larges: int, large_mb: int) -> int:
    """Write the recordings; return their bytes."""
    brief, total = [*session("small", 2)], 0
    for number in range(small):
        path = folder / f"{number % 97:02}" / f"{number}.jsonl"
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.exists():
            path.write_bytes(b"".join(brief).replace(b'"small"', b'"small%d"' % number, 1))
        total += path.stat().st_size
    for number in range(larges):
        path, size = folder / f"large{number}.jsonl", 0
        if not path.exists():
            with open(path, "wb") as file:
                for line in session(f"large{number}", 10**9):
                    size += file.write(line)
                    if size >= large_mb * 1024 * 1024:
                        break
        total += path.stat().st_size
    return total


def children(parent: int) -> list[int]:
    """Return the processes below one, as /proc has them."""
    found: list[int] = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                above = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
            except (OSError, ValueError, IndexError):
                continue
            if above == parent:
                found += [int(entry.name), *children(int(entry.name))]
    return found


def peak_of(process: int) -> float:
    """Return the most memory that a process has held, in MB; 0 where it is gone."""
    try:
        lines = Path(f"/proc/{process}/status").read_text().splitlines()
    except OSError:
        return 0.0
    return next((int(line.split()[1]) / 1024 for line in lines if line.startswith("VmHWM:")), 0.0)


def run(folder: Path, *args: str, kill_after: float = 0.0) -> Ran:
    """Run `lore check`, looking at its processes; kill the busiest below it after so many seconds."""
    begin, peaks, killed = time.monotonic(), [0.0], False
    process = subprocess.Popen([*LORE, *args, "."], cwd=folder, stdout=subprocess.PIPE)
    assert process.stdout is not None
    parts: list[bytes] = []
    reader = threading.Thread(target=lambda: parts.append(process.stdout.read()))
    reader.start()
    while process.poll() is None:
        below = children(process.pid)
        peaks += [peak_of(number) for number in (process.pid, *below)]
        if kill_after and not killed and time.monotonic() - begin > kill_after and len(below) > 1:
            os.kill(max(below, key=peak_of), signal.SIGKILL)
            killed = True
        time.sleep(0.5)
    reader.join()
    return Ran(process.returncode, b"".join(parts), time.monotonic() - begin, max(peaks), killed)


def main() -> int:
    parser = argparse.ArgumentParser(description="soak a lake of recordings")
    parser.add_argument("--small", type=int, default=2_000)
    parser.add_argument("--larges", type=int, default=1)
    parser.add_argument("--large-mb", type=int, default=64)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--bar-mb", type=int, default=250)
    parser.add_argument("--folder")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="lore-lake-") as temporary:
        folder = Path(given.folder or temporary)
        size = write(folder, given.small, given.larges, given.large_mb)
        print(f"{given.small + given.larges:,} recordings, {size / 1e9:.2f} GB", flush=True)
        with tempfile.TemporaryDirectory(prefix="lore-state-") as state:
            return compare(folder, given, state)


def compare(folder: Path, given: argparse.Namespace, state: str) -> int:
    """Run it all; return the exit code."""
    workers = str(given.workers)
    once = run(folder, "--jobs", "1")
    runs = {
        "one process": once,
        f"{workers} workers, one killed": run(
            folder, "--cluster", "local", "--jobs", workers, kill_after=once.seconds / 3 + 8
        ),
        f"{workers} processes, an empty state": run(folder, "--jobs", workers, "--state", state),
        "with that state": run(folder, "--jobs", workers, "--state", state),
    }
    failed = False
    for name, ran in runs.items():
        same = (ran.code, ran.out) == (once.code, once.out)
        flat = ran.peak_mb <= given.bar_mb
        failed = failed or not same or not flat
        notes = "".join((" killed" if ran.killed else "", "" if same else " DIFFERS", "" if flat else " TOO LARGE"))
        print(f"{name:32} {ran.seconds:8.1f} s {ran.peak_mb:6.0f} MB exit {ran.code}{notes}", flush=True)
    print(json.loads(once.out)["summary"])
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
