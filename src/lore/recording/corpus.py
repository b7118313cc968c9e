"""The outside world of recordings: names to inputs, inputs to bytes, folders and patterns to files.

Rules: a name is a path, that of a remote file, `-` (standard input), a stored session (`URL#SESSION_ID`), or one of
them with `#TURN` or `#CHAIN:TURN`; a file that exists under the whole name wins, then a stored session.
Inputs are read in pieces and never written. What cannot be opened is a LoreError with the name; a folder is walked in
the order of names, links to folders are not followed, hidden names are left out.
"""

from __future__ import annotations

import os
import re
import stat
import sys
from collections.abc import Callable, Generator, Iterable, Iterator
from io import FileIO
from itertools import chain
from typing import NamedTuple

from lore.errors import LoreError, Where, reason_of
from lore.files import WholeFile, is_named_pipe
from lore.formats.beginning import SQLITE, is_document, may_be_recording
from lore.formats.folders import OPENING
from lore.model.deferred import pattern
from lore.model.events import MAIN
from lore.model.limits import RECORD_BYTES
from lore.model.vector import common_prefix
from lore.recording import filesystem, packed, zstd
from lore.recording.agents import session_folders
from lore.store.registry import address_of, is_store, mask_url, read_log, session_exists

PIECE = 1024 * 1024
HEAD = 256 * 1024
HEAD_LIMIT = RECORD_BYTES  # no reader keeps a line that is longer than this
STDIN = "-"
_STORAGE = frozenset(("session", "message", "part"))
_JSON_LINES = ".jsonl"
_OPENCODE = (b"session", b"message", b"part")  # tables of OpenCode's databases, which their first page names
_SELECTOR = re.compile(r"^(?:(?P<chain>.+):)?(?P<turn>\d{1,12})$", re.DOTALL)


class Name(NamedTuple):
    """What the user named: a file, and perhaps one turn of it (`turn` None: the last, or all)."""

    path: str
    chain: str | None = None
    turn: int | None = None

    def __str__(self) -> str:
        shown = show(self.path)
        if self.turn is None:
            return shown
        return f"{shown}#{self.turn}" if self.chain in (None, MAIN) else f"{shown}#{self.chain}:{self.turn}"


def parse_name(text: str) -> Name:
    """Read `PATH`, `PATH#N`, `PATH#CHAIN:N`, where PATH may be a stored session."""
    if text == STDIN or "#" not in text or filesystem.exists(text):
        return Name(packed.task_of(text))
    path, _, selector = text.rpartition("#")
    path = STDIN if path == "<stdin>" else path  # `-#2`, which a command line would take for an option
    match = _SELECTOR.match(selector)
    stored = address_of(text)
    if match is None or not path or (stored is not None and ("#" not in stored.session_id or session_exists(stored))):
        return Name(text)
    return Name(packed.task_of(path), match["chain"], int(match["turn"]))


def show(path: str) -> str:
    """Return a name that can be printed: bytes that are no text become escapes, and no password is shown."""
    return mask_url(os.fsencode(path).decode("utf-8", "backslashreplace")) if path != STDIN else "<stdin>"


def is_stored(path: str) -> bool:
    """Tell whether a name is that of a session in a store."""
    return address_of(path) is not None


def opencode():  # noqa: ANN201 - the module, with its types
    """Return who reads the places where OpenCode keeps sessions: few inputs lie there, and importing it takes time."""
    from lore.recording.agents import opencode_store  # noqa: PLC0415 - as it says

    return opencode_store


def is_in_database(path: str) -> bool:
    """Tell whether a name is that of a session in an agent's database (`DATABASE#SESSION`)."""
    if "#" not in path or filesystem.is_remote(path) or os.path.lexists(path) or is_stored(path):
        return False
    return opencode().session_in(path) is not None


def is_database(path: str) -> bool:
    """Tell whether a name is that of an SQLite database, or of a session in one."""
    if path == STDIN or filesystem.is_remote(path) or is_stored(path) or is_store(path):
        return False
    return opencode().is_sqlite(path) or is_in_database(path)


def pieces(path: str, size: int = PIECE) -> Generator[bytes]:
    """Read an input from its beginning; raises LoreError where it cannot be opened or read."""
    stored = address_of(path)
    if stored is not None:
        yield from read_log(stored, size)
        return
    if is_store(path):
        hint = "name a session in it, URL#SESSION_ID; `lore store list` names them"
        raise LoreError(f"{show(path)} is a store, not a session", hint=hint)
    if filesystem.is_remote(path):
        try:
            yield from filesystem.remote_pieces(path, size)
        except FileNotFoundError:
            if filesystem.is_folder(path):
                raise LoreError(f"{show(path)} is not a file", hint=folder_hint(path)) from None
            raise
        except OSError as error:
            raise unreadable(path, error) from None
        return
    if "#" in path and not os.path.lexists(path) and (named := opencode().session_in(path)) is not None:
        yield from opencode().database_stream(*named)
        return
    try:
        if path == STDIN:
            if sys.stdin is None:
                raise LoreError("standard input is closed", hint="name a file, or pipe one in")
            yield from _standard_input(sys.stdin.fileno(), size)
            return
        with _opened(path, pipe=True) as file:
            while data := file.read(size):
                yield data
    except OSError as error:
        raise unreadable(path, error) from None


