"""The cost of usage: exact arithmetic, compared with prices that the vendors publish."""

from datetime import date
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from helpers.each import each
from lore.cache.breakpoint_rules import ALWAYS, seconds
from lore.cache.rules import Price, bill_price, is_regional
from lore.cache.served import Served
from lore.model.events import RUN, Usage
from lore.run.rules import packaged

CLAUDE = Price(*map(Decimal, ("5", "0.5")), None, *map(Decimal, ("6.25", "10", "25")))
BREAKPOINTS = Price(*map(Decimal, ("4", "0.4", "5")), None, None, Decimal(20))
CLASSIC = Price(Decimal("2.5"), Decimal("1.25"), output=Decimal(10))
M = 1_000_000

counts = st.integers(0, 10**9)
usages = st.fixed_dictionaries(
    {name: counts for name in ("uncached", "read", "write_5m", "write_1h", "output")}  # noqa: C420 - one strategy each
)


def bill(**counts):
    return Usage(**{f"{name}_tokens": count for name, count in counts.items()})


@each("price, tokens, dollars", [
    (CLAUDE, {"uncached": M, "read": M, "write": 2 * M, "write_5m": M, "write_1h": M, "output": M}, "46.75"),
    (CLAUDE, {"uncached": 0, "read": 0, "write": M, "output": 0}, "6.25"),  # no lifetime: the default of 5 minutes
    (CLAUDE, {"uncached": 0, "read": 0, "write": M, "write_1h": M, "output": 0}, "10"),
    (CLAUDE, {"uncached": 0, "read": 0, "write_5m": M, "write_1h": M, "output": 0}, "16.25"),
    (BREAKPOINTS, {"uncached": 0, "read": 10 * M, "write": M, "output": 0}, "9"),
    (CLASSIC, {"uncached": M, "read": M, "output": M}, "13.75"),
    (CLASSIC, {"uncached": 1, "read": 0, "write": 0, "output": 0}, "0.0000025"),
])  # fmt: skip
def test_each_kind_is_paid_at_its_price(price, tokens, dollars):
    assert price.of(bill(**tokens)) == Decimal(dollars)


@each("price, tokens", [
    (CLAUDE, {"uncached": None, "read": 0, "write": 0, "output": 0}),
    (CLAUDE, {"uncached": 0, "read": None, "write": 0, "output": 0}),
    (CLAUDE, {"uncached": 0, "read": 0, "write": 0, "output": None}),
    (CLAUDE, {"uncached": 0, "read": 0, "output": 0}),  # writes are charged, but their count is unknown
    (CLAUDE, {"uncached": 0, "read": 0, "write_5m": 1, "output": 0}),
    (CLASSIC, {"uncached": 0, "read": 0, "write": 1, "output": 0}),  # no price of writing
    (CLAUDE, {"uncached": 0, "read": 0, "write": 1, "write_5m": 2, "output": 0}),  # a part larger than the whole
    (CLAUDE, {"uncached": -1, "read": 0, "write": 0, "output": 0}),
])  # fmt: skip
def test_unknown_or_contradictory_counts_have_no_cost(price, tokens):
    assert price.of(bill(**tokens)) is None


@given(usages, usages)
def test_cost_is_linear_and_exact(usage, other_usage):
    both = {name: usage[name] + other_usage[name] for name in usage}
    assert CLAUDE.of(bill(**both)) == CLAUDE.of(bill(**usage)) + CLAUDE.of(bill(**other_usage))


ANTHROPIC, OPENAI = Served("anthropic", ""), Served("openai", "")
AUGUST = seconds(date(2026, 8, 1))
OPUS = {"uncached": 5, "read": "0.5", "write_5m": "6.25", "write_1h": 10, "output": 25}  # dollars a million
FABLE = {"uncached": 10, "read": 1, "write_5m": "12.5", "write_1h": 20, "output": 50}
KINDS = ("uncached", "read", "write_5m", "write_1h", "output")
COUNTS = st.fixed_dictionaries(dict.fromkeys(KINDS, st.integers(0, 10**6)))


def tokens(uncached=0, read=0, write_5m=0, write_1h=0, output=0):
    return uncached, read, write_5m + write_1h, output, write_5m, write_1h


def dollars(table, counts, times=1):
    """Return the cost of token counts by a table of prices."""
    return sum(Decimal(count) * Decimal(table[kind]) * Decimal(times) / 10**6 for kind, count in counts.items())


def cost(bill, model="claude-opus-4-8", where=ANTHROPIC, at=AUGUST, **more):
    price = bill_price(packaged(), where, model, at, bill, **more)
    return None if price is None else price.of(bill)


