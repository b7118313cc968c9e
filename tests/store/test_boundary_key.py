"""The key of boundary lines: made once, for this user's eyes, and whole."""

from __future__ import annotations

import os
import stat

import pytest

from lore.errors import LoreError
from lore.store.locks import KEY_BYTES, boundary_key


def test_a_key_is_made_once_and_nobody_else_reads_it(tmp_path):
    folder = tmp_path / "state"
    key = boundary_key(folder)
    assert len(key) == KEY_BYTES
    assert boundary_key(folder) == key
    assert boundary_key(tmp_path / "another") != key
    (file,) = folder.iterdir()
    if os.name == "posix":
        assert stat.S_IMODE(file.stat().st_mode) == 0o600


def test_a_key_is_there_whole_or_not_at_all(tmp_path, monkeypatch):
    """It was made empty and written then: who came in between, or after a crash, found a key of no bytes for ever."""

    def crash(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr("secrets.token_bytes", crash)
        with pytest.raises(KeyboardInterrupt):
            boundary_key(tmp_path)
    assert len(boundary_key(tmp_path)) == KEY_BYTES


def test_a_file_that_is_no_key_is_one_line_with_a_hint(tmp_path):
    (tmp_path / "boundary.key").write_bytes(b"short")
    tmp_path.chmod(0o700)
    with pytest.raises(LoreError, match="holds no key of 32 bytes") as caught:
        boundary_key(tmp_path)
    assert caught.value.hint == "delete it: another one is made"
