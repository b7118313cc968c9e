"""How far back a cache looks from a breakpoint for what an earlier request wrote.

In: the prompt that wrote and the one that reads, both whole. Out: how many positions are new, and how many are
looked back. Rules are dated. An entry stands at each breakpoint of the request that wrote it; a look-up begins at
each breakpoint of the one that reads. Blocks of thinking are no positions.

Sources: Anthropic's documentation (20 positions, runs of calls and of results counted once); measured in
recordings: in December 2024 only an entry exactly at a breakpoint was read; from June 2026 each block counts, and
16 to 20 new positions were read, 21 and more were not.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import NamedTuple

from lore.cache.kinds import NO_POSITION, RUNS, kind_of
from lore.model.prompt import Prompt


class Rule(NamedTuple):
    """From `since` on: positions looked back, and whether a run of calls, or of results, counts once."""

    since: float
    positions: int
    runs: bool


def _day(year: int, month: int) -> float:
    return datetime(year, month, 1, tzinfo=UTC).timestamp()


RULES = (Rule(0.0, 0, runs=False), Rule(_day(2025, 1), 20, runs=True), Rule(_day(2026, 6), 20, runs=False))


class Gap(NamedTuple):
    """`new` positions stand between the last breakpoint of a request and the breakpoint behind it; `allowed` are looked
    back.

    `new` is negative where no breakpoint stands behind it any more.
    """

    new: int
    allowed: int

    @property
    def exceeded(self) -> bool:
        """Whether the earlier entry is out of reach."""
        return not 0 <= self.new <= self.allowed


def gap(left: Prompt, right: Prompt, at: float | None) -> Gap | None:
    """Measure from the left's last breakpoint to the nearest of the right; None where such are not looked up."""
    if not _looks_back(left) or not _looks_back(right):
        return None
    mine, theirs = _breakpoints(left), _breakpoints(right)
    if not mine or not theirs:
        return None
    rule = RULES[-1] if at is None else [one for one in RULES if one.since <= at][-1]
    behind = [breakpoint for breakpoint in theirs if breakpoint >= mine[-1]]
    if not behind:
        return Gap(-1, rule.positions)
    return Gap(_positions(right, mine[-1], behind[0], runs=rule.runs), rule.positions)


def _looks_back(prompt: Prompt) -> bool:
    return prompt.fidelity != "reconstructed" and (prompt.dialect == "anthropic" or "claude" in (prompt.model or ""))


def _breakpoints(prompt: Prompt) -> tuple[int, ...]:
    return (*prompt.breakpoints, prompt.stable - 1) if prompt.auto_breakpoint and prompt.stable else prompt.breakpoints


def _positions(prompt: Prompt, begin: int, end: int, *, runs: bool) -> int:
    found, before = 0, ""
    for place in range(begin + 1, end + 1):
        segment = prompt.at(place)
        kind = "envelope" if segment is None else kind_of(segment)
        if kind in NO_POSITION:
            continue
        found += not (runs and kind in RUNS and kind == before)
        before = kind
    return found
