"""What rules are handed that hold bills against predictions: cache models and dated rules stay outside of `check`.

In: turns. Out: what a cache would do with the last of them, and the fewest tokens that it keeps. Rules: whoever makes
an outlook reads the rules when it is first asked, for most recordings never ask; where nobody knows, it says so.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from lore.cache.base import UNKNOWN, Prediction
from lore.model.turn import Turn


class Foreseen(NamedTuple):
    """What the model of a cache says of a turn after others; `cache` is empty where nobody knows who served it."""

    cache: str = ""
    prediction: Prediction = UNKNOWN


def _nothing(_: Sequence[Turn]) -> Foreseen:
    return Foreseen()


def _unknown(_: Turn) -> int | None:
    return None


class Outlook(NamedTuple):
    """`foresee` predicts the last of some turns after the others; `minimum` is the fewest tokens that are cached.

    `tolerance` is the share of a prompt by which a billed read may fall short of its prediction.
    """

    foresee: Callable[[Sequence[Turn]], Foreseen] = _nothing
    minimum: Callable[[Turn], int | None] = _unknown
    tolerance: float = 0.02
