"""Causes of drops: what explains a read that fell, how strongly, and what was ruled out."""

from __future__ import annotations

import pytest
from lore.cache.drops import FELL, NAMES

from cache.talk import ONE_BY_ONE, Talk, bill
from lore.cache.event_priors import CHANCES
from lore.model.codes import CODES
from lore.model.signs import SIGNS
from lore.model.state import Change, Sign


def opened(begin=None, **fields):
    talk = Talk() if begin is None else Talk(begin)
    talk.open(**fields)
    return talk


def dropped(talk, read=10_000, **fields):
    talk.turn(bill(read, 2_500), **fields)
    return talk.drop


def test_every_name_has_a_code_that_exists_and_every_sign_with_a_chance_is_one():
    assert set(NAMES.values()) <= set(CODES)
    assert set(CHANCES) <= set(SIGNS)
    assert set(SIGNS) <= set(NAMES)


@pytest.mark.parametrize("read", [12_300, 12_000, 11_300, 13_000])
def test_a_read_that_fell_by_no_more_than_happens_anyway_is_no_drop(read):
    assert dropped(opened(), read) is None


def test_a_pause_longer_than_the_lifetime_is_strong_and_without_grace():
    one = dropped(opened(), after=301.0)
    assert (one.name, one.code, one.grade, one.lost, one.foreseen) == ("expiry", "LORE128", "strong", 2_300, False)


def test_a_pause_within_an_hours_lifetime_is_weak():
    one = dropped(opened(hour=True), after=700.0)
    assert (one.name, one.grade) == ("idle", "weak")


def test_an_older_entry_within_three_seconds_is_strong():
    talk = Talk()
    talk.open(write=3_000)
    talk.turn(bill(13_300, 3_000))
    talk.use()
    talk.turn(bill(13_300, 3_100), after=1.0)
    assert (talk.drop.name, talk.drop.code, talk.drop.grade) == ("older-entry", "LORE155", "strong")


def test_too_many_new_positions_are_strong_where_each_block_counts():
    talk = opened(ONE_BY_ONE)
    for _ in range(15):
        talk.use()
    assert dropped(talk).name == "lookback"


def test_the_providers_verdict_alone_is_strong():
    one = dropped(opened(), verdict="system_changed")
    assert (one.name, one.code, one.grade) == ("system_changed", "LORE145", "strong")


def test_a_verdict_that_contradicts_other_strong_evidence_is_shown_beside_it():
    one = dropped(opened(), verdict="tools_changed", after=900.0)
    assert one.name == "expiry"
    assert any(said.startswith("tools_changed") for said in one.others)


def test_a_verdict_comes_before_weak_evidence():
    one = dropped(opened(), verdict="messages_changed", signs=("skill",))
    assert (one.name, one.others[0].split(":")[0]) == ("messages_changed", "skill")


@pytest.mark.parametrize("sign", ["skill", "slash-command", "interrupt", "api-error", "permission-mode", "image"])
def test_what_seldom_breaks_the_prefix_is_weak(sign):
    one = dropped(opened(), signs=(sign,))
    assert (one.name, one.grade) == (sign, "weak")


@pytest.mark.parametrize("sign", ["tool-reference", "effort", "client-version", "tools-delta"])
def test_what_enters_the_prefix_is_strong(sign):
    one = dropped(opened(), signs=(sign,))
    assert (one.name, one.grade) == (sign, "strong")


@pytest.mark.parametrize(("sign", "details"), [
    (Sign("effort", before="low", after="high"), "(from low to high)"), (Sign("tools-delta", ("a",), ("b",)), "(a, b)"),
    (Sign("tools-delta", ("a", "b", "c", "d", "e")), "(a, b, c and 2 more)"),
])  # fmt: skip
def test_the_evidence_names_what_the_sign_names(sign, details):
    assert dropped(opened(), signs=(sign,)).evidence == f"{SIGNS[sign.name]} {details}"


def test_a_compaction_comes_before_what_else_happened():
    talk = opened()
    one = dropped(talk, changes=(talk.compact(),), after=900.0, signs=("slash-command",))
    assert (one.name, one.code) == ("compaction", "LORE125")
    assert [said.split(":")[0] for said in one.others] == ["expiry", "shrunk", "slash-command"]


def test_another_model_is_strong():
    talk = opened()
    talk.model = "claude-y"
    assert dropped(talk, 0, changes=(Change("LORE119", "model changed"),)).name == "model"


def test_what_nothing_explains_says_what_was_ruled_out():
    one = dropped(opened(), verdict="unavailable")
    assert (one.name, one.code, one.grade) == ("unattributable", FELL, "none")
    assert [said.split(":")[0] for said in one.ruled_out][0] == "expiry"
    assert one.ruled_out[-1] == "verdict: the provider says unavailable"
    assert "pause 20 s, lifetime 300 s" in one.ruled_out[0]


def test_without_a_bill_before_or_now_nothing_is_explained():
    talk = opened()
    talk.turn(None)
    assert talk.drop is None
    talk.use()
    assert dropped(talk, 0) is None
