"""The file of a capture: opened for one recorder, records appended whole, a torn end taken away.

In: lines. Out: a file of mode 600 in which each record is one `write`, and synchronised soon after. Rules: what was
appended when `append` returns survives the death of the process; what was synchronised, that of the machine. A file
that another recorder has open is refused, and so is one that is no capture. What the disk refuses is cut off again, so
that the next record stands on a line of its own.
"""

from __future__ import annotations

import os
from contextlib import suppress
from threading import Condition, Thread

from lore.errors import LoreError
from lore.files import synchronise_folder, try_lock
from lore.formats.lore_capture import OPENING
from lore.recording import corpus

_TAIL = 64 * 1024  # bytes that are read at once to find the last whole record


class Journal:
    """An open capture. Safe to share between threads: one appends at a time, another synchronises.

    `end` is how long it is; `torn` how many bytes of a record were taken away that a recorder before could not finish.
    """

    def __init__(self, path: str, *, new: bool = False) -> None:
        """Open a file; one that must be `new` raises FileExistsError. Raises LoreError where it cannot be used."""
        self.path, self.shown = path, corpus.show(path)
        flags = os.O_RDWR | os.O_CREAT | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
        try:
            self._descriptor = os.open(path, flags | (os.O_EXCL if new else 0), 0o600)
        except FileExistsError:
            raise
        except (OSError, ValueError) as error:
            raise _refused(self.shown, error) from None
        try:
            self.torn = self._recover()
            synchronise_folder(os.path.dirname(os.path.abspath(path)))
        except OSError as error:
            os.close(self._descriptor)
            raise _refused(self.shown, error) from None
        except LoreError:
            os.close(self._descriptor)
            raise
        self.failed = ""  # why the last append was refused
        self._changed, self._waiting, self._ending = Condition(), False, False
        self._thread = Thread(target=self._synchronise, name="lore-record-sync", daemon=True)
        self._thread.start()

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

    def append(self, line: bytes) -> bool:
        """Append a record; False where the disk refuses it: `failed` says why, and nothing of it stays."""
        try:
            os.lseek(self._descriptor, self.end, os.SEEK_SET)
            view = memoryview(line)
            while view:  # a disk that is nearly full takes a part
                view = view[os.write(self._descriptor, view) :]
        except (OSError, ValueError) as error:
            with suppress(OSError):
                os.ftruncate(self._descriptor, self.end)
            self.failed = str(getattr(error, "strerror", None) or error).lower()
            return False
        self.end += len(line)
        with self._changed:
            self._waiting = True
            self._changed.notify()
        return True

    def _synchronise(self) -> None:
        """Synchronise whenever something was appended; what comes meanwhile is taken together."""
        while True:
            with self._changed:
                while not (self._waiting or self._ending):
                    self._changed.wait()
                if not self._waiting:
                    return
                self._waiting = False
            with suppress(OSError):  # a file system that cannot: the record stands there all the same
                os.fsync(self._descriptor)

    def close(self) -> None:
        """Synchronise what is left, and let another recorder have the file."""
        with self._changed:
            self._ending = True
            self._changed.notify()
        self._thread.join()
        os.close(self._descriptor)


def _refused(shown: str, error: OSError | ValueError) -> LoreError:
    reason = str(getattr(error, "strerror", None) or error).lower()
    return LoreError(f"cannot write {shown}: {reason}", hint="name another file with --output")
