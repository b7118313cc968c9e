"""Which models take a system message in mid-conversation."""

from __future__ import annotations

import re

import pytest

from lore.prompt.layout import ROWS, takes_system_messages


@pytest.mark.parametrize(
    ("model", "dialect", "takes"),
    [
        ("claude-opus-5", "anthropic", True),
        ("claude-opus-4-8-20260101", "anthropic", True),
        ("anthropic/claude-opus-5", "anthropic", True),
        ("claude-opus-4-6", "anthropic", False),
        ("claude-sonnet-5", "anthropic", False),
        ("claude-opus-5", "openai-chat", False),
        ("gpt-4o", "openai-chat", True),
        ("o3-mini", "openai-chat", True),
        ("gpt-4o", "anthropic", False),
        ("qwen3", "openai-chat", False),
        (None, "openai-chat", False),
    ],
)
def test_only_models_with_a_row_take_one(model, dialect, takes):
    assert takes_system_messages(model, dialect) is takes


def test_every_row_is_dated_and_has_a_source():
    for row in ROWS:
        assert re.fullmatch(r"20\d\d-\d\d", row.since)
        assert row.source
