"""One reason why a prompt is not the other's beginning: a code at a place of the left prompt."""

from __future__ import annotations

from typing import NamedTuple

from lore.model.codes import CauseKind


class Note(NamedTuple):
    """A code, the section, the position in the left prompt, words, the kind where not the code's own, the JSON path.

    `spelled`: the content is the same and JSON's own spelling is another, as whoever stored it may have written it.
    """

    code: str
    section: str
    position: int
    words: str
    here: CauseKind | None = None
    path: str = ""
    spelled: bool = False
