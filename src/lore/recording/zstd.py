"""Files compressed with zstandard, as they are read: Codex packs cold rollouts (`rollout-*.jsonl.zst`).

In: pieces of a compressed file, of one frame or several. Out: what they hold, in pieces. Rules: memory is bounded
whatever the bytes expand to, since few of them are taken at a time; a file that is damaged or ends inside a frame is a
LoreError behind what could be read; without a library that reads the format (Python 3.14 has one, else
`lore-cache[zstd]`) it is one at once.

Source: RFC 8878; a block, of 4 bytes at least, holds 128 KiB at most.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple, Protocol

from lore.errors import LoreError, Where

MAGIC = b"\x28\xb5\x2f\xfd"
ENDING = ".zst"
_STEP = 1024  # compressed bytes at a time: 32 MiB at most when they are unpacked
_PIECE = 256 * 1024
_WINDOW = 64 * 1024 * 1024


class _Frame(Protocol):
    """A frame that is being unpacked."""

    @property
    def eof(self) -> bool: ...
    @property
    def unused_data(self) -> bytes: ...
    def decompress(self, data: bytes, /) -> bytes: ...


class _Library(NamedTuple):
    """How a frame is begun, and what says that it is damaged."""

    begin: Callable[[], _Frame]
    error: type[Exception]


def unpacked(pieces: Iterable[bytes], shown: str) -> Iterator[bytes]:
    """Yield what compressed pieces hold."""
    library = _library(shown)
    frame: _Frame | None = None
    found = bytearray()
    for rest in (piece[at : at + _STEP] for piece in pieces for at in range(0, len(piece), _STEP)):
        while rest:
            frame = frame or library.begin()
            try:
                found += frame.decompress(rest)
            except library.error as error:
                if found:
                    yield bytes(found)
                raise _unreadable(shown, f"damaged zstandard data ({error})") from None
            rest, frame = (frame.unused_data, None) if frame.eof else (b"", frame)  # noqa: PLW2901
        if len(found) >= _PIECE:
            yield bytes(found)
            found.clear()
    if found:
        yield bytes(found)
    if frame is not None:
        raise _unreadable(shown, "the zstandard data ends too soon")


def _library(shown: str) -> _Library:
    from lore.formats.contents import zstd_library  # noqa: PLC0415 - few files are compressed

    library = zstd_library()
    if library is None:
        hint = "pip install 'lore-cache[zstd]', or unpack the file (zstd -d) and name that"
        raise LoreError(f"{shown} is compressed with zstandard, which this Python cannot read", hint=hint)
    if hasattr(library.ZstdDecompressor, "decompressobj"):  # the package's
        return _Library(lambda: library.ZstdDecompressor(max_window_size=_WINDOW).decompressobj(), library.ZstdError)
    return _Library(library.ZstdDecompressor, library.ZstdError)


def _unreadable(shown: str, reason: str) -> LoreError:
    return LoreError(f"cannot read {shown}: {reason}", where=Where(shown))
