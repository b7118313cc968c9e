"""Cost of tokens: exact, linear, and unknown if a count or price is."""

from __future__ import annotations

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lore.cache.prices import Price
from lore.model.events import Usage

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


@pytest.mark.parametrize(
    ("price", "tokens", "dollars"),
    [
        (CLAUDE, {"uncached": M, "read": M, "write": 2 * M, "write_5m": M, "write_1h": M, "output": M}, "46.75"),
        (CLAUDE, {"uncached": 0, "read": 0, "write": M, "output": 0}, "6.25"),  # no lifetime: the default of 5 minutes
        (CLAUDE, {"uncached": 0, "read": 0, "write": M, "write_1h": M, "output": 0}, "10"),
        (CLAUDE, {"uncached": 0, "read": 0, "write_5m": M, "write_1h": M, "output": 0}, "16.25"),
        (BREAKPOINTS, {"uncached": 0, "read": 10 * M, "write": M, "output": 0}, "9"),
        (CLASSIC, {"uncached": M, "read": M, "output": M}, "13.75"),
        (CLASSIC, {"uncached": 1, "read": 0, "write": 0, "output": 0}, "0.0000025"),
    ],
)
def test_each_kind_is_paid_at_its_price(price, tokens, dollars):
    assert price.of(bill(**tokens)) == Decimal(dollars)


@pytest.mark.parametrize(
    ("price", "tokens"),
    [
        (CLAUDE, {"uncached": None, "read": 0, "write": 0, "output": 0}),
        (CLAUDE, {"uncached": 0, "read": None, "write": 0, "output": 0}),
        (CLAUDE, {"uncached": 0, "read": 0, "write": 0, "output": None}),
        (CLAUDE, {"uncached": 0, "read": 0, "output": 0}),  # writes are charged, but their count is unknown
        (CLAUDE, {"uncached": 0, "read": 0, "write_5m": 1, "output": 0}),
        (CLASSIC, {"uncached": 0, "read": 0, "write": 1, "output": 0}),  # no price of writing
        (CLAUDE, {"uncached": 0, "read": 0, "write": 1, "write_5m": 2, "output": 0}),  # a part larger than the whole
        (CLAUDE, {"uncached": -1, "read": 0, "write": 0, "output": 0}),
    ],
)
def test_unknown_or_contradictory_counts_have_no_cost(price, tokens):
    assert price.of(bill(**tokens)) is None


@given(usages, usages)
def test_cost_is_linear_and_exact(one, other):
    both = {name: one[name] + other[name] for name in one}
    assert CLAUDE.of(bill(**both)) == CLAUDE.of(bill(**one)) + CLAUDE.of(bill(**other))
