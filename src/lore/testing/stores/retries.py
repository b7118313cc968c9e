"""A delta that arrives again, since its answer was lost: nothing is doubled, and nothing of it is lost."""

from __future__ import annotations

from pathlib import Path

from lore.store.base import ConflictError
from lore.testing.stores.making import Scenarios, add, adding, begun, events, header, line, raised, said


class RetryScenarios(Scenarios):
    """What a delta that arrives twice does."""

    def test_an_exact_retry_gives_the_first_answer(self, tmp_path: Path) -> None:
        with self.opened(tmp_path) as store:
            base = begun(store)
            first = add(store, said("u1"), said("u2"), base=base)
            before = store.load("s")
            assert add(store, said("u1"), said("u2"), base=base) == first
            assert store.load("s") == before

    def test_an_exact_retry_after_more_was_appended_gives_the_first_answer(self, tmp_path: Path) -> None:
        with self.opened(tmp_path) as store:
            base = begun(store)
            first = add(store, said("u1"), said("u2"), base=base)
            add(store, said("u3"), base=first)
            before = store.load("s")
            assert add(store, said("u1"), said("u2"), base=base) == first
            assert store.load("s") == before

    def test_an_exact_retry_with_a_tombstone_adds_no_second_one(self, tmp_path: Path) -> None:
        with self.opened(tmp_path) as store:
            base = begun(store, said("u1"))
            first = add(store, said("u2"), base=base, removed_ids=("u1",), leaf_id="u2", metadata=b'{"a":1}')
            before = store.load("s")
            retried = add(store, said("u2"), base=base, removed_ids=("u1",), leaf_id="u2", metadata=b'{"a":1}')
            assert (retried, store.load("s")) == (first, before)

    def test_an_exact_retry_of_notes_alone_changes_nothing(self, tmp_path: Path) -> None:
        with self.opened(tmp_path) as store:
            base = begun(store)
            first = add(store, base=base, leaf_id="x", metadata=b'{"a":1}')
            before = store.load("s")
            assert add(store, base=base, leaf_id="x", metadata=b'{"a":1}') == first
            assert store.load("s") == before

    def test_an_exact_retry_does_not_bring_old_notes_back(self, tmp_path: Path) -> None:
        with self.opened(tmp_path) as store:
            base = begun(store)
            first = add(store, said("u1"), base=base, metadata=b'{"a":1}')
            now = add(store, base=first, metadata=b'{"a":2}')
            assert raised(ConflictError, adding(store, said("u1"), base=base, metadata=b'{"a":1}')).stored == now
            assert (store.load("s").metadata, store.load("s").head) == (b'{"a":2}', now)

    def test_a_retry_with_other_notes_behind_later_events_is_refused(self, tmp_path: Path) -> None:
        with self.opened(tmp_path) as store:
            base = begun(store)
            now = add(store, said("u2"), base=add(store, said("u1"), base=base))
            raised(ConflictError, adding(store, said("u1"), base=base, metadata=b'{"a":1}'))
            assert (store.load("s").metadata, store.load("s").head) == (b"{}", now)

    def test_a_retry_with_more_behind_adds_only_what_is_new(self, tmp_path: Path) -> None:
        with self.opened(tmp_path) as store:
            base = begun(store)
            add(store, said("u1"), base=base)  # stored, but the answer was lost: the writer still builds on `base`
            head = add(store, said("u1"), said("u2"), said("u3"), base=base)
            assert events(store) == (header(), said("u1"), said("u2"), said("u3"))
            assert store.load("s").head == head

    def test_a_retry_in_another_spelling_is_the_same(self, tmp_path: Path) -> None:
        other = said("u1").replace(b":", b" : ", 1)
        with self.opened(tmp_path) as store:
            base = begun(store)
            first = add(store, said("u1"), base=base)
            assert add(store, other, base=base) == first
            assert events(store) == (header(), said("u1"))

    def test_a_retry_with_other_content_is_refused_and_the_log_stays(self, tmp_path: Path) -> None:
        with self.opened(tmp_path) as store:
            base = begun(store)
            now = add(store, said("u1"), said("u2"), base=base)
            before = store.load("s")
            for lines in ((said("u1"), said("u9")), (said("u2"), said("u1")), (said("u1", "other"), said("u2"))):
                error = raised(ConflictError, adding(store, *lines, base=base))
                assert (error.base, error.stored) == (base, now)
            raised(ConflictError, adding(store, said("u1"), said("u2"), base=base, removed_ids=("u1",)))
            assert store.load("s") == before

    def test_values_are_compared_strictly(self, tmp_path: Path) -> None:
        with self.opened(tmp_path) as store:
            base = begun(store)
            add(store, line("x", a=1), base=base)
            for other in (1.0, True, "1"):
                raised(ConflictError, adding(store, line("x", a=other), base=base))
            assert events(store) == (header(), line("x", a=1))

    def test_the_same_event_twice_on_purpose_is_stored_twice(self, tmp_path: Path) -> None:
        with self.opened(tmp_path) as store:
            head = begun(store, said("u1"))
            add(store, said("u1"), base=head)
            assert events(store) == (header(), said("u1"), said("u1"))

    def test_a_retry_after_a_restart_gives_the_first_answer(self, tmp_path: Path) -> None:
        self.needs_restarts()
        with self.opened(tmp_path) as store:
            base = begun(store)
            first = add(store, said("u1"), base=base)
        with self.opened(tmp_path) as store:
            assert add(store, said("u1"), base=base) == first
            assert add(store, said("u1"), said("u2"), base=base).number == 3
