"""Prices: what the tokens of a bill cost by kind, in all passes of its response, and tools that the provider ran.

In: rows (`DatedRules`), who serves the request, its bill, the parameters that asked for it. Out: a `Price`, exact sums
in US dollars (`Decimal`). Rules: a count or a price that is not known makes the cost unknown, unless nothing is counted
at that price. What is written without a lifetime is paid at `write`, where a provider has no such price at `write_5m`,
its default. Requests of tools cost the same however tokens are multiplied. What a response says that it was served at
holds over what was asked for; what neither says costs the list price. An advisor's pass has the price of its own
model, at the usual speed. A place costs more only where a row says so.
Sources: Anthropic's pages on fast mode, service tiers, data residency, Bedrock and Google Cloud (regional endpoints,
and Bedrock's inference profiles of a region, cost more than global ones); OpenAI's on fast mode and data residency;
xAI's on regional endpoints.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from decimal import Decimal
from typing import TYPE_CHECKING, Literal, NamedTuple

from lore.cache.habits import version_of
from lore.model.canonical import text_of
from lore.model.deferred import pattern
from lore.model.events import Billed, Counts

if TYPE_CHECKING:
    from lore.cache.rules import DatedRule, DatedRules, Served

MILLION, THOUSAND = Decimal(1_000_000), 1000
KINDS = ("uncached", "read", "write", "write_5m", "write_1h", "output")  # of tokens
TOOLS = ("web_search", "web_fetch", "code_execution", "tool_search")  # that usage counts
_DERIVED = ("read", "write", "write_5m", "write_1h")  # kinds that may be given as a multiple of the uncached price


class Price(NamedTuple):
    """US dollars a million tokens, by kind; None where there is no such price or it is not known.

    `tools` are dollars a thousand requests; `passes` are the prices of a bill's other passes, in their order.
    """

    uncached: Decimal | None = None
    read: Decimal | None = None
    write: Decimal | None = None
    write_5m: Decimal | None = None
    write_1h: Decimal | None = None
    output: Decimal | None = None
    tools: tuple[tuple[str, Decimal], ...] = ()
    passes: tuple[Price | None, ...] = ()

    def of(self, bill: Counts) -> Decimal | None:
        """Return what a bill costs in US dollars, every pass and tool of it.

        `write_tokens` is all that was written, those of a lifetime are parts of it. Where nothing is said about
        writes they are free or none, if the provider charges none, and unknown otherwise.
        """
        paid = self._of_counts(bill)
        if paid is None or not isinstance(bill, Billed):
            return paid
        tools = dict(self.tools)
        for name, requests in bill.server_tools:
            if name not in tools:
                return None
            paid += requests * tools[name] / THOUSAND
        if bill.iterations and len(bill.iterations) != len(self.passes):
            return None
        for counts, price in zip(bill.iterations, self.passes, strict=False):
            cost = None if price is None else price.of(counts)
            if cost is None:
                return None
            paid += cost
        return paid

    def _of_counts(self, usage: Counts) -> Decimal | None:
        lives = (usage.write_5m_tokens, usage.write_1h_tokens)
        said = any(count is not None for count in lives)
        if usage.write_tokens is None and None in lives and (said or self.writes_are_charged):
            return None
        paid = Decimal(0)
        for count, price in self._counted(usage).values():
            if count is None or count < 0 or (count and price is None):
                return None
            paid += count * (price or 0)
        return paid / MILLION

    def _counted(self, usage: Counts) -> dict[str, tuple[int | None, Decimal | None]]:
        """Return the tokens of each kind, with their price; where nobody says what was written, that is 0."""
        hour, short = usage.write_1h_tokens or 0, usage.write_5m_tokens or 0
        write = 0 if usage.write_tokens is None else usage.write_tokens - short - hour
        return {
            "uncached": (usage.uncached_tokens, self.uncached), "read": (usage.read_tokens, self.read),
            "write_1h": (hour, self.write_1h), "write_5m": (short, self.write_5m),
            "write": (write, self.write if self.write is not None else self.write_5m),
            "output": (usage.output_tokens, self.output),
        }  # fmt: skip

    def parts(self, bill: Counts) -> dict[str, Decimal]:
        """Return what a bill cost by kind of price; kinds whose count or price is not known are left out."""
        counted = self._counted(bill).items()
        found = [{
            kind: count * price / MILLION for kind, (count, price) in counted
            if count and (count > 0 or kind != "write") and price is not None
        }]  # fmt: skip
        if isinstance(bill, Billed):
            tools = dict(self.tools)
            found += [{name: count * tools[name] / THOUSAND} for name, count in bill.server_tools if name in tools]
            passes = zip(bill.iterations, self.passes, strict=False)
            found += [price.parts(counts) for counts, price in passes if price is not None]
        parts: dict[str, Decimal] = {}
        for kind, paid in (entry for some in found for entry in some.items()):
            parts[kind] = parts.get(kind, Decimal(0)) + paid
        return parts

    @property
    def writes_are_charged(self) -> bool:
        """Whether there is a price of writing."""
        return any(price is not None for price in (self.write, self.write_5m, self.write_1h))


def rates(
    find: Callable[[str], DatedRule | None], factors: Iterable[str], *, listed: bool, implicit: bool = False
) -> Price | None:  # fmt: skip
    """Return all rates, each with its factors; a maker's own hold where they are `listed`."""

    def money(rule: str) -> Decimal | None:
        row = find(rule)
        if row is None or not isinstance(row.value, Decimal):
            return None
        return row.value if listed or row.own or row.platform else None

    uncached, sides = money("price_uncached"), _sides(find, factors)
    if uncached is None or sides is None:
        return None
    found: dict[str, Decimal | None] = {}
    for kind in KINDS:
        rate = money(f"price_{kind}")
        if kind in _DERIVED and find(f"price_{kind}") is None:
            own = f"multiple_{kind}_implicit"
            multiple = money(own if kind == "read" and implicit and find(own) is not None else f"multiple_{kind}")
            rate = None if multiple is None else multiple * uncached
        found[kind] = None if rate is None else rate * sides["output" if kind == "output" else "input"]
    tools = ((tool, money(f"price_{tool}")) for tool in TOOLS)
    known = tuple([(tool, rate) for tool, rate in tools if rate is not None])
    uncached, read, write, write_5m, write_1h, output = (found[kind] for kind in KINDS)
    return Price(uncached, read, write, write_5m, write_1h, output, known)


