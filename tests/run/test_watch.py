"""A watch shows what judging the log gives, whatever happens to the log, and judges it only if it changed."""

import io
import json
import os
import signal
import subprocess
import sys
import threading
from contextlib import closing

import pytest
from rich.console import Console

from cli.running import lore
from formats.claude import answered, asked, counts, log_bytes, text
from lore.commands import watch as module
from lore.commands.statusline import judge_running
from lore.commands.watch import LOOKED, SessionWatch, WatchScreen
from lore.recording.agents.logs import Surroundings
from lore.recording.opening import Options
from lore.report.status_line import short
from lore.run.rules import PACKAGED

BILLS = [(5, 0, 9000, 1), (5, 9000, 900, 1), (5, 0, 10_000, 1), (5, 10_000, 9, 1)]


def lines(*bills):
    records = []
    for number, bill in enumerate(bills):
        time = f"2026-01-01T00:{number:02}:00Z"
        records += [
            asked(f"u{number}", "q", f"a{number - 1}" if number else None, timestamp=time),
            answered(f"a{number}", f"m{number}", text("yes"), f"u{number}", usage=counts(*bill), timestamp=time,
                     model="claude-opus-4-5"),
        ]  # fmt: skip
    return log_bytes(*records)


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
        update = watch.look()
        assert update.log == judged(path)
        assert update.note == ""
    path.write_bytes(whole)
    last = (watch.look() or update).log
    assert [row.read_tokens for row in last.rows] == [0, 9000, 0, 10_000]
    assert last.breaks[2] == last.running.last_break
    assert last.running.last_break.lost_tokens == 9900


def test_unchanged_log_is_judged_once(desk, clock, monkeypatch):
    path = desk / "log.jsonl"
    path.write_bytes(lines(*BILLS))
    judgings = []
    monkeypatch.setattr(module, "judge_running", lambda *args: (judgings.append(args), judge_running(*args))[1])
    watch = watching(str(path), clock)
    for _ in range(5):
        watch.look()
        clock.now += 100
    assert len(judgings) == 1


def test_log_that_takes_long_is_judged_less_often(desk, clock, monkeypatch):
    path = desk / "log.jsonl"
    path.write_bytes(lines(*BILLS[:1]))

    def slow(*args):
        clock.now += 2.0
        return judge_running(*args)

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
    update = watch.look()
    assert update.log == before
    assert update.note
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
    project_logs = home / ".claude" / "projects" / "".join(char if char.isalnum() else "-" for char in str(project))
    project_logs.mkdir(parents=True)
    (project_logs / "a.jsonl").write_bytes(lines(*BILLS[:2]))
    assert watch.look() is None
    clock.now += LOOKED
    update = watch.look()
    assert (update.path, update.log) == (str(project_logs / "a.jsonl"), judged(project_logs / "a.jsonl"))
    (project_logs / "b.jsonl").write_bytes(lines(*BILLS))
    os.utime(project_logs / "b.jsonl", (2_000_000_000, 2_000_000_000))
    clock.now += LOOKED
    assert watch.look().log.running.requests == 4


def test_project_without_a_session_shows_no_other(desk, clock):
    home = desk / "home" / ".claude" / "projects" / "other"
    home.mkdir(parents=True)
    (home / "a.jsonl").write_bytes(lines(*BILLS))
    (desk / "app").mkdir()
    assert watching(str(desk / "app"), clock, desk / "home").look().path == ""
    assert watching(None, clock, desk / "home", desk / "app").look().path == str(home / "a.jsonl")


NOW = 1_767_225_780.0  # when the last of four answers began


class Screen:
    """A screen over a log, which looks and draws when a test says so."""

    def __init__(self, path, *, after=10.0, redact=False, width=160, height=30):
        self.clock = Clock()
        self.clock.now = NOW + after
        self.console = Console(file=io.StringIO(), width=width, height=height)
        self.screen = WatchScreen(watching(str(path), Clock()), self.clock, self.console, redact=redact)

    def drawn(self, *, look=True):
        """Return the lines of the screen."""
        if look:
            self.screen.look()
        with self.console.capture() as captured:
            self.console.print(self.screen.drawn())
        return [line.rstrip() for line in captured.get().splitlines()]


@pytest.fixture
def log(tmp_path):
    path = tmp_path / "log.jsonl"
    path.write_bytes(lines(*BILLS))
    return path


