"""Fold a session with a checkpoint: read only what was added since the last run.

In: a log and a checkpoint file. Out: what a cold fold gives, to the byte, and a new checkpoint. Rules:
- what is saved is the state before the reader closes what is open, what is shown the state after it;
- a checkpoint is a line that says what it is, then of each run the texts that were new, a `LogCheckpoint` (MessagePack)
  and a seal; the last one holds, and its checksum is that of the whole file;
- it is appended to, and written whole (temporary name, fsync, rename) where it would be more than twice as large as it
  must be: to write it whole each time takes four times the CPU of appending (200 MB, one turn more: 0.88 s, 0.21 s);
- it holds prompt text, so only its owner may read it;
- one that does not fit is refused with its reason, and the log is folded from its beginning; a file that is no
  checkpoint is never written to;
- a log is known again by its size and the CRC-32 of its first and last MiB, of all of it where that is asked for.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from mmap import ACCESS_READ, mmap
from typing import BinaryIO, NamedTuple
from zlib import crc32

import msgspec
from msgspec import Struct

from lore import __version__
from lore.errors import LoreError
from lore.files import append, replaced, try_lock
from lore.model.checkpoint import CRC, SavedState, restore, save, sealed, unsealed
from lore.model.codes import Problem
from lore.model.results.store import TurnResult
from lore.model.state import FoldedSession
from lore.recording import corpus, filesystem
from lore.recording.base import Problems, collected_seldom
from lore.recording.opening import Options, reader_named
from lore.run.folding import Folded, LogFold, TurnRows

VERSION = 4
MAGIC = b'{"kind":"lore-checkpoint",'
_FIRST = MAGIC + b'"version":%d}\n' % VERSION
BLOCK = 1024 * 1024
_NOT_FILES = (
    (corpus.is_stream, "cannot be read twice: no checkpoint of it can be used"),
    (corpus.is_stored, "is a stored session: a checkpoint is one of a file"),
    (filesystem.is_remote, "is remote: a checkpoint is one of a file here"),
    (corpus.is_in_database, "is a session of a database: a checkpoint is one of a file"),
)


class Resumed(NamedTuple):
    """The answer; why the checkpoint was refused, where it was; why no new one was written, where none was."""

    folded: Folded
    refused: str | None
    failure: LoreError | None


def fold_resumed(path: str, options: Options, checkpoint: str, *, verify: bool = False) -> Resumed:
    """Fold a session from its checkpoint where that fits, else from the beginning; write a new checkpoint.

    Costs O(what was added) plus reading and writing the checkpoint; `verify` reads all of the log to
    compare it; subagents' files are read anew each time. Raises LoreError where the log cannot be folded,
    or `checkpoint` is some other file.
    """
    for is_one, what in _NOT_FILES:
        if is_one(path):
            raise LoreError(f"{corpus.show(path)} {what}", hint="name a file, or leave --checkpoint out")
    if corpus.is_same(path, checkpoint):
        raise LoreError("the checkpoint and the session are one file", hint="name another file for the checkpoint")
    with collected_seldom():
        refused = None
        try:
            loaded = load(checkpoint)
            if loaded is not None:
                return _resume(path, options, checkpoint, loaded, verify=verify)
        except UnusableError as error:
            refused = f"checkpoint {corpus.show(checkpoint)} is not used: {error.message}; the log is folded anew"
        opened = corpus.open_head(path)
        folding = LogFold(options.open(path, Problems(), subagents=True, opened=opened))
        return _fold(folding, opened.data, Digester(), checkpoint)._replace(refused=refused)


def _resume(path: str, options: Options, checkpoint: str, loaded: LoadedCheckpoint, *, verify: bool) -> Resumed:
    known, name = loaded.known, loaded.known.format
    if options.format not in (None, name):
        raise UnusableError(f"it was read as {name}, not as {options.format}")
    try:
        reader = reader_named(name).restore(known.reader)
    except (ValueError, RecursionError, LoreError) as error:
        raise UnusableError(f"the state of its reader ({name}) cannot be restored: {error}") from None
    try:
        session = restore(known.session, loaded.data, options.rules.divider)
    except LoreError as error:
        raise UnusableError(error.message) from None
    try:
        with open(path, "rb") as file:
            digester = recognised(file, known.log, whole=verify)
            opened = corpus.Opened(b"", iter(()))
            folding = LogFold(replace(options, format=name).open(path, Problems(), subagents=True, opened=opened))
            recording = folding.recording
            recording.resume(reader, session)
            recording.problems.kept = [
                msgspec.structs.replace(problem, file=recording.shown) for problem in known.problems
            ]
            recording.problems.counts.update({(code, recording.shown): many for code, many in known.counts.items()})
            folding.pruned, folding.turns = dict.fromkeys(known.pruned), TurnRows(known.turns)
            options.log(f"{recording.shown}: {known.log.size:,} bytes known from {corpus.show(checkpoint)}")
            return _fold(folding, iter(lambda: file.read(corpus.PIECE), b""), digester, checkpoint, loaded)
    except OSError as error:
        raise corpus.unreadable(path, error) from None


def _fold(
    folding: LogFold, data: Iterator[bytes], digester: Digester, checkpoint: str, before: LoadedCheckpoint | None = None
) -> Resumed:
    """Fold what comes, save where that ended (behind what is saved), then close what is open and answer."""
    recording, problems = folding.recording, folding.recording.problems
    for piece in data:
        digester.feed(piece)
        folding.take_all(recording.take(piece))
    known = LogCheckpoint(
        __version__, recording.reader.name, digester.fingerprint, list(folding.pruned),
        list(folding.turns.rows),
        [msgspec.structs.replace(problem, file=None) for problem in problems.kept],
        {code: number for (code, _), number in problems.counts.items()},
        recording.reader.state,
    )  # fmt: skip
    state = recording.state
    folding.take_all(recording.finish())
    folding.take_all(recording.companions_reads())
    unchanged = before is not None and before.known.log == known.log
    failure = None if unchanged else store(checkpoint, known, state, before and before.data)
    return Resumed(folding.result(), None, failure)


# the file


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

    `turns` are the requests so far, with their bills; `session` is the head of a saved state.
    """

    lore: str
    format: str
    log: Fingerprint
    pruned: list[str]
    turns: list[TurnResult]
    problems: list[Problem]
    counts: dict[str, int]
    reader: bytes
    session: bytes = b""


