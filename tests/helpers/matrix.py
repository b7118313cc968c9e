"""Which cases of a matrix `make test` runs, and which only `make soak` does: those are marked `soak`.

@crossed("format, command", FORMATS, COMMANDS)       each value of each axis is in `make test`, not each pair
@pytest.mark.parametrize("world", some(WORLDS, 2))   the first two are in `make test`
"""

from collections.abc import Iterable
from itertools import product
from typing import Any

import pytest


def some(values: Iterable[Any], count: int = 1) -> list[Any]:
    """Return all values as cases; those after the first `count` are marked."""
    return [_case((value,), marked=at >= count) for at, value in enumerate(values)]


def crossed(names: str, *axes: Iterable[Any]) -> pytest.MarkDecorator:
    """Run a test over all combinations; those off the diagonal of the matrix are marked.

    The longest axis is walked once, and each other axis as often as it fits.
    """
    rows = [list(axis) for axis in axes]
    longest = max(map(len, rows))
    diagonal = {tuple(step % len(row) for row in rows) for step in range(longest)}
    places = product(*(range(len(row)) for row in rows))
    cases = [
        _case(tuple(row[at] for row, at in zip(rows, place, strict=True)), marked=place not in diagonal)
        for place in places
    ]
    return pytest.mark.parametrize(names, cases)


def _case(values: tuple[Any, ...], *, marked: bool) -> Any:
    name = "-".join(str(value[0] if isinstance(value, tuple) else value) for value in values)
    return pytest.param(*values, id=name, marks=[pytest.mark.soak] if marked else [])