def test_screen_shows_what_judging_says(log):
    session, _, figures, broken, advice, _, bars, _, head, *rows = Screen(log).drawn()
    running = judged(log).running
    assert session.startswith("claude-opus-4-5  ·  4 requests")
    again = f"re-billed {short(running.rebilled_tokens)} (${running.rebilled_dollars:.2f})"
    assert figures == f"prompt {short(running.prompt_tokens)} · read 99 % · {again} · cache 4:50"
    assert broken.startswith("last break 1 min ago: ")
    assert advice.startswith("do      ")
    assert bars == "▇▇▇█"
    assert head.split() == ["turn", "at", "prompt", "read", "re-billed", "cause"]
    assert [row.split()[0] for row in rows] == ["1", "2", "3", "4"]
    assert "9,900" in rows[2]


def test_clock_counts_down_without_a_look(log):
    live = Screen(log)
    live.drawn()
    live.clock.now += 400
    rows = live.drawn(look=False)
    assert rows[2].endswith("cache expired 1 min ago")
    assert rows[4].startswith("do      the next request writes 10,009 tokens again")


def test_screen_shows_the_latest_requests_that_fit(log):
    rows = Screen(log, height=13).drawn()
    assert [row.split()[0] for row in rows[-2:]] == ["3", "4"]
    assert len(rows) <= 13


def test_markup_of_a_recording_is_shown_as_text(tmp_path):
    path = tmp_path / "log.jsonl"
    title = json.dumps({"type": "custom-title", "customTitle": "[red]log[@click=app.quit]", "sessionId": "s"}).encode()
    path.write_bytes(lines(*BILLS).replace(b"claude-opus-4-5", b"[bold]m[/]\\u001b[2J") + title + b"\n")
    session = Screen(path, width=300).drawn()[0]
    assert "[red]log[@click=app.quit]" in session
    assert "[bold]m[/]" in session
    assert "\x1b" not in session


def test_redacted_screen_names_no_model(tmp_path):
    path = tmp_path / "log.jsonl"
    path.write_bytes(lines(*BILLS).replace(b"claude-opus-4-5", b"the swordfish model"))
    assert "swordfish" in Screen(path).drawn()[0]
    assert "swordfish" not in "".join(Screen(path, redact=True).drawn())


def test_empty_log_shows_no_figures(tmp_path):
    (tmp_path / "log.jsonl").write_bytes(b"")
    rows = Screen(tmp_path / "log.jsonl").drawn()
    assert "no request yet" in rows[0]
    assert not any(rows[1:-1])


def test_screen_without_a_session_waits(tmp_path):
    assert Screen(tmp_path).drawn() == ["waiting for a session: start an agent, or name a log (lore watch PATH)"]


def test_watch_without_a_terminal_names_json(log):
    result = lore("watch", str(log))
    assert (result.code, result.out) == (2, "")
    assert "lore watch --json" in result.err


@pytest.mark.skipif(os.name != "posix", reason="a terminal of POSIX")
def test_ctrl_c_ends_the_screen(log):
    ours, theirs = os.openpty()
    with closing(os.fdopen(ours, "r+b", buffering=0)) as terminal:
        running = subprocess.Popen(
            [sys.executable, "-m", "lore", "watch", str(log)], stdin=theirs, stdout=theirs, stderr=theirs,
            start_new_session=True, env={**os.environ, "TERM": "xterm", "COLUMNS": "120", "LINES": "30"},
        )  # fmt: skip
        os.close(theirs)
        output = b""
        while b"9,900" not in output:
            output += terminal.read(4096)
        running.send_signal(signal.SIGINT)
        while b"\x1b[?1049l" not in output:
            output += terminal.read(4096)
        assert running.wait(timeout=60) == 0
    assert b"expires in" in output or b"expired" in output


def test_a_line_of_json_at_each_change(log, monkeypatch):
    waits, sleep = [], module.time.sleep

    def wait(seconds):
        if threading.current_thread() is not threading.main_thread():
            sleep(seconds)  # of a library: the function is replaced for all threads
            return
        waits.append(seconds)
        sleep(0.1)
        if len(waits) == 2:
            log.write_bytes(lines(*BILLS[:2]))
        if len(waits) == 4:
            raise KeyboardInterrupt

    monkeypatch.setattr(module.time, "sleep", wait)
    result = lore("watch", "--json", str(log))
    assert result.code == 130
    assert [json.loads(line)["requests"] for line in result.out.splitlines()] == [4, 2]
