"""Follow a file that grows, and the logs in it.

`follow_file` polls a file that stays open. What a rotation leaves in the old file is read before the new one, and a
file that vanishes is waited for. It notices another file under the name, a file that became shorter, and one whose last
4 KiB before the place that was read are different now; a file rewritten in place with the same bytes there is taken for
one that grew. `LogTail` gives one log after another: its beginning, to recognise it, then its bytes.
"""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Callable, Generator, Iterator
from io import FileIO
from typing import TypeAlias, TypeVar

from lore.errors import LoreError
from lore.formats.beginning import may_be_recording
from lore.model.jsonslice import is_json
from lore.recording import corpus, filesystem
from lore.recording.opening import kind_of
from lore.recording.packed import ARCHIVE

PIECE = 1024 * 1024
KNOWN = 4096
INTERVAL = 0.2  # seconds between two looks
OTHER_LOG = b""  # what is yielded where another log begins

Wait: TypeAlias = Callable[[], bool]  # returns when it is time to look again; False ends
Say: TypeAlias = Callable[[str], None]
T = TypeVar("T")


def follow_file(path: str, wait: Wait, say: Say) -> Generator[bytes | None]:
    """Yield the bytes of a file as they come, None each time that all were read, `OTHER_LOG` before other ones.

    `say` receives what happened to the file. Raises OSError.
    """
    is_gone = False
    file = _opened(path)
    try:
        offset, known, seen = 0, b"", (0, 0)
        while True:
            about = os.fstat(file.fileno())
            was_seen, seen = seen, (about.st_size, about.st_mtime_ns)
            if seen != was_seen and (change := _rewriting(file, about.st_size, offset, known)):
                say(f"{change}; it is read from its beginning")
                offset, known = 0, b""
                yield OTHER_LOG
            there = _if_exists(os.stat, path)
            other = None if there is None or os.path.samestat(there, about) else _if_exists(_opened, path)
            file.seek(offset)
            while data := file.read(PIECE):  # also what was written before the file was moved away
                offset += len(data)
                known = (known + data[-KNOWN:])[-KNOWN:]
                yield data
            if other is not None:
                file.close()
                file, offset, known, seen, is_gone = other, 0, b"", (0, 0), False
                say("was replaced by another file; it is read from its beginning")
                yield OTHER_LOG
            elif (there is None) != is_gone:
                is_gone = there is None
                say("is gone; waiting for it" if is_gone else "is back")
            else:
                yield None
                if not wait():
                    return
    finally:
        file.close()


def _opened(path: str) -> FileIO:
    if not stat.S_ISREG(os.stat(path).st_mode):
        raise OSError(None, "not a regular file", path)
    return open(path, "rb", buffering=0)


def _if_exists(call: Callable[[str], T], path: str) -> T | None:
    try:
        return call(path)
    except (FileNotFoundError, NotADirectoryError):
        return None


def _rewriting(file: FileIO, size: int, offset: int, known: bytes) -> str:
    """Return how the bytes before an offset were changed; empty if they are as they were read."""
    if size < offset:
        return "was truncated"
    file.seek(offset - len(known))
    return "" if file.read(len(known)) == known else "was rewritten"


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
        self._path = path
        self._format = format
        self._say = say
        self._file = follow_file(path, wait, lambda change: say(f"{self.shown} {change}"))
        self._looked = self._quiet = False  # whether a head was looked for; whether all bytes were read then
        self._held = b""  # of the log whose head is looked for

    def close(self) -> None:
        """Close the file before waiting has ended."""
        self._file.close()

    def head(self) -> bytes | None:
        """Wait for the next log and return its beginning, in whole lines; None if waiting ended.

        A file that is not a recording is an error at the start; later it is waited for, up to 256 KiB.
        """
        for piece in self._pieces():
            self._quiet = not piece
            self._held = b"" if piece == OTHER_LOG else self._held + (piece or b"")
            if piece and len(self._held) < corpus.HEAD:
                continue
            head, is_first, self._looked = _beginning(self._held), not self._looked, True
            if is_first and not head:
                text = self._held.strip()
                if is_json(text) or text.startswith(ARCHIVE):  # whole without a line end
                    return text
                self._say(f"{self.shown}: waiting for its first line{' to end' * bool(text)}")
            if head and (is_first or len(head) >= corpus.HEAD // 2 or kind_of(head, self._format) is not None):
                return head
        return None

    def pieces(self) -> Iterator[bytes | None]:
        """Yield the bytes of the log whose head was returned, None each time that everything was read."""
        held, self._held = self._held, b""
        yield held
        if self._quiet:
            yield None
        for piece in self._pieces():
            if piece == OTHER_LOG:
                return
            yield piece

    def _pieces(self) -> Iterator[bytes | None]:
        try:
            for piece in self._file:  # noqa: UP028 - `yield from` would close the file
                yield piece
        except OSError as error:
            raise corpus.unreadable(self._path, error) from None
        except ValueError as error:  # an embedded NUL
            raise LoreError(f"cannot open {self.shown!r}: {error}") from None


def _beginning(data: bytes) -> bytes:
    """Return the first lines: 256 KiB, or the first line if it is longer; empty until there is one."""
    begin = len(data) - len(data.lstrip())
    end = data.rfind(b"\n", begin, corpus.HEAD)
    end = end if end >= 0 else data.find(b"\n", begin)
    if end < 0 and len(data) < corpus.HEAD_LIMIT and may_be_recording(data):
        return b""
    return data[: end + 1] if end >= 0 else data[: corpus.HEAD]
