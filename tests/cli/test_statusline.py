"""`lore statusline`: one line for any input, with nothing slow imported."""

import gc
import json
import os
import shutil
import subprocess
import sys
import time
import warnings
from pathlib import Path

import pytest

from cli.running import lore, process, put
from formats.claude import answered, asked, counts, text
from helpers.schemas import valid
from lore.files import cache_root
from lore.recording.agents.logs import Surroundings
from lore.run import status_file as module

START = module.start
LOG = "home/.claude/projects/x/s.jsonl"
HEAVY = {"typer", "msgspec", "orjson", "rich", "lore.recording.opening", "lore.judge.judge", "hashlib", "subprocess"}


def stamp(seconds):
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() + seconds))


def session(*bills, name="s", path=LOG):
    records = []
    for number, bill in enumerate(bills):
        time_ = stamp(10 * number - 120)
        records += [
            asked(f"u{number}", "q", f"a{number - 1}" if number else None, timestamp=time_),
            answered(f"a{number}", f"m{number}", text("yes"), f"u{number}", usage=counts(*bill), timestamp=time_,
                     model="claude-opus-4-5"),
        ]  # fmt: skip
    return put(path, *[{**line, "sessionId": name} for line in records])


STEADY = [(10, 0, 10_000, 100), (10, 10_000, 1000, 100), (10, 11_000, 1000, 100)]


@pytest.fixture(autouse=True)
def started(monkeypatch):
    """Judge in this process, at once; return the commands that would have been started."""
    commands = []

    def start(command):
        commands.append(command)
        assert command[:4] == [sys.executable, "-P", "-m", "lore"]
        assert lore(*command[4:]).code == 0

    monkeypatch.setattr(module, "start", start)
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    return commands


def status_input(path=LOG, **more):
    return json.dumps({"session_id": "s", "transcript_path": path, "model": {"display_name": "Opus"}, **more}).encode()


def test_line_for_claude_code_shows_its_session(started):
    session(*STEADY)
    assert lore("statusline", stdin=status_input()).out == "\x1b[2mjudging …\x1b[0m\n"
    result = lore("statusline", "--no-color", stdin=status_input(cost={"total_cost_usd": 0.5}))
    assert (result.code, result.err, len(started)) == (0, "", 1)
    size, read, again, cache, broken = result.out.strip().split(" · ")
    assert (size, read, again, broken) == ("prompt 12k", "read 92 %", "re-billed 0", "no break")
    assert cache.startswith(("cache 3:1", "cache 3:2"))
    session(*STEADY, (10, 0, 12_000, 100))
    assert lore("statusline", "--no-color", stdin=status_input()).out.endswith("judging …\n")


def test_format_chooses_the_parts():
    session(*STEADY)
    lore("statusline", LOG)
    result = lore(
        "statusline", "--no-color", "--format", "model,read cost", stdin=status_input(cost={"total_cost_usd": 0.5})
    )
    assert result.out == "Opus · read 92 % · $0.50\n"
    assert lore("statusline", "--format=model", LOG, "--width=8").out == "claude-…\n"
    assert lore("statusline", "--format=model", "--redact", LOG).out == "lore: no session\n"


@pytest.mark.parametrize(
    "stdin",
    [b"", b"hello", b"[]", b"null", b"[" * 99_999, b'{"transcript_path": 7}', b'{"cwd": "nowhere\\u0000"}', b"\xff",
     b'{"transcript_path": "nowhere.jsonl", "model": "x", "cost": [], "context_window": {"current_usage": 5}}',
     b'{"transcript_path": "\\ud800/x", "context_window": {"current_usage": {"input_tokens": 1' + b"0" * 400 + b"}}}",
     b'{"transcript_path": "/dev/null", "prompt_cache": {"expires_at": 1e999}, "cost": {"total_cost_usd": NaN}}'],
    ids=range(11),
)  # fmt: skip
def test_meaningless_input_gives_a_short_line(stdin):
    for _ in range(2):
        result = lore("statusline", "--no-color", stdin=stdin)
        assert (result.code, result.err) == (0, "")
        assert result.out in ("lore: no session\n", "looking for a session …\n", "judging …\n")
    assert result.out == "lore: no session\n"


def test_session_without_log_shows_figures_of_client():
    usage = {"input_tokens": 5, "cache_read_input_tokens": 900, "cache_creation_input_tokens": 95}
    stdin = status_input("soon.jsonl", context_window={"current_usage": usage, "used_percentage": 8})
    result = lore("statusline", "--no-color", "--format", "prompt,read,context", stdin=stdin)
    assert result.out == "prompt 1k · read 90 % · context 8 %\n"


