"""Every store that lore has keeps the contract of stores: memory here, each other one in a file of its own."""

from pathlib import Path

import pytest

from helpers.storing import WITHOUT, opened
from lore.store import registry
from lore.testing import StoreContract
from store.harness import HarnessScenarios


class TestMemory(StoreContract, HarnessScenarios):
    restarts = False

    def make(self, place):
        return opened("memory", place)


class TestMemoryWithoutDeltas(StoreContract, HarnessScenarios):
    """Every scenario again where each delta is saved in full by `saving.save_delta`."""

    restarts = False

    def make(self, place):
        return opened(WITHOUT, place)


@pytest.mark.parametrize("place", sorted({name for _, name in registry._PLACES.values()}))
def test_every_store_is_run_through_the_contract(place):
    files = Path(__file__).parent.glob("test_*.py")
    assert any(f"class Test{place}(StoreContract, " in one.read_text(encoding="utf-8") for one in files)
