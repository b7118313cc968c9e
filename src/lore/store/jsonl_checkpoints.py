"""Checkpoints beside a log: one file each, a cache that may be lost; what cannot be read is none."""

from __future__ import annotations

from zlib import crc32

import msgspec

from lore.store.base import Checkpoint

_OPENING = b"lore-checkpoint-1\n"
LONGEST = 1 << 40


def checkpoint_bytes(checkpoint: Checkpoint) -> bytes:
    """Write a checkpoint with its check."""
    data = msgspec.msgpack.encode(checkpoint)
    return _OPENING + b"%08x\n" % crc32(data) + data


def read_checkpoint(data: bytes | None) -> Checkpoint | None:
    """Read a checkpoint; None where it is missing, damaged, or of another version."""
    if data is None or not data.startswith(_OPENING):
        return None
    check, _, rest = data[len(_OPENING) :].partition(b"\n")
    if check != b"%08x" % crc32(rest):
        return None
    try:
        return msgspec.msgpack.decode(rest, type=Checkpoint)
    except (ValueError, RecursionError):
        return None
