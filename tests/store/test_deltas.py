"""What a delta does to what is stored, decided without any store; and what a session saved in full may be."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lore.store.base import Head, SessionData, SessionDelta, StoreError
from lore.store.deltas import Whole, digests_of, lines_of, merged, settle
from lore.store.lines import NOTHING, note
from lore.testing.stores.scenarios import header, message


def stored(*lines, leaf_id=None, metadata=b"{}"):
    """What is stored of a session."""
    events = (header(), *lines)
    head = Head(len(events), digests_of(events)[-1].hex(), note(leaf_id, metadata))
    return Whole(SessionData(session_id="s", head=head, events=events, leaf_id=leaf_id, metadata=metadata))


def delta(base, *lines, **more):
    return SessionDelta(base=base, new_events=lines, **more)


def test_only_the_lines_that_are_needed_are_looked_at():
    """A turn of a long session costs what is new of it."""
    asked = []

    class Looked(Whole):
        def lines(self, after, count):
            asked.append((after, count))
            return super().lines(after, count)

    old = stored(*(message(f"u{number}") for number in range(100)))
    looked = Looked(SessionData(session_id="s", head=old.head, events=tuple(old.lines(0, 101))))
    settle(delta(old.head, message("new")), looked)
    assert asked == []
    base = Head(99, old.digest(99), old.head.note)
    settle(delta(base, message("u98"), message("u99")), looked)
    assert asked == [(99, 2)]


@given(st.integers(0, 5), st.integers(0, 5), st.integers(0, 5))
def test_whatever_of_a_delta_arrived_before_the_whole_of_it_is_stored_once(before, arrived, after):
    own = [message(f"own {number}") for number in range(5)]
    base = stored(*(message(f"u{number}") for number in range(before)))
    now = stored(*(message(f"u{number}") for number in range(before)), *own[:arrived])
    settled = settle(delta(base.head, *own[: max(after, arrived)]), now)
    assert list(settled.lines) == own[arrived : max(after, arrived)]
    assert settled.head.number == 1 + before + max(after, arrived)


def test_too_much_that_is_taken_back_is_refused():
    """The `remove` event is a line like any other: nobody could read back one that is too long."""
    with pytest.raises(StoreError, match="MiB"):
        lines_of(delta(NOTHING, removed_ids=("x" * (12 * 1024 * 1024),)))


@pytest.mark.parametrize(
    ("before", "more", "after"),
    [
        (b"{}", b"{}", b"{}"),
        (b'{ "a":1 }', b" {} ", b'{ "a":1 }'),
        (b'{"a":1,"b":2}', b'{"c":3,"a":null}', b'{"a":null,"b":2,"c":3}'),
        (b'{"a":{"x":1}}', b'{"a":{"y":2}}', b'{"a":{"y":2}}'),
        (b"{}", b'{"n":1.0,"m":18446744073709551617}', b'{"n":1.0,"m":18446744073709551617}'),
        (b"{}", b'{"\\ud83d":1}', b'{"\\ud83d":1}'),
    ],
)
def test_metadata_is_put_together_by_key(before, more, after):
    assert merged(before, more) == after
