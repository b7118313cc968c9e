"""Measure lore's bars as ratios of one run, and print them as a table.

    python tests/bench/run.py [--quick] [--only NAME]…

Names: small, known, unknown, parse, instructions, logs, memory, gigabyte, peers, request, captures, pair, simulate,
reads, drops, truth, agents.
Exit code 1 if a bar is missed. Linear work, and saves that cost the same in long sessions, are tested instead.
`--quick` runs everything at toy sizes to see that it works; its figures are not judged.
"""

import argparse
import os
import sys
import sysconfig
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from bench import agents, asking, captures, clock, many, memory, recordings, verdicts, waiting

SMALL_FILE = Path(__file__).resolve().parents[2] / "fixtures" / "causes" / "LORE131" / "negative.jsonl"


class Sizes(NamedTuple):
    """How much is measured: turns, sessions, bytes of a file, repetitions."""

    turns: int = 10_000
    many: int = 1_400
    file: int = 10**9
    bodies: int = 10**9
    judged: int = 5
    compared: int = 7
    started: int = 15


QUICK = Sizes(turns=40, many=10, file=10**6, bodies=2 * 10**6, judged=1, compared=1, started=1)


class Row(NamedTuple):
    """One line of the table. Unjudged figures have no `met`."""

    measure: str
    bar: str
    measured: str
    met: bool | None

    def __str__(self) -> str:
        met = {True: "met", False: "**missed**", None: "not judged"}[self.met]
        return f"| {self.measure} | {self.bar} | {self.measured} | {met} |"


HEADER = "| measure | bar | measured | met |\n|---|---|---|---|"


def peak_memory(folder: Path, sizes: Sizes) -> Row:
    """The memory for a big file of big bodies, continued or unrelated."""
    measure = f"peak memory of `lore check` on {sizes.bodies:,} bytes of request bodies of {memory.BODY:,} each"
    bar = "at most 100 MB"
    if not memory.measurable():
        return Row(measure, bar, "this system does not say", met=None)
    grown, apart = memory.both(folder, sizes.bodies, lore())
    said = f"{grown / 1e6:.0f} MB for conversations of {memory.TURNS} turns, {apart / 1e6:.0f} MB for single requests"
    return Row(measure, bar, said, max(grown, apart) <= 100e6)


def request(_: Path, sizes: Sizes) -> Row:
    """The next request of a long session against that of a short one."""
    many, few = (2_000, 100) if sizes.turns > QUICK.turns else (40, 20)
    found = asking.requests(many, few, sizes.judged)
    measure = f"`user`, `request` and `assistant` at turn {many:,} against turn {few:,}"
    return Row(measure, "at most 3 times", str(found), found.median <= 3)


def simulate(_: Path, sizes: Sizes) -> Row:
    """Simulating Claude Code sessions against checking them, whole processes in CPU time."""
    measure = "`lore simulate` of the Claude Code sessions of the corpus against `lore check --jobs 1`"
    bar = "at most 1.15 times"
    names = recordings.sessions(sizes.file)
    if not names:
        return Row(measure, bar, recordings.ABSENT, met=None)
    found = clock.alternate(
        lambda: clock.process(*lore(), "simulate", "--json", *names),
        lambda: clock.process(*lore(), "check", "--json", "--jobs", "1", *names, codes=(0, 1)), sizes.judged,
        waiting.children,
    )  # fmt: skip
    said = f"{found}; {found.left_seconds:.2f} s against {found.right_seconds:.2f} s"
    return Row(measure, bar, said, found.median <= 1.15)


def true(rows: str) -> Callable[[Path, Sizes], list[Row]]:
    """Measure how true predictions and verdicts are on real recordings."""
    return lambda _, __: [Row(*fields) for fields in verdicts.ROWS[rows]()]


def lore() -> tuple[str, ...]:
    """Return the command of this environment, else the module."""
    script = Path(sysconfig.get_path("scripts")) / ("lore.exe" if os.name == "nt" else "lore")
    return (str(script),) if script.exists() else (sys.executable, "-m", "lore")


MEASURES: dict[str, Callable[[Path, Sizes], Row | list[Row]]] = {
    "small": lambda _, sizes: Row(*waiting.one_small_file(lore(), SMALL_FILE, sizes.started)),
    "known": lambda folder, sizes: [
        Row(*fields) for fields in waiting.known(folder, lore(), sizes.many, sizes.started)
    ],
    "unknown": lambda folder, sizes: Row(*waiting.unknown(folder, lore(), sizes.file, sizes.judged)),
    "parse": lambda _, sizes: Row(*recordings.parse(sizes.judged, most=sizes.file)),
    "instructions": lambda _, sizes: Row(*recordings.instructions(sizes.file)),
    "logs": lambda _, sizes: [Row(*fields) for fields in recordings.logs(sizes.judged)],
    "memory": peak_memory,
    "gigabyte": lambda folder, sizes: [Row(*fields) for fields in many.gigabyte(folder, lore(), sizes.file)],
    "peers": lambda folder, sizes: [
        Row(*fields) for fields in many.peers(folder, lore(), sizes.file // 5, sizes.judged)
    ],
    "request": request,
    "captures": lambda folder, sizes: [
        Row(*fields) for fields in captures.against_parsing(folder, sizes.file // 2, sizes.judged)
    ],
    "pair": lambda folder, sizes: Row(
        *captures.explained(folder, lore(), min(captures.PAIR_BYTES, sizes.bodies // 100), sizes.started)
    ),
    "simulate": simulate,
    "reads": true("reads"),
    "drops": true("drops"),
    "truth": true("truth"),
    "agents": lambda _, __: [Row(*fields) for fields in (*agents.reads(), *agents.unseen())],
}


def main(arguments: list[str] | None = None) -> int:
    """Measure, print, and say by the exit code whether all bars were met."""
    parser = argparse.ArgumentParser(description="Measure lore's bars as ratios of one run.")
    parser.add_argument("--quick", action="store_true", help="toy sizes, nothing judged")
    parser.add_argument("--only", action="append", choices=list(MEASURES), help="measure this one (repeatable)")
    given = parser.parse_args(arguments)
    print(HEADER, flush=True)
    missed = False
    with tempfile.TemporaryDirectory(prefix="lore-bench-") as name:
        for measure in given.only or MEASURES:
            measured = MEASURES[measure](Path(name), QUICK if given.quick else Sizes())
            for row in [measured] if isinstance(measured, Row) else measured:
                missed = missed or (row.met is False and not given.quick)
                print(row._replace(met=None) if given.quick else row, flush=True)
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
