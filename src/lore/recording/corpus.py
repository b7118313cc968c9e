"""Names to sources, sources to bytes: `resolve` decides once what a name is, and each kind of source opens itself.

A name is a path, the address of a remote file, `-` (standard input), a stored session (`URL#SESSION_ID`), or a session
of an agent's database (`DATABASE#SESSION_ID`); each may be followed by `#TURN` or `#CHAIN:TURN`. A file that exists
under the whole name wins, then a stored session. Sources are read in pieces and never written.
"""

from __future__ import annotations

import os
import re
import stat
import sys
from binascii import b2a_base64
from codecs import BOM_UTF16_BE, BOM_UTF16_LE, iterdecode
from collections.abc import Callable, Generator, Iterator
from functools import partial
from io import FileIO
from itertools import chain
from typing import NamedTuple, TypeAlias

from lore.errors import LoreError, Where, reason_of
from lore.files import WholeFile, is_named_pipe
from lore.formats.beginning import SQLITE, is_document, may_be_recording, peek
from lore.formats.contents import ContentError, CutError, compression_of, unpack
from lore.formats.folders import EVENTS, OPENING, STATE
from lore.model.deferred import pattern
from lore.model.events import MAIN
from lore.model.limits import RECORD_BYTES
from lore.model.vector import common_prefix
from lore.recording import filesystem, packed
from lore.store.registry import SessionAddress, address_of, ignore, is_store, mask_url, read_log, session_exists

PIECE = 1024 * 1024  # bytes that are read at a time
HEAD = 256 * 1024  # bytes by which an input is recognised
_ARCHIVE = b"PK\x03\x04"  # how ZIP files begin
_SEPARATOR = b"\x1e"  # before each record of a JSON text sequence (RFC 7464); no JSON text holds it
_BLOCK = 64 * 1024  # bytes of files that are compared: larger blocks are mapped again each time, a third as fast
HEAD_LIMIT = RECORD_BYTES  # no reader keeps a line that is longer than this
STDIN = "-"
_STORAGE = frozenset(("session", "message", "part"))  # folders in OpenCode's storage folder
_OPENCODE = (b"session", b"message", b"part")  # tables of OpenCode's databases, which their first page names
_SELECTOR = pattern(r"^(?:(?P<chain>.+):)?(?P<turn>\d{1,12})$", re.DOTALL)
_SCHEME = pattern(r"[a-z][a-z0-9+.-]*://", re.IGNORECASE)


OnFailure: TypeAlias = Callable[[str, LoreError], None]  # receives a folder that cannot be listed, and the reason


# names


class Name(NamedTuple):
    """A recording, and perhaps one turn of it."""

    path: str  # a file of a session's folder became the folder
    chain: str | None = None  # None: the main one, or the first one without a main one
    turn: int | None = None  # None: the last turn, or all

    def __str__(self) -> str:
        label = show(self.path)
        if self.turn is None:
            return label
        return f"{label}#{self.turn}" if self.chain in (None, MAIN) else f"{label}#{self.chain}:{self.turn}"


def parse_name(text: str) -> Name:
    """Parse `PATH`, `PATH#TURN` or `PATH#CHAIN:TURN`; an existing file or stored session wins over a turn."""
    if text == STDIN or "#" not in text or filesystem.exists(text):
        return Name(packed.session_folder_of(text))
    path, _, selector = text.rpartition("#")
    path = STDIN if path == "<stdin>" else path  # `-#2` would be an option on a command line
    match = _SELECTOR.match(selector)
    stored = address_of(text)
    if match is None or not path or (stored is not None and ("#" not in stored.session_id or session_exists(stored))):
        return Name(text)
    return Name(packed.session_folder_of(path), match["chain"], int(match["turn"]))


def show(path: str) -> str:
    """Return a name that can be printed: undecodable bytes as escapes, passwords masked."""
    return mask_url(os.fsencode(path).decode("utf-8", "backslashreplace")) if path != STDIN else "<stdin>"


