"""Checkpoints on disk: where a fold stopped, so that the next one reads only what was added.

One file: a line that says what it is, then frames. A frame is the JSON of items that are new, what the
run knew (JSON), the reader's state, the session's head, and a line that says where all of that stands,
items of earlier frames included, each with its checksum. The last frame that is whole holds. Rules:
- saving appends a frame, so that one more turn of a long session costs that turn; once a quarter of the
  file is of no use any more it is replaced whole (temporary name, fsync, rename). What a crash leaves
  behind a frame is passed over: either the new checkpoint is there, or the one before;
- it holds prompt text, so only its owner may read it;
- a file that is no checkpoint is never written to.
"""

from __future__ import annotations

import contextlib
import os
import stat
from typing import NamedTuple
from zlib import crc32

import msgspec
from msgspec import Struct

from lore import __version__
from lore.errors import LoreError
from lore.files import replaced
from lore.model.checkpoint import Loaded, Range, Saved, restore
from lore.model.codes import Problem
from lore.recording import corpus
from lore.run.fingerprint import Fingerprint

VERSION = 1
MAGIC = b'{"kind":"lore-checkpoint",'
_FIRST = MAGIC + b'"version":%d}\n' % VERSION
_FRAME = b'\n{"kind":"frame",'
_ROOM = 64 * 1024  # bytes of old frames that are nothing to speak of
PRIVATE = 0o600


class UnusableError(LoreError):
    """A checkpoint that cannot be gone on from, and may be replaced; the message says why."""


class Section(NamedTuple):
    """Where bytes stand in the file, and their checksum (CRC-32)."""

    begin: int
    size: int
    crc: int


class _Frame(Struct, frozen=True, tag="frame", tag_field="kind"):
    run: Section
    reader: Section
    head: Section
    items: tuple[Section, ...]


class Run(Struct, frozen=True):
    """What a run knew when it had read all there was; `problems` and `counts` without the file's name."""

    lore: str
    format: str
    log: Fingerprint
    pruned: list[str]
    problems: list[Problem]
    counts: dict[str, int]


class Checkpoint(NamedTuple):
    """A checkpoint as it was loaded: `data` is the whole file, `items` the sections that may be kept."""

    run: Run
    reader: bytes
    session: Loaded
    data: memoryview
    items: tuple[Section, ...]


def load(path: str) -> Checkpoint | None:
    """Load a checkpoint; None where there is none yet (no file, or an empty one).

    Raises UnusableError where it is damaged or of another version, LoreError where the file is something
    else or cannot be read.
    """
    data = _read(path)
    if not data:
        return None
    if not data.startswith(_FIRST):
        raise UnusableError(f"it is damaged, or of another version than {VERSION}")
    frame = _last_frame(data)
    view = memoryview(data)
    run, reader, head, *items = [_section(view, one) for one in (frame.run, frame.reader, frame.head, *frame.items)]
    try:
        known = msgspec.json.decode(run, type=Run)
    except ValueError as error:
        raise UnusableError(f"it is damaged: {error}") from None
    if known.lore != __version__:
        raise UnusableError(f"it is of lore {known.lore}, this is {__version__}")
    try:
        return Checkpoint(known, bytes(reader), restore(head, items), view, frame.items)
    except LoreError as error:
        raise UnusableError(error.message) from None


def _read(path: str) -> bytes:
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
            file.seek(0)
            return file.read()
    except FileNotFoundError:
        return b""
    except OSError as error:
        raise corpus.unreadable(path, error) from None
    except ValueError as error:  # an embedded NUL
        raise LoreError(f"cannot open {shown!r}: {error}") from None


def _last_frame(data: bytes) -> _Frame:
    """Find the last frame whose line is whole: what stands behind it was never finished."""
    begin, end = data.rfind(_FRAME), -1
    if begin >= 0:
        end = data.find(b"\n", begin + 1)
        if end < 0:
            begin = data.rfind(_FRAME, 0, begin)
            end = data.find(b"\n", begin + 1)
    if begin < 0:
        raise UnusableError("it is damaged: no frame of it is whole")
    try:
        return msgspec.json.decode(data[begin:end], type=_Frame)
    except ValueError as error:
        raise UnusableError(f"it is damaged: {error}") from None


def _section(data: memoryview, where: Section) -> memoryview:
    part = data[where.begin : where.begin + where.size] if min(where) >= 0 else data[:0]
    if len(part) != where.size or crc32(part) != where.crc:
        raise UnusableError("it is damaged: a checksum does not hold")
    return part


def store(path: str, run: Run, reader: bytes, session: Saved, before: Checkpoint | None) -> None:
    """Write a checkpoint; `before` is the one that was gone on from. Raises LoreError where it cannot be done."""
    small = [msgspec.json.encode(run), reader, session.head]
    try:
        if before is not None and _has_room(session, small, before):
            frame = _lay_out(len(before.data), session, small, before, keep=True)
            if _append(path, frame, len(before.data)):
                return
        frame = _lay_out(len(_FIRST), session, small, before, keep=False)
        with replaced(os.path.realpath(path), private=True) as file:
            file.writelines([_FIRST, *frame])
    except (OSError, ValueError) as error:
        reason = (error.strerror or str(error)).lower() if isinstance(error, OSError) else str(error)
        hint = "the answer is whole; the next run folds the log from an earlier place"
        raise LoreError(f"cannot write the checkpoint {corpus.show(path)}: {reason}", hint=hint) from None


def _has_room(session: Saved, small: list[bytes], before: Checkpoint) -> bool:
    """Tell whether what is of no use any more would stay below a quarter of the file."""
    kept = sum(one.end - one.begin for one in session.items if isinstance(one, Range))
    return len(before.data) - kept < _ROOM + (kept + sum(map(len, small))) // 4


def _lay_out(
    at: int, session: Saved, small: list[bytes], before: Checkpoint | None, *, keep: bool
) -> list[bytes | memoryview]:
    """Return the pieces of a frame that begins at byte `at`; `keep` names old items where they stand."""
    pieces: list[bytes | memoryview] = []
    items: list[Section] = []

    def put(piece: bytes | memoryview) -> Section:
        nonlocal at
        pieces.append(piece)
        at += len(piece)
        return Section(at - len(piece), len(piece), crc32(piece))

    for one in session.items:
        if isinstance(one, bytes):
            items.append(put(one))
            continue
        assert before is not None
        old = before.items[one.piece]
        where = Section(old.begin + one.begin, one.end - one.begin, old.crc)
        text = before.data[where.begin : where.begin + where.size]
        if not keep:
            items.append(put(text))
        else:
            items.append(where if where.size == old.size else where._replace(crc=crc32(text)))
    run, reader, head = map(put, small)
    line = msgspec.json.encode(_Frame(run, reader, head, tuple(items)))
    return [*pieces, b"\n" + line + b"\n"]


def _append(path: str, pieces: list[bytes | memoryview], size: int) -> bool:
    """Append to the file that was loaded; False where it is not as it was, or not private."""
    with open(path, "r+b", buffering=0) as file:
        found = os.fstat(file.fileno())
        if found.st_size != size or stat.S_IMODE(found.st_mode) != PRIVATE:
            return False
        file.seek(size)
        try:
            _write(file.fileno(), pieces)
        except OSError:
            with contextlib.suppress(OSError):
                file.truncate(size)
            raise
    return True


def _write(descriptor: int, pieces: list[bytes | memoryview]) -> None:
    for piece in pieces:
        rest = memoryview(piece)
        while len(rest):
            rest = rest[os.write(descriptor, rest) :]
    os.fsync(descriptor)
