"""JSON results of commands, schema version 2: fields are only ever added.

Unknown values are null, never 0. Offsets are bytes, ranges half-open. The comment of a field is its description in
`lore schema NAME`. This module holds what several commands share, and the results of `check` and `diff-prefix`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Any, Literal, Self, TypeAlias, TypeVar

from msgspec import UNSET, Meta, Struct, UnsetType

from lore.model.cause import RuledOut
from lore.model.codes import CauseKind, Problem, Severity
from lore.model.events import SUMMED_COUNTS, THOUGHTS, Usage
from lore.model.evidence import Evidence

Count: TypeAlias = Annotated[int, Meta(ge=0)]
S = TypeVar("S", bound=Struct)


class CommandResult(Struct, frozen=True, kw_only=True):
    """The base of what commands answer."""

    schema: int = 2  # version of this JSON


class ErrorResult(CommandResult, frozen=True, kw_only=True):
    """The answer of a command with `--json` that could not run, with exit code 2."""

    error: str  # a sentence
    hint: str  # what to do; empty: unknown
    place: str | None  # in an input, as `FILE:LINE`; null: unknown


def copy_fields(kind: type[S], source: object, **fields: object) -> S:
    """Return a struct with these `fields`, and from `source` every other field of `kind` that it has by name."""
    names = [name for name in kind.__struct_fields__ if name not in fields and hasattr(source, name)]
    return kind(**{name: getattr(source, name) for name in names}, **fields)


# usage and causes


class UsageResult(Struct, frozen=True, kw_only=True):
    """Token counts of a provider's usage, or sums of them."""

    uncached_tokens: int | None  # input that was neither read from a cache nor written to one
    read_tokens: int | None  # input that was read from a cache
    write_tokens: int | None  # input that was written to a cache, for any lifetime
    output_tokens: int | None  # with thinking, if the usage includes it
    partial_output: Literal[True] | UnsetType = UNSET  # true if the log holds only a part of the output tokens

    @classmethod
    def of(cls, usage: Usage, *, partial: bool = False) -> Self:
        """Return the counts of the pass that the next request continues, its `thoughts` passes added to the output."""
        thoughts = [iteration for iteration in usage.iterations if iteration.kind == THOUGHTS]
        return cls(
            uncached_tokens=usage.uncached_tokens, read_tokens=usage.read_tokens, write_tokens=usage.write_tokens,
            output_tokens=cls.sum_of([usage, *thoughts]).output_tokens if thoughts else usage.output_tokens,
            partial_output=True if partial else UNSET,
        )  # fmt: skip

    @classmethod
    def of_other_passes(cls, usage: Usage | None) -> UsageResult | UnsetType:
        """Return the sum over the passes of a usage that `of` leaves out; unset without such passes."""
        others = [other for other in usage.iterations if other.kind != THOUGHTS] if usage is not None else []
        return cls.sum_of(others) if others else UNSET

    @classmethod
    def sum_of(cls, usages: Iterable[Struct], **fields: Any) -> Self:
        """Return the sum of each count over the usages that know it; None if none does. `fields` override sums."""
        usages = list(usages)
        sums: dict[str, Any] = {}
        for name in SUMMED_COUNTS:
            counts = [count for usage in usages if (count := getattr(usage, name)) is not None]
            sums[name] = sum(counts) if counts else None
        partial = any(isinstance(usage, UsageResult) and usage.partial_output is True for usage in usages)
        sums["partial_output"] = True if partial else UNSET
        return cls(**{**sums, **fields})


class Surcharge(Struct, frozen=True):
    """What requests cost more than the list price for one reason."""

    name: str  # such as `fast mode`, several joined by commas
    requests: int  # that cost more or less
    dollars: float  # more than the list price; negative: less


class VerdictResult(Struct, frozen=True):
    """What the provider itself reports about a cache miss."""

    reason: str  # in the provider's word, such as `tools_changed`
    missed_tokens: int | None  # tokens that could have been read; null if the provider does not say
    source: str | None  # the field of the response that has the verdict


class SecondaryCause(Struct, frozen=True):
    """Another cause that was found together with a leading one."""

    code: str  # such as `LORE104`
    name: str  # of the code, in words joined by hyphens
    section: str | None  # the part of the prompt that changed, such as `tools`; null if none did, or it is unknown
    strength: str  # certain, strong or weak: how well the evidence explains the cache break
    evidence: Evidence  # what shows the cause
    message: str = ""  # the evidence in words
    contradicted: bool = False  # the provider's verdict names another section, so this did not break the prefix there


