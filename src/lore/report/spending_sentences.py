"""What was paid again, in words: a cause with what it names, what to do about it, what to run next."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import NamedTuple

from msgspec.structs import replace

from lore.model.codes import Code
from lore.model.results_overview import SpendingCause

_HOUR, _MINUTE = 3600, 60


class Words(NamedTuple):
    """What happened, what to do, and what happened where the evidence names something (`{}`).

    Without `named` names follow behind a colon; without an advice the fix of the code stands.
    """

    plain: str
    advice: str = ""
    named: str = ""


_ON_PURPOSE = "nothing: it was done on purpose"
_BODIES = "record the request bodies of one session"
WORDS: dict[str, Words] = {
    Code.DATE_IN_PREFIX: Words(
        "a date in the prompt changed", "take clocks and dates out of your instructions", "a date changed in {}"
    ),
    Code.TOOLS_REORDERED: Words("tools changed places", "name MCP servers in one fixed order"),
    Code.TOOLS_ADDED_OR_REMOVED: Words("tools came or went", "connect MCP servers before the first message"),
    Code.TOOL_DEFINITION_CHANGED: Words("tool descriptions changed", "add skills and servers between sessions"),
    Code.REASONING_DROPPED_BY_TEMPLATE: Words(
        "reasoning of earlier turns is left out", "nothing: the provider does it"
    ),
    Code.MODEL_CHANGED: Words("the model changed", "change models at the start of a session"),
    Code.TOOL_RESULT_REWRITTEN: Words(
        "tool results were cleared or rewritten",
        "compact once instead of clearing results often",
        "tool results were cleared or rewritten",
    ),
    Code.COMPACTION: Words("compactions", "nothing: they made later requests smaller", "compactions"),
    Code.CACHE_EXPIRED: Words(
        "pauses longer than the cache lives", "/compact or a new session before a break", "pauses longer than {}"
    ),
    Code.SERVER_SIDE_MISS: Words(
        "the provider did not read what stood there", "lore simulate --by reliability says how often"
    ),
    Code.REWIND: Words("history was taken back", _ON_PURPOSE),
    Code.CACHE_RESET: Words("the cache was given up", _ON_PURPOSE),
    Code.TAIL_REPLACED: Words(
        "the end of each prompt is replaced", "keep it short", "the end of each prompt is replaced"
    ),
    Code.CLIENT_UPDATED: Words("the client was updated", "update between sessions"),
    Code.HOOK_TEXT_MOVED: Words("a hook adds text", "drop additionalContext from the hook", "hook {} adds text"),
    Code.CLIENT_CAUSE_UNKNOWN: Words("the client changed something that its log does not show", _BODIES),
    Code.INTERRUPTED: Words("an answer was interrupted", "no setting changes it"),
    Code.ERROR_BETWEEN: Words("an error came before", "no setting changes it"),
    Code.CLIENT_RESTARTED: Words("the client was restarted", "resume rarely, and before the cache expires"),
    Code.ROUTED_ELSEWHERE: Words("a router changed the provider", "pin one provider"),
    Code.COLD_COMPACTION: Words("compactions in a cold cache", "compact before a break, not after it"),
    Code.BILLED_READ_FELL: Words("the provider read less, and the log does not say why", _BODIES),
}


def cause_in_words(cause: SpendingCause) -> SpendingCause:
    """Return a cause with its words, its advice and the command that shows where it was."""
    words = WORDS.get(cause.code)
    names = ", ".join(f'"{name}"' for name in cause.names)
    if cause.lifetime is not None:
        names = span_of(cause.lifetime)
    plain = plain_of(cause.code, cause.name)
    named = (words.named if words is not None else "") or plain + ": {}"
    says = named.replace("{}", names) if names else plain
    advice = words.advice if words is not None and words.advice else cause.fix.rstrip(".")
    return replace(cause, says=says, fix=advice, command=f"lore explain {cause.code}")


def plain_of(code: str, name: str) -> str:
    """Return what a cause of this code is in a few words; where there are none, its name's."""
    words = WORDS.get(code)
    return name.replace("-", " ") if words is None else words.plain


def span_of(seconds: float) -> str:
    """Return a length of time as a person says it."""
    if seconds >= _HOUR:
        hours = seconds / _HOUR
        return "an hour" if hours == 1 else f"{hours:g} hours"
    return f"{seconds / _MINUTE:g} minutes"


def day_of(at: float | None) -> str:
    """Return the day of a time in UTC; `unknown` where it is not known, or no calendar holds it."""
    try:
        return "unknown" if at is None else f"{datetime.fromtimestamp(at, UTC):%Y-%m-%d}"
    except (ValueError, OverflowError, OSError):
        return "unknown"
