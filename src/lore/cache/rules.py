"""What caches do and what tokens cost, as dated rows: looked up by rule, provider, model, platform and time.

In: rows (`rule_file` reads them); endpoint, model and dialect of a request, as recorded. Out: the row that holds, its
number, a price; the maker of a model (`provider`), the cloud or gateway that serves it (`platform`; empty: the
maker's own) and one spelling of its name. A row of the user's that matches holds over any other; then the most
specific model pattern, then the row of the very platform over one of all, then the one for the longest prompts that
still fits, then the latest. Nothing is guessed: where no row matches, or it says "unknown", the answer is None.

Sources: the rows name theirs; names: the model lists of Anthropic, Bedrock and Vertex, and what recordings hold.
"""

from __future__ import annotations

import math
import re
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable
from datetime import date
from decimal import Decimal
from functools import lru_cache
from typing import Literal, NamedTuple, TypeAlias

from lore.cache.bills import lifetime
from lore.cache.habits import Habit, Habits
from lore.cache.prices import KINDS, TOOLS, Price, rates
from lore.model.deferred import pattern
from lore.model.patterns import matches_shell
from lore.model.providers import ENGINES, GATEWAYS, UNKNOWN, has_exact_breakpoints, named_provider, provider_of
from lore.model.turn import Turn

Value: TypeAlias = Decimal | bool | str | None
Kind: TypeAlias = Literal["number", "whole", "flag", "text"]
EVIDENCE = ("P", "M", "S", "?")  # the vendor's own page, measured, second-hand, inferred


class RuleKind(NamedTuple):
    """What a rule's value is, in which unit."""

    kind: Kind
    unit: str


_MULTIPLES = (
    "write", "write_5m", "write_1h", "read", "read_implicit", "input", "output",
    "fast", "priority", "flex", "batch", "us", "regional", "peak",
)  # fmt: skip
_WHOLE: dict[str, tuple[str, ...]] = {
    "tokens": (
        "minimum_tokens", "minimum_implicit", "block_tokens", "recomputed_tokens", "cache_reuse", "checkpoint_step",
    ),
    "positions": ("lookback",), "breakpoints": ("max_breakpoints", "compared_breakpoints"),
    "requests": ("requests_per_minute",), "MiB": ("cache_ram",), "checkpoints": ("checkpoints",),
}  # fmt: skip
_NUMBERS: dict[str, tuple[str, ...]] = {
    "seconds": ("lifetime", "lifetime_implicit", "lifetime_long", "ready_after"), "multiple": ("lifetime_grace",),
    "share": ("slot_similarity", "output_recorded"), "usd_per_mtok": tuple([f"price_{kind}" for kind in KINDS]),
    "usd_per_thousand_requests": tuple([f"price_{tool}" for tool in TOOLS]),
    "usd_per_mtok_hour": ("price_storage_hour",),
}  # fmt: skip
_FLAGS = ("refreshed_by_reads", "lookback_runs", "partial_blocks", "caches_output", "list_prices")
_TEXTS = {"order": "sections", "eviction": "policy", "peak_hours": "hours"}
RULES: dict[str, RuleKind] = {
    **{rule: RuleKind("whole", unit) for unit, rules in _WHOLE.items() for rule in rules},
    **{rule: RuleKind("number", unit) for unit, rules in _NUMBERS.items() for rule in rules},
    **{f"multiple_{name}": RuleKind("number", "multiple") for name in _MULTIPLES},
    **dict.fromkeys(_FLAGS, RuleKind("flag", "flag")),
    **{rule: RuleKind("text", unit) for rule, unit in _TEXTS.items()},
}
# Facts that no prediction uses: they stand in the tables to be read.
FOR_READING = frozenset((
    "recomputed_tokens", "cache_ram", "lifetime_long", "requests_per_minute",
    "partial_blocks", "caches_output", "eviction", "price_storage_hour",
))  # fmt: skip
_MANY = 4096  # answers remembered: model names come from recordings, which can hold any number