def is_same(first: str, second: str) -> bool:
    """Return whether two names mean the same file or stored session."""
    stored = address_of(first), address_of(second)
    try:
        if stored[0] is not None and stored[1] is not None and stored[0].session_id == stored[1].session_id:
            first, second = (address.url.partition(":")[2] for address in stored if address is not None)
        return first == second or os.path.samefile(first, second)
    except (OSError, ValueError):
        return False


# sources


class TornFileError(LoreError):
    """A compressed file ends too soon, after content that was returned."""


class Source:
    """The input that a name refers to."""

    can_rewind = True  # False: it can be read only once

    def __init__(self, name: str) -> None:
        self.name = name

    def pieces(self, size: int = PIECE) -> Iterator[bytes]:
        """Yield the bytes from the beginning; raises LoreError if it cannot be opened or read."""
        raise NotImplementedError

    def recording(self) -> Iterator[bytes]:
        """Yield the bytes that readers of recordings get: decompressed, of a folder or database as one stream."""
        chunks = self.pieces(HEAD)
        first = next(chunks, b"")
        yield from self._unpack(first, chunks)

    def _unpack(self, first: bytes, tail: Iterator[bytes]) -> Iterator[bytes]:
        """Return the pieces `first` and `tail` decompressed, in UTF-8, and without record separators (0x1E)."""
        if first.startswith(_ARCHIVE):
            message = f"{show(self.name)} is an archive, which cannot be read as it comes"
            raise LoreError(message, hint="name the file itself")
        whole = chain((first,), tail)
        if kind := compression_of(first):
            whole = self._decompress(whole, kind)
        start, whole = peek(whole)
        if start == _SEPARATOR:
            return (piece.replace(_SEPARATOR, b" ") for piece in whole)
        first = next(whole, b"")
        whole = chain((first,), whole)
        if first.startswith((BOM_UTF16_LE, BOM_UTF16_BE)):  # PowerShell writes it
            return (text.encode("utf-8", "replace") for text in iterdecode(whole, "utf-16", "replace"))
        return whole

    def _decompress(self, chunks: Iterator[bytes], kind: str) -> Iterator[bytes]:
        label, is_empty = show(self.name), True
        try:
            for piece in unpack(chunks, kind, must_end=True):
                is_empty = False
                yield piece
        except ContentError as error:
            if isinstance(error, CutError) and not is_empty:
                raise TornFileError(f"{label} is cut off: {error}", where=Where(label)) from None
            raise LoreError(f"cannot read {label}: {error}", where=Where(label), own=True) from None


class Stdin(Source):
    """Standard input; a redirected file is read up to the end that it has when reading begins."""

    can_rewind = False

    def pieces(self, size: int = PIECE) -> Iterator[bytes]:
        if sys.stdin is None:
            raise LoreError("standard input is closed", hint="name a file, or pipe one in")
        try:
            descriptor, remaining = sys.stdin.fileno(), sys.maxsize
            status = os.fstat(descriptor)
            if stat.S_ISREG(status.st_mode):
                remaining = max(0, status.st_size - os.lseek(descriptor, 0, os.SEEK_CUR))
            while data := os.read(descriptor, min(size, remaining)):
                remaining -= len(data)
                yield data
        except OSError as error:
            raise unreadable(self.name, error) from None


class LocalFile(Source):
    """A file on this machine, read up to the end that it has when it is opened; a missing one raises LoreError then."""

    def pieces(self, size: int = PIECE) -> Iterator[bytes]:
        try:
            with self._open_file() as file:
                while data := file.read(size):
                    yield data
        except OSError as error:
            raise unreadable(self.name, error) from None
        except ValueError as error:  # an embedded NUL
            raise LoreError(f"cannot open {show(self.name)!r}: {error}", own=True) from None

    def _open_file(self) -> FileIO:
        if not stat.S_ISREG(os.stat(self.name).st_mode):
            raise LoreError(f"{show(self.name)} is not a file", hint=_folder_hint(self.name), own=True)
        return WholeFile(self.name)

    def recording(self) -> Iterator[bytes]:
        folder = os.path.dirname(os.path.dirname(os.path.abspath(self.name)))  # "session" in OpenCode's storage
        is_in_storage = self.name.endswith(".json") and os.path.basename(folder) == "session"
        if is_in_storage and opencode().is_session_file(self.name):
            return opencode().storage_stream(self.name)
        return super().recording()

    def _unpack(self, first: bytes, tail: Iterator[bytes]) -> Iterator[bytes]:
        path = self.name
        if first.startswith(_ARCHIVE):
            return packed.archive_stream(path)
        if first.startswith(SQLITE) and (sessions := opencode().sessions_of(path)):
            return opencode().database_stream(path, opencode().only_session(path, sessions))
        whole = super()._unpack(first, tail)
        if path.endswith(".jsonl") and b'"session.start"' in first:
            from lore.recording.agents.copilot_usage import usage_lines  # noqa: PLC0415 - few logs are Copilot's

            whole = chain(usage_lines(path, first), whole)
        return whole


