"""Append events to a lore log or a stored session, for commands that read it first.

Only a file that lore's own reader recognises is appended to, by whole lines or not at all. An exclusive lock is held
from before the log is read until after it was written, so that two writers neither mix nor write the same event twice.
Events are one write, synchronised before success is reported; a write that fails is undone. A log that changed while it
was read is not written to. A stored session is not written to if another writer came between: its head is taken before
it is read.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Generator, Iterable
from contextlib import closing, contextmanager
from functools import partial
from typing import TypeAlias

from lore import files
from lore.errors import LoreError, Where, reason_of
from lore.formats.lore_log import LoreLog
from lore.model.events import Event, encode
from lore.model.limits import RECORD_BYTES
from lore.recording import corpus, filesystem
from lore.store.base import ConflictError, Head, SessionDelta, Store, UnknownSessionError, now
from lore.store.registry import address_of, load_notes, mask_url, open_existing, print_note_once
from lore.store.reserved import refuse_reserved

PATIENCE = 10.0  # seconds to wait for another writer
HINT_AGAIN = "nothing was written: run the command again"
HINT_CONVERT = "only lore's own logs are written to: make one with `lore convert SESSION --to lore --output FILE`"

# Appends events, if there are any, once. Raises LoreError if nothing could be written.
Append: TypeAlias = Callable[[Iterable[Event]], None]


@contextmanager
def appending(path: str, *, patience: float = PATIENCE) -> Generator[Append]:
    """Lock a lore log, or open a stored session, to be read and then appended to.

    Waits `patience` seconds for another writer. Raises LoreError if the file is not a lore log, cannot be written, or
    another writer holds it for longer; the returned function ConflictError if another writer of the session was faster.
    """
    address = address_of(path)
    if address is not None:
        refuse_reserved(address.session_id)
        with closing(open_existing(address.url, print_note_once)) as store:
            notes = load_notes(store, address.session_id)
            if notes is None:
                raise UnknownSessionError(address.session_id, mask_url(address.url))
            yield partial(_append_to_session, store, address.session_id, notes.head)
        return
    if path == corpus.STDIN:
        raise LoreError("standard input cannot be written to", hint="name a lore log")
    filesystem.refuse_output(path)
    label = corpus.show(path)
    if os.path.lexists(path) and not os.path.isfile(path):
        raise LoreError(f"{label} is not a regular file", hint="name a lore log")
    if not LoreLog.recognises(corpus.open_head(path).head):  # read first: no other file is opened for writing
        raise LoreError(f"{label} is not a lore log", hint=HINT_CONVERT)
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_APPEND | getattr(os, "O_BINARY", 0))
    except OSError as error:
        raise LoreError(f"cannot write to {label}: {reason_of(error)}", where=Where(label)) from None
    try:
        if not files.lock(descriptor, patience):
            raise LoreError(f"another writer holds {label}", hint=HINT_AGAIN)
        yield partial(_append_to_log, descriptor, path, os.fstat(descriptor).st_size)
    finally:
        os.close(descriptor)


def _append_to_session(store: Store, session_id: str, head: Head, events: Iterable[Event]) -> None:
    lines = tuple(encode(event) for event in events)
    try:
        if lines:
            store.save_delta(session_id, SessionDelta(base=head, new_events=lines, updated_at=now()))
    except ConflictError as error:
        error.hint = HINT_AGAIN
        raise


def _append_to_log(descriptor: int, path: str, size: int, events: Iterable[Event]) -> None:
    """Append to a locked log of `size` bytes; a last line without a line feed gets one first, also a torn one."""
    lines, label = [encode(event) for event in events], corpus.show(path)
    if not lines:
        return
    if max(map(len, lines)) > RECORD_BYTES:
        message = f"a record longer than {RECORD_BYTES >> 20} MiB: no reader accepts it"
        raise LoreError(message, hint="write less content")
    now_open = os.fstat(descriptor)
    try:
        now_named = os.stat(path)
    except OSError as error:
        raise corpus.unreadable(path, error) from None
    if (now_open.st_dev, now_open.st_ino) != (now_named.st_dev, now_named.st_ino):
        raise LoreError(f"{label} was replaced while it was read", hint=HINT_AGAIN)
    if now_open.st_size != size:
        raise LoreError(f"{label} was written to while it was read", hint=HINT_AGAIN)
    os.lseek(descriptor, max(0, size - 1), os.SEEK_SET)  # writing appends, whatever the position
    is_ended = os.read(descriptor, 1) in (b"\n", b"")
    data = (b"" if is_ended else b"\n") + b"".join(line + b"\n" for line in lines)
    try:
        files.append(descriptor, data, size)
    except OSError as error:
        if os.fstat(descriptor).st_size != size:
            message = f"{label} holds part of a record: a write failed during another one"
            raise LoreError(message, hint="look at its last lines") from None
        message = f"cannot write to {label}: {reason_of(error)}"
        raise LoreError(message, hint="the log is as it was", where=Where(label)) from None
