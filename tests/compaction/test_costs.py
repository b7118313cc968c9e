"""What compacting costs and saves: against a request by request count, and the law of the better moment."""

from __future__ import annotations

from decimal import Decimal

from hypothesis import given
from hypothesis import strategies as st

from lore.cache.prices import MILLION, Price
from lore.compaction.costs import Cache, PromptSizes, cheapest, pays_after, stretch, summary_cost, weigh

CLAUDE = Price(*map(Decimal, ("5", "0.5")), None, *map(Decimal, ("6.25", "10", "25")))
CLASSIC = Price(Decimal("2.5"), Decimal("1.25"), output=Decimal(10))
FIVE, HOUR, FREE_WRITES = Cache(CLAUDE, 300.0), Cache(CLAUDE, 3600.0), Cache(CLASSIC, 600.0)
NOBODY = Cache(None, 300.0)

caches = st.sampled_from((FIVE, HOUR, FREE_WRITES))
sizes = st.builds(
    PromptSizes, before=st.integers(0, 200_000), after=st.integers(0, 60_000), head=st.integers(0, 30_000),
    grown=st.integers(0, 5_000),
)  # fmt: skip
turns = st.integers(0, 60)
summaries = st.one_of(st.just(Decimal(0)), st.decimals("0.001", "1", places=3))


def counted(size, stands, grown, number, read, write):
    """Count the same request by request."""
    paid = Decimal(0)
    for _ in range(number):
        size += grown
        paid += stands * read + (size - stands) * write
        stands = size
    return paid / MILLION


@given(st.integers(0, 90_000), st.integers(0, 5_000), turns, st.booleans())
def test_a_stretch_costs_what_its_requests_cost_one_by_one(size, grown, number, warm):
    stands = size if warm else 0
    assert stretch(size, stands, grown, number, FIVE) == counted(size, stands, grown, number, *prices("0.5", "6.25"))
    assert stretch(size, stands, grown, number, HOUR) == counted(size, stands, grown, number, *prices("0.5", "10"))
    assert stretch(size, stands, grown, number, FREE_WRITES) == counted(
        size, stands, grown, number, *prices("1.25", "2.5")
    )


def prices(*texts):
    return map(Decimal, texts)


@given(sizes, caches, st.booleans(), summaries)
def test_compacting_pays_from_the_request_that_is_said_on(size, cache, warm, summary):
    after = pays_after(size, cache, warm=warm, summary=summary)
    if after is None:
        assert weigh(size, cache, 500, warm=warm, summary=summary).saved < 0
        return
    assert weigh(size, cache, after, warm=warm, summary=summary).saved >= 0
    assert after == 1 or weigh(size, cache, after - 1, warm=warm, summary=summary).saved < 0


def test_in_a_warm_cache_compacting_costs_first_and_in_a_cold_one_it_saves_at_once():
    size = PromptSizes(before=100_000, after=20_000, head=10_000, grown=1_000)
    warm, cold = (weigh(size, FIVE, 1, warm=warm).saved for warm in (True, False))
    assert warm == (Decimal("0.5") * 90_000 - Decimal("6.25") * 10_000) / MILLION < 0
    assert cold == Decimal("6.25") * 80_000 / MILLION
    assert (pays_after(size, FIVE, warm=True), pays_after(size, FIVE, warm=False)) == (2, 1)


def test_a_pause_that_comes_soon_is_waited_for_and_one_that_is_far_is_not():
    size = PromptSizes(before=30_000, after=20_000, head=0, grown=500)
    assert cheapest(size, FIVE, 60, 3, warm=True).moment == "later"
    assert cheapest(size._replace(before=100_000), FIVE, 60, 40, warm=True).moment == "now"


def test_what_has_no_price_is_unknown_and_never_nothing():
    size = PromptSizes(100, 10)
    assert weigh(size, NOBODY, 5, warm=True).saved is None
    assert pays_after(size, NOBODY, warm=True) is None
    unknown = cheapest(size, NOBODY, 5, 2, warm=True)
    assert (unknown, unknown.moment) == ((None, None), "now")
    assert summary_cost(None, 10, 10) is None
    assert weigh(size, FIVE, 5, warm=True, summary=None).saved is None
    assert pays_after(size, FIVE, warm=True, summary=None) is None


def test_a_summary_by_a_model_costs_what_it_reads_and_answers():
    assert summary_cost(CLAUDE, 1_000_000, 1_000_000) == 30
