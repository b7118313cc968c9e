"""Checkpoints on disk: where a fold stopped, so that the next one reads only what was added.

One file: a line of JSON (kind, version, size and checksum of each section), then the sections side by
side: what the run knew (JSON), the reader's state, the session's head, its items. Rules: it holds prompt
text, so only its owner may read it; it is replaced whole (temporary name, fsync, rename) or not at all;
a file that is no checkpoint is never replaced.
"""

from __future__ import annotations

import contextlib
import os
import stat
import tempfile
from typing import NamedTuple
from zlib import crc32

import msgspec
from msgspec import Struct

from lore import __version__, corpus
from lore.errors import LoreError
from lore.model.checkpoint import Loaded, Saved, restore
from lore.model.problems import Problem
from lore.run.fingerprint import Fingerprint

VERSION = 1
MAGIC = b'{"kind":"lore-checkpoint",'


class UnusableError(LoreError):
    """A checkpoint that cannot be gone on from, and may be replaced; the message says why."""


class Section(NamedTuple):
    """Size and checksum (CRC-32) of a section."""

    size: int
    crc: int


class _Header(Struct, frozen=True):
    version: int
    run: Section
    reader: Section
    head: Section
    items: Section


class Run(Struct, frozen=True):
    """What a run knew when it had read all there was; `problems` and `counts` without the file's name."""

    lore: str
    format: str
    log: Fingerprint
    pruned: list[str]
    problems: list[Problem]
    counts: dict[str, int]


class Checkpoint(NamedTuple):
    """A checkpoint as it was loaded; `items` is the section that may be written again."""

    run: Run
    reader: bytes
    session: Loaded
    items: Section


def load(path: str) -> Checkpoint | None:
    """Load a checkpoint; None where there is none yet (no file, or an empty one).

    Raises UnusableError where it is damaged or of another version, LoreError where the file is something
    else or cannot be read.
    """
    shown = corpus.show(path)
    try:
        if not stat.S_ISREG(os.stat(path).st_mode):
            raise LoreError(f"{shown} is not a file", hint="name a file for the checkpoint")
        with open(path, "rb", buffering=0) as file:
            data = file.read()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise corpus.unreadable(path, error) from None
    except ValueError as error:  # an embedded NUL
        raise LoreError(f"cannot open {shown!r}: {error}") from None
    if not data:
        return None
    if not data.startswith(MAGIC):
        hint = "name a file that does not exist yet, or an earlier checkpoint"
        raise LoreError(f"{shown} is no checkpoint of lore and will not be overwritten", hint=hint)
    return _loaded(memoryview(data), data.find(b"\n"))


def _loaded(data: memoryview, end: int) -> Checkpoint:
    header = _header(data[:end] if end >= 0 else data)
    at = end + 1
    parts: list[memoryview] = []
    for size, crc in (header.run, header.reader, header.head, header.items):
        part = data[at : at + size] if size >= 0 else data[:0]
        if len(part) != size or crc32(part) != crc:
            raise UnusableError("it is damaged")
        parts.append(part)
        at += size
    if at != len(data):
        raise UnusableError("it is damaged: it has bytes left over")
    try:
        run = msgspec.json.decode(parts[0], type=Run)
        if run.lore != __version__:
            raise UnusableError(f"it is of lore {run.lore}, this is {__version__}")
        return Checkpoint(run, bytes(parts[1]), restore(parts[2], parts[3]), header.items)
    except msgspec.DecodeError as error:
        raise UnusableError(f"it is damaged: {error}") from None
    except UnusableError:
        raise
    except LoreError as error:
        raise UnusableError(error.message) from None


def _header(line: memoryview) -> _Header:
    try:
        version = msgspec.json.decode(line, type=dict[str, msgspec.Raw]).get("version", msgspec.Raw(b"null"))
        if bytes(version) != str(VERSION).encode():
            raise UnusableError(f"it is of version {bytes(version[:20]).decode()}, this lore reads {VERSION}")
        return msgspec.json.decode(line, type=_Header)
    except ValueError as error:
        raise UnusableError(f"it is damaged: {error}") from None


def store(path: str, run: Run, reader: bytes, session: Saved, before: Checkpoint | None) -> None:
    """Write a checkpoint in the place of the one before; raises LoreError where that cannot be done."""
    known = before is not None and session.reused == before.items.size
    seed = before.items if before is not None and known else Section(0, 0)
    pieces = session.items[1:] if known and seed.size else session.items
    size, crc = seed
    for piece in pieces:
        size, crc = size + len(piece), crc32(piece, crc)
    small = [msgspec.json.encode(run), reader, session.head]
    sections = [*(Section(len(one), crc32(one)) for one in small), Section(size, crc)]
    named = dict(zip(("run", "reader", "head", "items"), sections, strict=True))
    header = msgspec.json.encode({"kind": "lore-checkpoint", "version": VERSION, **named}) + b"\n"
    try:
        _replace(os.path.realpath(path), [b"".join([header, *small]), *session.items])
    except (OSError, ValueError) as error:
        reason = (error.strerror or str(error)).lower() if isinstance(error, OSError) else str(error)
        hint = "the answer is whole; the next run folds the log from its beginning"
        raise LoreError(f"cannot write the checkpoint {corpus.show(path)}: {reason}", hint=hint) from None


def _replace(path: str, pieces: list[bytes | memoryview]) -> None:
    folder, name = os.path.split(path)
    descriptor, temporary = tempfile.mkstemp(prefix=f".{name[:100]}.", suffix=".tmp", dir=folder)  # mode 0600
    try:
        with open(descriptor, "wb", buffering=0) as file:
            for piece in pieces:
                rest = memoryview(piece)
                while len(rest):
                    rest = rest[file.write(rest) :]
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise
