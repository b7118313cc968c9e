"""The parse ratio in instructions, which do not depend on what else a machine does: counted by valgrind's callgrind.

Each side is a process of its own; what it takes for the smallest session (Python's start, imports) is taken off.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

from bench.recordings import ABSENT, Fields, sessions

PARSE = """
import sys, orjson
for name in sys.argv[1:]:
    with open(name, "rb") as file:
        for line in file:
            try:
                orjson.loads(line)
            except ValueError:  # two objects on one line
                pass
"""
CHECK = """
import sys
from lore.judge.policy import Budgets
from lore.recording.opening import Options
from lore.run.checking.check import check
check(sys.argv[1:], Budgets(), Options())
"""
_COLLECTED = re.compile(rb"Collected : (\d+)")


def ratio(most: int | None) -> Fields:
    """Judging sessions against parsing their lines."""
    measure = "the same, in instructions (callgrind)"
    bar = "at most 1.6 times"
    valgrind, paths = shutil.which("valgrind"), sessions(most)
    if not paths:
        return measure, bar, ABSENT, None
    if valgrind is None:
        return measure, bar, "there is no `valgrind` here", None
    judging, parsing = (_counted(valgrind, code, paths) for code in (CHECK, PARSE))
    found = judging / parsing
    said = f"{found:.2f}; {judging / 1e6:,.0f} million against {parsing / 1e6:,.0f} million"
    return measure, bar, said, found <= 1.6


def _counted(valgrind: str, code: str, paths: list[Path]) -> int:
    """Count the instructions of a program over sessions, less those over the smallest one."""
    return _instructions(valgrind, code, paths) - _instructions(valgrind, code, paths[:1])


def _instructions(valgrind: str, code: str, paths: list[Path]) -> int:
    run = [valgrind, "--tool=callgrind", "--callgrind-out-file=/dev/null", sys.executable, "-c", code, *map(str, paths)]
    done = subprocess.run(run, env={**os.environ, "PYTHONHASHSEED": "0"}, capture_output=True, check=True)
    found = _COLLECTED.search(done.stderr)
    if found is None:
        raise RuntimeError(f"callgrind counted nothing: {done.stderr[-300:]!r}")
    return int(found[1])
