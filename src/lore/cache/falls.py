"""Signals of a log after which the cache read most prompts over 1,000 tokens shorter: the rows of `falls.toml`.

Example: after "tool-reference", the first time in a chain, Claude Code 2.1.119 read nothing of its prompt (20 of 21).
"""

from __future__ import annotations

import re
from functools import cache
from typing import Literal

from msgspec import Struct

from lore.model.deferred import pattern, read_table


class FallCounts(Struct, frozen=True, forbid_unknown_fields=True):
    """How many reads fell, of those that were seen."""

    fell: int  # reads that fell by over 1,000 tokens
    seen: int  # reads after the signal


class Fall(FallCounts, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A row: what reads did after a signal."""

    signal: str  # a name in `model.state.SIGNS`, or one of `cache.transcript_signals`
    unread: Literal["head", "history", "text"]  # the whole prompt, all messages, or those from the signal's text on
    at_prompt: bool = False  # only in a request that the user's prompt caused, not a tool's result
    first: bool = False  # only the first time that a chain shows the signal
    models: tuple[str, ...] = ("",)  # how names of models begin
    since: str = ""  # version of the client; an unknown version is before it
    before: str = ""  # version of the client from which on the row does not hold; empty: it holds for all later ones
    provider: str = "anthropic"  # whose cache it is about


class FallTable(Struct, frozen=True, forbid_unknown_fields=True):
    """The packaged table."""

    falls: tuple[Fall, ...]  # rows in the order of the file; in each more than half of the reads fell
    random: dict[str, FallCounts]  # caches whose reads are nearly random, by provider


@cache
def fall_table() -> FallTable:
    """Return the packaged table, read once."""
    return read_table(FallTable, "lore.cache", "falls.json")


def find_fall(
    signal: str, *, at_prompt: bool, is_first: bool, version: str, model: str, provider: str = "anthropic"
) -> Fall | None:
    """Return the row that holds for a signal, None without one; `version` is the client's, `model` a `normal_name`."""
    number = version_of(version)
    for fall in fall_table().falls:
        if fall.signal != signal or fall.provider != provider or not model.startswith(fall.models):
            continue
        if (fall.at_prompt and not at_prompt) or (fall.first and not is_first):
            continue
        before = version_of(fall.before)  # an unknown version, (), needs a row without bounds
        if version_of(fall.since) <= number and (not before or () < number < before):
            return fall
    return None


_VERSION = pattern(r"\d{1,6}(?:\.\d{1,6}){0,5}", re.ASCII)


def version_of(text: str) -> tuple[int, ...]:
    """Return the numbers of a version (`2.1.119-beta` is `2.1.119`); empty if the text does not begin with one."""
    match = _VERSION.match(text)
    return tuple(map(int, match[0].split("."))) if match else ()
