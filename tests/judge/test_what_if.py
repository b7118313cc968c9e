"""Turns without a cause: what else broke the prefix still does, and nothing is saved twice."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from judge.judged import opened
from lore.cache.base import UNKNOWN
from lore.cache.predictor import ChangeCounts
from lore.judge.agreement import SimulatedSums
from lore.judge.what_if import (
    Break,
    PaidTurn,
    SimulatedRun,
    list_savings,
    make_paid_turn,
    read_more,
    remaining_loss,
    replay_without,
)
from lore.model.events import Usage

CODES = ("LORE102", "LORE128", "LORE110", "LORE159", "LORE301")


def broken(code="LORE102", loses=5000, *, strength="certain", section="tools", kind="waste", leads=True):
    return Break(code, kind, strength, section, loses, leads)


def bill(read, write, uncached=3, *, hour=False):
    return Usage(uncached, read, write, 10, 0 if hour else write, write if hour else 0)


def of(code):
    return lambda cache_break: cache_break.code == code


def play(*turns, without="LORE102"):
    """Replay turns (usage, cached tokens before it, causes) without a code; return the changed usage by turn."""
    every = [PaidTurn("main", paid, stood, tuple(breaks)) for paid, stood, *breaks in turns]
    usages = replay_without(every, of(without))
    return {number: (paid.read_tokens, paid.write_tokens, paid.uncached_tokens) for number, paid in usages}


def test_flipping_tools_each_read_the_previous_turn():
    """Tools came in another order each turn: every one pays for itself, and none for the one before."""
    turns = [
        (bill(0, 5000 + 100 * number), 4900 + 100 * number, broken(loses=4900 + 100 * number)) for number in (1, 2)
    ]
    assert play(*turns) == {0: (5000, 100, 3), 1: (5100, 100, 3)}


def test_expiry_with_changed_tools_still_loses_all():
    """`cause=LORE102` added up what turns paid whose entries were dead anyway."""
    expired = broken("LORE128", strength="strong", section="time", kind="expected")
    assert play((bill(0, 5100), 5000, expired, broken(leads=False))) == {}


def test_cold_summary_reads_past_its_own_breakpoint():
    """Its last breakpoint is at too early a place: that is the cause, and what follows it was not written."""
    cold = broken("LORE171", strength="strong", section="messages")
    assert play((bill(1000, 200, 6000), 6000, cold), without="LORE171") == {0: (6000, 0, 1200)}


def test_weak_second_cause_breaks_nothing():
    assert play((bill(0, 5100), 5000, broken(), broken("LORE161", strength="weak", leads=False))) == {0: (5000, 100, 3)}


def test_saving_names_weak_causes_of_the_same_turns():
    """Changed instructions of a server had the whole loss of a turn in which a hook's text had moved, too."""
    hook = broken("LORE158", strength="weak", section="messages", kind="unattributable", leads=False)
    turn = PaidTurn("main", bill(0, 5100), 5000, (broken("LORE166", strength="strong", section="system"), hook))
    run = SimulatedRun(SimulatedSums().result(None, None, [], [], [], 0), [turn], ChangeCounts(), 0)
    ((saving, notes),) = list_savings(run)
    assert (saving.change, saving.tokens) == ("cause=LORE166", 5000)
    assert "together with LORE158 (1 turn)" in notes[0]


def test_cause_that_the_verdict_rules_out_breaks_nothing():
    talk = opened()
    talk.turn(bill(10_000, 2_500), signs=("effort", "restart"), verdict="messages_changed")
    assert [cause.code for cause in talk.lead.also if "contradicted" in cause.qualifiers] != []
    codes = {cause.code for cause in make_paid_turn(talk.verdict, UNKNOWN, None).breaks}
    assert codes.isdisjoint(cause.code for cause in talk.lead.also if "contradicted" in cause.qualifiers)


@pytest.mark.parametrize(("section", "remaining"), [("tools", 0), ("messages", 5000)])
def test_provider_verdict_of_another_section_keeps_its_loss(section, remaining):
    """With a change of tools, `tools_changed` confirms it; `messages_changed` is another cause."""
    verdict_break = broken("LORE159", strength="strong", section=section, kind="unattributable", leads=False)
    assert remaining_loss((broken(), verdict_break), of("LORE102")) == remaining


def test_unexplained_fall_cannot_be_removed():
    assert play((bill(0, 5100), 5000, broken("LORE301", strength="weak", section="outside")), without="LORE301") == {}


def test_what_if_reads_at_most_the_prompt():
    """A compaction left 700 tokens of 5,000: without it the turn would have read those, up to its last breakpoint."""
    assert play((bill(0, 700, 18), 5000, broken()), (bill(700, 30), 700)) == {0: (700, 0, 18)}


@pytest.mark.parametrize(("stood", "read"), [(0, 3), (2000, 2000), (5000, 5000), (None, 8000)])
def test_what_if_reads_at_most_the_cached_tokens(stood, read):
    """Bytes may say that more was lost than the bill before left in the cache."""
    usage_by_turn = play((bill(3, 9000), stood, broken(loses=7997)))
    assert usage_by_turn == ({0: (read, 9003 - read, 3)} if read > 3 else {})


def test_unwritten_prefix_is_read_by_the_next_turn():
    """A turn under the minimum wrote nothing, so the next one wrote all of it."""
    assert play((bill(0, 0, 5100), 5000, broken()), (bill(0, 6000), 0)) == {0: (5000, 0, 100), 1: (5000, 1000, 3)}


def test_hour_writes_become_reads_first():
    paid = Usage(3, 0, 600, 10, 400, 200)
    assert read_more(paid, 300) == Usage(3, 300, 300, 10, 300, 0)


_counts = st.integers(0, 9000)
_breaks = st.lists(st.builds(broken, st.sampled_from(CODES), _counts, strength=st.sampled_from(("certain", "weak")),
                             leads=st.booleans()), max_size=3)  # fmt: skip
_turns = st.lists(st.tuples(st.builds(bill, _counts, _counts, _counts), st.none() | _counts, _breaks), max_size=6)


@given(_turns, st.sampled_from(CODES))
def test_law_what_if_keeps_size_and_reads_more(turns, code):
    every = [PaidTurn("main", paid, stood, tuple(breaks)) for paid, stood, breaks in turns]
    for number, paid in replay_without(every, of(code)):
        before = every[number].paid
        assert before is not None
        sizes = [(bill.uncached_tokens or 0) + (bill.read_tokens or 0) + (bill.write_tokens or 0)
                 for bill in (before, paid)]  # fmt: skip
        assert sizes[0] == sizes[1]
        assert (paid.read_tokens or 0) > (before.read_tokens or 0)
        assert min(paid.uncached_tokens or 0, paid.write_tokens or 0) >= 0
