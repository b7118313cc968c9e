"""Files that grow, shrink, are replaced or vanish while lore reads them: the part that was read is judged.

`corpus.pieces` reads a file in pieces; something happens to the file after the first one.
"""

import errno
import json
import os
import sys
import threading

import pytest

from helpers.matrix import crossed
from hostile.making import TWO, USER, assert_refused
from lore.errors import LoreError
from lore.files import WholeFile
from lore.recording import corpus, filesystem

COMMANDS = (("check", "--json"), ("fold", "--json"), ("assemble",), ("diff-prefix", "--json", "--no-tokens"))
LOG = TWO + b"".join(USER % number for number in range(3, 12_000))  # three pieces


@pytest.fixture
def then(monkeypatch):
    """Have something done to a file once its first piece was read, and once more of it was asked for."""
    read = corpus.LocalFile.pieces

    def arrange(happen):
        def pieces(self, size=corpus.PIECE):
            done = size != corpus.HEAD  # a look ahead reads other pieces
            for piece in read(self, size):
                yield piece
                if not done:
                    done = True
                    happen()

        monkeypatch.setattr(corpus.LocalFile, "pieces", pieces)

    return arrange


def log(desk):
    """Write a log of several pieces; return its path."""
    (desk / "log").write_bytes(LOG)
    assert len(LOG) > 2 * corpus.HEAD
    return desk / "log"


def grow(path):
    with path.open("ab") as file:
        file.write(USER % 99_999)


def cut(path):
    """Cut it inside a line after the current position."""
    os.truncate(path, corpus.HEAD + 30_001)


def rotate(path):
    path.rename(path.with_name("old"))
    path.write_bytes(b"something else\n")


