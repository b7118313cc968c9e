"""Digests of stored sessions, by vectors that were derived with nothing but SHA-256: they may never change."""

from hypothesis import given
from hypothesis import strategies as st

from lore.store.base import Head
from lore.store.lines import NOTHING, SEED, follow, note

SEED_HEX = "e299abe2d303425dba8df3782879ecc7c93fc9c01b9cfb46ba0885606cdc18e6"
ONE = "f8232477b1751949e0df8cd5b31960cf36640c5e5b8bce65bea0e4f07db01d90"
TWO = "7a57f2982fb2935ac235bec6b8b07b66a8c2799fa07eac67cdebc7c225b30fbf"


def test_the_digest_of_nothing():
    assert SEED.hex() == SEED_HEX
    assert Head(0, SEED_HEX, note(None, b"{}")) == NOTHING


def test_a_digest_holds_all_before_it():
    assert [one.hex() for one in follow(SEED, [b"{}", b'{"a":1}'])] == [ONE, TWO]
    assert follow(bytes.fromhex(ONE), [b'{"a":1}'])[0].hex() == TWO
    assert follow(SEED, []) == []


def test_the_digest_of_notes():
    assert note(None, b"{}") == "72c7a6124f04b2dc924a61c2987b5300ebb13ec6bf5b805588b3c7f8520ea864"
    assert note("u1", b'{ "b":2, "a":1 }') == "adab639099d78799b183845404b9422ebe2a9c3403e119c6e213fce71f5005c0"
    assert note("", b"{}") == "ac93e98d2735e123caffc2b1d6bd431410c1b2e5f1db0854d03825614c0bde7a"


def test_no_leaf_is_none_of_any_name():
    assert len({note(leaf, b"{}") for leaf in (None, "", "-", "None", "\ud83d")}) == 5


def test_notes_are_compared_as_values():
    assert note(None, b'{"a":1,"b":"\\u0041"}') == note(None, b'{"b":"A", "a":1}')
    assert note(None, b'{"a":1}') != note(None, b'{"a":1.0}')


@given(st.lists(st.binary(max_size=8), max_size=6), st.integers(0, 6))
def test_it_may_be_resumed_anywhere(lines, at):
    whole = follow(SEED, lines)
    begin = [SEED, *whole][min(at, len(lines))]
    assert whole[min(at, len(lines)) :] == follow(begin, lines[at:])


@given(st.lists(st.binary(max_size=4), max_size=4), st.lists(st.binary(max_size=4), max_size=4))
def test_different_lines_have_different_digests(left, right):
    """Framed by length: `ab` and `a`, `b` are not the same, nor is another order."""
    assert (follow(SEED, left) == follow(SEED, right)) == (left == right)
