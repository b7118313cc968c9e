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

    number: int  # its position in the prompt, from 0
    section: str  # tools, system or messages
    path: str  # JSON path in the request body
    bytes: int  # of its JSON; of the envelope of a message without braces
    stable: bool  # False for segments of the tail
    breakpoint: Raw | None  # the cache breakpoint on this segment, as the dialect writes it
    origin: str | None  # what the segment was made from


class OmittedResult(Struct, frozen=True):
    """Something that the dialect cannot express, and how often the turn has it."""

    what: str  # the kind of block, such as `thinking`
    count: int  # blocks of this kind that the prompt leaves out


class CapabilityResult(Struct, frozen=True):
    """Whether a dialect can express a feature."""

    feature: str  # in words, such as `cache breakpoints`
    expressed: bool  # the dialect has it
    answer: str  # how lore handles the feature in this dialect


class PlacementResult(Struct, frozen=True):
    """Whether the context of a turn may be a system message at the end of the prompt."""

    accepted: bool  # a system message may be there
    by: str  # what decides: a `setting`, a provider's `row`, a chat `template`, the `dialect`, or `unknown`
    since: str  # the month from which a row or template holds; empty if neither decides
    source: str  # where a row or template was published; empty if neither decides


class TemplateResult(Struct, frozen=True):
    """What the chat templates of some models do with a system message that is not the first message."""

    models: tuple[str, ...]  # shell patterns over names in lower case
    does: str  # `refuses` the request, `merges` the message into the first, `ignores` it, or `renders` it in place
    since: str  # the month in which this was observed
    source: str  # where this was observed


class AssembleExplanation(CommandResult, frozen=True, kw_only=True):
    """`lore assemble --explain --json`: the parts of a prompt, without content."""

    session: str  # name of the recording
    chain: str  # the conversation whose prompt it is
    turn: int | None  # null for the prompt after all events of a session without turns
    dialect: str  # of the request, such as `anthropic`
    model: str | None  # that the request names; null: unknown
    fidelity: str  # how close the prompt is to the sent bytes, such as `reconstructed`
    tail: str  # the policy for the tail
    stable_bytes: int  # of all segments before the tail
    tail_bytes: int  # of the segments of the tail
    segments: list[SegmentResult]  # in the order of the prompt, the tail last
    omitted: list[OmittedResult]  # what the dialect cannot express; empty if it expresses everything
    capabilities: list[CapabilityResult]  # one entry for each feature
    system_messages: PlacementResult  # whether a system message may be at the end of the prompt
    chat_templates: list[TemplateResult]  # those that servers use for the model; all known ones if it is unknown
    max_loop_turns: int  # turns of a tool loop after which news follow the last result; 0: never
    problems: list[Problem]  # places in the recording that could not be read or did not fit


class AssembledSegment(Struct, frozen=True, gc=False, omit_defaults=True):
    """One segment of an assembled prompt, with its exact text."""

    section: Section  # tools, system or messages
    path: str  # JSON path in the request body
    kind: Kind  # tool, text, envelope (a message without its blocks), block or opaque (a message of unknown shape)
    data: str  # JSON text; of an envelope its members without braces
    breakpoint: Raw | UnsetType = UNSET  # the cache breakpoint on this segment, as the dialect writes it
    origin: str = ""  # what the segment was made from


class AssembledTurn(Struct, frozen=True, gc=False):
    """`lore assemble --all`: one line for each turn, as the change from the previous prompt of its chain."""

    turn: int  # number in its chain, from 1
    chain: str  # the conversation
    dialect: str  # of the request, such as `anthropic`
    keep_segments: Count  # leading segments that stay from the previous prompt
    keep_bytes: Count  # size of these segments
    append: tuple[AssembledSegment, ...]  # the segments after those, the tail included
    tail_segments: Count  # how many of the last segments are the tail
    tail_bytes: Count  # size of the tail
    reset: Reset | None  # the most severe event since the previous turn that entitles the prompt to change
    model: str | None = None  # that the request names; null: unknown
    fidelity: Fidelity = "reconstructed"  # how close the prompt is to the sent bytes
    breakpoints: tuple[tuple[Count, Raw], ...] = ()  # position and value of each cache breakpoint
    params: dict[str, Raw] | UnsetType = UNSET  # other fields of the request; left out if the same as before
    auto_breakpoint: bool | UnsetType = UNSET  # true if the request asks for automatic caching; left out if not


class WholeTurn(Struct, frozen=True, gc=False):
    """`lore assemble --all --full`: one line for each turn, with its request body."""

    turn: int  # number in its chain, from 1
    chain: str  # the conversation
    dialect: str  # of the request, such as `anthropic`
    body: Raw  # a string if the body is not JSON


def reset_name(changes: tuple[Change, ...]) -> Reset | None:
    """Return the name of the most severe change that entitles a prompt to differ, or None."""
    codes = {change.cause for change in changes}
    return next((name for code, name in RESETS if code in codes), None)


def changes_of_reset(reset: Reset | None) -> tuple[Change, ...]:
    """Return the change that a reset in an assembled turn stands for; empty for None."""
    return () if reset is None else (Change(_CODES[reset], "the assembled turn says so"),)
