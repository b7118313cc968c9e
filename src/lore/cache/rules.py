"""Prices, and the dated rules that tell them and how caches behave, by provider, model, platform and time.

The rows are in `data/*.toml` and in a user's own file (`rule_file` reads both). If several rows match, the user's own
holds; then the one with the most specific model pattern; then the one for this platform; then the one for the longest
prompts; then the latest. If no row matches, or it says "unknown", nothing is guessed.
"""

from __future__ import annotations

import math
import re
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from datetime import date
from decimal import Decimal
from functools import lru_cache
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias

from msgspec import Meta, Struct
from msgspec.structs import replace

from lore.cache.breakpoint_rules import BreakpointRule, DatedRow, most_specific, seconds
from lore.cache.counts import lifetime
from lore.cache.falls import version_of
from lore.cache.served import WITH_BREAKPOINTS, Served, cache_of, normal_name, served_by
from lore.model.canonical import text_of
from lore.model.deferred import pattern
from lore.model.events import RUN, SUMMED_COUNTS, Usage
from lore.model.providers import has_exact_breakpoints
from lore.model.turn import Turn

if TYPE_CHECKING:
    from lore.cache.rules import DatedRule, DatedRules
    from lore.cache.served import Served

# What a request cost: the price of each kind of token, of further passes, and of tools that the provider ran.
#
# The cost is unknown if a count is, or the price of at least one token. A write without a lifetime costs `write`; if
# the provider has no such price, `write_5m`, its default lifetime. The speed, tier and region that a response reports
# hold over those that were asked for; without either the list price holds. Requests of tools cost the same at every
# speed. An advisor's pass has the price of its own model, at the normal speed.
#
# Sources: Anthropic's pages on fast mode, service tiers, data residency, Bedrock and Google Cloud (regional endpoints
# and Bedrock's inference profiles of a region cost more than global ones); OpenAI's on fast mode and data residency;
# xAI's on regional endpoints.

MILLION, THOUSAND = Decimal(1_000_000), 1000
KINDS = ("uncached", "read", "write", "write_5m", "write_1h", "output")  # of tokens
TOOLS = ("web_search", "web_fetch", "code_execution", "tool_search")  # that usage counts
_DERIVED = ("read", "write", "write_5m", "write_1h")  # kinds that may be given as a multiple of the uncached price


