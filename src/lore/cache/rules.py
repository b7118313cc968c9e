"""Dated rules: how caches behave and what tokens cost, found by rule, provider, model, platform and time.

The rows are in `data/*.toml` and in a user's own file (`rule_file` reads both). If several rows match, the user's own
holds; then the one with the most specific model pattern; then the one for this platform; then the one for the longest
prompts; then the latest. If no row matches, or it says "unknown", nothing is guessed.
"""

from __future__ import annotations

import math
import re
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable
from datetime import date
from decimal import Decimal
from functools import lru_cache
from typing import Annotated, Any, TypeAlias

from msgspec import Meta, Struct
from msgspec.structs import replace

from lore.cache.breakpoint_rules import BreakpointRule, DatedRow, most_specific, seconds
from lore.cache.counts import lifetime
from lore.cache.prices import KINDS, TOOLS, Price, rates
from lore.cache.served import WITH_BREAKPOINTS, Served, cache_of, normal_name, served_by
from lore.model.deferred import pattern
from lore.model.providers import has_exact_breakpoints
from lore.model.turn import Turn

Value: TypeAlias = Decimal | bool | str | None
UNKNOWN = "unknown"  # the value of a rule that the provider is known not to publish
_DAY = 86_400.0
MOST = 10**12  # no rule's value is larger
_REMEMBERED = 4096  # answers, at most: a recording can name any number of models

# The names of rules, by the unit of their numbers.
_MULTIPLES = (
    "write", "write_5m", "write_1h", "read", "read_implicit", "input", "output",
    "fast", "priority", "flex", "batch", "us", "regional", "peak",
)  # fmt: skip
_WHOLE: dict[str, tuple[str, ...]] = {
    "tokens": ("minimum_tokens", "minimum_implicit", "block_tokens", "cache_reuse", "checkpoint_step"),
    "positions": ("lookback",), "breakpoints": ("max_breakpoints", "compared_breakpoints"),
    "requests": ("requests_per_minute",), "checkpoints": ("checkpoints",),
}  # fmt: skip
_NUMBERS: dict[str, tuple[str, ...]] = {
    "seconds": (
        "lifetime", "lifetime_least", "lifetime_implicit", "lifetime_long", "lifetime_seen", "ready_after",
    ),
    "multiple": ("lifetime_grace",),
    "share": ("slot_similarity", "output_recorded"), "usd_per_mtok": tuple([f"price_{kind}" for kind in KINDS]),
    "usd_per_thousand_requests": tuple([f"price_{tool}" for tool in TOOLS]),
    "usd_per_mtok_hour": ("price_storage_hour",),
}  # fmt: skip
_FLAGS = ("lookback_runs", "list_prices", "reads_output", "reads_returned_answer", "head_expires", "drops_thinking")
# The kind of value that each rule has ("number", "whole", "flag", "text"), and its unit.
RULES: dict[str, tuple[str, str]] = {
    **{rule: ("whole", unit) for unit, rules in _WHOLE.items() for rule in rules},
    **{rule: ("number", unit) for unit, rules in _NUMBERS.items() for rule in rules},
    **{f"multiple_{name}": ("number", "multiple") for name in _MULTIPLES},
    **dict.fromkeys(_FLAGS, ("flag", "flag")),
    "order": ("text", "sections"), "peak_hours": ("text", "hours"),
}  # fmt: skip
# Rules that no prediction reads: `lore simulate --rules` and `lore lint` show them.
FOR_READING = frozenset(("lifetime_long", "lifetime_least", "requests_per_minute", "price_storage_hour"))


