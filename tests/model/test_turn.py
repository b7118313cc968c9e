"""Turns whose prompts are not made yet."""

from __future__ import annotations

import pytest

from lore.model.state import Entry
from lore.model.turn import Prompt, PromptBasis, Turn, TurnPrompt
from lore.model.vector import Vector
from model.making import append, user


def entries(*groups):
    return Vector([Entry(append(user(f"u{place}")).item, 1, group) for place, group in enumerate(groups)])


def turn(timeline):
    prompt = Prompt("anthropic", "reconstructed")
    return Turn("main", 1, lambda: TurnPrompt(prompt), basis=PromptBasis(timeline, "anthropic"))


@pytest.mark.parametrize(
    ("left", "right", "extends"),
    [
        (entries(1, 2), entries(1, 2, 3), True),
        (entries(1, 2), entries(1, 2), True),
        (entries(), entries(1), True),
        (entries(1, 2), entries(1, 2, 2), False),  # the last response has one more item
        (entries(1, 2, 3), entries(1, 2), False),
        (entries(1, 2), entries(1, 3, 4), False),
    ],
)
def test_turn_extends_another_that_ends_with_a_whole_response(left, right, extends):
    assert turn(right).extends(turn(left)) is extends
