"""Unpack files compressed with zstandard, as Codex packs cold rollouts (`rollout-*.jsonl.zst`), or with gzip.

In: pieces of a compressed file, of one frame or several. Out: their content, in pieces. Rules: memory is bounded
whatever the bytes expand to, since few of them are taken at a time; a file that is damaged or ends inside a frame is a
LoreError after what could be read.

Source: RFC 8878 and RFC 1952; a block of zstandard, of 4 bytes at least, holds 128 KiB at most.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from lore.errors import LoreError, Where
from lore.model.limits import ZSTD_WINDOW_BYTES

MAGIC, GZIP = b"\x28\xb5\x2f\xfd", b"\x1f\x8b\x08"
ENDING = ".zst"
_STEP = 1024  # compressed bytes at a time: 32 MiB at most when they are unpacked
_PIECE = 256 * 1024


def _frame_maker(*, is_gzip: bool) -> tuple[Callable[[], Any], type[Exception]]:
    """Return what makes a decompressor of one frame, and its error."""
    if is_gzip:
        return lambda: zlib.decompressobj(zlib.MAX_WBITS | 16), zlib.error
    from lore.formats.contents import zstd_library  # noqa: PLC0415 - few files are compressed

    library = zstd_library()
    kind = library.ZstdDecompressor  # the package's makes another object for each frame, Python's own is one itself
    if hasattr(kind, "decompressobj"):
        return lambda: kind(max_window_size=ZSTD_WINDOW_BYTES).decompressobj(), library.ZstdError
    return kind, library.ZstdError


def unpacked(pieces: Iterable[bytes], shown: str, *, is_gzip: bool = False) -> Iterator[bytes]:
    """Yield the content of compressed pieces."""
    make, fault = _frame_maker(is_gzip=is_gzip)
    frame, found, name = None, bytearray(), "gzip" if is_gzip else "zstandard"
    for rest in (piece[at : at + _STEP] for piece in pieces for at in range(0, len(piece), _STEP)):
        while rest:
            frame = make() if frame is None else frame
            try:
                found += frame.decompress(rest)
            except fault as error:
                if found:
                    yield bytes(found)
                raise LoreError(f"cannot read {shown}: damaged {name} data ({error})", where=Where(shown)) from None
            rest, frame = (frame.unused_data, None) if frame.eof else (b"", frame)  # noqa: PLW2901
        if len(found) >= _PIECE:
            yield bytes(found)
            found.clear()
    if found:
        yield bytes(found)
    if frame is not None:
        raise LoreError(f"cannot read {shown}: the {name} data ends too soon", where=Where(shown))
