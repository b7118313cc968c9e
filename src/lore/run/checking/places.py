"""Where findings are reported: a file as it was named, and a key that is the same on every machine."""

from __future__ import annotations

import os

from lore.files import relative
from lore.model.cause import Place
from lore.recording import corpus, filesystem


def place_of(path: str, root: str) -> Place:
    """Return where a file's findings are reported; its key is relative to `root`, the current folder if empty."""
    return Place(corpus.show(path), key_of(path, root))


def key_of(path: str, root: str) -> str:
    """Return a path relative to a folder, its parts joined by `/`; stored and remote sessions keep their names."""
    if path == corpus.STDIN or filesystem.is_remote(path) or corpus.is_stored(path):
        return corpus.show(path)
    return corpus.show(relative(path, root).replace(os.sep, "/"))


def path_of(key: str, root: str) -> str:
    """Return the path that a key stands for."""
    return key if filesystem.is_remote(key) else os.path.join(root, *key.split("/"))
