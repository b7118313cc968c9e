"""Whatever is done to a folder of logs, in whatever order: it holds what a store in memory holds."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from lore.store.base import ConflictError, Head, SessionDelta
from lore.store.sqlite import Memory
from store.logs import Logs, header, said

_texts = st.lists(st.sampled_from("abc"), max_size=3)
_metadata = st.sampled_from([b"{}", b'{"n":1}', b'{"n":"%b"}' % (b"x" * 1500)])
_deltas = st.tuples(_texts, st.integers(0, 3), st.sampled_from([None, "a", "b"]), _metadata)
_steps = st.one_of(
    st.tuples(st.just("delta"), _deltas),
    st.tuples(st.sampled_from(["save", "open", "move", "again", "other"]), st.none()),
)


@pytest.fixture(autouse=True)
def unsynchronised(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let fsync do nothing: what is tested is what is written."""
    monkeypatch.setattr("os.fsync", lambda descriptor: None)


@settings(max_examples=60, deadline=None)
@given(st.lists(_steps, max_size=12))
def test_any_history_is_kept_as_in_memory(steps):
    with tempfile.TemporaryDirectory() as folder:
        _play(Path(folder), steps)


def _play(folder: Path, steps):
    memory, logs = Memory(), Logs(folder)
    heads = [memory.create(header())]
    assert logs.create(header()) == heads[0]
    last = SessionDelta(base=heads[0])
    for name, what in steps:
        match name:
            case "delta":
                texts, back, leaf_id, metadata = what
                base = heads[max(0, len(heads) - 1 - back)]
                last = SessionDelta(base=base, new_events=tuple(map(said, texts)), leaf_id=leaf_id, metadata=metadata)
                heads.append(_same(memory, logs, last) or heads[-1])
            case "again":
                _same(memory, logs, last)
            case "save":
                data = memory.load("s")
                data = replace(data, events=(*data.events, said("saved")), leaf_id="saved")
                heads.append(memory.save(data))
                assert logs.save(data) == heads[-1]
            case "move":
                memory.move("s", "p"), logs.move("s", "p")
            case "open":
                logs = Logs(folder)
            case _:  # another program appends a line
                with (folder / "s.jsonl").open("ab") as file:
                    file.write(said("other") + b"\n")
                heads.append(
                    memory.save_delta("s", SessionDelta(base=memory.load("s").head, new_events=(said("other"),)))
                )
        _compare(memory, logs)
    _compare(memory, Logs(folder))
    assert not logs.verify().damage


def _same(memory: Memory, logs: Logs, delta: SessionDelta) -> Head | None:
    """Give both a delta, and hold that they say the same of it."""
    answers: list[object] = []
    for store in (memory, logs):
        try:
            answers.append(store.save_delta("s", delta))
        except ConflictError as error:
            answers.append((error.base, error.stored, str(error)))
    assert answers[0] == answers[1]
    return answers[0] if isinstance(answers[0], Head) else None


def _compare(memory: Memory, logs: Logs) -> None:
    for after in (0, 1, 3, 100):
        assert logs.load("s", after=after) == memory.load("s", after=after)
    assert logs.list() == memory.list()
    assert not logs.told