class DatedRule(NamedTuple):
    """One row. `value` is None where it is known that nobody knows.

    `model` is a shell pattern over names as `normal` spells them; `since` is `valid_from` in seconds since
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


class DatedRules:
    """Rows to look up in. `as_of` is the newest date on which a table was checked; None: no table says.

    `habits` are what was counted of clients and caches.
    """

    def __init__(self, rows: Iterable[DatedRule], as_of: date | None = None, habits: Iterable[Habit] = ()) -> None:
        self.rows = tuple(rows)
        self.as_of = as_of
        self.habits = Habits(habits)
        self._by_rule: dict[str, list[DatedRule]] = {}
        for row in sorted(self.rows, key=_rank, reverse=True):
            self._by_rule.setdefault(row.rule, []).append(row)
        self._now = math.inf if as_of is None else seconds(as_of)
        self._days = sorted({row.since for row in self.rows})
        self._lengths = sorted({row.above_tokens for row in self.rows if row.above_tokens is not None})
        self._matching = lru_cache(_MANY)(self._matches)
        self._prices: dict[tuple[object, ...], Price | None] = {}

    def overridden_by(
        self, rows: Iterable[DatedRule], as_of: date | None = None, habits: Iterable[Habit] = ()
    ) -> DatedRules:
        """Return these rules under a user's rows: one of them that matches holds, whatever the others say."""
        own, counted = tuple(row._replace(own=True) for row in rows), tuple(row._replace(own=True) for row in habits)
        keys = {row.key for row in (*own, *counted)}
        left = [row for row in self.rows if row.key not in keys]
        others = [row for row in self.habits.rows if row.key not in keys]
        return DatedRules((*own, *left), as_of or self.as_of, (*counted, *others))

    def find(
        self, rule: str, provider: str, model: str | None, platform: str = "", at: float | None = None,
        *, prompt_tokens: int | None = None,
    ) -> DatedRule | None:  # fmt: skip
        """Return the row that holds; `at` is seconds since the epoch, None: the day on which the tables were checked.

        Without a time every row of the user's holds. A prompt of unknown size falls under the rows for any size.
        """
        for row in self._matching(rule, provider, model, platform):
            if not row.since <= (at if at is not None else math.inf if row.own else self._now):
                continue
            if row.above_tokens is None or (prompt_tokens is not None and prompt_tokens > row.above_tokens):
                return row
        return None

    def number(
        self, rule: str, provider: str, model: str | None, platform: str = "", at: float | None = None
    ) -> Decimal | None:
        """Return the number of the row that holds; None where none does, or it is not known."""
        row = self.find(rule, provider, model, platform, at)
        return row.value if row is not None and isinstance(row.value, Decimal) else None

    def text(self, rule: str, provider: str, model: str | None, platform: str = "", at: float | None = None) -> str:
        """Return a word or a list of words; empty where no row holds one."""
        row = self.find(rule, provider, model, platform, at)
        return row.value if row is not None and isinstance(row.value, str) else ""

    def price(
        self, provider: str, model: str | None, platform: str = "", at: float | None = None,
        *, prompt_tokens: int | None = None, extras: Iterable[str] = (), implicit: bool = False,
    ) -> Price | None:  # fmt: skip
        """Return what tokens of one request cost; None where not even the uncached ones have a price.

        `extras` name what it was served at besides ("fast", "priority", "flex", "batch", "us", "regional"): each
        multiplies all prices of tokens; one without a row makes them unknown. Peak hours count where `at` is known.
        `implicit`: the request sets no breakpoints, and what it reads may have a price of its own.
        """
        if at is not None and not math.isfinite(at):
            return None
        peak = at is not None and _within(self.text("peak_hours", provider, model, platform, at), at)
        factors = (*extras, "peak") if peak else tuple(extras)
        # A price changes with nothing but these: a session asks for the same one turn by turn.
        key = (
            provider, model, platform, factors, implicit, None if at is None else bisect_right(self._days, at),
            0 if prompt_tokens is None else bisect_left(self._lengths, prompt_tokens),
        )  # fmt: skip
        if key not in self._prices:
            if len(self._prices) >= _MANY:
                self._prices.clear()
            listed = self.find("list_prices", provider, model, platform, at)
            self._prices[key] = rates(
                lambda rule: self.find(rule, provider, model, platform, at, prompt_tokens=prompt_tokens),
                factors, listed=listed is None or listed.value is not False, implicit=implicit,
            )  # fmt: skip
        return self._prices[key]

    def newer(self, at: float | None) -> bool:
        """Tell whether something was recorded on a later day than that on which the tables were checked."""
        return at is not None and self.as_of is not None and at >= seconds(self.as_of) + _DAY

    def _matches(self, rule: str, provider: str, model: str | None, platform: str) -> tuple[DatedRule, ...]:
        """Return the rows that match at any time, the first the strongest."""
        name = normal(model)
        return tuple([
            row for row in self._by_rule.get(rule, ())
            if row.provider in (provider, "*") and row.platform in ("", platform) and matches_shell(row.model, name)
        ])  # fmt: skip


