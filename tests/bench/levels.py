"""How far the level model agrees with the bills of real Claude Code sessions, beside the naive rule; and its cost.

    python tests/bench/levels.py

Prints a row a file, the sum, and what is left where each file is left out. Figures for the table of bars come as
(measure, bar, measured, met), the fields of a row; without real recordings (LORE_CORPUS) they say so.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from bench import clock
from bench.recordings import ABSENT, CORPUS, Fields, sessions
from lore.cache.predictor import Predictor
from lore.judge.agreement import Agreement, agreement
from lore.judge.policy import Budgets
from lore.recording.opening import Options
from lore.run.check import check
from lore.run.rules import packaged
from lore.run.simulate import Simulation


def judged(paths: list[Path]) -> dict[str, Agreement]:
    """Compare each file; a response that several hold counts in the first."""
    simulation, found = Simulation(Predictor(packaged())), dict[str, Agreement]()
    for path in paths:
        every = simulation.recording(Options().open(str(path)))
        found[path.name] = agreement(one.row for one in every if one.row is not None)
    return found


def together(found: list[Agreement]) -> Agreement:
    """Add up."""
    whole = Agreement()
    for one in found:
        whole = whole.plus(one)
    return whole


def agrees(most: int | None) -> Fields:
    """Hold the floors over all files."""
    paths = sessions(most)
    one = together(list(judged(paths).values()))
    measure = f"reads predicted in {one.turns:,} transitions of the corpus' Claude Code sessions"
    bar = "97.5 % within 2 %, error at most 0.6 of the naive rule's, 45 % of drops foreseen, under 5 % false alarms"
    if not one.naive_error or not one.drops:
        return measure, bar, ABSENT if not paths else "too few turns", None
    error, false = one.error / one.naive_error, one.false_drops / max(1, one.foreseen)
    within, seen = one.within / one.turns, one.foreseen / one.drops
    said = (
        f"{within:.1%} within 2 % and {one.exact / one.turns:.1%} exact (naive rule {one.naive_within / one.turns:.1%} "
        f"and {one.naive_exact / one.turns:.1%}); mean error {one.mean_error:,.0f} tokens, {error:.2f} of "
        f"{one.naive_mean_error:,.0f}; {one.foreseen} of {one.drops} drops foreseen, {one.false_drops} false"
    )
    return measure, bar, said, within >= 0.975 and error <= 0.6 and seen >= 0.45 and false < 0.05


def captures() -> list[Path]:
    """Return the corpus' captures of requests."""
    return [
        path for name in ("capture", "vcr") if (CORPUS / name).is_dir() for path in sorted((CORPUS / name).iterdir())
    ]


def clean(paths: list[Path]) -> tuple[int, int]:
    """Count clean extensions (Anthropic's cache, billed before, nothing lost), and those that are read to the token."""
    found = exact = 0
    for path in paths:
        simulation = Simulation(Predictor(packaged()))
        for one in simulation.recording(Options().open(str(path))):
            if one.result.cache == "anthropic" and not one.result.causes and one.row is not None and one.row.naive:
                found += 1
                exact += one.row.predicted == one.row.billed
    return found, exact


def extends() -> Fields:
    """Hold the floor of wire captures."""
    paths = captures()
    found, exact = clean(paths)
    measure, bar = "reads predicted in clean extensions of the corpus' Anthropic wire captures", "95 % exact"
    if not found:
        return measure, bar, ABSENT, None
    return measure, bar, f"{exact} of {found}, {exact / found:.1%}", exact / found >= 0.95


def simulate(pairs: int, most: int | None, lore: tuple[str, ...]) -> Fields:
    """Simulating sessions against judging them: whole processes, and what of that is lore's own work, in CPU time."""
    measure = "`lore simulate` of the corpus' Claude Code sessions against `lore check --jobs 1`, whole processes"
    bar = "at most 1.3 times"
    paths = sessions(most)
    if not paths:
        return measure, bar, ABSENT, None
    names = [str(path) for path in paths]
    found = clock.alternate(
        lambda: clock.process(*lore, "simulate", "--json", *names),
        lambda: clock.process(*lore, "check", "--json", "--jobs", "1", *names, codes=(0, 1)), pairs, clock.WALL,
    )  # fmt: skip
    own = clock.alternate(lambda: judged(paths), lambda: check(names, Budgets(), Options()), pairs, clock.CPU)
    said = f"{found}; {found.left_seconds:.2f} s against {found.right_seconds:.2f} s; in process {own.median:.2f}"
    return measure, bar, said, found.median <= 1.3


def _shown(name: str, one: Agreement) -> str:
    ratio = f"{one.error / one.naive_error:6.2f}" if one.naive_error else "     -"
    share = f"{one.within / one.turns:7.1%}" if one.turns else "      -"
    return (
        f"{name[:44]:44} {one.turns:6} {one.exact:6} {share} {ratio} {one.drops:5} {one.foreseen:5} {one.false_drops:5}"
    )


def main() -> None:
    """Print the tables."""
    found = judged(sessions())
    print(f"{'':44}  turns  exact  within  error drops  seen false")
    for name, one in found.items():
        print(_shown(name, one))
    print(_shown("all", together(list(found.values()))))
    for name in found:
        print(_shown(f"without {name}", together([one for other, one in found.items() if other != name])))
    for row in (agrees(None), extends(), simulate(7, None, (sys.executable, "-m", "lore"))):
        print(*row, sep=" | ")


if __name__ == "__main__":
    main()
