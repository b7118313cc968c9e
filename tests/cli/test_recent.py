"""`lore check` without a path, `--last`, `--since`: which recordings are judged."""

import os
import time
from datetime import UTC, datetime
from pathlib import Path

import pytest

from cli.running import lore, put, session
from formats.claude import answered, asked, text
from formats.codex import Rollout
from lore.errors import LoreError
from lore.recording.agents.logs import project_name
from lore.run.arguments import parse_since

NOW = 1_800_000_000.0
DAY = 86_400


def claude(name, session_id="s", **more):
    lines = [asked("u1", "hello"), answered("a1", "msg_1", text("yes"), "u1")]
    return put(name, *[{**line, "sessionId": session_id, **more} for line in lines])


def aged(name, days):
    when = time.time() - days * DAY
    os.utime(name, (when, when))
    return name


# where agents keep logs


def test_the_project_of_the_folder_comes_first(empty_folder):
    home = Path("home")
    project_logs = home / ".claude" / "projects" / project_name(os.getcwd())
    claude(f"{home}/.claude/projects/-other/a.jsonl")
    claude(str(project_logs / "b.jsonl"))
    result = lore("check", "--json")
    assert (result.code, result.json["summary"]["files"]) == (0, 1)
    assert result.err.splitlines()[0] == f"no path is given: judging {os.path.abspath(project_logs)}"


def test_check_without_agent_logs_judges_this_folder():
    put("s.jsonl", session())
    result = lore("check", "--json")
    assert (result.code, result.json["summary"]["files"]) == (0, 1)
    assert result.err.splitlines()[0].endswith("judging .")


@pytest.mark.parametrize("args", [(), ("--last",)])
def test_error_without_recordings_names_places_searched(args):
    result = lore("check", *args)
    assert result.code == 2
    assert "error: there are no recordings" in result.err
    hint = next(line for line in result.err.splitlines() if line.startswith("hint: looked in "))
    assert ".claude/projects" in hint
    assert ", this folder; name a file or folder" in hint


# --last


def about(name, project, days):
    """Write a Codex log of a project."""
    return aged(
        put(name, *Rollout().meta(cwd=str(project)).context().user("hello").message("assistant", "yes").lines), days
    )


def test_last_judges_newest_session_of_this_project(empty_folder):
    aged(claude(f"home/.claude/projects/{project_name(os.getcwd())}/a.jsonl"), 3)
    log = about("home/.codex/sessions/rollout-own.jsonl", os.getcwd(), 2)
    about("home/.codex/sessions/rollout-other.jsonl", "/other", 1)
    put("s.jsonl", session())
    result = lore("check", "--last", "--json")
    assert result.json["summary"]["files"] == 1
    description = f"one of Codex CLI in {os.getcwd()}: {os.path.abspath(log)}"
    assert result.err.splitlines()[0] == f"the newest session of this project is {description}"


def test_last_takes_sessions_of_the_whole_repository(empty_folder, monkeypatch):
    about("home/.codex/sessions/rollout-own.jsonl", os.getcwd(), 2)
    Path("src").mkdir()
    monkeypatch.chdir("src")
    assert lore("check", "--last").code == 2
    Path("../.git").mkdir()
    assert lore("check", "--last").err.rstrip().startswith("the newest session of this project is ")


def test_check_without_path_judges_all_sessions_of_project(empty_folder, monkeypatch):
    claude(f"home/.claude/projects/{project_name(os.getcwd())}/a.jsonl")
    claude(f"home/.claude/projects/{project_name('/other')}/b.jsonl")
    about("home/.codex/sessions/rollout-own.jsonl", os.getcwd(), 2)
    about("home/.codex/sessions/rollout-other.jsonl", "/other", 1)
    assert lore("check", "--json").json["summary"]["files"] == 2
    Path("work").mkdir()
    about("home/.codex/sessions/rollout-below.jsonl", Path("work").absolute(), 1)
    monkeypatch.chdir("work")
    result = lore("check", "--json")
    assert result.json["summary"]["files"] == 1
    assert "no path is given: judging " in result.err


@pytest.mark.parametrize("is_repository", [True, False])
def test_last_takes_sessions_started_in_a_subfolder(empty_folder, monkeypatch, is_repository):
    sub = Path("work/packages/app").absolute()
    sub.mkdir(parents=True)
    if is_repository:
        Path("work/.git").mkdir()
    lines = [{**asked("u1", "hello"), "cwd": str(sub)}, answered("a1", "msg_1", text("yes"), "u1")]
    log = os.path.abspath(aged(put(f"home/.claude/projects/{project_name(str(sub))}/a.jsonl", *lines), 2))
    about("home/.codex/sessions/rollout-other.jsonl", Path("work-2").absolute(), 1)
    newer = os.path.abspath("home/.codex/sessions/rollout-own.jsonl")
    monkeypatch.chdir("work")
    assert lore("check", "--last").err.splitlines()[0].endswith(f" of Claude Code in {sub}: {log}")
    about(newer, sub, 1)
    assert lore("check", "--last").err.splitlines()[0].endswith(f" of Codex CLI in {sub}: {newer}")


def test_last_in_home_folder_leaves_its_projects_out(empty_folder, monkeypatch):
    about("home/.codex/sessions/rollout-own.jsonl", Path("home/work").absolute(), 1)
    monkeypatch.chdir("home")
    assert lore("check", "--last").code == 2


@pytest.mark.skipif(os.name == "nt", reason="there it is a path of this system")
def test_last_skips_sessions_of_windows_paths(empty_folder, monkeypatch):
    about("home/.codex/sessions/rollout-other.jsonl", r"C:\Users\ann\app", 1)
    Path("work").mkdir()
    monkeypatch.chdir("work")
    assert lore("check", "--last").code == 2


