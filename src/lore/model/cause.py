"""Why a prompt does not extend the previous one: a finding code at a place of the previous prompt, with its evidence.

`Place` is the file or folder that findings name.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

from msgspec import Struct

from lore.model.codes import CODES, Audience, CauseKind, Code
from lore.model.evidence import Evidence
from lore.model.fact import Content, Number, Own, format_duration
from lore.model.turn import Turn

Strength: TypeAlias = Literal["certain", "strong", "weak"]
# Remarks on a cause that its evidence does not hold.
Qualifier: TypeAlias = Literal[
    "read-all-the-same",  # everything that was sent before was read
    "same-to-the-api",  # the provider documents both spellings as one value
    "read-ends-there",  # usage shows that the read ended at its place
    "nothing-lost",  # usage shows no loss
    "stored-otherwise",  # the recorder stored one body in another form
    "another-process",  # another process continued the session
    "after-a-pause",  # the session continued after a pause
    "within-a-block",  # the change is shorter than a cache block
    "under-minimum",  # the prompt is too short to be cached
    "too-short-by-usage",  # with `under-minimum`: usage shows it, so nothing is waste
    "without-cache",  # the model has no cache
    "first-request",  # it is the first of its conversation, sent again to another model
    "little-lost",  # usage shows that less than a block of the cache, or 1 % of the prompt, was lost
    "contradicted",  # the provider's verdict is about another section
    "alternates",  # the value returned to what it was before the previous change
    "another-conversation",  # the previous request began another conversation of the same program
    "outside-the-prefix",  # deferred tools are not part of the cached prefix
]

SPELLINGS = frozenset((Code.KEY_ORDER_CHANGED, Code.SERIALISATION_CHANGED, Code.CONTENT_SHAPE_CHANGED))
_CAN_BE_FREE = SPELLINGS | {
    Code.BILLING_HEADER_CHANGED, Code.GENERATION_SETTINGS_CHANGED, Code.TOOL_CHOICE_CHANGED,
    Code.REQUEST_FEATURES_CHANGED, Code.OUTPUT_SCHEMA_CHANGED,
}  # fmt: skip
_NOTHING_LOST = frozenset(("nothing-lost", "first-request", "outside-the-prefix", "without-cache"))


class RuledOut(Struct, frozen=True):
    """A possible reason that was examined."""

    reason: Own  # the cause that was examined
    out: bool | None  # True: ruled out; False: not ruled out; None: the recording does not show it
    seconds: float | None = None  # the pause that was compared
    count: int | None = None  # the number that was compared
    limit: Number | None = None  # of the seconds or the count
    detail: Content = ""  # quoted from the recording

    def in_words(self) -> str:
        """Return the reason with its figures."""
        parts: list[str] = []
        if self.seconds is not None:
            limit = "" if self.limit is None else f" of {format_duration(self.limit)}"
            parts.append(format_duration(self.seconds) + limit)
            if self.out is None and self.limit is None:
                parts.append("lifetime unknown")
        elif self.count is not None:
            of = ", more than" if self.limit is not None and self.count > self.limit else " of"
            parts.append(f"{self.count:,}" + ("" if self.limit is None else f"{of} {self.limit:,.0f}"))
        figures = ", ".join([*parts, *([self.detail] if self.detail else [])])
        return f"{self.reason} ({figures})" if figures else self.reason


class Cause(Struct, frozen=True):
    """One reason why a prompt does not extend the previous one."""

    code: str  # what it is
    section: str | None  # the part of the prompt that changed; None: none did, or it is unknown
    evidence: Evidence  # what shows it
    position: int = 0  # the segment of the previous prompt at which it begins
    override: CauseKind | None = None  # the kind, if it is not the code's: providers charge differently
    path: str = ""  # the JSON path of the change, if it is not the segment at `position`
    more: int = 0  # further places with the same code
    qualifiers: tuple[Qualifier, ...] = ()  # what else is known about it
    strength: Strength = "certain"  # certain: bytes show it; else how well the evidence explains usage
    also: tuple[Cause, ...] = ()  # other causes of the same turn
    ruled_out: tuple[RuledOut, ...] = ()  # reasons that were examined
    skipped: int = 0  # differences of the same kind that were not examined one by one
    paused: float | None = None  # seconds of the pause, for `after-a-pause`
    respelled: bool = False  # equal content in another JSON spelling, which may come from the recorder
    differs: bool = False  # the same block is in both prompts, with other content
    lost: int = 0  # bytes from its place to where the previous prompt wanted to be cached; 0 if usage alone shows it

    @property
    def kind(self) -> CauseKind:
        """The code's kind, or the kind that holds for this cause."""
        return "expected" if "too-short-by-usage" in self.qualifiers else self.override or CODES[self.code].kind

    @property
    def is_harmless(self) -> bool:
        """Whether it costs no cached tokens.

        True for a change after the last breakpoint, and for an expected change that is of spelling or request settings,
        outside the cached prefix, or without a loss in the usage.
        """
        if self.override == "expected" and (self.code in _CAN_BE_FREE or not _NOTHING_LOST.isdisjoint(self.qualifiers)):
            return True
        return self.code == Code.CHANGE_AFTER_LAST_BREAKPOINT


class Place(Struct, frozen=True):
    """The file or folder that findings name, and the audience for their fixes."""

    path: str  # the argument as given, joined with the path below it
    key: str = ""  # the same place on every machine: relative to the project, with `/`; empty: the path
    audience: Audience = "author"  # the audience for fixes

    def of(self, turn: Turn) -> Place:
        """Return the place of a turn's findings: its own file if that is below this path, else this place."""
        if not turn.file.startswith(self.path):
            return self
        return Place(turn.file, (self.key or self.path) + turn.file[len(self.path) :].replace("\\", "/"), self.audience)
