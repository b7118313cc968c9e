"""A capture that is being written: bytes come once, and a file that is another one now is noticed."""

import pytest

from helpers.waiting import Script, add, put, rotate
from lore.errors import LoreError
from lore_plugins.record.live import growing_capture


def read(path, *actions):
    """Return the bytes of all files that have the name, one after another."""
    return b"".join(growing_capture(str(path), Script(*actions)))


@pytest.mark.parametrize(("actions", "found"), [
    (lambda log: [add(log, b" two"), lambda: None, add(log, b" three")], b"before two three"),
    (lambda log: [put(log, b"new")], b"beforenew"),
    (lambda log: [put(log, b""), add(log, b"more")], b"beforemore"),
    (lambda log: [rotate(log, b"after")], b"beforeafter"),
    (lambda log: [log.unlink, lambda: None, add(log, b"new")], b"beforenew"),
], ids=["added", "shorter", "emptied", "replaced", "gone"])  # fmt: skip
def test_growing_capture_yields_each_file_once(tmp_path, actions, found):
    log = tmp_path / "log"
    log.write_bytes(b"before")
    assert read(log, *actions(log)) == found


def test_bytes_written_just_before_a_rotation_are_read(tmp_path):
    log = tmp_path / "log"
    log.write_bytes(b"before")

    def both():
        add(log, b" it")()
        rotate(log, b"new")()

    assert read(log, both) == b"before itnew"


def test_capture_moved_away_and_back_continues(tmp_path):
    log, away = tmp_path / "log", tmp_path / "away"
    log.write_bytes(b"before")
    assert read(log, lambda: log.rename(away), add(away, b" it"), lambda: away.rename(log)) == b"before it"


def test_missing_capture_is_an_error_when_waiting_ends(tmp_path):
    with pytest.raises(LoreError, match="no such file"):
        read(tmp_path / "none")
