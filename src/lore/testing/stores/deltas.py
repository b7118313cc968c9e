"""What is new is added: in order, whole or not at all, once, whoever else writes; nothing leaves a log."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from pathlib import Path
from threading import Barrier
from typing import Any

import msgspec

from lore.store.base import ConflictError, Head, SessionDelta, Store, StoreError
from lore.store.deltas import save_delta
from lore.store.lines import NOTHING, digest_lines
from lore.testing.stores.scenarios import (
    AT,
    LATER,
    Hiding,
    Scenarios,
    add,
    adding,
    begun,
    events,
    header,
    line,
    message,
    raised,
)

_BIG = 5 * 1024 * 1024  # of four events; the longest line that a log may have is of 12 MiB
_TOO_BIG = 12 * 1024 * 1024


class DeltaScenarios(Scenarios):
    """What `save_delta` promises, of the store or of lore for it."""

    # adding

    def test_a_batch_is_stored_in_its_order_behind_one_head(self, store: Store) -> None:
        batch = [message(f"u{number}") for number in range(9, 0, -1)]
        head = add(store, *batch, base=store.create(header()))
        assert head.number == 10
        assert head.digest == digest_lines(bytes.fromhex(NOTHING.digest), [header(), *batch])[-1].hex()
        assert events(store) == (header(), *batch)
        assert store.load("s").head == head
        assert store.list()[0].head == head
        assert store.list()[0].size == len(store.load("s").log)

    def test_a_stale_base_is_refused_and_names_both(self, store: Store) -> None:
        old = begun(store)
        now = add(store, message("u1"), base=old)
        before = store.load("s")
        error = raised(ConflictError, adding(store, message("u2"), base=old))
        assert (error.base, error.stored) == (old, now)
        assert str(old) in str(error)
        assert str(now) in str(error)
        assert error.hint
        assert store.load("s") == before

    def test_a_base_that_was_never_stored_is_refused(self, store: Store) -> None:
        head = begun(store, message("u1"))
        for base in (NOTHING, Head(9, head.digest, head.note), Head(2, "f" * 64, head.note), Head(-1, "", "")):
            assert raised(ConflictError, adding(store, message("u2"), base=base)).stored == head
        assert store.load("s").head == head

    def test_a_tombstone_stands_before_what_is_appended_with_it(self, store: Store) -> None:
        begun(store, message("u1"), message("failed"))
        head = add(store, message("u2"), removed_ids=("failed",))
        tombstone = line("remove", uuids=["failed"])
        assert events(store) == (header(), message("u1"), message("failed"), tombstone, message("u2"))
        assert head.number == 5

    def test_a_tombstone_alone_is_valid_and_deletes_nothing_from_the_log(self, store: Store) -> None:
        begun(store, message("u1"), message("u2"))
        head = add(store, removed_ids=("u2", "u1"))
        assert events(store) == (header(), message("u1"), message("u2"), line("remove", uuids=["u2", "u1"]))
        assert store.load("s").head == head

    def test_an_empty_delta_changes_nothing(self, store: Store) -> None:
        head = begun(store, message("u1"))
        add(store, leaf_id="u1", metadata=b'{"a":1}')
        before = store.load("s")
        assert add(store, base=before.head) == before.head
        assert add(store, base=before.head, metadata=b"{}", removed_ids=(), leaf_id=None) == before.head
        assert store.load("s") == before
        assert head.number == before.head.number

    def test_an_empty_delta_on_a_stale_base_is_refused(self, store: Store) -> None:
        old = begun(store)
        add(store, message("u1"))
        raised(ConflictError, adding(store, base=old))

    def test_many_megabytes_in_one_delta_come_back(self, store: Store) -> None:
        batch = [message(f"u{number}", chr(97 + number) * _BIG) for number in range(4)]
        head = begun(store, *batch)
        assert events(store) == (header(), *batch)
        assert add(store, message("after"), base=head).number == 6

    def test_an_event_over_the_limit_is_refused_with_all_of_its_delta(self, store: Store) -> None:
        head = begun(store)
        error = raised(StoreError, adding(store, message("u1"), message("u2", "x" * _TOO_BIG), base=head))
        assert "MiB" in str(error)
        assert events(store) == (header(),)
        assert add(store, message("u1"), base=head).number == 2

    def test_times_are_kept_as_they_are_given(self, store: Store) -> None:
        begun(store)
        add(store, message("u1"), updated_at=LATER)
        add(store, message("u2"), updated_at=AT)  # a clock that went back: nothing is compared
        assert (store.load("s").created_at, store.load("s").updated_at) == (AT, AT)
        add(store, message("u3"), created_at=LATER)
        assert (store.load("s").created_at, store.load("s").updated_at) == (LATER, AT)
        assert store.list()[0].updated_at == AT

    # where the store takes no deltas

    def test_a_store_without_save_delta_ends_the_same(self, tmp_path: Path) -> None:
        with self.opened(tmp_path / "own") as own, self.opened(tmp_path / "hidden") as inner:
            hidden = Hiding(inner)
            expected = played(own)
            assert played(hidden.store) == expected
            assert hidden.saves
            assert inner.load("s") == own.load("s")

    def test_whether_a_store_takes_deltas_is_asked_at_each_call(self, store: Store) -> None:
        hidden = Hiding(store)
        head, counts = store.create(header()), list[int]()
        for number, able in enumerate((False, True, False)):
            hidden.able = able and hasattr(store, "save_delta")
            head = add(hidden.store, message(f"u{number}"), base=head)
            counts.append(len(hidden.saves))
        assert counts == ([1, 1, 2] if hasattr(store, "save_delta") else [1, 2, 3])
        assert events(store) == (header(), message("u0"), message("u1"), message("u2"))

    def test_what_changes_nothing_is_not_saved_in_full(self, store: Store) -> None:
        hidden = Hiding(store)
        first = store.create(header())
        second = add(hidden.store, message("u1"), base=first)
        assert add(hidden.store, message("u1"), base=first) == second
        assert add(hidden.store, base=second) == second
        assert len(hidden.saves) == 1

    # a delta that arrives again, since its answer was lost

    def test_an_exact_retry_after_more_was_appended_gives_the_first_answer(self, store: Store) -> None:
        base = begun(store)
        first = add(store, message("u1"), message("u2"), base=base)
        add(store, message("u3"), base=first)
        before = store.load("s")
        assert add(store, message("u1"), message("u2"), base=base) == first
        assert store.load("s") == before

    def test_an_exact_retry_does_not_bring_old_notes_back(self, store: Store) -> None:
        base = begun(store)
        first = add(store, message("u1"), base=base, metadata=b'{"a":1}')
        now = add(store, base=first, metadata=b'{"a":2}')
        assert raised(ConflictError, adding(store, message("u1"), base=base, metadata=b'{"a":1}')).stored == now
        assert (store.load("s").metadata, store.load("s").head) == (b'{"a":2}', now)

    def test_a_retry_with_other_notes_behind_later_events_is_refused(self, store: Store) -> None:
        base = begun(store)
        now = add(store, message("u2"), base=add(store, message("u1"), base=base))
        raised(ConflictError, adding(store, message("u1"), base=base, metadata=b'{"a":1}'))
        assert (store.load("s").metadata, store.load("s").head) == (b"{}", now)

    def test_a_retry_with_more_behind_adds_only_what_is_new(self, store: Store) -> None:
        base = begun(store)
        add(store, message("u1"), base=base)  # stored, but the answer was lost: the writer still builds on `base`
        head = add(store, message("u1"), message("u2"), message("u3"), base=base)
        assert events(store) == (header(), message("u1"), message("u2"), message("u3"))
        assert store.load("s").head == head

    def test_a_note_that_comes_with_a_retry_is_stored(self, store: Store) -> None:
        """The events are there already, the note is not: to take it all for a retry lost the note, acknowledged."""
        base = begun(store)
        add(store, message("u1"), base=base)
        head = add(store, message("u1"), base=base, metadata=b'{"a":1}', leaf_id="u1")
        data = store.load("s")
        assert (data.metadata, data.leaf_id, data.head) == (b'{"a":1}', "u1", head)
        assert data.events == (header(), message("u1"))

    def test_a_retry_in_another_spelling_is_the_same(self, store: Store) -> None:
        other = message("u1").replace(b":", b" : ", 1)
        base = begun(store)
        first = add(store, message("u1"), base=base)
        assert add(store, other, base=base) == first
        assert events(store) == (header(), message("u1"))

    def test_a_retry_with_other_content_is_refused_and_the_log_stays(self, store: Store) -> None:
        base = begun(store)
        now = add(store, message("u1"), message("u2"), base=base)
        before = store.load("s")
        for lines in (
            (message("u1"), message("u9")),
            (message("u2"), message("u1")),
            (message("u1", "other"), message("u2")),
        ):
            error = raised(ConflictError, adding(store, *lines, base=base))
            assert (error.base, error.stored) == (base, now)
        raised(ConflictError, adding(store, message("u1"), message("u2"), base=base, removed_ids=("u1",)))
        assert store.load("s") == before

    def test_values_are_compared_strictly(self, store: Store) -> None:
        base = begun(store)
        add(store, line("x", a=1), base=base)
        for other in (1.0, True, "1"):
            raised(ConflictError, adding(store, line("x", a=other), base=base))
        assert events(store) == (header(), line("x", a=1))

    def test_the_same_event_twice_on_purpose_is_stored_twice(self, store: Store) -> None:
        head = begun(store, message("u1"))
        add(store, message("u1"), base=head)
        assert events(store) == (header(), message("u1"), message("u1"))

    def test_a_retry_after_a_restart_gives_the_first_answer(self, tmp_path: Path) -> None:
        self.needs_restarts()
        with self.opened(tmp_path) as store:
            base = begun(store)
            first = add(store, message("u1"), base=base)
        with self.opened(tmp_path) as store:
            assert add(store, message("u1"), base=base) == first
            assert add(store, message("u1"), message("u2"), base=base).number == 3

    # writers at the same time

    def test_two_that_create_the_same_session_both_have_it(self, tmp_path: Path) -> None:
        with self.several(tmp_path, 2) as stores:
            for number in range(5):
                name = f"s{number}"
                heads = at_once(_create, stores, [header(name)] * 2)
                assert heads == [stores[0].load(name).head] * 2
                assert events(stores[1], name) == (header(name),)

    def test_of_two_that_create_different_sessions_of_one_id_one_wins(self, tmp_path: Path) -> None:
        with self.several(tmp_path, 2) as stores:
            for number in range(5):
                name = f"s{number}"
                headers = [header(name, model=model) for model in ("m", "n")]
                answers = at_once(_create, stores, headers)
                assert {type(answer) for answer in answers} == {Head, ConflictError}
                winner = next(at for at, answer in enumerate(answers) if isinstance(answer, Head))
                assert [events(store, name) for store in stores] == [(headers[winner],)] * 2

    def test_of_two_deltas_on_one_base_one_wins_and_the_other_can_be_tried_again(self, tmp_path: Path) -> None:
        with self.several(tmp_path, 2) as stores:
            base = begun(stores[0])
            for number in range(5):
                lines = [message(f"u{number}-{writer}") for writer in range(2)]
                answers = at_once(partial(add, base=base), stores, lines)
                assert {type(answer) for answer in answers} == {Head, ConflictError}
                loser = next(at for at, answer in enumerate(answers) if isinstance(answer, ConflictError))
                base = add(stores[loser], lines[loser])
                assert events(stores[0])[-2:] == (lines[1 - loser], lines[loser])
            assert base.number == 11

    def test_eight_writers_of_one_session_lose_and_double_nothing(self, tmp_path: Path) -> None:
        with self.several(tmp_path, _WRITERS) as stores:
            begun(stores[0])
            answers = at_once(_write, stores, range(_WRITERS))
            assert [answer for answer in answers if isinstance(answer, StoreError)] == []
            stored = events(stores[0])
            every = {message(f"u{writer}-{number}") for writer in range(_WRITERS) for number in range(_EACH)}
            assert set(stored[1:]) == every
            assert len(stored) == len(every) + 1
            for writer in range(_WRITERS):
                own = [text for text in stored if b'"u%d-' % writer in text]
                assert own == [message(f"u{writer}-{number}") for number in range(_EACH)]

    def test_writers_of_different_sessions_do_not_hinder_each_other(self, tmp_path: Path) -> None:
        with self.several(tmp_path, 4) as stores:
            for at, store in enumerate(stores):
                begun(store, session_id=f"s{at}")
            answers = at_once(_fill, stores, [f"s{at}" for at in range(4)])
            assert [answer for answer in answers if isinstance(answer, StoreError)] == []
            assert [summary.head.number for summary in stores[0].list()] == [_EACH + 1] * 4


_WRITERS = 8
_EACH = 4
_TRIES = 500  # each refusal means that another writer got on, so this many are never needed


def at_once(call: Callable[..., object], *each: Sequence[Any]) -> list[object]:
    """Make a call for each of these at the same moment, in threads of their own; return answers or StoreErrors."""
    gate = Barrier(len(each[0]))

    def answer(*arguments: object) -> object:
        gate.wait()
        try:
            return call(*arguments)
        except StoreError as error:
            return error

    with ThreadPoolExecutor(len(each[0])) as pool:
        return list(pool.map(answer, *each))


def _create(store: Store, text: bytes) -> Head:
    return store.create(text)


def _write(store: Store, writer: int) -> None:
    """Add events one by one, each behind what is stored, as often as that was another writer's turn."""
    for number in range(_EACH):
        for _ in range(_TRIES):
            with suppress(ConflictError):
                add(store, message(f"u{writer}-{number}"))
                break
        else:
            raise AssertionError("refused each time")


