"""Hundreds of megabytes of sessions: first output, memory, wall time, and another program that counts usage.

The sessions of Claude Code in the corpus are copied into a home folder, with other ids. Figures are (measure, bar,
measured, met), the fields of a row.
"""

import os
import pty
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from bench import clock, memory
from bench.recordings import ABSENT, RATIO, Fields, sessions
from bench.waiting import OTHER_FOLDERS, PARSE, children

FIRST_SECONDS, MOST_BYTES = 1.0, 100e6
PEER = ("ccusage", "daily", "--json", "--offline")


def copies(home: Path, size: int) -> list[Path]:
    """Copy sessions of the corpus below `home` until they have `size` bytes; none without a corpus."""
    paths, written, number = list[Path](), 0, 0
    while written < size and (found := sessions()):
        number += 1
        for path in found:
            copy = home / f".claude/projects/-{path.stem}/{number}.jsonl"
            copy.parent.mkdir(parents=True, exist_ok=True)
            data = path.read_bytes().replace(b'"msg_0', b'"msg_%d' % number)  # else they are copies of requests
            copy.write_bytes(data)
            paths.append(copy)
            written += len(data)
            if written >= size:
                break
    return paths


def environment_of(home: Path) -> dict[str, str]:
    """Return the environment of a user with this home."""
    environment = {name: value for name, value in os.environ.items() if name not in OTHER_FOLDERS}
    return environment | {"HOME": str(home), "XDG_CACHE_HOME": str(home / ".cache")}


def first_output(command: tuple[str, ...], home: Path) -> float:
    """Return the seconds until a command writes to its terminal; then end it."""
    controller, terminal = pty.openpty()
    started = time.perf_counter()
    process = subprocess.Popen(command, env=environment_of(home), stdout=terminal, stderr=terminal, stdin=terminal)
    try:
        os.read(controller, 1)
        return time.perf_counter() - started
    finally:
        process.kill()
        process.wait()
        os.close(controller)
        os.close(terminal)


def gigabyte(folder: Path, lore: tuple[str, ...], size: int) -> Iterator[Fields]:
    """First output and peak memory of each process for `size` bytes, and the wall time of a check in two processes."""
    home = folder / "gigabyte"
    paths = copies(home, size)
    what = f"{sum(path.stat().st_size for path in paths) / 1e6:,.0f} MB of sessions"
    logs = str(home / ".claude")
    commands = {
        "`lore` without a cache": (*lore, "--since", "3650d", "--no-cache"),
        "`lore check` in two processes": (*lore, "check", "--json", "--jobs", "2", logs),
        "`lore`, first run": (*lore, "--since", "3650d"), "`lore`, all known": (*lore, "--since", "3650d"),
    }  # fmt: skip
    for name in list(commands)[:2]:
        measure, bar = f"first output of {name}, {what}", f"at most {FIRST_SECONDS:.0f} s of wall time"
        if not paths:
            yield measure, bar, ABSENT, None
            return
        words = tuple(word for word in commands[name] if word != "--json")
        waits = sorted(first_output(words, home) for _ in range(3))
        yield measure, bar, f"{waits[1]:.2f} s ({waits[0]:.2f} to {waits[2]:.2f})", waits[1] <= FIRST_SECONDS
    for name, command in commands.items():
        peak = memory.of_command(command, environment_of(home), codes=("0", "1"))
        said = f"{peak / 1e6:.0f} MB"
        yield f"peak memory of each process: {name}, {what}", "at most 100 MB", said, peak <= MOST_BYTES
    check, parse = commands["`lore check` in two processes"], (sys.executable, "-c", PARSE, *map(str, paths))
    ratio = clock.alternate(
        lambda: clock.process(*check, codes=(0, 1)), lambda: clock.process(*parse), 3, clock.WALL
    )  # fmt: skip
    said = f"{ratio}; {ratio.left_seconds:.1f} s against {ratio.right_seconds:.1f} s"
    yield (
        f"`lore check` in two processes against `orjson.loads`, {what}",
        f"at most {RATIO}",
        said,
        ratio.median <= RATIO,
    )
    shutil.rmtree(home)


def peers(folder: Path, lore: tuple[str, ...], size: int, runs: int) -> Iterator[Fields]:
    """Bare `lore` and ccusage over the same sessions, in CPU time; ccusage is run by npx if it is installed."""
    home = folder / "peers"
    paths = copies(home, size)
    measure = f"over {sum(path.stat().st_size for path in paths) / 1e6:,.0f} MB of sessions"
    npx, bar = shutil.which("npx"), "not judged"
    peer = (npx or "npx", "--no-install", *PEER)
    run = partial(subprocess.run, env=environment_of(home), capture_output=True, check=True)
    if not paths or npx is None or subprocess.run(peer, env=environment_of(home), capture_output=True).returncode:
        yield f"`lore` against ccusage {measure}", bar, ABSENT if not paths else "ccusage is not installed", None
        return
    everything = (*lore, "--json", "--since", "3650d")
    for name, command in {"without a cache": (*everything, "--no-cache"), "all known": everything}.items():
        run(command)
        ratio = clock.alternate(lambda: run(command), lambda: run(peer), runs, children)  # noqa: B023 - called here
        said = f"{ratio}; {ratio.left_seconds:.2f} s against {ratio.right_seconds:.2f} s of CPU"
        yield f"`lore`, {name}, against ccusage {measure}", bar, said, None
    shutil.rmtree(home)
