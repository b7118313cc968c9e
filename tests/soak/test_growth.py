"""Judging a session twice as long takes twice the calls and memory, and leaks nothing.

Calls are counted by the profiler, memory is what Python allocates: the figures are the same on every machine.
"""

import cProfile
import gc
import pstats
import sys
import tracemalloc
from pathlib import Path

import pytest

from bench import generate
from lore.run.checking.check import check

CALLS, MEMORY = 2.15, 2.3  # most for twice the turns, times
SLACK = 1 << 20  # bytes that a session may take whatever its length
LEAK = 250  # blocks that caches and the interpreter may keep
SIZES = [pytest.param(20, id="short"), pytest.param(1_000, marks=pytest.mark.soak, id="long")]


def _log(folder: Path, turns: int, compact_every: int = 0) -> Path:
    path = folder / f"{turns}-{compact_every}.jsonl"
    path.write_bytes(b"".join(generate.lines(turns, compact_every=compact_every)))
    return path


def _judge(path: Path) -> None:
    result = check([str(path)]).result
    assert not result.problems
    assert result.summary.breaks == result.summary.expected


def _calls(path: Path) -> int:
    profile = cProfile.Profile()
    profile.runcall(_judge, path)
    return pstats.Stats(profile).total_calls


def _peak(path: Path) -> int:
    gc.collect()
    tracemalloc.start()
    try:
        _judge(path)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("turns", SIZES)
def test_twice_the_turns_take_twice_the_work(turns, tmp_path):
    short, long = _log(tmp_path, turns), _log(tmp_path, 2 * turns)
    _judge(short)
    assert _calls(long) <= CALLS * _calls(short)
    assert _peak(long) <= MEMORY * _peak(short) + SLACK


@pytest.mark.parametrize("turns", SIZES)
def test_memory_of_a_compacted_session_is_bounded(turns, tmp_path):
    short, long = (_log(tmp_path, size, compact_every=20) for size in (2 * turns, 8 * turns))
    assert _peak(long) <= 2 * _peak(short) + SLACK


def test_judging_again_allocates_nothing_more(tmp_path):
    path, blocks = _log(tmp_path, 20), []
    for _ in range(4):
        _judge(path)
        gc.collect()
        blocks.append(sys.getallocatedblocks())
    assert min(blocks[2] - blocks[1], blocks[3] - blocks[2]) < LEAK, blocks
