"""The file of a capture, for one recorder at a time: append records whole, cut off a torn end.

The file has mode 600; each record is one `write`, flushed to disk within a second. A record survives the death of the
process once `append` returns, and of the machine once it is flushed. A file that another recorder has open, or that is
not a capture, is refused. A partly written record is cut off again. While the file is moved away, and once it was
removed or emptied, nothing is written. A run without records leaves no trace, and no new file.

A call is written as records of its two sides: the request in pieces, the last one before its last bytes are forwarded;
the answer chunk by chunk, each before it is forwarded, so that the file holds everything that a client has received.
After a record that the disk refused, nothing more of its call is written: calls may be truncated, but have no gaps.

Cost: an append is a `stat`, a seek and a `write` to the system's memory, about 10 microseconds.
"""

from __future__ import annotations

import base64
import os
import stat
from codecs import getincrementaldecoder
from collections.abc import Callable
from contextlib import suppress
from mmap import ACCESS_READ, mmap
from threading import Event, Thread
from typing import Any

import orjson

from lore.errors import LoreError, reason_of
from lore.files import OTHER_OUTPUT, append, open_capture, write_error
from lore.model import format_timestamp
from lore.recording import show
from lore.store import Tell

OPENING = b'"lore_capture"'  # the first member of a capture's first record
_EVERY = 0.9  # seconds between two flushes: a flush may delay a `write`


class Journal:
    """An open capture. Used by one thread; another one flushes it.

    `tell` is called when writing fails or works again.
    """

    end: int  # length in bytes
    torn: int  # bytes of an unfinished record that were cut off when it was opened

    def __init__(self, path: str, tell: Tell) -> None:
        """Open a file. Raise LoreError if it cannot be used."""
        self.path, self.label, self._tell = path, show(path), tell
        self._is_new = not os.path.lexists(path)
        self.has_file = True  # false once it was removed for lack of records
        try:
            self._descriptor = open_capture(path, self.label, "lore record")
            try:
                self.torn = self._recover()
            except BaseException:
                os.close(self._descriptor)
                raise
        except (OSError, ValueError) as error:
            raise write_error(self.label, reason_of(error)) from None
        self.begin = self.first_end = self.end  # where the records of this run begin, and where its first one ends
        self.failed = ""  # why the last append failed; empty if it did not
        self._is_unflushed, self._closing = False, Event()
        self._thread = Thread(target=self._flush_regularly, name="lore-record-sync", daemon=True)
        self._thread.start()

    def _recover(self) -> int:
        """Find the end of the last whole record, cut off the rest, and return its length."""
        size = self.end = os.lseek(self._descriptor, 0, os.SEEK_END)
        if not size:
            return 0
        with mmap(self._descriptor, 0, access=ACCESS_READ) as data:
            first = data[:4096].lstrip()
            self.end = data.rfind(b"\n") + 1
        if not first[:64].startswith(b"{" + OPENING) and OPENING[: len(first) - 1] != first[1:]:
            raise LoreError(f"{self.label} was not written by lore record", hint=OTHER_OUTPUT)
        if self.end < size:
            os.ftruncate(self._descriptor, self.end)
        return size - self.end

    def open_run(self, line: bytes) -> None:
        """Append the first record of a run. Raises LoreError."""
        try:
            self._write(line)
        except (OSError, ValueError) as error:
            raise write_error(self.label, reason_of(error)) from None
        self.first_end = self.end

    def append(self, line: bytes) -> bool:
        """Append a record, or set `failed`; return whether it was written."""
        failed_before = self.failed
        try:
            self._write(line)
            self.failed = ""
        except (OSError, ValueError) as error:
            self.failed = reason_of(error)
        if self.failed and not failed_before:
            self._tell(f"error: {self.label} cannot be written: {self.failed}; requests are still forwarded")
        elif failed_before and not self.failed:
            self._tell(f"{self.label} is written again")
        return not self.failed

    def _write(self, line: bytes) -> None:
        """Write a record, whole or not at all. Raises OSError, also if the file no longer has its name."""
        status = os.fstat(self._descriptor)
        has_name = os.path.samestat(os.stat(self.path), status)
        if not has_name or (status.st_size < self.end and stat.S_ISREG(status.st_mode)):
            raise OSError("it was moved, removed or emptied")
        append(self._descriptor, line, self.end, durable=False)
        self.end += len(line)
        self._is_unflushed = True

    def _flush_regularly(self) -> None:
        while not self._closing.wait(_EVERY):
            self._flush()

    def _flush(self) -> None:
        if self._is_unflushed:
            self._is_unflushed = False
            with suppress(OSError):  # some file systems cannot; the record is written all the same
                os.fsync(self._descriptor)

    def close(self) -> None:
        """Flush the rest, undo a run without records, and release the file."""
        self._closing.set()
        self._thread.join()
        self._flush()
        remove = False
        if self.end == self.first_end:
            with suppress(OSError):
                is_same = os.path.samestat(os.stat(self.path), os.fstat(self._descriptor))
                os.ftruncate(self._descriptor, self.begin)
                self.end, remove = self.begin, is_same and self._is_new and not self.begin
        os.close(self._descriptor)
        if remove:  # a recorder that opens it in between starts a new file
            with suppress(OSError):
                os.unlink(self.path)
                self.has_file = False