def _standard_input(descriptor: int, size: int) -> Iterator[bytes]:
    """Yield standard input to its end; of a file that is redirected, to the end that it has now."""
    status = os.fstat(descriptor)
    left = status.st_size - os.lseek(descriptor, 0, os.SEEK_CUR) if stat.S_ISREG(status.st_mode) else None
    while left is None or left > 0:
        data = os.read(descriptor, size if left is None else min(size, left))
        if not data:
            return
        left = None if left is None else left - len(data)
        yield data


def _opened(path: str, *, pipe: bool = False) -> FileIO:
    """Open a file that ends where it ends now; with `pipe` also one that this process got open from a shell."""
    try:
        mode = os.stat(path).st_mode
        if is_named_pipe(path):
            raise LoreError(f"{show(path)} is a named pipe, not a file", hint=f"pass it as standard input: - < {path}")
        if pipe and stat.S_ISFIFO(mode):
            return open(path, "rb", buffering=0)
        if not stat.S_ISREG(mode):
            raise LoreError(f"{show(path)} is not a file", hint=folder_hint(path))
        return WholeFile(path)
    except OSError as error:
        raise unreadable(path, error) from None
    except ValueError as error:  # an embedded NUL
        raise LoreError(f"cannot open {show(path)!r}: {error}") from None


def common_length(left: str, right: str) -> tuple[int, int, int]:
    """Return the sizes of two files and the length of their literal common prefix, in bytes.

    Reads both up to the first difference, into two blocks of 256 KiB that are used again and again: the
    way in which two files are compared fastest (measured against `cmp`). Of a stored session its log is compared,
    of one of a database its export.
    Raises LoreError for what cannot be read.
    """
    if any(is_stored(name) or is_in_database(name) or filesystem.is_remote(name) for name in (left, right)):
        return common_of(pieces(left), pieces(right))
    with _opened(left) as first, _opened(right) as second:
        sizes = os.fstat(first.fileno()).st_size, os.fstat(second.fileno()).st_size
        left_block, right_block = bytearray(HEAD), bytearray(HEAD)
        common = 0
        try:
            while True:
                read, peer = _fill(first, left_block), _fill(second, right_block)
                if read != peer or left_block != right_block:
                    break
                common += read
                if read < HEAD:
                    return *sizes, common
        except OSError as error:
            raise unreadable(left, error) from None
    return *sizes, common + common_prefix(bytes(left_block[:read]), bytes(right_block[:peer]))


def common_of(left: Iterable[bytes], right: Iterable[bytes]) -> tuple[int, int, int]:
    """Return the sizes of two texts that come in pieces, and the length of their common beginning, in bytes."""
    pieces, sizes, held = (iter(left), iter(right)), [0, 0], [b"", b""]
    common, differ = 0, False
    while True:
        for side in (0, 1):
            if not held[side]:
                held[side] = next(pieces[side], b"")
                sizes[side] += len(held[side])
        if differ or not all(held):
            break
        shorter = min(map(len, held))
        same = common_prefix(held[0][:shorter], held[1][:shorter])
        common, differ = common + same, same < shorter
        held = [piece[shorter:] for piece in held]
    for side in (0, 1):
        sizes[side] += sum(map(len, pieces[side]))
    return sizes[0], sizes[1], common


def _fill(file: FileIO, block: bytearray) -> int:
    """Read a block, or what is left; what the block held before stays behind it, on both sides alike."""
    read = file.readinto(block)
    while 0 < read < len(block):
        more = file.readinto(memoryview(block)[read:])
        if not more:
            break
        read += more
    if read < len(block):
        block[read:] = bytes(len(block) - read)
    return read


def folder_hint(path: str) -> str:
    """Say what to name in place of what is no file."""
    return "name a file in it; `lore check` takes folders" if filesystem.is_folder(path) else "name a regular file"


_SCHEME = pattern(r"[a-z][a-z0-9+.-]*://", re.IGNORECASE)


def unreadable(path: str, error: OSError) -> LoreError:
    """Say that a file cannot be read, and why."""
    if isinstance(error, LoreError):  # of a remote one
        return error
    if _SCHEME.match(path) and not os.path.lexists(path):
        message = f"cannot read {show(path)}: lore reads nothing from {path.partition('://')[0]}://"
        hint = f"addresses that it reads begin with {'://, '.join(filesystem.schemes())}://"
        return LoreError(message, hint=hint, where=Where(show(path)))
    hint = "a whole session is read here: leave #TURN out" if parse_name(path).turn is not None else ""
    return LoreError(f"cannot read {show(path)}: {reason_of(error)}", hint=hint, where=Where(show(path)))


class Opened(NamedTuple):
    """The beginning of an input, and all of it, to be iterated once."""

    head: bytes
    data: Iterator[bytes]


