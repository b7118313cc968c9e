"""Results: the JSON that commands answer with, schema version 2. A promise: fields are only added.

Unknown is None, never 0. Offsets are bytes, ranges half-open.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Any, Literal, Self, TypeAlias, TypeVar

from msgspec import UNSET, Meta, Raw, Struct, UnsetType

from lore.model.codes import CauseKind, Code, Problem, Severity
from lore.model.events import SUMMED_COUNTS, Usage, Verdict
from lore.model.evidence import Evidence, RuledOut
from lore.model.state import Change, Totals
from lore.model.turn import Fidelity, Kind, Section

Reset: TypeAlias = Literal["compaction", "rewind", "cache_reset", "session_changed"]
Count: TypeAlias = Annotated[int, Meta(ge=0)]
S = TypeVar("S", bound=Struct)

# What a turn's changes are called here, the most severe first; back again, the first code of a name holds.
RESETS: tuple[tuple[str, Reset], ...] = (
    (Code.COMPACTION, "compaction"),
    (Code.REWIND, "rewind"),
    (Code.CACHE_RESET, "cache_reset"),
    (Code.SESSION_CHANGED, "session_changed"),
    (Code.MODEL_CHANGED, "session_changed"),
)
_CODES: dict[Reset, str] = {name: code for code, name in reversed(RESETS)}


class CommandResult(Struct, frozen=True, kw_only=True):
    """What a command answers; `schema` is the version of all results."""

    schema: int = 2


def copy_fields(kind: type[S], source: object, **own: object) -> S:
    """Make a result of what `source` holds under the names of its fields, and of its `own` values."""
    found = {
        name: getattr(source, name) for name in kind.__struct_fields__ if name not in own and hasattr(source, name)
    }
    return kind(**found, **own)


class DiffSide(Struct, frozen=True):
    """One side of a comparison. `partial`: its prompt's beginning is not recorded; unset where it is whole.

    `lacks` says what such logs do not hold of their prompts; unset where they hold all that was sent.
    """

    name: str
    format: str | None = None
    dialect: str | None = None
    model: str | None = None
    fidelity: str | None = None
    partial: bool | UnsetType = UNSET
    lacks: str | UnsetType = UNSET


class FileLengths(Struct, frozen=True):
    """The literal longest common prefix of two whole files."""

    left_bytes: int
    right_bytes: int
    common_prefix_bytes: int


class PromptLengths(Struct, frozen=True):
    """The longest common prefix of two prompts. Token counts are None where none were asked for."""

    left_bytes: int
    right_bytes: int
    common_prefix_bytes: int
    common_prefix_segments: int
    left_tail_bytes: int
    canonical_common_prefix_bytes: int
    left_tokens: int | None = None
    right_tokens: int | None = None
    common_prefix_tokens: int | None = None
    tokenizer: str | None = None


class DivergenceResult(Struct, frozen=True):
    """Where two prompts part."""

    section: str
    path: str
    offset: int
    prompt_offset: int
    left: str
    right: str


class SecondaryCause(Struct, frozen=True):
    """What else was seen beside a leading cause, as typed evidence and in words.

    `contradicted`: the provider's verdict is about another section, so this did not break the prefix there.
    """

    code: str
    name: str
    section: str | None
    strength: str
    evidence: Evidence
    message: str = ""
    contradicted: bool = False


class CauseResult(Struct, frozen=True):
    """Why less was reused than stood in the prompt before, and what it cost: the same in every result about a turn.

    `evidence` is typed, `message` the same in words; `strength` is how well it explains it, `actor` who can act.
    `lost_dollars` is what the lost tokens cost beyond their price when read; None where a bill or a price is missing.
    """

    code: str
    name: str
    kind: CauseKind
    section: str | None
    path: str | None
    message: str
    evidence: Evidence | None
    strength: str | None
    actor: str
    also: tuple[SecondaryCause, ...]
    ruled_out: tuple[RuledOut, ...]
    lost_bytes: int | None
    lost_tokens: int | None
    tokens: str | None
    fix: str
    is_break: bool = True
    lost_dollars: float | None = None


class CachePrediction(Struct, frozen=True):
    """What a cache would read and write."""

    cache: str
    read_tokens: int | None
    write_tokens: int | None
    uncached_tokens: int | None
    confidence: str


class UsageResult(Struct, frozen=True, kw_only=True):
    """Token counts of a provider's usage, or sums of them. Unknown is None."""

    uncached_tokens: int | None
    read_tokens: int | None
    write_tokens: int | None
    output_tokens: int | None
    partial_output: Literal[True] | UnsetType = UNSET  # True if the log holds only a part of the output tokens

    @classmethod
    def of(cls, usage: Usage, *, partial: bool = False) -> Self:
        """Return the counts of one pass."""
        return copy_fields(cls, usage, partial_output=True if partial else UNSET)

    @classmethod
    def sum_of(cls, usages: Iterable[Usage | UsageResult | Totals], **own: Any) -> Self:
        """Return the sum of the known counts; a count that is unknown in all of them is None."""
        usages = list(usages)
        sums: dict[str, Any] = {}
        for name in SUMMED_COUNTS:
            counts = [count for usage in usages if (count := getattr(usage, name)) is not None]
            sums[name] = sum(counts) if counts else None
        partial = any(isinstance(usage, UsageResult) and usage.partial_output is True for usage in usages)
        sums["partial_output"] = True if partial else UNSET
        return cls(**{**sums, **own})


