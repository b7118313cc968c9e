"""One round: a session of some size through every command, with its work and its memory counted.

Calls are counted by the profiler, so the figures are the same on every machine; memory is what Python
allocated (tracemalloc). Raises AssertionError where a law does not hold.
"""

from __future__ import annotations

import cProfile
import gc
import json
import pstats
import sys
import tracemalloc
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import NamedTuple

from helpers.states import dump_state
from lore.fold.step import step
from lore.formats.lore_log import LoreLog
from lore.judge.policy import Budgets
from lore.model.codes import Problem
from lore.model.results import Checked
from lore.model.state import FoldedSession
from lore.prompt.assemble import Assembler
from lore.prompt.dialects import DIALECTS
from lore.recording.corpus import parse_name
from lore.recording.opening import Options
from lore.run.assembling import assemble
from lore.run.checking.check import check
from lore.run.diff import TurnComparison, diff_files, diff_session

LINEAR = 2.15  # twice the turns may cost this many times the calls
MEMORY = 2.3  # and this many times the memory
LEAK = 500  # blocks: what caches and the interpreter itself may keep
SLACK = 1 << 20  # bytes that a small session may take whatever its size


class Work(NamedTuple):
    """What judging one session took: Python calls, and bytes allocated at the most."""

    calls: int
    peak: int


def write(path: Path, lines: Iterable[bytes]) -> int:
    """Write a log; return its size."""
    with path.open("wb") as file:
        file.writelines(lines)
    return path.stat().st_size


def judge(path: Path) -> Checked:
    """Judge one log."""
    return check([str(path)], Budgets(), Options()).result


def work(run: Callable[[], object]) -> Work:
    """Count what a call takes; runs it twice."""
    profile = cProfile.Profile()
    profile.runcall(run)
    calls = pstats.Stats(profile).total_calls  # type: ignore[attr-defined]
    gc.collect()
    tracemalloc.start()
    try:
        run()
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    return Work(calls, peak)


def holds(path: Path, turns: int) -> None:
    """Hold every command against one busy session."""
    result = judge(path)
    sums = result.summary
    assert not result.problems, result.problems[0]
    assert sums.turns >= turns
    assert sums.breaks == sums.expected, f"{sums.waste} waste, {sums.unattributable} unattributable in {path.name}"
    pairs = list(diff_session(str(path), TurnComparison(Options())))
    assert len(pairs) == sums.pairs
    assert all(one.relation != "extension" or one.divergence is None for one in pairs)
    one, other = f"{path}#{turns - 1}", f"{path}#{turns}"
    assert diff_files(one, other, TurnComparison(Options())).prompt is not None
    for dialect in DIALECTS:
        made = assemble(parse_name(str(path)), Options(dialect=dialect)).body
        body = json.loads(made)
        assert next(body[key] for key in ("messages", "input", "contents") if key in body)


def cold_equals_live(path: Path, cuts: int) -> None:
    """Read and fold in pieces; then assemble."""
    data = path.read_bytes()
    live = _fold(FoldedSession(), LoreLog(), [data], last=True)[0]
    state, reader = FoldedSession(), LoreLog()
    size = len(data) // cuts + 1
    for start in range(0, len(data), size):
        state, reader = _fold(state, reader, [data[start : start + size]], last=start + size >= len(data))
    assert dump_state(state) == dump_state(live)
    for dialect in DIALECTS.values():
        mine, theirs = (Assembler(dialect).assemble(one, one.main()).prompt for one in (state, live))
        assert dialect.write(mine) == dialect.write(theirs)


def _fold(state: FoldedSession, reader: LoreLog, pieces: list[bytes], *, last: bool) -> tuple[FoldedSession, LoreLog]:
    reads = [read for piece in pieces for read in reader.feed(piece)]
    for read in [*reads, *(reader.finish() if last else [])]:
        assert not isinstance(read.value, Problem), read.value
        state = step(state, read.value).state
    return state, reader


def leaks_nothing(path: Path) -> None:
    """Judge the same log again: no more blocks are allocated than before.

    What leaks does so each time; what another thread of the process allocates meanwhile once failed a run.
    """
    blocks: list[int] = []
    for _ in range(4):
        judge(path)
        gc.collect()
        blocks.append(sys.getallocatedblocks())
    grown = min(blocks[2] - blocks[1], blocks[3] - blocks[2])
    assert grown < LEAK // 2, f"blocks allocated after each of four runs: {blocks}"


def is_linear(small: Work, large: Work) -> None:
    """Twice the session: about twice the calls and the memory."""
    assert large.calls <= small.calls * LINEAR, f"{large.calls:,} calls for twice the turns of {small.calls:,}"
    assert large.peak <= small.peak * MEMORY + SLACK, f"{large.peak:,} bytes for twice the turns of {small.peak:,}"


def is_bounded(small: Work, large: Work, factor: int) -> None:
    """A session that compacts: the memory is that of what is kept, however long it goes on.

    What grows is one note a compaction, and what says where the main chain's turns are.
    """
    assert large.peak <= small.peak * 2 + SLACK, f"{large.peak:,} bytes for {factor} times the turns of {small.peak:,}"
