"""`jsonl:DIR`: sessions as logs in a folder, one file each, that every reader of lore's logs takes as they are.

A log holds the session's lines to the byte as they were given, and before each delta a line of the store's own, a
`saved` record (`jsonl_records`). A delta is one write and one fsync behind what is there, so it costs what is new; it
is stored whole or not at all, since a record whose events are not all there is torn, and left out. A new session is
written as a file of another name, and gets its own when it is whole.

- How far a session is stored and what is noted of it is read from its log's last record. Beside the logs lie
  `NAME.checkpoint`, which may be lost at any time, and `bindings.jsonl`: which session a client means cannot be told
  from logs, since one binding ends another's.
- Writers of one session wait for each other, in all processes (`jsonl_folder` says how, and where that does not hold);
  the file is read again under the lock when somebody else wrote, so what is refused is refused for what is stored.
- Whole lines that other programs appended are events of the session, without a digest until the next delta.
- A torn tail is left out by those who read, and put aside into `NAME.torn` by the next who writes: both tell it.
- `load` derives every digest anew: measured, 97 MB in 0.45 s, of which SHA-256 is two thirds.
- What a file system acknowledged to fsync is taken as stored. A log that a disk cut between two deltas looks like one
  to which the later ones were never added.

Safe between threads, any method from any of them: nothing is shared but what is remembered of each log, which is
compared with the file each time.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager, suppress
from itertools import chain
from typing import NamedTuple, TypeVar

import msgspec

from lore.errors import Where
from lore.model.canonical import encode
from lore.store.base import (
    Checkpoint,
    DamagedError,
    DamagedPlace,
    Salvaged,
    SessionSummary,
    StoreError,
    Tell,
    UnknownSessionError,
    Verified,
)
from lore.store.deltas import Addition, Decide, bound_to, digests_of, with_forks
from lore.store.jsonl_folder import (
    BINDINGS,
    CHECKPOINT,
    LOG,
    PATIENCE,
    TORN,
    Folder,
    append,
    failed,
    read_range,
    read_small,
    stamp_of,
    synchronise,
)
from lore.store.jsonl_log import MOST, LogFile, LogState, LogStore, LogView, pieces, record, unread, verify_log
from lore.store.jsonl_records import LONGEST_CHECKPOINT, checkpoint_bytes, is_sealed, read_checkpoint, sealed
from lore.store.lines import good_id

_REMEMBERED = 1000  # logs whose state is remembered
_T = TypeVar("_T")


class Jsonl(LogStore):
    """A store of logs in a folder."""

    def __init__(self, folder: str, url: str, tell: Tell, *, patience: float = PATIENCE) -> None:
        """Take a folder, which the first session makes; `patience` is how many seconds to wait for another writer."""
        self.url = url
        self._folder = Folder(folder, patience)
        self._tell = tell
        self._bindings = _Bindings(self._folder, tell)
        self._states: dict[str, tuple[tuple[int, ...], LogState]] = {}
        self._is_closed = False

    @classmethod
    def open(cls, url: str, tell: Tell) -> Jsonl:
        """Open `jsonl:DIR`; raises FormatError where the folder is another program's, or a newer lore's."""
        folder = os.path.expanduser(url.partition(":")[2])
        if not folder or "\0" in folder:
            raise StoreError(f"{url!r} names no folder", hint="name one: jsonl:DIR")
        made = cls(folder, url, tell)
        made._ready()
        return made

    # sessions

    def _read(self, session_id: str, ask: Callable[[LogView], _T]) -> _T:
        with self._opened(session_id) as log:
            result, state = ask(log), self._known(log)
        if state.torn:
            self._tell(
                f"{log.place}: the last {state.torn:,} bytes are a delta that was never acknowledged; they "
                "are left out, and put aside when the session is saved next"
            )
        return result

    def _write(self, session_id: str, decide: Decide[_T]) -> _T:
        while True:
            try:
                with self._opened(session_id, write=True) as log:
                    self._known(log)
                    result, addition = decide(log)
                    if addition is not None:
                        self._add(log, addition)
                    else:  # who wrote it may have died before it, or its name, was durable
                        synchronise(log.descriptor, log.place)
                        self._folder.synchronise()
                    return result
            except UnknownSessionError:
                result, addition = decide(None)
            assert addition is not None
            self._folder.prepare()
            with suppress(FileExistsError):  # else it was created meanwhile
                self._write_whole(self._folder.log(session_id), addition, replace=False)
                return result

    def _add(self, log: LogFile, addition: Addition) -> None:
        """Write behind a log; what is too much for one record, with all of the session."""
        state = log.state
        if state.torn:
            self._tell(self._folder.put_aside(log.descriptor, log.place, state.end, state.end + state.torn))
        if len(addition.lines) > MOST:
            events = (*log.part(0).lines, *addition.lines)
            self._write_whole(log.place, addition.of_all(log.header(), events, digests_of(events)), replace=True)
            return
        data, now = record(addition)
        append(log.descriptor, data, state.end, log.place)
        stamp = stamp_of(os.fstat(log.descriptor))
        if stamp[0] == now.end:
            self._remember(log.place, stamp, now)

    def _write_whole(self, path: str, addition: Addition, *, replace: bool) -> None:
        data = chain((addition.header or b"", b"\n"), (piece for piece, _ in pieces(addition)))
        self._folder.write_whole(os.path.basename(path), data, replace=replace)

    def delete(self, session_id: str) -> tuple[str, ...]:
        with self._opened(session_id):
            pass
        headers = self._each(lambda log: log.header())
        gone = with_forks(session_id, {header.session_id: header.parent_session_id for header in headers})
        self._bindings.forget(gone)
        for name in gone:
            if name == session_id:
                self._folder.synchronise()  # a fork never outlives it, whatever happens
            self._remove(name)
        self._folder.synchronise()
        return gone

    def _remove(self, session_id: str) -> None:
        path = self._folder.log(session_id)
        with suppress(FileNotFoundError), self._folder.writing(path):
            for name in (self._folder.beside(path, CHECKPOINT), self._folder.beside(path, TORN), path):
                try:
                    with suppress(FileNotFoundError):
                        os.unlink(name)
                except OSError as error:
                    raise failed(error, "remove", name) from None

    def _summaries(self) -> Iterable[SessionSummary]:
        """Costs a header and a last delta each; of a log that an older lore wrote last, once all of it."""
        return (state.summary for state in self._each(self._known))

    # clients, checkpoints

    def bind(self, client_key: str, session_id: str, *, replace: bool = False) -> None:
        good_id(client_key, "client key")
        with self._opened(session_id):
            pass
        self._folder.prepare()
        other = self._bindings.change({client_key: session_id}, unless_other=not replace)
        if other is not None:
            raise bound_to(other)

    def resolve(self, client_key: str) -> str | None:
        self._ready()
        return self._bindings.session(client_key)

    def checkpoint(self, session_id: str) -> Checkpoint | None:
        with self._opened(session_id) as log:
            return read_checkpoint(read_small(self._folder.beside(log.place, CHECKPOINT), LONGEST_CHECKPOINT))

    def save_checkpoint(self, session_id: str, checkpoint: Checkpoint) -> None:
        with self._opened(session_id, write=True) as log:
            name = os.path.basename(self._folder.beside(log.place, CHECKPOINT))
            self._folder.write_whole(name, (checkpoint_bytes(checkpoint),), replace=True)

    # the store

    def verify(self, session_id: str | None = None) -> Verified:
        self._ready()
        paths = self._folder.logs() if session_id is None else [self._folder.log(session_id)]
        if session_id is not None and not os.path.lexists(paths[0]):
            raise self._unknown(session_id)
        logs = (verify_log(self._folder, path) for path in paths)
        damage, notes = list[DamagedPlace](), list[str]()
        if session_id is None:
            damage, notes = self._bindings.verify()
            if left := len(self._folder.leftovers()):
                notes.append(f"{left:,} files are being written, or were left by writers that died: `lore store "
                             "vacuum` removes these")  # fmt: skip
        return Verified.of(logs, damage, (*notes, *self._folder.readers()))

    def salvage(self, session_id: str) -> Salvaged:
        with self._opened(session_id) as log:
            part = log.read()
        lines = part.whole
        return Salvaged(tuple(lines), max(part.number, len(part.lines)) - len(lines))

    def vacuum(self) -> int:
        """Remove what writers that died had begun to write."""
        self._ready()
        return self._folder.vacuum()

    def close(self) -> None:
        self._is_closed = True

    # what they share

    def _ready(self) -> None:
        if self._is_closed:
            raise StoreError(f"the store {self.url} is closed", hint="open it again")
        self._folder.check()

    def _unknown(self, session_id: str) -> UnknownSessionError:
        error = UnknownSessionError(session_id)
        if not self._folder.is_there:
            error.hint = f"there is no folder {self._folder.path}: look at the store's name"
        return error

    @contextmanager
    def _opened(self, session_id: str, *, write: bool = False) -> Generator[LogFile]:
        """Open a session's log, and lock it; raises UnknownSessionError, StoreError."""
        self._ready()
        if write and self._folder.is_there:
            self._folder.prepare()
        path = self._folder.log(session_id)
        try:
            with (self._folder.writing if write else self._folder.reading)(path) as descriptor:
                yield LogFile(descriptor, path, self._states.get(path))
        except FileNotFoundError:
            raise self._unknown(session_id) from None

    def _known(self, log: LogFile) -> LogState:
        """Return the state of a log, and remember it."""
        state = log.state
        self._remember(log.place, log.stamp, state)
        return state

    def _remember(self, path: str, stamp: tuple[int, ...], state: LogState) -> None:
        if len(self._states) >= _REMEMBERED:
            self._states.clear()
        self._states[path] = stamp, state

    def _each(self, ask: Callable[[LogFile], _T]) -> Sequence[_T]:
        """Apply a function to each log; damaged ones are told and left out. Raises StoreError without a folder."""
        self._ready()
        answers: list[_T] = []
        for path in self._folder.logs():
            try:
                with self._folder.reading(path) as descriptor:
                    answers.append(ask(LogFile(descriptor, path, self._states.get(path))))
            except FileNotFoundError:  # deleted meanwhile
                continue
            except DamagedError as error:
                self._tell(f"{error.where or path}: {error.message}")
            except StoreError as error:
                self._tell(error.message)
        return answers