class Pipe(LocalFile):
    """A pipe or device: only an unnamed pipe, which a shell opened for this process, can be read."""

    can_rewind = False
    recording, _unpack = Source.recording, Source._unpack  # noqa: SLF001

    def _open_file(self) -> FileIO:
        if is_named_pipe(self.name):
            label = show(self.name)
            raise LoreError(f"{label} is a named pipe, not a file", hint=f"pass it as standard input: - < {label}")
        if stat.S_ISFIFO(os.stat(self.name).st_mode):
            return open(self.name, "rb", buffering=0)
        return super()._open_file()


class Folder(LocalFile):
    """A folder. Its recording is the pack of its files, if they are one together; its bytes raise LoreError."""

    def recording(self) -> Iterator[bytes]:
        return packed.folder_stream(self.name) or super().recording()


class DatabaseSource(Source):
    """A session of OpenCode's database, written as an export."""

    def __init__(self, name: str, database: str, session: str) -> None:
        super().__init__(name)
        self.database, self.session = database, session

    def pieces(self, size: int = PIECE) -> Iterator[bytes]:  # noqa: ARG002 - its pieces are messages
        return opencode().database_stream(self.database, self.session)

    def recording(self) -> Iterator[bytes]:
        return self.pieces()


class StoreSource(Source):
    """A session in a store of lore's; without an address the store itself, which only lists sessions."""

    def __init__(self, name: str, address: SessionAddress | None) -> None:
        super().__init__(name)
        self.address = address

    def pieces(self, size: int = PIECE) -> Iterator[bytes]:  # noqa: ARG002 - a store loads the whole log
        if self.address is None:
            hint = "name a session in it, URL#SESSION_ID; `lore store list` names them"
            raise LoreError(f"{show(self.name)} is a store, not a session", hint=hint)
        return iter((read_log(self.address),))


class Remote(Source):
    """A remote file, or a remote folder whose files are one recording together."""

    def pieces(self, size: int = PIECE) -> Iterator[bytes]:
        try:
            yield from filesystem.remote_pieces(self.name, size)
        except FileNotFoundError:
            if filesystem.is_folder(self.name):
                raise LoreError(f"{show(self.name)} is not a file", hint=_folder_hint(self.name), own=True) from None
            raise
        except OSError as error:
            raise unreadable(self.name, error) from None

    def recording(self) -> Iterator[bytes]:
        chunks = self.pieces(HEAD)
        try:
            first = next(chunks, b"")
        except LoreError:  # most are files: a folder is tried only after an error
            whole = packed.folder_stream(self.name)
            if whole is None:
                raise
            yield from whole
        else:
            yield from self._unpack(first, chunks)

    def _unpack(self, first: bytes, tail: Iterator[bytes]) -> Iterator[bytes]:
        if first.startswith(SQLITE) and all(name in first for name in _OPENCODE):
            message = f"{show(self.name)} is a database of sessions, which cannot be read remotely"
            raise LoreError(message, hint="copy it here, with its -wal file, and name the copy")
        return packed.archive_stream(self.name) if first.startswith(_ARCHIVE) else super()._unpack(first, tail)


def resolve(name: str) -> Source:
    """Return the source that a name without a turn refers to; for an unknown name a `LocalFile`, which is missing."""
    if name == STDIN:
        return Stdin(name)
    if filesystem.is_remote(name):
        return Remote(name)
    try:
        mode = os.stat(name).st_mode
    except (OSError, ValueError):
        address = address_of(name)
        if address is not None or is_store(name):
            return StoreSource(name, address)
        session = opencode().session_in(name) if "#" in name else None
        return LocalFile(name) if session is None else DatabaseSource(name, *session)
    if stat.S_ISREG(mode):
        return LocalFile(name)
    return Folder(name) if stat.S_ISDIR(mode) else Pipe(name)


