"""One reason why a prompt is not the other's beginning: a code at a place of the left prompt.

Rules: a pair may part at a thousand places, of which one a code is shown; the evidence of a note is made when it is
read.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, NamedTuple, TypeAlias

from lore.model.codes import CauseKind, Code
from lore.model.differences import Difference

# What is said of a cause besides its evidence: the bill read all that was sent before, or lost nothing; one body was
# stored otherwise by its recorder; another process, or this one after a long pause, went on with the session.
Qualifier: TypeAlias = Literal[
    "read-all-the-same", "nothing-lost", "stored-otherwise", "another-process", "after-a-pause", "within-a-block"
]


class Note(NamedTuple):
    """A code, the section, the position in the left prompt, evidence, the kind where not the code's own, the JSON path.

    `spelled`: the content is the same and JSON's own spelling is another, as whoever stored it may have written it.
    `differs`: one piece stands on both sides and says something else. `skipped` counts differences of the same kind
    that were not looked at one by one.
    """

    code: Code
    section: str
    position: int
    evidence: Difference | Callable[[], Difference]
    here: CauseKind | None = None
    path: str = ""
    spelled: bool = False
    differs: bool = False
    qualifiers: tuple[Qualifier, ...] = ()
    skipped: int = 0

    @property
    def difference(self) -> Difference:
        """The evidence, made where it is lazy."""
        return self.evidence() if callable(self.evidence) else self.evidence
