"""One line of `lore assemble --all`: a turn's prompt as a delta against the turn before of the same chain.

Written by `run/assembling.py`, read back by `formats/assembled.py`, printed as a schema by `lore schema
assemble-all`. Rules: `append` is all that stands behind the kept segments, the tail last; a segment's
`data` is its exact text; `breakpoints` are all breakpoints of the prompt, by position over head and messages, because
those of kept segments move too.
"""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias

from msgspec import UNSET, Meta, Raw, Struct, UnsetType

from lore.model.codes import Code
from lore.model.prompt import Fidelity, Kind, Section
from lore.model.state import Change

Reset: TypeAlias = Literal["compaction", "rewind", "cache_reset", "session_changed"]
Count: TypeAlias = Annotated[int, Meta(ge=0)]

# What a turn's changes are called here, the most severe first; back again, the first code of a name holds.
RESETS: tuple[tuple[str, Reset], ...] = (
    (Code.COMPACTION, "compaction"),
    (Code.REWIND, "rewind"),
    (Code.CACHE_RESET, "cache_reset"),
    (Code.SESSION_CHANGED, "session_changed"),
    (Code.MODEL_CHANGED, "session_changed"),
)
_CODES: dict[Reset, str] = {name: code for code, name in reversed(RESETS)}


class AssembledSegment(Struct, frozen=True, gc=False, omit_defaults=True):
    """A segment: its place, its exact text, the breakpoint that stands on it, where it came from (where known)."""

    section: Section
    path: str
    kind: Kind
    data: str
    breakpoint: Raw | UnsetType = UNSET
    origin: str = ""


class AssembledTurn(Struct, frozen=True, gc=False):
    """`lore assemble --all`, one line a turn.

    `keep_segments` of the turn before stay, with `keep_bytes` bytes; the last `tail_segments` of `append` are
    the tail, `tail_bytes` bytes. `params` are the request's other fields, where they are not as before.
    """

    turn: int
    chain: str
    dialect: str
    keep_segments: Count
    keep_bytes: Count
    append: tuple[AssembledSegment, ...]
    tail_segments: Count
    tail_bytes: Count
    reset: Reset | None
    model: str | None = None
    fidelity: Fidelity = "reconstructed"
    breakpoints: tuple[tuple[Count, Raw], ...] = ()
    params: dict[str, Raw] | UnsetType = UNSET
    auto_breakpoint: bool | UnsetType = UNSET


class WholeTurn(Struct, frozen=True, gc=False):
    """`lore assemble --all --full`, one line a turn: the body as it would be sent (text where it is no JSON)."""

    turn: int
    chain: str
    dialect: str
    body: Raw


def reset_of(changes: tuple[Change, ...]) -> Reset | None:
    """Name the most severe change that entitles a prompt to differ; None where there is none."""
    codes = {change.cause for change in changes}
    return next((name for code, name in RESETS if code in codes), None)


def changes_of(reset: Reset | None) -> tuple[Change, ...]:
    """Return what a named reset says of the events before a turn."""
    return () if reset is None else (Change(_CODES[reset], "the assembled turn says so"),)
