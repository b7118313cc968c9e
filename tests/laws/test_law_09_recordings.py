"""Law 9 on real recordings: Claude Code logs give the same bytes under any seed, locale, zone, number of jobs."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from cli.pooled import script
from conftest import ABSENT, CORPUS
from laws.test_law_09_deterministic import SCRIPT, WORLDS

FOLDER = CORPUS / "claude-code"
MOST = 5  # the smallest: each is judged six times
FILES = [str(path) for path in sorted(FOLDER.glob("*.jsonl"), key=lambda path: path.stat().st_size)[:MOST]]
FIRST = "seed 0"
FOLDED = tuple(("fold", "--json", name) for name in FILES)

pytestmark = [
    pytest.mark.corpus,
    pytest.mark.skipif(not FILES, reason=ABSENT),
    pytest.mark.skipif(sys.platform == "win32", reason="locales and time zones are set by POSIX variables"),
]


def run(world: str, *words: str) -> tuple[int, bytes, bytes]:
    """Run a program in a world."""
    ours = ("LC_", "LANG", "PYTHONHASHSEED", "TZ")
    env = {name: value for name, value in os.environ.items() if not name.startswith(ours)}
    env = {**env, **WORLDS[world], "COMMANDS": repr(FOLDED)}
    done = subprocess.run([sys.executable, "-c", *words], env=env, capture_output=True, check=False, timeout=300)
    return done.returncode, done.stdout, done.stderr


def checked(world: str, jobs: str) -> tuple[int, bytes, bytes]:
    """Judge the whole folder, with so many processes."""
    return run(world, script(), "check", "--json", *FILES, "--jobs", jobs)


@pytest.fixture(scope="module")
def first():
    """What the first world answers with one process."""
    return run(FIRST, SCRIPT), checked(FIRST, "1")


def test_every_command_answers(first):
    (code, out, err), judged = first
    assert (code, out.count(b"\n-- exit 0\n")) == (0, len(FILES)), err
    assert judged[0] in (0, 1), judged[2]


@pytest.mark.parametrize("world", [FIRST, "seed 3, far west, bare ASCII"])
def test_the_answers_are_the_same_in(first, world):
    assert (run(world, SCRIPT), checked(world, "4")) == first
