"""What caches do and what tokens cost, as dated rows: looked up by rule, provider, model, platform and time.

In: rows (`rule_file` reads them). Out: the row that holds, its number, or a price. A row of the user's that
matches holds over any other; then the most specific model pattern, then the row of the very platform over one of
all, then the one for the longest prompts that still fits, then the latest. Nothing is guessed: where no row
matches, or it says "unknown", the answer is None.
"""

from __future__ import annotations

import math
import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from datetime import date
from decimal import Decimal
from fnmatch import fnmatchcase
from typing import Literal, NamedTuple, TypeAlias

from lore.cache.prices import KINDS, Price
from lore.cache.served import normal

Value: TypeAlias = Decimal | bool | str | None
Kind: TypeAlias = Literal["number", "whole", "flag", "text"]
EVIDENCE = ("P", "M", "S", "?")  # the vendor's own page, measured, second-hand, inferred


class Known(NamedTuple):
    """What a rule's value is, in which unit."""

    kind: Kind
    unit: str


_MULTIPLES = (
    "write", "write_5m", "write_1h", "read", "read_implicit", "input", "output",
    "fast", "flex", "batch", "us", "regional", "peak",
)  # fmt: skip
RULES: dict[str, Known] = {
    "minimum_tokens": Known("whole", "tokens"),
    "minimum_implicit": Known("whole", "tokens"),
    "block_tokens": Known("whole", "tokens"),
    "recomputed_tokens": Known("whole", "tokens"),
    "cache_reuse": Known("whole", "tokens"),
    "checkpoint_step": Known("whole", "tokens"),
    "lifetime": Known("number", "seconds"),
    "lifetime_long": Known("number", "seconds"),
    "lifetime_grace": Known("number", "multiple"),
    "ready_after": Known("number", "seconds"),
    "refreshed_by_reads": Known("flag", "flag"),
    "lookback": Known("whole", "positions"),
    "lookback_runs": Known("flag", "flag"),
    "max_breakpoints": Known("whole", "breakpoints"),
    "compared_breakpoints": Known("whole", "breakpoints"),
    "requests_per_minute": Known("whole", "requests"),
    "order": Known("text", "sections"),
    "eviction": Known("text", "policy"),
    "partial_blocks": Known("flag", "flag"),
    "caches_output": Known("flag", "flag"),
    "slot_similarity": Known("number", "share"),
    "cache_ram": Known("whole", "MiB"),
    "checkpoints": Known("whole", "checkpoints"),
    "peak_hours": Known("text", "hours"),
    "list_prices": Known("flag", "flag"),
    **{f"price_{kind}": Known("number", "usd_per_mtok") for kind in KINDS[:-1]},
    "price_storage_hour": Known("number", "usd_per_mtok_hour"),
    **{f"multiple_{name}": Known("number", "multiple") for name in _MULTIPLES},
}
# Facts that no prediction uses: they stand in the tables to be read.
FOR_READING = frozenset((
    "recomputed_tokens", "checkpoint_step", "checkpoints", "cache_ram", "lifetime_long", "requests_per_minute",
    "partial_blocks", "caches_output", "eviction", "price_storage_hour", "multiple_read_implicit", "multiple_batch",
    "multiple_regional",
))  # fmt: skip
_INPUTS = ("uncached", "read", "write", "write_5m", "write_1h")
_DERIVED = ("read", "write", "write_5m", "write_1h")  # kinds that may be given as a multiple of the uncached price
_MANY = 4096  # answers kept: names come from recordings, and there is no end to them


class Rule(NamedTuple):
    """One row. `value` is None where it is known that nobody knows.

    `model` is a shell pattern over names as `served.normal` spells them; `since` is `valid_from` in seconds since
    the epoch. `file` says where the row stands, `own` that it is the user's.
    """

    rule: str
    value: Value
    unit: str
    provider: str
    model: str
    platform: str
    valid_from: date
    since: float
    source: str
    evidence: str
    above_tokens: int | None = None
    note: str = ""
    file: str = ""
    own: bool = False

    @property
    def key(self) -> tuple[str, str, str, str, int, float]:
        """What tells a row from every other of its file."""
        return self.rule, self.provider, self.model, self.platform, self.above_tokens or 0, self.since


