"""Times of requests in `lore fold`."""

import pytest

from cli.running import lore
from pages.sessions import growing, session

pytestmark = pytest.mark.usefixtures("desk", "state")


def test_fold_omits_duration_without_two_times():
    path = session("s.jsonl", growing(2))
    out = lore("fold", path).out
    assert "turn 1     2026-01-01T00:00:00.000Z, 0 read" in out
    assert "answered after" not in out