def test_line_without_a_log_shows_newest_session():
    project_log = f"home/.claude/projects/{''.join(char if char.isalnum() else '-' for char in os.getcwd())}/n.jsonl"
    session(*STEADY, path=project_log)
    login = asked("u", "/login", None, timestamp=stamp(0))  # a newer log, without a request
    put(project_log.replace("/n.jsonl", "/login.jsonl"), {**login, "sessionId": "login"})
    assert lore("statusline").out == "looking for a session …\n"
    assert lore("statusline").out.startswith("prompt 12k")
    assert lore("statusline", os.getcwd()).out.startswith("prompt 12k")


def test_json_is_judged_to_the_end():
    session(*STEADY, (10, 0, 12_500, 100))
    result = lore("statusline", "--json", LOG)
    valid(result.json, "statusline")
    assert (result.json["requests"], result.json["breaks"], result.json["lifetime"]) == (4, 1, 300.0)
    assert result.json["last_break"]["lost_tokens"] == result.json["rebilled_tokens"] == 12_000
    hidden = lore("statusline", "--json", "--redact", LOG).json
    assert hidden["session_id"] != "s" == result.json["session_id"]
    assert lore("statusline", "--json", stdin=b"").code == 2


def test_trivial_break_does_not_hide_a_costly_one():
    costly = [*STEADY, (10, 12_000, 60_000, 100), (10, 0, 72_500, 100)]
    session(*costly, (10, 70_000, 3_000, 100))
    status = lore("statusline", "--json", LOG).json
    assert (status["breaks"], status["rebilled_tokens"], status["last_break"]["lost_tokens"]) == (2, 74_500, 72_000)
    session(*costly, (10, 60_000, 13_000, 100))
    assert lore("statusline", "--json", LOG).json["last_break"]["lost_tokens"] == 12_500


def test_line_without_cache_folder_shows_client_facts(monkeypatch, started):
    session(*STEADY)
    monkeypatch.setattr(module, "status_folder", lambda: "")
    assert lore("statusline", LOG, "--width", "40").out == "lore: no session\n"
    usage = {"input_tokens": 5, "cache_read_input_tokens": 9_000, "cache_creation_input_tokens": 995}
    stdin = json.dumps({"transcript_path": LOG, "context_window": {"current_usage": usage}}).encode()
    assert "prompt 10k" in lore("statusline", stdin=stdin).out
    assert started == []


def test_started_process_is_not_waited_for():
    """An unwaited process once warned when it was collected as garbage, and pytest took that for an error."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        START([sys.executable, "-c", "import time; time.sleep(1)"])
        gc.collect()
    assert caught == []


def test_unknown_part_error_names_the_parts(started):
    result = lore("statusline", "--format", "prompt,money")
    assert (result.code, result.out) == (2, "")
    assert "parts: model, prompt, read" in result.err
    assert lore("statusline", "--wide").code == 2


def test_install_prints_settings_and_writes_none():
    result = lore("statusline", "--install")
    snippet = json.loads(result.out[result.out.index("{") : result.out.index("\n}\n") + 3])
    assert snippet["statusLine"]["type"] == "command"
    assert snippet["statusLine"]["command"].endswith("lore statusline")
    assert "#{q:pane_current_path}" in result.out
    assert not Path("home").exists()


def test_line_imports_nothing_slow_and_judges_apart():
    """In a process of its own, which starts another one that continues after it has ended."""
    session(*STEADY)
    root = Path("cache").resolve()
    env = {**os.environ, "XDG_CACHE_HOME": str(root), "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    first = process("statusline", LOG, env=env)
    assert (first.code, first.out, first.err) == (0, "judging …\n", "")
    until = time.monotonic() + 60
    while b"claimed" in b"".join(file.read_bytes() for file in root.rglob("lore/status/*[0-9a-f]")):
        assert time.monotonic() < until
        time.sleep(0.05)
    code = (
        f"import sys; from lore.commands.main import main; main(['statusline', {LOG!r}])\n"
        f"print(sorted(set(sys.modules) & {HEAVY!r}))"
    )
    completed = subprocess.run(
        [sys.executable, "-c", code], env=env, capture_output=True, text=True, timeout=60, check=True
    )
    line, heavy = completed.stdout.splitlines()
    assert line.startswith("prompt 12k · read 92 %")
    assert heavy == "[]"
    shutil.rmtree(root)


@pytest.mark.parametrize("platform", ["linux", "darwin", "win32"])
@pytest.mark.parametrize("environment", [{}, {"XDG_CACHE_HOME": "/c", "LOCALAPPDATA": "L"}])
@pytest.mark.parametrize("home", ["", "/h"])
def test_status_folder_is_in_the_cache_folder(platform, environment, home):
    assert cache_root(environment, home, platform) == Surroundings(environment, home, platform, ".").roots()["{cache}"]
