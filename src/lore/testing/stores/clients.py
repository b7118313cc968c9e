"""Which session a client means."""

from __future__ import annotations

from pathlib import Path

from lore.store.base import ConflictError, StoreError
from lore.testing.stores.making import Scenarios, begun, raised


class ClientScenarios(Scenarios):
    """What `bind` and `resolve` promise."""

    def test_a_client_that_is_bound_is_resolved(self, tmp_path: Path) -> None:
        with self.opened(tmp_path) as store:
            begun(store)
            begun(store, session_id="t")
            store.bind("client", "s")
            store.bind("client", "s")
            store.bind("another", "s")
            store.bind("third", "t")
            assert [store.resolve(key) for key in ("client", "another", "third", "Client")] == ["s", "s", "t", None]

    def test_a_client_that_means_another_session_is_a_conflict_unless_replaced(self, tmp_path: Path) -> None:
        with self.opened(tmp_path) as store:
            begun(store)
            begun(store, session_id="t")
            store.bind("client", "s")
            assert "'s'" in str(raised(ConflictError, lambda: store.bind("client", "t")))
            assert store.resolve("client") == "s"
            store.bind("client", "t", replace=True)
            assert store.resolve("client") == "t"

    def test_a_client_is_resolved_after_a_restart(self, tmp_path: Path) -> None:
        self.needs_restarts()
        with self.opened(tmp_path) as store:
            begun(store)
            begun(store, session_id="t")
            for key in ("client", "moved"):
                store.bind(key, "s")
            store.bind("moved", "t", replace=True)
        with self.opened(tmp_path) as store:
            assert [store.resolve(key) for key in ("client", "moved", "none")] == ["s", "t", None]
            raised(ConflictError, lambda: store.bind("client", "t"))

    def test_an_unknown_client_is_looked_up_before_it_is_given_up(self, tmp_path: Path) -> None:
        with self.several(tmp_path, 2) as (one, other):
            begun(one)
            assert other.resolve("client") is None
            one.bind("client", "s")
            assert other.resolve("client") == "s"
            assert other.resolve("unknown") is None

    def test_a_binding_that_was_replaced_elsewhere_is_not_remembered_here(self, tmp_path: Path) -> None:
        with self.several(tmp_path, 2) as (one, other):
            begun(one)
            begun(one, session_id="t")
            one.bind("client", "s")
            assert other.resolve("client") == "s"
            one.bind("client", "t", replace=True)
            assert other.resolve("client") == "t"
            one.delete("t")
            assert other.resolve("client") is None

    def test_an_odd_key_is_refused_or_kept_as_it_is(self, tmp_path: Path) -> None:
        with self.opened(tmp_path) as store:
            begun(store)
            kept = ("../x", "a b", "'; drop table clients; --", "%", "_", "é", "e\u0301", "x" * 512)
            for key in kept:
                store.bind(key, "s")
            for key in ("", "a\0b", "a\nb", "x" * 513, "\ud800"):
                raised(StoreError, lambda key=key: store.bind(key, "s"))
                assert store.resolve(key) is None
            assert [store.resolve(key) for key in kept] == ["s"] * len(kept)