class VerdictResult(Struct, frozen=True):
    """What the provider itself says about a miss."""

    reason: str
    missed_tokens: int | None
    source: str | None

    @classmethod
    def of(cls, verdict: Verdict) -> VerdictResult:
        """Return a provider's verdict."""
        return copy_fields(cls, verdict)


class ColumnsResult(Struct, frozen=True):
    """What bytes, bill and the provider's verdict say, in words. `dispute` says how they contradict.

    `agree` is None where only one of them says anything.
    """

    bytes: str
    billed: str
    verdict: str
    agree: bool | None
    dispute: str | None


class DiffResult(CommandResult, frozen=True, kw_only=True):
    """`lore diff-prefix --json`. `chain` and `turn` name the right side, in a pair of one session."""

    left: DiffSide
    right: DiffSide
    file: FileLengths | None
    prompt: PromptLengths | None
    relation: str | None
    divergence: DivergenceResult | None
    reuse_ratio: float | None
    causes: list[CauseResult]
    caches: list[CachePrediction]
    billed: UsageResult | None
    verdict: VerdictResult | None
    problems: list[Problem]
    chain: str | None = None
    turn: int | None = None
    columns: ColumnsResult | None = None


class Finding(Struct, frozen=True):
    """One finding of `lore check`.

    `message` is made last, of the other fields; `is_break`: what was to be cached was not reused because of it.
    `actor` is who can act; `strength` how well the evidence explains it; `more` counts places of the same code behind
    the first, `skipped` those that were not looked at one by one, `times` the turns of a chain that it holds for;
    `paused` is how many seconds the session stood still before it. `lost_dollars` is what the lost tokens cost beyond
    their price when read; None where a bill or a price is missing.

    `lore lint` alone says at which byte of the request body it begins, how many requests have it, and what is at stake
    in each of them where it holds: tokens that are paid again (estimated), and what they cost more than reading them.
    """

    code: str
    name: str
    kind: CauseKind
    severity: Severity
    path: str
    message: str
    fix: str
    line: int | None = None
    chain: str | None = None
    turn: int | None = None
    dialect: str | None = None
    section: str | None = None
    json_path: str | None = None
    offset: int | None = None
    evidence: Evidence | None = None
    lost_bytes: int | None = None
    lost_tokens: int | None = None
    lost_dollars: float | None = None
    tokens: str | None = None
    fidelity: str | None = None
    confidence: str | None = None
    fingerprint: str = ""
    strength: str | None = None
    actor: str = "nobody"
    more: int = 0
    skipped: int = 0
    paused: float | None = None
    times: int = 1
    qualifiers: tuple[str, ...] = ()
    also: tuple[SecondaryCause, ...] = ()
    ruled_out: tuple[RuledOut, ...] = ()
    partial: bool = False
    is_break: bool = False
    body_offset: int | UnsetType = UNSET
    requests: int | UnsetType = UNSET
    stake_tokens: int | UnsetType = UNSET
    stake_dollars: float | UnsetType = UNSET


class Summary(Struct):
    """The counts of `lore check`. `skipped`: files in a folder that are no recordings.

    `sessions` are told apart by their ids: a subagent's file is none of its own, one without an id is.
    `copied`: turns that an earlier file had already, as a fork has its parent's; counted nowhere else.
    `ignored`, `exempted`, `known`: findings that settings, exemptions and the baseline take out; what they
    say of cache breaks and tokens is counted nowhere else, and against no budget. `problems` counts what is wrong
    with recordings, whatever is taken out. `lost_tokens` are those of waste and of what is unexplained, `waste_tokens`
    those of waste alone: they were paid again without need. `unexplained`: the cache breaks that nothing explains for
    sure, with their `unexplained_tokens`; `…_dollars` is what these cost beyond their price when read, as far as prices
    are known (None: of none); `ruled_out` counts in how many of them a reason was looked at and is not so.
    """

    files: int = 0
    sessions: int = 0
    chains: int = 0
    turns: int = 0
    pairs: int = 0
    compactions: int = 0
    breaks: int = 0
    expected: int = 0
    waste: int = 0
    unattributable: int = 0
    problems: int = 0
    skipped: int = 0
    lost_tokens: int = 0
    copied: int = 0
    ignored: int = 0
    exempted: int = 0
    known: int = 0
    unexplained: int = 0
    unexplained_tokens: int = 0
    waste_tokens: int = 0
    ruled_out: dict[str, int] = {}
    waste_dollars: float | None = None
    unexplained_dollars: float | None = None