def _sides(find: Callable[[str], DatedRule | None], factors: Iterable[str]) -> dict[str, Decimal] | None:
    """Return what multiplies the prices of input and of output; None where a factor is not known."""
    every = Decimal(1)
    for name in factors:
        row = find(f"multiple_{name}")
        if row is None or not isinstance(row.value, Decimal):
            return None
        every *= row.value
    sides: dict[str, Decimal] = {"input": every, "output": every}
    for side in sides:  # by the prompt's length
        row = find(f"multiple_{side}")
        if row is not None:
            if not isinstance(row.value, Decimal):
                return None
            sides[side] *= row.value
    return sides


# the prices of one bill: by the model that answered, at the speed, tier and place that it was served at

_FACTORS = {
    ("speed", "fast"): "fast", ("service_tier", "fast"): "fast", ("service_tier", "priority"): "priority",
    ("service_tier", "flex"): "flex", ("service_tier", "batch"): "batch", ("inference_geo", "us"): "us",
}  # fmt: skip
_ADVISOR = "advisor_message"


def bill_price(
    rules: DatedRules, where: Served, model: str | None, at: float | None, bill: Billed | None, *,
    size: int | None = None, asked: Mapping[str, bytes] | None = None, endpoint: str = "", instead: str | None = None,
    implicit: bool = False,
) -> Price | None:  # fmt: skip
    """Return the prices of a bill, None where nobody knows them; `size` is the prompt's, in tokens.

    `model` was asked, `instead` is whom to ask in its place; `asked` are the request's parameters, as JSON.
    """
    factors = tuple(_factors(rules, where, model, at, bill, asked or {}, endpoint))
    own = instead or (bill.model if bill is not None and bill.model else model)
    price = rules.price(where.provider, own, where.platform, at, prompt_tokens=size, extras=factors, implicit=implicit)
    if price is None or bill is None or not bill.iterations:
        return price
    passes = [
        rules.price(
            where.provider, found.model or instead or model, where.platform, at, implicit=implicit,
            prompt_tokens=sum((found.uncached_tokens or 0, found.read_tokens or 0, found.write_tokens or 0)),
            extras=[factor for factor in factors if factor != "fast" or found.kind != _ADVISOR],
        )
        for found in bill.iterations
    ]  # fmt: skip
    return price._replace(passes=tuple(passes))


