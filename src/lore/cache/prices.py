"""What a request cost: the price of each kind of token, of further passes, and of tools that the provider ran.

The cost is unknown if a count is, or the price of at least one token. A write without a lifetime
costs `write`; if the provider has no such price, `write_5m`, its default lifetime. The speed, tier and region that a
response reports hold over those that were asked for; without either the list price holds. Requests of tools cost the
same at every speed. An advisor's pass has the price of its own model, at the normal speed.

Sources: Anthropic's pages on fast mode, service tiers, data residency, Bedrock and Google Cloud (regional endpoints and
Bedrock's inference profiles of a region cost more than global ones); OpenAI's on fast mode and data residency; xAI's on
regional endpoints.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from decimal import Decimal
from functools import lru_cache
from typing import TYPE_CHECKING, Literal

from msgspec import Struct
from msgspec.structs import replace

from lore.cache.falls import version_of
from lore.model.canonical import text_of
from lore.model.deferred import pattern
from lore.model.events import RUN, SUMMED_COUNTS, Usage

if TYPE_CHECKING:
    from lore.cache.rules import DatedRule, DatedRules
    from lore.cache.served import Served

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
_MULTIPLES = {
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
    surcharges = [*map(_MULTIPLES.__getitem__, factors), *(f"prompts over {length:,} tokens" for length in lengths[:1])]
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