class CauseResult(Struct, frozen=True):
    """Why a turn reused less than the previous prompt, and the cost; the same in every result about a turn."""

    code: str  # such as `LORE104`
    name: str  # of the code, in words joined by hyphens
    kind: CauseKind  # expected, waste or unattributable
    section: str | None  # the part of the prompt that changed, such as `tools`; null if none did, or it is unknown
    path: str | None  # JSON path of the first difference in the request body; null if the cause has no place there
    message: str  # the evidence in words
    evidence: Evidence | None  # what shows the cause
    strength: str | None  # how well the evidence explains the cache break
    actor: str  # who can fix it: `author`, `user`, `provider` or `nobody`
    also: tuple[SecondaryCause, ...]  # other causes that were found with this one
    ruled_out: tuple[RuledOut, ...]  # reasons that were examined, and whether they are ruled out
    # from the change to the end of what the previous request wanted cached; 0 if bytes do not show the cause; null as
    # `lost_tokens` is
    lost_bytes: int | None
    # tokens that were cached and not read again; null if unknown, or if another cause of the same cache break has the
    # loss (`counted-once`)
    lost_tokens: int | None
    tokens: str | None  # whether the lost tokens are recorded, counted or estimated
    fix: str  # what `actor` can do about it
    is_break: bool = True  # tokens that should have been read from the cache were not
    lost_dollars: float | None = None  # what the lost tokens cost beyond the price of reading them


class ColumnsResult(Struct, frozen=True):
    """What the bytes, the usage and the provider's verdict show of a turn, in words."""

    bytes: str  # how far the two prompts are equal
    billed: str  # how much the usage shows as read
    verdict: str  # what the provider reports
    agree: bool | None  # null if only one of them shows anything
    dispute: str | None  # how they contradict each other


class Interruption(Struct, frozen=True):
    """How many of the files were read before the run was interrupted, the last one perhaps in part."""

    files: int  # files whose reading had begun
    of: int  # files to read


# lore diff-prefix


class DiffSide(Struct, frozen=True):
    """One side of a comparison."""

    name: str  # of the file or turn, as it was given
    format: str | None = None  # of the recording; null if unrecognised, then only bytes are compared
    dialect: str | None = None  # of the request; null without a prompt
    model: str | None = None  # as the request names it; null if it names none, or without a prompt
    # how close the prompt is to the sent bytes: wire, parsed, structural, reconstructed, hashed or rendered
    fidelity: str | None = None
    partial: bool | UnsetType = UNSET  # true if the beginning of the prompt is not recorded
    lacks: str | UnsetType = UNSET  # parts of the prompt that logs of this format do not record


class FileLengths(Struct, frozen=True):
    """The longest common prefix of two whole files, byte by byte."""

    left_bytes: int  # size of the left file
    right_bytes: int  # size of the right file
    common_prefix_bytes: int  # equal bytes at the beginning of both


class PromptLengths(Struct, frozen=True):
    """The longest common prefix of two prompts."""

    left_bytes: int  # all segments, the tail included
    right_bytes: int  # all segments, the tail included
    common_prefix_bytes: int  # equal bytes at the beginning of both
    common_prefix_segments: int  # whole segments that are equal, from the first on
    left_tail_bytes: int  # the volatile end of the left prompt, which is not expected to be reused
    canonical_common_prefix_bytes: int  # in the canonical encoding of the left prompt
    left_tokens: int | None = None  # null if tokens are not counted
    right_tokens: int | None = None  # null if tokens are not counted
    common_prefix_tokens: int | None = None  # null if tokens are not counted
    tokenizer: str | None = None  # null if tokens are not counted


class DivergenceResult(Struct, frozen=True):
    """The first place where two prompts differ."""

    section: str  # tools, system or messages
    path: str  # JSON path of the innermost value that differs
    offset: int  # byte in the value at `path`, from 0
    prompt_offset: int  # byte in the left prompt, from 0
    left: str  # text around this byte in the left prompt, masked; empty if it ends before
    right: str  # the same in the right prompt


class CachePrediction(Struct, frozen=True):
    """What a cache would read and write of a request."""

    cache: str  # name of the cache model
    read_tokens: int | None  # input that is read from the cache
    write_tokens: int | None  # input that is written to the cache; null: cannot be predicted
    uncached_tokens: int | None  # input that is neither read nor written; null: cannot be predicted
    confidence: str  # exact, rule (by the cache's dated rules) or ceiling (no more than this is read)


