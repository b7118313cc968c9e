"""Text that is surely made anew for each request, even where it did not change yet: a clock, a request's id, a count.

In: text. Out: what was found first. Rules: a word beside the value says what it is; a date or a session's id alone
may have been frozen when the session began, as it should be; an example of a form is no clock. Cost: values are
sought first, by their cheapest sign, and patterns look only at what stands around `MOST` of them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from itertools import islice
from typing import NamedTuple

from lore.prefix.volatile import LONGEST, NUMBER

MOST = 256  # places of one text that are looked at
_BEFORE, _AFTER = 96, 160  # characters around a sign that belong to what it is a sign of

# Signs begin with a letter that stands for itself, so that they are found at the speed of a search for it.
_MINUTES, _EPOCH = re.compile(r":[0-9][0-9]"), re.compile(r"1[5-9][0-9]{8}")
_NOW = re.compile(
    r"\b(?:(?:current|present|local|server|request|system) (?:date and |date/|date & )?time|time now|time of day"
    r"|time is|right now|now is|timestamp|generated at|as of now|clock)\b[^\n]{0,40}?(?<!\d)"
    r"(?:\d{1,2}:\d{2}(?::\d{2})?|1[5-9]\d{8}(?:\d{3})?\b)",
    re.IGNORECASE,
)
_EXAMPLE = re.compile(r"\b(?:e\.g\.|for example|example|such as|format|like)", re.IGNORECASE)
_NAMES = (re.compile(r"id"), re.compile(r"token"), re.compile(r"nonce"))
_DIGIT = re.compile(r"\d")
_BEHIND = frozenset("\"'`* \t:=#")
_ASKED = re.compile(
    r"\b(?:(?:request|trace|correlation|prompt|message|invocation|turn|span)[ _-]?(?:id|uuid|token)|nonce)"
    r"[\"'`*]{0,3}[ \t]{0,4}[:=#][ \t]{0,4}[\"'`*]{0,3}(?=[A-Za-z_-]{0,32}\d)[\w-]{6,}",
    re.IGNORECASE,
)
_TOKEN = _NAMES[1]
_LEFT = re.compile(
    rf"<total_tokens>[^<\d]{{0,40}}\d[^<]{{0,100}}</total_tokens>|[Tt]oken usage: ?{NUMBER} ?/ ?{NUMBER}"
    rf"|\b{NUMBER} tokens (?:left|remaining)\b|\b(?i:remaining tokens|tokens remaining|tokens left)[ \t]*[:=][ \t]*\d"
)


class Found(NamedTuple):
    """What varies, and the words themselves."""

    what: str
    text: str


def surely_varies(text: str) -> Found | None:
    """Find text that is made anew for each request, whether or not it changed yet; None where there is none."""
    low = text[:LONGEST].lower()
    for what, signs, pattern in _SURE:
        for at in islice(signs(low), MOST):
            match = pattern.search(text[max(0, at - _BEFORE) : at + _AFTER])
            if match is not None and not (pattern is _NOW and _EXAMPLE.search(match.group())):
                return Found(what, match.group())
    return None


def _clocks(low: str) -> Iterator[int]:
    """Find hours and minutes, and seconds since 1970."""
    yield from (found.start() for found in _MINUTES.finditer(low) if low[found.start() - 1 : found.start()].isdigit())
    yield from (found.start() for found in _EPOCH.finditer(low))


def _names(low: str) -> Iterator[int]:
    """Find what is named an id, and has a value behind it."""
    for name in _NAMES:
        for found in name.finditer(low):
            if low[found.end() : found.end() + 1] in _BEHIND:
                yield found.start()


def _tokens(low: str) -> Iterator[int]:
    return (
        found.start()
        for found in _TOKEN.finditer(low)
        if _DIGIT.search(low, max(0, found.start() - 16), found.end() + 48)
    )


_SURE: tuple[tuple[str, Callable[[str], Iterator[int]], re.Pattern[str]], ...] = (
    ("a clock", _clocks, _NOW),
    ("the id of one request", _names, _ASKED),
    ("a count of tokens left", _tokens, _LEFT),
)
