"""What scenarios of stores share: lines of logs, calls, and stores that are verified when a scenario ends."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from threading import Barrier
from typing import Any, ClassVar

import pytest

from lore.model.canonical import encode
from lore.store.base import ConflictError, Head, SessionDelta, Store, StoreError

AT = "2026-01-02T03:04:05Z"
LATER = "2026-01-02T03:05:00Z"
IDS = (
    "a", "A", "é", "e\u0301", "É", "ß", "ss", "ı", "I", "i", "K", "\u212a", "../x", "..", ".", "/etc/passwd", "C:\\x",
    "a/b", "a\\b", "a b", " a", "a ", "%", "%2e%2e", "_", "*", "?", "#", "a#1", "'", '"', "`", "$(x)",
    "'; drop table sessions; --", "~", "-rf", "con", "nul.jsonl", "a.jsonl", "a.", "NULL", "0", "00", "1e3", "🎉",
    "日本", "x" * 512, "é" * 512, "🎉" * 512,
)  # fmt: skip
BAD_IDS = ("", "a\0b", "a\nb", "\r", "\x1b[2J", "\u2028", "\u202e", "x" * 513, "\ud800", "a\udfff")
LINES = (
    b'{"kind":"append","item":{"type":"user_message","uuid":"u1","text":"\\ud83d and \\udc00"}}',
    b'{"kind":"append","item":{"type":"user_message","uuid":"u2","text":"\\u0000 \\u001b[2J"}}',
    '{"kind":"append","item":{"type":"user_message","uuid":"u3","text":"🎉 \u2028 \u0085 e\u0301"}}'.encode(),
    b'{"kind":"x","n":[18446744073709551616,-9223372036854775809,1.0,1e16,1E+2,-0,0.1000]}',
    b'{ "kind" : "append" ,\t"more":1, "item":{"type":"user_message","uuid":"u4","text":"a"} , "more":2 }',
    b'  {"kind":"unknown","own":{"deep":[[[[]]]]},"":null}  ',
    b'{"kind":"x"}\r',
    b'{"id":99,"kind":"x"}',
    b"{}",
    b'{"kind":"session_started","v":1,"session_id":"another"}',
    b'{"kind":"remove","uuids":["u1","never seen"]}',
    b'{"kind":"prompt_delta","seq":"not a number","selector":5}',
    b'{"kind":"x","sql":"\'; drop table events; -- $1 %s ? :a \\\\x00"}',
)
BAD_LINES = (
    b"", b" ", b"null", b"[]", b'"text"', b"{", b"{}{}", b'{"a":1,}', b'{"a":\xff}', b'{"a":NaN}', b'{"a":1e400}',
    b"\xef\xbb\xbf{}", b'{"a":1}\n', b'{"a":\n1}', b'{"a":' + b"[" * 200_000 + b"]" * 200_000 + b"}",
)  # fmt: skip
BAD_NOTES: tuple[dict[str, Any], ...] = (
    *({"leaf_id": text} for text in BAD_IDS),
    *({field: text} for text in ("a\0b", "\ud800", "x" * 513) for field in ("created_at", "updated_at")),
    *({"metadata": text} for text in (b"[]", b"", b"null", b"{", b'{"a":\xff}', b'{"a":NaN}')),
)
ONE = b'[{"role":"user","text":"one"}]'  # content of a prompt delta


def line(kind: str, **fields: object) -> bytes:
    """Return an event's line."""
    return encode({"kind": kind, **fields})


def header(session_id: str = "s", **fields: object) -> bytes:
    """Return a header's line."""
    return line("session_started", v=1, session_id=session_id, at=AT, **fields)


def message(uuid: str, text: str = "hello") -> bytes:
    """Return the line of a user's message."""
    return line("append", item={"type": "user_message", "uuid": uuid, "text": text})


def prompt_delta(seq: int, selector: bytes = b"{}", content: bytes | None = ONE) -> bytes:
    """Return the record of a prompt delta, with spaces as a writer might set them."""
    text = b'{"kind": "prompt_delta", "seq": %d, "selector": %b' % (seq, selector)
    return text + (b"}" if content is None else b', "content": %b}' % content)


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
    return [(found, store.load(found.session_id)) for found in store.list()]


def attempt(call: Callable[..., object], *arguments: Any, **named: Any) -> object:
    """Return what a call returns, or what its StoreError tells a program."""
    try:
        return call(*arguments, **named)
    except StoreError as error:
        stored = (error.base, error.stored) if isinstance(error, ConflictError) else ()
        return type(error).__name__, stored, bool(error.hint)


def call_at_once(call: Callable[..., object], *arguments: Sequence[Any]) -> list[object]:
    """Call a function in several threads at the same moment; return results or StoreErrors.

    `arguments` has one sequence for each parameter, with a value for each thread.
    """
    gate = Barrier(len(arguments[0]))

    def answer(*each: object) -> object:
        gate.wait()
        try:
            return call(*each)
        except StoreError as error:
            return error

    with ThreadPoolExecutor(len(arguments[0])) as pool:
        return list(pool.map(answer, *arguments))


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
            if not self.restarts:
                yield [stack.enter_context(self.opened(place))] * count
            else:
                yield [stack.enter_context(self.opened(place)) for _ in range(count)]
