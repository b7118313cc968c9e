"""Lifetimes of what was written, and whether a pause was longer."""

from __future__ import annotations

import msgspec
import pytest

from lore.cache.reach import FIVE_MINUTES, GRACE, ONE_HOUR, Expiry, expiry, lifetime
from lore.model.events import Billed
from model.making import body, parsed, turn

ANTHROPIC = parsed(body("x"))
CHAT = parsed(body("x"), "openai-chat")


@pytest.mark.parametrize(
    ("usage", "prompt", "before", "lives"),
    [
        (None, ANTHROPIC, None, None),
        (None, ANTHROPIC, ONE_HOUR, ONE_HOUR),
        (Billed(write_1h_tokens=5, write_5m_tokens=5), ANTHROPIC, None, ONE_HOUR),
        (Billed(write_5m_tokens=5, write_1h_tokens=0), ANTHROPIC, ONE_HOUR, FIVE_MINUTES),
        (Billed(write_tokens=5), ANTHROPIC, None, FIVE_MINUTES),
        (Billed(write_tokens=5), msgspec.structs.replace(CHAT, model="gpt-5"), None, None),
        (Billed(write_tokens=5), msgspec.structs.replace(CHAT, model="proxy/claude-x"), None, FIVE_MINUTES),
        (Billed(write_tokens=0, read_tokens=9), ANTHROPIC, ONE_HOUR, ONE_HOUR),
        (Billed(read_tokens=9), CHAT, None, None),
    ],
)
def test_the_latest_write_that_was_billed_says_how_long_it_lives(usage, prompt, before, lives):
    assert lifetime(turn(prompt, usage=usage), before) == lives


@pytest.mark.parametrize(
    ("answered", "at", "asked", "lives", "found"),
    [
        (None, 0.0, 301.0, FIVE_MINUTES, None),
        (None, 0.0, FIVE_MINUTES * GRACE + 1, FIVE_MINUTES, Expiry(307.0, FIVE_MINUTES)),
        (100.0, 0.0, 400.0, FIVE_MINUTES, None),
        (100.0, 0.0, 500.0, FIVE_MINUTES, Expiry(400.0, FIVE_MINUTES)),
        (None, 0.0, 400.0, ONE_HOUR, None),
        (None, None, 9999.0, FIVE_MINUTES, None),
        (None, 0.0, None, FIVE_MINUTES, None),
        (None, 0.0, 9999.0, None, None),
        (None, 100.0, 0.0, FIVE_MINUTES, None),
    ],
)
def test_a_pause_longer_than_the_lifetime_with_its_grace_is_an_expiry(answered, at, asked, lives, found):
    left = turn(ANTHROPIC, asked=at, answered=answered)
    assert expiry(left, turn(ANTHROPIC, 2, asked=asked), lives) == found
