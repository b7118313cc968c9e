"""A watch shows what judging the log gives, whatever happens to the log, and judges it only if it changed."""

from __future__ import annotations

import os

import pytest

from formats.claude import answered, asked, counts, joined, text
from lore.commands import watch as module
from lore.commands.watch import LOOKED, SessionWatch
from lore.recording.agents.logs import Surroundings
from lore.recording.opening import Options
from lore.run.rules import PACKAGED
from lore.run.running import judge_running

BILLS = [(5, 0, 9000, 1), (5, 9000, 900, 1), (5, 0, 10_000, 1), (5, 10_000, 9, 1)]


def lines(*bills):
    made = []
    for number, bill in enumerate(bills):
        time = f"2026-01-01T00:{number:02}:00Z"
        made += [
            asked(f"u{number}", "q", f"a{number - 1}" if number else None, timestamp=time),
            answered(f"a{number}", f"m{number}", text("yes"), f"u{number}", usage=counts(*bill), timestamp=time,
                     model="claude-opus-4-5"),
        ]  # fmt: skip
    return joined(*made)


class Clock:
    """Seconds that pass when a test says so."""

    def __init__(self):
        self.now = 0.0

    def __call__(self):
        return self.now


@pytest.fixture
def clock():
    return Clock()


def watching(name, clock, home="", folder="."):
    return SessionWatch(name, Options(), PACKAGED, Surroundings({}, str(home), "linux", str(folder)), clock)


def judged(path):
    return judge_running(str(path), Options(), PACKAGED)


def test_every_change_shows_the_judged_totals(desk, clock):
    path = desk / "log.jsonl"
    whole = lines(*BILLS)
    path.write_bytes(b"")
    watch = watching(str(path), clock)
    assert watch.look().log.running.requests == 0
    assert watch.look() is None
    for cut in range(1, len(whole) + 1, 97):
        path.write_bytes(whole[:cut])
        found = watch.look()
        assert found.log == judged(path)
        assert found.note == ""
    path.write_bytes(whole)
    last = (watch.look() or found).log
    assert [row.read_tokens for row in last.rows] == [0, 9000, 0, 10_000]
    assert last.breaks[2] == last.running.last_break
    assert last.running.last_break.lost_tokens == 9900


def test_unchanged_log_is_judged_once(desk, clock, monkeypatch):
    path = desk / "log.jsonl"
    path.write_bytes(lines(*BILLS))
    judgings = []
    monkeypatch.setattr(module, "judge_running", lambda *given: (judgings.append(given), judge_running(*given))[1])
    watch = watching(str(path), clock)
    for _ in range(5):
        watch.look()
        clock.now += 100
    assert len(judgings) == 1


def test_log_that_takes_long_is_judged_less_often(desk, clock, monkeypatch):
    path = desk / "log.jsonl"
    path.write_bytes(lines(*BILLS[:1]))

    def slow(*given):
        clock.now += 2.0
        return judge_running(*given)

    monkeypatch.setattr(module, "judge_running", slow)
    watch = watching(str(path), clock)
    watch.look()
    path.write_bytes(lines(*BILLS))
    clock.now += 2 * module.PACE - 0.1
    assert watch.look() is None
    clock.now += 0.2
    assert watch.look().log.running.requests == 4


@pytest.mark.parametrize(
    "change",
    [
        lambda path: path.write_bytes(lines(*BILLS[:1])),
        lambda path: (path.rename("old"), path.write_bytes(lines(*BILLS[:3]))),
    ],
)  # fmt: skip
def test_rotated_log_is_judged_again(desk, clock, change):
    path = desk / "log.jsonl"
    path.write_bytes(lines(*BILLS))
    watch = watching(str(path), clock)
    watch.look()
    change(path)
    assert watch.look().log == judged(path)


def test_missing_log_is_waited_for(desk, clock):
    path = desk / "log.jsonl"
    path.write_bytes(lines(*BILLS))
    watch = watching(str(path), clock)
    before = watch.look().log
    path.unlink()
    found = watch.look()
    assert found.log == before
    assert found.note
    assert watch.look() is None
    path.write_bytes(lines(*BILLS[:2]))
    assert watch.look().log == judged(path)


def test_newer_session_of_this_project_is_followed(desk, clock):
    home, project = desk / "home", desk / "app"
    project.mkdir()
    other = home / ".codex" / "sessions" / "rollout-2026-01-01T00-00-00-a.jsonl"
    other.parent.mkdir(parents=True)
    other.write_bytes(lines(*BILLS[:1]))
    watch = watching(None, clock, home, project)
    assert watch.look().path == str(other)
    own = home / ".claude" / "projects" / "".join(char if char.isalnum() else "-" for char in str(project))
    own.mkdir(parents=True)
    (own / "a.jsonl").write_bytes(lines(*BILLS[:2]))
    assert watch.look() is None
    clock.now += LOOKED
    found = watch.look()
    assert (found.path, found.log) == (str(own / "a.jsonl"), judged(own / "a.jsonl"))
    (own / "b.jsonl").write_bytes(lines(*BILLS))
    os.utime(own / "b.jsonl", (2_000_000_000, 2_000_000_000))
    clock.now += LOOKED
    assert watch.look().log.running.requests == 4


def test_project_without_a_session_shows_no_other(desk, clock):
    home = desk / "home" / ".claude" / "projects" / "other"
    home.mkdir(parents=True)
    (home / "a.jsonl").write_bytes(lines(*BILLS))
    (desk / "app").mkdir()
    assert watching(str(desk / "app"), clock, desk / "home").look().path == ""
    assert watching(None, clock, desk / "home", desk / "app").look().path == str(home / "a.jsonl")
