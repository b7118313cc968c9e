"""`lore watch` on a screen without a terminal: what it shows, counts down and follows."""

from __future__ import annotations

import asyncio
import builtins
import json
import sys

import pytest

from cli.running import lore
from lore.cli import live as command
from lore.errors import LoreError
from run.test_watch import BILLS, Clock, judged, lines, watching

NOW = 1_767_225_780.0  # when the last of four answers began


def screen(path, then=None, *, after=10.0, **options):
    """Run the screen over a log, then `then` on it; return its texts by name, and its table."""
    pytest.importorskip("textual")
    from textual.widgets import DataTable, Sparkline, Static

    from lore.cli.watch_screen import WatchScreen

    clock = Clock()
    clock.now = NOW + after
    app = WatchScreen(watching(str(path), Clock()), clock, every=None, **options)

    async def shown():
        async with app.run_test(size=(100, 30)) as pilot:

            async def look():
                app.action_look()
                await app.workers.wait_for_complete()
                await pilot.pause()

            await look()
            if then is not None:
                await then(app, pilot, clock, look)
            texts = {static.id: str(static.render()) for static in app.query(Static) if static.id}
            table = app.query_one(DataTable)
            rows = [[cell.plain for cell in table.get_row_at(number)] for number in range(table.row_count)]
            return texts, rows, list(app.query_one(Sparkline).data)

    return asyncio.run(shown())


@pytest.fixture
def log(tmp_path):
    path = tmp_path / "log.jsonl"
    path.write_bytes(lines(*BILLS))
    return path


def test_the_screen_says_what_judging_says(log):
    texts, rows, sizes = screen(log)
    running = judged(log).running
    assert texts["figures"].startswith(f"prompt {running.prompt_tokens:,} tokens   read 99.9 %")
    assert texts["expiry"] == "cache   expires in 4:50 (of 5 minutes, as billed)"
    assert texts["break"].startswith("break   turn 3, 1 min ago: ")
    assert [row[0] for row in rows] == ["1", "2", "3", "4"]
    assert rows[2][5].startswith("9,900")
    assert sizes == [9005, 9905, 10_005, 10_014]


def test_what_is_added_is_shown_as_a_cold_screen_shows_it(log):
    async def grow(app, pilot, clock, look):
        for number in range(2, len(BILLS) + 1):
            log.write_bytes(lines(*BILLS[:number]))
            await look()

    log.write_bytes(lines(*BILLS[:1]))
    live = screen(log, grow)
    assert live == screen(log)


def test_a_log_that_was_truncated_is_shown_anew(log):
    async def cut(app, pilot, clock, look):
        log.write_bytes(lines(*BILLS[:2]))
        await look()

    texts, rows, _ = screen(log, cut)
    assert "the log was truncated" in texts["session"]
    assert len(rows) == 2


def test_the_clock_is_counted_down_without_reading(log):
    async def wait(app, pilot, clock, look):
        clock.now += 200
        app.count_down()
        assert app.query_one("#expiry").has_class("soon")
        clock.now += 200
        app.count_down()
        assert app.query_one("#expiry").has_class("gone")

    texts, *_ = screen(log, wait)
    assert texts["expiry"] == "cache   expired 1 min ago (of 5 minutes, as billed)"
    assert texts["advice"].startswith("do      the next request writes 10,009 tokens again")


def test_keys_look_and_quit(log):
    async def press(app, pilot, clock, look):
        log.write_bytes(lines(*BILLS[:3]))
        await pilot.press("r")
        await app.workers.wait_for_complete()
        await pilot.pause()
        await pilot.press("q")

    assert len(screen(log, press)[1]) == 3


def test_no_markup_of_a_recording_is_obeyed(tmp_path):
    path = tmp_path / "[red]log[@click=app.quit].jsonl"
    path.write_bytes(lines(*BILLS).replace(b"claude-opus-4-5", b"[bold]m[/]\\u001b[2J"))
    texts, *_ = screen(path)
    assert "[red]log[@click=app.quit].jsonl" in texts["session"]
    assert "[bold]m[/]" in texts["session"]
    assert "\x1b" not in "".join(texts.values())


def test_redacted_the_screen_names_no_model(tmp_path):
    path = tmp_path / "log.jsonl"
    path.write_bytes(lines(*BILLS).replace(b"claude-opus-4-5", b"the swordfish model"))
    assert "swordfish" in screen(path)[0]["session"]
    assert "swordfish" not in str(screen(path, redact=True))


def test_an_empty_log_waits(tmp_path):
    (tmp_path / "log.jsonl").write_bytes(b"")
    texts, rows, _ = screen(tmp_path / "log.jsonl")
    assert "no request yet" in texts["session"]
    assert (texts["figures"], rows) == ("no bill yet", [])


def test_without_a_terminal_or_the_extra_it_says_what_to_do(log, monkeypatch):
    ran = lore("watch", str(log))
    assert (ran.code, ran.out) == (2, "")
    assert "lore watch --json" in ran.err
    whole = builtins.__import__

    def missing(name, *given):
        if name.partition(".")[0] == "textual":
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
        return whole(name, *given)

    monkeypatch.setattr(command.sys, "stdin", type("Terminal", (), {"isatty": lambda _: True})())
    monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)
    monkeypatch.setattr(builtins, "__import__", missing)
    for name in [name for name in sys.modules if name.startswith(("textual", "lore.cli.watch_screen"))]:
        monkeypatch.delitem(sys.modules, name)
    with pytest.raises(LoreError, match="needs Textual"):
        command.watch(str(log), as_json=False, redact=False, config=None)


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


def test_what_is_not_there_is_an_error():
    assert lore("watch", "nowhere.jsonl").code == 2
