"""Counts of what agents and providers do: how often a read fell when something was seen in the log.

A row of a table (`data/*.toml`, `[[habits]]`) gives the count for one signal. A signal whose reads fell more often than
not predicts a fall; the others only say how likely one is.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import date
from functools import lru_cache
from typing import Annotated, Literal, TypeAlias

from msgspec import Meta, Struct
from msgspec.structs import force_setattr

from lore.cache.served import model_pattern
from lore.errors import did_you_mean
from lore.model.mask import cut_masked
from lore.model.patterns import matches_shell
from lore.model.state import SIGNS

_MOST_ANSWERS = 4_096  # remembered look-ups: a recording can name any number of models and versions
_PRIOR = 0.5  # occurrences of each kind that are assumed before any was counted (Jeffreys)
Moment: TypeAlias = Literal["request", "prompt"]
Moves: TypeAlias = Literal["head", "history", "text"]
Count: TypeAlias = Annotated[int, Meta(ge=0, le=10**12)]

# Signals that were seen too rarely to be counted: nothing is predicted from them.
UNCOUNTED = frozenset(("date", "instructions", "memory"))
# Signals that the log does not record: the clock, the usage or the shape of the prompt shows them.
UNSIGNED: dict[str, str] = {
    "expiry": "the five-minute entries have expired",
    "expiry-1h": "the one-hour entries have expired",
    "older-entry": "the previous request was answered less than three seconds ago",
    "lookback": "there are more new positions than a breakpoint looks back",
    "cleared": "a micro-compaction that names the results that it cleared",
    "hidden-request": "a turn of the user ended, and the client may have sent a request that is not recorded",
    "reasoning": "the provider leaves out reasoning that is older than the latest prompt of the user",
    "no-sign": "no signal was seen",
}


class Habit(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One count: in `fell` of `seen` cases the read fell by over 1,000 tokens."""

    provider: str = "anthropic"  # whose cache was counted
    sign: str  # a name in `model.state.SIGNS` or in `UNSIGNED`
    moment: Moment  # the request that shows the signal, or the next prompt of the user
    moves: Moves  # tools and system prompt (`head`), all messages, or the text that the signal is about
    fell: Count  # falls; for `hidden-request`: reads that rose by the answer
    seen: Count
    sessions: Count  # over how many sessions it was counted
    counted: date
    model: str = "*"  # a shell pattern over names as `normal` spells them
    first: bool | None = None  # only the first occurrence in a chain, only later ones, or any
    from_version: str = ""  # the first version of the client that it holds for
    before_version: str = ""  # the first version that it no longer holds for
    source: str = ""
    evidence: Literal["P", "M", "S", "?"] = "?"
    derived: bool = False  # computed from a published share, not counted
    note: str = ""
    file: str = ""  # the file that holds the row
    own: bool = False  # the row is the user's

    def __post_init__(self) -> None:
        if self.sign not in SIGNS and self.sign not in UNSIGNED:
            known = (*SIGNS, *UNSIGNED)
            raise ValueError(
                f"sign {cut_masked(self.sign, 60)!r} is not known\n{did_you_mean(self.sign, known, 'known signs')}"
            )
        if self.fell > self.seen:
            raise ValueError(f"fell is {self.fell}, but seen is {self.seen}\nfell is a part of seen")
        for version in filter(None, (self.from_version, self.before_version)):
            if not version_of(version):
                raise ValueError(f'{cut_masked(version, 60)!r} is not a version\nwrite "2.1.59"')
        force_setattr(self, "model", model_pattern(self.model))

    @property
    def key(self) -> tuple[object, ...]:
        """The values that no other row of a file may share."""
        return (self.provider, self.sign, self.moment, self.model, self.first, version_of(self.from_version),
                version_of(self.before_version))  # fmt: skip

    @property
    def chance(self) -> float:
        """How likely a fall is when the signal is seen."""
        return (self.fell + _PRIOR) / (self.seen + 2 * _PRIOR)


class Habits:
    """Rows to look up in."""

    def __init__(self, rows: Iterable[Habit] = ()) -> None:
        self.rows = tuple(rows)
        self._by_sign: dict[tuple[str, str], list[Habit]] = {}
        for row in sorted(self.rows, key=_specificity, reverse=True):
            self._by_sign.setdefault((row.provider, row.sign), []).append(row)
        self._answers = lru_cache(_MOST_ANSWERS)(self._find)

    def find(
        self, sign: str, *, prompted: bool, first: bool = False, version: str = "", model: str = "",
        waited: bool = False, provider: str = "anthropic",
    ) -> Habit | None:  # fmt: skip
        """Return the most specific row for a signal; None if there is no row.

        `prompted`: the request brings a new prompt of the user. `first`: the chain shows the signal for the first
        time. `waited`: an earlier request showed it, and it takes effect at this prompt. `model` is spelled as `normal`
        spells it. A row for certain versions does not hold for an unknown version.
        """
        moments = ("prompt",) if waited else ("request", "prompt") if prompted else ("request",)
        return self._answers((provider, sign), moments, first, version, model)

    def _find(
        self, sign: tuple[str, str], moments: tuple[str, ...], first: bool, version: str, model: str  # noqa: FBT001
    ) -> Habit | None:  # fmt: skip
        number = version_of(version)
        for row in self._by_sign.get(sign, ()):
            begin, end = version_of(row.from_version), version_of(row.before_version)
            dated = begin <= number and (not end or number < end) and (number or not (begin or end))
            if dated and row.moment in moments and row.first in (None, first) and matches_shell(row.model, model):
                return row
        return None


def _specificity(row: Habit) -> tuple[bool, bool, bool, bool, bool, tuple[int, ...]]:
    begin = version_of(row.from_version)
    return (row.own, row.moment == "prompt", row.first is not None, bool(begin or row.before_version),
            row.model != "*", begin)  # fmt: skip


_VERSION = re.compile(r"\d{1,6}(?:\.\d{1,6}){0,5}", re.ASCII)


def version_of(text: str) -> tuple[int, ...]:
    """Return the numbers of a version (`2.1.119-beta` is `2.1.119`); empty if the text does not begin with one."""
    match = _VERSION.match(text)
    return tuple(map(int, match[0].split("."))) if match else ()
