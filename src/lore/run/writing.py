"""Write a file whole or not at all: to a temporary name beside it, synchronised, renamed."""

from __future__ import annotations

import os
from collections.abc import Generator, Iterable
from contextlib import contextmanager, suppress
from typing import BinaryIO

from lore.errors import LoreError
from lore.files import replaced
from lore.recording import corpus
from lore.store.registry import holds


@contextmanager
def written(path: str, *, force: bool, inputs: Iterable[str] = ()) -> Generator[BinaryIO]:
    """Open a file to be written; it takes its name when all has been written, and never when that fails.

    Raises LoreError where it exists (unless `force`), is no regular file, is one of the inputs, or of the files
    of a store that was read.
    """
    shown = corpus.show(path)
    path = os.path.realpath(path) if os.path.islink(path) else path  # what a link names is written, and it stays
    if "\0" in path:
        raise LoreError(f"cannot write {shown!r}: no file can have this name")
    if any(corpus.is_same(path, one) or holds(one, path) for one in inputs):
        raise LoreError(f"{shown} is what is being read", hint="name another file")
    if os.path.lexists(path) and not os.path.isfile(path):
        kind = "is a folder" if os.path.isdir(path) else "is not a regular file"
        raise LoreError(f"{shown} {kind}", hint="name a file, or leave it out and redirect standard output")
    if os.path.lexists(path) and not force:
        raise LoreError(f"{shown} exists", hint="name another file, or overwrite it with --force")
    if os.path.lexists(path) and not os.access(path, os.W_OK):
        raise LoreError(f"{shown} is read-only", hint="make it writable, or name another file")
    try:
        with suppress(FileNotFoundError):
            os.lstat(path)  # a name that no file can have is refused now, and not when all has been written
        with replaced(path) as file:
            yield file
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise LoreError(f"cannot write {shown}: {reason}", hint="name a file in a folder that can be written") from None
