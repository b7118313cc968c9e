"""The store in memory, beyond the contract: what it finds damaged, and what it costs."""

import pytest

from lore.store.base import UnknownSessionError
from lore.store.sqlite import Memory
from lore.testing.stores.scenarios import add, begun, header, message


def test_an_event_that_was_changed_is_found():
    store = Memory()
    begun(store, message("u1"), message("u2"))
    begun(store, message("u1"), session_id="whole")
    with store.transaction(write=True) as tx:
        tx.execute("UPDATE events SET line = ? WHERE session = 1 AND number = 2", (message("u9"),))
    (damage,) = store.verify().damage
    assert (damage.session_id, damage.number) == ("s", 2)
    assert store.verify("whole").damage == ()
    assert (store.verify().sessions, store.verify().events) == (2, 5)


def test_its_url_says_nothing():
    assert Memory.open("memory:", print).url == "memory:"


def test_what_was_loaded_stays_as_it_was():
    store = Memory()
    begun(store, message("u1"))
    before = store.load("s")
    add(store, message("u2"))
    assert before.events == (header(), message("u1"))
    store.delete("s")
    assert before.log == header() + b"\n" + message("u1") + b"\n"
    with pytest.raises(UnknownSessionError):
        store.load("s")


def test_closing_lets_go_of_nothing():
    store = Memory()
    begun(store)
    store.close()
    assert store.vacuum() == 0
