"""Results of `lore lint`: what a cache would keep of each conversation's latest request, and findings."""

from __future__ import annotations

from typing import ClassVar

from msgspec import Struct

from lore.model.codes import Problem
from lore.model.results import CommandResult, CostlyCause, Finding, UnrecordedParts


class LintBreakpoint(Struct, frozen=True, kw_only=True):
    """A cache breakpoint."""

    path: str  # of the block that carries it
    body_offset: int | None  # first byte of that block in the request body
    tokens: int  # of the prompt up to the breakpoint, estimated
    lifetime: float | None  # in seconds


class LintRequest(Struct, frozen=True, kw_only=True):
    """A request, and the cost of sending it twice."""

    path: str  # the file that holds the request
    line: int | None  # in this file, from 1; null if the file has no lines
    chain: str  # the conversation
    turn: int  # number in its chain, from 1
    dialect: str  # of the request, such as `anthropic`
    model: str | None  # that the request names, or `--model`; null: unknown
    provider: str | None  # the maker of the model
    platform: str | None  # who serves the model; null for its maker
    cache: str | None  # null if the cache is unknown
    tokens: int  # of the prompt, estimated
    cached_tokens: int | None  # what the second request would read, estimated; null: unknown
    cached_to: str | None  # the last block that it would read
    sure: bool  # False if the size is too close to `minimum_tokens`, or if bytes do not show all of the prompt
    minimum_tokens: int | None  # shorter prompts are not cached
    lifetime: float | None  # seconds; of the last breakpoint, else of the cache
    breakpoints: list[LintBreakpoint]  # in the order of the prompt
    automatic: bool  # the request asks for automatic caching
    refused: bool  # the provider refuses the request as it is; the figures hold once that is fixed
    # of `cached_tokens`: exact, rule (by the cache's dated rules) or ceiling (no more than this is read)
    confidence: str
    first_dollars: float | None  # what the first request costs, in US dollars; null if a price is unknown
    # what the same request costs while the cache keeps the first; null if a price is unknown
    second_dollars: float | None
    uncached_dollars: float | None  # the price without a cache
    codes: list[str]  # findings in this request


class LintSummary(Struct):
    """The counts of `lore lint`."""

    files: int = 0  # files with requests
    requests: int = 0  # requests that were examined
    shown: int = 0  # conversations; the latest request of each is one of the next four
    cached: int = 0  # a second request would read something
    uncached: int = 0  # a second request would read nothing
    refused: int = 0  # the provider refuses the request
    unknown: int = 0  # it is unknown what a second request would read
    errors: int = 0  # findings of this severity; one that many requests have counts once
    warnings: int = 0  # findings of this severity
    notes: int = 0  # findings of this severity
    ignored: int = 0  # findings that settings remove
    exempted: int = 0  # findings that exemptions remove
    skipped: int = 0  # files in folders that hold no requests
    problems: int = 0  # of files, whatever settings ignore


class LintResult(CommandResult, frozen=True, kw_only=True):
    """`lore lint --json`."""

    summary: LintSummary  # counts over all files
    rules: str | None  # the day on which the rules were checked
    requests: list[LintRequest]  # the latest one of each conversation
    findings: list[Finding]  # about all requests, errors first
    problems: list[Problem]  # places in the files that could not be read or did not fit
    top: ClassVar[list[CostlyCause]] = []  # as of `lore check`; empty: a single request has lost nothing yet
    unseen: ClassVar[list[UnrecordedParts]] = []  # as of `lore check`; empty: request bodies hold the whole prompt
