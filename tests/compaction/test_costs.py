"""What compacting costs and saves, compared with a count of single requests."""

from decimal import Decimal

from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from lore.cache.rules import MILLION, Price
from lore.compaction.costs import CacheCosts, PromptSizes, compaction_cost, next_saving, summary_price
from lore.compaction.settings import Compaction
from lore.run.rules import packaged

CLAUDE = Price(*map(Decimal, ("5", "0.5")), None, *map(Decimal, ("6.25", "10", "25")))
CLASSIC = Price(Decimal("2.5"), Decimal("1.25"), output=Decimal(10))
FIVE, HOUR, FREE_WRITES = CacheCosts(CLAUDE, 300.0), CacheCosts(CLAUDE, 3600.0), CacheCosts(CLASSIC, 600.0)

sizes = st.builds(
    PromptSizes, before=st.integers(0, 200_000), after=st.integers(0, 60_000), head=st.integers(0, 30_000)
)
caches = st.sampled_from([(FIVE, "0.5", "6.25"), (HOUR, "0.5", "10"), (FREE_WRITES, "1.25", "2.5")])
summaries = st.one_of(st.just(Decimal(0)), st.decimals("0.001", "1", places=3))


def cost_one_by_one(size, cached, growth, number, read, write):
    """Return the cost of these requests, added one by one."""
    paid = Decimal(0)
    for _ in range(number):
        size += growth
        paid += cached * Decimal(read) + (size - cached) * Decimal(write)
        cached = size
    return paid / MILLION


@given(sizes, caches, st.booleans(), summaries, st.integers(0, 5_000))
def test_compaction_is_paid_after_the_stated_requests(size, cache, warm, summary, growth):
    costs, *prices = cache

    def saved(number):
        without = cost_one_by_one(size.before, size.before if warm else 0, growth, number, *prices)
        cached = min(size) if warm else 0
        return without - cost_one_by_one(size.after, cached, growth, number, *prices) - summary

    assert next_saving(size, costs, warm=warm) == saved(1) + summary
    after = compaction_cost(size, costs, summary, warm=warm).pays_after
    if after is None:
        assert saved(500) < 0
        return
    assert saved(after) >= 0
    assert after == 1 or saved(after - 1) < 0


def test_compacting_costs_first_only_in_a_warm_cache():
    size = PromptSizes(before=100_000, after=20_000, head=10_000)
    warm, cold = (next_saving(size, FIVE, warm=warm) for warm in (True, False))
    assert warm == (Decimal("0.5") * 90_000 - Decimal("6.25") * 10_000) / MILLION < 0
    assert cold == Decimal("6.25") * 80_000 / MILLION
    assert [compaction_cost(size, FIVE, Decimal(0), warm=warm).pays_after for warm in (True, False)] == [2, 1]


def test_cost_without_a_price_is_unknown():
    size = PromptSizes(100, 10)
    unpriced = compaction_cost(size, CacheCosts(None, 300.0), Decimal(0), warm=True)
    assert (unpriced.next_warm, unpriced.next_cold, unpriced.later, unpriced.pays_after) == (None,) * 4
    assert compaction_cost(size, FIVE, None, warm=True).pays_after is None


def test_model_summary_costs_what_it_reads_and_answers():
    settings = Compaction(
        summarizer="openai", endpoint="https://api.openai.com/v1", model="gpt-4.1", summary_tokens=1_000_000
    )
    assert summary_price(packaged(), settings, 1_000_000, None) == 10
    assert summary_price(packaged(), settings, 0, None) == 0
    assert summary_price(packaged(), structs.replace(settings, summarizer="command"), 5, None) is None
