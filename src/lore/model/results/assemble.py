"""Results of `lore assemble`: all prompts of a session, and what one prompt consists of."""

from __future__ import annotations

from typing import Literal, TypeAlias

from msgspec import UNSET, Raw, Struct, UnsetType

from lore.model.codes import Code, Problem
from lore.model.results import CommandResult, Count
from lore.model.state import Change
from lore.model.turn import Fidelity, Kind, Section

Reset: TypeAlias = Literal["compaction", "rewind", "cache_reset", "session_changed"]

# What a code is called as the reset of a turn, the most severe first.
RESETS: tuple[tuple[str, Reset], ...] = (
    (Code.COMPACTION, "compaction"),
    (Code.REWIND, "rewind"),
    (Code.CACHE_RESET, "cache_reset"),
    (Code.SESSION_CHANGED, "session_changed"),
    (Code.MODEL_CHANGED, "session_changed"),
)
_CODES: dict[Reset, str] = {name: code for code, name in reversed(RESETS)}


class SegmentResult(Struct, frozen=True):
    """One segment of an assembled prompt, without its content."""

    number: int
    section: str
    path: str
    bytes: int
    stable: bool  # False for segments of the tail
    breakpoint: Raw | None  # the cache breakpoint on this segment, as the dialect writes it
    origin: str | None  # what the segment was made from


class OmittedResult(Struct, frozen=True):
    """Something that the dialect cannot express, and how often the turn has it."""

    what: str
    count: int


class CapabilityResult(Struct, frozen=True):
    """Whether a dialect can express a feature."""

    feature: str
    expressed: bool
    answer: str  # how lore handles the feature in this dialect


class PlacementResult(Struct, frozen=True):
    """Whether the context of a turn may be a system message at the end of the prompt."""

    accepted: bool
    by: str  # what decides: a `setting`, a provider's `row`, a chat `template`, the `dialect`, or `unknown`
    since: str  # the day from which a row holds
    source: str  # where a row was published


class TemplateResult(Struct, frozen=True):
    """What the chat templates of some models do with a system message that is not the first message."""

    models: tuple[str, ...]
    does: str  # `refuses` the request, `merges` the message into the first, `ignores` it, or `renders` it in place
    since: str  # the day on which this was observed
    source: str


class AssembleExplanation(CommandResult, frozen=True, kw_only=True):
    """`lore assemble --explain --json`: the parts of a prompt, without content."""

    session: str
    chain: str
    turn: int | None  # null for the prompt after all events of a session without turns
    dialect: str
    model: str | None
    fidelity: str
    tail: str  # the policy for the tail
    stable_bytes: int
    tail_bytes: int
    segments: list[SegmentResult]
    omitted: list[OmittedResult]
    capabilities: list[CapabilityResult]
    system_messages: PlacementResult
    chat_templates: list[TemplateResult]  # those that servers use for the model; all known ones if it is unknown
    max_loop_turns: int  # turns of a tool loop after which news follow the last result; 0: never
    problems: list[Problem]


class AssembledSegment(Struct, frozen=True, gc=False, omit_defaults=True):
    """One segment of an assembled prompt, with its exact text."""

    section: Section
    path: str
    kind: Kind
    data: str
    breakpoint: Raw | UnsetType = UNSET  # the cache breakpoint on this segment, as the dialect writes it
    origin: str = ""  # what the segment was made from


class AssembledTurn(Struct, frozen=True, gc=False):
    """`lore assemble --all`: one line for each turn, as the change from the previous prompt of its chain."""

    turn: int
    chain: str
    dialect: str
    keep_segments: Count  # leading segments that stay from the previous prompt
    keep_bytes: Count
    append: tuple[AssembledSegment, ...]  # the segments after those, the tail included
    tail_segments: Count  # how many of the last segments are the tail
    tail_bytes: Count
    reset: Reset | None  # the most severe event since the previous turn that entitles the prompt to change
    model: str | None = None
    fidelity: Fidelity = "reconstructed"
    breakpoints: tuple[tuple[Count, Raw], ...] = ()  # position and value of each cache breakpoint
    params: dict[str, Raw] | UnsetType = UNSET  # other fields of the request; left out if the same as before
    auto_breakpoint: bool | UnsetType = UNSET


class WholeTurn(Struct, frozen=True, gc=False):
    """`lore assemble --all --full`: one line for each turn, with its request body."""

    turn: int
    chain: str
    dialect: str
    body: Raw  # a string if the body is not JSON


def reset_name(changes: tuple[Change, ...]) -> Reset | None:
    """Return the name of the most severe change that entitles a prompt to differ, or None."""
    codes = {change.cause for change in changes}
    return next((name for code, name in RESETS if code in codes), None)


def changes_of_reset(reset: Reset | None) -> tuple[Change, ...]:
    """Return the changes that a reset in an assembled turn stands for."""
    return () if reset is None else (Change(_CODES[reset], "the assembled turn says so"),)
