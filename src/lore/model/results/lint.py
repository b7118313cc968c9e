"""What `lore lint` answers: of each conversation's latest request, whether a cache would keep it; and findings."""

from __future__ import annotations

from msgspec import Struct

from lore.model.codes import Problem
from lore.model.results import CommandResult, CostlyCause, Finding, UnrecordedParts


class LintBreakpoint(Struct, frozen=True, kw_only=True):
    """A cache breakpoint: the path and the byte in the body of what it stands on, tokens up to it, seconds it lives."""

    path: str
    body_offset: int | None
    tokens: int
    lifetime: float | None


class LintRequest(Struct, frozen=True, kw_only=True):
    """A request, and what it would come to if it were sent and sent again. Tokens are estimated, money in US dollars.

    `provider` made the model, `platform` serves it (None: its maker), by `cache` (None: nobody knows); `platform` and
    prices as far as they are known. `cached_tokens` is what the second request would read (None: not known), up to
    and with `cached_to`; `sure` is False where the size is too near to `minimum_tokens` to tell from bytes, or the
    prompt holds what its bytes do not show. `lifetime` in seconds is that of the last breakpoint, or the cache's own.
    `uncached_dollars` is the price without any cache. `refused`: a finding says that the provider refuses it as it is,
    and the rest holds once that is mended. `codes` are what was found in this very request.
    """

    path: str
    line: int | None
    chain: str
    turn: int
    dialect: str
    model: str | None
    provider: str | None
    platform: str | None
    cache: str | None
    tokens: int
    cached_tokens: int | None
    cached_to: str | None
    sure: bool
    minimum_tokens: int | None
    lifetime: float | None
    breakpoints: list[LintBreakpoint]
    automatic: bool
    refused: bool
    confidence: str
    first_dollars: float | None
    second_dollars: float | None
    uncached_dollars: float | None
    codes: list[str]


class LintSummary(Struct):
    """The counts of `lore lint`: of the latest request of each conversation (`shown`) how many a cache would keep.

    `cached`, `uncached`, `refused` and `unknown` add up to them. `errors`, `warnings` and `notes` count findings, each
    once however many requests have it; `ignored` and `exempted` those that settings take out. `skipped`: files in a
    folder that hold no requests.
    """

    files: int = 0
    requests: int = 0
    shown: int = 0
    cached: int = 0
    uncached: int = 0
    refused: int = 0
    unknown: int = 0
    errors: int = 0
    warnings: int = 0
    notes: int = 0
    ignored: int = 0
    exempted: int = 0
    skipped: int = 0
    problems: int = 0


class LintResult(CommandResult, frozen=True, kw_only=True):
    """`lore lint --json`; `rules` is the day on which the tables of rules were checked."""

    summary: LintSummary
    rules: str | None
    requests: list[LintRequest]
    findings: list[Finding]
    problems: list[Problem]

    @property
    def top(self) -> list[CostlyCause]:
        """No costs were summed: one request has lost nothing yet."""
        return []

    @property
    def unseen(self) -> list[UnrecordedParts]:
        """Request bodies hold all that was sent."""
        return []
