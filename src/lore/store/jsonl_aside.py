"""What a writer that died left behind the last whole delta: kept in a file beside the log, then cut off."""

from __future__ import annotations

import os

from lore.store.jsonl_files import append, failed, read_range, synchronise_folder, writing


def put_aside(descriptor: int, end: int, size: int, path: str, aside: str, patience: float) -> str:
    """Move the bytes of a file that stand behind `end`; returns what a person should know. Raises StoreError."""
    data = read_range(descriptor, end, size)
    with writing(aside, patience, create=True) as kept:
        append(kept, data, os.fstat(kept).st_size, aside)
    synchronise_folder(os.path.dirname(aside))
    try:
        os.ftruncate(descriptor, end)
    except OSError as error:
        raise failed(error, "repair", path) from None
    return f"{path}: the last {len(data):,} bytes were a delta that was never acknowledged; they are in {aside}"
