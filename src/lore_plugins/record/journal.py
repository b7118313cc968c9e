"""The file of a capture: opened for one recorder, records appended whole, a torn end taken away.

In: lines. Out: a file of mode 600 in which each record is one `write`, synchronised within a second. Rules: what was
appended when `append` returns survives the death of the process; what was synchronised, that of the machine. A file
that another recorder has open is refused, and so is one that is no capture. What the disk refuses is cut off again, so
that the next record stands on a line of its own. A file that is moved, removed or emptied meanwhile is begun anew under
its name. A run without a record leaves nothing: no line, and no file where none was.

A call is written down as the records of its two sides: a request in pieces, the last of them before its last bytes pass
on; an answer chunk by chunk, each before it passes, so that whatever a client has stands in the file. A record that the
disk refuses ends what is written of its call: a capture has calls that were cut, none with a hole.

Cost: an append is a `stat`, a seek and a `write` to the system's memory, about 10 microseconds.
"""

from __future__ import annotations

import base64
import os
import stat
from collections.abc import Callable
from contextlib import suppress
from threading import Condition, Thread
from typing import Any

import orjson

from lore.errors import LoreError, reason_of
from lore.files import append, synchronise_folder, try_lock
from lore.model import format_timestamp
from lore.recording import show

OPENING = b'"lore_capture"'  # the first member of a capture's first record
_TAIL = 64 * 1024  # bytes that are read at once to find the last whole record
_EVERY = 1.0  # seconds between two synchronisations: each may hold a `write` up
_FLAGS = os.O_RDWR | os.O_CREAT | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)


