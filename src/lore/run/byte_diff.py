"""The literal comparison of two inputs: how many bytes they begin alike.

In: two names, of files or stored sessions. Out: sizes and a length in bytes. Nothing is parsed. `cli/quick` answers
with it before anything else is loaded, so it imports little.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable
from io import FileIO

from lore.errors import LoreError
from lore.model.vector import common_prefix
from lore.recording.corpus import HEAD, folder_hint, is_stored, pieces, show, unreadable


def common_length(left: str, right: str) -> tuple[int, int, int]:
    """Return the sizes of two files and the length of their literal common prefix, in bytes.

    Reads both up to the first difference, into two blocks of 256 KiB that are used again and again: the
    way in which two files are compared fastest (measured against `cmp`). Of a stored session its log is compared.
    Raises LoreError for what cannot be read.
    """
    if is_stored(left) or is_stored(right):
        return common_of(pieces(left), pieces(right))
    with _opened(left) as mine, _opened(right) as theirs:
        sizes = os.fstat(mine.fileno()).st_size, os.fstat(theirs.fileno()).st_size
        one, other = bytearray(HEAD), bytearray(HEAD)
        common = 0
        try:
            while True:
                read, peer = _fill(mine, one), _fill(theirs, other)
                if read != peer or one != other:
                    break
                common += read
                if read < HEAD:
                    return *sizes, common
        except OSError as error:
            raise unreadable(left, error) from None
    return *sizes, common + common_prefix(bytes(one[:read]), bytes(other[:peer]))


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
        held = [one[shorter:] for one in held]
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


def _opened(path: str) -> FileIO:
    try:
        if not stat.S_ISREG(os.stat(path).st_mode):
            raise LoreError(f"{show(path)} is not a file", hint=folder_hint(path))
        return open(path, "rb", buffering=0)
    except OSError as error:
        raise unreadable(path, error) from None
    except ValueError as error:
        raise LoreError(f"cannot open {show(path)!r}: {error}") from None
