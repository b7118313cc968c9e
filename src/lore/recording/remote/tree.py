"""What lies below a remote folder, as a listing says: asked like a folder of this machine, at no further request.

In: pages of keys, in any order. Out: the names of a folder, sorted as those of a folder here are, and what is known of
each. A temporary database keeps them (in memory as long as they are few, else in a file that has no name), so that a
million keys need no memory. Rules: an empty object that stands for a folder (`logs/`) is that folder and no file; keys
with an empty part (`a//b`), which no path names, are an error of their folder.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Collection, Iterable, Iterator

from lore.errors import LoreError
from lore.recording.filesystem import Status
from lore.recording.remote import RemoteEntry, RemoteError, RemotePlace
from lore.store.registry import shown

MOST = 100_000_000  # names in a listing: a longer one may be endless
_LARGEST = 2**63 - 1  # bytes: what a database holds, and no object has
_TABLES = """
    CREATE TABLE object (folder TEXT, name TEXT, size INT, written REAL, tag TEXT, PRIMARY KEY (folder, name))
    WITHOUT ROWID;
    CREATE TABLE folder (parent TEXT, name TEXT, PRIMARY KEY (parent, name)) WITHOUT ROWID;
"""
# an object that stands for a folder is shown without its slash by some clients
_OBJECTS = """
    SELECT name, size, written, tag FROM object WHERE folder = ?1 AND name > ?2 AND NOT (size = 0 AND EXISTS
    (SELECT 1 FROM folder WHERE parent = ?1 AND folder.name = object.name)) ORDER BY name LIMIT 1000
"""


class Names(Collection[str]):
    """The names of the files of a folder, sorted; read as they are wanted."""

    def __init__(self, tree: Tree, folder: str) -> None:
        self._tree, self._folder = tree, folder

    def __contains__(self, name: object) -> bool:
        return self._tree.about(f"{self._folder}{name}") is not None

    def __iter__(self) -> Iterator[str]:
        return (entry.key for entry in self._tree.files(self._folder))

    def __len__(self) -> int:
        return sum(1 for _ in self)


class Tree:
    """All objects below a prefix (empty, or ending in `/`); folders are prefixes, too."""

    def __init__(self, place: RemotePlace, prefix: str) -> None:
        self._place, self._prefix = place, prefix
        self._database = sqlite3.connect("", isolation_level=None)
        self._database.executescript("PRAGMA journal_mode=OFF; PRAGMA synchronous=OFF;" + _TABLES)

    def close(self) -> None:
        """Forget all."""
        self._database.close()

    def add(self, entries: Iterable[RemoteEntry]) -> None:
        """Take over what a listing says; what is said twice stands once."""
        self._database.execute("BEGIN")
        last = ""
        try:
            for number, (key, about) in enumerate(entries):
                if number >= MOST:
                    message = f"more than {MOST:,} objects were listed"
                    raise RemoteError(message, hint="name a folder with fewer, or a pattern in one")
                if not key.startswith(self._prefix):  # nobody asked for it
                    continue
                folder, slash, name = key.rpartition("/")
                folder += slash
                if folder not in (last, self._prefix):
                    self._database.executemany("INSERT OR IGNORE INTO folder VALUES (?, ?)", self._ancestors(folder))
                    last = folder
                if name:
                    row = (folder, name, None if about.size is None else min(about.size, _LARGEST), *about[1:])
                    self._database.execute("INSERT OR REPLACE INTO object VALUES (?, ?, ?, ?, ?)", row)
        finally:
            self._database.execute("COMMIT")

    def _ancestors(self, folder: str) -> Iterator[tuple[str, str]]:
        parent = self._prefix
        for name in folder[len(parent) : -1].split("/"):
            yield parent, name
            parent = f"{parent}{name}/"

    def covers(self, place: RemotePlace) -> bool:
        """Tell whether the listing says what is at a place, a file or a folder."""
        inside = f"{place.key}/".startswith(self._prefix)
        return inside and place.root == self._place.root and place.scheme == self._place.scheme

    def about(self, key: str) -> Status | None:
        """Return what is known of an object; None where there is none."""
        folder, slash, name = key.rpartition("/")
        query = "SELECT size, written, tag FROM object WHERE folder = ? AND name = ?"
        row = self._database.execute(query, (folder + slash, name)).fetchone()
        return None if row is None else Status(*row)

    def files(self, folder: str) -> Iterator[RemoteEntry]:
        """Yield the objects directly in a folder, in the order of their names."""
        name = ""
        while rows := self._database.execute(_OBJECTS, (folder, name)).fetchall():
            yield from (RemoteEntry(name, Status(*about)) for name, *about in rows)
            name = rows[-1][0]

    def folders(self, folder: str) -> list[str]:
        """Return the names of the folders directly in one, sorted."""
        query = "SELECT name FROM folder WHERE parent = ? ORDER BY name"
        return [name for (name,) in self._database.execute(query, (folder,))]

    def entries(self, folder: str) -> Iterator[RemoteEntry]:
        """Yield what lies directly in a folder; names of folders end in `/`."""
        yield from (RemoteEntry(f"{name}/") for name in self.folders(folder) if name)
        yield from self.files(folder)

    def walk(
        self, path: str, failed_on: Callable[[str, LoreError], None]
    ) -> Iterator[tuple[str, list[str], Collection[str]]]:
        """Go through all folders as `os.walk` does, the folders of each to be chosen from; `path` names the listed one.

        What cannot be named is handed to `failed_on`.
        """
        waiting = [(path, self._prefix)]
        while waiting:
            shown_as, folder = waiting.pop()
            names = self.folders(folder)
            if "" in names:
                names.remove("")
                message = f"{shown(shown_as)}: objects whose names have an empty part (`//`) cannot be read"
                failed_on(shown_as, RemoteError(message, hint="copy them to other names"))
            yield shown_as, names, Names(self, folder)
            base = shown_as if shown_as.endswith("/") else f"{shown_as}/"
            waiting += [(f"{base}{name}", f"{folder}{name}/") for name in reversed(names)]
