"""Shared by tests of readers on real recordings: the files, and the counts of the commands.

The recordings are in a folder next to the project (`conftest.CORPUS`); without them the tests are skipped.
"""

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple, cast

import pytest

import conftest
from conftest import ABSENT, CORPUS
from helpers.states import step
from lore.cache.counts import total
from lore.cache.predictor import Predictor
from lore.commands.fold import fold
from lore.formats.base import Read, Reader
from lore.model.codes import Problem
from lore.model.events import Append, CompactApplied, Event, TurnCanceled, TurnCompleted, TurnFailed, TurnStarted
from lore.model.items import ToolCall
from lore.model.results import Summary
from lore.model.results.store import SessionUsage
from lore.model.state import FoldedSession
from lore.recording.opening import Options
from lore.run.checking.check import check
from lore.run.rules import packaged
from lore.testing import everything


def recordings(pattern: str) -> list[Path]:
    """The files of a pattern, in order."""
    return sorted(CORPUS.glob(pattern))


def records(path: Path) -> list[dict[str, Any]]:
    """Every line of a file, decoded."""
    return [json.loads(line) for line in path.read_bytes().split(b"\n") if line]


def absent(files: Sequence[Path]) -> pytest.MarkDecorator:
    """Skip a test if there are no such files."""
    return pytest.mark.skipif(not files, reason=ABSENT)


def of_each(files: Sequence[Path]) -> pytest.MarkDecorator:
    """Run a test for each file, as `path`; the larger two thirds are `soak`."""
    return pytest.mark.parametrize("path", conftest.recordings(files))


def judged(path: Path) -> Summary:
    """What `lore check` sums of a file."""
    return check([str(path)]).result.summary


def used(path: Path) -> SessionUsage:
    """What `lore fold` sums of a file."""
    return fold(str(path), Options()).result.usage


def folded(session: FoldedSession, reads: Iterable[Read]) -> FoldedSession:
    """The session after these reads; problems stay out."""
    for item in reads:
        if not isinstance(item.value, Problem):
            session = step(session, cast("Event", item.value)).state
    return session


def figures(reader: type[Reader], path: Path, fields: Sequence[str], *codes: str) -> dict[str, Any]:
    """What a reader counts in a file: its problems have no codes but these."""
    values = [read.value for read in everything(reader(), path.read_bytes())]
    assert {value.code for value in values if isinstance(value, Problem)} <= set(codes)
    ends = [value.usage for value in values if isinstance(value, TurnCompleted | TurnFailed | TurnCanceled)]
    bills = [bill for usage in ends if usage is not None for bill in usage.passes]
    items = [value.item for value in values if isinstance(value, Append)]
    return {
        "requests": sum(isinstance(value, TurnStarted) for value in values),
        "billed": sum(usage is not None for usage in ends),
        "unknown": sum(getattr(bill, name) is None for bill in bills for name in fields),
        "usage": [sum(getattr(bill, name) or 0 for bill in bills) for name in fields],
        "calls": [item.call_id for item in items if isinstance(item, ToolCall)],
        "compactions": sum(isinstance(value, CompactApplied) for value in values),
    }


class Near(NamedTuple):
    """How many reads were within 2 % of the prompt of their prediction, or of the whole previous turn."""

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
            read, whole, predicted = turn.usage.read_tokens, total(turn.usage), predictor.predict(turn).prediction.read
            assert read is not None
            assert whole is not None
            if before is not None and predicted is not None:
                reads = (abs(predicted - read), abs(min(before, whole) - read))
                first, second = (off <= 0.02 * whole for off in reads)
                near = Near(near.turns + 1, near.predicted + first, near.previous + second)
            before = whole
    return near
