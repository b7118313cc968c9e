"""`jsonl:DIR`: a folder with one log file a session, which every reader of lore's logs reads.

    lore-store.json     says that the folder is lore's
    NAME.jsonl          a session: its events, and a `saved` record before each save (`jsonl_log`)
    bindings.json       which session each client means, as one JSON object
    .NAME.….lock        the lock of a file; .NAME.….new is a file that is being written

A save is one write and one fsync at the end of the log, so it costs what is new. A new log is written under another
name and then renamed. An incomplete save at the end, of a writer that died, is left out by readers and removed by the
next writer; both say so.

Writers of one session wait for each other, in all threads and processes. Readers take no lock, unless what they find is
incomplete or damaged: a writer may be in the middle of it, so they look again under the lock.

A log that the disk cut exactly between two saves looks as if the later saves had never been made.

Any thread may call any method: an object holds nothing but the folder's path.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from typing import TypeVar

import msgspec

from lore.errors import Where
from lore.model.canonical import encode
from lore.store.base import (
    DamagedError,
    DamagedPlace,
    DeltaRow,
    SessionData,
    SessionSummary,
    StoreError,
    Tell,
    UnknownSessionError,
    Verified,
    like,
)
from lore.store.deltas import AddingStore, Addition, Decide, bound_to, digests_of, with_forks
from lore.store.jsonl_folder import BINDINGS, LOG, PATIENCE, Folder, append, cut, name_of, synchronise
from lore.store.jsonl_log import MOST, LogFile, log_pieces, save_bytes, unread, verify_log
from lore.store.lines import good_id, put_together, rows_of

_ALL = 1 << 40  # bytes: more than any file that lore writes
_T = TypeVar("_T")


class Jsonl(AddingStore):
    """A store of logs in a folder."""

    def __init__(self, folder: str, url: str, tell: Tell, *, patience: float = PATIENCE) -> None:
        """Keep a folder, which the first session makes; `patience` is how many seconds to wait for another writer."""
        self.url = url
        self._folder = Folder(folder, patience)
        self._tell = tell
        self._is_closed = False

    @classmethod
    def open(cls, url: str, tell: Tell) -> Jsonl:
        """Open `jsonl:DIR`; raises FormatError if the folder is another program's, or of another version."""
        folder = os.path.expanduser(url.partition(":")[2])
        if not folder or "\0" in folder:
            raise StoreError(f"{url!r} names no folder", hint="name one: jsonl:DIR")
        store = cls(folder, url, tell)
        store._check()
        return store

    # sessions

    def load(self, session_id: str, *, after: int = 0) -> SessionData:
        after = max(0, after)

        def ask(log: LogFile) -> SessionData:
            part = log.part(after)
            return log.state.data(tuple(part.lines[max(0, after + 1 - part.first) :]), after + 1)

        return self._read(session_id, ask)

    def list(self, project_id: str | None = None) -> Sequence[SessionSummary]:
        """List the sessions; a damaged one is reported and left out. Reads each log's header and last save."""
        summaries = self._each(lambda log: like(SessionSummary, log.state))
        found = sorted(summaries, key=lambda summary: summary.session_id)
        return [summary for summary in found if project_id is None or summary.project_id == project_id]

    def prompt_deltas(self, session_id: str) -> Sequence[DeltaRow]:
        data = self.load(session_id)
        return put_together(session_id, data.project_id, rows_of(data.events))

    def delete(self, session_id: str) -> tuple[str, ...]:
        with self._opened(session_id):
            pass
        headers = self._each(lambda log: log.header())
        deleted = with_forks(session_id, {header.session_id: header.parent_session_id for header in headers})
        with self._bindings() as bindings:
            left = {key: name for key, name in bindings.items() if name not in deleted}
            if left != bindings:
                self._save_bindings(left)
        for name in deleted:
            if name == session_id:
                self._folder.synchronise()  # forks are gone for good before their parent
            with self._folder.locked(name_of(name) + LOG):
                self._folder.unlink(name_of(name) + LOG)
        self._folder.synchronise()
        return deleted

    # clients

    def bind(self, client_key: str, session_id: str, *, replace: bool = False) -> None:
        good_id(client_key, "client key")
        with self._opened(session_id):
            pass
        self._folder.prepare()
        with self._bindings() as bindings:
            known = bindings.get(client_key, session_id)
            if known != session_id and not replace:
                raise bound_to(known)
            if bindings.get(client_key) != session_id:
                self._save_bindings({**bindings, client_key: session_id})

    def resolve(self, client_key: str) -> str | None:
        self._check()
        return self._read_bindings().get(client_key)

    @contextmanager
    def _bindings(self) -> Generator[Mapping[str, str]]:
        """Hold the lock of the bindings; raises DamagedError."""
        with self._folder.locked(BINDINGS):
            yield self._read_bindings()

    def _read_bindings(self) -> Mapping[str, str]:
        data = self._folder.read(BINDINGS, _ALL)
        try:
            return {} if data is None else msgspec.json.decode(data, type=dict[str, str])
        except (ValueError, RecursionError):
            path, hint = self._folder.file(BINDINGS), "delete the file, and bind the clients again"
            message = "the file that says which session each client means is damaged"
            raise DamagedError(message, hint=hint, where=Where(path)) from None

    def _save_bindings(self, bindings: Mapping[str, str]) -> None:
        self._folder.write_whole(BINDINGS, (encode(bindings) + b"\n",))

    # the store

    def verify(self, session_id: str | None = None) -> Verified:
        self._check()
        if session_id is not None:
            with self._opened(session_id):
                logs = [self._verify(name_of(session_id) + LOG)]
            return Verified.of(logs, (), self._folder.readers())
        logs = [self._verify(name) for name in self._folder.logs()]
        damage, notes = list[DamagedPlace](), list[str]()
        try:
            for key, name in sorted(self._read_bindings().items()):
                if not os.path.lexists(self._folder.file(name_of(name) + LOG)):
                    notes.append(f"client {key!r} is bound to session {name!r}, which does not exist")
        except StoreError as error:
            damage.append(unread(self._folder.file(BINDINGS), error))
        if left := len(self._folder.leftovers()):
            notes.append(f"{left:,} files are being written, or were left by writers that died: `lore store vacuum` "
                         "removes these")  # fmt: skip
        return Verified.of(logs, damage, (*notes, *self._folder.readers()))

    def _verify(self, name: str) -> Verified | None:
        found = verify_log(self._folder, name)
        if found is None or not found.damage:
            return found
        with self._without_writers(name):  # a writer may have been in the middle of a save
            return verify_log(self._folder, name)

    def vacuum(self) -> int:
        """Remove what writers that died had begun to write."""
        self._check()
        return self._folder.vacuum()

    def close(self) -> None:
        self._is_closed = True

    # shared

    def _check(self) -> None:
        if self._is_closed:
            raise StoreError(f"the store {self.url} is closed", hint="open it again")
        self._folder.check()

    def _unknown(self, session_id: str) -> UnknownSessionError:
        error = UnknownSessionError(session_id)
        if not self._folder.exists:
            error.hint = f"there is no folder {self._folder.path}: look at the store's name"
        return error

    @contextmanager
    def _opened(self, session_id: str, *, write: bool = False) -> Generator[LogFile]:
        """Open a session's log, without its lock; raises UnknownSessionError, StoreError."""
        self._check()
        name = name_of(session_id) + LOG
        try:
            with self._folder.opened(name, write=write) as descriptor:
                yield LogFile(descriptor, self._folder.file(name))
        except FileNotFoundError:
            raise self._unknown(session_id) from None

    @contextmanager
    def _writing(self, session_id: str) -> Generator[LogFile]:
        """Lock a session, and open its log; raises UnknownSessionError, StoreError."""
        with self._opened(session_id):  # nothing is made for a session that does not exist
            pass
        self._folder.prepare()
        with self._folder.locked(name_of(session_id) + LOG), self._opened(session_id, write=True) as log:
            yield log

    def _read(self, session_id: str, ask: Callable[[LogFile], _T]) -> _T:
        """Return what a function reads from a session's log; raises UnknownSessionError, DamagedError.

        What is incomplete or damaged is read again under the lock: a writer may have been in the middle of a save.
        """
        with self._opened(session_id) as log, suppress(DamagedError):
            result = ask(log)
            if not log.incomplete:
                return result
        with self._without_writers(name_of(session_id) + LOG), self._opened(session_id) as log:
            result, incomplete = ask(log), log.incomplete
        if incomplete:
            self._tell(f"{log.path}: the last {incomplete:,} bytes are an incomplete save, and are left out")
        return result

    @contextmanager
    def _without_writers(self, name: str) -> Generator[None]:
        """Keep writers out of a log, unless the folder is read-only or a writer takes too long."""
        with ExitStack() as stack:
            with suppress(StoreError):
                stack.enter_context(self._folder.locked(name))
            yield

    def _write(self, session_id: str, decide: Decide[_T]) -> _T:
        try:
            with self._writing(session_id) as log:
                return self._add(log, *decide(log))
        except UnknownSessionError:
            decide(None)  # raises it again, unless the session is to be created
        self._folder.prepare()
        with self._folder.locked(name_of(session_id) + LOG):
            try:
                with self._opened(session_id, write=True) as log:  # another process created it meanwhile
                    return self._add(log, *decide(log))
            except UnknownSessionError:
                result, addition = decide(None)
                assert addition is not None
                self._folder.write_whole(name_of(session_id) + LOG, log_pieces(addition))
                return result

    def _add(self, log: LogFile, result: _T, addition: Addition | None) -> _T:
        """Write after the end of a log; a save of very many events replaces the whole log."""
        part = log.part(log.head.number)
        if addition is None:  # its writer may have died before it was durable
            synchronise(log.descriptor, log.path)
            self._folder.synchronise()
        elif len(addition.lines) > MOST:
            events = (*log.part(0).lines, *addition.lines)
            whole = addition.of_all(log.header(), events, digests_of(events))
            self._folder.write_whole(os.path.basename(log.path), log_pieces(whole))
        else:
            start = b"" if part.has_end else b"\n"
            data = start + save_bytes(addition, part.end + len(start))
            if log.size > part.end:
                cut(log.descriptor, part.end, log.path)
                lost = f"the last {log.size - part.end:,} bytes were an incomplete save, and were removed"
                self._tell(f"{log.path}: {lost}")
            append(log.descriptor, data, part.end, log.path)
        return result

    def _each(self, ask: Callable[[LogFile], _T]) -> Iterable[_T]:
        """Apply a function to each log; a damaged one is reported and left out. Raises StoreError without a folder."""
        self._check()
        answers: list[_T] = []
        for name in self._folder.logs():
            path = self._folder.file(name)
            try:
                with self._folder.opened(name) as descriptor:
                    answers.append(ask(LogFile(descriptor, path)))
            except FileNotFoundError:  # deleted meanwhile
                continue
            except DamagedError as error:
                self._tell(f"{error.where or path}: {error.message}")
            except StoreError as error:
                self._tell(error.message)
        return answers
