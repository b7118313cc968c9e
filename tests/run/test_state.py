"""A state: tomorrow's run opens what is new, and says what it would have said; whatever happened to the folder."""

from __future__ import annotations

import errno
import functools
import io
import os
import sys
import time
from pathlib import Path

import pytest

from cli.running import lore, put, session
from lore.files import replaced
from lore.recording import filesystem
from lore.run.checking import state
from run.logs import put_logs

OPENED: list[str] = []
LISTENING: list[bool] = []


def _hear(event, args):
    named = LISTENING and event == "open" and isinstance(args[0], str)
    if named and "logs" in args[0] and not args[0].endswith(".py") and os.path.isfile(args[0]):
        OPENED.append(args[0])


@functools.cache
def _listen():
    """Hear each file that is opened from now on. There is no way to take it back, so it begins with the first test."""
    sys.addaudithook(_hear)


@pytest.fixture(autouse=True)
def logs(desk):
    """A folder of recordings that were written yesterday."""
    put_logs()
    settle()
    return desk


def settle():
    for path in Path("logs").rglob("*.*"):
        os.utime(path, (time.time() - 90_000,) * 2)


def check(*extra, opened=None):
    """Check with a state, and hold the answer against one without; return the files that were opened."""
    args = ("check", "logs", "--json", "--jobs", "1", *extra)
    expected = lore(*args)
    _listen()
    OPENED.clear()
    LISTENING.append(True)
    try:
        answer = lore(*args, "--state", "kept")
    finally:
        LISTENING.clear()
    assert (answer.code, answer.out) == (expected.code, expected.out)
    return sorted(set(OPENED)), answer.err


@pytest.fixture
def records(monkeypatch):
    """What reads the records of a segment, as the last run would."""
    seals = []
    opened = state.CheckState.open
    monkeypatch.setattr(state.CheckState, "open", lambda self, config: opened(self, config) or seals.append(self._seal))
    return lambda data: list(state._records(io.BytesIO(data), seals[-1]))


def files():
    return sorted(str(path) for path in Path("logs").rglob("*.*"))


def test_the_next_run_opens_what_is_new():
    assert check() == (files(), "")
    assert check() == ([], "")
    put("logs/c/new.jsonl", session(session_id="new"))
    put("logs/c/1.jsonl", session(session_id="other"))
    assert check()[0] == ["logs/c/1.jsonl", "logs/c/new.jsonl"]


def test_a_file_that_was_only_touched_is_read_and_not_judged(monkeypatch):
    check()
    settle()
    judged = []
    judge = state.judge_file
    monkeypatch.setattr(
        "lore.run.checking.verdicts.judge_file", lambda file, *rest: judged.append(file) or judge(file, *rest)
    )
    lore("check", "logs", "--state", "kept")
    assert judged == []
    assert check()[0] == []


def test_a_change_that_keeps_size_and_time_is_seen():
    check()
    path = Path("logs/c/1.jsonl")
    before, status = path.read_bytes(), path.stat()
    path.write_bytes(before.replace(b"noon", b"nine"))
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    assert check()[0] == ["logs/c/1.jsonl"]


def test_a_file_that_was_just_written_is_not_kept():
    put("logs/c/1.jsonl", session(session_id="now"))
    check()
    assert check()[0] == ["logs/c/1.jsonl"]


def test_a_file_that_changes_while_it_is_judged_is_not_kept(monkeypatch):
    judge = state.judge_file

    def judge_and_write(file, *rest):
        result = judge(file, *rest)
        if file.path.endswith("c/1.jsonl"):
            put(file.path, session(session_id="later"))
            settle()
        return result

    with monkeypatch.context() as patch:
        patch.setattr("lore.run.checking.verdicts.judge_file", judge_and_write)
        lore("check", "logs", "--state", "kept")
    assert "logs/c/1.jsonl" in check()[0]


@pytest.mark.parametrize("extra", [("--redact",), ("--min-reuse", "1"), ("--ignore", "LORE1"), ("--for", "user")])
def test_other_settings_have_results_of_their_own(extra):
    check()
    assert check(*extra)[0] == files()
    assert check(*extra)[0] == []
    assert check()[0] == []


