"""The contract of stores: what every store of sessions must do, whatever it keeps them in.

    class TestMyStore(StoreContract):
        def make(self, place: Path) -> Store:
            return MyStore(place / "sessions")

`place` is an empty folder of the test's own (pytest's `tmp_path`). Most of the contract is scenarios: calls whose
answers, and all that is stored after each, must be those of lore's store in memory. Each store that a test opens is
verified at the end of the test, closed, and opened again: it must hold the same.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path
from threading import Barrier
from typing import Any, ClassVar, TypeAlias

import pytest
from msgspec.structs import replace

from lore.model.canonical import encode
from lore.store.base import ConflictError, FormatError, Head, SessionData, SessionDelta, Store, StoreError
from lore.store.lines import NOTHING
from lore.store.sqlite import Memory

_NEWER = 987_654  # a version of the format
_WRITERS, _EACH, _ATTEMPTS = 8, 4, 500  # each refusal means that another writer succeeded: this many are never needed

Answers: TypeAlias = Iterator[object]
AT = "2026-01-02T03:04:05Z"
LATER = "2026-01-02T03:05:00Z"
IDS = (
    "a", "A", "é", "e\u0301", "É", "ß", "ss", "ı", "I", "i", "K", "\u212a", "../x", "..", ".", "/etc/passwd", "C:\\x",
    "a/b", "a\\b", "a b", " a", "a ", "%", "%2e%2e", "_", "*", "?", "#", "a#1", "'", '"', "`", "$(x)",
    "'; drop table sessions; --", "~", "-rf", "con", "nul.jsonl", "a.jsonl", "a.", "NULL", "0", "00", "1e3", "🎉",
    "日本", "x" * 512, "é" * 512, "🎉" * 512,
)  # fmt: skip
BAD_IDS = ("", "a\0b", "a\nb", "\r", "\x1b[2J", "\u2028", "\u202e", "x" * 513, "\ud800", "a\udfff")
DELTA = b'{"kind": "prompt_delta", "seq": 1, "selector": {}, "content": [{"role":"user","text":"one"}]}'  # with spaces


def line(kind: str, **fields: object) -> bytes:
    """Return an event's line."""
    return encode({"kind": kind, **fields})


def header(session_id: str = "s", **fields: object) -> bytes:
    """Return a header's line."""
    return line("session_started", v=1, session_id=session_id, at=AT, **fields)


def message(uuid: str, text: str = "hello") -> bytes:
    """Return the line of a user's message."""
    return line("append", item={"type": "user_message", "uuid": uuid, "text": text})


def begin(store: Store, *lines: bytes, session_id: str = "s", **fields: object) -> Head:
    """Create a session, with these events after its header."""
    head = store.create(header(session_id, **fields))
    return add(store, *lines, session_id=session_id, base=head) if lines else head


def add(store: Store, *lines: bytes, session_id: str = "s", base: Head | None = None, **fields: Any) -> Head:
    """Add a delta after a base, or after the stored head; it is sent twice, and must get the same answer."""
    base = store.load(session_id).head if base is None else base
    delta = SessionDelta(base=base, new_events=lines, **fields)
    head = store.save_delta(session_id, delta)
    assert store.save_delta(session_id, delta) == head
    return head


def events(store: Store, session_id: str = "s") -> tuple[bytes, ...]:
    """Return the lines of a session."""
    return store.load(session_id).events


def ids(store: Store, project_id: str | None = None) -> list[str]:
    """Return the ids of the listed sessions."""
    return [summary.session_id for summary in store.list(project_id)]


def content(store: Store) -> list[tuple[object, ...]]:
    """Return everything that a store holds, without its clients."""
    return [(summary, store.load(summary.session_id)) for summary in store.list()]


def attempt(call: Callable[..., object], *arguments: Any, **keywords: Any) -> object:
    """Return what a call returns, or what its StoreError tells a program."""
    try:
        return call(*arguments, **keywords)
    except StoreError as error:
        stored = (error.base, error.stored) if isinstance(error, ConflictError) else ()
        return type(error).__name__, stored, bool(error.hint)


def call_at_once(call: Callable[..., object], *arguments: Sequence[Any]) -> list[object]:
    """Call a function in several threads at the same moment; return results or StoreErrors.

    `arguments` has one sequence for each parameter, with a value for each thread.
    """
    gate = Barrier(len(arguments[0]))

    def answer(*values: object) -> object:
        gate.wait()
        try:
            return call(*values)
        except StoreError as error:
            return error

    with ThreadPoolExecutor(len(arguments[0])) as pool:
        return list(pool.map(answer, *arguments))


# creating and loading