def _fill(store: Store, session_id: str) -> None:
    head = store.load(session_id).head
    for number in range(_EACH):
        head = add(store, message(f"u{number}"), session_id=session_id, base=head)


def played(store: Store) -> list[object]:
    """Play one history of deltas, good and bad, and return each answer; a base is the answer of so many before."""
    heads, answers = [store.create(header())], list[object]()
    for base, delta in _HISTORY:
        try:
            head = save_delta(store, "s", msgspec.structs.replace(delta, base=heads[base]))
        except StoreError as error:
            answers.append((type(error), str(error), getattr(error, "base", None), getattr(error, "stored", None)))
        else:
            answers.append(head)
            heads.append(head)
    return [*answers, store.load("s")]


def _delta(*lines: bytes, **more: Any) -> SessionDelta:
    return SessionDelta(base=NOTHING, new_events=lines, **more)


_HISTORY = (
    (0, _delta(message("u1"), message("u2"))),
    (0, _delta(message("u1"), message("u2"))),
    (0, _delta(message("u1"), message("x"))),
    (1, _delta(message("u3"), removed_ids=("u2",), leaf_id="u3", updated_at=LATER)),
    (1, _delta(message("u3"), message("u4"), removed_ids=("u2",), leaf_id="u4")),
    (1, _delta(removed_ids=("u2",))),
    (1, _delta(metadata=b'{"b":2}')),
    (4, _delta(metadata=b'{"b":2}', created_at=LATER)),
    (-1, _delta(metadata=b"[]")),
    (-1, _delta(b"no line")),
    (-1, _delta(message("u5"), created_at=LATER, updated_at=AT)),
    (-1, _delta()),
    (0, _delta()),
)
