"""The kept figures of a log for its status line, valid as long as the log is the same."""

import json
import os
import stat
from pathlib import Path

import pytest

from formats.claude import answered, asked, counts, log_bytes, text
from lore.commands.statusline import judge_running, keep_status, refresh_status
from lore.recording.agents.logs import Surroundings
from lore.recording.opening import Options
from lore.report.status_line import status_line
from lore.run import status_file as files
from lore.run.rules import PACKAGED

NOW = 1_767_225_700.0  # 40 s after the second answer
BIG = "x" * 100_000
FOLDER = "kept"
HERE = Surroundings({}, "", "linux", ".")


def turn(number, bill, words=BIG, model="claude-opus-4-5"):
    time = f"2026-01-01T00:{number:02}:00Z"
    return [
        asked(f"u{number}", words, f"a{number - 1}" if number else None, timestamp=time),
        answered(
            f"a{number}", f"m{number}", text("yes"), f"u{number}", usage=counts(*bill), timestamp=time, model=model
        ),
    ]


@pytest.fixture
def log(desk):
    path = desk / "log.jsonl"
    path.write_bytes(log_bytes(*turn(0, (5, 0, 10_000, 1)), *turn(1, (5, 10_000, 1000, 1))))
    return path


def append(log, *lines):
    with log.open("ab") as file:
        file.write(log_bytes(*lines))


def judged(log):
    return judge_running(str(log), Options(), PACKAGED).running


def write_status(log):
    return keep_status(FOLDER, str(log), Options(), PACKAGED)


def test_kept_status_is_what_judging_says(log):
    status = write_status(log)
    assert status.running == judged(log)
    assert (status.running.prompt_tokens, status.running.read_tokens, status.running.requests) == (11_005, 10_000, 2)
    assert files.read_status(FOLDER, str(log)) == (status, True)


def test_log_that_has_grown_is_not_current(log):
    status = write_status(log)
    append(log, *turn(2, (5, 11_000, 500, 1), words="short"))
    assert files.read_status(FOLDER, str(log)) == (status, False)
    assert write_status(log).running == judged(log)
    assert files.read_status(FOLDER, str(log))[1]


def test_truncated_log_has_no_figures(log):
    write_status(log)
    log.write_bytes(log.read_bytes()[:-50])
    assert files.read_status(FOLDER, str(log)) == (None, False)


def test_rewritten_log_is_not_current(log):
    status = write_status(log)
    log.write_bytes(log.read_bytes().replace(b'"m1"', b'"m7"'))
    assert files.read_status(FOLDER, str(log)) == (status, False)


@pytest.mark.parametrize(
    "state", [b"", b"{}", b"[1]", b"null", b'{"lore": "9"}', b"[" * 99_999, b'{"running": {}}', b"\xff"]
)  # fmt: skip
def test_damaged_state_is_ignored(log, state):
    write_status(log)
    place = Path(files.state_file(FOLDER, str(log)))
    good = json.loads(place.read_bytes())
    place.write_bytes(state)
    assert files.read_status(FOLDER, str(log))[0] is None
    place.write_bytes(json.dumps({**good, "path": "/another"}).encode())
    assert files.read_status(FOLDER, str(log))[0] is None


def test_state_is_private_and_holds_no_text(log):
    log.write_bytes(log_bytes(*turn(0, (5, 0, 10_000, 1), words="swordfish")))
    write_status(log)
    place = Path(files.state_file(FOLDER, str(log)))
    assert stat.S_IMODE(place.stat().st_mode) == 0o600
    assert b"swordfish" not in place.read_bytes()
    assert os.listdir(FOLDER) == [place.name]


def test_unwritable_folder_keeps_no_state(log):
    Path(FOLDER).write_bytes(b"a file")
    assert write_status(log).running == judged(log)
    assert files.read_status(FOLDER, str(log))[0] is None
    assert not files.claim(FOLDER, str(log), NOW)


def test_one_process_judges_a_log(log):
    assert files.claim(FOLDER, str(log), NOW)
    assert not files.claim(FOLDER, str(log), NOW + 1)
    assert files.claim(FOLDER, str(log), NOW + files.CLAIMED)  # the process that took it on is gone
    refresh_status(str(log), FOLDER, Options(), PACKAGED, HERE)
    assert files.claim(FOLDER, str(log), NOW + files.CLAIMED)


def line(log, now=NOW, project=""):
    status, unjudged = files.status_of(str(log), b"", project, FOLDER, now)
    return status_line(status, colour=False), unjudged


def test_line_starts_judging_once(log):
    assert line(log) == ("judging …", str(log))
    assert line(log) == ("judging …", "")
    refresh_status(str(log), FOLDER, Options(), PACKAGED, HERE)
    assert line(log) == ("prompt 11k · read 91 % · re-billed 0 · cache 4:20 · no break", "")
    append(log, *turn(2, (5, 0, 20_000, 1)))
    later = NOW + 10_000
    assert line(log, later)[1] == str(log)
    assert line(log, later)[0].endswith("cache expired 2 h ago · judging …")


def test_judging_rests_ten_times_its_duration(log):
    write_status(log)
    state = files.read_state(FOLDER, str(log))
    files.write_state(FOLDER, str(log), {**state, "judged_at": NOW, "cost": 3.0})
    append(log, *turn(2, (5, 0, 20_000, 1)))
    assert line(log, NOW + 29)[1] == ""
    assert line(log, NOW + 31)[1] == str(log)


def test_unused_files_are_deleted(log):
    write_status(log)
    old = Path(FOLDER, "old")
    old.write_bytes(b"")
    os.utime(old, (1, 1))
    refresh_status(str(log), FOLDER, Options(), PACKAGED, HERE)
    assert os.listdir(FOLDER) == [Path(files.state_file(FOLDER, str(log))).name]


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes with names here")
def test_named_pipe_is_never_waited_for(log):
    write_status(log)
    log.unlink()
    os.mkfifo(log)
    assert not files.read_status(FOLDER, str(log))[1]
    assert write_status(log).running.requests == 0