# which session a client means


class _Binding(msgspec.Struct):
    client_key: str
    session_id: str | None
    check: str


_BINDING = msgspec.json.Decoder(_Binding)


class _BoundClients(NamedTuple):
    """What the bindings' file says: the clients that are surely bound, damaged lines, where it ends, its size."""

    sessions: Mapping[str, str | None]
    damaged: tuple[int, ...]
    end: int
    size: int


class _Bindings:
    """The bindings of a folder: a line each, of which a client's last holds, and one without a session ends it.

    Each has a check. Any client may be named in a damaged line, so that only what later lines say is sure.
    """

    def __init__(self, folder: Folder, tell: Tell) -> None:
        self.path = folder.file(BINDINGS + LOG)
        self._folder = folder
        self._tell = tell

    def session(self, client_key: str) -> str | None:
        """Return a client's session; raises DamagedError where a damaged line may have said another."""
        return self._sure(self._known(), client_key)

    def _sure(self, known: _BoundClients, client_key: str) -> str | None:
        if known.damaged and client_key not in known.sessions:
            raise DamagedError(
                "a damaged line may say which session the client means",
                hint="bind the client anew, with replace", where=Where(self.path, None, known.damaged[-1]),
            )  # fmt: skip
        return known.sessions.get(client_key)

    def _known(self) -> _BoundClients:
        try:
            with self._folder.reading(self.path) as descriptor:
                return _read_bindings(descriptor)
        except FileNotFoundError:
            return _BoundClients({}, (), 0, 0)

    def change(self, wanted: Mapping[str, str | None], *, unless_other: bool = False) -> str | None:
        """Bind clients; with `unless_other` nothing is done where one has another session, which is returned."""
        is_new = not os.path.lexists(self.path)
        with self._folder.writing(self.path, create=True) as descriptor:
            known, lines = _read_bindings(descriptor), list[bytes]()
            for key, session_id in wanted.items():
                other = self._sure(known, key) if unless_other else None
                if other not in (None, session_id):
                    return other
                if known.sessions.get(key, "") != session_id:
                    text = b'{"client_key":%b,"session_id":%b' % (encode(key), encode(session_id))
                    lines.append(sealed(text) + b"\n")
            if known.end < known.size:
                self._tell(self._folder.put_aside(descriptor, self.path, known.end, known.size))
            append(descriptor, b"".join(lines), known.end, self.path)
        if is_new:
            self._folder.synchronise()
        return None

    def forget(self, sessions: Iterable[str]) -> None:
        """End the bindings to sessions that are deleted."""
        gone = set(sessions)
        if keys := [key for key, session_id in self._known().sessions.items() if session_id in gone]:
            self.change(dict.fromkeys(keys))

    def verify(self) -> tuple[list[DamagedPlace], list[str]]:
        """Say what is damaged, and which bindings lead nowhere."""
        try:
            known = self._known()
        except StoreError as error:
            return [unread(self.path, error)], []
        damage = [
            DamagedPlace(None, None, f"{self.path}, byte {at}", "a binding is damaged", "the bindings behind it")
            for at in known.damaged
        ]
        notes: list[str] = []
        if known.end < known.size:
            notes.append(f"{self.path}: the last {known.size - known.end:,} bytes are no whole binding")
        for key, session_id in sorted(known.sessions.items()):
            if session_id is not None and not os.path.lexists(self._folder.log(session_id)):
                notes.append(f"client {key!r} is bound to session {session_id!r}, which is not there")
        return damage, notes


def _read_bindings(descriptor: int) -> _BoundClients:
    data = read_range(descriptor, 0, os.fstat(descriptor).st_size)
    end = data.rfind(b"\n") + 1
    sessions, damaged, at = dict[str, str | None](), list[int](), 0
    for line in data[:end].split(b"\n")[:-1]:
        try:
            found = _BINDING.decode(line if is_sealed(line) else b"")
        except ValueError:
            sessions.clear()
            damaged.append(at)
        else:
            sessions[found.client_key] = found.session_id
        at += len(line) + 1
    return _BoundClients(sessions, tuple(damaged), end, len(data))