class DatedRule(DatedRow, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One row: the value of a rule from a day on, for a provider, model and platform."""

    rule: str  # a name in `RULES`
    value: Any  # a `Value`; None if it is known to be unpublished ("unknown" in the file)
    above_tokens: Annotated[int, Meta(gt=0, le=MOST)] | None = None  # holds only for longer prompts
    unit: str = ""  # of the value: that of the rule's kind

    @property
    def key(self) -> tuple[object, ...]:
        """The values that no other row of a file may share; a user's row replaces a packaged one of the same key."""
        return self.rule, self.provider, self.model, self.platform, self.above_tokens or 0, self.valid_from


class RuleTable(Struct, frozen=True):
    """The content of one file."""

    rows: tuple[DatedRule, ...]  # in the order of the file
    as_of: date | None = None  # the day on which the table was checked
    breakpoints: tuple[BreakpointRule, ...] = ()  # where requests may carry breakpoints


class DatedRules:
    """The rows that hold in a run: the packaged ones, and a user's own over them."""

    def __init__(
        self, rows: Iterable[DatedRule], as_of: date | None = None, breakpoints: Iterable[BreakpointRule] = ()
    ) -> None:
        self.rows = tuple(rows)
        self.as_of = as_of  # the newest day on which a table was checked; None: no table says
        self._by_rule: dict[str, list[DatedRule]] = {}
        for row in self.rows:
            self._by_rule.setdefault(row.rule, []).append(row)
        self._now = math.inf if as_of is None else seconds(as_of)
        self._days = sorted(map(seconds, {row.valid_from for row in self.rows}))
        self._lengths = sorted({row.above_tokens for row in self.rows if row.above_tokens is not None})
        self._matching = lru_cache(_REMEMBERED)(self._matches)
        self._prices: dict[tuple[object, ...], Price | None] = {}
        self._breakpoints = tuple(breakpoints)
        self._breakpoint_answers = lru_cache(_REMEMBERED)(self._breakpoint_rule)

    def overridden_by(
        self, rows: Iterable[DatedRule], as_of: date | None = None, breakpoints: Iterable[BreakpointRule] = ()
    ) -> DatedRules:
        """Return new rules: a user's rows replace those of equal `key`, and come before all others."""
        user_rows = [replace(row, own=True) for row in rows]
        keys = {row.key for row in user_rows}
        other_rows = [row for row in self.rows if row.key not in keys]
        allowed = (*(replace(row, own=True) for row in breakpoints), *self._breakpoints)
        return DatedRules((*user_rows, *other_rows), as_of or self.as_of, allowed)

    def find(
        self, rule: str, provider: str, model: str | None, platform: str = "", at: float | None = None,
        *, prompt_tokens: int | None = None,
    ) -> DatedRule | None:  # fmt: skip
        """Return the row that holds at a time (seconds since the epoch); None if no row does.

        Without a time the day on which the tables were checked counts, and all rows of the user's hold. A prompt of
        unknown length falls under the rows for any length.
        """
        for begin, row in self._matching(rule, provider, model, platform):
            if not begin <= (at if at is not None else math.inf if row.own else self._now):
                continue
            if row.above_tokens is None or (prompt_tokens is not None and prompt_tokens > row.above_tokens):
                return row
        return None

    def number(
        self, rule: str, provider: str, model: str | None, platform: str = "", at: float | None = None
    ) -> Decimal | None:
        """Return the number of the row that `find` finds; None without one, or if it is unpublished or no number."""
        row = self.find(rule, provider, model, platform, at)
        return row.value if row is not None and isinstance(row.value, Decimal) else None

    def flag(self, rule: str, provider: str, model: str | None, platform: str = "", at: float | None = None) -> bool:
        """Return whether the row that `find` finds is true; False without one, or if it is unpublished."""
        row = self.find(rule, provider, model, platform, at)
        return row is not None and row.value is True

    def text(self, rule: str, provider: str, model: str | None, platform: str = "", at: float | None = None) -> str:
        """Return the text of the row that `find` finds; empty without one, or if it is unpublished."""
        row = self.find(rule, provider, model, platform, at)
        return row.value if row is not None and isinstance(row.value, str) else ""

    def price(
        self, provider: str, model: str | None, platform: str = "", at: float | None = None,
        *, prompt_tokens: int | None = None, extras: Iterable[str] = (), implicit: bool = False, listed: bool = False,
    ) -> Price | None:  # fmt: skip
        """Return the prices of one request; None if not even that of uncached tokens is known.

        `extras` are how it was served ("fast", "priority", "flex", "batch", "us", "regional"): each multiplies all
        prices of tokens, and makes them unknown if it has no row. Peak hours (of Monday to Friday, UTC) count if the
        time is known. `implicit`: the request sets no breakpoints, and its reads may have a price of their own.
        `listed`: the list price, which is that of a short prompt without extras, off peak.
        """
        if at is not None and not math.isfinite(at):
            return None
        prompt_tokens, factors = (None, []) if listed else (prompt_tokens, [*extras])
        hours = "" if listed or at is None else self.text("peak_hours", provider, model, platform, at)
        if hours and at is not None:
            hour, weekday = at % _DAY / 3600, (at // _DAY + 3) % 7  # the epoch began on a Thursday
            is_peak = any(begin <= hour < end for begin, end in hour_spans(hours) or ())
            factors += ["peak"] if is_peak and weekday < 5 else []
        # Prices depend on these values only; a session asks for the same ones turn after turn.
        key = (
            provider, model, platform, tuple(factors), implicit, None if at is None else bisect_right(self._days, at),
            0 if prompt_tokens is None else bisect_left(self._lengths, prompt_tokens),
        )  # fmt: skip
        if key not in self._prices:
            if len(self._prices) >= _REMEMBERED:
                self._prices.clear()
            by_maker = self.find("list_prices", provider, model, platform, at)
            self._prices[key] = rates(
                lambda rule: self.find(rule, provider, model, platform, at, prompt_tokens=prompt_tokens),
                factors, listed=by_maker is None or by_maker.value is not False, implicit=implicit,
            )  # fmt: skip
        return self._prices[key]

    def breakpoints(
        self, api: str, provider: str, model: str | None, platform: str = "", at: float | None = None
    ) -> BreakpointRule | None:
        """Return where requests of an API (a dialect) may carry breakpoints; None if no row is about it.

        `most` of the answer is filled in. Without a time the day on which the tables were checked counts.
        """
        when = self._now if at is None else at
        day = math.floor(when / _DAY) * _DAY if math.isfinite(when) else when
        return self._breakpoint_answers(api, provider, normal_name(model), platform, day)

    def _breakpoint_rule(self, api: str, provider: str, model: str, platform: str, at: float) -> BreakpointRule | None:
        rule = most_specific(self._breakpoints, api, provider, model, platform, at)
        if rule is None or not rule.field or rule.most is not None:
            return rule
        makers = (provider, "anthropic") if rule.field in ("cache_control", "cachePoint") else (provider,)
        counts = (self.number("max_breakpoints", maker, model, platform, at) for maker in makers)
        most = next((count for count in counts if count is not None), None)
        return rule if most is None else replace(rule, most=int(most))

    def is_older_than(self, at: float | None) -> bool:
        """Return whether the tables were last checked on a day before this time; False if either is unknown."""
        return at is not None and self.as_of is not None and at >= seconds(self.as_of) + _DAY

    def _matches(
        self, rule: str, provider: str, model: str | None, platform: str
    ) -> tuple[tuple[float, DatedRule], ...]:
        """Return the rows for this place, each with the time from which it holds; the one that wins first."""
        name = normal_name(model)
        matching = [row for row in self._by_rule.get(rule, ()) if row.holds_for(provider, name, platform)]
        matching.sort(key=lambda row: (*row.specificity, row.above_tokens or 0, row.valid_from), reverse=True)
        return tuple([(row.since, row) for row in matching])


_HOURS = pattern(r"(\d{1,3})-(\d{1,3})", re.ASCII)


@lru_cache(_REMEMBERED)
def hour_spans(hours: str) -> tuple[tuple[int, int], ...] | None:
    """Return "1-4,6-10" as pairs of hours (0 to 24), ends excluded; None for other text, or "22-2"."""
    matches = [_HOURS.fullmatch(part) for part in hours.split(",")]
    spans = tuple([(int(match[1]), int(match[2])) for match in matches if match is not None])
    fitting = len(spans) == len(matches) and all(begin < end <= 24 for begin, end in spans)
    return spans if fitting else None


def minimum_tokens(rules: DatedRules, turn: Turn) -> int | None:
    """Return how many tokens a prefix needs to be cached by the turn's model, at its time; None if unknown."""
    where = served_by(turn)
    minimum = rules.number("minimum_tokens", where.provider, turn.model, where.platform, turn.at)
    return None if minimum is None else int(minimum)


def idle_lifetime(rules: DatedRules, where: Served, turn: Turn) -> float | None:
    """Return the seconds that a cache keeps an unused prefix by rule, whatever a breakpoint asks; None: unknown.

    The rule is `lifetime_long` if the request asks for that (`prompt_cache_retention` of `24h`, for models that read
    it), else `lifetime_implicit` if the provider has a row of that name and the request no breakpoint, else `lifetime`.
    If that row is missing or unpublished, no other is tried.
    """
    implicit = rules.find("lifetime_implicit", where.provider, turn.model, where.platform, turn.at)
    has_breakpoint = turn.basis is None and bool(turn.prompt.breakpoints)
    rule = "lifetime" if implicit is None or has_breakpoint else "lifetime_implicit"
    asks_long = turn.basis is None and turn.prompt.params.get("prompt_cache_retention") == b'"24h"'
    if asks_long and not has_exact_breakpoints(turn.model):  # those ignore it
        rule = "lifetime_long"
    lifetime = rules.number(rule, where.provider, turn.model, where.platform, turn.at)
    return None if lifetime is None else float(lifetime)


def least_lifetime(rules: DatedRules, where: Served, turn: Turn) -> float | None:
    """Return the seconds for which an unused prefix surely stays: by `lifetime_least`, else `idle_lifetime`."""
    least = rules.number("lifetime_least", where.provider, turn.model, where.platform, turn.at)
    return idle_lifetime(rules, where, turn) if least is None else float(least)


class Lifetime(Struct, frozen=True):
    """How long a cache keeps an unused prefix."""

    seconds: float | None = None  # None: unknown
    billed: bool = False  # the usage says so, not a rule


def lifetime_after(turn: Turn, previous: Lifetime, rules: Callable[[], DatedRules]) -> Lifetime:
    """Return how long a chain's prefix is kept after a turn; `previous` is the result for its previous turn.

    That is the lifetime of the turn's writes (`counts.lifetime`). Without any it remains `previous` in Anthropic's and
    Bedrock's caches, and is the `idle_lifetime` in others.
    """
    where = served_by(turn)
    billed = lifetime(turn, None)
    if billed is not None:
        return Lifetime(billed, billed=True)
    return previous if cache_of(turn, where) in WITH_BREAKPOINTS else Lifetime(idle_lifetime(rules(), where, turn))


def allowed_breakpoints(rules: DatedRules, turn: Turn) -> BreakpointRule | None:
    """Return the row about where a turn's request may carry breakpoints; None if no row is about it."""
    where = served_by(turn)
    return rules.breakpoints(turn.dialect, where.provider, turn.model, where.platform, turn.at)
