"""A capture that is being written: its bytes come once."""

import pytest

from helpers.waiting import Script, add
from lore.errors import LoreError
from lore_plugins.record.live import growing_capture


def test_growing_capture_yields_bytes_once(tmp_path):
    log = tmp_path / "log"
    log.write_bytes(b"before")
    pieces = growing_capture(str(log), Script(add(log, b" two"), lambda: None, add(log, b" three")))
    assert b"".join(pieces) == b"before two three"


def test_missing_capture_is_an_error(tmp_path):
    with pytest.raises(LoreError, match="no such file"):
        next(growing_capture(str(tmp_path / "none"), Script()))