class Price(Struct, frozen=True):
    """Prices in US dollars per million tokens; None if there is no such price, or it is unknown."""

    uncached: Decimal | None = None  # dollars per million tokens, as all that follow; None: unknown
    read: Decimal | None = None  # from a cache
    write: Decimal | None = None  # without a lifetime
    write_5m: Decimal | None = None  # for five minutes
    write_1h: Decimal | None = None  # for an hour
    output: Decimal | None = None  # with thinking
    tools: tuple[tuple[str, Decimal], ...] = ()  # dollars per thousand requests, by tool
    passes: tuple[Price | None, ...] = ()  # the prices of the response's further passes, in their order
    surcharge: str = ""  # in words, what makes them differ from the list price: "fast mode"; empty: nothing

    def of(self, bill: Usage) -> Decimal | None:
        """Return the cost in US dollars of all passes and tools; None if unknown.

        `write_tokens` counts all writes; those with a lifetime are part of it, so if they exceed it, the cost is
        unknown. If it is missing, the cost is known only if both counts with a lifetime are given, or if neither is
        and writing has no price.
        """
        parts, is_whole = self.split(bill)
        return sum(parts.values(), Decimal(0)) if is_whole else None

    def split(self, bill: Usage) -> tuple[dict[str, Decimal], bool]:
        """Return US dollars by kind of price or tool, of all passes, and whether they are all of the cost.

        A missing count of writes is 0; a sum of several requests (`is_sum`) may lack any. Unknown kinds are left out.
        """
        by_lifetime = (bill.write_5m_tokens, bill.write_1h_tokens)
        short, hour = bill.write_5m_tokens or 0, bill.write_1h_tokens or 0
        write = 0 if bill.write_tokens is None else bill.write_tokens - short - hour
        parts, is_sum = defaultdict[str, Decimal](Decimal), bill.is_sum
        is_whole = bill.write_tokens is not None or None not in by_lifetime
        is_whole = is_whole or (by_lifetime == (None, None) and not self.has_write_price) or is_sum
        for kind, count, price in (
            ("uncached", bill.uncached_tokens, self.uncached), ("read", bill.read_tokens, self.read),
            ("write_1h", hour, self.write_1h), ("write_5m", short, self.write_5m),
            ("write", write, self.write_5m if self.write is None else self.write),
            ("output", bill.output_tokens, self.output),
        ):  # fmt: skip
            if not is_sum and (count is None or count < 0 or (count and price is None)):
                is_whole = False
            if count and price is not None and (count > 0 or kind != "write"):
                parts[kind] = count * price / MILLION
        tools = dict(self.tools) if bill.server_tools else {}
        for name, count in bill.server_tools:
            if name in tools:
                parts[name] += count * tools[name] / THOUSAND
            else:
                is_whole = False
        is_whole = is_whole and (not bill.iterations or len(bill.iterations) == len(self.passes))
        for counts, price in zip(bill.iterations, self.passes, strict=False):
            costs, is_known = ({}, False) if price is None else price.split(counts)
            is_whole = is_whole and is_known
            for kind, cost in costs.items():
                parts[kind] += cost
        return dict(parts), is_whole

    @property
    def has_write_price(self) -> bool:
        """Whether a price of writing is known, even if it is 0."""
        return any(price is not None for price in (self.write, self.write_5m, self.write_1h))


# What makes a request cost another price than the one on the list, in words.
_SURCHARGES = {
    "fast": "fast mode", "priority": "priority processing", "flex": "flex processing", "batch": "batches",
    "us": "inference in the US only", "regional": "regional endpoints", "peak": "peak hours",
}  # fmt: skip


def rates(
    find: Callable[[str], DatedRule | None], factors: Iterable[str], *, listed: bool, implicit: bool = False
) -> Price | None:
    """Return the prices of the rules that `find` returns by name (`price_read`), multiplied by the factors.

    A factor's multiple is the rule `multiple_FACTOR`; a price without a rule of its own is a multiple of the uncached
    one, if its multiple is known. None if uncached tokens have no price, or if the multiple of a factor is unknown.

    `listed`: the maker's list prices hold on this platform; otherwise only rows about the platform, and the user's own
    rows, are used.
    `implicit`: the request set no breakpoint or cached content, for which some providers price reads otherwise.
    """

    def money(rule: str) -> Decimal | None:
        row = find(rule)
        if row is None or not isinstance(row.value, Decimal):
            return None
        return row.value if listed or row.own or row.platform else None

    uncached, multiples = money("price_uncached"), _multiples(find, factors)
    if uncached is None or multiples is None:
        return None

    def price(kind: str) -> Decimal | None:
        price = money(f"price_{kind}")
        if kind in _DERIVED and find(f"price_{kind}") is None:
            name = f"multiple_{kind}_implicit"
            multiple = money(name if kind == "read" and implicit and find(name) is not None else f"multiple_{kind}")
            price = None if multiple is None else multiple * uncached
        return None if price is None else price * multiples["output" if kind == "output" else "input"]

    tools = ((tool, money(f"price_{tool}")) for tool in TOOLS)
    rows = map(find, ("multiple_input", "multiple_output", "price_uncached"))
    lengths = [row.above_tokens for row in rows if row is not None and row.above_tokens is not None]
    surcharges = [
        *map(_SURCHARGES.__getitem__, factors),
        *(f"prompts over {length:,} tokens" for length in lengths[:1]),
    ]
    return Price(
        price("uncached"), price("read"), price("write"), price("write_5m"), price("write_1h"), price("output"),
        tuple([(tool, rate) for tool, rate in tools if rate is not None]), surcharge=", ".join(surcharges),
    )  # fmt: skip


