"""Sessions of an agent's database on the command line: a database alone, a name, a name that is not quite one."""

import json
import multiprocessing
import os
import signal
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

LONG = "the work that goes on and on " * 9
ONE_SESSION = (
    ["fold"], ["assemble"], ["diff-prefix", "--no-tokens"], ["convert", "--to", "lore"],
    ["compact", "--dry-run", "--policy", "p.toml"],
)  # fmt: skip


@pytest.fixture
def database():
    """Three sessions, the second written last and with a long title; the third was started by the first."""
    exports = [
        Export(f"ses_{number}abcdefgh").user("hello").answer("yes").user("more").answer("no") for number in "012"
    ]
    exports[2].info["parentID"] = "ses_0abcdefgh"
    for export, title in zip(exports, ("first", LONG, "sub"), strict=True):
        export.info["title"] = title
    path = written(Path("oc.db"), *exports)
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("update session set time_created = time_created + 86400000 where id = 'ses_1abcdefgh'")
        connection.commit()
    Path("p.toml").write_text("[compaction]\nkeep_recent = 1\n", "utf-8")
    return path


@pytest.mark.usefixtures("database")
@pytest.mark.parametrize("command", ONE_SESSION)
def test_database_lists_newest_sessions_with_cut_titles(command):
    result = lore(command[0], "oc.db", *command[1:])
    lines = result.err.splitlines()
    assert (result.code, result.out, lines[0]) == (
        2,
        "",
        "error: oc.db is OpenCode's database of 3 sessions, 1 of them subagents'",
    )
    assert lines[1].startswith("hint: name one of them (oc.db#ses_1abcdefgh is the newest)")
    assert [line.split()[:3] for line in lines[2:]] == [
        ["2026-04-09", "08:00", "ses_1abcdefgh"], ["2026-04-08", "08:00", "ses_0abcdefgh"],
    ]  # fmt: skip
    assert lines[2].endswith(LONG[:59].rstrip() + "…") or lines[2].endswith(LONG[:59] + "…")
    assert max(map(len, lines[2:])) < 100


@pytest.mark.usefixtures("database")
@pytest.mark.parametrize("command", [*ONE_SESSION, ["check"], ["simulate"], ["store", "import"]])
def test_misspelled_session_id_names_the_nearest(command):
    more = ["--store", "sqlite:s.db"] if command[0] == "store" else []
    for name in ("ses_1abcdefgx", "ses_1"):
        result = lore(*command[:2] if more else command[:1], f"oc.db#{name}", *([] if more else command[1:]), *more)
        assert result.code == 2
        assert f"error: oc.db has no session '{name}'\nhint: did you mean oc.db#ses_1abcdefgh?\n" in result.err
    result = lore("fold", "oc.db#nothing-like-it")
    assert "`lore fold oc.db` lists its sessions" in result.err


@pytest.mark.usefixtures("database")
@pytest.mark.parametrize("command", ONE_SESSION)
def test_a_session_is_answered_by_its_name(command):
    result = lore(command[0], "oc.db#ses_1abcdefgh", *command[1:])
    assert result.code == 0
    assert "has no session" not in result.err


def test_turns_of_two_sessions_are_compared(database):
    result = lore("diff-prefix", "oc.db#ses_1abcdefgh#1", "oc.db#ses_0abcdefgh#1", "--no-tokens", "--json")
    assert (result.code, result.json["prompt"]["left_bytes"]) == (0, result.json["prompt"]["common_prefix_bytes"])
    whole = lore("diff-prefix", "oc.db#ses_1abcdefgh", "oc.db#ses_0abcdefgh", "--no-tokens", "--json").json
    assert whole["file"]["left_bytes"] != database.stat().st_size


@pytest.mark.usefixtures("database")
def test_redacted_no_title_is_listed():
    result = lore("fold", "oc.db", "--redact")
    assert result.err.startswith("error: oc.db is OpenCode's database of 3 sessions")
    assert "the work" in lore("fold", "oc.db").err
    assert "the work" not in result.err