class Rules:
    """Rows to look up in. `as_of` is the newest date on which a table was checked; None: no table says."""

    def __init__(self, rows: Iterable[Rule], as_of: date | None = None) -> None:
        self.rows = tuple(rows)
        self.as_of = as_of
        self._by_rule: dict[str, list[Rule]] = {}
        for row in sorted(self.rows, key=_rank, reverse=True):
            self._by_rule.setdefault(row.rule, []).append(row)
        self._now = math.inf if as_of is None else seconds(as_of)
        self._days = sorted({row.since for row in self.rows})
        self._lengths = sorted({row.above_tokens for row in self.rows if row.above_tokens is not None})
        self._matching: dict[tuple[str, str, str | None, str], tuple[Rule, ...]] = {}
        self._prices: dict[tuple[object, ...], Price | None] = {}

    def overridden_by(self, rows: Iterable[Rule], as_of: date | None = None) -> Rules:
        """Return these rules under a user's rows: one of them that matches holds, whatever the others say."""
        own = tuple(row._replace(own=True) for row in rows)
        keys = {row.key for row in own}
        return Rules((*own, *(row for row in self.rows if row.key not in keys)), as_of or self.as_of)

    def find(
        self, rule: str, provider: str, model: str | None, platform: str = "", at: float | None = None,
        *, prompt_tokens: int | None = None,
    ) -> Rule | None:  # fmt: skip
        """Return the row that holds; `at` is seconds since the epoch, None: the day on which the tables were checked.

        Without a time every row of the user's holds. A prompt of unknown size falls under the rows for any size.
        """
        for row in self._rows(rule, provider, model, platform):
            if not row.since <= (at if at is not None else math.inf if row.own else self._now):
                continue
            if row.above_tokens is None or (prompt_tokens is not None and prompt_tokens > row.above_tokens):
                return row
        return None

    def number(
        self, rule: str, provider: str, model: str | None, platform: str = "", at: float | None = None,
        *, prompt_tokens: int | None = None,
    ) -> Decimal | None:  # fmt: skip
        """Return the number of the row that holds; None where none does, or it is not known."""
        row = self.find(rule, provider, model, platform, at, prompt_tokens=prompt_tokens)
        return row.value if row is not None and isinstance(row.value, Decimal) else None

    def whole(
        self, rule: str, provider: str, model: str | None, platform: str = "", at: float | None = None
    ) -> int | None:
        """Return a whole number, of tokens or positions."""
        value = self.number(rule, provider, model, platform, at)
        return None if value is None else int(value)

    def flag(
        self, rule: str, provider: str, model: str | None, platform: str = "", at: float | None = None
    ) -> bool | None:
        """Return whether something is so; None where that is not known."""
        row = self.find(rule, provider, model, platform, at)
        return row.value if row is not None and isinstance(row.value, bool) else None

    def text(
        self, rule: str, provider: str, model: str | None, platform: str = "", at: float | None = None
    ) -> str | None:
        """Return a word or a list of words."""
        row = self.find(rule, provider, model, platform, at)
        return row.value if row is not None and isinstance(row.value, str) else None

    def price(
        self, provider: str, model: str | None, platform: str = "", at: float | None = None,
        *, prompt_tokens: int | None = None, extras: Iterable[str] = (),
    ) -> Price | None:  # fmt: skip
        """Return what tokens of one request cost; None where not even the uncached ones have a price.

        `extras` name what the request asked for besides ("fast", "flex", "batch", "us", "regional"): each
        multiplies all prices; one without a row makes them unknown. Peak hours count where `at` is known.
        """
        if at is not None and not math.isfinite(at):
            return None
        asked = _Asked(self, provider, model, platform, at, prompt_tokens)
        # A price changes with nothing but these: a session asks for the same one turn by turn.
        key = (
            provider, model, platform, tuple(extras), None if at is None else bisect_right(self._days, at),
            0 if prompt_tokens is None else bisect_left(self._lengths, prompt_tokens), asked.peak(),
        )  # fmt: skip
        if key not in self._prices:
            if len(self._prices) >= _MANY:
                self._prices.clear()
            self._prices[key] = asked.price(key[3])
        return self._prices[key]

    def peak(self, provider: str, model: str | None, platform: str, at: float | None) -> bool:
        """Tell whether a time lies in the hours at which a provider charges more."""
        hours = self.text("peak_hours", provider, model, platform, at)
        return hours is not None and at is not None and _within(hours, at)

    def newer(self, at: float | None) -> bool:
        """Tell whether something was recorded on a later day than that on which the tables were checked."""
        return at is not None and self.as_of is not None and at >= seconds(self.as_of) + _DAY

    def _rows(self, rule: str, provider: str, model: str | None, platform: str) -> tuple[Rule, ...]:
        """Return the rows that match at any time, the first the strongest."""
        key = (rule, provider, model, platform)
        found = self._matching.get(key)
        if found is None:
            if len(self._matching) >= _MANY:
                self._matching.clear()
            found = self._matching[key] = tuple(self._matches(rule, provider, normal(model), platform))
        return found

    def _matches(self, rule: str, provider: str, name: str, platform: str) -> Iterable[Rule]:
        for row in self._by_rule.get(rule, ()):
            if row.provider in (provider, "*") and row.platform in ("", platform) and fnmatchcase(name, row.model):
                yield row