LAST = 4096  # bytes, in which the usage of a stream is
PIECE = 256 * 1024  # approximate bytes of a request's body in one record
COMPLETE, LEFT, STOPPED = "complete", "the client left", "lore record was stopped"
NOT_WRITTEN = "not written whole"


def line_of(record: dict[str, Any], body: bytes = b"") -> bytes:
    """Return a record as a line, with a piece of a body as text if it is UTF-8, else as base64."""
    if body:
        try:
            record["body"] = body.decode("utf-8")
        except UnicodeDecodeError:
            record["base64"] = base64.b64encode(body).decode("ascii")
    return orjson.dumps(record, option=orjson.OPT_APPEND_NEWLINE)


def last_character_end(data: bytes | bytearray) -> int:
    """Return the end of the last whole UTF-8 character: the length, or up to 3 bytes less."""
    decoder = getincrementaldecoder("utf-8")("replace")
    decoder.decode(data[-4:])
    return len(data) - len(decoder.getstate()[0])


class RecordedCall:
    """A running call. Times are those of `clock`; after a record that failed only the ends are written."""

    def __init__(self, name: str, journal: Journal, clock: Callable[[], float]) -> None:
        self.name, self.clock, self.began = name, clock, clock()
        self.request, self.response = CallSide(self, "request"), CallSide(self, "response")
        self.ended = LEFT  # how it ended, set by the proxy
        self.server = ""  # its origin
        self.status: int | None = None
        self.is_written = True  # whether all its records so far were written
        self._journal = journal

    def append(self, line: bytes) -> bool:
        """Append a record; return whether it was written."""
        is_written = self._journal.append(line)
        self.is_written = self.is_written and is_written
        return is_written

    def close(self) -> None:
        """Write the ends of both sides."""
        self.request.end(self.ended)
        self.response.end(self.ended)


class CallSide:
    """The request or the response of a call."""

    def __init__(self, call: RecordedCall, part: str) -> None:
        self._call, self._labels = call, {"call": call.name, "part": part}
        self._members: dict[str, Any] = {}  # of the first record
        self._pieces = bytearray()
        self._is_in_file = False
        self.size = 0  # bytes of the body
        self.last = b""  # the last bytes of a response
        self.is_over = False

    def begin(self, members: dict[str, Any]) -> None:
        """Set the members of its first record, and its time, which is now."""
        self._members = {"at": format_timestamp(self._call.clock()), **members}

    def add(self, chunk: bytes) -> None:
        """Add a chunk of a body that is written in pieces."""
        self.size += len(chunk)
        self._pieces += chunk
        if len(self._pieces) >= PIECE:
            end = last_character_end(self._pieces)
            piece = bytes(self._pieces[:end])
            del self._pieces[:end]
            self._write({"more": True}, piece)

    def flush(self) -> None:
        """Write the collected pieces if nothing was written yet, because an answer is about to begin."""
        if not self._is_in_file and not self.is_over:
            self._write({"more": True}, bytes(self._pieces))
            self._pieces.clear()

    def write(self, chunk: bytes, ended: str | None = None) -> None:
        """Write a chunk that arrives now; an empty one for the head only."""
        self.size += len(chunk)
        self.last = (self.last + chunk)[-LAST:]
        members: dict[str, Any] = {"more": True} if ended is None else {"ended": ended}
        if chunk:
            members["arrived"] = [(round((self._call.clock() - self._call.began) * 1000, 1), len(chunk))]
        self._write(members, chunk)
        self.is_over = ended is not None and self._call.is_written

    def end(self, ended: str | None = None) -> None:
        """Write the rest, once; if a record of the call failed, write that it is not whole."""
        if self.is_over:
            return
        self.is_over = True
        members = {"at": format_timestamp(self._call.clock()), **({} if ended is None else {"ended": ended})}
        self._write(members, bytes(self._pieces))
        if self._is_in_file and not self._call.is_written:
            self._call.append(line_of({**self._labels, **members, "ended": NOT_WRITTEN}))

    def _write(self, members: dict[str, Any], body: bytes) -> None:
        if self._call.is_written and self._call.append(line_of({**self._labels, **members, **self._members}, body)):
            self._is_in_file, self._members = True, {}
