"""Habits of clients and caches: how often a read fell where something was seen, and what that makes likely.

In: dated rows with their counts (`data/`), and what the bills of this session said before. Out: chances, and the
outcomes of one request. Rules, the same for every row:

- a chance is `(fell + a) / (seen + 2 a)` with `a = PRIOR`, half an occurrence of each kind; then what this session
  showed is added, beside which the packaged counts weigh at most `WEIGHT` occurrences;
- habits that are seen together are taken as independent, and the deepest fall decides what is read;
- of the rows of a sign the nearest holds: the user's own, of this moment, of the chain's first or a later occurrence,
  of this version, of this model. Where a row asks for a version or a model that is not known, it does not hold.

Nothing is fitted: a row that was not counted says so (`derived`), and every row says on how many sessions it rests.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from datetime import date
from functools import lru_cache
from typing import Literal, NamedTuple, TypeAlias

from lore.cache.base import Outcome
from lore.cache.bills import DROP
from lore.model.patterns import matches_shell

_MOST_FOUND = 4_096  # signs whose habit is remembered: a recording can name any number
PRIOR = 0.5  # occurrences of each kind that are assumed before any was counted (Jeffreys)
WEIGHT = 4.0  # occurrences: what one session does it does again, so that few of its own turns outweigh other sessions
SURE = 0.9  # a probability from here on is near 1
Moment: TypeAlias = Literal["request", "prompt"]
Moves: TypeAlias = Literal["head", "history", "text"]
MOMENTS: tuple[Moment, ...] = ("request", "prompt")
MOVES: tuple[Moves, ...] = ("head", "history", "text")

# Signs that were seen too seldom to be counted: nothing is predicted of them.
UNCOUNTED = frozenset(("date", "instructions", "memory"))
# Habits that no sign of the log shows: a clock, a bill or the prompt's shape does.
UNSIGNED: dict[str, str] = {
    "expiry": "what was written for five minutes is older",
    "expiry-1h": "what was written for an hour is older",
    "older-entry": "the request before was answered within three seconds",
    "lookback": "more new positions than a breakpoint looks back",
    "cleared": "a micro-compaction that names the results that it cleared",
    "hidden-request": "a turn of the user ended, and a request that is not recorded may have followed",
    "reasoning": "the answers since the prompt before hold reasoning, which a provider leaves out from the next one on",
    "no-sign": "nothing was seen",
}


class Habit(NamedTuple):
    """One row: `fell` of `seen` times the read fell by over 1,000 tokens (`hidden-request`: it rose).

    `sign` is one of `model.state.SIGNS` or of `UNSIGNED`; `moment` is the request that shows it, or the next new prompt
    of the user; `moves` says what changes: the `head` (tools and system prompt), all `history` behind it, or the `text`
    that the sign is about and what stands behind that, in a cache of `provider`. `first` holds for the chain's first
    occurrence alone, or for later ones alone; None: any. `since` is the first version and `until` the first that it
    does not hold for.
    """

    sign: str
    moment: Moment
    moves: Moves
    fell: int
    seen: int
    sessions: int
    counted: date
    source: str
    evidence: str
    model: str = "*"
    first: bool | None = None
    since: tuple[int, ...] = ()
    until: tuple[int, ...] = ()
    derived: bool = False
    note: str = ""
    file: str = ""
    own: bool = False
    provider: str = "anthropic"

    @property
    def key(self) -> tuple[object, ...]:
        """What tells a row from every other of its file."""
        return self.provider, self.sign, self.moment, self.model, self.first, self.since, self.until


class Tally(NamedTuple):
    """How often a session showed something, and a fall followed."""

    seen: int = 0
    fell: int = 0

    def plus(self, *, fell: bool) -> Tally:
        """Return it with one more."""
        return Tally(self.seen + 1, self.fell + fell)


def chance(habit: Habit, tally: Tally) -> float:
    """Return how likely a fall is, by the packaged counts and what this session showed."""
    seen = habit.seen + 2 * PRIOR
    weight = min(WEIGHT, seen)
    return ((habit.fell + PRIOR) / seen * weight + tally.fell) / (weight + tally.seen)


class Habits:
    """Rows to look up in."""

    def __init__(self, rows: Iterable[Habit] = ()) -> None:
        self.rows = tuple(rows)
        self._by_sign: dict[tuple[str, str], list[Habit]] = {}
        for row in sorted(self.rows, key=_rank, reverse=True):
            self._by_sign.setdefault((row.provider, row.sign), []).append(row)
        self._found = lru_cache(_MOST_FOUND)(self._find)

    def find(
        self, sign: str, *, prompted: bool, first: bool = False, version: str = "", model: str = "",
        waited: bool = False, provider: str = "anthropic",
    ) -> Habit | None:  # fmt: skip
        """Return the row that holds; `prompted`: at a new prompt of the user, `first`: the chain's first occurrence.

        `model` is spelled as `rules.normal` spells it; what `waited` for the prompt was shown by an earlier request.
        """
        moments = ("prompt",) if waited else MOMENTS if prompted else ("request",)
        return self._found((provider, sign), moments, first, version, model)

    def _find(
        self, sign: tuple[str, str], moments: tuple[Moment, ...], first: bool, version: str, model: str  # noqa: FBT001
    ) -> Habit | None:  # fmt: skip
        number = version_of(version)
        return next((
            row for row in self._by_sign.get(sign, ())
            if row.moment in moments and row.first in (None, first) and (number or not (row.since or row.until))
            and row.since <= number and (not row.until or number < row.until) and matches_shell(row.model, model)
        ), None)  # fmt: skip


def _rank(row: Habit) -> tuple[bool, bool, bool, bool, bool, tuple[int, ...]]:
    """Order rows by strength: own, of this moment, first or later, of a version, of a model, the latest version."""
    dated, of_model = bool(row.since or row.until), row.model != "*"
    return row.own, row.moment == "prompt", row.first is not None, dated, of_model, row.since


_VERSION = re.compile(r"\d{1,6}(?:\.\d{1,6}){0,5}", re.ASCII)


def version_of(text: str) -> tuple[int, ...]:
    """Read a version's numbers (2.1.119-beta is 2.1.119); empty where it has none."""
    found = _VERSION.match(text)
    return tuple(map(int, found[0].split("."))) if found else ()


# outcomes


_HALF = 0.5  # more than that is the likeliest in any case


def outcomes(read: int, why: str, falls: Sequence[Outcome]) -> tuple[Outcome, ...]:
    """Return what may be read, the likeliest first: `read` where nothing falls. Probabilities sum to 1.

    Falls are outcomes that read less, each as likely as by itself: they are independent, and the deepest that happens
    decides; those to the same place are one outcome. What lies within `DROP` tokens of an outcome speaks for it: a
    hidden request or none, a prompt then stands there all the same.
    """
    if not falls:
        return (Outcome(read, 1.0, why),)
    left, found = 1.0, dict[int, Outcome]()
    for fall in sorted(falls, key=lambda fall: (fall.read, -fall.probability)):
        if fall.read >= read:
            continue
        probability = left * fall.probability
        left -= probability
        known = found.get(fall.read, Outcome(fall.read, 0.0, fall.why))
        found[fall.read] = known._replace(probability=known.probability + probability)
    every = [Outcome(read, left, why), *found.values()]
    every.sort(key=lambda outcome: (-outcome.probability, -outcome.read))
    if every[0].probability <= _HALF:
        near = [sum([o.probability for o in every if abs(o.read - outcome.read) <= DROP]) for outcome in every]
        every.insert(0, every.pop(near.index(max(near))))
    return tuple(every)
