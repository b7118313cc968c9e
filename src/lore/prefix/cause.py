"""One reason why a prompt does not extend the one before it: a code at a place of the left prompt, and its evidence."""

from __future__ import annotations

from typing import Literal, TypeAlias

from msgspec import Struct

from lore.model.codes import CODES, CauseKind, Code
from lore.model.evidence import Evidence, RuledOut

# What is said of a cause besides its evidence: the bill read all that was sent before, or lost nothing; one body was
# stored otherwise by its recorder; another process, or this one after a long pause, went on with the session.
Qualifier: TypeAlias = Literal[
    "read-all-the-same", "nothing-lost", "stored-otherwise", "another-process", "after-a-pause", "within-a-block"
]
Strength: TypeAlias = Literal["certain", "strong", "weak"]

SPELLINGS = frozenset((Code.KEY_ORDER_CHANGED, Code.SERIALISATION_CHANGED, Code.CONTENT_SHAPE_CHANGED))
_HARMLESS = SPELLINGS | {
    Code.BILLING_HEADER_CHANGED,
    Code.GENERATION_SETTINGS_CHANGED,
    Code.TOOL_CHOICE_CHANGED,
    Code.REQUEST_FEATURES_CHANGED,
    Code.OUTPUT_SCHEMA_CHANGED,
}


class Cause(Struct, frozen=True):
    """A finding code, the section it is about, the evidence, and the segment where it begins.

    `override` is the kind where it is not the code's own: what is waste at one provider is harmless at another.
    `path` is the JSON path of what changed, where that is not the segment at `position`; `more` counts places of the
    same code behind the first, `skipped` differences of the same kind that were not looked at one by one. `strength`:
    `certain` from bytes, else how well the evidence explains a bill. `paused` are the seconds of `after-a-pause`.
    `also` is what else was seen, `ruled_out` what was looked at and is not so. `respelled`: the content is the same and
    JSON's own spelling is another, as whoever stored it may have written it. `differs`: one piece stands on both sides
    and says something else.
    """

    code: Code
    section: str | None
    evidence: Evidence
    position: int = 0
    override: CauseKind | None = None
    path: str = ""
    more: int = 0
    qualifiers: tuple[Qualifier, ...] = ()
    strength: Strength = "certain"
    also: tuple[Cause, ...] = ()
    ruled_out: tuple[RuledOut, ...] = ()
    skipped: int = 0
    paused: float | None = None
    respelled: bool = False
    differs: bool = False

    @property
    def kind(self) -> CauseKind:
        """The kind: the code's own, or what it is in this place."""
        return self.override or CODES[self.code].kind

    @property
    def harmless(self) -> bool:
        """Whether nothing that was to be cached is lost by it."""
        if self.override == "expected" and (self.code in _HARMLESS or "nothing-lost" in self.qualifiers):
            return True
        return self.code == Code.CHANGE_AFTER_LAST_BREAKPOINT