_DAY = 86_400.0
_SIGNS = pattern(r"\[[^]]*\]|[*?]")


def seconds(day: date) -> float:
    """Return when a day begins (UTC), in seconds since the epoch."""
    return (day - date(1970, 1, 1)).days * _DAY


def _rank(row: DatedRule) -> tuple[bool, bool, int, bool, bool, int, float]:
    """Order rows by strength: own, nearer to one model, of one platform, of one provider, longer prompts, later."""
    literals = len(_SIGNS.sub("", row.model))
    return (row.own, literals == len(row.model), literals, bool(row.platform), row.provider != "*",
            row.above_tokens or 0, row.since)  # fmt: skip


_HOURS = pattern(r"(\d{1,3})-(\d{1,3})", re.ASCII)


def spans(hours: str) -> tuple[tuple[int, int], ...] | None:
    """Read hours of a day ("1-4,6-10", the end not included); None where they are written otherwise."""
    found = [_HOURS.fullmatch(part) for part in hours.split(",")]
    spans = tuple([(int(match[1]), int(match[2])) for match in found if match is not None])
    fitting = len(spans) == len(found) and all(begin < end <= 24 for begin, end in spans)
    return spans if fitting else None


def _within(hours: str, at: float) -> bool:
    """Tell whether a time lies in hours (UTC) of a day from Monday to Friday."""
    day, hour = at // _DAY, at % _DAY / 3600
    weekday = (day + 3) % 7  # the epoch began on a Thursday
    return weekday < 5 and any(begin <= hour < end for begin, end in spans(hours) or ())


# whose model a request asks for, where, and by what name

PLATFORMS = frozenset(("azure", "bedrock", "openrouter", "vertex"))  # those of `provider_of` that make no models
LONGEST = 200  # characters of a name: a longer one is no model's
_CACHES = {"anthropic": "anthropic", "gemini": "gemini", "deepseek": "deepseek", "moonshot": "kimi", "xai": "xai",
           "qwen": "qwen-implicit", **{engine: engine for engine in ENGINES}}  # fmt: skip


class Served(NamedTuple):
    """Who made the model that is asked for, and where it is served; empty where that is not known."""

    provider: str
    platform: str


@lru_cache(_MANY)
def served(endpoint: str, model: str | None, dialect: str, answered_by: str = "") -> Served:
    """Name provider and platform of a request; behind a gateway, those of who answered, whatever the model's name.

    An engine that says that it answered is both, whatever it serves.
    """
    if answered_by in ENGINES:
        return Served(answered_by, "")
    host = provider_of(endpoint, model, dialect)
    if answered_by and (host in GATEWAYS or not endpoint):
        answers = named_provider(answered_by)  # nobody that lore knows where the gateway's name for it is not listed
        if answers not in PLATFORMS:
            return Served(answers, host if host in PLATFORMS else "")
        host = answers
    if host in PLATFORMS:
        maker = provider_of("", normal(model), "")
        return Served(maker or ("openai" if host == "azure" else UNKNOWN), host)
    if host == UNKNOWN and not endpoint:  # no host was recorded: the model's name says whose it is
        return Served(provider_of("", normal(model), ""), "")
    return Served(host, "")


def served_by(turn: Turn) -> Served:
    """Return who made and who serves the model of a turn; the prompt need not be made for it."""
    return served(turn.call.endpoint, turn.model, turn.dialect, turn.call.answered_by)


def billed_by(turn: Turn) -> Served:
    """Return by whose list a turn is paid: a router that is a shop of its own asks its own prices, whoever answers.

    A gateway that is not listed passes on what those ask who answer.
    """
    call = turn.call
    if not call.answered_by or not call.endpoint:
        return served_by(turn)
    host = served(call.endpoint, turn.model, turn.dialect)
    return host if host.platform in GATEWAYS else served_by(turn)