class DiffResult(CommandResult, frozen=True, kw_only=True):
    """`lore diff-prefix --json`."""

    left: DiffSide  # the earlier request
    right: DiffSide  # the later request
    file: FileLengths | None  # null for two turns of one session
    prompt: PromptLengths | None  # null if a side holds no prompt
    relation: str | None  # identical, extension, shrunk, diverged or unrelated
    divergence: DivergenceResult | None  # null if the right prompt continues the left one
    # share of the left prompt's bytes (without its tail) that the right prompt begins with, 0 to 1
    reuse_ratio: float | None
    causes: list[CauseResult]  # why the right prompt does not continue the left one; empty if it does
    caches: list[CachePrediction]  # one prediction for each cache that was asked for
    billed: UsageResult | None  # the usage of the right request; null if not recorded
    verdict: VerdictResult | None  # of the provider, about the right request; null if not recorded
    problems: list[Problem]  # places in the recordings that could not be read or did not fit
    chain: str | None = None  # of the right side; null unless all turns of a session are compared
    turn: int | None = None  # number of the right side in its chain, from 1; null as `chain` is
    columns: ColumnsResult | None = None  # null without a prompt on both sides


# lore check


class Finding(Struct, frozen=True):
    """One finding of `lore check` or `lore lint`."""

    code: str  # such as `LORE104`
    name: str  # of the code, in words joined by hyphens
    # of a cache break: expected, waste or unattributable; of any other finding it only goes with the severity: damage
    # of a recording (LORE2xx) that makes verdicts wrong has the kind waste, though no prompt is wasted
    kind: CauseKind
    severity: Severity  # error, warning or note
    path: str  # the file or folder; a stored or remote session by its URL; of a budget the settings file
    message: str  # the finding in words; made last, from the other fields
    fix: str  # what `actor` can do about it
    line: int | None = None  # of the file, from 1; null if the finding belongs to no line
    chain: str | None = None  # the conversation in the recording; null if the finding belongs to no turn
    turn: int | None = None  # number in its chain, from 1; null as `chain` is
    dialect: str | None = None  # of the request, such as `anthropic`; null as `chain` is
    section: str | None = None  # the part of the prompt, such as `tools`; null if none, or it is unknown
    json_path: str | None = None  # of the place in the request body; null if the finding has no place there
    offset: int | None = None  # byte in the value at `json_path`, from 0; null if the finding has no such byte
    evidence: Evidence | None = None  # what shows the finding; null if only its code and place are kept
    lost_bytes: int | None = None  # as in a cause of `lore diff-prefix`; null as `lost_tokens` is
    # tokens that were cached and not read again; null if the finding is not about two prompts, or if another cause of
    # the same cache break has the loss (`counted-once`)
    lost_tokens: int | None = None
    lost_dollars: float | None = None  # what the lost tokens cost beyond the price of reading them
    tokens: str | None = None  # whether the lost tokens are recorded, counted or estimated
    # how close the prompt is to the sent bytes: wire, parsed, structural, reconstructed, hashed or rendered
    fidelity: str | None = None
    confidence: str | None = None  # rule: it follows from dated rules of the cache; null: from the recording alone
    fingerprint: str = ""  # 16 hex digits of code and place, by which a baseline recognises the finding in another run
    strength: str | None = None  # how well the evidence explains the finding
    actor: str = "nobody"  # who can fix it: `author`, `user`, `provider` or `nobody`
    more: int = 0  # further places with the same code, after the first
    skipped: int = 0  # further places that were not examined one by one
    paused: float | None = None  # seconds without a request before this turn
    times: int = 1  # turns of the chain for which the finding holds
    qualifiers: tuple[str, ...] = ()  # remarks that the evidence does not hold, such as `nothing-lost`
    also: tuple[SecondaryCause, ...] = ()  # other causes of the same cache break
    ruled_out: tuple[RuledOut, ...] = ()  # reasons that were examined, and whether they are ruled out
    # a compared prompt continues requests that are not recorded, so that its beginning is missing
    partial: bool = False
    is_break: bool = False  # tokens that should have been read from the cache were not
    body_offset: int | UnsetType = UNSET  # lint only: byte of the request body
    requests: int | UnsetType = UNSET  # lint only: how many requests have it
    stake_tokens: int | UnsetType = UNSET  # lint only: tokens that each such request pays for again, estimated
    stake_dollars: float | UnsetType = UNSET  # lint only: what these cost beyond the price of reading them