@each("served, times", [
    ({}, 1),
    ({"speed": "standard", "service_tier": "standard", "inference_geo": "not_available"}, 1),
    ({"speed": "fast"}, 2),
    ({"service_tier": "batch"}, "0.5"),
    ({"inference_geo": "us"}, "1.1"),
    ({"inference_geo": "global"}, 1),
    ({"speed": "fast", "inference_geo": "us"}, "2.2"),
    ({"service_tier": "batch", "inference_geo": "us"}, "0.55"),
])  # fmt: skip
def test_served_speed_multiplies_every_price(served, times):
    counts = {"uncached": 3, "read": 100_000, "write_5m": 700, "write_1h": 11_000, "output": 900}
    assert cost(Usage(*tokens(**counts), **served)) == dollars(OPUS, counts, times)


@pytest.mark.parametrize(("model", "at", "times"), [
    ("claude-opus-4-6", date(2026, 2, 10), 3),
    ("claude-opus-4-6", date(2026, 3, 1), 6),
    ("claude-opus-4-7", date(2026, 5, 1), 6),
    ("claude-opus-4-8", date(2026, 7, 1), 2),
    ("claude-opus-5", date(2026, 8, 1), 2),
])  # fmt: skip
def test_fast_mode_costs_by_model_and_day(model, at, times):
    counts = {"read": 10**6, "output": 10**5}
    assert cost(Usage(*tokens(**counts), speed="fast"), model, at=seconds(at)) == dollars(OPUS, counts, times)


def test_response_speed_overrides_the_request():
    request_params = {"speed": b'"fast"', "service_tier": b'"flex"', "inference_geo": b"null"}
    bill = Usage(*tokens(uncached=10**6))
    assert cost(bill, params={"speed": b'"fast"'}) == 10
    assert cost(Usage(*tokens(uncached=10**6), speed="standard"), params={"speed": b'"fast"'}) == 5
    assert (
        cost(Usage(*tokens(uncached=10**6), service_tier="default"), "gpt-5", OPENAI, params=request_params) is not None
    )


@each("model, tier, million", [
    ("gpt-5", "default", "1.25"), ("gpt-5", "flex", "0.625"), ("gpt-5", "priority", "2.5"),
    ("gpt-5", "fast", "2.5"), ("gpt-5", "batch", "0.625"), ("gpt-5.5", "priority", "12.5"),
    ("gpt-5-mini", "priority", "0.45"), ("gpt-4.1", "fast", "3.5"),
])  # fmt: skip
def test_openais_tiers_have_the_prices_that_it_prints(model, tier, million):
    assert cost(Usage(10**6, 0, None, 0, service_tier=tier), model, OPENAI) == Decimal(million)


def test_anthropic_priority_tier_has_no_known_price():
    assert cost(Usage(*tokens(uncached=1), service_tier="priority")) is None


@each("where, endpoint, model, regional", [
    (Served("anthropic", "bedrock"), "", "us.anthropic.claude-sonnet-4-5-20250929-v1:0", True),
    (Served("anthropic", "bedrock"), "", "anthropic.claude-sonnet-4-5-20250929-v1:0", True),
    (Served("anthropic", "bedrock"), "", "global.anthropic.claude-sonnet-4-5-20250929-v1:0", False),
    (Served("anthropic", "bedrock"), "", "claude-sonnet-4-5", False),
    (Served("anthropic", "vertex"), "us-east5-aiplatform.googleapis.com/v1/x", "claude-sonnet-4-5", True),
    (Served("anthropic", "vertex"), "aiplatform.eu.rep.googleapis.com/v1/x", "claude-sonnet-4-5", True),
    (Served("anthropic", "vertex"), "aiplatform.googleapis.com/v1/projects/p/locations/global/x", "c", False),
    (Served("anthropic", "vertex"), "aiplatform.googleapis.com/v1/projects/p/locations/us-east5/x", "c", True),
    (OPENAI, "eu.api.openai.com/v1/responses", "gpt-5.4", True),
    (OPENAI, "api.openai.com/v1/responses", "gpt-5.4", False),
    (Served("xai", ""), "us.api.x.ai/v1", "grok-4.6", True),
    (ANTHROPIC, "api.anthropic.com/v1/messages", "claude-opus-5", False),
])  # fmt: skip
def test_host_or_model_makes_a_request_regional(where, endpoint, model, regional):
    assert is_regional(where, endpoint, model) is regional


@each("where, endpoint, model, million", [
    (Served("anthropic", "bedrock"), "", "us.anthropic.claude-sonnet-4-5-20250929-v1:0", "3.3"),
    (Served("anthropic", "bedrock"), "", "us.anthropic.claude-sonnet-4-20250514-v1:0", "3"),
    (Served("anthropic", "bedrock"), "", "global.anthropic.claude-haiku-4-5-20251001-v1:0", "1"),
    (Served("anthropic", "vertex"), "us-east5-aiplatform.googleapis.com/v1/x", "claude-opus-4-8", "5.5"),
    (OPENAI, "us.api.openai.com/v1/responses", "gpt-5.4", "2.75"),
    (Served("xai", ""), "us.api.x.ai/v1", "grok-4.6", "2.2"),
])  # fmt: skip
def test_regional_surcharge_depends_on_the_model(where, endpoint, model, million):
    bill = Usage(10**6, 0, 0, 0)
    at = seconds(date(2026, 9, 1))
    assert cost(bill, model, where, at, endpoint=endpoint, size=1) == Decimal(million)