def test_last_without_own_session_names_the_newest(empty_folder):
    about("home/.codex/sessions/rollout-other.jsonl", "/other", 1)
    put("s.jsonl", session())
    for command in ("check", "simulate", "report"):
        result = lore(command, "--last")
        assert result.code == 2
        assert f"error: agents keep no session of this project ({os.getcwd()})" in result.err
        assert f"in /other: lore {command} ~/.codex/sessions/rollout-other.jsonl\n" in result.err
    assert lore("check", "--last", "s.jsonl", "gone").err.startswith("error: cannot read gone: no such file")


def test_the_newest_session_is_judged_with_its_subagents():
    aged(claude("p/old.jsonl", "old"), 1)
    aged(claude("p/new.jsonl", "new"), 3)
    claude("p/new/subagents/agent-1.jsonl", "new", isSidechain=True, agentId="1")
    put("p/readme.md", b"no recording")
    result = lore("check", "p", "--last", "--json")
    assert result.json["summary"]["files"] == 2
    assert "the newest session is p/new.jsonl" in result.err


@pytest.mark.parametrize("name", ["timestamp", "startedDateTime", "at"])
def test_last_goes_by_request_time_not_file_time(name):
    def capture(path, day, days_ago):
        content = [{"role": "user", "content": "x" * 100_000}]
        put(path, {name: f"2026-05-{day}T08:00:00Z", "request": {"model": "claude-opus-5", "messages": content}})
        aged(path, days_ago)

    capture("p/old.jsonl", "01", 0)
    capture("p/new.jsonl", "02", 1)
    assert "the newest session is p/new.jsonl" in lore("check", "p", "--last").err


# It was passed over, and an older one judged as the newest.
def test_unreadable_newest_file_is_an_error(monkeypatch):
    aged(claude("p/a.jsonl"), 1)
    claude("p/b.jsonl")

    def refuse(path, *_):
        raise LoreError(f"cannot read {path}: permission denied")

    monkeypatch.setattr("lore.recording.corpus.open_head", refuse)
    result = lore("check", "p", "--last")
    assert (result.code, "cannot read p/b.jsonl" in result.err) == (2, True)


def test_last_of_folder_without_recordings_is_an_error():
    put("p/notes.txt", b"words\n")
    assert lore("check", "p", "--last").code == 2


# --since


def test_older_files_are_not_opened():
    aged(claude("p/old.jsonl"), 3)
    claude("p/new.jsonl", timestamp=datetime.fromtimestamp(time.time(), UTC).isoformat())
    assert lore("check", "p", "--since", "1d", "--json").json["summary"]["files"] == 1
    assert lore("check", "p", "--since", "1d", "-v").err.count("old.jsonl") == 0


def test_since_skips_old_session_in_new_file():
    claude("p/copied.jsonl", timestamp="2026-01-31T09:00:00Z")
    put("p/untimed.jsonl", {"model": "claude-opus-5", "messages": [{"role": "user", "content": "a"}]})
    for day, files in (("2026-02-01", 1), ("2026-01-31", 2)):
        assert lore("check", "p", "--since", day, "--json").json["summary"]["files"] == files


def test_until_skips_recordings_that_began_later():
    for month in (1, 2, 3):
        claude(f"p/{month}.jsonl", timestamp=f"2026-0{month}-28T09:00:00Z")
    for options, months in (
        (["--until", "2026-02-28"], {1, 2}),
        (["--until", "2026-02-27"], {1}),
        (["--since", "2026-02-01", "--until", "2026-03-01"], {2}),
    ):
        read = lore("simulate", "p", "-v", *options).err
        assert {month for month in (1, 2, 3) if f"p/{month}.jsonl: read as" in read} == months
    assert lore("simulate", "p", "--since", "2026-02-01", "--until", "2026-01-01").code == 2


def test_since_without_newer_recordings_exits_0():
    aged(claude("p/old.jsonl"), 3)
    for path in ("p", "p/old.jsonl"):
        result = lore("check", path, "--since", "1h")
        assert (result.code, f"no recordings in {path} are of the time that --since or" in result.err) == (0, True)
    assert lore("check", "none", "--since", "1h").code == 2


@pytest.mark.parametrize(("text", "ago"), [
    ("30m", 1800), ("2h", 7200), ("1d", DAY), ("1w", 7 * DAY), ("1.5d", 1.5 * DAY), (" 2H ", 7200), ("90s", 90),
])  # fmt: skip
def test_an_age_counts_back_from_now(text, ago):
    assert parse_since(text, NOW) == NOW - ago


def test_since_accepts_dates_and_times():
    assert parse_since("2026-01-31T09:00:00Z", NOW) == 1769850000.0
    assert parse_since("2026-02-01", NOW) - parse_since("2026-01-31", NOW) == DAY


@pytest.mark.parametrize("text", ["", "d", "1y", "-1d", "yesterday", "2026-13-01", "9999999d", "1 2d"])
def test_what_is_no_time_is_an_error(text):
    with pytest.raises(LoreError, match="--since"):
        parse_since(text, NOW)


def test_last_skips_documents_that_are_no_recordings():
    """A JSON document that only begins as a body may was taken for the newest session, and nothing was judged."""
    put("s.jsonl", session())
    os.utime("s.jsonl", (1, 1))
    put("schema.json", b'{\n  "title": "x",\n  "properties": {\n    "messages": {"type": "array"}\n  }\n}\n')
    result = lore("check", "--last", ".")
    assert "the newest session is ./s.jsonl" in result.err
    assert "0 turns" not in result.out