def opencode():  # noqa: ANN201 - the module, with its types
    """Return the module that reads OpenCode's sessions, imported only when it is needed."""
    from lore.recording.agents import opencode_store  # noqa: PLC0415 - as it says

    return opencode_store


def is_stored(path: str) -> bool:
    """Return whether a name has the form of a stored session (`URL#SESSION_ID`), which may be missing."""
    return address_of(path) is not None


def is_in_database(path: str) -> bool:
    """Return whether a name is `DATABASE#SESSION`, a session in an agent's database."""
    return "#" in path and isinstance(resolve(path), DatabaseSource)


def is_stream(path: str) -> bool:
    """Return whether an input, as a pipe, can be read only once."""
    return not resolve(path).can_rewind


def check_followable(path: str) -> None:
    """Raise LoreError if an input is not a local file or folder, which can grow."""
    label, again = show(path), "run the command again after a while"
    if is_stored(path):
        hint = f"{again}, or `lore store export` it to a file"
        raise LoreError(f"{label} is a stored session, not a file that grows", hint=hint)
    if filesystem.is_remote(path):
        raise LoreError(f"{label} is remote, not a file that grows here", hint=f"{again}: what is written comes whole")
    if is_stream(path):
        raise LoreError(f"{label} is a stream, not a file that grows", hint="name the file that is being written")


# reading


def pieces(path: str, size: int = PIECE) -> Generator[bytes]:
    """Yield the bytes of an input as they are; raises LoreError if it cannot be opened or read."""
    yield from resolve(path).pieces(size)


class Opened(NamedTuple):
    """An input that is open."""

    head: bytes  # its beginning, in whole lines if it is long
    data: Iterator[bytes]  # all of it, the head included, to be iterated once


# WireMock keeps responses in files of a folder next to that of its mappings (wiremock.org, stubbing, 2026-11).
_BODY_FILE = pattern(rb"""["']?bodyFileName["']?[ \t]*:[ \t]*["']?([^"'\r\n,{}]{1,200})["']?""")


def _join_body_file(path: str, named: re.Match[bytes]) -> bytes:
    """Return the response in a file that a mapping names, as a member of JSON or YAML; what was there without one."""
    base, is_mapping, _ = os.path.abspath(path).replace(os.sep, "/").rpartition("/mappings/")
    name = os.fsdecode(named[1].strip())
    file = os.path.join(base, "__files", name)
    if not is_mapping or ".." in name or os.path.isabs(name) or not os.path.isfile(file):
        return named[0]
    with open(file, "rb") as opened:
        data = opened.read(RECORD_BYTES)
    return b'"body": {"base64_string": "%b"}' % b2a_base64(data, newline=False)


def open_head(path: str) -> Opened:
    """Open an input as a recording, with enough of it read to recognise it: 256 KiB, or the first line if it is longer.

    The first piece is enough if it is of a pack, of a document, of no recording, or of a line that no reader keeps.
    """
    source = resolve(path).recording()
    head_pieces: list[bytes] = []
    size, whole_line, torn = 0, False, list[TornFileError]()
    try:
        for data in source:
            head_pieces.append(data)
            size += len(data)
            whole_line = whole_line or b"\n" in data
            if size >= HEAD_LIMIT or (whole_line and size >= HEAD):
                break
            if size == len(data) and (data.startswith(OPENING) or not may_be_recording(data) or is_document(data)):
                break
    except TornFileError as error:
        torn.append(error)
    head = head_pieces[0] if size >= HEAD_LIMIT and not whole_line else b"".join(head_pieces)
    if b"bodyFileName" in head and (joined := _BODY_FILE.sub(partial(_join_body_file, path), head)) != head:
        head, head_pieces = joined, [joined]
    head_pieces.reverse()

    def everything() -> Iterator[bytes]:
        while head_pieces:  # free each piece when it is passed on
            yield head_pieces.pop()
        if torn:
            raise torn[0]
        yield from source

    end = head.rfind(b"\n") + 1 if len(head) >= HEAD else 0
    return Opened(head[:end] if end else head, everything())


