"""Unpack files compressed with zstandard: Codex packs cold rollouts (`rollout-*.jsonl.zst`).

In: pieces of a compressed file, of one frame or several. Out: their content, in pieces. Rules: memory is bounded
whatever the bytes expand to, since few of them are taken at a time; a file that is damaged or ends inside a frame is a
LoreError after what could be read.

Source: RFC 8878; a block, of 4 bytes at least, holds 128 KiB at most.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from lore.errors import LoreError, Where
from lore.model.limits import ZSTD_WINDOW_BYTES

MAGIC = b"\x28\xb5\x2f\xfd"
ENDING = ".zst"
_STEP = 1024  # compressed bytes at a time: 32 MiB at most when they are unpacked
_PIECE = 256 * 1024


def unpacked(pieces: Iterable[bytes], shown: str) -> Iterator[bytes]:
    """Yield the content of compressed pieces."""
    from lore.formats.contents import zstd_library  # noqa: PLC0415 - few files are compressed

    library, frame, found = zstd_library(), None, bytearray()
    kind = library.ZstdDecompressor  # the package's makes another object for each frame, Python's own is one itself
    for rest in (piece[at : at + _STEP] for piece in pieces for at in range(0, len(piece), _STEP)):
        while rest:
            if frame is None:
                has_frames = hasattr(kind, "decompressobj")
                frame = kind(max_window_size=ZSTD_WINDOW_BYTES).decompressobj() if has_frames else kind()
            try:
                found += frame.decompress(rest)
            except library.ZstdError as error:
                if found:
                    yield bytes(found)
                raise LoreError(f"cannot read {shown}: damaged zstandard data ({error})", where=Where(shown)) from None
            rest, frame = (frame.unused_data, None) if frame.eof else (b"", frame)  # noqa: PLW2901
        if len(found) >= _PIECE:
            yield bytes(found)
            found.clear()
    if found:
        yield bytes(found)
    if frame is not None:
        raise LoreError(f"cannot read {shown}: the zstandard data ends too soon", where=Where(shown))
