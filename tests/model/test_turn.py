"""Turns whose prompts are made when they are looked at: what is known of them before."""

from __future__ import annotations

import pytest

from lore.model.state import Entry
from lore.model.turn import Basis, Prompt, Turn, TurnPrompt
from lore.model.vector import Vector
from model.making import append, user


def entries(*groups):
    return Vector([Entry(append(user(f"u{place}")).item, 1, group) for place, group in enumerate(groups)])


def turn(timeline, *rest):
    return Turn(
        "main", 1, lambda: TurnPrompt(Prompt("anthropic", "reconstructed")), basis=Basis(timeline, "anthropic", rest)
    )


@pytest.mark.parametrize(
    ("left", "right", "extends"),
    [
        (entries(1, 2), entries(1, 2, 3), True),
        (entries(1, 2), entries(1, 2), True),
        (entries(), entries(1), True),
        (entries(1, 2), entries(1, 2, 2), False),  # the last response went on
        (entries(1, 2, 3), entries(1, 2), False),
        (entries(1, 2), entries(1, 3, 4), False),
    ],
)
def test_a_turn_extends_another_whose_whole_groups_it_begins_with(left, right, extends):
    assert turn(right).extends(turn(left)) is extends
