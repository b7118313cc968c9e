"""Places: a file's name as the user gave it, and the same on every machine."""

from __future__ import annotations

import os
from contextlib import suppress

from lore.judge.base import Place
from lore.recording import corpus


def place_of(path: str, root: str) -> Place:
    """Return where a file's findings are reported; its key is relative to `root`, the current folder if empty."""
    return Place(corpus.show(path), key_of(path, root))


def key_of(path: str, root: str) -> str:
    """Return a path relative to a folder, its parts joined by `/`; links are not followed.

    A stored session keeps its name.
    """
    if path == corpus.STDIN or corpus.is_stored(path):
        return corpus.show(path)
    with suppress(ValueError):  # another drive, or a name that no file can have
        path = os.path.relpath(path, root or os.curdir)
    return corpus.show(path.replace(os.sep, "/"))


def path_of(key: str, root: str) -> str:
    """Return the path that a key stands for."""
    return os.path.join(root, *key.split("/"))