def test_a_hundred_sessions_are_not_all_listed(tmp_path):
    path = written(
        tmp_path / "big.db", *(Export(f"ses_{number:03}").user("hello").answer("yes") for number in range(100))
    )
    lines = lore("fold", str(path)).err.splitlines()
    assert lines[-1] == "  and 80 more: `lore sessions --all` lists them"
    assert len(lines) == 2 + 20 + 1


@pytest.mark.parametrize("title", [None, 7, "two\nlines \x1b[31m", "\ud83d"])
def test_any_title_is_a_line(title):
    exports = [Export(f"ses_{number}").user("hello").answer("yes") for number in "01"]
    path = written(Path("oc.db"), *exports)
    with closing(sqlite3.connect(path)) as connection:
        value = title if not isinstance(title, str) else json.loads(json.dumps(title)).encode("utf-8", "surrogatepass")
        connection.execute("update session set title = ?", (value,))
        connection.commit()
    result = lore("fold", "oc.db")
    assert result.code == 2
    assert len(result.err.splitlines()) == 4
    assert "\x1b" not in result.err


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
    export = Export(name)
    export.info["time"] = {"created": export.info["time"]["created"] + at * 1_000}
    for number in range(4):
        export.user(f"question {number} of {name}").answer("yes", bill=(100, 90 * number, 5))
    return export


@pytest.fixture
def home() -> list[Path]:
    """Three databases without an index, of five sessions each, which were written in turn."""
    paths = []
    for number, place in enumerate(PLACES):
        (DATA / place).parent.mkdir(parents=True, exist_ok=True)
        sessions = (session(f"ses_{number}{index}", 10 * index + number) for index in range(5))
        paths.append(written(DATA / place, *sessions, mode=("wal", "delete", "delete")[number]))
    return paths


@pytest.mark.usefixtures("home")
def test_check_of_databases_is_equal_in_all_processes():
    alone = lore("check", "--json", str(DATA), "-j", "1")
    assert (alone.code, alone.json["summary"]["sessions"]) == (0, 1)  # the others repeat its requests
    assert [pooled("check", "--json", str(DATA), "-j", jobs) for jobs in ("2", "4")] == [alone] * 2


@pytest.mark.usefixtures("home")
@pytest.mark.parametrize(("command", "requests"), [
    (("sessions", "--all"), lambda answer: sum(row["requests"] + row["copied"] for row in answer["sessions"])),
    (
        ("--since", "2020-01-01", "--until", "2026-12-31", "--by", "session"),
        lambda answer: answer["total"]["requests"] + answer["copied"],
    ),
], ids=["sessions", "lore"])  # fmt: skip
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
        result = lore(*command)
        assert (result.code, "opencode-dev.db" in result.out) == (3, True), command
        assert lore(*command, "--json").code == 3


def test_unchanged_database_is_copied_once(home, monkeypatch):
    copies, copy = [], databases._Copy
    monkeypatch.setattr(databases, "_Copy", lambda database: copies.append(database) or copy(database))
    for _ in range(2):
        for path in home:
            databases.connect(str(path)).close()
    assert len(copies) == 3
    with closing(sqlite3.connect(home[0])) as connection:
        connection.execute("update session set title = 'another'")
        connection.commit()
    databases.connect(str(home[0])).close()
    assert len(copies) == 4


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
    paths = [copy.path for copy in databases._copies.values()]
    monkeypatch.setattr(databases, "DATABASE_BYTES", 1_000_000)
    child = multiprocessing.get_context("fork").Process(target=_evict_all)
    child.start()
    child.join(60)
    assert child.exitcode == 0
    assert all(map(os.path.exists, paths))
    assert [usage(f"{path}#ses_{number}1") for number, path in enumerate(home)] == expected


def _evict_all() -> None:
    databases._copies.clear()


@needs_fork
@pytest.mark.parametrize("number", [0, signal.SIGTERM])
def test_worker_deletes_its_own_copies(home, tmp_path, monkeypatch, number):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    child = multiprocessing.get_context("fork").Process(target=_copy_alone, args=(str(home[0]), number))
    child.start()
    child.join(60)
    assert (child.exitcode, list(tmp_path.glob("lore-*"))) == (-number, [])


def _copy_alone(path: str, number: int) -> None:
    databases._copies.clear()
    databases.connect(path).close()
    assert len(databases._copies) == 1
    os.kill(os.getpid(), number)
