"""Law 9 for all fixtures, and for a real recording if there is one: the same answers in two different worlds."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from conftest import CORPUS, ROOT
from laws.test_law_09_deterministic import SCRIPT
from lore.prompt.dialects import dialect_names

FIXTURES = ROOT / "fixtures"
ASCII = {"LC_ALL": "C", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0"}
UTF8 = {"LC_ALL": "C.UTF-8"}
WORLDS = {
    f"seed {seed}, {locale['LC_ALL']}, {zone}": {"PYTHONHASHSEED": seed, "TZ": zone, **locale}
    for seed, locale, zone in (
        ("0", ASCII, "FAR-13"), ("1", UTF8, "WEST8"),
    )
}  # fmt: skip
FIRST = next(iter(WORLDS))


def _names(pattern: str) -> list[str]:
    return sorted(path.relative_to(ROOT).as_posix() for path in FIXTURES.glob(pattern))


def commands() -> list[tuple[str, ...]]:
    """Return commands that check, fold, assemble and compare every fixture."""
    sessions = [*_names("sessions/*.jsonl"), *_names("claude-code/*.jsonl")]
    pairs = [f"{name}/turn" for name in _names("bodies/*/*")]
    recordings = [str(path) for path in sorted((CORPUS / "claude-code").glob("*_compact1.jsonl"))[:1]]
    return [
        ("check", "--json", "fixtures"),
        *(
            ("assemble", name, "--all", "--full", "--dialect", dialect)
            for name in sessions
            for dialect in dialect_names()
        ),
        *(("fold", "--json", name) for name in [*sessions, *recordings]),
        *(("diff-prefix", "--json", name) for name in [*sessions, *_names("recordings/*.jsonl")]),
        *(("diff-prefix", "--json", "--no-tokens", name) for name in recordings),
        *(("diff-prefix", "--json", f"{pair}1.json", f"{pair}2.json") for pair in pairs),
        *(("check", "--json", name) for name in recordings),
    ]


def judged(world: dict[str, str]) -> tuple[bytes, bytes]:
    """Return standard output and error of all commands in one world."""
    ours = ("LC_", "LANG", "PYTHONHASHSEED", "TZ")
    env = {name: value for name, value in os.environ.items() if not name.startswith(ours)}
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT], env={**env, **world, "COMMANDS": repr(commands())}, cwd=ROOT,
        capture_output=True, timeout=120, check=False,
    )  # fmt: skip
    return done.stdout, done.stderr


@pytest.fixture(scope="module")
def first():
    """Output of the commands in the first world."""
    return judged(WORLDS[FIRST])


@pytest.mark.skipif(sys.platform == "win32", reason="locales and time zones are set by POSIX variables")
class TestFixtures:
    def test_every_command_answers(self, first):
        out, err = first
        codes = [line for line in out.splitlines() if line.startswith(b"-- exit")]
        assert len(codes) == len(commands()), err
        assert not {b"-- exit 70", b"-- exit 3"} & set(codes)

    @pytest.mark.parametrize("world", [name for name in WORLDS if name != FIRST])
    def test_the_answers_are_the_same_in(self, first, world):
        assert judged(WORLDS[world]) == first
