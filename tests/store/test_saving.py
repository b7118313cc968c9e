"""Saving by delta in any store: by its own method where it has one at that moment, else by a full save."""

import pytest

from lore.store.base import ConflictError, SessionDelta
from lore.store.deltas import save_delta
from lore.store.sqlite import Memory
from lore.testing.stores.scenarios import Hiding, header, message


def begun():
    hidden = Hiding(Memory())
    return hidden, hidden.inner.create(header())


@pytest.mark.parametrize("able", [None, "yes", 1])
def test_what_cannot_be_called_is_no_method(able):
    hidden, base = begun()
    hidden.save_delta = able
    save_delta(hidden.store, "s", SessionDelta(base=base, new_events=(message("u1"),)))
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
