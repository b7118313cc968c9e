"""Sessions of an agent's database on the command line: a database alone, a name, a name that is not quite one."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from cli.running import lore
from formats.opencode import Export
from recording.test_opencode_store import written

LONG = "the work that goes on and on " * 9
ONE_SESSION = (
    ["fold"], ["assemble"], ["diff-prefix", "--no-tokens"], ["convert", "--to", "lore"],
    ["compact", "--dry-run", "--policy", "p.toml"],
)  # fmt: skip


@pytest.fixture
def database():
    """Three sessions, the second written last and with a long title; the third was started by the first."""
    made = [Export(f"ses_{number}abcdefgh").user("hello").answer("yes").user("more").answer("no") for number in "012"]
    made[2].info["parentID"] = "ses_0abcdefgh"
    for export, title in zip(made, ("first", LONG, "sub"), strict=True):
        export.info["title"] = title
    path = written(Path("oc.db"), *made)
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("update session set time_created = time_created + 86400000 where id = 'ses_1abcdefgh'")
        connection.commit()
    Path("p.toml").write_text("[compaction]\nkeep_recent = 1\n", "utf-8")
    return path


@pytest.mark.usefixtures("database")
@pytest.mark.parametrize("command", ONE_SESSION)
def test_database_lists_newest_sessions_with_cut_titles(command):
    ran = lore(command[0], "oc.db", *command[1:])
    lines = ran.err.splitlines()
    assert (ran.code, ran.out, lines[0]) == (
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
def test_a_misspelled_id_says_the_nearest(command):
    more = ["--store", "sqlite:s.db"] if command[0] == "store" else []
    for name in ("ses_1abcdefgx", "ses_1"):
        ran = lore(*command[:2] if more else command[:1], f"oc.db#{name}", *([] if more else command[1:]), *more)
        assert ran.code == 2
        assert f"error: oc.db has no session '{name}'\nhint: did you mean oc.db#ses_1abcdefgh?\n" in ran.err
    ran = lore("fold", "oc.db#nothing-like-it")
    assert "`lore fold oc.db` lists its sessions" in ran.err


@pytest.mark.usefixtures("database")
@pytest.mark.parametrize("command", ONE_SESSION)
def test_a_session_is_answered_by_its_name(command):
    ran = lore(command[0], "oc.db#ses_1abcdefgh", *command[1:])
    assert ran.code == 0
    assert "has no session" not in ran.err


def test_turns_of_two_sessions_are_compared(database):
    ran = lore("diff-prefix", "oc.db#ses_1abcdefgh#1", "oc.db#ses_0abcdefgh#1", "--no-tokens", "--json")
    assert (ran.code, ran.json["prompt"]["left_bytes"]) == (0, ran.json["prompt"]["common_prefix_bytes"])
    whole = lore("diff-prefix", "oc.db#ses_1abcdefgh", "oc.db#ses_0abcdefgh", "--no-tokens", "--json").json
    assert whole["file"]["left_bytes"] != database.stat().st_size


@pytest.mark.usefixtures("database")
def test_redacted_no_title_is_listed():
    ran = lore("fold", "oc.db", "--redact")
    assert ran.err.startswith("error: oc.db is OpenCode's database of 3 sessions")
    assert "the work" in lore("fold", "oc.db").err
    assert "the work" not in ran.err


def test_a_hundred_sessions_are_not_all_listed(tmp_path):
    path = written(
        tmp_path / "big.db", *(Export(f"ses_{number:03}").user("hello").answer("yes") for number in range(100))
    )
    lines = lore("fold", str(path)).err.splitlines()
    assert lines[-1] == "  and 80 more: `lore sessions --all` lists them"
    assert len(lines) == 2 + 20 + 1


@pytest.mark.parametrize("title", [None, 7, "two\nlines \x1b[31m", "\ud83d"])
def test_any_title_is_a_line(title):
    made = [Export(f"ses_{number}").user("hello").answer("yes") for number in "01"]
    path = written(Path("oc.db"), *made)
    with closing(sqlite3.connect(path)) as connection:
        value = title if not isinstance(title, str) else json.loads(json.dumps(title)).encode("utf-8", "surrogatepass")
        connection.execute("update session set title = ?", (value,))
        connection.commit()
    ran = lore("fold", "oc.db")
    assert ran.code == 2
    assert len(ran.err.splitlines()) == 4
    assert "\x1b" not in ran.err
