"""A log is known again by its ends, all of it where asked for; reading goes on with the last MiB alone."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lore.run import checkpoints as checkpoint_file
from lore.run.checkpoints import Digester, UnusableError, recognised


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch):
    monkeypatch.setattr(checkpoint_file, "BLOCK", 8)


def of(*pieces):
    digester = Digester()
    for piece in pieces:
        digester.feed(piece)
    return digester.fingerprint


@given(st.lists(st.binary(max_size=30), max_size=6))
def test_pieces_of_any_size_give_the_same(pieces):
    assert of(*pieces) == of(b"".join(pieces))


@given(st.binary(max_size=60), st.binary(max_size=60))
def test_a_digest_goes_on_from_its_fingerprint(before, after):
    known = of(before)
    going = Digester(known.size, known.whole, before[:8], before[-8:])
    going.feed(after)
    assert going.fingerprint == of(before + after)


def asked(tmp_path, before, now, *, whole=False):
    (tmp_path / "log").write_bytes(now)
    with open(tmp_path / "log", "rb") as file:
        try:
            recognised(file, of(before), whole=whole)
        except UnusableError as error:
            return error.message
        return file.read()


TEXT = b"the quick brown fox jumps over it"


@pytest.mark.parametrize("whole", [False, True])
def test_a_log_that_grew_is_known_again(tmp_path, whole):
    assert asked(tmp_path, TEXT, TEXT + b" and on", whole=whole) == b" and on"
    assert asked(tmp_path, b"", b"new", whole=whole) == b"new"


@pytest.mark.parametrize(
    ("now", "said"),
    [
        (TEXT[:-1], "shrunk from 33 to 32 bytes"),
        (b"T" + TEXT[1:], "begins with other bytes"),
        (TEXT[:-1] + b"s!", "was rewritten"),
        (b"", "shrunk"),
    ],
)
def test_another_log_is_told_apart_by_its_ends(tmp_path, now, said):
    assert said in asked(tmp_path, TEXT, now)


def test_a_change_in_the_middle_is_seen_only_where_all_is_compared(tmp_path):
    now = TEXT.replace(b"brown", b"black") + b" and on"
    assert asked(tmp_path, TEXT, now) == b" and on"
    assert asked(tmp_path, TEXT, now, whole=True) == "the log was rewritten in its middle"
