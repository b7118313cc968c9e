"""Saving by delta in any store: by its own method where it has one at that moment, else by a full save."""

import pytest

from lore.store.base import ConflictError, Head, SessionDelta, UnknownSessionError
from lore.store.deltas import Whole, save_delta
from lore.store.sqlite import Memory
from lore.testing.stores.scenarios import AT, LATER, Hiding, header, message


def begun():
    hidden = Hiding(Memory())
    return hidden, hidden.inner.create(header())


def test_a_store_without_the_method_is_saved_in_full():
    hidden, base = begun()
    head = save_delta(hidden.store, "s", SessionDelta(base=base, new_events=(message("u1"),), updated_at=LATER))
    (data,) = hidden.saves
    assert data.events == (header(), message("u1"))
    assert hidden.inner.load("s").head == head
    assert (data.created_at, data.updated_at) == (AT, LATER)


def test_both_times_are_saved():
    """`created_at` of a delta was left out where it was saved in full."""
    hidden, base = begun()
    save_delta(hidden.store, "s", SessionDelta(base=base, new_events=(message("u1"),), created_at=LATER))
    assert hidden.inner.load("s").created_at == LATER


@pytest.mark.parametrize("able", [None, "yes", 1])
def test_what_cannot_be_called_is_no_method(able):
    hidden, base = begun()
    hidden.save_delta = able
    save_delta(hidden.store, "s", SessionDelta(base=base, new_events=(message("u1"),)))
    assert len(hidden.saves) == 1


def test_the_stores_own_method_is_believed():
    hidden, base = begun()
    expected = Head(7, "x", "y")
    hidden.save_delta = lambda session_id, delta: expected
    assert save_delta(hidden.store, "s", SessionDelta(base=base)) == expected
    assert hidden.saves == []


def test_errors_are_those_of_the_method():
    hidden, base = begun()
    with pytest.raises(UnknownSessionError):
        save_delta(hidden.store, "t", SessionDelta(base=base))
    save_delta(hidden.store, "s", SessionDelta(base=base, new_events=(message("u1"),)))
    with pytest.raises(ConflictError):
        save_delta(hidden.store, "s", SessionDelta(base=base, new_events=(message("u2"),)))
    assert len(hidden.saves) == 1


def test_another_writer_between_loading_and_saving_is_a_conflict():
    hidden, base = begun()

    def load(session_id, *, after=0):
        data = hidden.inner.load(session_id, after=after)
        save_delta(hidden.inner, "s", SessionDelta(base=data.head, new_events=(message("other"),)))
        return data

    hidden.load = load
    with pytest.raises(ConflictError):
        save_delta(hidden.store, "s", SessionDelta(base=base, new_events=(message("u1"),)))
    assert hidden.inner.load("s").events == (header(), message("other"))


def test_a_whole_session_has_the_digests_of_its_events():
    hidden, base = begun()
    whole = Whole(hidden.inner.load("s"))
    assert [whole.digest(number) for number in (1, 2, -1)] == [base.digest, None, None]
    assert (whole.head, whole.lines(0, 5), whole.lines(1, 5)) == (base, (header(),), ())