def _multiples(find: Callable[[str], DatedRule | None], factors: Iterable[str]) -> dict[str, Decimal] | None:
    """Return the multiples of the prices of input and of output; None if one is unknown."""
    multiples = {"input": Decimal(1), "output": Decimal(1)}
    for name in (*factors, "input", "output"):  # the last two: long prompts may cost more
        row = find(f"multiple_{name}")
        if row is None and name in multiples:
            continue
        if row is None or not isinstance(row.value, Decimal):
            return None
        for side in (name,) if name in multiples else multiples:
            multiples[side] *= row.value
    return multiples


# the prices of one response: of the model that answered, at the speed, tier and place that it was served at

_FACTORS = {
    ("speed", "fast"): "fast", ("service_tier", "fast"): "fast", ("service_tier", "priority"): "priority",
    ("service_tier", "flex"): "flex", ("service_tier", "batch"): "batch", ("inference_geo", "us"): "us",
}  # fmt: skip


def bill_price(
    rules: DatedRules, where: Served, model: str | None, at: float | None, bill: Usage | None, *,
    size: int | None = None, params: Mapping[str, bytes] | None = None, endpoint: str = "", as_model: str | None = None,
    implicit: bool = False, listed: bool = False,
) -> Price | None:  # fmt: skip
    """Return the prices of a response; None without a price of uncached tokens, or with a factor of unknown multiple.

    A response of several passes (`bill.iterations`) has `passes`, the prices of each; None for a pass without.

    `model` was asked for; `size` is the prompt in tokens, without which no prices of long prompts hold; `params`
    are the request's parameters as JSON; `as_model` is a model whose prices are used instead of those of the model
    that answered; `implicit` as in `rates`; `listed` as in `DatedRules.price`.
    """
    factors = [] if listed else _factors(rules, where, model, at, bill, params or {}, endpoint)
    answering = as_model or (bill.model if bill is not None and bill.model else model)
    price = rules.price(
        where.provider, answering, where.platform, at, prompt_tokens=size, extras=factors, implicit=implicit,
        listed=listed,
    )  # fmt: skip
    if price is None or bill is None or not bill.iterations:
        return price
    passes = [
        rules.price(
            where.provider, part.model or as_model or model, where.platform, at, implicit=implicit, listed=listed,
            prompt_tokens=None if part.kind == RUN else sum([getattr(part, name) or 0 for name in SUMMED_COUNTS[:3]]),
            extras=[factor for factor in factors if factor != "fast" or part.kind != "advisor_message"],
        )
        for part in bill.iterations
    ]  # fmt: skip
    return replace(price, passes=tuple(passes))


def unknown_factors(
    rules: DatedRules, where: Served, model: str | None, at: float | None, bill: Usage | None,
    params: Mapping[str, bytes] | None = None,
) -> list[str]:  # fmt: skip
    """Return the factors (`fast`, …), billed or else asked for, of unknown multiple; empty without a list price."""
    answering = bill.model if bill is not None and bill.model else model
    if rules.price(where.provider, answering, where.platform, at) is None:
        return []
    factors = _factors(rules, where, model, at, bill, params or {}, "")
    return [
        name for name in factors
        if rules.number(f"multiple_{name}", where.provider, answering, where.platform, at) is None
    ]  # fmt: skip


