"""A file that is being written: bytes come once, and a file that is another one now is noticed."""

import os

import pytest

from helpers.waiting import Script, add, put, rotate
from lore.recording.tailing import follow_file


def tail(path, *actions):
    """Return the bytes between two looks joined, and what happened to the file."""
    found = []
    said = []
    for one in follow_file(str(path), Script(*actions), said.append):
        found += [text.partition("; it is read")[0] for text in said]
        said.clear()
        if one and found and isinstance(found[-1], bytes):
            found[-1] += one
        else:
            found.append(one or "-")
    return [one for one in found if one != "-"]


GONE = "is gone; waiting for it"
REPLACED = "was replaced by another file"


@pytest.mark.parametrize(("actions", "found"), [
    (lambda log: [add(log, b"two"), lambda: None, add(log, b"three")], [b"two", b"three"]),
    (lambda log: [put(log, b"new")], ["was truncated", b"new"]),
    (lambda log: [put(log, b""), add(log, b"more")], ["was truncated", b"more"]),
    (lambda log: [put(log, b"after that")], ["was rewritten", b"after that"]),
    (lambda log: [rotate(log, b"before and more")], [REPLACED, b"before and more"]),
    (lambda log: [log.unlink, lambda: None, add(log, b"new")], [GONE, REPLACED, b"new"]),
], ids=["added", "shorter", "emptied", "longer", "renamed over", "gone"])  # fmt: skip
def test_changed_file_is_read_on_or_anew(tmp_path, actions, found):
    log = tmp_path / "log"
    log.write_bytes(b"before")
    assert tail(log, *actions(log)) == [b"before", *found]


def test_no_byte_is_read_twice(tmp_path, monkeypatch):
    log = tmp_path / "log"
    log.write_bytes(b"x" * 100_000)
    monkeypatch.setattr("lore.recording.tailing.KNOWN", 16)
    followed = follow_file(str(log), Script(*[add(log, b"y" * 10) for _ in range(50)]), print)
    assert sum(len(one) for one in followed if one) == 100_500


def test_what_came_just_before_a_rotation_is_read(tmp_path):
    log = tmp_path / "log"
    log.write_bytes(b"before")

    def both():
        add(log, b" it")()
        rotate(log, b"new")()

    assert tail(log, both) == [b"before", b" it", "was replaced by another file", b"new"]


def test_file_moved_away_and_back_continues(tmp_path):
    log, away = tmp_path / "log", tmp_path / "away"
    log.write_bytes(b"before")
    found = tail(log, lambda: log.rename(away), add(away, b" it"), lambda: away.rename(log))
    assert found == [b"before", "is gone; waiting for it", b" it", "is back"]


def test_following_a_missing_file_is_an_error(tmp_path):
    with pytest.raises(FileNotFoundError):
        next(follow_file(str(tmp_path / "none"), Script(), print))


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no pipes here")
def test_pipe_instead_of_a_file_is_an_error(tmp_path):
    log = tmp_path / "log"
    log.write_bytes(b"before")

    def replace():
        log.unlink()
        os.mkfifo(log)

    with pytest.raises(OSError, match="not a regular file"):
        tail(log, replace)
