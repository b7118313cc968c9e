"""What every store of sessions must do, whatever it keeps them in: one class, scenarios by theme behind it.

    class TestMyStore(StoreContract):
        def make(self, place: Path) -> Store:
            return MyStore(place / "sessions")

`place` is an empty folder of the test's own (pytest's `tmp_path`). `StoreContract` says what else can be given.
"""

from __future__ import annotations

from lore.testing.stores.clients import ClientScenarios
from lore.testing.stores.creating import CreatingScenarios
from lore.testing.stores.deltas import DeltaScenarios
from lore.testing.stores.formats import FormatScenarios
from lore.testing.stores.harness import HarnessScenarios
from lore.testing.stores.notes import NoteScenarios
from lore.testing.stores.odd import OddScenarios
from lore.testing.stores.owners import OwnerScenarios
from lore.testing.stores.retries import RetryScenarios
from lore.testing.stores.threads import ThreadScenarios
from lore.testing.stores.wholes import WholeScenarios


class StoreContract(
    CreatingScenarios, DeltaScenarios, RetryScenarios, WholeScenarios, NoteScenarios, OwnerScenarios,
    ClientScenarios, ThreadScenarios, OddScenarios, FormatScenarios,
    HarnessScenarios,
):  # fmt: skip
    """What every store must do; `make` opens one, `restarts` and `stamp` say what yours can."""


__all__ = ["StoreContract"]
