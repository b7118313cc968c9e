"""Whose a session is: its project, the session that it was forked from; what goes with it, and what stays."""

from __future__ import annotations

from pathlib import Path

from lore.store.base import Checkpoint, Store, StoreError
from lore.testing.stores.making import Scenarios, add, begun, events, header, raised, said
from lore.testing.stores.notes import ONE, prompt_delta


class OwnerScenarios(Scenarios):
    """What `delete`, `list` and `move` promise."""

    def test_deleting_cascades_to_forks_and_to_theirs(self, tmp_path: Path) -> None:
        with self.opened(tmp_path) as store:
            _family(store)
            before = store.load("other")
            gone = store.delete("root")
            assert sorted(gone) == ["grandchild", "one", "root", "two"]
            assert gone.index("grandchild") < gone.index("one") < gone.index("root")
            assert [one.session_id for one in store.list()] == ["other"]
            assert store.load("other") == before
            assert [store.resolve(key) for key in ("to root", "to grandchild", "to other")] == [None, None, "other"]

    def test_deleting_a_fork_leaves_what_it_was_forked_from(self, tmp_path: Path) -> None:
        with self.opened(tmp_path) as store:
            _family(store)
            assert store.delete("one") == ("grandchild", "one")
            assert [one.session_id for one in store.list()] == ["other", "root", "two"]

    def test_what_is_deleted_leaves_nothing_to_a_later_session_of_its_id(self, tmp_path: Path) -> None:
        with self.opened(tmp_path) as store:
            head = begun(store, prompt_delta(1, b"{}", ONE), project_id="p")
            store.save_checkpoint("s", Checkpoint(head.number, head.digest, "1", b"x"))
            store.bind("client", "s")
            store.delete("s")
            assert store.create(header(model="another")).number == 1
            assert (store.load("s").project_id, store.load("s").events) == (None, (header(model="another"),))
            assert not store.prompt_deltas("s")
            assert store.checkpoint("s") is None
            assert store.resolve("client") is None

    def test_what_was_deleted_is_gone_after_a_restart(self, tmp_path: Path) -> None:
        self.needs_restarts()
        with self.opened(tmp_path) as store:
            _family(store)
            store.delete("root")
        with self.opened(tmp_path) as store:
            assert [one.session_id for one in store.list()] == ["other"]
            assert [store.resolve(key) for key in ("to root", "to grandchild", "to other")] == [None, None, "other"]

    def test_parents_in_a_ring_are_deleted_once_each(self, tmp_path: Path) -> None:
        with self.opened(tmp_path) as store:
            begun(store, session_id="a", parent_session_id="b")
            begun(store, session_id="b", parent_session_id="a")
            begun(store, session_id="c", parent_session_id="c")
            assert store.delete("c") == ("c",)
            assert sorted(store.delete("a")) == ["a", "b"]
            assert not store.list()

    def test_sessions_do_not_see_each_other(self, tmp_path: Path) -> None:
        with self.opened(tmp_path) as store:
            for name in ("a", "b"):
                begun(
                    store, said("u1", name), prompt_delta(1, b"{}", ONE.replace(b"one", name.encode())), session_id=name
                )
            before = store.load("b"), list(store.prompt_deltas("b"))
            head = add(store, said("u2"), session_id="a", removed_ids=("u1",), leaf_id="u2", metadata=b'{"x":1}')
            store.save_checkpoint("a", Checkpoint(head.number, head.digest, "1", b"x"))
            store.move("a", "p")
            assert (store.load("b"), list(store.prompt_deltas("b"))) == before
            assert store.checkpoint("b") is None

    def test_projects_do_not_see_each_others_sessions(self, tmp_path: Path) -> None:
        with self.opened(tmp_path) as store:
            for name, project in (("c", "p"), ("a", "p"), ("b", "q"), ("d", None)):
                begun(store, session_id=name, **({} if project is None else {"project_id": project}))
            assert [one.session_id for one in store.list()] == ["a", "b", "c", "d"]
            assert [one.session_id for one in store.list("p")] == ["a", "c"]
            assert [one.session_id for one in store.list("q")] == ["b"]
            assert [list(store.list(none)) for none in ("P", "", "%", "p'")] == [[], [], [], []]

    def test_a_session_that_is_moved_takes_its_prompt_deltas_along(self, tmp_path: Path) -> None:
        with self.opened(tmp_path) as store:
            begun(store, prompt_delta(1, b"{}", ONE), project_id="p")
            begun(store, prompt_delta(1, b"{}", ONE), project_id="p", session_id="stays")
            before = store.load("s")
            store.move("s", "q")
            add(store, prompt_delta(2, b"{}", ONE))
            assert [row.project_id for row in store.prompt_deltas("s")] == ["q", "q"]
            assert [row.project_id for row in store.prompt_deltas("stays")] == ["p"]
            assert [one.session_id for one in store.list("q")] == ["s"]
            assert [one.session_id for one in store.list("p")] == ["stays"]
            assert store.load("s").project_id == "q"
            assert events(store)[: len(before.events)] == before.events

    def test_moving_changes_no_head(self, tmp_path: Path) -> None:
        with self.opened(tmp_path) as store:
            head = begun(store, said("u1"), project_id="p")
            store.move("s", "q")
            store.move("s", "q")
            assert store.load("s").head == head
            assert add(store, said("u2"), base=head).number == 3
            assert store.create(header(project_id="p")).number == 3

    def test_a_session_is_moved_to_no_odd_project(self, tmp_path: Path) -> None:
        with self.opened(tmp_path) as store:
            begun(store, project_id="p")
            for wrong in ("", "a\0b", "x" * 513):
                raised(StoreError, lambda wrong=wrong: store.move("s", wrong))
            assert store.load("s").project_id == "p"

    def test_where_a_session_was_moved_is_known_after_a_restart(self, tmp_path: Path) -> None:
        self.needs_restarts()
        with self.opened(tmp_path) as store:
            begun(store, prompt_delta(1, b"{}", ONE), project_id="p")
            store.move("s", "q")
            before = store.load("s")
        with self.opened(tmp_path) as store:
            assert store.load("s") == before
            assert [row.project_id for row in store.prompt_deltas("s")] == ["q"]
            assert not store.list("p")

    def test_vacuum_takes_nothing_that_is_stored(self, tmp_path: Path) -> None:
        with self.opened(tmp_path) as store:
            begun(store, said("u1", "x" * 100_000), prompt_delta(1, b"{}", ONE))
            begun(store, said("u1", "x" * 100_000), session_id="gone")
            store.delete("gone")
            before = store.load("s"), list(store.prompt_deltas("s"))
            assert store.vacuum() >= 0
            assert (store.load("s"), list(store.prompt_deltas("s"))) == before
            assert add(store, said("u2")).number == before[0].head.number + 1


def _family(store: Store) -> None:
    """Store a session with two forks, a fork of one of them, and a session that is none of theirs."""
    begun(store, prompt_delta(1, b"{}", ONE), session_id="root")
    begun(store, session_id="one", parent_session_id="root")
    begun(store, session_id="two", parent_session_id="root")
    begun(store, prompt_delta(1, b"{}", ONE), session_id="grandchild", parent_session_id="one")
    begun(store, prompt_delta(1, b"{}", ONE), session_id="other", parent_session_id="a session of another store")
    for name in ("root", "grandchild", "other"):
        store.bind(f"to {name}", name)