_DAY = 86_400.0


class _Asked(NamedTuple):
    """A request whose prices are looked up."""

    rules: Rules
    provider: str
    model: str | None
    platform: str
    at: float | None
    prompt_tokens: int | None

    def price(self, extras: Iterable[str]) -> Price | None:
        """Return all rates, each with its factors."""
        rates = Price(*map(self.rate, KINDS))
        factors = self.factors(extras)
        return None if rates.uncached is None or factors is None else rates.times(factors)

    def peak(self) -> bool:
        """Tell whether the provider charges more at this hour."""
        return self.rules.peak(self.provider, self.model, self.platform, self.at)

    def rate(self, kind: str) -> Decimal | None:
        """Return a price as its row says, else as a multiple of the uncached price where that is how it is known."""
        row = self._row(f"price_{kind}")
        if row is not None:
            return self._money(row)
        multiple, uncached = self._row(f"multiple_{kind}"), self._row("price_uncached")
        if kind not in _DERIVED or multiple is None or uncached is None:
            return None
        times, base = self._money(multiple), self._money(uncached)
        return None if times is None or base is None else times * base

    def _row(self, rule: str) -> Rule | None:
        return self.rules.find(
            rule, self.provider, self.model, self.platform, self.at, prompt_tokens=self.prompt_tokens
        )  # fmt: skip

    def _money(self, row: Rule) -> Decimal | None:
        """Return a row's number; a maker's own does not hold where a platform makes its own prices."""
        if not isinstance(row.value, Decimal):
            return None
        if row.own or row.platform:
            return row.value
        listed = self.rules.flag("list_prices", self.provider, self.model, self.platform, self.at)
        return None if listed is False else row.value

    def factors(self, extras: Iterable[str]) -> dict[str, Decimal] | None:
        """Return by what each kind is multiplied: the prompt's length, the hour, what was asked for besides."""
        all_kinds = Decimal(1)
        for name in (*extras, *(("peak",) if self.peak() else ())):
            row = self._row(f"multiple_{name}")
            if row is None or not isinstance(row.value, Decimal):
                return None
            all_kinds *= row.value
        long = {side: row for side in ("input", "output") if (row := self._row(f"multiple_{side}")) is not None}
        if not all(isinstance(row.value, Decimal) for row in long.values()):
            return None
        by_side = {side: row.value * all_kinds for side, row in long.items() if isinstance(row.value, Decimal)}
        inputs = dict.fromkeys(_INPUTS, by_side.get("input", all_kinds))
        return {**inputs, "output": by_side.get("output", all_kinds)}


def seconds(day: date) -> float:
    """Return when a day begins (UTC), in seconds since the epoch."""
    return (day - date(1970, 1, 1)).days * _DAY


_SIGNS = re.compile(r"\[[^]]*\]|[*?]")


def _rank(row: Rule) -> tuple[bool, bool, int, bool, bool, int, float]:
    """Order rows by strength: own, nearer to one model, of one platform, of one provider, longer prompts, later."""
    literals = len(_SIGNS.sub("", row.model))
    return (row.own, literals == len(row.model), literals, bool(row.platform), row.provider != "*",
            row.above_tokens or 0, row.since)  # fmt: skip


def spans(hours: str) -> tuple[tuple[int, int], ...] | None:
    """Read hours of a day ("1-4,6-10", the end not included); None where they are written otherwise."""
    found: list[tuple[int, int]] = []
    for part in hours.split(","):
        begin, dash, end = part.partition("-")
        if not (dash and begin.isascii() and begin.isdigit() and end.isascii() and end.isdigit()):
            return None
        span = int(begin[:3]), int(end[:3])
        if not 0 <= span[0] < span[1] <= 24:
            return None
        found.append(span)
    return tuple(found)


def _within(hours: str, at: float) -> bool:
    """Tell whether a time lies in hours (UTC) of a day from Monday to Friday."""
    day, hour = at // _DAY, at % _DAY / 3600
    weekday = (day + 3) % 7  # the epoch began on a Thursday
    return weekday < 5 and any(begin <= hour < end for begin, end in spans(hours) or ())
