"""Locks on files as on Windows: the calls made there, with a fake of its library."""

import ctypes
import os
import sys
from types import SimpleNamespace

import pytest

from lore.files import append, lock_on_windows, try_lock

GOOD_HANDLE = 4711
HELD, NO_LOCKS = 33, 50  # ERROR_LOCK_VIOLATION, ERROR_NOT_SUPPORTED


class LockFileEx:
    """A function of a foreign library: notes its arguments and returns scripted answers."""

    def __init__(self, answer):
        self.answer, self.calls = answer, []

    def __call__(self, handle, flags, reserved, low, high, region):
        self.calls.append((handle, flags, reserved, low, high, region.offset, region.offset_high))
        return self.answer


@pytest.fixture
def windows(monkeypatch):
    """Make a Windows whose locks answer with an error code, or with none."""

    def made(error=0):
        function = LockFileEx(int(not error))
        library = SimpleNamespace(LockFileEx=function)
        monkeypatch.setattr(ctypes, "WinDLL", lambda name, use_last_error: library, raising=False)
        monkeypatch.setattr(ctypes, "get_last_error", lambda: error, raising=False)
        monkeypatch.setitem(sys.modules, "msvcrt", SimpleNamespace(get_osfhandle=lambda descriptor: GOOD_HANDLE))
        return function

    return made


def test_windows_lock_covers_a_byte_after_the_file(windows):
    """A lock keeps all others from reading the locked bytes, so the bytes of a log must stay outside."""
    function = windows()
    lock_on_windows(0)
    assert function.calls == [(GOOD_HANDLE, 3, 0, 1, 0, 0, 1 << 30)]


def test_held_lock_differs_from_missing_lock_support(windows):
    windows(HELD)
    with pytest.raises(BlockingIOError):
        lock_on_windows(0)
    windows(NO_LOCKS)
    with pytest.raises(OSError, match="LockFileEx") as refused:
        lock_on_windows(0)
    assert not isinstance(refused.value, BlockingIOError)


def test_lock_keeps_a_second_writer_out(tmp_path):
    path = tmp_path / "log"
    path.touch()
    first, second = (os.open(path, os.O_RDWR) for _ in range(2))
    try:
        assert try_lock(first)
        assert not try_lock(second)
        os.close(first)
        assert try_lock(second)
    finally:
        os.close(second)


def test_interrupted_write_of_record_leaves_the_file(tmp_path, monkeypatch):
    """The written part stayed in the file, because its size is known only once the call returns."""
    path, write = tmp_path / "log", os.write
    path.write_bytes(b"one\n")

    def interrupted(descriptor, data):
        write(descriptor, data)
        raise KeyboardInterrupt

    descriptor = os.open(path, os.O_RDWR)
    monkeypatch.setattr(os, "write", interrupted)
    with pytest.raises(KeyboardInterrupt):
        append(descriptor, b"two\n", 4)
    monkeypatch.undo()
    os.close(descriptor)
    assert path.read_bytes() == b"one\n"
