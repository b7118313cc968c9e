"""A recording's verdicts, one a turn: the loop that every command which speaks of turns runs.

In: an opened recording, who predicts (None: transcripts' levels alone). Out: verdicts in the order of the turns, and
the findings of chains as they end. Cost: O(bytes of the recording).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from typing import NamedTuple

from lore.cache.base import Simulate
from lore.cache.levels import Predicted
from lore.cache.rules import Rules
from lore.judge.base import Place
from lore.judge.judge import Judge
from lore.judge.verdict import Verdict
from lore.model.codes import Reader
from lore.model.results import Finding
from lore.model.turn import Turn
from lore.recording.base import Recording


class Dated(NamedTuple):
    """Which dated rules verdicts are made by; small enough to travel. `path`: a user's file; empty: the packaged ones.

    `tolerance` is the share of a prompt by which a billed read may fall short of its prediction.
    """

    path: str = ""
    tolerance: float = Simulate().tolerance

    def known(self) -> None:
        """Raise LoreError for a user's file that cannot be read; where there is none, nothing is read."""
        if self.path:
            dated(self.path)

    def judge(self, *, quick: bool = False) -> Judge:
        """Make a judge of one recording; rules are read when they are first asked for."""
        return Judge(lambda: dated(self.path), tolerance=self.tolerance, quick=quick)


PACKAGED = Dated()


@cache
def dated(path: str) -> Rules:
    """Return the rules in force, read once a process."""
    from lore.run.rules import load  # noqa: PLC0415 - what most recordings never need is loaded when it is asked

    return load(path or None)


class Step(NamedTuple):
    """The next verdict (None: there are no more turns), and what was found in chains that ended before it."""

    verdict: Verdict | None
    ended: list[Finding]


def verdicts(
    recording: Recording, judge: Judge, place: Place, predict: Callable[[Turn], Predicted] | None = None
) -> Iterator[Step]:
    """Judge a recording; the last step has no verdict, and what was found in the chains that were left."""
    for turn in recording.turns():
        ended = [] if recording.events else judge.forget(recording.forgotten(), place)
        yield Step(judge.turn(turn, None if predict is None else predict(turn)), ended)
    yield Step(None, judge.finish(place))


def reader_of(recording: Recording, chosen: Reader | None) -> Reader:
    """Return whom findings speak to: the user of an agent whose transcript it is, else the author."""
    return chosen or ("user" if recording.events and recording.reader.name != "lore" else "author")
