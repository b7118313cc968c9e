"""The file of a checkpoint of `lore fold`, and the log that it belongs to.

In: what a run knew of a log; or a checkpoint file and a log. Out: a file that is written whole (temporary name, fsync,
rename); or what was known, and whether the log begins with the bytes that it was known of. Rules:
- a checkpoint is one line that says what it is, a CRC-32 and a `LogCheckpoint` (MessagePack); it holds prompt text, so
  only its owner may read it;
- a checkpoint that does not fit is refused with its reason; a file that is no checkpoint is never written to;
- a log is known again by its size and the CRC-32 of its first and last MiB, of all of it where that is asked for.
"""

from __future__ import annotations

import os
import stat
from typing import BinaryIO
from zlib import crc32

import msgspec
from msgspec import Struct

from lore import __version__
from lore.errors import LoreError
from lore.files import replaced
from lore.model.codes import Problem
from lore.model.results_store import TurnResult
from lore.recording import corpus

VERSION = 3


MAGIC = b'{"kind":"lore-checkpoint",'


_FIRST = MAGIC + b'"version":%d}\n' % VERSION


_CRC = 4  # bytes


BLOCK = 1024 * 1024


class UnusableError(LoreError):
    """A checkpoint that cannot be gone on from, and may be replaced; the message says why."""


class Fingerprint(Struct, frozen=True):
    """The bytes of a log: how many there are, the CRC-32 of their first and last MiB, and of all."""

    size: int
    head: int
    tail: int
    whole: int


class LogCheckpoint(Struct, frozen=True):
    """What a run knew when it had read all there was; `problems` and `counts` without the file's name.

    `turns` are the requests so far, with their bills.
    """

    lore: str
    format: str
    log: Fingerprint
    pruned: list[str]
    turns: list[TurnResult]
    problems: list[Problem]
    counts: dict[str, int]
    reader: bytes
    session: bytes


def load(path: str) -> LogCheckpoint | None:
    """Load a checkpoint; None where there is none yet (no file, or an empty one).

    Raises UnusableError where it is damaged or of another version, LoreError where the file is something
    else or cannot be read.
    """
    data = _read_file(path)
    if not data:
        return None
    if not data.startswith(_FIRST):
        raise UnusableError(f"it is damaged, or of another version than {VERSION}")
    begin = len(_FIRST) + _CRC
    body = memoryview(data)[begin:]
    if crc32(body).to_bytes(_CRC, "big") != data[len(_FIRST) : begin]:
        raise UnusableError("it is damaged: its checksum does not hold")
    try:
        known = msgspec.msgpack.decode(body, type=LogCheckpoint)
    except ValueError as error:
        raise UnusableError(f"it is damaged: {error}") from None
    if known.lore != __version__:
        raise UnusableError(f"it is of lore {known.lore}, this is {__version__}")
    return known


def _read_file(path: str) -> bytes:
    """Return all of a checkpoint, nothing where there is none; raises LoreError for any other file."""
    shown = corpus.show(path)
    try:
        if not stat.S_ISREG(os.stat(path).st_mode):
            raise LoreError(f"{shown} is not a file", hint="name a file for the checkpoint")
        with open(path, "rb", buffering=0) as file:
            begin = file.read(len(MAGIC))  # some other file may be of any size
            if begin and begin != MAGIC:
                hint = "name a file that does not exist yet, or an earlier checkpoint"
                raise LoreError(f"{shown} is no checkpoint of lore and will not be overwritten", hint=hint)
            return begin + file.read()
    except FileNotFoundError:
        return b""
    except OSError as error:
        raise corpus.unreadable(path, error) from None
    except ValueError as error:  # an embedded NUL
        raise LoreError(f"cannot open {shown!r}: {error}") from None


def store(path: str, known: LogCheckpoint) -> LoreError | None:
    """Write a checkpoint; return why it cannot be done, where it cannot."""
    try:
        data = msgspec.msgpack.encode(known)
        with replaced(os.path.realpath(path), private=True) as file:
            file.writelines([_FIRST, crc32(data).to_bytes(_CRC, "big"), data])
    except (OSError, ValueError) as error:
        reason = (error.strerror or str(error)).lower() if isinstance(error, OSError) else str(error)
        hint = "the answer is whole; the next run folds the log from an earlier place"
        return LoreError(f"cannot write the checkpoint {corpus.show(path)}: {reason}", hint=hint)
    return None


class Digester:
    """Take the fingerprint of a log whose bytes come in any pieces, or go on from one with its first and last MiB."""

    def __init__(self, size: int = 0, whole: int = 0, head: bytes = b"", tail: bytes = b"") -> None:
        self._size, self._whole, self._head, self._tail = size, whole, head, tail

    def feed(self, data: bytes) -> None:
        """Take the next bytes."""
        if len(self._head) < BLOCK:
            self._head += data[: BLOCK - len(self._head)]
        self._tail = data[-BLOCK:] if len(data) >= BLOCK else (self._tail + data)[-BLOCK:]
        self._whole = crc32(data, self._whole)
        self._size += len(data)

    @property
    def fingerprint(self) -> Fingerprint:
        """The fingerprint of what has come."""
        return Fingerprint(self._size, crc32(self._head), crc32(self._tail), self._whole)


def recognised(file: BinaryIO, known: Fingerprint, *, whole: bool) -> Digester:
    """Return what goes on from a fingerprint, and leave the file where that ended; UnusableError for another log.

    Reads the first and the last MiB of what the fingerprint covers; all of it where `whole` is asked for.
    """
    size = file.seek(0, 2)
    if size < known.size:
        raise UnusableError(f"the log has shrunk from {known.size:,} to {size:,} bytes")
    begin = max(0, known.size - BLOCK)
    head, tail = _read(file, 0, min(BLOCK, known.size)), _read(file, begin, known.size - begin)
    if crc32(head) != known.head:
        raise UnusableError("the log begins with other bytes: it was rewritten, or is another")
    if crc32(tail) != known.tail:
        raise UnusableError("the log was rewritten")
    if whole:
        found = 0
        for at in range(0, known.size, BLOCK):
            found = crc32(_read(file, at, min(BLOCK, known.size - at)), found)
        if found != known.whole:
            raise UnusableError("the log was rewritten in its middle")
    file.seek(known.size)
    return Digester(known.size, known.whole, head, tail)


def _read(file: BinaryIO, begin: int, size: int) -> bytes:
    """Read a range; less where the file has become shorter."""
    file.seek(begin)
    return file.read(size)
