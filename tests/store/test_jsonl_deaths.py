"""A process that dies before any of its calls to the system: its change is whole or absent, and can be repeated."""

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from msgspec.structs import replace

from lore.store.base import Head, SessionDelta
from lore.store.deltas import digests_of
from lore.store.lines import NOTHING
from store.logs import Logs, begin_store, header, message_line, visible

CALLS = ("write", "fsync", "link", "replace", "rename", "unlink", "ftruncate", "mkdir")


class Died(BaseException):
    """The process is gone."""


@contextmanager
def dying(monkeypatch: pytest.MonkeyPatch, before: int) -> Iterator[None]:
    """Die before call number `before` that changes a file; half of the write that dies reaches the file."""
    count = [0]

    def patched(name: str) -> Callable[..., object]:
        call = getattr(os, name)

        def counting(*words: object) -> object:
            count[0] += 1
            if count[0] == before and name == "write":
                call(words[0], words[1][: len(words[1]) // 2])
            if count[0] >= before:
                raise Died
            return None if name == "fsync" else call(*words)

        return counting

    with monkeypatch.context() as patching:
        for name in CALLS:
            patching.setattr(os, name, patched(name))
        yield


def torn(store: Logs, folder: Path) -> None:
    with (folder / "s.jsonl").open("ab") as file:
        file.write(b'{"torn')


def fork(store: Logs, folder: Path) -> None:
    store.create(header("f", parent_session_id="s"))
    store.bind("k", "f")


def nothing(store: Logs, folder: Path) -> None:
    pass


def delta(store: Logs) -> None:
    base = begun_head()
    store.save_delta("s", SessionDelta(base=base, new_events=(message_line("b"),), leaf_id="b"))


def begun_head() -> Head:
    """Return the head of the session as it was begun."""
    return Head(2, digests_of((header(), message_line("a")))[-1].hex(), NOTHING.note)


def whole(store: Logs) -> None:
    data = store.load("s")
    store.save(replace(data, events=(*data.events[:2], message_line("c")), leaf_id="c"))


ACTS = {
    "create": (nothing, lambda store: store.create(header("new"))),
    "delta": (nothing, delta),
    "delta after a torn tail": (torn, delta),
    "save": (torn, whole),
    "move": (torn, lambda store: store.move("s", "p")),
    "bind": (nothing, lambda store: store.bind("k", "s")),
    "delete": (fork, lambda store: store.delete("s")),
}


@pytest.mark.parametrize(("prepare", "act"), ACTS.values(), ids=ACTS)
def test_dying_call_is_done_or_not_begun(tmp_path, monkeypatch, prepare, act):
    finished = tmp_path / "done"
    prepare(begin_store(finished, "a"), finished)
    act(Logs(finished))
    end = facts(finished)
    for before in range(1, 100):
        folder = tmp_path / str(before)
        prepare(begin_store(folder, "a"), folder)
        old = facts(folder)
        if not dies(monkeypatch, before, lambda folder=folder: act(Logs(folder))):
            break
        state = facts(folder)
        assert all(fact in (old.get(name), end.get(name)) for name, fact in state.items()), before
        assert all("incomplete save" in fact.message for fact in Logs(folder).verify().damage), before
        if "s" in state:
            act(Logs(folder))
        assert facts(folder) == end, before
        vacuum_later(folder)
        assert all(path.suffix == ".lock" for path in folder.rglob(".*")), before
    assert before > 1


def dies(monkeypatch: pytest.MonkeyPatch, before: int, act: Callable[[], object]) -> bool:
    """Do something, and tell whether the process died of it."""
    with dying(monkeypatch, before):
        try:
            act()
        except Died:
            return True
    return False


def test_create_that_died_is_done_by_another(tmp_path, monkeypatch):
    for before in range(1, 100):
        folder = tmp_path / str(before) / "deep" / "er"
        if not dies(monkeypatch, before, lambda folder=folder: Logs(folder).create(header())):
            break
        assert Logs(folder).create(header()).number == 1
        vacuum_later(folder)
        assert visible(folder) == ["lore-store.json", "s.jsonl"]
    assert before > 5


def vacuum_later(folder: Path) -> None:
    """Vacuum a store of files that are two hours old."""
    for path in folder.iterdir():
        os.utime(path, (time.time() - 7_200,) * 2)
    Logs(folder).vacuum()


def facts(folder: Path) -> dict[str, object]:
    """Return the sessions, and the session of client `k`, that a process which comes later finds."""
    store = Logs(folder)
    return {**{info.session_id: store.load(info.session_id) for info in store.list()}, "client k": store.resolve("k")}
