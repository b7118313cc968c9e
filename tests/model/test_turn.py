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


def test_another_head_is_no_extension():
    assert not turn(entries(1, 2), "m-2").extends(turn(entries(1), "m-1"))


def test_a_prompt_is_made_once():
    made = []
    one = Turn("main", 1, lambda: made.append(1) or TurnPrompt(Prompt("anthropic", "wire")))
    assert one.prompt is one.prompt
    assert made == [1]