class CostlyCause(Struct, frozen=True):
    """A cause and what all its cache breaks together lost. A cache break that has several causes counts for each.

    `lost_dollars` sums those breaks whose cost is known; None where it is known of none.
    """

    code: str
    name: str
    kind: CauseKind
    breaks: int
    lost_tokens: int
    fix: str
    lost_dollars: float | None = None


class UnrecordedParts(Struct, frozen=True):
    """What logs of a format do not hold of their prompts, in `files` files.

    `tokens` is how much that is of a prompt, the median of what first requests were billed beyond what the log holds
    of them, an estimate; None where nothing tells. `least` and `most` are those of single sessions: tools of connected
    servers differ. `sealed` says what is in the files and can be read by nobody.
    """

    format: str
    what: str
    files: int
    tokens: int | None
    sealed: str = ""
    least: int | None = None
    most: int | None = None


class Interruption(Struct, frozen=True):
    """How far an interrupted run came: `files` were read, the last of them perhaps in part, `of` so many."""

    files: int
    of: int


class CheckResult(CommandResult, frozen=True, kw_only=True):
    """`lore check --json`; `top` holds the three costliest causes, those that are no waste behind those that are;
    `unseen` says what logs lack of their prompts. `interrupted` is left out where the run came to its end.
    """

    summary: Summary
    top: list[CostlyCause] = []
    unseen: list[UnrecordedParts] = []
    findings: list[Finding]
    problems: list[Problem]
    interrupted: Interruption | UnsetType = UNSET


class SegmentResult(Struct, frozen=True):
    """One segment of an assembled prompt, without its content. `stable` is False in the tail.

    `breakpoint` is the cache breakpoint that stands on it, as its dialect writes it; `origin` where it came from.
    """

    number: int
    section: str
    path: str
    bytes: int
    stable: bool
    breakpoint: Raw | None
    origin: str | None


class OmittedResult(Struct, frozen=True):
    """What of a turn its dialect could not express, and how many of them."""

    what: str
    count: int


class CapabilityResult(Struct, frozen=True):
    """Whether a dialect expresses a feature, and what lore does where it does not."""

    feature: str
    expressed: bool
    answer: str


class PlacementResult(Struct, frozen=True):
    """Whether the context of a turn may be a system message at the end, and what says so.

    `by`: a `setting`, a provider's `row`, a chat `template`, the `dialect`, or `unknown`; `since` and `source` of rows.
    """

    accepted: bool
    by: str
    since: str
    source: str


class TemplateResult(Struct, frozen=True):
    """What the chat templates of some models do with a system message behind the first, when and where it was seen.

    `does`: it `refuses` the request, `merges` the message into the first one, `ignores` it, or `renders` it in place.
    """

    models: tuple[str, ...]
    does: str
    since: str
    source: str


class AssembleExplanation(CommandResult, frozen=True, kw_only=True):
    """`lore assemble --explain --json`. `turn` is None where a session without turns stands at its end.

    `chat_templates` are those that servers are known to use for the model; all that are known where the model is not.
    `max_loop_turns`: after so many turns of a tool loop news stand behind the last result; 0: they never do, by the
    settings or the dialect.
    """

    session: str
    chain: str
    turn: int | None
    dialect: str
    model: str | None
    fidelity: str
    tail: str
    stable_bytes: int
    tail_bytes: int
    segments: list[SegmentResult]
    omitted: list[OmittedResult]
    capabilities: list[CapabilityResult]
    system_messages: PlacementResult
    chat_templates: list[TemplateResult]
    max_loop_turns: int
    problems: list[Problem]


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


def reset_name(changes: tuple[Change, ...]) -> Reset | None:
    """Name the most severe change that entitles a prompt to differ; None where there is none."""
    codes = {change.cause for change in changes}
    return next((name for code, name in RESETS if code in codes), None)


def changes_of_reset(reset: Reset | None) -> tuple[Change, ...]:
    """Return what a named reset says of the events before a turn."""
    return () if reset is None else (Change(_CODES[reset], "the assembled turn says so"),)
