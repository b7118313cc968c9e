"""Sentences about one request: what its shape says of a cache, and what that costs or why it matters."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from lore.model import differences as e
from lore.model.differences import EvidenceFact

_TAKES_NONE: dict[e.Unmarkable, str] = {
    "empty-text": "a cache breakpoint stands on a text that is empty",
    "thinking": "a cache breakpoint stands on a block of thinking",
    "deferred-tool": "a cache breakpoint stands on a tool that is deferred",
    "message": "a cache breakpoint stands on a message, beside its content",
    "not-input": "a cache breakpoint stands on what the model said",
    "lifetime": "a cache breakpoint asks for a lifetime that there is not",
    "automatic-cache": "the cache of this model takes no breakpoints: it keeps what repeats by itself",
}
_VARIES: dict[e.VaryingKind, str] = {
    "date": "a date", "clock": "a time of day", "directory": "a path of this machine or project", "id": "an id",
    "temporary-path": "a temporary path", "process-id": "the id of a process", "token-count": "a count of tokens",
    "repository": "the state of a repository",
}  # fmt: skip
_SETTINGS: dict[e.RequestSetting, str] = {
    "key-too-long": "prompt_cache_key has {value} characters; {limit} are the most",
    "retention-shorter": "prompt_cache_retention asks for {value}: minutes, where this model keeps 24 hours by default",
    "retention-replaced": "prompt_cache_retention ({value}) says nothing to a model with cache breakpoints",
    "reasoning-not-returned": (
        "responses are not stored, and the input holds calls without the model's reasoning before them"
    ),
    "truncation": "truncation is auto: a server that drops items from the middle moves all that stands behind them",
    "cached-content-beside": "a cached content is named, and what only that may hold stands in the request beside it",
}


def _untaken(fact: e.BreakpointNotTaken) -> str:
    return _TAKES_NONE[fact.reason] + (f": {fact.value}" if fact.value else "")


def _order(fact: e.LifetimesOutOfOrder) -> str:
    longer, shorter = fact.seconds / 60, fact.seconds_before / 60
    return (
        f"a cache breakpoint asks for {longer:.0f} minutes behind one of {shorter:.0f} ({fact.before}); the longer "
        "lifetime has to stand first"
    )


def _apart(fact: e.BreakpointsApart) -> str:
    if fact.step:
        return (
            f"the latest step appended {fact.positions:,} positions and set no breakpoint among them; "
            f"{fact.allowed} are looked back"
        )
    return f"{fact.positions:,} positions stand between the last two breakpoints; {fact.allowed} are looked back"


def _varying(fact: e.VaryingText) -> str:
    return f"{_VARIES[fact.kind]} stands before the history" + (f": {fact.excerpt}" if fact.excerpt else "")


def _images(fact: e.ImageBeforeText) -> str:
    images = "an image stands" if fact.images == 1 else f"{fact.images} images stand"
    return f"{images} before about {fact.tokens:,} tokens of text in the first message"


def _key(fact: e.CacheKeyMissing) -> str:
    many = "" if fact.per_minute is None else f", {fact.per_minute} a minute at most on one of them"
    return f"no prompt_cache_key: requests that begin alike may reach different machines{many}"


def _setting(fact: e.CacheSetting) -> str:
    return _SETTINGS[fact.setting].format(value=fact.value, limit=fact.limit)


REQUESTS: dict[type[EvidenceFact], Callable[[Any], str]] = {
    e.BreakpointNotTaken: _untaken,
    e.LifetimesOutOfOrder: _order,
    e.BreakpointsApart: _apart,
    e.VaryingText: _varying,
    e.ToolsUnsorted: "tools do not stand in the order of their names: {0.name} stands behind {0.before}".format,
    e.ImageBeforeText: _images,
    e.CacheKeyMissing: _key,
    e.CacheSetting: _setting,
}
