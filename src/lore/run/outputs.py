"""Open the files that commands write: whole or not at all, and never over an input.

A file is written under a temporary name in the same folder, synchronised, then renamed.
"""

from __future__ import annotations

import os
from collections.abc import Generator, Iterable
from contextlib import contextmanager, suppress
from typing import BinaryIO

from lore.errors import LoreError, reason_of
from lore.files import replaced
from lore.recording import corpus, filesystem
from lore.recording.opening import kind_of
from lore.store.registry import is_file_of_store


@contextmanager
def open_output(path: str, *, force: bool, inputs: Iterable[str] = ()) -> Generator[BinaryIO]:
    """Open a file to be written. It takes its name when all is written; if that fails, nothing is left.

    Raise LoreError if it exists (unless `force`), is not a regular file, is one of the inputs, or belongs to a store
    that was read.
    """
    filesystem.refuse_output(path)
    shown = corpus.show(path)
    path = os.path.realpath(path) if os.path.islink(path) else path  # what a link names is written, and it stays
    if "\0" in path:
        raise LoreError(f"cannot write {shown!r}: no file can have this name")
    if any(corpus.is_same(path, source) or is_file_of_store(source, path) for source in inputs):
        raise LoreError(f"{shown} is an input of this command", hint="name another file")
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
        hint = "name a file in a folder that can be written"
        raise LoreError(f"cannot write {shown}: {reason_of(error)}", hint=hint) from None


def refuse_recording(path: str) -> None:
    """Raise LoreError if a file that is to be written is a recording: lore never replaces one."""
    if os.path.isfile(path) and kind_of(corpus.open_head(path).head, None) is not None:
        raise LoreError(f"{corpus.show(path)} is a recording", hint="name another file")