def common_length(first: str, second: str) -> tuple[int, int, int]:
    """Return the lengths in bytes of two inputs and of their common prefix; raises LoreError if one is unreadable."""
    sides, buffers = [pieces(first, _BLOCK), pieces(second, _BLOCK)], [b"", b""]
    common = 0
    while True:
        buffers = [piece or next(side, b"") for piece, side in zip(buffers, sides, strict=True)]
        shorter, same = min(map(len, buffers)), common_prefix(*buffers)
        common += same
        if same < shorter or not shorter:
            break
        buffers = [piece[shorter:] for piece in buffers]
    after = [len(piece) + sum(map(len, side)) for piece, side in zip(buffers, sides, strict=True)]
    before = common - same
    return before + after[0], before + after[1], common


def begins_with(path: str, other: str) -> bool:
    """Return whether a file has all bytes of another one at its beginning; False if one of them cannot be read."""
    mine, theirs = pieces(path, _BLOCK), pieces(other, _BLOCK)
    try:
        return all(next(mine, b"").startswith(piece) for piece in theirs)
    except LoreError:
        return False


def _folder_hint(path: str) -> str:
    """Return the hint for a command that needs a regular file, and got a folder, a pipe or a device."""
    return "name a file in it; `lore check` takes folders" if filesystem.is_folder(path) else "name a regular file"


def unreadable(path: str, error: OSError) -> LoreError:
    """Return the error to raise for a file that cannot be read, with a hint if the name shows the reason."""
    if isinstance(error, LoreError):  # of a remote one
        return error
    if _SCHEME.match(path) and not os.path.lexists(path):
        message = f"cannot read {show(path)}: lore reads nothing from {path.partition('://')[0]}://"
        hint = f"addresses that it reads begin with {'://, '.join(filesystem.schemes())}://"
        return LoreError(message, hint=hint, where=Where(show(path)), own=True)
    hint = "a whole session is read here: leave #TURN out" if parse_name(path).turn is not None else ""
    message = f"cannot read {show(path)}: {reason_of(error)}"
    return LoreError(message, hint=hint, where=Where(show(path)), own=True)


def list_folder(folder: str, failed_on: OnFailure) -> list[filesystem.FolderEntry | os.DirEntry[str]]:
    """Return the entries of a folder in any order; none if it is missing, or if `failed_on` received an error."""
    entries: list[filesystem.FolderEntry | os.DirEntry[str]] = []
    try:
        entries.extend(filesystem.entries(folder))
    except (FileNotFoundError, NotADirectoryError):
        pass
    except OSError as error:
        failed_on(folder, unreadable(folder, error))
    return entries


def files_below(
    folder: str, failed_on: OnFailure, on_hidden: Callable[[str], object] = ignore
) -> Iterator[str]:  # fmt: skip
    """Yield the files below a folder in the order of their names, without hidden and special ones.

    Links to folders are not followed. Messages of OpenCode's storage and events of a session's folder are left out. A
    folder that cannot be listed is passed to `failed_on`, with the reason, a hidden one to `on_hidden`.
    """
    with filesystem.list_once(folder):
        waiting = [folder]
        while waiting:
            place = waiting.pop()
            entries = sorted(list_folder(place, failed_on), key=lambda entry: entry.name)
            folders = [entry.name for entry in entries if entry.is_dir(follow_symlinks=False)]
            names = [entry.name for entry in entries if not entry.name.startswith(".") and entry.name not in folders]
            for name in [name for name in folders if name.startswith(".")]:
                on_hidden(os.path.join(place, name))
                folders.remove(name)
            if {*folders} >= _STORAGE:  # messages and parts are read with their session
                folders = ["session"]
            folders = [name for name in folders if name != EVENTS or STATE not in names]  # those are parts of a session
            waiting += [os.path.join(place, name) for name in reversed(folders)]
            files = (os.path.join(place, name) for name in names)
            yield from (file for file in files if not isinstance(resolve(file), Folder | Pipe))
