"""One reason why a prompt is not the other's beginning: a code at a place of the left prompt.

Rules: a pair may part at a thousand places, of which one a code is shown; the words of a note are made when they
are read.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, TypeAlias

from lore.model.codes import CauseKind

Words: TypeAlias = str | Callable[[], str]


class Note(NamedTuple):
    """A code, the section, the position in the left prompt, words, the kind where not the code's own, the JSON path.

    `spelled`: the content is the same and JSON's own spelling is another, as whoever stored it may have written it.
    `differs`: one piece stands on both sides and says something else.
    """

    code: str
    section: str
    position: int
    words: Words
    here: CauseKind | None = None
    path: str = ""
    spelled: bool = False
    differs: bool = False

    @property
    def said(self) -> str:
        """The words."""
        return self.words if isinstance(self.words, str) else self.words()

    def wrapped(self, before: str = "", after: str = "") -> Note:
        """Return the note with more words around its own."""
        return self._replace(words=lambda: f"{before}{self.said}{after}")
