"""Know a log again: by how much of it was read, and digests of that.

In: the bytes of a log, in pieces, from its beginning. Out: a fingerprint. Rules: the digest of all is
taken over whole blocks of 1 MiB, so that reading can go on later with nothing but the last MiB at hand
(a running hash cannot be saved); what fills no block is in the last MiB.
"""

from __future__ import annotations

from hashlib import blake2b
from io import FileIO

from msgspec import Struct

BLOCK = 1024 * 1024


class Fingerprint(Struct, frozen=True):
    """`size` bytes, digests of their first and last MiB, and of all their whole MiBs (hex)."""

    size: int
    head: str
    tail: str
    blocks: str


class Digester:
    """Take a fingerprint of bytes that come in any pieces; costs O(bytes)."""

    def __init__(self) -> None:
        self.size = 0
        self._head = b""
        self._recent = b""
        self._chain = b""
        self._block = blake2b(digest_size=16)

    @classmethod
    def resume(cls, known: Fingerprint, head: bytes, tail: bytes) -> Digester:
        """Go on from a fingerprint with the first and the last MiB of what it covers."""
        made = cls()
        made.size = known.size
        made._head, made._recent = head, tail
        made._chain = bytes.fromhex(known.blocks)
        begun = known.size % BLOCK
        made._block.update(tail[len(tail) - begun :])
        return made

    def feed(self, data: bytes) -> None:
        """Take the next bytes."""
        if len(self._head) < BLOCK:
            self._head += data[: BLOCK - len(self._head)]
        self._recent = data[-BLOCK:] if len(data) >= BLOCK else (self._recent + data)[-BLOCK:]
        rest = memoryview(data)
        while len(rest):
            room = BLOCK - self.size % BLOCK
            self._block.update(rest[:room])
            self.size += min(room, len(rest))
            rest = rest[room:]
            if self.size % BLOCK == 0:
                self._chain = blake2b(self._chain + self._block.digest(), digest_size=16).digest()
                self._block = blake2b(digest_size=16)

    @property
    def fingerprint(self) -> Fingerprint:
        """The fingerprint of what has come."""
        return Fingerprint(self.size, _digest(self._head), _digest(self._recent), self._chain.hex())


def recognised(file: FileIO, known: Fingerprint, *, whole: bool) -> Digester | str:
    """Return what goes on from a fingerprint, or why the log is another; leaves the file where it ended.

    Reads the first and the last MiB of what the fingerprint covers; all of it where `whole` is asked for.
    """
    size = file.seek(0, 2)
    if size < known.size:
        return f"the log has shrunk from {known.size:,} to {size:,} bytes"
    begin = max(0, known.size - BLOCK)
    head, tail = _read(file, 0, min(BLOCK, known.size)), _read(file, begin, known.size - begin)
    if _digest(head) != known.head:
        return "the log begins with other bytes: it was rewritten, or is another"
    if _digest(tail) != known.tail:
        return "the log was rewritten"
    if whole and _all(file, known.size) != known:
        return "the log was rewritten in its middle"
    file.seek(known.size)
    return Digester.resume(known, head, tail)


def _all(file: FileIO, size: int) -> Fingerprint:
    digester = Digester()
    for begin in range(0, size, BLOCK):
        digester.feed(_read(file, begin, min(BLOCK, size - begin)))
    return digester.fingerprint


def _read(file: FileIO, begin: int, size: int) -> bytes:
    """Read a range; less where the file has become shorter."""
    file.seek(begin)
    pieces: list[bytes] = []
    while size > 0 and (data := file.read(size)):
        pieces.append(data)
        size -= len(data)
    return b"".join(pieces)


def _digest(data: bytes) -> str:
    return blake2b(data, digest_size=16).hexdigest()
