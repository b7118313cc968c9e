"""Soak lore: generated sessions of growing size through every command.

    python tests/soak/run.py [--minutes N] [--seed N]

What a round is: `rounds` (linear calls, bounded memory, cold equals live). Exit code 1 where anything fails.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from bench import generate
from soak import busy, rounds

FIRST, LARGEST = 100, 6_400  # turns of the first round's sessions, and of the largest


class Round(NamedTuple):
    """One round's sizes and counts."""

    turns: int
    plain: rounds.Work
    busy: rounds.Work


def one(folder: Path, turns: int, seed: int) -> Round:
    """Run one round; raises AssertionError where something does not hold."""
    path = folder / "session.jsonl"

    def counted(lines: Callable[[int], object], size: int) -> rounds.Work:
        rounds.write(path, lines(size))  # type: ignore[arg-type]
        return rounds.work(lambda: rounds.judge(path))

    small, large = (counted(lambda n: generate.lines(n, seed), size) for size in (turns, 2 * turns))
    rounds.is_linear(small, large)
    short, long = (counted(lambda n: busy.lines(n, seed=seed), size) for size in (turns, 4 * turns))
    rounds.is_bounded(short, long, 4)
    rounds.leaks_nothing(path)
    rounds.holds(path, 4 * turns)
    rounds.cold_equals_live(path, 7)
    return Round(turns, large, long)


def soak(seconds: float, seed: int) -> None:
    """Run rounds of growing size, again and again, until the time is up."""
    end, turns, number = time.monotonic() + seconds, FIRST, 0
    with tempfile.TemporaryDirectory(prefix="lore-soak-") as name:
        while number == 0 or time.monotonic() < end:
            made = one(Path(name), turns, seed + number)
            number += 1
            print(f"round {number}: {_said(2 * turns, made.plain)}; busy: {_said(4 * turns, made.busy)}", flush=True)
            turns = FIRST if turns >= LARGEST else 2 * turns
        print(f"{number} rounds held; at most {resident() / 1e6:,.0f} MB resident")


def _said(turns: int, work: rounds.Work) -> str:
    return f"{turns:,} turns, {work.calls:,} calls, peak {work.peak / 1e6:,.1f} MB"


def resident() -> float:
    """Return the largest resident size of this process so far, in bytes; 0 where it cannot be known."""
    try:
        import resource  # noqa: PLC0415 - not on every system
    except ImportError:
        return 0.0
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return most if sys.platform == "darwin" else most * 1024


def main(arguments: list[str] | None = None) -> int:
    """Soak for a while."""
    parser = argparse.ArgumentParser(description="Soak lore.")
    parser.add_argument("--minutes", type=float, default=5)
    parser.add_argument("--seed", type=int, default=None, help="repeat a run; default: another one every time")
    given = parser.parse_args(arguments)
    seed = int(time.time()) if given.seed is None else given.seed
    print(f"seed {seed}, {given.minutes:g} minutes", flush=True)
    try:
        soak(given.minutes * 60, seed)
    except AssertionError as error:
        print(f"failed: {error}")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
