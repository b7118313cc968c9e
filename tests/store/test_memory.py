"""The store in memory, beyond the contract: what it finds damaged, and what it costs."""

from lore.store.sqlite import Memory
from lore.testing.stores.scenarios import begun


def test_its_url_says_nothing():
    assert Memory.open("memory:", print).url == "memory:"


def test_closing_lets_go_of_nothing():
    store = Memory()
    begun(store)
    store.close()
    assert store.vacuum() == 0
