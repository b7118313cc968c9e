"""The file of a capture: whole records, torn ends, one recorder, disk errors."""

import base64
import errno
import json
import os

import pytest

from lore.errors import LoreError
from lore_plugins.record import journal
from lore_plugins.record.journal import Journal, line_of

OPENING = b'{"lore_capture":1}\n'


def test_each_record_is_one_synchronised_write(tmp_path, monkeypatch):
    written, synchronised = [], []
    write, fsync = os.write, os.fsync
    monkeypatch.setattr(journal.os, "write", lambda file, data: written.append(bytes(data)) or write(file, data))
    monkeypatch.setattr(journal.os, "fsync", lambda file: synchronised.append(len(written)) or fsync(file))
    file = Journal(str(tmp_path / "c.jsonl"), print)
    assert file.append(OPENING)
    assert file.append(b'{"a":1}\n')
    file.close()
    assert written == [OPENING, b'{"a":1}\n']
    assert synchronised[-1] == 2
    assert (tmp_path / "c.jsonl").stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("torn", [b'{"call":"x","body":"' + b"y" * 200_000, b"{", b""])
def test_unfinished_last_record_is_cut_off(tmp_path, torn):
    path = tmp_path / "c.jsonl"
    path.write_bytes(OPENING + b'{"a":1}\n' + torn)
    file = Journal(str(path), print)
    assert (file.torn, file.end) == (len(torn), len(OPENING) + 8)
    file.append(b'{"b":2}\n')
    file.close()
    assert path.read_bytes() == OPENING + b'{"a":1}\n{"b":2}\n'


@pytest.mark.parametrize("torn", [b"", b"{", OPENING[:9], OPENING[:-1]])
def test_file_with_a_torn_first_record_is_restarted(tmp_path, torn):
    path = tmp_path / "c.jsonl"
    path.write_bytes(torn)
    file = Journal(str(path), print)
    file.append(OPENING)
    file.close()
    assert path.read_bytes() == OPENING


@pytest.mark.parametrize(
    "content", [b"print('hello')\n", b'{"kind":"session_started"}\n', b'{"request":{}}', b"\x00" * 9]
)
def test_file_that_is_no_capture_is_refused(tmp_path, content):
    path = tmp_path / "agent.py"
    path.write_bytes(content)
    with pytest.raises(LoreError, match="not written by lore record"):
        Journal(str(path), print)
    assert path.read_bytes() == content


def test_second_recorder_of_a_file_is_refused(tmp_path):
    path = str(tmp_path / "c.jsonl")
    first = Journal(path, print)
    with pytest.raises(LoreError, match="another lore record"):
        Journal(path, print)
    first.close()
    Journal(path, print).close()


def test_folder_or_missing_place_is_refused(tmp_path):
    for path in (tmp_path, tmp_path / "no" / "c.jsonl", "a\0b"):
        with pytest.raises(LoreError, match="cannot write"):
            Journal(str(path), print)


def test_refused_write_leaves_no_half_record(tmp_path, monkeypatch):
    path = tmp_path / "c.jsonl"
    file = Journal(str(path), print)
    file.append(OPENING)
    write, room = os.write, [5]

    def full(descriptor, data):
        if not room:
            raise OSError(errno.ENOSPC, "No space left on device")
        return write(descriptor, data[: room.pop()])

    with monkeypatch.context() as patched:
        patched.setattr(journal.os, "write", full)
        assert not file.append(b'{"lost":1}\n')
    assert file.failed == "no space left on device"
    assert path.read_bytes() == OPENING
    assert file.append(b'{"kept":1}\n')
    file.close()
    assert path.read_bytes() == OPENING + b'{"kept":1}\n'


def test_moved_file_is_written_again_once_it_is_back(tmp_path):
    path, moved, told = tmp_path / "c.jsonl", tmp_path / "c.jsonl.1", []
    file = Journal(str(path), told.append)
    file.open_run(OPENING)
    assert file.append(b'{"a":1}\n')
    path.rename(moved)
    assert not file.append(b'{"a":2}\n')
    path.write_bytes(b"notes of mine\n")
    assert not file.append(b'{"a":3}\n')
    assert file.failed == "it was moved, removed or emptied"
    moved.replace(path)
    assert file.append(b'{"b":1}\n')
    file.close()
    assert path.read_bytes() == OPENING + b'{"a":1}\n{"b":1}\n'
    assert ["requests are still forwarded" in text for text in told] == [True, False]


@pytest.mark.parametrize("empty", [lambda path: path.write_bytes(b""), lambda path: path.unlink()])
def test_emptied_or_removed_file_takes_no_record(tmp_path, empty):
    path = tmp_path / "c.jsonl"
    file = Journal(str(path), print)
    file.open_run(OPENING)
    file.append(b'{"a":1}\n')
    empty(path)
    assert not file.append(b'{"b":1}\n')
    assert file.failed
    file.close()
    assert not path.exists() or path.read_bytes() == b""


def test_disk_full_at_start_is_an_error(tmp_path):
    if not os.path.exists("/dev/full"):
        pytest.skip("no /dev/full")
    file = Journal("/dev/full", print)
    with pytest.raises(LoreError, match="no space left on device"):
        file.open_run(OPENING)
    file.close()


@pytest.mark.parametrize("before", [None, b"", b'{"lore_capture":1}\n{"a":1}\n'])
def test_run_without_records_changes_no_file(before, tmp_path):
    path = tmp_path / "c.jsonl"
    if before is not None:
        path.write_bytes(before)
    journal = Journal(str(path), print)
    journal.open_run(b'{"lore_capture":1}\n')
    assert path.read_bytes() == (before or b"") + b'{"lore_capture":1}\n'
    journal.close()
    assert (path.read_bytes() if path.exists() else None) == before
    assert journal.has_file == (before is not None)


def test_written_body_is_read_back_exactly():
    for body in (b"", b"\x00\x1f", '"\\\u2028é🙂'.encode(), b"\xed\xa0\x80", bytes(range(256))):
        record = json.loads(line_of({}, body))
        read = base64.b64decode(record["base64"]) if "base64" in record else record.get("body", "").encode()
        assert read == body
