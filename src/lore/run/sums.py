"""What judging a pair adds to the sums, and what is found in it: the same for a file and for a log that grows."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from lore.check.base import Place
from lore.check.budgets import Budgets, below_reuse
from lore.check.pairs import Pair, lost_tokens
from lore.check.rules import RULES
from lore.model.results import Finding, Summary


class Bust(NamedTuple):
    """The worst kind of a pair's causes, empty where it is no bust, and the tokens lost beyond what was expected."""

    kind: str = ""
    lost_tokens: int = 0


def tally(summary: Summary, pair: Pair) -> Bust:
    """Count a pair's bust."""
    if not pair.bust:
        return Bust()
    kind, lost = pair.worst, 0
    summary.busts += 1
    setattr(summary, kind, getattr(summary, kind) + 1)
    if kind != "expected":
        lost = max(lost_tokens(pair, number)[0] for number in range(len(pair.causes)))
        summary.lost_tokens += lost
    return Bust(kind, lost)


def found_in(pair: Pair, place: Place, budgets: Budgets) -> Iterator[Finding]:
    """Yield what all rules find in a pair; where the recording is a folder, at the file of the right turn."""
    place = Place(pair.right.file) if pair.right.file else place
    for rule in RULES.values():
        yield from rule.pair(pair, place)
    yield from below_reuse(pair, budgets, place)
