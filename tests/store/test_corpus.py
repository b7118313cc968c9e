"""Every session of the corpus comes back from every store as it went in: saved turn by turn, in full, and moved on."""

from collections.abc import Iterator
from itertools import pairwise

import pytest

from helpers.states import dump_state
from helpers.storing import URLS, opened
from lore.commands.convert import convert_recording
from lore.model.canonical import encode
from lore.recording.base import Problems
from lore.recording.opening import Options
from lore.session import Session
from lore.store.base import SessionDelta, Store
from lore.store.lines import read_header


@pytest.fixture(scope="module")
def logs():
    """The corpus as lines of lore's own log, converted once; two recordings may be of one session id."""
    return {}


def log_of(recording, logs) -> list[bytes]:
    if recording not in logs:
        lines = [
            line.rstrip(b"\n") for line in convert_recording(Options().open(str(recording), Problems(), subagents=True))
        ]
        logs[recording] = [with_id(lines[0], recording.stem), *lines[1:]]
    return logs[recording]


def with_id(header: bytes, name: str) -> bytes:
    """Return a header with a session id of its own: a recording may have none, or share one."""
    return header[:-1] + b',"session_id":' + encode(name) + b"}"


def turns(lines: list[bytes]) -> Iterator[tuple[bytes, ...]]:
    """Yield the lines after the header, cut at the beginnings of turns."""
    cuts = [number for number, line in enumerate(lines) if number and line.startswith(b'{"kind":"turn_started"')]
    for start, end in pairwise(sorted({1, *cuts[::10], len(lines)})):
        yield tuple(lines[start:end])


def saved_by_turns(store: Store, lines: list[bytes]) -> str:
    name, head = read_header(lines[0]).session_id, store.create(lines[0])
    for turn in turns(lines):
        head = store.save_delta(name, SessionDelta(base=head, new_events=turn))
    assert head.number == len(lines)
    return name


def assert_round_trip(store: Store, lines: list[bytes]) -> None:
    name = saved_by_turns(store, lines)
    data = store.load(name)
    assert data.log == b"\n".join((*lines, b""))
    other = opened("memory", None)
    assert other.save(data) == data.head
    assert other.load(name) == data
    assert store.save(data) == data.head
    assert store.verify(name).damage == ()
    assert folded(data.log) == folded(b"\n".join((*lines, b"")))


@pytest.fixture
def readable(recording):
    if recording.parent.name != "claude-code":
        pytest.skip("it holds request bodies: no session to store")
    return recording


@pytest.mark.parametrize("kind", URLS)
def test_session_comes_back_as_it_went_in(kind, readable, logs, tmp_path):
    store = opened(kind, tmp_path)
    assert_round_trip(store, log_of(readable, logs))
    store.close()


def folded(log: bytes) -> bytes:
    return dump_state(Session.read(log).state)
