"""An object as a file: read on, or anywhere in it, as archives are."""

from __future__ import annotations

import io
import os
from collections.abc import Generator

from lore.recording.remote import PIECE, status, stream


class RemoteFile(io.RawIOBase):
    """An object as a file: what follows is one request as long as it is read on, and a new one behind a seek."""

    def __init__(self, path: str) -> None:
        self._path, self._at, self._rest = path, 0, b""
        self._pieces: Generator[bytes] | None = None
        self._about = status(path)

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        size = self._about.size or 0
        target = max(0, offset + {os.SEEK_SET: 0, os.SEEK_CUR: self._at, os.SEEK_END: size}[whence])
        if target != self._at:
            self._end()
            self._at = target
        return target

    def readinto(self, buffer: memoryview) -> int:  # pyright: ignore[reportIncompatibleMethodOverride] - any buffer
        if not self._rest:
            if self._about.size is not None and self._at >= self._about.size:
                return 0
            if self._pieces is None:
                self._pieces = stream(self._path, self._at, self._about.tag)
            self._rest = next(self._pieces, b"")
        taken, self._rest = self._rest[: len(buffer)], self._rest[len(buffer) :]
        buffer[: len(taken)] = taken
        self._at += len(taken)
        return len(taken)

    def _end(self) -> None:
        self._rest = b""
        if self._pieces is not None:
            self._pieces.close()
            self._pieces = None

    def close(self) -> None:
        self._end()
        super().close()


def opened(path: str) -> io.BufferedReader:
    """Open an object to be read anywhere in it. Costs a request, and one for each place that is read from."""
    return io.BufferedReader(RemoteFile(path), PIECE)
