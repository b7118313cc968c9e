"""`lore watch` on a screen without a terminal: its texts, its countdown, and the log that it follows."""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
from contextlib import closing

import pytest
from rich.console import Console

from cli.running import lore
from lore.commands import watch as command
from lore.commands.watch import WatchScreen
from lore.report.status_line import short
from run.test_watch import BILLS, Clock, judged, lines, watching

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
    assert broken.startswith("break 1 min ago: ")
    assert advice.startswith("do      ")
    assert bars == "▇▇▇█"
    assert head.split() == ["turn", "at", "prompt", "read", "re-billed", "cause"]
    assert [row.split()[0] for row in rows] == ["1", "2", "3", "4"]
    assert "9,900" in rows[2]


def test_clock_counts_down_without_a_look(log):
    live = Screen(log)
    live.drawn()
    live.clock.now += 400
    shown = live.drawn(look=False)
    assert shown[2].endswith("cache expired 1 min ago")
    assert shown[4].startswith("do      the next request writes 10,009 tokens again")


def test_screen_shows_the_latest_requests_that_fit(log):
    shown = Screen(log, height=13).drawn()
    assert [row.split()[0] for row in shown[-2:]] == ["3", "4"]
    assert len(shown) <= 13


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
    shown = Screen(tmp_path / "log.jsonl").drawn()
    assert "no request yet" in shown[0]
    assert not any(shown[1:-1])


def test_screen_without_a_session_waits(tmp_path):
    assert Screen(tmp_path).drawn() == ["waiting for a session: start an agent, or name a log (lore watch PATH)"]


def test_watch_without_a_terminal_names_json(log):
    ran = lore("watch", str(log))
    assert (ran.code, ran.out) == (2, "")
    assert "lore watch --json" in ran.err


@pytest.mark.skipif(os.name != "posix", reason="a terminal of POSIX")
def test_ctrl_c_ends_the_screen(log):
    ours, theirs = os.openpty()
    with closing(os.fdopen(ours, "r+b", buffering=0)) as terminal:
        running = subprocess.Popen(
            [sys.executable, "-m", "lore", "watch", str(log)], stdin=theirs, stdout=theirs, stderr=theirs,
            start_new_session=True, env={**os.environ, "TERM": "xterm", "COLUMNS": "120", "LINES": "30"},
        )  # fmt: skip
        os.close(theirs)
        shown = b""
        while b"9,900" not in shown:
            shown += terminal.read(4096)
        running.send_signal(signal.SIGINT)
        while b"\x1b[?1049l" not in shown:
            shown += terminal.read(4096)
        assert running.wait(timeout=60) == 0
    assert b"expires in" in shown or b"expired" in shown


def test_a_line_of_json_at_each_change(log, monkeypatch):
    waits, sleep = [], command.time.sleep

    def wait(seconds):
        waits.append(seconds)
        sleep(0.1)
        if len(waits) == 2:
            log.write_bytes(lines(*BILLS[:2]))
        if len(waits) == 4:
            raise KeyboardInterrupt

    monkeypatch.setattr(command.time, "sleep", wait)
    ran = lore("watch", "--json", str(log))
    assert ran.code == 130
    assert [json.loads(line)["requests"] for line in ran.out.splitlines()] == [4, 2]