def creation(store: Store) -> Answers:
    """The same header again changes nothing; another one, or a line that is no header, is refused."""
    first = header(project_id="p", parent_session_id="other", model="m")
    yield store.create(first)
    yield store.create(first)
    yield add(store, message("u1"))
    yield store.create(first.replace(b":", b" : ", 1))
    unnamed = b'{"kind":"session_started","v":1}'
    for wrong in (header(), message("u1"), b"{}", b"", b"[]", unnamed, header("t") + b"\n" + message("u")):
        yield attempt(store.create, wrong)


def unknown_session(store: Store) -> Answers:
    """A session that the store does not have is an error of its own."""
    head = begin(store)
    yield attempt(store.load, "t")
    yield attempt(add, store, message("u1"), session_id="t", base=head)
    yield attempt(add, store, session_id="t", base=head)
    yield attempt(store.move, "t", "p")
    yield attempt(store.bind, "client", "t")
    for call in (store.delete, store.verify):
        yield attempt(call, "t")
    yield store.resolve("client")


# deltas


def deltas(store: Store) -> Answers:
    """Events are stored in order, removed ids before them as an event; an empty delta changes nothing."""
    head = add(store, *[message(f"u{number}") for number in range(9, 0, -1)], base=store.create(header()))
    yield head
    yield add(store, message("v"), removed_ids=("u9",))
    yield add(store, removed_ids=("u8", "v"))
    yield add(store, removed_ids=("\ud83d", "a\0b", "é", '"', "\n"))
    head = add(store, leaf_id="u1", metadata=b'{"a":1}')
    yield add(store, base=head)
    yield add(store, base=head, metadata=b" {} ", removed_ids=(), leaf_id=None)


def stale_bases(store: Store) -> Answers:
    """A delta whose base is not the stored state is refused with both heads."""
    old = begin(store)
    now = add(store, message("u1"), base=old)
    wrong = (NOTHING, Head(9, now.digest, now.note), Head(2, "f" * 64, now.note), Head(-1, "", ""))
    for base in (old, *wrong):
        yield attempt(add, store, message("u2"), base=base)
    yield attempt(add, store, base=old)


def retries(store: Store) -> Answers:
    """A delta that is sent again because its answer was lost adds only the missing events."""
    base = begin(store)
    first = add(store, message("u1"), message("u2"), base=base)
    yield add(store, message("u3"), base=first)
    yield add(store, message("u1"), message("u2"), base=base)
    respelled = message("u1").replace(b":", b" : ", 1)
    yield add(store, respelled, message("u2"), message("u3"), message("u4"), base=base)


# saving in full


def full_saves(store: Store) -> Answers:
    """A session that is saved in full is created or extended; an event that it lacks is not lost."""
    lines = (header(project_id="p"), message("u1"), DELTA)
    data = SessionData(
        session_id="s", head=NOTHING, events=lines, project_id="p", leaf_id="u1", metadata=b'{"a": 1}',
        created_at=AT, updated_at=LATER,
    )  # fmt: skip
    yield store.save(data)
    store.bind("client", "s")
    yield store.save(store.load("s"))
    head = store.save(replace(data, events=(*lines, message("u2")), updated_at=AT))
    yield head
    yield store.resolve("client")
    yield add(store, message("u3"), base=head)
    for lost in (lines, (*lines, *map(message, ("u2", "u9", "u10"))), (header(model="n"), *lines[1:])):
        yield attempt(store.save, replace(data, events=lost))


# names


def session_ids(store: Store) -> Answers:
    """Every id is a session of its own, or refused."""
    for number, name in enumerate(sorted(set(IDS))):
        begin(store, message(f"u{number}"), session_id=name, project_id=name)
    yield [ids(store, name) for name in IDS]
    yield store.delete("a")
    for name in BAD_IDS:
        for text in (header(name), header("t", project_id=name), header("t", parent_session_id=name)):
            yield attempt(store.create, text)
        for call in (store.load, store.delete):
            yield attempt(call, name)
        yield ids(store, name)


SCENARIOS: tuple[Callable[[Store], Answers], ...] = (
    creation, unknown_session, deltas, stale_bases, retries, full_saves, session_ids,
)  # fmt: skip


