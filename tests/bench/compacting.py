"""A dry run of `lore compact` over the largest real sessions against `lore fold` of them, and what memory it takes;
what memory it takes to learn from a long session.

Figures come as (measure, bar, measured, met), the fields of a row; without real recordings (LORE_CORPUS) they say so.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from bench import clock, generate
from bench.memory import PEAK, measurable
from bench.recordings import ABSENT, Fields, sessions

MOST = 20  # sessions
POLICY = """continuous_interval = 5
keep_recent = 6
gap_secs = 1800
window = 200000
when = "cheapest"
summarizer = "extractive"
"""


def dry_run(folder: Path, lore: tuple[str, ...], most: int | None, pairs: int) -> Fields:
    """Measure whole processes, one a session, in wall time."""
    measure = f"`lore compact --dry-run` over the {MOST} largest sessions of the corpus against `lore fold` of them"
    bar = "at most 2 times, at most 200 MB"
    paths = sessions(most)[-MOST:]
    if not paths:
        return measure, bar, ABSENT, None
    policy = folder / "policy.toml"
    policy.write_text(POLICY)
    tried = [(*lore, "compact", path, "--dry-run", "--policy", policy) for path in paths]
    folded = [(*lore, "fold", path) for path in paths]
    found = clock.alternate(lambda: _each(tried), lambda: _each(folded), min(pairs, 2), clock.WALL)
    most_taken = max(map(_peak, tried[-3:])) if measurable() else 0
    times = f"{found.left_seconds:.2f} s against {found.right_seconds:.2f} s"
    said = f"{found}, {len(paths)} sessions; {times}; {most_taken / 1e6:.0f} MB"
    return measure, bar, said, found.median <= 2 and most_taken <= 200e6


def learnt(folder: Path, lore: tuple[str, ...], turns: int) -> Fields:
    """Measure the memory that `lore memory extract` takes for a long generated session in sqlite."""
    measure = f"peak memory of `lore memory extract` of a session of {turns:,} turns in sqlite"
    bar = "at most 200 MB"
    if not measurable():
        return measure, bar, "this system does not say", None
    log, config, store = folder / "long.jsonl", folder / "lore.toml", f"sqlite:{folder / 'long.db'}"
    size = generate.write(log, turns)
    config.write_text('[memory]\nsystem = "structured"\n')
    clock.process(*lore, "store", "import", log, "--store", store)
    with log.open("rb") as file:
        session = json.loads(file.readline())["session_id"]
    most = _peak((*lore, "memory", "extract", session, "--store", store, "--config", config))
    return measure, bar, f"{most / 1e6:.0f} MB, for a log of {size / 1e6:,.0f} MB", most <= 200e6


def _each(commands: list[tuple[str | Path, ...]]) -> None:
    for one in commands:
        clock.process(*one)


def _peak(command: tuple[str | Path, ...]) -> int:
    """Return the peak resident memory of a command, in bytes."""
    run = [sys.executable, "-c", PEAK, *map(str, command)]
    code, most = subprocess.run(run, capture_output=True, check=True, text=True).stdout.split()
    if code != "0":
        raise RuntimeError(f"{' '.join(map(str, command))} ended with {code}")
    return int(most) * (1 if sys.platform == "darwin" else 1024)
