"""What findings come to: the unexplained is counted apart, and ranked among no fixes."""

from __future__ import annotations

import pytest

from lore.judge.policy import Found
from lore.judge.totals import Cost, costliest, settle
from lore.model.results import Summary


def test_what_is_not_explained_for_sure_counts_by_what_was_paid_again_and_is_no_costly_cause():
    # LORE159 and weak signs stood first among the costliest causes, with a fix; simulate counted them as unexplained
    summary, costs = Summary(), dict[tuple[str, str], Cost]()
    found = Found(
        "LORE160", "warning", "unattributable", is_break=True, lost_tokens=900, fingerprint="", paid_tokens=40
    )
    assert settle([found], summary, costs) is False
    assert (summary.unattributable, summary.unexplained, summary.unexplained_tokens) == (1, 1, 40)
    assert summary.lost_tokens == 900
    assert costliest(costs) == []


@pytest.mark.parametrize(
    ("kind", "lost", "ranked"), [("waste", 0, True), ("expected", 0, False), ("expected", 9, True)]
)
def test_only_waste_may_cost_nothing_and_be_ranked(kind, lost, ranked):
    assert bool(costliest({("LORE101", kind): Cost(1, lost)})) is ranked
