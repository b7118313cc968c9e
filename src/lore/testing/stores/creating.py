"""Sessions begin: once, with one header."""

from __future__ import annotations

from pathlib import Path

from lore.store.base import ConflictError, StoreError, UnknownSessionError
from lore.store.lines import NOTHING, follow
from lore.testing.stores.making import AT, Scenarios, add, adding, begun, events, header, raised, said


class CreatingScenarios(Scenarios):
    """What `create` and `load` promise."""

    def test_a_session_that_was_created_holds_its_header(self, tmp_path: Path) -> None:
        first = header(project_id="p", parent_session_id="other", model="m")
        with self.opened(tmp_path) as store:
            head = store.create(first)
            data = store.load("s")
            assert (data.events, data.first, data.head) == ((first,), 1, head)
            assert (data.session_id, data.project_id, data.parent_session_id) == ("s", "p", "other")
            assert (data.created_at, data.leaf_id, data.metadata, data.log) == (AT, None, b"{}", first + b"\n")
            assert head.number == 1
            assert head.digest == follow(bytes.fromhex(NOTHING.digest), [first])[0].hex()
            assert head.note == NOTHING.note

    def test_creating_twice_changes_nothing(self, tmp_path: Path) -> None:
        with self.opened(tmp_path) as store:
            first = store.create(header())
            assert store.create(header()) == first
            later = add(store, said("u1"))
            assert store.create(header()) == later
            assert store.create(header().replace(b":", b" : ", 1)) == later
            assert events(store) == (header(), said("u1"))

    def test_another_header_for_the_same_id_is_a_conflict(self, tmp_path: Path) -> None:
        with self.opened(tmp_path) as store:
            head = store.create(header(model="m"))
            error = raised(ConflictError, lambda: store.create(header(model="n")))
            assert error.stored == head
            assert "'s'" in str(error)
            assert error.hint
            assert events(store) == (header(model="m"),)

    def test_what_is_no_header_creates_nothing(self, tmp_path: Path) -> None:
        with self.opened(tmp_path) as store:
            for wrong in (
                said("u1"),
                b"{}",
                b"",
                b"[]",
                b'{"kind":"session_started","v":1}',
                header() + b"\n" + said("u"),
            ):
                assert raised(StoreError, lambda wrong=wrong: store.create(wrong)).hint
            assert not store.list()

    def test_an_unknown_session_is_named_by_every_method(self, tmp_path: Path) -> None:
        from lore.store.base import Checkpoint  # noqa: PLC0415

        mark = Checkpoint(1, "0" * 64, "1", b"")
        with self.opened(tmp_path) as store:
            head = begun(store)
            for call in (
                lambda: store.load("t"),
                adding(store, said("u1"), session_id="t", base=head),
                adding(store, session_id="t", base=head),
                lambda: store.delete("t"),
                lambda: store.move("t", "p"),
                lambda: store.bind("client", "t"),
                lambda: store.prompt_deltas("t"),
                lambda: store.checkpoint("t"),
                lambda: store.save_checkpoint("t", mark),
                lambda: store.verify("t"),
            ):
                assert "'t'" in str(raised(UnknownSessionError, call))
            assert [one.session_id for one in store.list()] == ["s"]
            assert store.resolve("client") is None

    def test_what_was_stored_is_there_after_a_restart(self, tmp_path: Path) -> None:
        self.needs_restarts()
        with self.opened(tmp_path) as store:
            begun(store, said("u1"), said("u2"), project_id="p")
            add(store, leaf_id="u2", metadata=b'{"a":1}', updated_at=AT)
            before, listed = store.load("s"), list(store.list())
        with self.opened(tmp_path) as store:
            assert store.load("s") == before
            assert list(store.list()) == listed
            assert add(store, said("u3"), base=before.head).number == 4

    def test_loading_after_a_number_gives_what_came_later(self, tmp_path: Path) -> None:
        with self.opened(tmp_path) as store:
            begun(store, said("u1"), said("u2"))
            data = store.load("s", after=1)
            assert (data.events, data.first, data.head.number) == ((said("u1"), said("u2")), 2, 3)
            assert store.load("s", after=3).events == ()
            assert store.load("s", after=3).head == data.head
            assert store.load("s", after=99).events == ()
            assert store.load("s", after=-5) == store.load("s")
