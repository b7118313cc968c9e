"""Several writers: one wins, the others are told, and what each has to say is stored once."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier

from lore.store.base import ConflictError, Head, Store, StoreError
from lore.testing.stores.making import Scenarios, add, begun, events, header, said

_WRITERS = 8
_EACH = 4
_TRIES = 500  # each refusal means that another writer got on, so this many are never needed


def at_once(*calls: Callable[[], object]) -> list[object]:
    """Make calls at the same moment, each in a thread of its own, and return their answers or StoreErrors."""
    gate = Barrier(len(calls))

    def answer(call: Callable[[], object]) -> object:
        gate.wait()
        try:
            return call()
        except StoreError as error:
            return error

    with ThreadPoolExecutor(len(calls)) as pool:
        return list(pool.map(answer, calls))


class ThreadScenarios(Scenarios):
    """What writers at the same time are promised."""

    def test_two_that_create_the_same_session_both_have_it(self, tmp_path: Path) -> None:
        with self.several(tmp_path, 2) as stores:
            for number in range(5):
                name = f"s{number}"
                heads = at_once(*(lambda one=one, name=name: one.create(header(name)) for one in stores))
                assert heads == [stores[0].load(name).head] * 2
                assert events(stores[1], name) == (header(name),)

    def test_of_two_that_create_different_sessions_of_one_id_one_wins(self, tmp_path: Path) -> None:
        with self.several(tmp_path, 2) as stores:
            for number in range(5):
                name = f"s{number}"
                headers = [header(name, model=model) for model in ("m", "n")]
                answers = at_once(
                    *(lambda one=one, text=text: one.create(text) for one, text in zip(stores, headers, strict=True))
                )
                assert {type(answer) for answer in answers} == {Head, ConflictError}
                winner = next(at for at, answer in enumerate(answers) if isinstance(answer, Head))
                assert [events(store, name) for store in stores] == [(headers[winner],)] * 2

    def test_of_two_deltas_on_one_base_one_wins_and_the_other_can_be_tried_again(self, tmp_path: Path) -> None:
        with self.several(tmp_path, 2) as stores:
            base = begun(stores[0])
            for number in range(5):
                lines = [said(f"u{number}-{writer}") for writer in range(2)]
                answers = at_once(
                    *(
                        lambda one=one, text=text, base=base: add(one, text, base=base)
                        for one, text in zip(stores, lines, strict=True)
                    )
                )
                assert {type(answer) for answer in answers} == {Head, ConflictError}
                loser = next(at for at, answer in enumerate(answers) if isinstance(answer, ConflictError))
                base = add(stores[loser], lines[loser])
                assert events(stores[0])[-2:] == (lines[1 - loser], lines[loser])
            assert base.number == 11

    def test_eight_writers_of_one_session_lose_and_double_nothing(self, tmp_path: Path) -> None:
        with self.several(tmp_path, _WRITERS) as stores:
            begun(stores[0])
            answers = at_once(*(lambda one=one, at=at: _write(one, at) for at, one in enumerate(stores)))
            assert [answer for answer in answers if isinstance(answer, StoreError)] == []
            stored = events(stores[0])
            every = {said(f"u{writer}-{number}") for writer in range(_WRITERS) for number in range(_EACH)}
            assert set(stored[1:]) == every
            assert len(stored) == len(every) + 1
            for writer in range(_WRITERS):
                own = [one for one in stored if b'"u%d-' % writer in one]
                assert own == [said(f"u{writer}-{number}") for number in range(_EACH)]

    def test_writers_of_different_sessions_do_not_hinder_each_other(self, tmp_path: Path) -> None:
        with self.several(tmp_path, 4) as stores:
            for at, store in enumerate(stores):
                begun(store, session_id=f"s{at}")
            answers = at_once(*(lambda one=one, at=at: _fill(one, f"s{at}") for at, one in enumerate(stores)))
            assert [answer for answer in answers if isinstance(answer, StoreError)] == []
            assert [one.head.number for one in stores[0].list()] == [_EACH + 1] * 4


def _write(store: Store, writer: int) -> None:
    """Add events one by one, each behind what is stored, as often as that was another writer's turn."""
    for number in range(_EACH):
        text = said(f"u{writer}-{number}")
        assert any(_added(store, text) for _ in range(_TRIES))


def _added(store: Store, text: bytes) -> bool:
    try:
        add(store, text)
    except ConflictError:
        return False
    return True


def _fill(store: Store, session_id: str) -> None:
    head = store.load(session_id).head
    for number in range(_EACH):
        head = add(store, said(f"u{number}"), session_id=session_id, base=head)
