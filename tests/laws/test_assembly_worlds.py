"""Law 9 for assembled sessions: the same bytes in another process, under any hash seed, locale and time zone.

One process for each world plays whole sessions, and continues sessions from logs that this process wrote.
"""

from __future__ import annotations

import base64
import functools
import hashlib
import os
import subprocess
import sys

import pytest

from helpers.matrix import some
from helpers.strategies.sessions import Agent, is_derived
from laws.test_law_09_deterministic import WORLDS
from lore.model import events as e
from lore.prompt.base import POLICIES, Rules
from lore.prompt.dialects import dialect_names

SCRIPT = [
    ("know", "add", "abcdef1", "one \u00fc"), ("know", "add", "abcdef2", "two"),
    ("layer", "b", "be kind", "every_turn"),
    ("layer", "a", "be brief", "once_at_start"), ("exchange", "main", {"current_time": "10:00", "overlay": "x"}),
    ("lessons", "main", [("know", "update", "abcdef2", "three"), ("forget", "abcdef1")], {"memory_recall": "tea"}),
    ("loop", "agent-1", [2, 3], [{"current_time": "10:01"}, None], [("layer", "late", "so", "once_at_start")]),
    ("cram", "main", 10), ("think", "main"), ("compact", "main", 2), ("exchange", "main", None),
    ("rewind", "main", 1), ("exchange", "main", {"extra": ["b", "a"], "working_context": {"recent_files": ["z", "y"]}}),
]  # fmt: skip
CHILD = """
import base64, sys
from laws.test_assembly_worlds import played, continued
for line in sys.stdin.read().split():
    dialect, policy, way, data = line.split(":")
    print(dialect, policy, way, continued(dialect, policy, base64.b64decode(data)))
print(played())
"""


def played() -> str:
    """Return the digest of all bodies of a session in every dialect, under every policy."""
    found = hashlib.sha256()
    for dialect in dialect_names():
        for policy in POLICIES:
            for turn in Agent(dialect, Rules(tail=policy)).play(SCRIPT).turns:
                found.update(turn.body)
    return found.hexdigest()


def continued(dialect: str, policy: str, data: bytes) -> str:
    """Return the digest of the next turns of a session, restored from its log."""
    agent = Agent(dialect, Rules(tail=policy))
    agent.count = 1000
    agent.turns = []
    agent.log = data
    agent.restart("log")
    agent.know("abcdef9", "nine")
    agent.play([("exchange", "main", {"current_time": "11:00"}), ("exchange", "agent-1", None), ("cram", "main", 1)])
    return hashlib.sha256(b"\n".join(one.body for one in agent.turns)).hexdigest()


def _states():
    """Yield logs of sessions, with and without the events that lore derived."""
    for dialect in dialect_names():
        for policy in POLICIES:
            agent = Agent(dialect, Rules(tail=policy)).play(SCRIPT)
            lost = b"".join(e.encode(one) + b"\n" for one in agent.events if not is_derived(one))
            for way, data in (("log", agent.log), ("lost", lost)):
                yield dialect, policy, way, data


@pytest.fixture(scope="module")
def answers():
    lines = "\n".join(":".join((d, p, w, base64.b64encode(data).decode())) for d, p, w, data in _states())

    @functools.cache
    def answered(name: str) -> list[str]:
        env = {**os.environ, **WORLDS[name], "PYTHONPATH": os.pathsep.join(one for one in sys.path if one)}
        done = subprocess.run(
            [sys.executable, "-c", CHILD], env=env, input=lines.encode(), capture_output=True, timeout=120, check=False
        )
        assert done.returncode == 0, done.stderr.decode()
        return done.stdout.decode().split("\n")

    return answered


@pytest.mark.skipif(sys.platform == "win32", reason="locales and time zones are set by POSIX variables")
@pytest.mark.parametrize("world", some(WORLDS))
class TestWorlds:
    def test_a_whole_session_sends_the_same_bytes(self, answers, world):
        assert answers(world)[-2] == played()

    def test_session_continues_equally_in_other_process(self, answers, world):
        here = {f"{d} {p}": continued(d, p, data) for d, p, _, data in _states()}
        lines = [line.split() for line in answers(world)[:-2]]
        assert len(lines) == 2 * len(here)
        assert all(digest == here[f"{dialect} {policy}"] for dialect, policy, _, digest in lines)