HAPPENINGS = {
    "grow": grow,
    "shrink before the current position": lambda path: os.truncate(path, 1000),
    "shrink after the current position": cut,
    "empty": lambda path: os.truncate(path, 0),
    "rotate": rotate,
    "rewrite": lambda path: path.write_bytes(bytes(range(256)) * (len(LOG) // 256)),
}
if sys.platform != "win32":
    HAPPENINGS["vanish"] = os.unlink


@crossed("name, command", HAPPENINGS, COMMANDS)
def test_file_changing_while_read_stops_no_command(lore, desk, then, name, command):
    path = log(desk)
    then(lambda: HAPPENINGS[name](path))
    ended = lore(*command, "log")
    assert ended.code in (0, 1, 3)
    if command[0] == "check":
        found = json.loads(ended.out)
        assert found["summary"]["turns"] == 2
        assert {one["code"] for one in found["problems"]} <= {"LORE201", "LORE202"}
        assert all(one["line"] and one["byte"] is not None for one in found["problems"])


def test_torn_end_of_shrinking_file_has_a_place(lore, desk, then):
    path = log(desk)
    then(lambda: cut(path))
    (problem,) = json.loads(lore("check", "log", "--json").out)["problems"]
    whole = LOG[: corpus.HEAD + 30_001]
    assert problem["code"] == "LORE202"
    assert (problem["line"], problem["byte"]) == (whole.count(b"\n") + 1, whole.rfind(b"\n") + 1)


def fails(desk, then):
    """Make reading fail after the first piece, as it does where a disk is taken out."""

    def fail():
        raise corpus.unreadable("log", OSError(errno.EIO, "Input/output error"))

    then(fail)


@pytest.mark.parametrize("command", COMMANDS, ids=lambda words: words[0])
def test_read_error_in_mid_file_is_one_line(lore, desk, then, command):
    log(desk)
    fails(desk, then)
    ended = lore(*command, "log")
    assert ended.code == 2
    assert ended.err.splitlines()[0] == "error: cannot read log: input/output error"


def test_read_error_of_only_file_exits_2(lore, desk, then):
    log(desk)
    fails(desk, then)
    ended = lore("check", ".", "--json")
    assert ended.code == 2
    assert [one["code"] for one in json.loads(ended.out)["problems"]] == ["LORE215"]


def test_file_vanishing_from_folder_is_counted(lore, desk, monkeypatch):
    for name in ("a", "b", "c"):
        (desk / name).write_bytes(TWO.replace(b"{", b'{"own": "%s", ' % name.encode(), 1))  # copies would count once
    listed = corpus.files_below

    def and_then_gone(folder, *hooks):
        for file in listed(folder, *hooks):
            if file.endswith("b"):
                os.unlink(file)
            yield file

    monkeypatch.setattr(corpus, "files_below", and_then_gone)
    ended = lore("check", ".", "--json")
    found = json.loads(ended.out)
    assert (ended.code, found["summary"]["files"]) == (3, 2)
    assert [one["code"] for one in found["problems"]] == ["LORE215"]


def test_shrinking_files_are_compared_to_their_end(desk, monkeypatch):
    size = 4 * corpus.HEAD
    for name in ("left", "right"):
        (desk / name).write_bytes(b"x" * size)
    read, calls = WholeFile.read, []

    def and_then_cut(self, size=-1, /):
        calls.append(1)
        if len(calls) == 3:
            os.truncate("right", corpus.HEAD + 10)
        return read(self, size)

    monkeypatch.setattr(WholeFile, "read", and_then_cut)
    *_, common = corpus.common_length("left", "right")
    assert common == corpus.HEAD + 10


def test_file_growing_faster_than_reading_ends(desk, monkeypatch):
    path = log(desk)
    read = WholeFile.read

    def read_and_grow(self, size=-1, /):
        with path.open("ab") as file:
            file.write(LOG)
        return read(self, size)

    monkeypatch.setattr(WholeFile, "read", read_and_grow)
    assert b"".join(corpus.pieces("log")) == LOG
    size = path.stat().st_size
    assert (sum(map(len, corpus.open_head("log").data)), path.stat().st_size > size) == (size, True)


def test_growing_files_are_compared_to_opening_size(desk, monkeypatch):
    for name in ("left", "right"):
        (desk / name).write_bytes(b"x" * 4 * corpus.HEAD)
    read, opened = WholeFile.read, set()

    def grow_and_read(self, size=-1, /):
        opened.add(self.fileno())
        for name in ("left", "right") if len(opened) == 2 else ():
            with open(name, "ab") as more:
                more.write(b"x" * corpus.HEAD)
        return read(self, size)

    monkeypatch.setattr(WholeFile, "read", grow_and_read)
    assert corpus.common_length("left", "right") == (4 * corpus.HEAD,) * 3


def test_growing_member_of_a_folder_ends(desk):
    (desk / "data").write_bytes(b"0123456789")
    with filesystem.open_file("data") as file:
        begun = file.read(4)
        with open("data", "ab") as more:
            more.write(b"more")
        assert (begun + file.read(), file.seek(-3, os.SEEK_END), file.readline(), file.read()) == (
            b"0123456789", 7, b"789", b"",
        )  # fmt: skip
    assert filesystem.small_file("data") == b"0123456789more"


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no named pipes here")
@pytest.mark.parametrize(
    "command",
    [*COMMANDS, ("lint",), ("simulate",), ("convert", "--to", "lore"), ("compact", "--dry-run"), ("report",),
     ("diff-prefix", "log"), ("check", "log", "--config"), ("check", "log", "--baseline"),
     ("assemble", "log", "--system"), ("compact", "log", "--dry-run", "--policy")],
    ids=" ".join,
)  # fmt: skip
def test_named_pipe_is_refused_without_waiting(lore, desk, command):
    os.mkfifo(desk / "pipe")
    (desk / "log").write_bytes(TWO)
    ended = lore(*command, "pipe")
    assert_refused(ended)
    assert ended.err.startswith("error: pipe is a named pipe, not a file\n")


@pytest.mark.skipif(not os.path.isdir("/dev/fd"), reason="no names of open files here")
@pytest.mark.parametrize("command", COMMANDS, ids=lambda words: words[0])
def test_pipe_opened_by_shell_is_read_whole(lore, command):
    reading, writing = os.pipe()

    def fill():
        with open(writing, "wb", buffering=0) as pipe:
            pipe.writelines(TWO[start : start + 11] for start in range(0, len(TWO), 11))

    writer = threading.Thread(target=fill)
    writer.start()
    ended = lore(*command, f"/dev/fd/{reading}")
    writer.join()
    os.close(reading)
    assert ended.code == 0


def test_name_that_became_a_folder_is_refused(desk):
    (desk / "log").mkdir()
    with pytest.raises(LoreError, match="is not a file"):
        next(corpus.pieces("log"))
