"""Usage as it would be with another lifetime."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from lore.cache.predictor import with_lifetime
from lore.model.events import Usage
from lore.model.turn import Prompt, Turn

BILL = Usage(3, 0, 22_500, 10, 22_500, 0)


def seen(pause=None, lifetime=300.0):
    return SimpleNamespace(pause=pause, lifetime=lifetime)


def billed(usage):
    return Turn("main", 1, Prompt("anthropic", "reconstructed"), usage=usage)


@pytest.mark.parametrize(
    ("pause", "why", "read"), [(3400.0, "goes-on", 22_000), (60.0, "goes-on", 0), (None, "goes-on", 0),
                               (4000.0, "goes-on", 0), (3400.0, "compaction", 0)],
)  # fmt: skip
def test_loss_that_the_lifetime_outlives_counts_as_read(pause, why, read):
    """Otherwise the read after an expiry was learned as the size of the head."""
    found = with_lifetime(billed(BILL), 3600.0, 22_000, seen(pause), continues=why == "goes-on").usage
    assert (found.read_tokens, found.write_tokens) == (read, 22_500 - read)
    assert (found.write_1h_tokens, found.write_5m_tokens) == (found.write_tokens, 0)


@pytest.mark.parametrize("pause", [60.0, 3400.0])
def test_usage_with_this_lifetime_is_unchanged(pause):
    """Otherwise a drop with another cause counted as read: 5 of 29 sessions with one-hour writes gained by it."""
    turn = billed(Usage(3, 0, 22_500, 10, 0, 22_500))
    assert with_lifetime(turn, 3600.0, 22_000, seen(pause, lifetime=3600.0), continues=True) is turn


def test_unsplit_writes_have_the_default_lifetime():
    turn = billed(Usage(3, 20_000, 500, 10))
    assert with_lifetime(turn, 300.0, 22_000, seen(), continues=True) is turn
    assert with_lifetime(turn, 3600.0, 22_000, seen(), continues=True).usage.write_1h_tokens == 500