def open_head(path: str) -> Opened:
    """Read enough of an input to recognise it: 256 KiB, or to the end of the first line.

    Of a first line that is longer than any reader keeps, and of a document, its beginning has to do; of a pack,
    its first line.
    """
    source = _source(path)
    taken: list[bytes] = []
    size, whole_line, enough = 0, False, False
    for data in source:
        if not taken:
            enough = data.startswith(OPENING) or not may_be_recording(data) or is_document(data)
        taken.append(data)
        size += len(data)
        whole_line = whole_line or b"\n" in data
        if enough or size >= HEAD_LIMIT or (whole_line and size >= HEAD):
            break
    head = taken[0] if size >= HEAD_LIMIT and not whole_line else b"".join(taken)
    taken.reverse()

    def everything() -> Iterator[bytes]:
        while taken:  # what was handed on is kept no longer
            yield taken.pop()
        yield from source

    end = head.rfind(b"\n") + 1 if len(head) >= HEAD else 0
    return Opened(head[:end] if end else head, everything())


def _source(path: str) -> Iterator[bytes]:
    """Yield the bytes of an input, unpacked; those of a folder or an archive that is one recording as a pack.

    Before an agent's log stands what a store beside it says of its requests.
    """
    if path != STDIN and not filesystem.is_remote(path) and os.path.isdir(path) and (names := packed.members(path)):
        yield from packed.folder_stream(path, names)
        return
    if path.endswith(".json") and _lies_in_storage(path) and opencode().is_session_file(path):
        yield from opencode().storage_stream(path)
        return
    source = pieces(path, HEAD)
    try:
        first = next(source, b"")
    except LoreError:  # of what is remote, most are files, and are read without a look whether they are folders
        if not filesystem.is_remote(path) or not (names := packed.members(path)):
            raise
        yield from packed.folder_stream(path, names)
        return
    if first.startswith(zstd.MAGIC):
        yield from zstd.unpacked(chain((first,), source), show(path))
        return
    if first.startswith(SQLITE) and filesystem.is_remote(path) and all(name in first for name in _OPENCODE):
        source.close()
        message = f"{show(path)} is a database of sessions, which cannot be read remotely"
        raise LoreError(message, hint="copy it here, with what lies beside it (-wal), and name the copy")
    is_here = first.startswith(SQLITE) and path != STDIN and not filesystem.is_remote(path) and not is_stream(path)
    if is_here and (sessions := opencode().sessions_of(path)):
        source.close()
        yield from opencode().database_stream(path, opencode().only_session(path, sessions))
        return
    if not first.startswith(packed.ARCHIVE):
        if path.endswith(_JSON_LINES):
            from lore.recording.agents.usage_stores import lines_before  # noqa: PLC0415 - which loads plug-ins

            yield from lines_before(path, first)
        yield first
        yield from source
        return
    if is_stream(path) or path == STDIN:
        raise LoreError(f"{show(path)} is an archive, which cannot be read as it comes", hint="name the file itself")
    source.close()
    yield from packed.archive_stream(path)


def _lies_in_storage(path: str) -> bool:
    """Tell whether a file lies where OpenCode's storage folder keeps sessions."""
    return os.path.basename(os.path.dirname(os.path.dirname(os.path.abspath(path)))) == "session"


def files_below(folder: str, failed_on: Callable[[str, LoreError], None]) -> Iterator[str]:
    """Yield the files below a folder, in the order of their names, hidden and special ones left out.

    A folder below it that cannot be listed is handed to `failed_on`, with the reason.
    """

    def failed(place: str, error: LoreError | OSError) -> None:
        failed_on(place, error if isinstance(error, LoreError) else unreadable(place, error))

    for path, folders, names in filesystem.walk(folder, failed):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        if set(folders) >= _STORAGE:  # OpenCode's: messages and parts are read with their session
            folders[:] = ["session"]
        folders[:] = [name for name in folders if not session_folders.is_part(name, names)]
        for name in sorted(names):
            file = os.path.join(path, name)
            if not name.startswith(".") and not is_special(file):
                yield file


def is_special(path: str) -> bool:
    """Tell whether a name is a pipe, socket or device, whose reading might never end."""
    try:
        return not filesystem.is_remote(path) and not stat.S_ISREG(os.stat(path).st_mode)
    except (OSError, ValueError):
        return False  # let opening it say what is wrong


def is_folder(path: str) -> bool:
    """Tell whether a name is a folder: one that is a recording has no bytes of its own."""
    return path != STDIN and filesystem.is_folder(path)


def is_same(left: str, right: str) -> bool:
    """Tell whether two names are one file."""
    stored = address_of(left), address_of(right)
    try:
        if stored[0] is not None and stored[1] is not None and stored[0].session_id == stored[1].session_id:
            left, right = (address.url.partition(":")[2] for address in stored if address is not None)
        return left == right or os.path.samefile(left, right)
    except (OSError, ValueError):
        return False


def is_stream(path: str) -> bool:
    """Tell whether an input can be read only once."""
    return path == STDIN or (os.path.exists(path) and is_special(path) and not os.path.isdir(path))
