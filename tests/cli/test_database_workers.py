"""Databases of agents that several processes read at the same time: every session is read, the answers are equal."""

from __future__ import annotations

import multiprocessing
import os
import sqlite3
import tempfile
from contextlib import closing
from pathlib import Path

import pytest

from cli.pooled import pooled
from cli.running import lore
from formats.opencode import Export
from lore.recording.agents import databases
from recording.test_opencode_store import usage, written

PLACES = ("opencode/opencode.db", "opencode/opencode-dev.db", "kilo/kilo.db")
DATA = Path("home/.local/share")
ALL = ("--since", "2020-01-01", "--json", "--no-cache")
# bare `lore` asks for a terminal; four processes however little there is, and however few cores
BARE = """
import lore.commands.common, lore.run.checking.verdicts
lore.run.checking.verdicts.SMALL = 0
lore.commands.common.cores = lambda: {jobs}
"""
needs_fork = pytest.mark.skipif("fork" not in multiprocessing.get_all_start_methods(), reason="no fork here")


def session(name: str, at: int) -> Export:
    made = Export(name)
    made.info["time"] = {"created": made.info["time"]["created"] + at * 1_000}
    for number in range(4):
        made.user(f"question {number} of {name}").answer("yes", bill=(100, 90 * number, 5))
    return made


@pytest.fixture
def home() -> list[Path]:
    """Three databases without an index, of five sessions each, which were written in turn."""
    made = []
    for number, place in enumerate(PLACES):
        (DATA / place).parent.mkdir(parents=True, exist_ok=True)
        sessions = (session(f"ses_{number}{each}", 10 * each + number) for each in range(5))
        made.append(written(DATA / place, *sessions, mode=("wal", "delete", "delete")[number]))
    return made


@pytest.mark.usefixtures("home")
def test_check_of_databases_is_equal_in_all_processes():
    alone = lore("check", "--json", str(DATA), "-j", "1")
    assert (alone.code, alone.json["summary"]["sessions"]) == (0, 15)
    assert [pooled("check", "--json", str(DATA), "-j", jobs) for jobs in ("2", "4")] == [alone] * 2


@pytest.mark.usefixtures("home")
@pytest.mark.parametrize(
    ("command", "requests"),
    [
        (("sessions", "--all"), lambda answer: sum(row["requests"] for row in answer["sessions"])),
        (
            ("--since", "2020-01-01", "--until", "2026-12-31", "--by", "session"),
            lambda answer: answer["total"]["requests"] + answer["copied"],
        ),
    ],
    ids=["sessions", "lore"],
)
def test_databases_are_summed_equally_in_all_processes(command, requests):
    answers = [pooled(*command, "--json", "--no-cache", patch=BARE.format(jobs=jobs)) for jobs in (1, 4)]
    assert answers[0].out == answers[1].out
    assert [answer.code for answer in answers] == [0, 0]
    assert requests(answers[0].json) == 60


def test_unreadable_session_of_a_database_exits_3(home):
    with closing(sqlite3.connect(home[1])) as connection:
        connection.execute("update message set data = cast(x'ff' as text) where session_id = 'ses_12'")
        connection.commit()
    for command in (("sessions", "--all"), ("compare", "agent:opencode", "agent:opencode"), ALL[:2]):
        ran = lore(*command)
        assert (ran.code, "opencode-dev.db" in ran.out) == (3, True), command
        assert lore(*command, "--json").code == 3


def test_unchanged_database_is_copied_once(home, monkeypatch):
    made, copy = [], databases._Copy
    monkeypatch.setattr(databases, "_Copy", lambda database: made.append(database) or copy(database))
    for _ in range(2):
        for path in home:
            databases.connect(str(path)).close()
    assert len(made) == 3
    with closing(sqlite3.connect(home[0])) as connection:
        connection.execute("update session set title = 'another'")
        connection.commit()
    databases.connect(str(home[0])).close()
    assert len(made) == 4


def test_copies_beyond_the_bound_are_deleted(home, tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(databases, "_copies", {})
    monkeypatch.setattr(databases, "DATABASE_BYTES", max(path.stat().st_size for path in home))
    for path in home:
        databases.connect(str(path)).close()
    assert len(list(tmp_path.glob("lore-*"))) == 1


@needs_fork
def test_forked_process_leaves_the_copies_of_its_parent(home, monkeypatch):
    expected = [usage(f"{path}#ses_{number}1") for number, path in enumerate(home)]
    kept = [copy.path for copy in databases._copies.values()]
    monkeypatch.setattr(databases, "DATABASE_BYTES", 1_000_000)
    child = multiprocessing.get_context("fork").Process(target=_evict_all)
    child.start()
    child.join(60)
    assert child.exitcode == 0
    assert all(map(os.path.exists, kept))
    assert [usage(f"{path}#ses_{number}1") for number, path in enumerate(home)] == expected


def _evict_all() -> None:
    databases._copies.clear()


@needs_fork
def test_worker_deletes_its_own_copies(home, tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    child = multiprocessing.get_context("fork").Process(target=_copy_alone, args=(str(home[0]),))
    child.start()
    child.join(60)
    assert (child.exitcode, list(tmp_path.glob("lore-*"))) == (0, [])


def _copy_alone(path: str) -> None:
    databases._copies.clear()
    databases.connect(path).close()
    assert len(databases._copies) == 1
