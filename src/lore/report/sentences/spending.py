"""What was paid again, in words: a cause with what it names, what to do about it, what to run next."""

from __future__ import annotations

from typing import NamedTuple

from msgspec.structs import replace

from lore.judge.spending import UNSURE
from lore.model.codes import Code
from lore.model.results.overview import SpendingCause

_HOUR, _MINUTE = 3600, 60


class Wording(NamedTuple):
    """What happened, what to do, and what happened where the evidence names something (`{}`).

    Without `named` names follow behind a colon; without an advice the fix of the code stands.
    """

    plain: str
    advice: str = ""
    named: str = ""


_ON_PURPOSE = "nothing: it was done on purpose"
_NOTHING = "nothing: it is as it should be"
_REPORT = "report it to the agent's author"
_BODIES = "record the request bodies of one session"
WORDS: dict[str, Wording] = {
    Code.DATE_IN_PREFIX: Wording(
        "a date in the prompt changed", "take clocks and dates out of your instructions", "a date changed in {}"
    ),
    Code.TOOLS_REORDERED: Wording("tools changed places", "name MCP servers in one fixed order"),
    Code.TOOLS_ADDED_OR_REMOVED: Wording("tools came or went", "connect MCP servers before the first message"),
    Code.TOOL_DEFINITION_CHANGED: Wording("tool descriptions changed", "add skills and servers between sessions"),
    Code.REASONING_DROPPED_BY_TEMPLATE: Wording(
        "reasoning of earlier turns is left out", "nothing: the provider does it"
    ),
    Code.MODEL_CHANGED: Wording("the model changed", "change models at the start of a session"),
    Code.TOOL_RESULT_REWRITTEN: Wording(
        "tool results were cleared or rewritten",
        "make tools print less",
        "tool results were cleared or rewritten",
    ),
    Code.COMPACTION: Wording("compactions", "nothing: they made later requests smaller", "compactions"),
    Code.CACHE_EXPIRED: Wording(
        "pauses longer than the cache lives", "/compact or a new session before a break", "pauses longer than {}"
    ),
    Code.SERVER_SIDE_MISS: Wording(
        "the provider did not read what stood there", "how often: lore simulate --by reliability"
    ),
    Code.REWIND: Wording("history was taken back", _ON_PURPOSE),
    Code.CACHE_RESET: Wording("the cache was given up", _ON_PURPOSE),
    Code.TAIL_REPLACED: Wording(
        "the end of each prompt is replaced", "keep it short", "the end of each prompt is replaced"
    ),
    Code.CLIENT_UPDATED: Wording("the client was updated", "update between sessions"),
    Code.HOOK_TEXT_MOVED: Wording("a hook adds text", "drop additionalContext from the hook", "hook {} adds text"),
    Code.CLIENT_CAUSE_UNKNOWN: Wording("the client changed something that its log does not show", _BODIES),
    Code.INTERRUPTED: Wording("an answer was interrupted", "let a step end before you write"),
    Code.ERROR_BETWEEN: Wording("the provider answered with an error before", "nothing: the request was sent again"),
    Code.CLIENT_RESTARTED: Wording("the client was restarted", "go on in the running client"),
    Code.ROUTED_ELSEWHERE: Wording("a router changed the provider", "pin one provider"),
    Code.COLD_COMPACTION: Wording(
        "compactions that read nothing from the cache", "compact seldom, and report it to the agent's author"
    ),
    Code.BILLED_READ_FELL: Wording(
        "the provider read less, and nothing in the log says why", "compare sessions of the same time"
    ),
    Code.PREFIX_MOVED: Wording("what was sent before was changed", "leave off hooks and plug-ins that rewrite history"),
    Code.KEY_ORDER_CHANGED: Wording("JSON keys changed their order", _REPORT),
    Code.SERIALISATION_CHANGED: Wording(
        "the same content was written otherwise", "take out proxies that rewrite requests"
    ),
    Code.BILLING_HEADER_CHANGED: Wording(
        "the client's billing header changed", "set CLAUDE_CODE_ATTRIBUTION_HEADER=0 behind a gateway"
    ),
    Code.ID_IN_PREFIX: Wording(
        "an id in the prompt changed", "take ids and temporary paths out of your instructions", "an id changed in {}"
    ),
    Code.TOKEN_REMINDER_IN_PREFIX: Wording(
        "a count of tokens in the prompt changed", "switch off the reminder of tokens"
    ),
    Code.GIT_STATUS_IN_PREFIX: Wording(
        "the state of the repository changed in the prompt", "switch off the agent's snapshot of the repository"
    ),
    Code.REMINDER_MOVED: Wording("reminders changed places", "switch off hooks and notices you do not need"),
    Code.CONTENT_SHAPE_CHANGED: Wording("the same message was written in another shape", _REPORT),
    Code.LOOKBACK_EXCEEDED: Wording(
        "too much was added for the cache to be found", "let it do fewer tool calls at a time"
    ),
    Code.BREAKPOINTS_MISSING: Wording(
        "nothing was marked to be cached", "switch prompt caching on in agent or gateway"
    ),
    Code.THINKING_CHANGED: Wording("thinking was changed or left out", "keep thinking on or off for a session"),
    Code.IMAGE_CHANGED: Wording("an image was changed or left out", "give images in a session of their own"),
    Code.GENERATION_SETTINGS_CHANGED: Wording(
        "effort, thinking or speed was changed", "choose them before the first message", "settings were changed: {}"
    ),
    Code.TOOL_CHOICE_CHANGED: Wording("the choice of tools was changed", _REPORT),
    Code.REQUEST_FEATURES_CHANGED: Wording(
        "features of the request were switched", "switch beta features between sessions only"
    ),
    Code.RESUME_RERENDERED: Wording(
        "a resumed session was written anew", "go on in the running session, or begin another"
    ),
    Code.DEFERRED_TOOLS_LOADED: Wording(
        "tools were loaded later", "load the tools you need before the first message", "tools were loaded later: {}"
    ),
    Code.MEMORY_IN_PREFIX: Wording("memory in the prompt changed", "edit memory files between sessions"),
    Code.FIRST_MESSAGE_REWRITTEN: Wording(
        "the first message was rewritten", "leave off open files and workspace state in it"
    ),
    Code.PARALLEL_START: Wording(
        "requests were sent together before the cache was written", "start one agent first, then the others"
    ),
    Code.ENDPOINT_CHANGED: Wording(
        "requests went to another place", "pin one provider, region and key", "requests went elsewhere: {}"
    ),
    Code.CONTINUATION: Wording(
        "only a part of the prompt was recorded", "nothing: record sessions from their first request"
    ),
    Code.TAIL_WITHOUT_BREAKPOINT: Wording(
        "the last message was replaced where the cache ends", "switch off what rewrites the last message"
    ),
    Code.LIFETIME_LOST: Wording(
        "the cache lives shorter than was asked for", "let the gateway pass on ttl and beta headers"
    ),
    Code.OUTPUT_SCHEMA_CHANGED: Wording("the schema of answers was changed", _REPORT),
    Code.SESSION_CHANGED: Wording(
        "system prompt or tools were changed on purpose", "choose mode and tools before the first message"
    ),
    Code.CHANGE_AFTER_LAST_BREAKPOINT: Wording(
        "the end behind the cache changed", "nothing: it stands behind the cache"
    ),
    Code.LATE_TOOL_RESULT: Wording(
        "a tool's result came after the next message", "wait for tools to end before you write"
    ),
    Code.BREAKPOINTS_FAR_APART: Wording("cache breakpoints stand too far apart", _REPORT),
    Code.TEXT_AFTER_TOOL_RESULT: Wording(
        "text was put behind a tool's result", "switch off reminders that follow tool results"
    ),
    Code.ORPHAN_TOOL_PAIR: Wording("a tool call lacks its result", "begin a new session"),
    Code.VOLATILE_BEFORE_HISTORY: Wording(
        "clocks or ids stand before the history", "take clocks and ids out of your system prompt"
    ),
    Code.TOO_MANY_BREAKPOINTS: Wording("too many cache breakpoints were set", "update the agent or the gateway"),
    Code.BREAKPOINT_ON_VOLATILE: Wording(
        "a breakpoint stands on text that changes", "take clocks and ids out of your instructions"
    ),
    Code.CHAIN_RESTARTED: Wording("a conversation of its own began", _NOTHING),
    Code.OLDER_ENTRY_SERVED: Wording("the newest entry was not readable yet", _NOTHING),
    Code.IDLE_WITHIN_LIFETIME: Wording(
        "pauses within the cache's lifetime", "nothing for one; if common, ask the provider"
    ),
    Code.SKILL_LOADED: Wording("a skill was loaded", "load skills in the first message", "skill {} was loaded"),
    Code.SLASH_COMMAND: Wording(
        "a slash command was given", "give slash commands between pieces of work", "slash command {} was given"
    ),
    Code.PERMISSION_MODE_CHANGED: Wording(
        "the permission mode was changed", "choose the permission mode before the first message"
    ),
    Code.SERVER_INSTRUCTIONS_CHANGED: Wording(
        "instructions of MCP servers changed",
        "connect MCP servers before the first message",
        "instructions of MCP server {} changed",
    ),
    Code.ANSWER_WITHOUT_THINKING: Wording("an answer came without thinking", "keep thinking on or off for a session"),
    Code.BREAKPOINT_NOT_TAKEN: Wording("a cache breakpoint had no effect", "update the agent and the gateway"),
    Code.LIFETIMES_OUT_OF_ORDER: Wording(
        "cache lifetimes stand in the wrong order", "update the agent and the gateway"
    ),
    Code.VARYING_TEXT_IN_PREFIX: Wording(
        "text that varies stands in the prompt", "take dates, paths and ids out of your instructions"
    ),
    Code.TOOLS_UNSORTED: Wording("tools are not sorted", "name MCP servers in one fixed order"),
    Code.IMAGE_BEFORE_TEXT: Wording("an image stands before the text", "give images behind the text"),
    Code.CACHE_KEY_MISSING: Wording("requests have no cache key", _REPORT),
    Code.CACHE_SETTING: Wording("a setting keeps prompts out of the cache", "change the setting in agent or gateway"),
    Code.VERDICT_DISAGREES: Wording("bill and provider contradict one another", "believe the bill; record on the wire"),
    Code.BILL_CONTRADICTS_BODY: Wording("the bill is not one of this request", "record behind the last gateway"),
    Code.READ_SHORT_OF_PREDICTION: Wording(
        "less was read than the cache's rules say", "compare sessions of the same time"
    ),
    Code.WRITES_NEVER_READ: Wording("cache writes were never read", "look whether gateway or key has a cache"),
    Code.PROMPT_UNDER_MINIMUM: Wording("prompts too short to be cached", "nothing: short prompts are not cached"),
}

# a prompt that shrank, of which nothing says whether it was a result
SHRANK = Wording("the prompt became shorter, and nothing says by what", _BODIES)


def cause_in_words(cause: SpendingCause) -> SpendingCause:
    """Return a cause with its words, its advice and the command that shows where it was."""
    words = SHRANK if cause.kind == UNSURE and cause.code == Code.TOOL_RESULT_REWRITTEN else WORDS.get(cause.code)
    names = ", ".join(f'"{name}"' for name in cause.names)
    if cause.lifetime is not None:
        names = span_of(cause.lifetime)
    plain = cause.name.replace("-", " ") if words is None else words.plain
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