class LoadedCheckpoint(NamedTuple):
    """A checkpoint, and all bytes of its file, in which the texts of its session lie."""

    known: LogCheckpoint
    data: memoryview


def load(path: str) -> LoadedCheckpoint | None:
    """Load a checkpoint; None where there is none yet (no file, or an empty one).

    Raises UnusableError where it is damaged or of another version, LoreError where the file is something
    else or cannot be read.
    """
    data = _read_file(path)
    if not data:
        return None
    if bytes(data[: len(_FIRST)]) != _FIRST:
        raise UnusableError(f"it is damaged, or of another version than {VERSION}")
    try:
        known = msgspec.msgpack.decode(unsealed(data), type=LogCheckpoint)
    except ValueError as error:
        raise UnusableError(f"it is damaged: {error}") from None
    if known.lore != __version__:
        raise UnusableError(f"it is of lore {known.lore}, this is {__version__}")
    return LoadedCheckpoint(known, data)


def _read_file(path: str) -> memoryview:
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
            if begin and os.name != "nt":  # Windows replaces no file that is mapped
                with suppress(OSError):  # some file systems map none
                    return memoryview(mmap(file.fileno(), 0, access=ACCESS_READ))
            return memoryview(begin + file.read())
    except FileNotFoundError:
        return memoryview(b"")
    except OSError as error:
        raise corpus.unreadable(path, error) from None
    except ValueError as error:  # an embedded NUL
        raise LoreError(f"cannot open {shown!r}: {error}") from None


def store(path: str, known: LogCheckpoint, state: FoldedSession, data: memoryview | None) -> LoreError | None:
    """Write a checkpoint, behind `data` where the file holds that; return why it cannot be done, where it cannot.

    Costs O(what changed), and O(items) once in as many runs as double the file.
    """
    try:
        if data is None or not _append(path, known, state, data):
            saved = save(state, at=len(_FIRST))
            with replaced(os.path.realpath(path), private=True) as file:
                file.writelines([_FIRST, *sealed(saved.texts, _head(known, saved), crc32(_FIRST))])
    except (OSError, ValueError) as error:
        reason = (error.strerror or str(error)).lower() if isinstance(error, OSError) else str(error)
        hint = "the answer is whole; the next run folds the log from an earlier place"
        return LoreError(f"cannot write the checkpoint {corpus.show(path)}: {reason}", hint=hint)
    return None


def _head(known: LogCheckpoint, saved: SavedState) -> bytes:
    return msgspec.msgpack.encode(msgspec.structs.replace(known, session=saved.head))


def _append(path: str, known: LogCheckpoint, state: FoldedSession, data: memoryview) -> bool:
    """Append to a file that holds `data`; False where it holds something else by now, or is better written whole."""
    saved, last = save(state, at=len(data), known=data), data[-CRC:]
    more = b"".join(sealed(saved.texts, _head(known, saved), crc32(last, int.from_bytes(last, "big"))))
    if len(data) > 2 * saved.kept + len(more):  # most of the file would be no longer needed
        return False
    try:
        with open(path, "r+b", buffering=0) as file:
            file.seek(len(data) - CRC)
            if not try_lock(file.fileno()) or file.read() != last:
                return False
            os.chmod(path, 0o600)
            append(file.fileno(), more, len(data))
    except (PermissionError, FileNotFoundError):
        return False
    return True


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