class Journal:
    """An open capture. Used by one thread; another synchronises.

    `end` is how long it is; `torn` how many bytes of a record were taken away that a recorder before could not finish;
    `begin` where the records of this run begin; `number` counts the files that were begun under its name; `kept`: it
    was not removed for want of a record.
    """

    def __init__(self, path: str, *, new: bool = False) -> None:
        """Open a file; one that must be `new` raises FileExistsError. Raises LoreError where it cannot be used."""
        self.path, self.shown = path, show(path)
        self._made = not os.path.lexists(path)
        self.kept = True
        try:
            self._open(os.O_EXCL if new else 0)
            synchronise_folder(os.path.dirname(os.path.abspath(path)))
        except FileExistsError:
            raise
        except (OSError, ValueError) as error:
            raise self._refused(reason_of(error)) from None
        self.begin, self.number = self.end, 1
        self.failed = ""  # why the last append was refused
        self._opening = self._missing = b""
        self._changed, self._waiting, self._ending = Condition(), False, False
        self._thread = Thread(target=self._synchronise, name="lore-record-sync", daemon=True)
        self._thread.start()

    def _refused(self, reason: str) -> LoreError:
        return LoreError(f"cannot write {self.shown}: {reason}", hint="name another file with --output")

    def _open(self, flags: int = 0) -> None:
        """Open and lock the file under the name, and find its end. Raises OSError, ValueError, LoreError."""
        self._descriptor = os.open(self.path, _FLAGS | flags, 0o600)
        try:
            self.torn = self._recover()
        except BaseException:
            os.close(self._descriptor)
            self._descriptor = -1
            raise

    def _recover(self) -> int:
        """Lock the file, find the end of the last whole record, and cut off what stands behind it."""
        if not try_lock(self._descriptor):
            raise LoreError(f"{self.shown} is being written by another lore record", hint="name another --output")
        size = self.end = os.lseek(self._descriptor, 0, os.SEEK_END)
        if not size:
            return 0
        os.lseek(self._descriptor, 0, os.SEEK_SET)
        first = os.read(self._descriptor, 4096).lstrip()
        if not first[:64].startswith(b"{" + OPENING) and OPENING[: len(first) - 1] != first[1:]:
            raise LoreError(f"{self.shown} is there and is no capture of lore record", hint="name another --output")
        at = size
        while at > 0:
            begin = max(0, at - _TAIL)
            os.lseek(self._descriptor, begin, os.SEEK_SET)
            piece = os.read(self._descriptor, at - begin)
            found = piece.rfind(b"\n")
            if found >= 0:
                self.end = begin + found + 1
                break
            at = begin
        else:
            self.end = 0
        if self.end < size:
            os.ftruncate(self._descriptor, self.end)
        return size - self.end

    def open_run(self, line: bytes) -> None:
        """Append the first record of a run, which a file that is begun anew has, too. Raises LoreError."""
        self._opening = self._missing = line
        if not self.append(b""):
            raise self._refused(self.failed)

    def append(self, line: bytes, number: int = 0) -> int:
        """Append a record; return the number of its file, 0 where it is refused: `failed` says why.

        A record that goes on what stands in file `number` is refused where another was begun since.
        """
        try:
            self._follow_name()
            if self._missing:
                self._write(self._missing)
                self._missing = b""
            if number not in (0, self.number):
                self.failed = "it was moved, removed or emptied meanwhile"
                return 0
            self._write(line)
        except LoreError as error:  # what stands under the name now is not ours
            self.failed = error.message
            return 0
        except (OSError, ValueError) as error:
            self.failed = reason_of(error)
            return 0
        with self._changed:
            self._waiting = True
            self._changed.notify()
        return self.number

    def _follow_name(self) -> None:
        """Begin anew where the file that is open no longer has the name, or lost records."""
        try:
            named = os.stat(self.path)
            opened = os.fstat(self._descriptor)
        except OSError:  # removed; or it could not be opened again before
            named = opened = None
        if named is not None and opened is not None and os.path.samestat(named, opened):
            if opened.st_size >= self.end or not stat.S_ISREG(opened.st_mode):
                return
            self._recover()
        else:
            if self._descriptor >= 0:
                os.close(self._descriptor)
                self._descriptor = -1
            self._open()
        self.begin, self._missing = self.end, self._opening
        self.number += 1

    def _write(self, line: bytes) -> None:
        """Write a record, all of it or nothing. Raises OSError."""
        append(self._descriptor, line, self.end, durable=False)
        self.end += len(line)

    def _synchronise(self) -> None:
        """Synchronise what was appended, once in a while; what comes meanwhile is taken together."""
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._waiting or self._ending)
                if not self._waiting:
                    return
                self._waiting = False
            with suppress(OSError):  # a file system that cannot: the record stands there all the same
                os.fsync(self._descriptor)
            with self._changed:
                self._changed.wait_for(lambda: self._ending, _EVERY)

    def close(self) -> None:
        """Synchronise what is left, take away what holds no record, and let another recorder have the file."""
        with self._changed:
            self._ending = True
            self._changed.notify()
        self._thread.join()
        if self._descriptor < 0:
            return
        remove = False
        if self.end == self.begin + len(self._opening):
            with suppress(OSError):
                same = os.path.samestat(os.stat(self.path), os.fstat(self._descriptor))
                os.ftruncate(self._descriptor, self.begin)
                self.end, remove = self.begin, same and self._made and not self.begin
        os.close(self._descriptor)
        if remove:  # who opens it between the two writes it anew
            with suppress(OSError):
                os.unlink(self.path)
                self.kept = False


# records and calls

PIECE = 256 * 1024  # bytes of a request's body in one record, about
COMPLETE, LEFT, STOPPED = "complete", "the client left", "lore record was stopped"
NOT_WRITTEN = "not written whole"


def line_of(record: dict[str, Any], body: bytes = b"") -> bytes:
    """Write a record with a piece of a body: as text where it is UTF-8, else as base64."""
    if body:
        try:
            record["body"] = body.decode("utf-8")
        except UnicodeDecodeError:
            record["base64"] = base64.b64encode(body).decode("ascii")
    return orjson.dumps(record, option=orjson.OPT_APPEND_NEWLINE)


def cut(data: bytes | bytearray) -> int:
    """Return where a piece of text can be cut so that no character is: its length, or up to 3 bytes less."""
    for back in range(1, min(4, len(data)) + 1):
        byte = data[-back]
        if byte >= 0xC0:  # the first byte of a character of several
            length = 2 if byte < 0xE0 else 3 if byte < 0xF0 else 4
            return len(data) - back if length > back else len(data)
        if byte < 0x80:
            return len(data)
    return len(data)


