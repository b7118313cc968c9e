"""Where findings are reported."""

from __future__ import annotations

from msgspec import Struct

from lore.model.codes import Reader
from lore.model.turn import Turn


class Place(Struct, frozen=True):
    """Where findings are reported: the argument as given joined with the path below it.

    `key` is the same place on every machine: relative to the project, its parts joined by `/`; empty: the path.
    `reader` is who reads them: the author of an agent, or its user.
    """

    path: str
    key: str = ""
    reader: Reader = "author"

    def of(self, turn: Turn) -> Place:
        """Return where a turn's findings are reported: in its own file, where the recording is a folder of files."""
        if not turn.file.startswith(self.path):
            return self
        below = turn.file[len(self.path) :]
        return Place(turn.file, (self.key or self.path) + below.replace("\\", "/"), self.reader)
