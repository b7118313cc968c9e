"""What predicting real Claude Code sessions costs, against judging them.

Figures come as (measure, bar, measured, met), the fields of a row; without real recordings (LORE_CORPUS) they say so.
How true predictions are is measured in `verdicts.py`.
"""

from __future__ import annotations

from pathlib import Path

from bench import clock
from bench.recordings import ABSENT, Fields, sessions
from lore.cache.predictor import Predictor
from lore.recording.opening import Options
from lore.run.checking.check import check
from lore.run.rules import packaged
from lore.run.simulation import Simulation


def predicted(paths: list[Path]) -> None:
    """Predict every turn of each file."""
    simulation = Simulation(Predictor(packaged()))
    for path in paths:
        for _ in simulation.recording(Options().open(str(path))):
            pass


def simulate(pairs: int, most: int | None, lore: tuple[str, ...]) -> Fields:
    """Simulating sessions against judging them: whole processes, and what of that is lore's own work, in CPU time."""
    measure = "`lore simulate` of the corpus' Claude Code sessions against `lore check --jobs 1`, whole processes"
    bar = "at most 1.2 times"
    paths = sessions(most)
    if not paths:
        return measure, bar, ABSENT, None
    names = [str(path) for path in paths]
    found = clock.alternate(
        lambda: clock.process(*lore, "simulate", "--json", *names),
        lambda: clock.process(*lore, "check", "--json", "--jobs", "1", *names, codes=(0, 1)), pairs, clock.WALL,
    )  # fmt: skip
    own = clock.alternate(lambda: predicted(paths), lambda: check(names), pairs, clock.CPU)
    said = f"{found}; {found.left_seconds:.2f} s against {found.right_seconds:.2f} s; in process {own.median:.2f}"
    return measure, bar, said, found.median <= 1.2