class Writer:
    """Append records; `tell` hears that the disk refuses them or takes them again, and that a file is begun anew."""

    def __init__(self, journal: Journal, tell: Callable[[str], None]) -> None:
        self._journal, self._tell, self._failing, self._number = journal, tell, False, journal.number

    def append(self, record: dict[str, Any], body: bytes = b"", number: int = 0) -> int:
        """Append a record as `Journal.append` does."""
        written = self._journal.append(line_of(record, body), number)
        shown = self._journal.shown
        if self._journal.number != self._number:
            self._number = self._journal.number
            self._tell(f"{shown} was moved, removed or emptied: a file of this name is begun anew")
        elif bool(written) == self._failing:
            self._failing = not written
            self._tell(
                f"{shown} is written again" if written
                else f"error: {shown} cannot be written: {self._journal.failed}; requests still pass"
            )  # fmt: skip
        return written


class CallSide:
    """One side of a call: its body is `size` bytes so far; `whole` while every record of it stands in the file."""

    def __init__(self, writer: Writer, call: str, part: str, before: CallSide | None = None) -> None:
        self._writer, self._named, self._before = writer, {"call": call, "part": part}, before
        self._members: dict[str, Any] = {}  # of the first record
        self._pieces = bytearray()
        self._number = 0  # of the file in which it stands
        self.size = 0
        self.over = False
        self._refused = False

    @property
    def whole(self) -> bool:
        """Tell whether nothing of it was refused, nor of what it answers."""
        return not self._refused and (self._before is None or self._before.whole)

    def begin(self, at: float, members: dict[str, Any]) -> None:
        """Note when it began, and what its first record says."""
        self._members = {"at": format_timestamp(at), **members}

    def add(self, chunk: bytes) -> None:
        """Take a chunk of a body that is written in pieces."""
        self.size += len(chunk)
        self._pieces += chunk
        if len(self._pieces) >= PIECE:
            end = cut(self._pieces)
            piece = bytes(self._pieces[:end])
            del self._pieces[:end]
            self._write({"more": True}, piece)

    def flush(self) -> None:
        """Write what there is, where nothing of it was written so far: an answer is about to begin."""
        if not self._number and not self.over:
            self._write({"more": True}, bytes(self._pieces))
            self._pieces.clear()

    def write(self, chunk: bytes, arrived: float, ended: str | None = None) -> None:
        """Write a chunk that came `arrived` seconds after its call began; an empty one for the head alone."""
        self.size += len(chunk)
        members: dict[str, Any] = {"more": True} if ended is None else {"ended": ended}
        if chunk:
            members["arrived"] = [(round(arrived * 1000, 1), len(chunk))]
        self._write(members, chunk)
        self.over = ended is not None and self.whole

    def end(self, at: float, ended: str | None = None) -> None:
        """Write what is left, once; of what was refused, that it is not whole."""
        if self.over:
            return
        self.over = True
        said = {"at": format_timestamp(at)} if ended is None else {"at": format_timestamp(at), "ended": ended}
        if self.whole:
            self._write(said, bytes(self._pieces))
        if not self.whole and self._number:
            self._writer.append({**self._named, **said, "ended": NOT_WRITTEN}, number=self._number)

    def _write(self, members: dict[str, Any], body: bytes) -> None:
        if not self.whole:
            return
        number = self._number or (0 if self._before is None else self._before._number)
        written = self._writer.append({**self._named, **members, **self._members}, body, number)
        if written:
            self._number, self._members = written, {}
        self._refused = not written


class RecordedCall:
    """A call under way, from `began` on; `ended` says how it came to its end, once it has. Times are of `clock`."""

    def __init__(self, name: str, writer: Writer, clock: Callable[[], float]) -> None:
        self.request = CallSide(writer, name, "request")
        self.response = CallSide(writer, name, "response", self.request)
        self.clock, self.began, self.ended = clock, clock(), LEFT
        self.server = ""  # its origin
        self.status: int | None = None

    def close(self) -> None:
        """Write its end; a request that was not whole says why, too."""
        self.request.end(self.clock(), self.ended)
        self.response.end(self.clock(), self.ended)

    @property
    def written(self) -> bool:
        """Tell whether every record of it stands in the file."""
        return self.response.whole
