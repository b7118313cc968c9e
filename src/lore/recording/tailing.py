"""Follow a file that grows, and the logs in it.

`FileTail` polls a file that stays open. What a rotation leaves in the old file is read before the new one, and a file
that vanishes is waited for. It notices another file under the name, a file that became shorter, and one whose last 4
KiB before the place that was read are different now; a file rewritten in place with the same bytes there is taken for
one that grew. `LogTail` gives one log after another: its beginning, to recognise it, then its bytes.
"""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Callable, Iterator
from typing import NamedTuple, TypeAlias

from lore.errors import LoreError
from lore.formats.beginning import may_be_recording
from lore.model.jsonslice import is_json
from lore.recording import corpus, filesystem
from lore.recording.opening import kind_of
from lore.recording.packed import ARCHIVE

PIECE = 1024 * 1024
KNOWN = 4096
INTERVAL = 0.2  # seconds between two looks

Wait: TypeAlias = Callable[[], bool]
Say: TypeAlias = Callable[[str], None]


class FileChange(NamedTuple):
    """Something that happened to a followed file."""

    what: str
    is_other_log: bool  # the next bytes are the beginning of another log


class FileTail:
    """Follow a file from its beginning. `wait` returns when it is time to look again; False ends."""

    def __init__(self, path: str, wait: Wait) -> None:
        self._path = path
        self._wait = wait
        self._open()
        self._gone = False

    def _open(self) -> None:
        if not stat.S_ISREG(os.stat(self._path).st_mode):
            raise OSError(None, "not a regular file", self._path)
        self._file = open(self._path, "rb", buffering=0)  # noqa: SIM115 - followed until the end
        self._offset = 0
        self._known = b""
        self._seen = (0, 0)

    def __iter__(self) -> Iterator[bytes | FileChange | None]:
        """Yield bytes and changes as they come, and None each time that everything was read."""
        try:
            while True:
                change = self._rewritten()
                if change is not None:
                    yield change
                yield from self._added()
                change = self._moved()
                if change is not None:
                    yield from self._added()  # written before the file was moved away
                    if not change.is_other_log or self._reopen():
                        yield change
                        continue
                yield None
                if not self._wait():
                    return
        finally:
            self._file.close()

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def _reopen(self) -> bool:
        """Open the file that has the name now; False if it has vanished again."""
        old = self._file
        try:
            self._open()
        except (FileNotFoundError, NotADirectoryError):
            return False
        old.close()
        return True

    def _added(self) -> Iterator[bytes]:
        self._file.seek(self._offset)
        while data := self._file.read(PIECE):
            self._offset += len(data)
            self._known = (self._known + data[-KNOWN:])[-KNOWN:]
            yield data

    def _rewritten(self) -> FileChange | None:
        """Begin again if the bytes before the current place are different now."""
        found = os.fstat(self._file.fileno())
        seen, self._seen = self._seen, (found.st_size, found.st_mtime_ns)
        if self._seen == seen:
            return None
        what = ""
        if found.st_size < self._offset:
            what = "was truncated"
        elif self._known:
            self._file.seek(self._offset - len(self._known))
            what = "" if self._file.read(len(self._known)) == self._known else "was rewritten"
        if not what:
            return None
        self._offset, self._known = 0, b""
        return FileChange(what, is_other_log=True)

    def _moved(self) -> FileChange | None:
        """Return a change if the name belongs to another file now."""
        try:
            named = os.stat(self._path)
        except (FileNotFoundError, NotADirectoryError):
            gone, self._gone = self._gone, True
            return None if gone else FileChange("is gone; waiting for it", is_other_log=False)
        held = os.fstat(self._file.fileno())
        gone, self._gone = self._gone, False
        if (named.st_dev, named.st_ino) != (held.st_dev, held.st_ino):
            return FileChange("was replaced by another file", is_other_log=True)
        return FileChange("is back", is_other_log=False) if gone else None


def every(seconds: float = INTERVAL) -> bool:
    """Wait for a moment: the usual `wait` of a followed file."""
    time.sleep(seconds)
    return True


def check_followable(path: str) -> None:
    """Raise LoreError if an input cannot be followed."""
    shown, again = corpus.show(path), "run the command again after a while"
    if corpus.is_stored(path):
        hint = f"{again}, or `lore store export` it to a file"
        raise LoreError(f"{shown} is a stored session, not a file that grows", hint=hint)
    if filesystem.is_remote(path):
        raise LoreError(f"{shown} is remote, not a file that grows here", hint=f"{again}: what is written comes whole")
    if corpus.is_stream(path):
        raise LoreError(f"{shown} is a stream, not a file that grows", hint="name the file that is being written")


class LogTail:
    """Follow the logs under a name: `head`, then `pieces`, for one log after another."""

    def __init__(self, path: str, format: str | None, wait: Wait, say: Say) -> None:
        check_followable(path)
        self.shown = corpus.show(path)
        self.over = False  # waiting has ended
        self._path = path
        self._format = format
        self._say = say
        self._looked = False
        self._quiet = False
        self._held: list[bytes] = []
        try:
            self._file = FileTail(path, wait)
            self._tail = iter(self._file)
        except OSError as error:
            raise corpus.unreadable(path, error) from None
        except ValueError as error:  # an embedded NUL
            raise LoreError(f"cannot open {self.shown!r}: {error}") from None

    def close(self) -> None:
        """Close the file before waiting has ended."""
        self._file.close()

    def head(self) -> bytes | None:
        """Wait for the next log and return its beginning, in whole lines; None if waiting ended.

        A file that is not a recording is an error at the start; later it is waited for, up to 256 KiB.
        """
        while (data := self._next()) is not None:
            self._quiet = not data
            if isinstance(data, bytes) and data:
                self._held.append(data)
                if sum(map(len, self._held)) < corpus.HEAD:
                    continue
            head, first = self._beginning(), not self._looked
            self._looked = True
            if first and not head:
                text = b"".join(self._held).strip()
                if is_json(text) or text.startswith(ARCHIVE):  # whole without a line end
                    return text
                self._say(f"{self.shown}: waiting for its first line{' to end' * bool(text)}")
            if head and (first or len(head) >= corpus.HEAD // 2 or kind_of(head, self._format) is not None):
                return head
        return None

    def _beginning(self) -> bytes:
        """Return the first lines: 256 KiB, or the first line if it is longer; empty until there is one."""
        data = b"".join(self._held)
        begin = len(data) - len(data.lstrip())
        end = data.rfind(b"\n", begin, corpus.HEAD)
        end = end if end >= 0 else data.find(b"\n", begin)
        if end < 0 and len(data) < corpus.HEAD_LIMIT and may_be_recording(data):
            return b""
        return data[: end + 1] if end >= 0 else data[: corpus.HEAD]

    def pieces(self) -> Iterator[bytes | None]:
        """Yield the bytes of the log whose head was returned, None each time that everything was read."""
        held, self._held = self._held, []
        yield from held
        if self._quiet:
            yield None
        while (data := self._next()) is not None:
            if isinstance(data, FileChange):
                return
            yield data or None

    def _next(self) -> bytes | FileChange | None:
        """Return the next bytes (empty: everything was read) or the change to another log; None if waiting ended."""
        try:
            for segment in self._tail:
                if not isinstance(segment, FileChange):
                    return segment or b""
                then = "; it is read from its beginning" if segment.is_other_log else ""
                self._say(f"{self.shown} {segment.what}{then}")
                if segment.is_other_log:
                    self._held = []
                    return segment
        except OSError as error:
            raise corpus.unreadable(self._path, error) from None
        self.over = True
        return None
