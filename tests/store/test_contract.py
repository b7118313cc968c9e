"""Every store that lore has keeps the contract of stores."""

from lore.store.memory import Memory
from lore.testing import StoreContract


class TestMemory(StoreContract):
    restarts = False

    def make(self, place):
        return Memory()
