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
from lore.model.events import SUMMED_COUNTS, THOUGHTS, Usage, Verdict
from lore.model.evidence import Evidence
from lore.model.state import Totals

Count: TypeAlias = Annotated[int, Meta(ge=0)]
S = TypeVar("S", bound=Struct)


class CommandResult(Struct, frozen=True, kw_only=True):
    """The base of what commands answer."""

    schema: int = 2


def copy_fields(kind: type[S], source: object, **fields: object) -> S:
    """Return a struct with the fields of `source` that have the same names, and these `fields`."""
    names = [name for name in kind.__struct_fields__ if name not in fields and hasattr(source, name)]
    return kind(**{name: getattr(source, name) for name in names}, **fields)


# usage and causes


class UsageResult(Struct, frozen=True, kw_only=True):
    """Token counts of a provider's usage, or sums of them."""

    uncached_tokens: int | None
    read_tokens: int | None
    write_tokens: int | None
    output_tokens: int | None
    partial_output: Literal[True] | UnsetType = UNSET  # true if the log holds only a part of the output tokens

    @classmethod
    def of(cls, usage: Usage, *, partial: bool = False) -> Self:
        """Return the counts of the pass that the next request continues; its thoughts are output."""
        thoughts = [one for one in usage.iterations if one.kind == THOUGHTS]
        output = cls.sum_of([usage, *thoughts]).output_tokens
        return copy_fields(cls, usage, output_tokens=output, partial_output=True if partial else UNSET)

    @classmethod
    def of_other_passes(cls, usage: Usage | None) -> UsageResult | UnsetType:
        """Return the sum over the passes that `of` leaves out; unset if there are none."""
        others = [one for one in usage.iterations if one.kind != THOUGHTS] if usage is not None else []
        return cls.sum_of(others) if others else UNSET

    @classmethod
    def sum_of(cls, usages: Iterable[Usage | UsageResult | Totals], **fields: Any) -> Self:
        """Return the sum of the known counts; None for a count that is unknown in all of them."""
        usages = list(usages)
        sums: dict[str, Any] = {}
        for name in SUMMED_COUNTS:
            counts = [count for usage in usages if (count := getattr(usage, name)) is not None]
            sums[name] = sum(counts) if counts else None
        partial = any(isinstance(usage, UsageResult) and usage.partial_output is True for usage in usages)
        sums["partial_output"] = True if partial else UNSET
        return cls(**{**sums, **fields})


class VerdictResult(Struct, frozen=True):
    """What the provider itself reports about a cache miss."""

    reason: str
    missed_tokens: int | None
    source: str | None

    @classmethod
    def of(cls, verdict: Verdict) -> VerdictResult:
        """Return a provider's verdict."""
        return copy_fields(cls, verdict)


class SecondaryCause(Struct, frozen=True):
    """Another cause that was found together with a leading one."""

    code: str
    name: str
    section: str | None
    strength: str
    evidence: Evidence
    message: str = ""  # the evidence in words
    contradicted: bool = False  # the provider's verdict names another section, so this did not break the prefix there


class CauseResult(Struct, frozen=True):
    """Why a turn reused less than the previous prompt, and the cost; the same in every result about a turn."""

    code: str
    name: str
    kind: CauseKind
    section: str | None
    path: str | None
    message: str  # the evidence in words
    evidence: Evidence | None
    strength: str | None  # how well the evidence explains the cache break
    actor: str  # who can fix it: `author`, `user`, `provider` or `nobody`
    also: tuple[SecondaryCause, ...]
    ruled_out: tuple[RuledOut, ...]
    lost_bytes: int | None
    lost_tokens: int | None
    tokens: str | None  # whether the lost tokens are recorded, counted or estimated
    fix: str
    is_break: bool = True  # tokens that should have been read from the cache were not
    lost_dollars: float | None = None  # what the lost tokens cost beyond the price of reading them


class ColumnsResult(Struct, frozen=True):
    """What the bytes, the usage and the provider's verdict show of a turn, in words."""

    bytes: str
    billed: str
    verdict: str
    agree: bool | None  # null if only one of them shows anything
    dispute: str | None  # how they contradict each other


class Interruption(Struct, frozen=True):
    """How many of the files were read before the run was interrupted, the last one perhaps in part."""

    files: int
    of: int


# lore diff-prefix


class DiffSide(Struct, frozen=True):
    """One side of a comparison."""

    name: str
    format: str | None = None
    dialect: str | None = None
    model: str | None = None
    fidelity: str | None = None
    partial: bool | UnsetType = UNSET  # true if the beginning of the prompt is not recorded
    lacks: str | UnsetType = UNSET  # parts of the prompt that logs of this format do not record


class FileLengths(Struct, frozen=True):
    """The longest common prefix of two whole files, byte by byte."""

    left_bytes: int
    right_bytes: int
    common_prefix_bytes: int


class PromptLengths(Struct, frozen=True):
    """The longest common prefix of two prompts."""

    left_bytes: int
    right_bytes: int
    common_prefix_bytes: int
    common_prefix_segments: int
    left_tail_bytes: int
    canonical_common_prefix_bytes: int  # in the canonical encoding of the left prompt
    left_tokens: int | None = None  # null if tokens are not counted
    right_tokens: int | None = None
    common_prefix_tokens: int | None = None
    tokenizer: str | None = None


