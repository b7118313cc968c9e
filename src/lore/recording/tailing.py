"""What is being written, as the bytes that come: a file, opened once, polled, never read again; and its logs.

In: a path, and what waits between two looks. Out: bytes as they are added, `None` each time that all
there was has been read, and a `FileChange` where the file is another one now. Rules: what a rotation leaves
in the old file is read before the new one; a file that vanishes is waited for. Errors of the operating
system are left to the caller; a file that is missing at the start is one.

Noticed: another file under the name (renamed over it, removed and created), a file that became shorter,
one whose last 4 KiB before the place that was read are not what they were. A file rewritten in place to
be at least as long, and the same there, is not told from one that grew.

`Live` gives one log after another: of each enough to recognise it, then its bytes, and `None` whenever all that there
was has been read. What was there at the start and is no recording is an error; what came later is waited for, up to
256 KiB.
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
    """What happened to the file; `anew`: what comes now is another log, from its beginning."""

    what: str
    anew: bool


class FileTail:
    """Follow a file from its beginning. `wait` returns once it is time to look again, False to end."""

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
        """Yield what comes, until `wait` says that it is enough."""
        try:
            while True:
                change = self._rewritten()
                if change is not None:
                    yield change
                yield from self._added()
                change = self._moved()
                if change is not None:
                    yield from self._added()  # what came before the file was moved away
                    if not change.anew or self._reopen():
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
        """Open what the name means now; False where that has vanished again."""
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
        """Look whether what was read still stands there; if not, begin again."""
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
        return FileChange(what, anew=True)

    def _moved(self) -> FileChange | None:
        """Look whether the name still means the file that is open."""
        try:
            named = os.stat(self._path)
        except (FileNotFoundError, NotADirectoryError):
            gone, self._gone = self._gone, True
            return None if gone else FileChange("is gone; waiting for it", anew=False)
        held = os.fstat(self._file.fileno())
        gone, self._gone = self._gone, False
        if (named.st_dev, named.st_ino) != (held.st_dev, held.st_ino):
            return FileChange("was replaced by another file", anew=True)
        return FileChange("is back", anew=False) if gone else None


def every(seconds: float = INTERVAL) -> bool:
    """Wait a moment; what follows a file waits with this unless it is given something else."""
    time.sleep(seconds)
    return True


def check_followable(path: str) -> None:
    """Raise LoreError where an input cannot be followed."""
    if corpus.is_stored(path):
        hint = "run the command again after a while, or `lore store export` it to a file"
        raise LoreError(f"{corpus.show(path)} is a stored session, not a file that grows", hint=hint)
    if filesystem.is_remote(path):
        hint = "run the command again after a while: what is written there comes whole"
        raise LoreError(f"{corpus.show(path)} is remote, not a file that grows here", hint=hint)
    if corpus.is_stream(path):
        hint = "name the file that is being written"
        raise LoreError(f"{corpus.show(path)} is a stream, not a file that grows", hint=hint)


class Live:
    """Follow a name. `over` once waiting has ended."""

    def __init__(self, path: str, format: str | None, wait: Wait, say: Say) -> None:
        check_followable(path)
        self.shown = corpus.show(path)
        self.over = False
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
        """Close the file, where following ends before waiting does."""
        self._file.close()

    def head(self) -> bytes | None:
        """Wait for the next log; return its beginning, in whole lines, or None where waiting ended."""
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
        """Return the first lines: 256 KiB, or the first that says anything where that is longer; empty: not yet."""
        data = b"".join(self._held)
        begin = len(data) - len(data.lstrip())
        end = data.rfind(b"\n", begin, corpus.HEAD)
        end = end if end >= 0 else data.find(b"\n", begin)
        if end < 0 and len(data) < corpus.HEAD_LIMIT and may_be_recording(data):
            return b""
        return data[: end + 1] if end >= 0 else data[: corpus.HEAD]

    def pieces(self) -> Iterator[bytes | None]:
        """Yield the bytes of the log whose head was returned, None where there are no more for now."""
        held, self._held = self._held, []
        yield from held
        if self._quiet:
            yield None
        while (data := self._next()) is not None:
            if isinstance(data, FileChange):
                return
            yield data or None

    def _next(self) -> bytes | FileChange | None:
        """Return the next bytes (none: all was read), or a change to another log; None where waiting ended."""
        try:
            for segment in self._tail:
                if not isinstance(segment, FileChange):
                    return segment or b""
                then = "; it is read from its beginning" if segment.anew else ""
                self._say(f"{self.shown} {segment.what}{then}")
                if segment.anew:
                    self._held = []
                    return segment
        except OSError as error:
            raise corpus.unreadable(self._path, error) from None
        self.over = True
        return None