def _factors(
    rules: DatedRules, where: Served, model: str | None, at: float | None, bill: Billed | None,
    asked: Mapping[str, bytes], endpoint: str,
) -> Iterator[str]:  # fmt: skip
    found: dict[str, None] = {}
    for name in ("speed", "service_tier", "inference_geo"):
        value = "" if bill is None else getattr(bill, name)
        if not value and asked.get(name, b"")[:1] == b'"':
            value = text_of(asked[name])
        factor = _FACTORS.get((name, value))
        if factor is not None:
            found[factor] = None
    yield from found
    if is_regional(where, endpoint, model or "") and rules.find(
        "multiple_regional", where.provider, model, where.platform, at
    ):
        yield "regional"


def unknown_factors(
    rules: DatedRules, where: Served, model: str | None, at: float | None, bill: Billed | None,
    asked: Mapping[str, bytes] | None = None,
) -> list[str]:  # fmt: skip
    """Name what multiplies a bill's prices by nobody knows how much, where the list price itself is known."""
    own = bill.model if bill is not None and bill.model else model
    if rules.price(where.provider, own, where.platform, at) is None:
        return []
    factors = _factors(rules, where, model, at, bill, asked or {}, "")
    return [
        name for name in factors if rules.number(f"multiple_{name}", where.provider, own, where.platform, at) is None
    ]


_HOST = pattern(r"(?:[a-z]{2}\.api\.(?:openai\.com|x\.ai)|[a-z]+-[a-z]+\d+-aiplatform\.googleapis\.com)(?=[:/]|$)")
_MULTIREGION = pattern(r"aiplatform\.(?:us|eu)\.rep\.googleapis\.com(?=[:/]|$)")
_LOCATION = pattern(r"/locations/(?!global/)[a-z0-9-]+/")
_PROFILE = pattern(r"(?:(?P<region>[a-z-]+)\.)?(?:anthropic|openai)\.")


def is_partial(rules: DatedRules, client: str) -> bool:
    """Tell whether a program, by name and version, is known to note only a part of the output tokens."""
    return bool(client) and recorded_output(rules, client) not in (None, 1)


def recorded_output(rules: DatedRules, client: str) -> Decimal | Literal["unknown"] | None:
    """Return which share of the output tokens a program's version notes; None where no row says anything of it."""
    name, _, version = client.rpartition(" ")
    row = rules.find("output_recorded", name, ".".join(map(str, version_of(version))))
    return None if row is None else row.value if isinstance(row.value, Decimal) else "unknown"


def is_regional(where: Served, endpoint: str, model: str) -> bool:
    """Tell whether a request surely stays in a region: by its host, its path, or Bedrock's name of the model."""
    if where.platform == "bedrock":
        profile = _PROFILE.match(model.rsplit("/", 1)[-1])
        return profile is not None and profile["region"] != "global"
    if where.platform == "vertex":
        return any(host.match(endpoint) for host in (_HOST, _MULTIREGION)) or bool(_LOCATION.search(endpoint))
    return not where.platform and _HOST.match(endpoint) is not None
