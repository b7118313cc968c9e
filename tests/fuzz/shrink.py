"""Make an input that breaks a law smaller, as long as it breaks the same one."""

import time
from collections.abc import Callable


def shrink(data: bytes, breaks: Callable[[bytes], bool], seconds: float) -> bytes:
    """Return a smaller input: first fewer lines, then fewer bytes; stops when the time is up."""
    end = time.monotonic() + seconds
    lines = _fewer(data.splitlines(keepends=True), lambda kept: breaks(b"".join(kept)), end)
    pieces = [bytes((one,)) for one in b"".join(lines)]
    return b"".join(_fewer(pieces, lambda kept: breaks(b"".join(kept)), end))


def _fewer(pieces: list[bytes], breaks: Callable[[list[bytes]], bool], end: float) -> list[bytes]:
    size = max(1, len(pieces) // 2)
    while pieces:
        at, smaller = 0, False
        while at < len(pieces):
            if time.monotonic() > end:
                return pieces
            kept = pieces[:at] + pieces[at + size :]
            if breaks(kept):
                pieces, smaller = kept, True
            else:
                at += size
        if size == 1 and not smaller:
            return pieces
        size = max(1, size // 2) if not smaller or size > 1 else 1
    return pieces
