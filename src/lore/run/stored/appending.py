"""Append events to a lore log or a stored session.

Only a file that lore's own reader recognises is appended to, by whole lines or not at all. An exclusive lock is held
from before the log is read until after it was written, so that two writers neither mix nor write the same event twice.
Events are one write, synchronised before success is reported; a write that fails is taken back. A log that changed
while it was read is left as it is. A stored session is refused if another writer came between: its head is taken
before it is read.
"""

from __future__ import annotations

import os
from collections.abc import Generator, Iterable
from contextlib import closing, contextmanager
from typing import TypeAlias

from lore.errors import LoreError, Where, reason_of
from lore.files import append, lock
from lore.formats.lines import fault
from lore.formats.lore_log import LoreLog
from lore.model.events import Event, encode
from lore.model.limits import RECORD_BYTES
from lore.recording import corpus, filesystem
from lore.store.base import ConflictError, Head, SessionDelta, Store, UnknownSessionError, now
from lore.store.deltas import save_delta
from lore.store.registry import address_of, load_notes, mask_url, open_existing, print_note_once
from lore.store.reserved import refuse_reserved

PATIENCE = 10.0  # seconds to wait for another writer
HINT_AGAIN = "nothing was written: run the command again"
HINT_CONVERT = "only lore's own logs are written to: make one with `lore convert SESSION --to lore --output FILE`"


class LogAppender:
    """A lore log that is locked, read, and then appended to."""

    def __init__(self, descriptor: int, path: str) -> None:
        self._descriptor = descriptor
        self._path = path
        self._shown = corpus.show(path)
        self._size = os.fstat(descriptor).st_size

    def append(self, events: Iterable[Event]) -> bool:
        """Append events, if there are any; return whether the log's last line was torn before.

        A last line without a line feed gets one first; a torn one remains an unreadable line. Raises LoreError if
        nothing could be written; the log is unchanged then.
        """
        lines = [encode(event) for event in events]
        if not lines:
            return False
        if max(map(len, lines)) > RECORD_BYTES:
            raise LoreError(
                f"a record longer than {RECORD_BYTES >> 20} MiB: no reader accepts it", hint="write less content"
            )
        self._check_unchanged()
        last = self._last_line()
        self._write((b"\n" if last else b"") + b"".join(line + b"\n" for line in lines))
        self._size = os.fstat(self._descriptor).st_size
        return bool(last) and bool(fault(last))

    def _check_unchanged(self) -> None:
        held = os.fstat(self._descriptor)
        try:
            named = os.stat(self._path)
        except OSError as error:
            raise corpus.unreadable(self._path, error) from None
        if (held.st_dev, held.st_ino) != (named.st_dev, named.st_ino):
            raise LoreError(f"{self._shown} was replaced while it was read", hint=HINT_AGAIN)
        if held.st_size != self._size:
            raise LoreError(f"{self._shown} was written to while it was read", hint=HINT_AGAIN)

    def _last_line(self) -> bytes:
        """Return the bytes after the last line feed; empty if the last line is complete."""
        end, piece, found = self._size, 4096, b""
        while end > 0:
            start = max(0, end - piece)
            os.lseek(self._descriptor, start, os.SEEK_SET)  # writing appends, whatever the position
            found = os.read(self._descriptor, end - start) + found
            at = found.rfind(b"\n")
            if at >= 0:
                return found[at + 1 :]
            if len(found) > RECORD_BYTES:
                break
            end, piece = start, piece * 4
        return found

    def _write(self, data: bytes) -> None:
        try:
            append(self._descriptor, data, self._size)
        except OSError as error:
            if os.fstat(self._descriptor).st_size != self._size:
                raise LoreError(
                    f"{self._shown} holds part of a record: a write failed during another one",
                    hint="look at its last lines",
                ) from None
            message = f"cannot write to {self._shown}: {reason_of(error)}"
            raise LoreError(message, hint="the log is as it was", where=Where(self._shown)) from None


@contextmanager
def appending(path: str, *, patience: float = PATIENCE) -> Generator[Appender]:
    """Lock a lore log, or open a stored session, to be read and then appended to.

    Waits `patience` seconds for another writer. Raises LoreError if the file is not a lore log, cannot be written, or
    another writer holds it for longer.
    """
    stored = address_of(path)
    if stored is not None:
        refuse_reserved(stored.session_id)
        with closing(open_existing(stored.url, print_note_once)) as store:
            data = load_notes(store, stored.session_id)
            if data is None:
                raise UnknownSessionError(stored.session_id, mask_url(stored.url))
            yield StoredAppender(store, stored.session_id, data.head)
        return
    if path == corpus.STDIN:
        raise LoreError("standard input cannot be written to", hint="name a lore log")
    filesystem.refuse_output(path)
    descriptor = _opened(path)
    try:
        if not lock(descriptor, patience):
            raise LoreError(f"another writer holds {corpus.show(path)}", hint=HINT_AGAIN)
        if not LoreLog.recognises(corpus.open_head(path).head):
            raise LoreError(f"{corpus.show(path)} is not a lore log", hint=HINT_CONVERT)
        yield LogAppender(descriptor, path)
    finally:
        os.close(descriptor)


def _opened(path: str) -> int:
    """Open a lore log for writing; its beginning is read first, so that no other file is opened for writing."""
    if os.path.lexists(path) and not os.path.isfile(path):
        raise LoreError(f"{corpus.show(path)} is not a regular file", hint="name a lore log")
    if not LoreLog.recognises(corpus.open_head(path).head):
        raise LoreError(f"{corpus.show(path)} is not a lore log", hint=HINT_CONVERT)
    try:
        return os.open(path, os.O_RDWR | os.O_APPEND | getattr(os, "O_BINARY", 0))
    except OSError as error:
        shown = corpus.show(path)
        raise LoreError(f"cannot write to {shown}: {reason_of(error)}", where=Where(shown)) from None


class StoredAppender:
    """A stored session that is read and then appended to."""

    def __init__(self, store: Store, session_id: str, head: Head) -> None:
        self._store = store
        self._session_id = session_id
        self._head = head

    def append(self, events: Iterable[Event]) -> bool:
        """Append events, if there are any, in one delta; return False, because a stored session has no torn line.

        Raises ConflictError if another writer has written meanwhile, LoreError if nothing could be written.
        """
        lines = tuple(encode(event) for event in events)
        if not lines:
            return False
        delta = SessionDelta(base=self._head, new_events=lines, updated_at=now())
        try:
            self._head = save_delta(self._store, self._session_id, delta)
        except ConflictError as error:
            error.hint = HINT_AGAIN
            raise
        return False


Appender: TypeAlias = LogAppender | StoredAppender