def test_implicit_reads_have_their_own_price():
    row = next(row for row in packaged().rows if row.rule == "price_uncached")
    qwen_row = replace(row, provider="qwen", model="qwen-max", platform="", valid_from=ALWAYS, value=Decimal(10))
    rules = packaged().overridden_by([qwen_row])
    reads = [rules.price("qwen", "qwen-max", at=AUGUST, implicit=implicit).read for implicit in (False, True)]
    assert reads == [Decimal(1), Decimal(2)]
    assert rules.price("anthropic", "claude-opus-5", at=AUGUST, implicit=True).read == Decimal("0.5")


def test_searches_cost_the_same_at_any_speed():
    bill = Usage(*tokens(uncached=10**6), speed="fast", server_tools=(("web_search", 3), ("web_fetch", 9)))
    assert cost(bill) == Decimal(10) + Decimal("0.03")
    price = bill_price(packaged(), ANTHROPIC, "claude-opus-4-8", AUGUST, bill)
    assert price.split(bill)[0] == {"uncached": Decimal(10), "web_search": Decimal("0.03"), "web_fetch": 0}


def test_unpriced_tool_makes_the_cost_unknown():
    assert cost(Usage(*tokens(), server_tools=(("crystal_ball", 1),))) is None


@given(COUNTS, COUNTS, st.sampled_from(["", "fast"]))
def test_each_pass_has_its_own_models_price(last_counts, first_counts, speed):
    passed = Usage(*tokens(**first_counts), kind="message", model="claude-fable-5")
    bill = Usage(*tokens(**last_counts), iterations=(passed,), model="claude-opus-4-8", speed=speed)
    times = 2 if speed else 1
    # A capture records the model that was asked, a log the one that answered.
    for model in ("claude-fable-5", "claude-opus-4-8"):
        assert cost(bill, model) == dollars(OPUS, last_counts, times) + dollars(FABLE, first_counts, times)


def test_fast_mode_covers_compactions_but_not_advisors():
    half = {"uncached": 10**6}
    passes = (
        Usage(*tokens(**half), kind="compaction"),
        Usage(*tokens(**half), kind="advisor_message", model="claude-fable-5"),
    )
    assert cost(Usage(*tokens(), iterations=passes, speed="fast")) == 10 + 10


def test_sum_of_requests_has_no_long_prompt_price():
    run = Usage(300_000, 0, None, 1_000, kind=RUN)  # of which no request may have passed 200,000 tokens
    gemini = {"model": "gemini-2.5-pro", "where": Served("gemini", "")}
    assert cost(Usage(iterations=(run,)), **gemini) == Decimal("0.385")
    assert cost(Usage(iterations=(replace(run, kind="message"),)), **gemini) is None  # its own counts are missing


def test_unpriced_pass_makes_the_cost_unknown():
    passed = Usage(*tokens(uncached=5), kind="message", model="claude-unheard-of")
    assert cost(Usage(*tokens(), iterations=(passed,))) is None


PASSES = st.lists(
    st.builds(
        lambda counts, model, kind: Usage(*tokens(**counts), kind=kind, model=model),
        COUNTS,
        st.sampled_from([None, "claude-fable-5", "claude-haiku-4-5"]),
        st.sampled_from(["message", "compaction", "advisor_message", "fallback_message"]),
    ),
    max_size=4,
)
SERVED = st.fixed_dictionaries(
    {"speed": st.sampled_from(["", "standard", "fast"]), "service_tier": st.sampled_from(["", "standard", "batch"])}
)
SEARCHES = st.lists(st.tuples(st.sampled_from(["web_search", "web_fetch"]), st.integers(1, 99)), max_size=2)


@given(COUNTS, PASSES, SERVED, SEARCHES)
def test_cost_is_the_sum_of_parts(counts, passes, served, tools):
    bill = Usage(*tokens(**counts), iterations=tuple(passes), server_tools=tuple(tools), **served)
    price = bill_price(packaged(), ANTHROPIC, "claude-opus-4-8", AUGUST, bill)
    assert price.of(bill) == sum(price.split(bill)[0].values())
    alone = [cost(Usage(*tokens(**counts), server_tools=tuple(tools), **served))]
    for passed in passes:  # each as if it had been a response of its own
        usage = Usage(*(getattr(passed, name) for name in Usage.__struct_fields__[:6]), **served)
        slow = served if passed.kind != "advisor_message" else {**served, "speed": ""}
        alone.append(cost(Usage(*(getattr(usage, name) for name in usage.__struct_fields__[:6]), **slow),
                          passed.model or "claude-opus-4-8"))  # fmt: skip
    assert price.of(bill) == sum(alone)
