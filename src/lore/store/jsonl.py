"""`jsonl:DIR`: sessions as logs in a folder, one file each, that every reader of lore's logs takes as they are.

A log holds the session's lines to the byte as they were given, and before each delta a line of the store's own, a
`saved` record (`jsonl_records`). A delta is one write and one fsync behind what is there, so it costs what is new; it
is stored whole or not at all, since a record whose events are not all there is torn, and left out. `create` and a
`save` in full write a new file and give it the name when it is whole.

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
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager, suppress
from typing import TypeVar

from msgspec.structs import replace

from lore.formats.lines import fault
from lore.store.base import (
    Checkpoint,
    ConflictError,
    DamagedError,
    DeltaRow,
    Head,
    Salvaged,
    SessionData,
    SessionDelta,
    StoreError,
    Summary,
    Tell,
    UnknownSessionError,
    Verified,
)  # fmt: skip
from lore.store.deltas import checked, digests_of, same_header, settle, with_forks
from lore.store.jsonl_clients import Clients
from lore.store.jsonl_folder import (
    CHECKPOINT,
    PATIENCE,
    TORN,
    Folder,
    append,
    failed,
    put_aside,
    read_small,
    reading,
    remove_left,
    stamp_of,
    synchronise,
    synchronise_folder,
    write_whole,
    writing,
)  # fmt: skip
from lore.store.jsonl_log import MOST, Log, LogState, extended, verify_log, whole_bytes
from lore.store.jsonl_records import LONGEST_CHECKPOINT, checkpoint_bytes, on_one_line, read_checkpoint
from lore.store.lines import NOTHING, good_id, note, put_together, read_header, rows_of

_REMEMBERED = 1000  # logs whose state is kept
_T = TypeVar("_T")


class Jsonl:
    """A store of logs in a folder."""

    def __init__(self, folder: str, url: str, tell: Tell, *, patience: float = PATIENCE) -> None:
        """Take a folder, which the first session makes; `patience` is how many seconds to wait for another writer."""
        self.url = url
        self._folder = Folder(folder)
        self._tell = tell
        self._patience = patience
        self._clients = Clients(self._folder, patience, tell)
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

    def create(self, header: bytes) -> Head:
        found = read_header(header)
        self._ready()
        self._folder.prepare()
        data = SessionData(session_id=found.session_id, head=NOTHING, events=(found.line,), project_id=found.project_id,
                           created_at=found.at)  # fmt: skip
        while True:
            try:
                with self._opened(found.session_id) as log:
                    head = same_header(log.header().line, found, log.head)
                    synchronise(log.descriptor, log.path)
                    synchronise_folder(self._folder.path)  # who created it may have died before the name was durable
                    return head
            except UnknownSessionError:
                with suppress(FileExistsError):  # else it was created meanwhile
                    return self._save(data, None)

    def load(self, session_id: str, *, after: int = 0) -> SessionData:
        after = max(0, after)
        with self._opened(session_id) as log:
            part = log.part(after)
            state = self._known(log)
        if state.torn:
            self._tell(
                f"{log.path}: the last {state.torn:,} bytes are a delta that was never acknowledged; they "
                "are left out, and put aside when the session is saved next"
            )
        events = tuple(part.lines[max(0, after + 1 - part.first) :])
        return state.data(events, after + 1, state.metadata)

    def save(self, data: SessionData) -> Head:
        self._ready()
        self._folder.prepare()
        while True:
            try:
                with self._opened(data.session_id, write=True) as log:
                    return self._save(data, log)
            except UnknownSessionError:
                with suppress(FileExistsError):  # else it was created meanwhile
                    return self._save(data, None)

    def _save(self, data: SessionData, log: Log | None) -> Head:
        stored = None if log is None else self._known(log)
        digests = digests_of(data.events)
        header = checked(data, None if stored is None else stored.head, digests)
        notes = replace(data, metadata=on_one_line(data.metadata))
        name = os.path.basename(self._folder.log(header.session_id))
        if log is not None:
            self._mend(log)
        write_whole(self._folder.path, name, whole_bytes(data.events, digests, notes), replace=log is not None)
        return Head(len(digests), digests[-1].hex(), note(data.leaf_id, data.metadata))

    def save_delta(self, session_id: str, delta: SessionDelta) -> Head:
        """Add a delta; one of more than 50,000 events is written with all of the session, as by `save`."""
        with self._opened(session_id, write=True) as log:
            state = self._known(log)
            settled = settle(delta, log)
            if settled.is_empty:  # who wrote it may have died before it was durable
                synchronise(log.descriptor, log.path)
                return settled.head
            notes = replace(
                state, leaf_id=settled.leaf_id, metadata=on_one_line(settled.metadata),
                created_at=delta.created_at or state.created_at, updated_at=delta.updated_at or state.updated_at,
            )  # fmt: skip
            self._mend(log)
            if len(settled.lines) > MOST:
                events = (*log.part(0).lines, *settled.lines)
                whole = whole_bytes(events, digests_of(events), notes)
                write_whole(self._folder.path, os.path.basename(log.path), whole, replace=True)
            else:
                self._append(log, state, settled.lines, settled.digests, notes)
            return settled.head

    def _append(
        self, log: Log, state: LogState, lines: Sequence[bytes], digests: Sequence[bytes], notes: LogState
    ) -> None:
        data, now = extended(state, notes, lines, digests)
        append(log.descriptor, data, state.end, log.path)
        stamp = stamp_of(os.fstat(log.descriptor))
        if stamp[0] == now.end:
            self._remember(log.path, stamp, now)

    def delete(self, session_id: str) -> tuple[str, ...]:
        with self._opened(session_id):
            pass
        headers = self._each(lambda log: log.header())
        gone = with_forks(session_id, {header.session_id: header.parent_session_id for header in headers})
        self._clients.forget(gone)
        for name in gone:
            if name == session_id:
                synchronise_folder(self._folder.path)  # a fork never outlives it, whatever happens
            self._remove(name)
        synchronise_folder(self._folder.path)
        return gone

    def _remove(self, session_id: str) -> None:
        path = self._folder.log(session_id)
        with suppress(FileNotFoundError), writing(path, self._patience):
            for name in (self._folder.beside(path, CHECKPOINT), self._folder.beside(path, TORN), path):
                try:
                    with suppress(FileNotFoundError):
                        os.unlink(name)
                except OSError as error:
                    raise failed(error, "remove", name) from None

    def list(self, project_id: str | None = None) -> Sequence[Summary]:
        """List the sessions; one that is damaged is told, and left out.

        Costs a header and a last delta each; of a log that an older lore wrote last, once all of it.
        """
        found = [state.summary for state in self._each(self._known)]
        found.sort(key=lambda summary: summary.session_id)
        return [summary for summary in found if project_id is None or summary.project_id == project_id]

    def move(self, session_id: str, project_id: str) -> None:
        good_id(project_id, "project id")
        with self._opened(session_id, write=True) as log:
            state = self._known(log)
            self._mend(log)
            self._append(log, state, (), (), replace(state, project_id=project_id))

    def prompt_deltas(self, session_id: str) -> Sequence[DeltaRow]:
        data = self.load(session_id)
        return put_together(session_id, data.project_id, rows_of(data.events))

    # clients, checkpoints

    def bind(self, client_key: str, session_id: str, *, replace: bool = False) -> None:
        good_id(client_key, "client key")
        with self._opened(session_id):
            pass
        self._folder.prepare()
        other = self._clients.change({client_key: session_id}, unless_other=not replace)
        if other is not None:
            raise ConflictError(f"the client is bound to session {other!r}", hint="replace it if that is meant")

    def resolve(self, client_key: str) -> str | None:
        self._ready()
        return self._clients.session(client_key)

    def checkpoint(self, session_id: str) -> Checkpoint | None:
        with self._opened(session_id) as log:
            return read_checkpoint(read_small(self._folder.beside(log.path, CHECKPOINT), LONGEST_CHECKPOINT))

    def save_checkpoint(self, session_id: str, checkpoint: Checkpoint) -> None:
        with self._opened(session_id, write=True) as log:
            name = os.path.basename(self._folder.beside(log.path, CHECKPOINT))
            write_whole(self._folder.path, name, (checkpoint_bytes(checkpoint),), replace=True)

    # the store

    def verify(self, session_id: str | None = None) -> Verified:
        self._ready()
        paths = self._folder.logs() if session_id is None else [self._folder.log(session_id)]
        if session_id is not None and not os.path.lexists(paths[0]):
            raise self._unknown(session_id)
        found = (verify_log(path, self._folder.beside(path, TORN), self._patience) for path in paths)
        logs = list(filter(None, found))
        damage = [each for log in logs for each in log.damage]
        notes = [each for log in logs for each in log.notes]
        if session_id is None:
            more, remarks = self._clients.verify()
            damage += more
            notes += remarks
            if left := len(self._folder.leftovers()):
                notes.append(f"{left:,} files are being written, or were left by writers that died: `lore store "
                             "vacuum` removes these")  # fmt: skip
        notes += self._folder.readers()
        return Verified(len(logs), sum(log.events for log in logs), tuple(damage), tuple(notes))

    def salvage(self, session_id: str) -> Salvaged:
        """Return the events that no damage was found in; behind a damaged record, those that are whole JSON."""
        with self._opened(session_id) as log:
            part = log.read()
        damaged = {found.number for found in part.faults}
        lines = [line for at, line in enumerate(part.lines, 1) if at not in damaged and line and not fault(line)]
        return Salvaged(tuple(lines), max(part.number, len(part.lines)) - len(lines))

    def vacuum(self) -> int:
        """Remove what writers that died had begun to write."""
        self._ready()
        return sum(map(remove_left, self._folder.leftovers()))

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
    def _opened(self, session_id: str, *, write: bool = False) -> Generator[Log]:
        """Open a session's log, and lock it; raises UnknownSessionError, StoreError."""
        self._ready()
        if write and self._folder.is_there:
            self._folder.prepare()
        path = self._folder.log(session_id)
        try:
            with (writing if write else reading)(path, self._patience) as descriptor:
                yield Log(descriptor, path, self._states.get(path))
        except FileNotFoundError:
            raise self._unknown(session_id) from None

    def _known(self, log: Log) -> LogState:
        """Return the state of a log, and remember it."""
        state = log.state
        self._remember(log.path, log.stamp, state)
        return state

    def _remember(self, path: str, stamp: tuple[int, ...], state: LogState) -> None:
        if len(self._states) >= _REMEMBERED:
            self._states.clear()
        self._states[path] = stamp, state

    def _mend(self, log: Log) -> None:
        """Put a torn tail aside before something is written."""
        state = log.state
        if state.torn:
            aside = self._folder.beside(log.path, TORN)
            self._tell(put_aside(log.descriptor, state.end, state.end + state.torn, log.path, aside, self._patience))

    def _each(self, ask: Callable[[Log], _T]) -> Sequence[_T]:
        """Apply a function to each log; damaged ones are told and left out. Raises StoreError without a folder."""
        self._ready()
        answers: list[_T] = []
        for path in self._folder.logs():
            try:
                with reading(path, self._patience) as descriptor:
                    answers.append(ask(Log(descriptor, path, self._states.get(path))))
            except FileNotFoundError:  # deleted meanwhile
                continue
            except DamagedError as error:
                self._tell(f"{error.where or path}: {error.message}")
            except StoreError as error:
                self._tell(error.message)
        return answers
