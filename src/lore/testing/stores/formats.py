"""The version of a store's own format: stamped, adopted, and refused without being touched."""

from __future__ import annotations

from pathlib import Path

from lore.store.base import FormatError
from lore.testing.stores.making import Scenarios, add, begun, raised, said, skip

_NEWER = 987_654


class FormatScenarios(Scenarios):
    """What is promised of a store's format version; needs `stamp`."""

    def test_a_fresh_store_is_stamped_and_adopted(self, tmp_path: Path) -> None:
        with self.opened(tmp_path) as store:
            begun(store, said("u1"))
            before = store.load("s")
        version = self._stamped(tmp_path)
        assert version > 0
        with self.opened(tmp_path) as store:
            assert store.load("s") == before

    def test_a_newer_format_is_refused_and_not_touched(self, tmp_path: Path) -> None:
        with self.opened(tmp_path) as store:
            begun(store, said("u1"))
            before = store.load("s")
        version = self._stamped(tmp_path)
        self.stamp(tmp_path, _NEWER)
        error = raised(FormatError, lambda: self.make(tmp_path).load("s"))
        assert error.hint
        assert str(_NEWER) in str(error)
        assert self.stamp(tmp_path, version) == _NEWER
        with self.opened(tmp_path) as store:
            assert store.load("s") == before
            assert add(store, said("u2"), base=before.head).number == 3

    def _stamped(self, place: Path) -> int:
        """Return the version that a store is stamped with, and leave it; skips where it keeps none."""
        version = self.stamp(place, _NEWER)
        if version is None:
            skip("the store keeps no version of its format")
        self.stamp(place, version)
        return version