def cache_of(turn: Turn, where: Served) -> str:
    """Name the cache that a turn was served by; empty where that is not known."""
    if where.platform == "bedrock":
        return "bedrock"
    if where.provider == "openai":
        return "openai-breakpoint" if has_exact_breakpoints(turn.model) else "openai"
    if where.provider == "gemini" and not is_transcript(turn):
        params = turn.prompt.params
        if params.get("cachedContent") or params.get("cached_content"):
            return "gemini-explicit"
    return _CACHES.get(where.provider, "")


def is_transcript(turn: Turn) -> bool:
    """Tell whether a turn is known by its history alone: its recording holds neither system prompt nor tools."""
    return turn.basis is not None


def minimum_tokens(rules: DatedRules, turn: Turn) -> int | None:
    """Return the fewest tokens that the turn's model caches; None where nobody knows."""
    where = served_by(turn)
    found = rules.number("minimum_tokens", where.provider, turn.model, where.platform, turn.at)
    return None if found is None else int(found)


_VENDOR = pattern(
    r"^(?:(?:us|us-gov|eu|apac|jp|au|ca|sa|global)\.)?"
    r"(?:anthropic|openai|deepseek|qwen|moonshot|moonshotai|xai|google|amazon|meta|mistral)\."
)
_DATE = pattern(r"(?:@(?:\d{8}|latest|default)|-\d{8}|-\d{4}-\d\d-\d\d|-latest)$")
_PLATFORM_VERSION = pattern(r"-v\d+(?::\w+)*$")
_WINDOW = pattern(r"\[\d+m\]$")  # Claude Code's sign of a long context window
_NUMBER_FIRST = pattern(r"^claude-(\d(?:-\d)?)-(opus|sonnet|haiku)(?=$|-)")


@lru_cache(_MANY)
def normal(model: str | None) -> str:
    """Spell a model's name as the tables do: lower case, without vendor, region, date and a platform's version.

    Claude's versions are joined by hyphens and stand behind the family (`claude-sonnet-4.6`,
    `us.anthropic.claude-sonnet-4-6-v1:0` and `claude-sonnet-4-6@20260217` are `claude-sonnet-4-6`).
    """
    if not model or len(model) > LONGEST:
        return ""
    name = _VENDOR.sub("", model.strip().lower().rsplit("/", 1)[-1])
    name = _WINDOW.sub("", name)
    if not name.startswith("claude"):
        return _DATE.sub("", name)
    name = _DATE.sub("", _PLATFORM_VERSION.sub("", _DATE.sub("", name)))
    return _NUMBER_FIRST.sub(r"claude-\2-\1", name.replace(".", "-").removesuffix("-thinking"))


# How long what a request left in a cache lives: a bill that names a lifetime holds; a cache of entries at breakpoints
# keeps the one before where a bill names none; what a cache without breakpoints keeps is asked of the rules.

WITH_BREAKPOINTS = frozenset(("anthropic", "bedrock"))  # entries stand at breakpoints, and writes are billed


class Lifetime(NamedTuple):
    """How long a cache keeps what is not used, in seconds (None: not known); `billed`: a bill says it, no rule."""

    seconds: float | None = None
    billed: bool = False


def lifetime_after(turn: Turn, before: Lifetime, rules: Callable[[], DatedRules]) -> Lifetime:
    """Return how long what stands in the cache after a turn lives; `before` is what held before it in its chain."""
    where = served_by(turn)
    breakpoints = cache_of(turn, where) in WITH_BREAKPOINTS
    billed = lifetime(turn, before.seconds if breakpoints else None)
    if billed is not None:
        return Lifetime(billed, billed=True)
    return Lifetime() if breakpoints else Lifetime(idle_lifetime(rules(), where, turn), billed=False)


def idle_lifetime(rules: DatedRules, where: Served, turn: Turn) -> float | None:
    """Return how long a cache without breakpoints keeps what is not used; a rule of implicit caches comes first."""
    of_implicit = rules.find("lifetime_implicit", where.provider, turn.model, where.platform, turn.at)
    rule = "lifetime" if of_implicit is None else "lifetime_implicit"
    found = rules.number(rule, where.provider, turn.model, where.platform, turn.at)
    return None if found is None else float(found)
