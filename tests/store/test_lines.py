"""Lines of stored sessions: ids, digests, and the rows of prompt deltas among them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from helpers.each import each
from lore.model.limits import RECORD_BYTES, RECORD_VALUES
from lore.store.base import Head, StoreError
from lore.store.lines import NOTHING, SEED, check_id, check_line, digest_lines, digest_notes
from lore.testing.stores import BAD_IDS

# ids and lines


@each((*BAD_IDS, "a\ud800" * 300))
def test_bad_id_is_refused(text):
    with pytest.raises(StoreError, match="is not a valid project id") as caught:
        check_id(text, "project id")
    assert "512 characters" in caught.value.hint
    str(caught.value).encode()


def test_longest_line_is_that_of_readers():
    longest = b'{"a":"' + b"x" * (RECORD_BYTES - 8) + b'"}'
    assert check_line(longest) == longest
    with pytest.raises(StoreError, match="12 MiB"):
        check_line(longest + b" ")
    with pytest.raises(StoreError, match="values"):
        check_line(b'{"a":[' + b"1234," * (RECORD_VALUES + 1) + b"1]}")


# digests, by vectors that were made with nothing but SHA-256: they may never change

SEED_HEX = "e299abe2d303425dba8df3782879ecc7c93fc9c01b9cfb46ba0885606cdc18e6"
DIGESTS = [
    "f8232477b1751949e0df8cd5b31960cf36640c5e5b8bce65bea0e4f07db01d90",
    "7a57f2982fb2935ac235bec6b8b07b66a8c2799fa07eac67cdebc7c225b30fbf",
]
NOTES = {
    (None, b"{}"): "72c7a6124f04b2dc924a61c2987b5300ebb13ec6bf5b805588b3c7f8520ea864",
    ("u1", b'{ "b":2, "a":1 }'): "adab639099d78799b183845404b9422ebe2a9c3403e119c6e213fce71f5005c0",
    ("u1", b'{"a":1,"b":2}'): "adab639099d78799b183845404b9422ebe2a9c3403e119c6e213fce71f5005c0",
    ("", b"{}"): "ac93e98d2735e123caffc2b1d6bd431410c1b2e5f1db0854d03825614c0bde7a",
}


def test_digests_are_those_of_every_version():
    assert SEED.hex() == SEED_HEX
    assert Head(0, SEED_HEX, digest_notes(None, b"{}")) == NOTHING
    assert [digest.hex() for digest in digest_lines(SEED, [b"{}", b'{"a":1}'])] == DIGESTS
    assert {key: digest_notes(*key) for key in NOTES} == NOTES
    assert len({digest_notes(leaf, b"{}") for leaf in (None, "", "-", "None", "\ud83d")}) == 5


@given(st.lists(st.binary(max_size=8), max_size=6), st.integers(0, 6))
def test_digests_can_be_resumed_anywhere(lines, at):
    whole = digest_lines(SEED, lines)
    begin = [SEED, *whole][min(at, len(lines))]
    assert whole[min(at, len(lines)) :] == digest_lines(begin, lines[at:])
