"""Calls and results, followed part by part, against a look at all of them."""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest

from helpers.work import calls
from lore.judge.laws import ToolPairs, ToolPart


def orphan(parts: list[ToolPart], last: int) -> ToolPart | None:
    """Look through all parts, as it was done at each turn."""
    waiting: Counter[str] = Counter()
    latest: dict[str, ToolPart] = {}
    for part in parts:
        if not part.answers:
            waiting[part.name] += 1
            latest[part.name] = part
        elif waiting[part.name] <= 0:
            return part
        else:
            waiting[part.name] -= 1
    ends = {part.name for part in parts if part.position >= last}
    return next((latest[name] for name, number in waiting.items() if number > 0 and name not in ends), None)


@pytest.mark.parametrize("seed", range(40))
def test_followed_pairs_equal_a_search_of_all_parts(seed):
    chance, pairs, parts, at = Random(seed), ToolPairs(), list[ToolPart](), 0
    for _ in range(200):
        if chance.random() < 0.15:
            at = chance.randrange(at + 1)
            pairs.cut(at)
            parts = [part for part in parts if part.position < at]
        else:
            parts.append(ToolPart(at, chance.choice("abcde"), chance.random() < 0.5, f"p{at}"))
            pairs.add(parts[-1])
            at += chance.randrange(2)
        last = chance.randrange(at + 1)
        found = orphan(parts, last)
        assert pairs.is_sound(last) == (found is None)
        assert pairs.orphan(last) == found
        assert pairs.answers_since(last) == any(part.answers and part.position >= last for part in parts)


def test_turn_costs_its_new_parts_only():
    """All calls were looked at again at each turn: 10,000 turns of 10,000 calls took half a minute."""

    def follow(count: int) -> None:
        pairs = ToolPairs()
        for at in range(count):
            pairs.add(ToolPart(2 * at, f"c{at}", answers=False, path=""))
            pairs.add(ToolPart(2 * at + 1, f"c{at}", answers=True, path=""))
            assert pairs.is_sound(2 * at)

    assert calls(lambda: follow(2_000)) <= 2.5 * calls(lambda: follow(1_000))
