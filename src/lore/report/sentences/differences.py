"""One sentence for each kind of difference between two prompts, or of what one request's shape says of a cache.

In: evidence (`lore.model.differences`) whose content is masked, or replaced by hashes. Out: text. Rules: what is so,
where; tables of functions by type, and nothing reads a sentence back.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from lore.model import differences as d
from lore.model.differences import EvidenceFact

_NAMED = 5  # names that a sentence shows

_WHAT: dict[d.Varies, str] = {
    "": "", "date": "a date or time", "directory": "a working directory", "token-count": "a token count", "id": "an id",
    "temporary-path": "a temporary path", "process-id": "a process id", "counter": "a counter",
    "repository": "the state of a repository or directory", "memory": "recalled memory or context",
}  # fmt: skip
_BLOCK: dict[d.BlockKind, str] = {
    "text": "a text", "result": "a tool's result", "call": "a call", "image": "an image", "thinking": "thinking",
    "envelope": "a message", "other": "a block",
}  # fmt: skip
_MOVED = {"gone": "is gone", "added": "was inserted before content that was already sent", "moved": "stands elsewhere"}
_SPELLING: dict[d.Spelling, str] = {
    "shape": "is a text on one side and a block of it on the other",
    "member-order": "has the same members in another order",
    "json": "has the same content in another JSON spelling, which a server decodes",
    "number": "has a number in another spelling (1.0 or 1)",
    "entities": "has characters as HTML entities on one side only (&lt; or <): the decoded text differs",
    "newlines": "has other newlines (CRLF or LF): the decoded text differs",
    "unicode": "has Unicode in another form (NFC or NFD): the decoded text differs",
    "white-space": "has other white space at the ends of lines: the decoded text differs",
    "inner-order": "has JSON inside a text, with its members in another order",
    "inner-json": "has JSON inside a text, in another spelling: a server sees another text",
}
_THINKING = {
    "changed": "is another or missing", "signature": "has another signature, or none", "gone": "is missing",
    "added": "was inserted before content that was already sent", "moved": "was moved",
}  # fmt: skip
_IMAGE = {
    "bytes": "an image has other bytes", "replaced": "an image became something else", "gone": "an image is gone",
    "added": "an image was inserted", "in-result": "an image in a tool's result is another, or became text",
}  # fmt: skip
_HEADER = {"changed": "is another", "added": "was added", "gone": "is gone"}

_KEEPS: dict[d.CostsFrom, str] = {
    "all": "the whole prompt is cached anew",
    "system": "tools are read again, the system prompt and messages are not",
    "messages": "tools and system prompt are read again, the messages are not",
    "nothing": "nothing is lost",
    "unknown": "what is lost is not documented",
}
_ELSEWHERE: dict[d.Setting, str] = {
    "generation": "on Claude the messages are lost, on OpenAI's models the whole prompt",
    "tool-choice": "on Claude the messages are lost, on OpenAI's models nothing",
    "features": "Anthropic's diagnostics call it unavailable",
    "output-schema": "on OpenAI's models and on Claude all but the tools is lost",
}
_FAMILY: dict[d.ModelFamily, str] = {"claude": "Claude", "openai": "OpenAI's models", "": "this provider"}


def names(some: Sequence[str], more: int = 0) -> str:
    """List names: the first few, and how many more there are."""
    more += max(0, len(some) - _NAMED)
    return ", ".join(some[:_NAMED]) + (f" and {more:,} more" if more else "")


def _became(before: str, after: str) -> str:
    return f"…{before}… became …{after}…"


def _header(change: d.HeaderChanged) -> str:
    text = f"the billing header {_HEADER[change.change]}"
    if change.dropped:
        return f"{text}; the Claude API takes it out, so nothing is lost"
    return f"{text}, and here it is content like all other"


def _tools(change: d.ToolsChanged) -> str:
    kinds = (
        ("added", change.added), ("removed", change.removed), ("changed", change.changed),
        ("deferred tools were loaded into the list:", change.loaded), ("loaded or put off again:", change.put_off),
    )  # fmt: skip
    shown = [(word, some) for word, some in kinds if some]
    last = len(shown) - 1
    parts = [f"{word} {names(some, change.unnamed if at == last else 0)}" for at, (word, some) in enumerate(shown)]
    if change.reordered:
        parts.append(f"the same {change.reordered:,} tools in another order")
    servers = f" (MCP server{'s' if len(change.servers) > 1 else ''} {names(change.servers)})" if change.servers else ""
    return "; ".join(parts) + servers


def _hashes(change: d.HashesMoved) -> str:
    since = "the request before" if change.turns == 1 else f"{change.turns:,} requests before"
    if change.section == "messages":
        return f"by the client's hashes the messages differ from message {change.message} on from those of {since}"
    what = "tools" if change.section == "tools" else "segments of the system prompt"
    kinds = (("added", change.added), ("removed", change.removed), ("changed", change.changed))
    parts = [f"{word} {names(some)}" for word, some in kinds if some]
    parts += [f"the same {change.reordered:,} in another order"] if change.reordered else []
    return f"by the client's hashes {what} differ from those of {since}: {'; '.join(parts)}"


def _text(change: d.TextChanged) -> str:
    what = _WHAT[change.what]
    return f"{f'{what} in {change.path}' if what else f'{change.path} differs'}: {_became(change.before, change.after)}"


def _block(change: d.BlockChanged) -> str:
    members = (*change.members, *change.unknown_members)
    return f"{change.path} differs{f' in {names(members)}' if members else ''}: {_became(change.before, change.after)}"


def _moved(change: d.BlockMoved) -> str:
    topic = f"{_WHAT[change.topic]}: " if change.topic else ""
    return f"{topic}{change.path}: {_BLOCK[change.block]} {_MOVED[change.change]}: …{change.excerpt}…"


def _unwrapped(change: d.WrapperGone) -> str:
    holds = f" ({', '.join(change.holds)})" if change.holds else ""
    return (
        f"{change.path}: what was put around the user's text{holds} is gone, the text stands alone: {change.excerpt}…"
    )


def _respelled(change: d.Respelled) -> str:
    shown = "" if change.before is None or change.after is None else f": {_became(change.before, change.after)}"
    return f"{change.path} {_SPELLING[change.spelling]}{shown}"


def _empty(change: d.EmptyMember) -> str:
    what = "a part that holds nothing comes or goes" if change.whole else "members that hold nothing come or go"
    if change.templated:
        seen = "an API reads them as absent, the chat template of an open model may print them"
    else:
        seen = "no prompt shows that"
    return f"{change.path}: {what}; {seen}"


def _thinking(change: d.ThinkingChanged) -> str:
    members = (*change.members, *change.unknown_members)
    what = (
        f"{names(members)} of the model's message"
        if members
        else "thinking"
        if change.change == "added"
        else "thinking that was sent"
    )
    return f"{change.path}: {what} {_THINKING[change.change]}"


def _result(change: d.ResultRewritten) -> str:
    if change.cleared is not None:
        return f"{change.cleared}, {change.path} among them"
    return f"{change.path} was sent before with other content: {_became(change.before, change.after)}"


def _cost(family: d.ModelFamily, level: d.CostsFrom, setting: d.Setting) -> str:
    elsewhere = f" ({_ELSEWHERE[setting]})" if level in ("nothing", "unknown") else ""
    return f"with {_FAMILY[family]} {_KEEPS[level]}{elsewhere}"


def _parameter(change: d.ParameterChanged) -> str:
    field = change.field if change.member is None else f"{change.field}.{change.member}"
    before, after = ("nothing" if value is None else value for value in (change.before, change.after))
    return f"{field} changed from {before} to {after}; {_cost(change.family, change.level, change.setting)}"


def _betas(change: d.BetasChanged) -> str:
    kinds = [f"{word} {names(some)}" for word, some in (("added", change.added), ("removed", change.removed)) if some]
    return f"beta headers changed ({'; '.join(kinds)}); {_cost(change.family, change.level, 'features')}"


def _parted(change: d.PromptParted) -> str:
    if change.missing_segments:
        return f"the prompt ends where {change.missing_segments:,} segments stood before"
    return "the prompt is another from here on"


DIFFERENCES: dict[type[EvidenceFact], Callable[[Any], str]] = {
    d.PartialPrompt: lambda _: "it continues a response that is not recorded whole: both prompts may be the same there",
    d.BehindBreakpoint: lambda _: "the change is behind the last cache breakpoint",
    d.TailWithoutBreakpoint: lambda _: (
        "the last message was rewritten, and nothing before it has a breakpoint: nothing is read again"
    ),
    d.PromptParted: _parted,
    d.HeaderChanged: _header,
    d.ToolsChanged: _tools,
    d.HashesMoved: _hashes,
    d.TextChanged: _text,
    d.BlockChanged: _block,
    d.BlockMoved: _moved,
    d.WrapperGone: _unwrapped,
    d.MessagesGone: lambda change: (
        f"{change.count:,} messages are gone, {change.first} to {change.last}: …{change.excerpt}…"
    ),
    d.Respelled: _respelled,
    d.EmptyMember: _empty,
    d.IdChanged: lambda change: (
        f"{change.path}: {names(change.members)} of the {change.of} "
        f"{'differ' if len(change.members) > 1 else 'differs'}, all else is the same"
    ),
    d.ThinkingChanged: _thinking,
    d.ImageChanged: lambda change: f"{change.path}: {_IMAGE[change.change]}",
    d.ResultRewritten: _result,
    d.ResultSentEarly: lambda change: f"{change.path} was sent before its call had a result",
    d.ParameterChanged: _parameter,
    d.BetasChanged: _betas,
}


_TAKES_NONE: dict[d.Unmarkable, str] = {
    "empty-text": "a cache breakpoint stands on a text that is empty",
    "thinking": "a cache breakpoint stands on a block of thinking",
    "deferred-tool": "a cache breakpoint stands on a tool that is deferred",
    "message": "a cache breakpoint stands on a message, beside its content",
    "not-input": "a cache breakpoint stands on what the model said",
    "lifetime": "a cache breakpoint asks for a lifetime that there is not",
    "automatic-cache": "the cache of this model takes no breakpoints: it keeps what repeats by itself",
    "section": "this model accepts no cache breakpoint in this section",
    "model": "this model accepts no cache breakpoints",
    "other-api": "this member is a cache breakpoint of another API",
    "inside-result": "a cache breakpoint is inside the content of a tool result instead of after it",
}
_VARIES: dict[d.VaryingKind, str] = {
    "date": "a date", "clock": "a time of day", "directory": "a path of this machine or project", "id": "an id",
    "temporary-path": "a temporary path", "process-id": "the id of a process", "token-count": "a count of tokens",
    "repository": "the state of a repository",
}  # fmt: skip
_SETTINGS: dict[d.RequestSetting, str] = {
    "key-too-long": "prompt_cache_key has {value} characters; {limit} are the most",
    "retention-shorter": "prompt_cache_retention asks for {value}: minutes, where this model keeps 24 hours by default",
    "retention-replaced": "prompt_cache_retention ({value}) says nothing to a model with cache breakpoints",
    "reasoning-not-returned": (
        "responses are not stored, and the input holds calls without the model's reasoning before them"
    ),
    "truncation": "truncation is auto: a server that drops items from the middle moves all that stands behind them",
    "cached-content-beside": "a cached content is named, and what only that may hold stands in the request beside it",
}


def _order(fact: d.LifetimesOutOfOrder) -> str:
    longer, shorter = fact.seconds / 60, fact.seconds_before / 60
    return (
        f"a cache breakpoint asks for {longer:.0f} minutes behind one of {shorter:.0f} ({fact.before}); the longer "
        "lifetime has to stand first"
    )


def _apart(fact: d.BreakpointsApart) -> str:
    if fact.step:
        return (
            f"the latest step appended {fact.positions:,} positions and set no breakpoint among them; "
            f"{fact.allowed} are looked back"
        )
    return f"{fact.positions:,} positions stand between the last two breakpoints; {fact.allowed} are looked back"


def _images(fact: d.ImageBeforeText) -> str:
    images = "an image stands" if fact.images == 1 else f"{fact.images} images stand"
    return f"{images} before about {fact.tokens:,} tokens of text in the first message"


def _key(fact: d.CacheKeyMissing) -> str:
    many = "" if fact.per_minute is None else f", {fact.per_minute} a minute at most on one of them"
    return f"no prompt_cache_key: requests that begin alike may reach different machines{many}"


REQUESTS: dict[type[EvidenceFact], Callable[[Any], str]] = {
    d.BreakpointNotTaken: lambda fact: _TAKES_NONE[fact.reason] + (f": {fact.value}" if fact.value else ""),
    d.LifetimesOutOfOrder: _order,
    d.BreakpointsApart: _apart,
    d.VaryingText: lambda fact: (
        f"{_VARIES[fact.kind]} stands before the history" + (f": {fact.excerpt}" if fact.excerpt else "")
    ),
    d.ToolsUnsorted: "tools do not stand in the order of their names: {0.name} stands behind {0.before}".format,
    d.ImageBeforeText: _images,
    d.CacheKeyMissing: _key,
    d.CacheSetting: lambda fact: _SETTINGS[fact.setting].format(value=fact.value, limit=fact.limit),
}