class DivergenceResult(Struct, frozen=True):
    """The first place where two prompts differ."""

    section: str
    path: str
    offset: int  # byte in the segment
    prompt_offset: int  # byte in the left prompt
    left: str
    right: str


class CachePrediction(Struct, frozen=True):
    """What a cache would read and write of a request."""

    cache: str
    read_tokens: int | None
    write_tokens: int | None
    uncached_tokens: int | None
    confidence: str


class DiffResult(CommandResult, frozen=True, kw_only=True):
    """`lore diff-prefix --json`."""

    left: DiffSide
    right: DiffSide
    file: FileLengths | None  # null for two turns of one session
    prompt: PromptLengths | None  # null if a side holds no prompt
    relation: str | None  # identical, extension, shrunk, diverged or unrelated
    divergence: DivergenceResult | None
    reuse_ratio: float | None  # common bytes of the bytes of the left prompt, without its tail
    causes: list[CauseResult]
    caches: list[CachePrediction]
    billed: UsageResult | None
    verdict: VerdictResult | None
    problems: list[Problem]
    chain: str | None = None  # chain and turn of the right side, in a comparison of all turns of a session
    turn: int | None = None
    columns: ColumnsResult | None = None


# lore check


class Finding(Struct, frozen=True):
    """One finding of `lore check` or `lore lint`."""

    code: str
    name: str
    kind: CauseKind
    severity: Severity
    path: str
    message: str  # the finding in words; made last, from the other fields
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
    lost_dollars: float | None = None  # what the lost tokens cost beyond the price of reading them
    tokens: str | None = None  # whether the lost tokens are recorded, counted or estimated
    fidelity: str | None = None
    confidence: str | None = None
    fingerprint: str = ""
    strength: str | None = None  # how well the evidence explains the finding
    actor: str = "nobody"  # who can fix it: `author`, `user`, `provider` or `nobody`
    more: int = 0  # further places with the same code, after the first
    skipped: int = 0  # further places that were not examined one by one
    paused: float | None = None  # seconds without a request before this turn
    times: int = 1  # turns of the chain for which the finding holds
    qualifiers: tuple[str, ...] = ()
    also: tuple[SecondaryCause, ...] = ()
    ruled_out: tuple[RuledOut, ...] = ()
    partial: bool = False
    is_break: bool = False  # tokens that should have been read from the cache were not
    body_offset: int | UnsetType = UNSET  # lint only: byte of the request body
    requests: int | UnsetType = UNSET  # lint only: how many requests have it
    stake_tokens: int | UnsetType = UNSET  # lint only: tokens that each such request pays for again, estimated
    stake_dollars: float | UnsetType = UNSET  # lint only: what these cost beyond the price of reading them


class Summary(Struct):
    """The counts of `lore check`."""

    files: int = 0
    sessions: int = 0  # distinct session ids; a file of a subagent counts with its session
    chains: int = 0
    turns: int = 0
    pairs: int = 0
    compactions: int = 0
    breaks: int = 0
    expected: int = 0
    waste: int = 0
    unattributable: int = 0
    problems: int = 0  # of recordings, whatever settings ignore
    skipped: int = 0  # files in folders that are not recordings
    lost_tokens: int = 0  # of waste and of unexplained cache breaks
    copied: int = 0  # turns that an earlier file holds as well; not counted anywhere else
    ignored: int = 0  # findings that settings remove; they count nowhere else and against no budget
    exempted: int = 0  # findings that exemptions remove
    known: int = 0  # findings that the baseline removes
    unexplained: int = 0  # cache breaks without a certain cause
    unexplained_tokens: int = 0
    waste_tokens: int = 0  # re-billed as waste
    ruled_out: dict[str, int] = {}  # for each reason: how many unexplained cache breaks it does not explain
    waste_dollars: float | None = None  # beyond the price of reading, of the breaks whose price is known
    unexplained_dollars: float | None = None
    recorded_dollars: float | UnsetType = UNSET  # cost that the logs state themselves; left out if none does


class CostlyCause(Struct, frozen=True):
    """A cause and what its cache breaks lost together. A break with several causes counts for each of them."""

    code: str
    name: str
    kind: CauseKind
    breaks: int
    lost_tokens: int
    fix: str
    lost_dollars: float | None = None  # of the breaks whose price is known


class UnrecordedParts(Struct, frozen=True):
    """Parts of prompts that the logs of a format do not record."""

    format: str
    what: str
    files: int
    tokens: int | None  # median over first requests of the tokens billed beyond what the log holds, an estimate
    sealed: str = ""  # parts that the files hold in an unreadable form
    least: int | None = None  # the same of single sessions: tools of connected servers differ
    most: int | None = None


class CheckResult(CommandResult, frozen=True, kw_only=True):
    """`lore check --json`."""

    summary: Summary
    top: list[CostlyCause] = []  # the three costliest causes, waste first
    unseen: list[UnrecordedParts] = []
    findings: list[Finding]
    problems: list[Problem]
    interrupted: Interruption | UnsetType = UNSET  # left out if the run was completed
