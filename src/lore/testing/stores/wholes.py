"""A session saved in full: always possible, and never at the cost of an event."""

from __future__ import annotations

from pathlib import Path

import msgspec

from lore.store.base import ConflictError, FormatError, SessionData, StoreError
from lore.store.lines import NOTHING
from lore.testing.stores.making import AT, LATER, Scenarios, add, begun, events, header, line, raised, said


def whole(*lines: bytes, session_id: str = "s", **more: object) -> SessionData:
    """Return a session as it could be loaded, but for its head, which nobody looks at."""
    data = SessionData(session_id=session_id, head=NOTHING, events=(header(session_id), *lines))
    return msgspec.structs.replace(data, **more)


class WholeScenarios(Scenarios):
    """What `save` promises."""

    def test_a_new_session_is_created(self, tmp_path: Path) -> None:
        data = whole(said("u1"), project_id="p", leaf_id="u1", metadata=b'{"a": 1}', created_at=AT, updated_at=LATER)
        with self.opened(tmp_path) as store:
            head = store.save(data)
            assert store.load("s") == msgspec.structs.replace(data, head=head)
            assert add(store, said("u2"), base=head).number == 3

    def test_what_is_new_behind_a_loaded_session_is_added(self, tmp_path: Path) -> None:
        with self.opened(tmp_path) as store:
            begun(store, said("u1"), project_id="p")
            data = store.load("s")
            head = store.save(msgspec.structs.replace(data, events=(*data.events, said("u2")), updated_at=LATER))
            assert head.number == 3
            assert events(store) == (header(project_id="p"), said("u1"), said("u2"))
            assert (store.load("s").head, store.load("s").updated_at) == (head, LATER)

    def test_the_same_again_changes_nothing(self, tmp_path: Path) -> None:
        with self.opened(tmp_path) as store:
            begun(store, said("u1"))
            data = store.load("s")
            assert store.save(data) == data.head
            assert store.load("s") == data

    def test_a_save_that_would_lose_an_event_is_refused(self, tmp_path: Path) -> None:
        with self.opened(tmp_path) as store:
            begun(store, said("u1"))
            old = store.load("s")
            now = add(store, said("u2"))
            before = store.load("s")
            assert raised(ConflictError, lambda: store.save(old)).stored == now
            other = msgspec.structs.replace(old, events=(*old.events, said("u9"), said("u10")))
            raised(ConflictError, lambda: store.save(other))
            assert store.load("s") == before

    def test_a_save_with_another_beginning_is_refused(self, tmp_path: Path) -> None:
        with self.opened(tmp_path) as store:
            begun(store, said("u1"))
            before = store.load("s")
            other = msgspec.structs.replace(before, events=(header(model="n"), said("u1"), said("u2")))
            raised(ConflictError, lambda: store.save(other))
            assert store.load("s") == before

    def test_what_is_no_whole_session_is_refused(self, tmp_path: Path) -> None:
        with self.opened(tmp_path) as store:
            good = whole(said("u1"))
            for wrong in (
                {"events": ()},
                {"first": 2},
                {"session_id": "t"},
                {"events": (said("u1"), header())},
                {"events": (header(), b"no line")},
                {"events": (header(), said("u1") + b"\n" + said("u2"))},
                {"events": (header(), b'"text"')},
                {"metadata": b"[]"},
                {"metadata": b"{"},
                {"leaf_id": "a\0b"},
                {"project_id": ""},
            ):
                raised(StoreError, lambda wrong=wrong: store.save(msgspec.structs.replace(good, **wrong)))
            raised(FormatError, lambda: store.save(msgspec.structs.replace(good, version=99)))
            assert not store.list()

    def test_a_full_save_keeps_what_stands_beside_the_log(self, tmp_path: Path) -> None:
        from lore.store.base import Checkpoint  # noqa: PLC0415

        delta = line("prompt_delta", seq=1, selector={"target": "messages"}, content=[{"role": "user", "text": "x"}])
        with self.opened(tmp_path) as store:
            head = begun(store, delta)
            mark = Checkpoint(head.number, head.digest, "1", b"state")
            store.save_checkpoint("s", mark)
            store.bind("client", "s")
            data = store.load("s")
            store.save(msgspec.structs.replace(data, events=(*data.events, said("u1"))))
            assert store.checkpoint("s") == mark
            assert store.resolve("client") == "s"
            assert len(store.prompt_deltas("s")) == 1

    def test_prompt_deltas_of_a_whole_session_are_rows_too(self, tmp_path: Path) -> None:
        delta = line("prompt_delta", seq=4, selector={"target": "messages"}, content=[{"role": "user", "text": "x"}])
        with self.opened(tmp_path) as store:
            store.save(whole(delta, project_id="p"))
            assert [(row.seq, row.project_id) for row in store.prompt_deltas("s")] == [(4, "p")]
