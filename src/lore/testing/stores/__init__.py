"""What every store of sessions must do, whatever it keeps them in: one class, scenarios by theme behind it.

    class TestMyStore(StoreContract):
        def make(self, place: Path) -> Store:
            return MyStore(place / "sessions")

`place` is an empty folder of the test's own (pytest's `tmp_path`). `StoreContract` says what else can be given.
"""

from __future__ import annotations

from lore.testing.stores.deltas import DeltaScenarios
from lore.testing.stores.notes import NoteScenarios
from lore.testing.stores.odd import OddScenarios
from lore.testing.stores.sessions import SessionScenarios


class StoreContract(SessionScenarios, DeltaScenarios, NoteScenarios, OddScenarios):
    """What every store must do; `make` opens one, `restarts` and `stamp` say what yours can."""


__all__ = ["StoreContract"]
