"""Owners of memory: ids of sessions, invalid names, opted-in agents."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from helpers.each import each
from lore.errors import LoreError
from lore.store.lines import check_id
from lore.store.reserved import is_reserved
from lore_plugins.memory.identities import RESERVED, MemoryBucket, anchor_id, audit_id, bucket, parse_owner

NIL = "00000000-0000-0000-0000-000000000000"


@each([*sorted(RESERVED), " ", "NULL", " None ", "ｎｕｌｌ", NIL, NIL.replace("-", ""), f"{{{NIL}}}", f"urn:uuid:{NIL}",
     "a\0b", "a\nb", "\x1b[31m", "\ud800", "x" * 221, "ü" * 40])  # fmt: skip
def test_invalid_names_are_refused(name):
    with pytest.raises(LoreError):
        bucket(name)
    with pytest.raises(LoreError):
        bucket("ann", name)


@each(["../bob", "..%2Fbob", "bob/main", "bob/main/1", "/", "ann/", "a%2Fb", "~", "bob#1"])
def test_ids_with_slashes_stay_in_their_bucket(name):
    assert anchor_id(name).count("/") == 1
    assert MemoryBucket(name, name).volume("1").count("/") == 3
    assert parse_owner(MemoryBucket(name, name).volume("1")) == (name, name)


@given(*[st.text("aA/.%~#é\u0301 0\0", max_size=6)] * 4)
def test_buckets_never_share_a_session(user, agent, other, another):
    """No id followed by `/` is a prefix of another owner's, so deleting one's sessions leaves the other's."""
    try:
        first, second = bucket(user, agent), bucket(other, another)
    except LoreError:
        return
    mine = (anchor_id(first.user), first.anchor, first.volume("1"))
    for name in mine:
        assert check_id(name) == name
        assert is_reserved(name)
    assert (first.anchor == second.anchor) == (first == second)
    assert second.anchor.startswith(f"{anchor_id(first.user)}/") == (first.user == second.user)
    assert audit_id(first.user) not in mine
    assert parse_owner(audit_id(first.user)) is None
