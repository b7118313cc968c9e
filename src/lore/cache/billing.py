"""What the tokens of one bill cost: by the model that answered, at the speed, tier and place that it was served at.

In: rules, who serves the request, its bill, the parameters that asked for it. Out: a `Price` for all passes of the
bill. Rules: what a response says that it was served at holds over what was asked for; what neither says costs the list
price. An advisor's pass has the price of its own model, at the usual speed. A place costs more only where a row says
so. Sources: Anthropic's pages on fast mode, service tiers, data residency, Bedrock and Google Cloud (regional
endpoints, and Bedrock's inference profiles of a region, cost more than global ones); OpenAI's on fast mode and data
residency; xAI's on regional endpoints.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from decimal import Decimal
from typing import Literal

from lore.cache.habits import version_of
from lore.cache.prices import Price
from lore.cache.rules import DatedRules, Served
from lore.model.canonical import text_of
from lore.model.deferred import pattern
from lore.model.events import Billed, Counts

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


def partial_output(rules: DatedRules, bill: Counts) -> bool:
    """Tell whether the program that noted a bill is known to keep only a part of its output tokens, by its version."""
    return isinstance(bill, Billed) and is_partial(rules, bill.client)


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
