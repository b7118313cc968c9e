"""Rules: findings with their place, weight, and cost."""

import pytest

from helpers.each import each
from lore.judge.chains.chain import ComparedChain
from lore.judge.findings import finding, findings_of, findings_of_problems, fingerprint
from lore.judge.policy import Ruling, decide_pair
from lore.model.cause import Place
from lore.model.codes import Problem
from lore.model.evidence import Damage, Told
from lore.model.state import Change
from lore.run.rules import PACKAGED
from model.making import assistant, body, parsed, turn

PLACE = Place("dir/a.jsonl")
LEFT = body("one", assistant("two"), system="Today is 2026-01-01.")
RIGHT = body("one", assistant("two"), "x", system="Today is 2026-01-02.")


def pair(previous, current, *, usages=(None, None), **fields):
    pairs = ComparedChain(PACKAGED.rules)
    pairs.compare_next(turn(parsed(previous), 1, usage=usages[0]))
    return pairs.compare_next(turn(parsed(current), 2, usage=usages[1], line=7, **fields))


def judged(diff):
    return [finding for _, finding in findings_of(diff, PLACE)]


@each(["LORE106", "LORE112", "LORE146", "LORE119", "LORE128", "LORE100", "LORE301", "LORE125"])
def test_message_begins_with_words_of_its_kind(code):
    message = finding(code, PLACE, Told("what happened"), strength="certain").message
    lead, _, words = message.partition(": ")
    assert (len(lead) > 10, words) == (True, "what happened")


def test_damage_is_one_finding_a_code_with_count():
    problems = [Problem("LORE201", "first", line=3), Problem("LORE201", "second", line=4), Problem("LORE203", "odd")]
    findings = list(findings_of_problems(problems, {"LORE201": 30, "LORE203": 1}, PLACE))
    assert [finding.evidence for finding in findings] == [Damage("first", 29), Damage("odd")]
    assert [(finding.code, finding.line, finding.message, finding.severity) for finding in findings] == [
        ("LORE201", 3, "first (and 29 more like it)", "error"),
        ("LORE203", None, "odd", "note"),
    ]


# fingerprints


def test_fingerprint_is_independent_of_other_findings():
    first, second = (finding("LORE100", PLACE, Told("e"), chain="main", line=line) for line in (3, 99))
    assert first.fingerprint == second.fingerprint
    assert len(first.fingerprint) == 16


@pytest.mark.parametrize("change", range(4))
def test_fingerprint_differs_by_each_part(change):
    base = ["LORE100", "p", "agent-7", "messages[0].role"]
    other = [*base]
    other[change] = other[change] + "x"
    assert fingerprint(*base) != fingerprint(*other)


# Evidence quotes dates and figures, lore counts chains as they come, and a message moves when turns are inserted.
def test_fingerprint_ignores_values_that_change():
    first = finding("LORE101", PLACE, Told("at 10:30"), chain="chain-3", json_path="messages[7].content[1].text")
    second = finding("LORE101", PLACE, Told("at 10:31"), chain="main", json_path="messages[9].content[1].text")
    assert first.fingerprint == second.fingerprint


def test_fingerprint_is_the_same_on_every_machine():
    relative, absolute = (
        finding("LORE101", Place(path, "a.jsonl"), Told("m")).fingerprint for path in ("./a.jsonl", "/x/a.jsonl")
    )
    assert relative == absolute


def test_fingerprint_accepts_lone_surrogates():
    assert len(fingerprint("LORE100", "p\udc80", None, "\ud83d")) == 16


# budgets


def below_reuse(judged, limit):
    """Return the findings of a pair that its own causes do not give."""
    return [
        verdict.finding
        for verdict in decide_pair(judged, PLACE, Ruling(min_reuse=limit))
        if verdict.finding.code == "LORE401"
    ]


def test_pair_below_the_budget_is_a_finding():
    findings = below_reuse(pair(LEFT, RIGHT), 0.9)
    assert [(finding.code, finding.severity, finding.turn, finding.line) for finding in findings] == [
        ("LORE401", "error", 2, 7)
    ]


@pytest.mark.parametrize(
    ("limit", "changes"),
    [(None, ()), (0.01, ()), (0.9, (Change("LORE125", "c"),))],
    ids=["no budget", "within", "expected"],
)
def test_pair_within_budget_or_expected_is_no_finding(limit, changes):
    assert below_reuse(pair(LEFT, RIGHT, changes=changes), limit) == []


def test_pair_without_reusable_prefix_meets_every_budget():
    assert below_reuse(pair({"messages": []}, LEFT), 1.0) == []
