"""Whose memory it is: ids that stay in their buckets, names that are none, who is opted in."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lore.config import MemorySettings
from lore.errors import LoreError
from lore.store.lines import good_id
from lore.store.reserved import DEFAULT_USER, is_reserved
from lore_plugins.memory.identities import (
    RESERVED,
    MemoryBucket,
    anchor_of,
    audit_of,
    bucket,
    owner_of,
    refusal,
)

ON = MemorySettings(system="structured")
NIL = "00000000-0000-0000-0000-000000000000"


def test_where_nobody_is_named_it_is_always_the_same_user_and_the_main_agent():
    assert bucket(None) == MemoryBucket(DEFAULT_USER, "main") == bucket("default", "main")


@pytest.mark.parametrize(
    "name",
    [*sorted(RESERVED), " ", "NULL", " None ", "ｎｕｌｌ", NIL, NIL.replace("-", ""), f"{{{NIL}}}", f"urn:uuid:{NIL}",
     "a\0b", "a\nb", "\x1b[31m", "\ud800", "x" * 221, "ü" * 40],
)  # fmt: skip
def test_what_is_no_name_is_refused_for_users_and_agents(name):
    with pytest.raises(LoreError):
        bucket(name)
    with pytest.raises(LoreError):
        bucket("ann", name)


@pytest.mark.parametrize("name", ["../bob", "..%2Fbob", "bob/main", "bob/main/1", "/", "ann/", "a%2Fb", "~", "bob#1"])
def test_an_id_that_tries_to_leave_its_bucket_stays_in_its_own(name):
    assert anchor_of(name).count("/") == 1
    assert MemoryBucket(name, name).volume("1").count("/") == 3
    assert owner_of(MemoryBucket(name, name).volume("1")) == (name, name)


def test_ids_that_differ_by_case_or_by_unicode_form_are_different_users():
    assert len({anchor_of(name) for name in ("Ann", "ann", "é", "e\u0301", "ﬁ", "fi")}) == 6


@settings(max_examples=50)
@given(*[st.text("aA/.%~#é\u0301 0\0", max_size=6)] * 4)
def test_two_buckets_share_no_session(user, agent, other, another):
    """No id is the beginning of another's, up to its `/`: so nothing that is deleted below one is below the other."""
    try:
        one, two = bucket(user, agent), bucket(other, another)
    except LoreError:
        return
    mine = (anchor_of(one.user), one.anchor, one.volume("1"))
    for name in mine:
        assert good_id(name) == name
        assert is_reserved(name)
    assert (one.anchor == two.anchor) == (one == two)
    assert two.anchor.startswith(f"{anchor_of(one.user)}/") == (one.user == two.user)
    assert audit_of(one.user) not in mine
    assert owner_of(audit_of(one.user)) is None


def test_only_agents_that_are_opted_in_are_remembered():
    assert refusal(MemorySettings(), "main") == "memory is off"
    assert refusal(ON, "main") == ""
    assert "not opted in" in refusal(ON, "helper")
    named = MemorySettings(system="structured", agents=("helper",))
    assert refusal(named, "helper") == ""
    assert "not opted in" in refusal(named, "main")


def test_subagents_are_never_remembered():
    assert "subagents" in refusal(ON, "main", chain="side")
    assert "subagents" in refusal(ON, "main", is_forked=True)