class StoreScenarios:
    """Opens the stores that scenarios are played on."""

    restarts: ClassVar[bool] = True
    """Whether a store that is opened at the same place again holds the same sessions."""

    def make(self, place: Path) -> Store:
        """Open the store at `place`, a folder of the test's own; called again, it opens the store after a restart."""
        raise NotImplementedError

    def stamp(self, place: Path, version: int) -> int | None:
        """Write a format version into the closed store at `place` and return the previous one.

        None if the store keeps no version: scenarios about versions are then skipped.
        """
        return None

    @pytest.fixture
    def store(self, tmp_path: Path) -> Generator[Store]:
        """Return a store for one scenario."""
        with self.opened(tmp_path) as store:
            yield store

    @contextmanager
    def opened(self, place: Path) -> Generator[Store]:
        """Open a store; at the end it must verify, and hold the same after a restart."""
        place.mkdir(parents=True, exist_ok=True)
        with closing(self.make(place)) as store:
            yield store
            verified, listed, before = store.verify(), store.list(), content(store)
            assert verified.damage == ()
            assert verified.sessions == len(listed)
            assert verified.events == sum(summary.head.number for summary in listed)
        if self.restarts:
            with closing(self.make(place)) as store:
                assert content(store) == before

    @contextmanager
    def several(self, place: Path, count: int) -> Generator[Sequence[Store]]:
        """Open several stores at one place; one that lives in its process alone is returned several times."""
        with ExitStack() as stack:
            stores = [stack.enter_context(self.opened(place)) for _ in range(count if self.restarts else 1)]
            yield stores if self.restarts else stores * count

    def play(self, place: Path, scenario: Callable[[Store], Answers]) -> None:
        """Play a scenario: answers, and what another object of the store reads, must be those of the one in memory."""
        with self.several(place, 2) as (store, reader), closing(Memory()) as model:
            for answer, expected in zip(scenario(store), scenario(model), strict=True):
                assert answer == expected
                assert content(reader) == content(model)


class StoreContract(StoreScenarios):
    """What every store must do; `make` opens one, `restarts` and `stamp` say what yours can."""

    @pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.__name__)
    def test_store_answers_as_the_one_in_memory(self, tmp_path: Path, scenario: Callable[[Store], Answers]) -> None:
        self.play(tmp_path / "deep" / "inside", scenario)
        names = [path.name for folder in (tmp_path, tmp_path / "deep") for path in folder.iterdir()]
        assert names == ["deep", "inside"], "an id led out of the folder"

    def test_binding_is_seen_by_all_and_after_a_restart(self, tmp_path: Path) -> None:
        with self.several(tmp_path, 2) as (first, second):
            begin(first)
            assert second.resolve("client") is None
            first.bind("client", "s")
            assert second.resolve("client") == "s"
            if not self.restarts:
                pytest.skip("the sessions end with the store's object")
        with self.opened(tmp_path) as store:
            assert store.resolve("client") == "s"

    # writers at the same time

    def test_concurrent_creation_has_one_result(self, tmp_path: Path) -> None:
        def create(store: Store, text: bytes) -> Head:
            return store.create(text)

        with self.several(tmp_path, 2) as stores:
            for number in range(5):
                name = f"same {number}"
                assert call_at_once(create, stores, [header(name)] * 2) == [stores[0].load(name).head] * 2
                headers = [header(f"other {number}", model=model) for model in ("m", "n")]
                answers = call_at_once(create, stores, headers)
                assert {type(answer) for answer in answers} == {Head, ConflictError}
                winner = next(at for at, answer in enumerate(answers) if isinstance(answer, Head))
                assert [events(store, f"other {number}") for store in stores] == [(headers[winner],)] * 2

    def test_eight_writers_lose_and_double_nothing(self, tmp_path: Path) -> None:
        def write(store: Store, writer: int) -> None:
            begin(store, session_id=f"own {writer}")
            for number in range(_EACH):
                add(store, message(f"u{number}"), session_id=f"own {writer}")
                for _ in range(_ATTEMPTS):
                    with suppress(ConflictError):
                        add(store, message(f"u{writer}-{number}"))
                        break
                else:
                    raise AssertionError("refused each time")

        with self.several(tmp_path, _WRITERS) as stores:
            begin(stores[0])
            assert call_at_once(write, stores, range(_WRITERS)) == [None] * _WRITERS
            stored = events(stores[0])[1:]
            assert len(stored) == _WRITERS * _EACH
            for writer in range(_WRITERS):
                lines = [text for text in stored if b'"u%d-' % writer in text]
                assert lines == [message(f"u{writer}-{number}") for number in range(_EACH)]
                assert len(events(stores[0], f"own {writer}")) == _EACH + 1

    # versions

    def test_newer_format_is_refused_untouched(self, tmp_path: Path) -> None:
        with self.opened(tmp_path) as store:
            begin(store, message("u1"))
            before = store.load("s")
        version = self.stamp(tmp_path, _NEWER)
        if version is None:
            pytest.skip("the store keeps no version of its format")
        with pytest.raises(FormatError, match=str(_NEWER)) as caught:
            self.make(tmp_path).load("s")
        assert caught.value.hint
        assert version > 0
        assert self.stamp(tmp_path, version) == _NEWER
        with self.opened(tmp_path) as store:
            assert store.load("s") == before
            assert add(store, message("u2"), base=before.head).number == 3
