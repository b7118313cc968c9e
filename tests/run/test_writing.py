"""Appending to a lore log: whole lines or nothing, one writer at a time."""

import errno
import os
import subprocess
import sys
from pathlib import Path

import pytest

from cli.running import put, session
from lore.errors import LoreError
from lore.model.events import CacheReset, Knowledge, encode
from lore.run import outputs as module
from lore.run.outputs import appending

EVENT = CacheReset(reason="asked for")
LINE = encode(EVENT) + b"\n"

pytestmark = pytest.mark.usefixtures("desk")


@pytest.fixture
def log(desk):
    return Path(put("s.jsonl", session()))


def refused(path, *events, before=None, patience=module.PATIENCE):
    def attempt():
        with appending(str(path), patience=patience) as append:
            if before is not None:
                before()
            append(events or [EVENT])

    with pytest.raises(LoreError) as caught:
        attempt()
    return f"{caught.value.message} ({caught.value.hint})"


def test_events_become_lines(log):
    with appending(str(log)) as append:
        append([EVENT, Knowledge(op="remove", id="x")])
    assert log.read_bytes() == session() + LINE + b'{"kind":"knowledge","id":"x","op":"remove"}\n'


def test_no_events_touch_nothing(log):
    os.utime(log, ns=(1, 1))
    with appending(str(log)) as append:
        append([])
    assert (log.read_bytes(), log.stat().st_mtime_ns) == (session(), 1)


def test_last_line_without_end_is_ended(log):
    log.write_bytes(session()[:-1])
    with appending(str(log)) as append:
        append([EVENT])
    assert log.read_bytes() == session() + LINE


@pytest.mark.parametrize("size", [20, 5000, 100_000])
def test_torn_last_line_stays_and_is_ended(log, size):
    torn = b'{"kind":"append","item":"' + b"x" * size
    log.write_bytes(session() + torn)
    with appending(str(log)) as append:
        append([EVENT])
    assert log.read_bytes() == session() + torn + b"\n" + LINE


@pytest.mark.parametrize("data", [b"{}\n", b"", b'{"model":"m","messages":[]}\n', b"\x00\x01", b'{"type":"user"}\n'])
def test_other_files_are_never_written(log, data):
    log.write_bytes(data)
    message = refused(log)
    assert "is not a lore log" in message
    assert "lore convert" in message
    assert log.read_bytes() == data


def test_standard_input_cannot_be_written_to():
    assert "standard input cannot be written to" in refused("-")


@pytest.mark.parametrize("name", ["nothing.jsonl", "folder", "pipe", "nu\0l", "dangling"])
def test_missing_or_special_file_is_refused(name, desk):
    (desk / "folder").mkdir()
    os.mkfifo("pipe")
    Path("dangling").symlink_to("nothing")
    assert refused(name)


def test_symbolic_link_is_followed_and_kept(log):
    Path("link").symlink_to(log.name)
    with appending("link") as append:
        append([EVENT])
    assert Path("link").is_symlink()
    assert log.read_bytes() == session() + LINE


def test_unwritable_log_is_an_error(log, monkeypatch):
    opened = os.open

    def refuse(path: str, flags: int, *args: int) -> int:
        if flags & os.O_RDWR:
            raise PermissionError(13, "Permission denied")
        return opened(path, flags, *args)

    monkeypatch.setattr(os, "open", refuse)
    assert "cannot write to s.jsonl: permission denied" in refused(log)


@pytest.mark.parametrize("written", [0, 1, 10, len(LINE) - 1])
def test_full_disk_leaves_the_log_unchanged(log, monkeypatch, written):
    real = os.write
    monkeypatch.setattr(os, "write", lambda where, data: real(where, data[:written]))
    assert "no space left on device (the log is as it was)" in refused(log)
    assert log.read_bytes() == session()


def test_unlocked_write_is_not_cut_off(log, monkeypatch):
    real = os.write

    def short(where, data):
        written = real(where, data[:10])
        with log.open("ab") as other:
            other.write(b"other")
        return written

    monkeypatch.setattr(os, "write", short)
    assert "holds part of a record" in refused(log)
    assert log.read_bytes() == session() + LINE[:10] + b"other"


def test_failed_fsync_leaves_the_log_unchanged(log, monkeypatch):
    def fail(_: int) -> None:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(os, "fsync", fail)
    assert "input/output error" in refused(log)
    assert log.read_bytes() == session()


def test_file_size_limit_leaves_the_log_unchanged(log):
    code = (
        "import resource, signal, sys; signal.signal(signal.SIGXFSZ, signal.SIG_IGN);"
        f"resource.setrlimit(resource.RLIMIT_FSIZE, ({len(session()) + 10}, {len(session()) + 10}));"
        "from lore.commands.main import main; sys.exit("
        "main(['knowledge', 'add', 's.jsonl', 'abcdef', '--content', 'x']))"
    )
    # without -B the limit cuts the byte code that a first import caches, and the checkout is broken from then on
    process = subprocess.run([sys.executable, "-B", "-c", code], capture_output=True, check=False, timeout=60)
    assert process.returncode == 2
    assert b"cannot write to s.jsonl" in process.stderr
    assert log.read_bytes() == session()


def test_log_that_grew_meanwhile_is_not_written(log):
    more = LINE * 2

    def grow():
        with log.open("ab") as file:
            file.write(more)

    assert "was written to while it was read (nothing was written" in refused(log, before=grow)
    assert log.read_bytes() == session() + more


def test_log_that_was_replaced_is_not_written(log):
    def replace():
        Path("new").write_bytes(session())
        os.replace("new", log)

    assert "was replaced while it was read" in refused(log, before=replace)
    assert log.read_bytes() == session()


def test_log_that_vanished_is_an_error(log):
    assert "cannot read s.jsonl" in refused(log, before=log.unlink)


def test_record_that_is_too_long_is_refused(log, monkeypatch):
    monkeypatch.setattr(module, "RECORD_BYTES", 20)
    assert "no reader accepts it" in refused(log)
    assert log.read_bytes() == session()


def test_held_lock_is_an_error_after_a_while(log):
    with appending(str(log)):
        assert "another writer holds s.jsonl" in refused(log, patience=0.05)
    assert log.read_bytes() == session()


def test_file_system_without_locks_is_written_to(log, monkeypatch):
    def without(descriptor, operation):
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr("fcntl.flock", without)
    with appending(str(log)) as append:
        append([EVENT])
    assert log.read_bytes() == session() + LINE


def test_parallel_writers_lose_nothing(log):
    """Each reads the entries and adds one; none adds an entry that another has added."""

    def numbered_text(number):
        return f"{number} " + "x" * 3000  # of the same words under two ids the second would be no news

    commands = [
        [
            sys.executable,
            "-m",
            "lore",
            "knowledge",
            "add",
            "s.jsonl",
            f"entry{number % 2}",
            "--content",
            numbered_text(number % 2),
        ]
        for number in range(4)
    ]
    running = [subprocess.Popen(process, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) for process in commands]
    assert [process.wait(60) for process in running] == [0] * 4
    added = log.read_bytes().removeprefix(session()).splitlines()
    assert sorted(added) == [encode(Knowledge(op="add", id=f"entry{n}", content=numbered_text(n))) for n in range(2)]
