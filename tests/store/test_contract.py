"""Every store that lore has keeps the contract of stores."""

from lore.store.memory import Memory
from lore.testing import StoreContract
from lore.testing.stores.making import Hiding


class TestMemory(StoreContract):
    restarts = False

    def make(self, place):
        return Memory()


class TestMemoryWithoutDeltas(StoreContract):
    """Every scenario again where each delta is saved in full by `saving.save_delta`."""

    restarts = False

    def make(self, place):
        return Hiding(Memory()).store