def _factors(
    rules: DatedRules, where: Served, model: str | None, at: float | None, bill: Usage | None,
    params: Mapping[str, bytes], endpoint: str,
) -> list[str]:  # fmt: skip
    factors: list[str] = []
    for name in ("speed", "service_tier", "inference_geo"):
        value = "" if bill is None else getattr(bill, name)
        if not value and params.get(name, b"")[:1] == b'"':
            value = text_of(params[name])
        factor = _FACTORS.get((name, value), "")
        factors += [factor] if factor and factor not in factors else []
    has_regional_price = is_regional(where, endpoint, model or "") and rules.find(
        "multiple_regional", where.provider, model, where.platform, at
    )
    return [*factors, "regional"] if has_regional_price else factors


_HOST = pattern(r"(?:[a-z]{2}\.api\.(?:openai\.com|x\.ai)|[a-z]+-[a-z]+\d+-aiplatform\.googleapis\.com)(?=[:/]|$)")
_MULTIREGION = pattern(r"aiplatform\.(?:us|eu)\.rep\.googleapis\.com(?=[:/]|$)")
_LOCATION = pattern(r"/locations/(?!global/)[a-z0-9-]+/")
_PROFILE = pattern(r"(?:(?P<region>[a-z-]+)\.)?(?:anthropic|openai)\.")


def is_regional(where: Served, endpoint: str, model: str) -> bool:
    """Return whether a request surely stays in a region, by host or path; on Bedrock by the model's prefix."""
    if where.platform == "bedrock":
        profile = _PROFILE.match(model.rsplit("/", 1)[-1])
        return profile is not None and profile["region"] != "global"
    if where.platform == "vertex":
        return any(host.match(endpoint) for host in (_HOST, _MULTIREGION)) or bool(_LOCATION.search(endpoint))
    return bool(endpoint) and not where.platform and _HOST.match(endpoint) is not None


def recorded_output(rules: DatedRules, client: str) -> Decimal | Literal["unknown"] | None:
    """Return the share of output tokens that a program (name, version) records; "unknown": unstated; None: no row."""
    name, _, version = client.rpartition(" ")
    row = rules.find("output_recorded", name, ".".join(map(str, version_of(version))))
    return None if row is None else row.value if isinstance(row.value, Decimal) else "unknown"


@lru_cache(64)
def is_partial(rules: DatedRules, client: str) -> bool:
    """Return whether a program (name and version) records only a part of the output tokens."""
    return bool(client) and recorded_output(rules, client) not in (None, 1)


Value: TypeAlias = Decimal | bool | str | None
UNKNOWN = "unknown"  # the value of a rule that the provider is known not to publish
_DAY = 86_400.0
MOST = 10**12  # no rule's value is larger
_REMEMBERED = 4096  # answers, at most: a recording can name any number of models

# The names of rules, by the unit of their numbers.
_MULTIPLES = ("write", "write_5m", "write_1h", "read", "read_implicit", "input", "output", *_SURCHARGES)
_WHOLE: dict[str, tuple[str, ...]] = {
    "tokens": (
        "minimum_tokens", "minimum_implicit", "minimum_least", "block_tokens", "cache_reuse", "checkpoint_step",
        "read_step",
    ),
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
_FLAGS = (
    "lookback_runs", "list_prices", "reads_output", "reads_returned_answer", "head_expires", "hidden_request",
    "drops_thinking", "caches_unmarked",
)  # fmt: skip
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


def least_cached(
    rules: DatedRules, turn: Turn, where: Served | None = None, *, minimum: str = "minimum_tokens"
) -> int:  # fmt: skip
    """Return below how many tokens surely nothing of a prompt is cached, so that nothing can be lost, read or wasted.

    That is the model's `minimum`, or if it is unknown the lowest of the provider's models (`minimum_least`), 0 without
    either. A model without a cache has `MOST`: no prompt is as long. `where` is its `served_by` by default.
    """
    where = where or served_by(turn)
    place = where.provider, turn.model, where.platform, turn.at
    row = rules.find("caches_unmarked", *place)
    if row is not None and row.value is False and cache_of(turn, where) != "gemini-explicit":
        return MOST
    return int(rules.number(minimum, *place) or rules.number("minimum_least", *place) or 0)


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