def test_a_baseline_holds_with_a_state():
    lore("check", "logs", "--baseline", "known.json", "--update-baseline", "--state", "kept")
    put("logs/d/new.jsonl", Path("logs/d/0.jsonl").read_bytes())
    check("--baseline", "known.json")
    check("--baseline", "known.json")


def test_another_lore_judges_anew(monkeypatch):
    check()
    other = state.maker_of
    monkeypatch.setattr(state, "maker_of", lambda config: "f" + other(config)[1:] + "0")
    assert check()[0] == files()


def _segment():
    return max(Path("kept").glob("*.state"), key=lambda path: path.is_file() and path.stat().st_size)


def test_of_a_damaged_segment_only_whole_records_are_taken(records):
    check()
    whole = _segment().read_bytes()
    every = records(whole)
    for at in range(len(whole)):
        for damaged in (whole[:at], whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :]):
            found = records(damaged)
            assert found == every[: len(found)]
            assert len(found) < len(every)


def test_what_is_torn_foreign_or_damaged_is_judged_anew():
    check()
    whole = _segment().read_bytes()
    _segment().write_bytes(whole[: len(whole) // 2])
    Path("kept", _segment().name[:17] + "0" * 16 + ".state").write_bytes(state._MAGIC + b"\xff" * 999)
    Path("kept", _segment().name[:17] + "1" * 16 + ".state").mkdir()
    Path("kept", "notes.txt").write_text("mine")
    opened, _ = check()
    assert 0 < len(opened) < len(files())
    assert check()[0] == []
    assert Path("kept", "notes.txt").read_text() == "mine"


def test_a_record_that_says_nonsense_is_judged_anew(monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(state, "encode", lambda result: b"[1]")
        lore("check", "logs", "--state", "kept")
    assert check()[0] == files()


def test_runs_that_share_a_folder_lose_nothing(monkeypatch):
    """Each writes segments of its own; many are merged, while others have them open."""
    monkeypatch.setattr(state, "BATCH", 2)
    monkeypatch.setattr(state, "SEGMENTS", 2)
    first, second = state.CheckState("kept", print), state.CheckState("kept", print)
    from lore.judge.policy import Budgets
    from lore.recording.inputs import inputs
    from lore.recording.opening import Options
    from lore.run.checking.judging import Means, judged
    from lore.run.checking.verdicts import CheckConfig

    config = CheckConfig(Options(), Budgets())
    runs = [judged(inputs(["logs"]), config, Means(state=one)) for one in (first, second)]
    pairs = list(zip(*runs, strict=True))
    assert all(str(left) == str(right) for left, right in pairs)
    assert check()[0] == []
    assert len(list(Path("kept").glob("*.state"))) <= 5


def test_a_full_disk_is_said_once_and_changes_no_answer(monkeypatch):
    def full(*args, **named):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(filesystem, "replaced", full)
    monkeypatch.setattr(state, "BATCH", 2)
    _, err = check()
    assert err == "results could not be kept (no space left on device): the next run judges these files again\n"
    monkeypatch.setattr(filesystem, "replaced", replaced)
    assert check()[0] == files()


def test_a_folder_that_cannot_be_one_is_an_error():
    put("note", b"x")
    ran = lore("check", "logs", "--state", "note/kept")
    assert ran.code == 2
    assert ran.err.startswith("error: cannot keep results in note/kept: ")


def test_a_state_among_the_recordings_is_none_of_them():
    once = lore("check", "logs", "--json")
    assert [lore("check", "logs", "--json", "--state", "logs/kept").out for _ in range(2)] == [once.out] * 2


@pytest.mark.parametrize("state", ["logs", "."])
def test_recordings_that_lie_in_the_folder_of_a_state_are_judged(state):
    """They were taken for files of the state: "no recordings in logs"."""
    once = lore("check", "logs", "--json")
    assert [lore("check", "logs", "--json", "--state", state).out for _ in range(2)] == [once.out] * 2


def test_what_cannot_be_read_is_not_kept(monkeypatch):
    ran = lore("check", "logs/c/0.jsonl", "logs/f.txt", "--state", "kept")
    assert ran.code == 2
    assert "logs/f.txt" in check()[0]


def test_a_redacted_run_keeps_no_content(records):
    put("logs/secret.jsonl", session(session_id="s") + b"{nope Tr0ub4dor}\n")
    settle()
    lore("check", "logs", "--redact", "--state", "kept")
    data = b"".join(state._unpacked(packed) for _, packed in records(_segment().read_bytes()))
    assert data.count(b"LORE1") > 3
    assert b"2026-02-01" not in data
    assert b"Tr0ub4dor" not in data


def test_what_no_run_took_for_long_goes(monkeypatch, records):
    check()
    assert records(_segment().read_bytes())
    monkeypatch.setattr(state, "SEGMENTS", 0)
    made = state.CheckState
    monkeypatch.setattr(state, "CheckState", lambda *args, **named: made(*args, **named, now=time.time() + 61 * 86_400))
    for path in Path("logs").rglob("*.*"):
        path.unlink()
    put("logs/other.jsonl", session(session_id="other"))
    settle()
    check()
    assert len(records(_segment().read_bytes())) == 1


SECRET = "0123456789abcdef"


def test_results_that_another_key_signed_are_not_believed(monkeypatch, records):
    """Whoever may write into a shared folder could say what recordings of others came to."""
    check()
    forged = _segment().read_bytes()
    monkeypatch.setenv("LORE_STATE_KEY", SECRET)
    assert check()[0] == files()
    signed = next(path for path in Path("kept").iterdir() if path.read_bytes() != forged)
    signed.write_bytes(forged)
    assert records(forged) == []
    assert check()[0] == files()
    assert check()[0] == []
    monkeypatch.delenv("LORE_STATE_KEY")
    assert check()[0] == [], "those without a key stand beside them"


def test_a_key_that_can_be_guessed_is_refused(monkeypatch):
    monkeypatch.setenv("LORE_STATE_KEY", "secret")
    ran = lore("check", "logs", "--state", "kept")
    assert ran.code == 2
    assert "less than 16 characters" in ran.err
    assert "secret" not in ran.err
    assert not Path("kept").exists()


def test_a_segment_that_could_not_be_read_is_not_thrown_away(monkeypatch):
    """It counted as merged where reading it had failed, and was deleted with what it held."""
    check()
    monkeypatch.setattr(state, "SEGMENTS", 0)
    opened = filesystem.opened

    def broken(path):
        if path.endswith(".state"):
            raise OSError(errno.EIO, "Input/output error")
        return opened(path)

    with monkeypatch.context() as patch:
        patch.setattr(filesystem, "opened", broken)
        put("logs/new.jsonl", session(session_id="new"))
        settle()
        assert "could not be read (input/output error)" in check()[1]
    assert len(list(Path("kept").glob("*.state"))) == 2


class _Counted(io.BytesIO):
    """A segment that counts the bytes that were asked of it."""

    asked = 0

    def read(self, size=-1):
        self.asked += size
        return super().read(size)


@pytest.mark.parametrize(("length", "most"), [(2**32 - 1, 100), (state._LARGEST + 1, 100), (50, 200)])
def test_a_forged_segment_is_not_held_before_its_digest_was_checked(length, most):
    """Whoever could write to the folder had lore read 2 GiB before the first digest was looked at."""
    head = state._HEAD.pack(b"k" * 16, length, b"d" * 16)
    file = _Counted(state._MAGIC + (head + b"x" * 50) * 1000)
    assert list(state._records(file, b"seal")) == []
    assert file.asked <= most


def test_segments_are_merged_once_at_the_end(monkeypatch):
    """A run over many files wrote all it had again with every ninth segment."""
    monkeypatch.setattr(state, "BATCH", 1)
    monkeypatch.setattr(state, "SEGMENTS", 2)
    written = []
    write = filesystem.write
    monkeypatch.setattr(filesystem, "write", lambda path, data: written.append(len(data)) or write(path, data))
    check()
    assert len(files()) > 4
    assert sum(written) < 3 * written[-1]
    assert len(list(Path("kept").glob("*.state"))) == 1
