"""`jsonl:DIR`: a folder with one log a session, which every reader of lore's logs reads (`WRITING.md` lists its files).

A save is one write and one fsync at the end of the log, so it costs O(the new events). A new log is written under
another name and then renamed. An incomplete save at the end, of a writer that died, is left out by readers and
removed by the next writer; both say so. A log that the disk cut exactly between two saves looks as if the later ones
had never been made.

Writers of one session wait for each other, in all threads and processes. Readers take no lock, unless the log is
incomplete or damaged: a writer may be in the middle of it, so they look again under the lock.

A folder without `lore-store.json` becomes a store with the first write if it is empty or holds lore's own logs.
Symbolic links and everything that is not a regular file are refused, so that another user of the folder cannot make
lore write elsewhere. Files are readable by their owner only (0600).

Any thread may call any method: an object holds nothing but the folder's path.
"""

from __future__ import annotations

import errno
import os
import stat
import time
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from typing import TypeVar

import msgspec
from filelock import FileLock, Timeout

from lore import files
from lore.errors import Where, reason_of
from lore.files import make_folder, replaced, synchronise_folder
from lore.formats.lore_log import LoreLog
from lore.model.canonical import encode
from lore.store.base import (
    DamagedError,
    DamagedPlace,
    FormatError,
    Head,
    SessionData,
    SessionSummary,
    StoreError,
    Tell,
    UnknownSessionError,
    Verified,
    refuse_other_version,
    verify_hint,
)
from lore.store.deltas import Decide, DeltaStore, PendingChange, binding_conflict, session_with_forks
from lore.store.jsonl_log import LOG, LogFile, encode_save, log_name, report_errors
from lore.store.lines import check_id
from lore.store.registry import notes_on_readers

KIND, VERSION = "lore-store", 4
STAMP, BINDINGS = "lore-store.json", "bindings.json"
PATIENCE = 10.0  # seconds to wait for another writer
_HINT_NOT_DURABLE = "the last save is not durable: repair the disk, and save again"
HINT_RETRY = "nothing was saved: make room or repair the disk, and save again"
_PART = ".part"  # ending of a file that is being written
_ABANDONED = 3_600.0  # seconds after which the writer of such a file has died
_HEAD = 64 * 1024  # bytes that show whether a file is a log
_SAFE = sum(getattr(os, name, 0) for name in ("O_NOFOLLOW", "O_NONBLOCK", "O_CLOEXEC", "O_BINARY"))
_T = TypeVar("_T")


class _Stamp(msgspec.Struct):
    kind: str
    version: int


