"""A status line reads what was added and no more, and says what judging the whole log says."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path

import pytest

from formats.claude import answered, asked, counts, joined, text
from lore.recording.agents.logs import Surroundings
from lore.recording.opening import Options
from lore.run.dated import PACKAGED
from lore.run.live import statusline as files
from lore.run.live.running import judge_running, keep, refresh
from lore.run.live.statusline import StatusRequest, answer

NOW = 1_767_225_700.0  # 40 s after the second answer
BIG = "x" * 100_000
FOLDER = "kept"


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
    path.write_bytes(joined(*turn(0, (5, 0, 10_000, 1)), *turn(1, (5, 10_000, 1000, 1))))
    return path


def append(log, *lines):
    with log.open("ab") as file:
        file.write(joined(*lines))


def judged(log):
    return judge_running(str(log), Options(), PACKAGED).running


def kept(log):
    return keep(FOLDER, str(log), Options(), PACKAGED)


def test_what_was_kept_is_what_judging_says(log):
    made = kept(log)
    assert (made.running.prompt_tokens, made.running.read_tokens, made.running.requests) == (11_005, 10_000, 2)
    assert files.look(FOLDER, str(log)) == files.Look(made, current=True, read_bytes=files.HEAD + files.TAIL)


def test_a_line_that_was_added_is_all_that_is_read(log):
    kept(log)
    size = log.stat().st_size
    append(log, *turn(2, (5, 11_000, 500, 1), words="short"))
    added = log.stat().st_size - size
    seen = files.look(FOLDER, str(log))
    assert seen.current
    assert seen.read_bytes == added + 2 * (files.HEAD + files.TAIL) < size / 10
    assert seen.known.running == judged(log)
    assert seen.known.running.prompt_tokens == 11_505
    again = files.look(FOLDER, str(log))
    assert (again.known, again.read_bytes) == (seen.known, files.HEAD + files.TAIL)


def test_every_cut_of_a_log_comes_to_what_judging_it_says(log):
    whole = joined(*turn(0, (5, 0, 9000, 1), "a"), *turn(1, (5, 9000, 9, 1), "b"), *turn(2, (5, 9009, 9, 1), "c"))
    first = whole.index(b"\n", whole.index(b'"m0"')) + 1
    for cut in range(first, len(whole), 29):
        log.write_bytes(whole[:first])
        kept(log)
        log.write_bytes(whole[:cut])
        seen = files.look(FOLDER, str(log))
        assert seen.current
        assert seen.known.running == judged(log)
        log.write_bytes(whole)
        assert files.look(FOLDER, str(log)).known.running == judged(log)


@pytest.mark.parametrize("bill", [(5, 0, 20_000, 1), (5, 10_999, 500, 1)])
def test_a_bill_that_fell_waits_for_the_judge(log, bill):
    before = kept(log)
    append(log, *turn(2, bill))
    seen = files.look(FOLDER, str(log))
    assert (seen.known, seen.current) == (before, False)
    assert files.look(FOLDER, str(log)) == seen  # nothing was kept of it
    assert kept(log).running == judged(log)
    assert files.look(FOLDER, str(log)).current


@pytest.mark.parametrize(
    "change",
    [
        lambda log: log.write_bytes(log.read_bytes()[:-50]),
        lambda log: log.write_bytes(b"{}\n" + log.read_bytes()),
        lambda log: log.write_bytes(log.read_bytes().replace(b'"m1"', b'"m7"') + b"\n"),
    ],
    ids=["truncated", "another beginning", "another end"],
)
def test_another_log_under_the_name_is_judged_anew(log, change):
    kept(log)
    change(log)
    assert files.look(FOLDER, str(log)) == files.Look(None, current=False)


@pytest.mark.parametrize(
    "state", [b"", b"{}", b"[1]", b"null", b'{"lore": "9"}', b"[" * 99_999, b'{"running": {}}', b"\xff"]
)  # fmt: skip
def test_a_damaged_state_is_none(log, state):
    kept(log)
    place = Path(files.state_of(FOLDER, str(log)))
    good = json.loads(place.read_bytes())
    place.write_bytes(state)
    assert files.look(FOLDER, str(log)).known is None
    place.write_bytes(json.dumps({**good, "path": "/another"}).encode())
    assert files.look(FOLDER, str(log)).known is None


def test_the_state_is_private_and_holds_no_text(log):
    log.write_bytes(joined(*turn(0, (5, 0, 10_000, 1), words="swordfish")))
    kept(log)
    place = Path(files.state_of(FOLDER, str(log)))
    assert stat.S_IMODE(place.stat().st_mode) == 0o600
    assert b"swordfish" not in place.read_bytes()
    assert os.listdir(FOLDER) == [place.name]


def test_a_folder_that_cannot_be_written_changes_nothing(log):
    Path(FOLDER).write_bytes(b"a file")
    assert kept(log).running == judged(log)
    assert files.look(FOLDER, str(log)).known is None
    assert not files.claim(FOLDER, str(log), NOW)


def test_a_log_is_judged_by_one_process_at_a_time(log):
    assert files.claim(FOLDER, str(log), NOW)
    now = Path(files.state_of(FOLDER, str(log)) + ".lock").stat().st_mtime
    assert not files.claim(FOLDER, str(log), now)
    assert files.claim(FOLDER, str(log), now + files.CLAIMED + 1)  # who took it on is gone
    files.release(FOLDER, str(log))
    assert files.claim(FOLDER, str(log), now)


def line(log, now=NOW, **options):
    return answer(StatusRequest(str(log), **options), b"", "", FOLDER, now)


def test_a_line_asks_for_the_judge_once_and_says_so(log):
    assert line(log) == ("judging …", str(log))
    assert line(log) == ("judging …", "")
    refresh(str(log), FOLDER, Options(), PACKAGED, Surroundings({}, "", "linux", "."))
    assert line(log) == ("prompt 11k · read 91 % · paid again 0 · cache 4:20 · no break", "")
    append(log, *turn(2, (5, 0, 20_000, 1)))
    later = NOW + 10_000
    assert line(log, later)[1] == str(log)
    assert line(log, later)[0].endswith("cache expired 2 h ago · judging …")


def test_judging_rests_ten_times_as_long_as_it_took(log):
    known = kept(log)._replace(judged_at=NOW, cost=3.0)
    files.save(FOLDER, str(log), known)
    append(log, *turn(2, (5, 0, 20_000, 1)))
    assert line(log, NOW + 29)[1] == ""
    assert line(log, NOW + 31)[1] == str(log)


def test_what_is_no_recording_has_nothing_to_say(desk):
    (desk / "x.txt").write_bytes(b"hello\nworld\n")
    keep(FOLDER, "x.txt", Options(), PACKAGED)
    assert line("x.txt") == ("lore: no session", "")


def test_the_newest_session_of_a_project_is_found_once_in_a_while(desk, log):
    home = desk / "home"
    project = desk / "app"
    own = home / ".claude" / "projects" / str(project).replace("/", "-").replace("_", "-").replace(".", "-")
    own.mkdir(parents=True)
    project.mkdir()
    (own / "s.jsonl").write_bytes(log.read_bytes())
    here = Surroundings({}, str(home), "linux", str(desk))
    request = StatusRequest()
    assert answer(request, b"", str(project), FOLDER, NOW) == ("judging …", str(project))
    refresh(str(project), FOLDER, Options(), PACKAGED, here)
    found = files.newest_of(FOLDER, str(project))
    assert found.path == str(own / "s.jsonl")
    said, behind = answer(request, b"", str(project), FOLDER, found.at + 1)
    assert (said.split(" · ")[0], behind) == ("prompt 11k", "")
    assert answer(request, b"", str(project), FOLDER, found.at + 60)[1] == str(project)


def test_old_states_are_forgotten(log):
    kept(log)
    files.forget_old(FOLDER, NOW)
    assert os.listdir(FOLDER)
    files.forget_old(FOLDER, Path(files.state_of(FOLDER, str(log))).stat().st_mtime + 61 * 86_400)
    assert os.listdir(FOLDER) == []


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes with names here")
def test_a_pipe_is_waited_for_by_nobody(log):
    kept(log)
    log.unlink()
    os.mkfifo(log)
    assert not files.look(FOLDER, str(log)).current
    assert kept(log).running.requests == 0
