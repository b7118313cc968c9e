"""Names of stored sessions: where the URL ends, what a file of the same name does, what is said of a missing store."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lore.model.vector import common_prefix
from lore.recording.corpus import common_of
from lore.store.base import StoreError, UnknownSessionError
from lore.store.registry import (
    SessionAddress,
    address_of,
    is_store,
    log_of,
    open_store,
    open_there,
    say_once,
    scheme_of,
)

HEADER = b'{"kind":"session_started","v":1,"session_id":"%b"}'

pytestmark = pytest.mark.usefixtures("desk")


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("sqlite:a.db#s", ("sqlite:a.db", "s")),
        ("SQLITE:a.db#s", ("SQLITE:a.db", "s")),
        ("jsonl:a/b#s#3", ("jsonl:a/b", "s#3")),
        ("postgresql://u:p@h:1/db?x=1#s", ("postgresql://u:p@h:1/db?x=1", "s")),
        ("memory:#", ("memory:", "")),
        ("sqlite:a.db", None),
        ("a.jsonl#3", None),
        ("C:/logs/a.jsonl#3", None),
        ("./sqlite:a.db#s", None),
        ("of:nobody#s", None),
    ],
)
def test_name_is_cut_at_the_first_number_sign(name, expected):
    assert address_of(name) == (expected and SessionAddress(*expected))


def test_existing_place_ends_the_url():
    Path("a#b").mkdir()
    assert address_of("jsonl:a#b#s") == SessionAddress("jsonl:a#b", "s")
    assert address_of("jsonl:a#c#s") == SessionAddress("jsonl:a", "c#s")


def test_file_with_the_whole_name_wins():
    Path("sqlite:x#1").write_bytes(b"")
    Path("sqlite:x").write_bytes(b"")
    assert address_of("sqlite:x#1") is None
    assert not is_store("sqlite:x")
    assert is_store("sqlite:y")


@pytest.mark.parametrize("url", ["sqlite:none.db", "jsonl:none", "jsonl:~/none"])
def test_missing_store_is_not_made_by_reading(url):
    with pytest.raises(StoreError, match="there is no store"):
        open_there(url)
    with pytest.raises(StoreError, match="there is no store"):
        list(log_of(SessionAddress(url, "s"), 10))
    assert not list(Path().iterdir())


def test_log_comes_in_whole_lines():
    store = open_store("jsonl:s")
    store.create(HEADER % b"s")
    assert list(log_of(SessionAddress("jsonl:s", "s"), 10)) == [HEADER % b"s" + b"\n"]
    with pytest.raises(UnknownSessionError, match="jsonl:s has no session 't'"):
        list(log_of(SessionAddress("jsonl:s", "t"), 10))


def test_note_is_printed_once_without_password(capsys):
    for _ in range(2):
        say_once("postgresql://u:hunter2@h/db said\x1b[31m so")
    assert capsys.readouterr().err == "note: postgresql://u:***@h/db said\ufffd[31m so\n"


def test_unknown_scheme_is_no_store():
    assert scheme_of("nobody-has-this:x") is None
    assert scheme_of("C:/x") is None
    assert scheme_of("memory:") == "memory"


pieces = st.lists(st.binary(max_size=4).map(lambda one: one.replace(b"\x00", b"a")), max_size=6)


@given(pieces, pieces, st.integers(0, 9))
def test_common_prefix_is_independent_of_pieces(left, right, shared):
    whole = b"".join(left)
    right = [whole[:shared], *right] if shared else right
    other = b"".join(right)
    left, right = [one for one in left if one], [one for one in right if one]
    assert common_of(left, right) == (len(whole), len(other), common_prefix(whole, other))
