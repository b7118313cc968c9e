"""Where a request may carry cache breakpoints: dated rules by API, model and platform (`data/breakpoints.toml`).

    rule = rules.breakpoints(turn.dialect, "anthropic", "claude-opus-5", at=turn.at)
    rule.field, rule.sections, rule.most, rule.lifetimes

Lint and check read the rule that held for a recorded request. Prompts are written by the latest packaged one.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from datetime import date
from functools import cache, lru_cache
from typing import Literal, TypeAlias

from msgspec import Struct

from lore.cache.served import normal_name, served
from lore.model.deferred import pattern, read_table
from lore.model.patterns import matches_shell
from lore.model.providers import AcceptedBreakpoints

Api: TypeAlias = Literal["anthropic", "openai-chat", "openai-responses", "gemini", "bedrock"]
Field: TypeAlias = Literal["", "cache_control", "cachePoint", "cacheControl", "prompt_cache_breakpoint"]
ALWAYS = date(1970, 1, 1)
_SPECIAL = pattern(r"\[[^]]*\]|[*?]")


def seconds(day: date) -> float:
    """Return when a day begins (UTC), in seconds since the epoch."""
    return (day - ALWAYS).days * 86_400.0


class DatedRow(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What every row of a table says: for which requests it holds, from when on, and who published it."""

    provider: str  # the maker of the model; "*" for all
    model: str = "*"  # a shell pattern over names as `served.normal_name` spells them
    platform: str = ""  # holds only on this cloud or gateway; empty: on all
    valid_from: date = ALWAYS  # the first day on which it holds
    source: str = ""  # link to the publication, or `measured`
    evidence: Literal["P", "M", "S", "?"] = "?"  # the vendor's own page, measured, second-hand, inferred
    note: str = ""  # what the page leaves open
    file: str = ""  # the file that holds the row
    own: bool = False  # the row is the user's

    @property
    def since(self) -> float:
        """When it begins to hold: its first day at 0:00 UTC, in seconds since the epoch."""
        return seconds(self.valid_from)

    def holds_for(self, provider: str, model: str, platform: str) -> bool:
        """Return whether the row is about a model, at any time; `model` is spelled as `normal_name` spells it."""
        if self.provider not in (provider, "*") or self.platform not in ("", platform):
            return False
        return matches_shell(self.model, model)

    @property
    def specificity(self) -> tuple[bool, bool, int, bool, bool]:
        """Sort key; the greatest row is used: the user's, whole names, long patterns, one platform, one provider."""
        literals = len(_SPECIAL.sub("", self.model))
        return self.own, literals == len(self.model), literals, bool(self.platform), self.provider != "*"


class BreakpointRule(DatedRow, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Where requests of some models may carry breakpoints."""

    apis: tuple[Api, ...]  # the shapes of requests (dialects) that it holds for
    provider: str = "*"  # the maker of the model; "*" for all
    field: Field = ""  # the member that the API reads as a breakpoint; empty: it reads none
    sections: tuple[Literal["tools", "system", "messages"], ...] = ()  # that may hold breakpoints
    inside_results: bool = True  # whether a breakpoint inside the content of a tool's result is accepted
    lifetimes: tuple[int, ...] = ()  # seconds that a breakpoint may ask for; empty: none can be asked for
    longest_first: bool = False  # a longer lifetime must come before a shorter one
    automatic: bool = False  # the request itself may ask for a breakpoint on its last block
    most: int | None = None  # breakpoints of one request; None: `max_breakpoints`, 0: any number
    refuses: bool = True  # a misplaced breakpoint is an error; otherwise it counts for nothing
    refused: tuple[Field, ...] = ()  # members of other APIs that are an error here
    ignored: tuple[Field, ...] = ()  # members of other APIs that are accepted and count for nothing

    @property
    def key(self) -> tuple[object, ...]:
        """The values that no other row of a file may share."""
        return "breakpoints", self.apis, self.provider, self.model, self.platform, self.valid_from


def most_specific(
    rows: Iterable[BreakpointRule], api: str, provider: str, model: str, platform: str, at: float
) -> BreakpointRule | None:
    """Return the most specific row that holds for a request at a time, else None; `model` is a `served.normal_name`."""
    matching = [row for row in rows if api in row.apis and row.since <= at and row.holds_for(provider, model, platform)]
    return max(matching, key=lambda row: (*row.specificity, row.valid_from), default=None)


@lru_cache(4096)  # a recording can name any number of models
def accepted_breakpoints(api: str, model: str | None) -> AcceptedBreakpoints | None:
    """Return the sections and lifetimes of breakpoints that an API accepts in a request that is sent today.

    None if no packaged row is about the API and the model.
    """
    where = served("", model, api)
    rule = most_specific(packaged_breakpoints(), api, where.provider, normal_name(model), where.platform, math.inf)
    return rule and AcceptedBreakpoints(rule.sections, rule.lifetimes)


@cache
def packaged_breakpoints() -> tuple[BreakpointRule, ...]:
    """Return the rows of the packaged table; reading those of prices and lifetimes would take ten times as long."""
    return read_table(tuple[BreakpointRule, ...], "lore.cache", "breakpoints.json")