class Jsonl(DeltaStore):
    """A store of logs in a folder, which the first session makes."""

    def __init__(self, folder: str, url: str, tell: Tell, *, patience: float = PATIENCE) -> None:
        """`patience` is how many seconds to wait for another writer."""
        self.url = url
        self._folder = folder
        self._tell = tell
        self._patience = patience
        self._is_closed = False

    @classmethod
    def open(cls, url: str, tell: Tell) -> Jsonl:
        """Open `jsonl:DIR`; raises FormatError if the folder is another program's, or of another version."""
        folder = os.path.expanduser(url.partition(":")[2])
        if not folder or "\0" in folder:
            raise StoreError(f"{url!r} names no folder", hint="name one: jsonl:DIR")
        store = cls(folder, url, tell)
        store._is_stamped()
        return store

    # sessions

    def load(self, session_id: str, *, after: int = 0) -> SessionData:
        """Return a session, or its events after a number; raises UnknownSessionError, DamagedError.

        An incomplete or damaged log is read again under the lock: a writer may have been in the middle of a save.
        """
        after = max(0, after)

        def read(log: LogFile) -> SessionData:
            return log.summary.with_events(tuple(log.lines(after, log.length)), after + 1)

        with self._open_log(session_id) as log, suppress(DamagedError):
            data = read(log)
            if not log.incomplete:
                return data
        with self._exclude_writers(log_name(session_id)), self._open_log(session_id) as log:
            data = read(log)
            if log.incomplete:
                lost = f"the last {log.incomplete:,} bytes are an incomplete save, and are left out"
                self._tell(f"{log.path}: {lost}; the next save to the session removes them")
        return data

    def intact_events(self, session_id: str) -> tuple[bytes, ...]:
        with self._open_log(session_id) as log:
            return log.intact_events()

    def list(self, project_id: str | None = None) -> Sequence[SessionSummary]:
        """List the sessions; a damaged one is reported and left out. Reads each log's header and last save."""
        summaries = sorted(self._read_each(lambda log: log.summary), key=lambda summary: summary.session_id)
        return [summary for summary in summaries if project_id is None or summary.project_id == project_id]

    def delete(self, session_id: str) -> tuple[str, ...]:
        with self._open_log(session_id):
            pass
        headers = self._read_each(lambda log: log.header)
        deleted = session_with_forks(session_id, {header.session_id: header.parent_session_id for header in headers})
        with self._hold_lock(BINDINGS):
            bindings = self._read_bindings()
            remaining = {key: name for key, name in bindings.items() if name not in deleted}
            if remaining != bindings:
                self._replace(BINDINGS, encode(remaining) + b"\n")
        for name in deleted:
            if name == session_id:
                self._synchronise()  # forks are durably removed before their parent
            path = self._file(log_name(name))
            with self._hold_lock(log_name(name)), report_errors("remove", path), suppress(FileNotFoundError):
                os.unlink(path)
        self._synchronise()
        return deleted

    def _change(self, session_id: str, decide: Decide) -> Head:
        self._is_stamped()
        name = log_name(session_id)
        if not os.path.lexists(self._file(name)):
            decide(None)  # raises UnknownSessionError unless it creates the session
        self._prepare()
        with self._hold_lock(name):
            try:
                with self._open_log(session_id, write=True) as log:
                    change = decide(log)
                    if isinstance(change, Head):  # its writer may have died before it was durable
                        with report_errors("write to", log.path, _HINT_NOT_DURABLE):
                            os.fsync(log.file.fileno())
                        self._synchronise()
                        return change
                    self._append(log, change)
            except UnknownSessionError:
                change = decide(None)
                if isinstance(change, Head):
                    return change
                self._replace(name, encode_save(change, is_new=True))
        return change.after.head

    def _append(self, log: LogFile, change: PendingChange) -> None:
        """Write a change after the end of a log."""
        part, descriptor = log.part(log.summary.head.number), log.file.fileno()
        data = encode_save(change, is_new=False)
        if log.length > part.end:
            with report_errors("repair", log.path):
                os.ftruncate(descriptor, part.end)
            lost = f"the last {log.length - part.end:,} bytes were an incomplete save, and were removed"
            self._tell(f"{log.path}: {lost}")
        if os.fstat(descriptor).st_size != part.end:
            message = f"somebody wrote to {log.path} without asking for its lock"
            raise StoreError(message, hint="nothing was saved: save again", where=Where(log.path))
        with report_errors("write to", log.path, HINT_RETRY):
            files.append(descriptor, data if part.has_end else b"\n" + data, part.end)

    # clients

    def bind(self, client_key: str, session_id: str, *, replace: bool = False) -> None:
        check_id(client_key, "client key")
        with self._open_log(session_id):
            pass
        self._prepare()
        with self._hold_lock(BINDINGS):
            bindings = self._read_bindings()
            bound_session = bindings.get(client_key)
            if bound_session not in (None, session_id) and not replace:
                raise binding_conflict(bound_session)
            if bound_session != session_id:
                self._replace(BINDINGS, encode({**bindings, client_key: session_id}) + b"\n")

    def resolve(self, client_key: str) -> str | None:
        self._is_stamped()
        return self._read_bindings().get(client_key)

    def _read_bindings(self) -> Mapping[str, str]:
        data = self._read_file(BINDINGS)
        try:
            return {} if data is None else msgspec.json.decode(data, type=dict[str, str])
        except (ValueError, RecursionError):
            message = "the file that says which session each client means is damaged"
            hint = "delete the file, and bind the clients again"
            raise DamagedError(message, hint=hint, where=Where(self._file(BINDINGS))) from None

    # the whole store

    def verify(self, session_id: str | None = None) -> Verified:
        self._is_stamped()
        names, damage, notes = self._names(), list[DamagedPlace](), ()
        if os.stat(self._folder).st_mode & 0o077:
            notes = notes_on_readers([self._folder, *map(self._file, names)])
        if session_id is not None:
            with self._open_log(session_id):
                return Verified.of((self._verify(log_name(session_id)),), (), notes).with_commands(self.url)
        try:
            for key, name in sorted(self._read_bindings().items()):
                if not os.path.lexists(self._file(log_name(name))):
                    notes = (*notes, f"client {key!r} is bound to session {name!r}, which does not exist")
        except StoreError as error:
            damage.append(DamagedPlace(None, None, self._file(BINDINGS), error.message, f"nothing: {error.hint}"))
        return Verified.of(map(self._verify, self._logs()), damage, notes).with_commands(self.url)

    def _verify(self, name: str) -> Verified | None:
        """Verify a session, again under its lock if it seems damaged: a writer may have been at work."""
        path = self._file(name)
        for guard in (nullcontext(), self._exclude_writers(name)):
            try:
                with guard, _open_file(path) as log:
                    verified = log.verify()
            except FileNotFoundError:  # deleted meanwhile
                return None
            except StoreError as error:  # a symbolic link, or a disk that does not answer
                verified = Verified(1, 0, (DamagedPlace(None, None, path, error.message, "not known"),))
            if not verified.damage:
                break
        return verified

    def vacuum(self) -> int:
        """Remove files that writers had begun when they died, an hour ago or earlier."""
        self._is_stamped()
        size = 0
        for path in [self._file(name) for name in self._names() if name.startswith(".") and name.endswith(_PART)]:
            with report_errors("remove", path), suppress(FileNotFoundError):
                status = os.lstat(path)
                if status.st_mtime < time.time() - _ABANDONED:
                    os.unlink(path)
                    size += status.st_size
        return size

    def close(self) -> None:
        self._is_closed = True

    # one session's log

    @contextmanager
    def _open_log(self, session_id: str, *, write: bool = False) -> Generator[LogFile]:
        """Open a session's log, without its lock; raises UnknownSessionError, StoreError."""
        self._is_stamped()
        try:
            with self._name_command(), _open_file(self._file(log_name(session_id)), write=write) as log:
                yield log
        except FileNotFoundError:
            raise self._unknown(session_id) from None

    def _unknown(self, session_id: str) -> UnknownSessionError:
        error = UnknownSessionError(session_id)
        if not os.path.isdir(self._folder):
            error.hint = f"there is no folder {self._folder}: look at the store's name"
        return error

    def _read_each(self, read: Callable[[LogFile], _T]) -> Iterable[_T]:
        """Apply a function to each log; a damaged one is reported and left out. Raises StoreError without a folder."""
        self._is_stamped()
        for name in self._logs():
            path = self._file(name)
            try:
                with _open_file(path) as log:
                    result = read(log)
            except FileNotFoundError:  # deleted meanwhile
                continue
            except StoreError as error:
                is_damage = isinstance(error, DamagedError)
                text = (
                    f"{error.where or path}: {error.message}; {verify_hint(self.url)}" if is_damage else error.message
                )
                self._tell(text)
            else:
                yield result

    # the folder

    def _file(self, name: str) -> str:
        return os.path.join(self._folder, name)

    def _names(self) -> Sequence[str]:
        """Return the names in the folder, sorted; raises StoreError."""
        with report_errors("read", self._folder):
            try:
                return sorted(os.listdir(self._folder))
            except FileNotFoundError:
                hint = "look at the store's name; the first session makes the folder"
                raise StoreError(f"there is no folder {self._folder}", hint=hint) from None

    def _logs(self) -> Sequence[str]:
        return [name for name in self._names() if name.endswith(LOG) and not name.startswith(".")]

    def _is_stamped(self) -> bool:
        """Return whether the folder says that it is lore's.

        Raises FormatError if it is another program's or of another version, StoreError if it is a file or the store was
        closed.
        """
        if self._is_closed:
            raise StoreError(f"the store {self.url} is closed", hint="open it again")
        if os.path.lexists(self._folder) and not os.path.isdir(self._folder):
            raise StoreError(f"{self._folder} is not a folder", hint="jsonl:DIR names a folder")
        data, where = self._read_file(STAMP), Where(self._file(STAMP))
        if data is None:
            return False
        try:
            stamp = msgspec.json.decode(data, type=_Stamp)
        except (ValueError, RecursionError):
            stamp = None
        if stamp is None or stamp.kind != KIND:
            message = f"{self._folder} is not a store of lore: {STAMP} says something else"
            raise FormatError(message, hint="name another folder; nothing was changed", where=where)
        refuse_other_version(f"{self._folder} has layout", stamp.version, VERSION, where)
        return True

    def _prepare(self) -> None:
        """Make the folder and stamp it, unless that is done; raises FormatError, StoreError."""
        if self._is_stamped():
            return
        with report_errors("make the folder", self._folder):
            make_folder(self._folder)
        names = [name for name in self._names() if not name.startswith(".")]
        heads = (self._read_file(name, _HEAD) or b"" for name in names if name.endswith(LOG))
        if names and STAMP not in names and not any(map(LoreLog.recognises, heads)):
            message = f"{self._folder} holds other files, and none of lore's logs"
            raise FormatError(message, hint="name a new folder, or an empty one; this one was not touched")
        self._replace(STAMP, encode({"kind": KIND, "version": VERSION}) + b"\n")  # others write the same

    @contextmanager
    def _hold_lock(self, name: str) -> Generator[None]:
        """Keep all other threads and processes from writing one file; raises StoreError after a while.

        The lock is on a file of its own, which stays: removing it while another process opens it would give both the
        lock. It ends with its process.
        """
        path = self._file(name)
        lock = FileLock(self._file(f".{name}.lock"), timeout=self._patience, mode=0o600, poll_interval=files.PAUSE)
        try:
            with report_errors("lock", path):
                lock.acquire()
        except Timeout:
            hint = "nothing was saved: try again when it is done"
            raise StoreError(f"another writer holds {path}", hint=hint, where=Where(path)) from None
        try:
            yield
        finally:
            lock.release()

    @contextmanager
    def _exclude_writers(self, name: str) -> Generator[None]:
        """Keep writers out of a log, unless the folder is read-only or a writer takes too long."""
        with ExitStack() as stack:
            with suppress(StoreError):
                stack.enter_context(self._hold_lock(name))
            yield

    def _read_file(self, name: str, limit: int = -1) -> bytes | None:
        """Return the bytes of a file, at most `limit`; None if it is missing; raises StoreError."""
        path = self._file(name)
        try:
            with _open_file(path) as log, report_errors("read", path):
                return log.file.read(limit)
        except FileNotFoundError:
            return None

    def _replace(self, name: str, data: bytes) -> None:
        """Write a file whole and durably; raises StoreError, and then the folder is as it was."""
        path = self._file(name)
        with report_errors("write to", path, HINT_RETRY), replaced(path, private=True) as file:
            file.write(data)
        self._synchronise()

    def _synchronise(self) -> None:
        """Make the names in the folder durable; raises StoreError."""
        with report_errors("write to", self._folder, _HINT_NOT_DURABLE):
            synchronise_folder(self._folder)


@contextmanager
def _open_file(path: str, *, write: bool = False) -> Generator[LogFile]:
    """Open a regular file; raises FileNotFoundError, StoreError."""
    try:
        descriptor = os.open(path, (os.O_RDWR | os.O_APPEND if write else os.O_RDONLY) | _SAFE)
    except OSError as error:
        if isinstance(error, FileNotFoundError):
            raise
        message, hint = f"cannot open {path}: {reason_of(error)}", ""
        if error.errno == errno.ELOOP:
            message, hint = f"{path} is a symbolic link, which a store does not follow", "put the file itself there"
        raise StoreError(message, hint=hint, where=Where(path)) from None
    with open(descriptor, "rb") as file:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise StoreError(f"{path} is not a regular file", hint="take it out of the folder", where=Where(path))
        yield LogFile(file, path, status.st_size)
