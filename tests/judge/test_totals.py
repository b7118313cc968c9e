"""Sums of findings, where losses without a known cause are counted apart, and of predictions."""

import pytest
from msgspec.structs import replace

from lore.judge.agreement import Transition, measure_agreement
from lore.judge.findings import finding
from lore.judge.policy import Decision
from lore.judge.totals import CauseCost, count_findings, list_costliest
from lore.model.cause import Place, RuledOut
from lore.model.codes import CODES
from lore.model.evidence import Told
from lore.model.results import Summary
from lore.report.forms.terminal import describe_cost, sums_lines


def lost(kind, tokens, *ruled_out):
    reasons = tuple(RuledOut(reason, out=True) for reason in ruled_out)
    return Decision(finding(
        "LORE101", Place("a"), Told("m"), kind=kind, is_break=True, lost_tokens=tokens, ruled_out=reasons
    ))  # fmt: skip


def test_unexplained_tokens_are_counted_apart_from_waste():
    summary, costs = Summary(), dict[tuple[str, str], CauseCost]()
    count_findings([lost("waste", 500), lost("unattributable", 900)], summary, costs)
    count_findings([lost("unattributable", 70, "expiry", "model")], summary, costs)
    count_findings([lost("unattributable", 30, "expiry")], summary, costs)
    count_findings([lost("expected", 4000)], summary, costs)
    assert (summary.waste_tokens, summary.unexplained_tokens, summary.lost_tokens) == (500, 100, 600)
    assert (summary.unexplained, summary.ruled_out) == (2, {"expiry": 2, "model": 1})
    lines = "\n".join(sums_lines(summary))
    assert "re-billed as waste: 500 tokens" in lines
    assert "re-billed, no certain cause: 100 tokens (cost unknown) in 2 cache breaks" in lines
    assert "ruled out in each: expiry\n" in lines  # the model is ruled out in only one of the two
    count_findings([lost("unattributable", 30)], summary, costs)
    assert "ruled out" not in "\n".join(sums_lines(summary))
    assert "re-billed as expected: 4,000 tokens (cost unknown)\n" in lines


# The sums said nothing of tokens that a cache could have held, and lost the "about" and "at least" of their parts.
def test_sums_hold_missed_reads_and_uncertainty():
    summary, costs = Summary(), dict[tuple[str, str], CauseCost]()
    guess = lost("waste", 500).finding
    count_findings([Decision(replace(guess, tokens="estimated", lost_dollars=0.5))], summary, costs)
    count_findings([lost("waste", 70)], summary, costs)
    missed = finding("LORE307", Place("a"), Told("m"), lost_tokens=800, lost_dollars=0.25, tokens="recorded")
    count_findings([Decision(missed)], summary, costs)
    lines = sums_lines(summary)
    assert "re-billed as waste: about 570 tokens (at least $0.50)" in lines
    assert "not re-billed, but could have been read from a cache: 800 tokens ($0.25)" in lines
    assert (
        describe_cost(*list_costliest(costs)) == "about 570 tokens re-billed (at least $0.50) in 2 cache breaks, waste"
    )


def test_sums_without_a_price_say_so():
    summary, costs = Summary(), dict[tuple[str, str], CauseCost]()
    count_findings([lost("waste", 500)], summary, costs)
    assert "re-billed as waste: 500 tokens (cost unknown)" in sums_lines(summary)
    assert describe_cost(*list_costliest(costs)) == "500 tokens re-billed (cost unknown) in 1 cache break, waste"


@pytest.mark.parametrize(
    ("kind", "lost", "ranked"), [("waste", 0, True), ("expected", 0, False), ("expected", 9, True)]
)
def test_only_waste_may_cost_nothing_and_be_ranked(kind, lost, ranked):
    assert bool(list_costliest({("LORE101", kind): CauseCost(1, lost)})) is ranked


def test_causes_of_both_kinds_are_ranked_by_cost():
    dollars = {("LORE101", "waste"): 0.1, ("LORE102", "waste"): 0.2, ("LORE128", "expected"): 5.0}
    costs = {cause: CauseCost(1, 900, dollars=cost) for cause, cost in dollars.items()}
    assert [cause.code for cause in list_costliest(costs)] == ["LORE128", "LORE102", "LORE101"]
    many = {(f"LORE10{number}", "expected"): CauseCost(1, 9, dollars=9.0) for number in range(5)}
    assert [cause.kind for cause in list_costliest({**costs, **many})] == [*["expected"] * 3, "waste", "waste"]


def test_fix_in_force_is_not_recommended_again():
    costs, expired = dict[tuple[str, str], CauseCost](), CODES["LORE128"]
    whole = finding("LORE128", Place("a"), Told("m"), kind="expected", is_break=True, lost_tokens=900)
    fixed = replace(whole, fix=expired.fix_done)
    count_findings([Decision(fixed)], Summary(), costs)
    assert list_costliest(costs)[0].fix == expired.fix_done
    count_findings([Decision(whole)], Summary(), costs)
    assert list_costliest(costs)[0].fix == expired.fix


# how far predictions agree with usage


def test_exact_and_close_predictions_are_counted():
    agreement = measure_agreement([Transition(100, 100, 100), Transition(100, 98, 110), Transition(100, 90, 100)])
    assert (agreement.turns, agreement.exact, agreement.within_2_percent) == (3, 1, 2)
    assert (agreement.mean_absolute_error_tokens, agreement.naive_mean_absolute_error_tokens) == (4.0, 3.3)


def test_drops_are_predicted_missed_or_false():
    reads = (0, 0), (0, 5_000), (5_000, 0), (4_000, 4_500), (0, 2_000)
    agreement = measure_agreement([Transition(billed, predicted, 5_000) for billed, predicted in reads])
    assert (agreement.drops, agreement.drops_predicted, agreement.false_drops) == (3, 2, 1)
