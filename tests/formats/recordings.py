"""What the tests of readers on real recordings share: the files, what the commands count, reads in parts.

The recordings lie beside the project (`conftest.CORPUS`); where there are none the tests skip.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple, cast

import msgspec
import pytest

import conftest
from conftest import ABSENT, CORPUS
from helpers.states import dump_state
from lore.cache.bills import total
from lore.cache.predictor import Predictor
from lore.fold.step import step
from lore.formats.base import Read, Reader
from lore.judge.policy import Budgets
from lore.model.codes import Problem
from lore.model.events import Event
from lore.model.results import Summary
from lore.model.results.store import UsageResult
from lore.model.state import FoldedSession
from lore.recording.opening import Options
from lore.run.checking.check import check
from lore.run.folding import fold
from lore.run.rules import packaged
from lore.testing import everything

CUTS = 40


def recordings(pattern: str) -> list[Path]:
    """The files of a pattern, in order."""
    return sorted(CORPUS.glob(pattern))


def absent(files: Sequence[Path]) -> pytest.MarkDecorator:
    """Skip a test where there are no such files."""
    return pytest.mark.skipif(not files, reason=ABSENT)


def of_each(files: Sequence[Path]) -> pytest.MarkDecorator:
    """Run a test for each file, as `path`; the larger half is `soak`."""
    return pytest.mark.parametrize("path", conftest.recordings(files))


def judged(path: Path) -> Summary:
    """What `lore check` sums of a file."""
    return check([str(path)], Budgets(), Options()).result.summary


def used(path: Path) -> UsageResult:
    """What `lore fold` sums of a file."""
    return fold(str(path), Options()).result.usage


def folded(session: FoldedSession, reads: Iterable[Read]) -> FoldedSession:
    """The session after these reads; problems stay out."""
    for found in reads:
        if not isinstance(found.value, Problem):
            session = step(session, cast("Event", found.value)).state
    return session


def shown(reads: Iterable[Read]) -> list[tuple[str, bytes, int, int]]:
    """Reads as what can be compared."""
    return [(type(found.value).__name__, msgspec.json.encode(found.value), found.line, found.byte) for found in reads]


class Near(NamedTuple):
    """How many reads were within 2 % of the prompt of what was said: predicted, or the whole of the turn before."""

    turns: int
    predicted: int
    previous: int


def predicted_near(files: Iterable[Path]) -> Near:
    """Predict the read of each turn that has one before it, and count; every turn is billed."""
    near = Near(0, 0, 0)
    for path in files:
        predictor, before = Predictor(packaged()), None
        for turn in Options().open(str(path)).turns():
            assert turn.usage is not None
            read, whole, predicted = turn.usage.read_tokens, total(turn.usage), predictor.turn(turn).prediction.read
            assert read is not None
            assert whole is not None
            if before is not None and predicted is not None:
                reads = (abs(predicted - read), abs(min(before, whole) - read))
                first, second = (off <= 0.02 * whole for off in reads)
                near = Near(near.turns + 1, near.predicted + first, near.previous + second)
            before = whole
    return near


def standing(path: Path, sign: bytes) -> list[int]:
    """Some of the places where a sign stands in a file, that of a compaction say."""
    data = path.read_bytes()
    found = (data.find(sign, at) for at in range(0, len(data), len(data) // 8 + 1))
    return [place for place in found if place >= 0]


def assert_parts_are_the_whole(reader: type[Reader], path: Path, places: Iterable[int] = ()) -> None:
    """Read and fold a file in parts, cut at places drawn by its name and at these, and compare with the whole."""
    data = path.read_bytes()
    whole = everything(reader(), data)
    chance = random.Random(path.name)
    reads: list[Read] = []
    reading, session, at = reader(), FoldedSession(), 0
    for place in sorted([*(chance.randint(0, len(data)) for _ in range(CUTS)), *places]):
        found = [*reading.feed(data[at:place])]
        session = folded(session, found)
        reads.extend(found)
        at = place
    last = everything(reading, data[at:])
    assert shown([*reads, *last]) == shown(whole)
    assert dump_state(folded(session, last)) == dump_state(folded(FoldedSession(), whole))