class Summary(Struct):
    """The counts of `lore check`."""

    files: int = 0  # recordings that were judged
    sessions: int = 0  # with a request that is no copy; files of subagents count with their session
    chains: int = 0  # conversations: each session has a main one, and one for each subagent and side request
    turns: int = 0  # model requests
    pairs: int = 0  # turns that were compared with an earlier turn
    compactions: int = 0  # of chains, as the logs record them or the requests show them
    breaks: int = 0  # turns that did not read tokens that were cached; the sum of the next three
    expected: int = 0  # cache breaks with an expected cause
    waste: int = 0  # cache breaks with an avoidable cause
    unattributable: int = 0  # cache breaks without a certain cause
    problems: int = 0  # of recordings, whatever settings ignore
    skipped: int = 0  # files in folders that are not recordings
    lost_tokens: int = 0  # of waste and of unexplained cache breaks
    copied: int = 0  # turns that an earlier file holds, or a fork has of its parent; not counted anywhere else
    ignored: int = 0  # findings that settings remove; they count nowhere else and against no budget
    exempted: int = 0  # findings that exemptions remove
    known: int = 0  # findings that the baseline removes
    unexplained: int = 0  # the same as `unattributable`
    unexplained_tokens: int = 0  # re-billed without a certain cause
    waste_tokens: int = 0  # re-billed as waste
    ruled_out: dict[str, int] = {}  # for each reason: how many unexplained cache breaks it does not explain
    waste_dollars: float | None = None  # beyond the price of reading, of the breaks whose price is known
    unexplained_dollars: float | None = None  # beyond the price of reading, of the breaks whose price is known
    expected_tokens: int = 0  # re-billed with an expected cause
    expected_dollars: float | None = None  # beyond the price of reading, of the breaks whose price is known
    known_tokens: int | UnsetType = UNSET  # re-billed in cache breaks whose findings the baseline removes
    known_dollars: float | UnsetType = UNSET  # beyond the price of reading; like the last left out without any
    recorded_dollars: float | UnsetType = UNSET  # cost that the logs state themselves; left out if none does
    missed_tokens: int | UnsetType = UNSET  # not re-billed, but could have been read from a cache; left out without any
    missed_dollars: float | UnsetType = UNSET  # what these cost beyond the price of reading
    # of waste, unexplained, expected, missed, known: tokens that are estimated, and tokens whose price is not known
    estimated_tokens: dict[str, int] = {}
    unpriced_tokens: dict[str, int] = {}


class CostlyCause(Struct, frozen=True):
    """A cause, and what the cache breaks that it leads lost together."""

    code: str  # such as `LORE104`
    name: str  # of the code, in words joined by hyphens
    kind: CauseKind  # waste or expected
    breaks: int  # cache breaks that it leads
    lost_tokens: int  # re-billed in these cache breaks
    fix: str  # what the agent's author or user can do about it
    lost_dollars: float | None = None  # of the breaks whose price is known
    estimated_tokens: int = 0  # of the lost tokens, those that are not recorded
    unpriced_tokens: int = 0  # of the lost tokens, those whose price is not known


class UnrecordedParts(Struct, frozen=True):
    """Parts of prompts that the logs of a format do not record."""

    format: str  # name of the format
    what: str  # the parts, in words
    files: int  # logs of this format in the run
    tokens: int | None  # median over first requests of the tokens billed beyond what the log holds, an estimate
    sealed: str = ""  # parts that the files hold in an unreadable form
    least: int | None = None  # the smallest of single sessions: tools of connected servers differ; null: unknown
    most: int | None = None  # the largest of single sessions; null: unknown


class CheckResult(CommandResult, frozen=True, kw_only=True):
    """`lore check --json`."""

    summary: Summary  # counts over all files
    top: list[CostlyCause] = []  # the costliest causes, by cost: at most three that are waste, and three expected
    unseen: list[UnrecordedParts] = []  # one entry for each format and kind of missing parts
    findings: list[Finding]  # of all files, then of the whole run; at most 10,000 of each severity
    problems: list[Problem]  # places in the recordings that could not be read or did not fit
    interrupted: Interruption | UnsetType = UNSET  # left out if the run was completed


class StoredDamage(Struct, frozen=True):
    """Stored data that differs from the data that was saved."""

    session_id: str | None  # null if it concerns the whole store
    number: int | None  # of the event, if it concerns one
    place: str  # a file and byte, or a table and row
    message: str  # what differs
    recoverable: str  # what can still be read
    commands: tuple[str, ...] = ()  # that recover it, into another store
