"""Recordings as they lie on disk, read by `json` alone: which request asks what, when, and what was billed for it.

In: a file of Claude Code, or a capture of requests. Out: requests in the order of the file. Slow and obvious, and
written apart from lore: nothing of it is imported here. Words: a request's `stood` is what it left in the cache,
`asked` all that was billed for its prompt.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from oracle.naive import Seg, at_anthropic, dialect_of, flatten

FIVE_MINUTES, ONE_HOUR = 300.0, 3600.0
SERVER_TOOLS = ("web_search", "web_fetch", "code_execution", "tool_search", "mcp_toolset")


class Bill(NamedTuple):
    """Tokens of one request; `writes` says whether what was written is billed at all."""

    uncached: int
    read: int
    write: int
    short: int = 0  # of the written ones, those that live for five minutes
    hour: int = 0
    writes: bool = True

    @property
    def stood(self) -> int:
        """What the request left in the cache, as far as it was billed."""
        return self.read + self.write

    @property
    def asked(self) -> int:
        """All tokens of the prompt."""
        return self.uncached + self.read + self.write


class Request(NamedTuple):
    """One request. `chain` is who asked, in transcripts; `segments` its prompt, in captures, None where it is partial.

    `lines` are all lines that say something of it, the first one its place. `prompted`: a person spoke before it;
    `compacted`: the history was summed up since the request before; `runs_tools`: the provider may bill several steps.
    """

    lines: tuple[int, ...]
    model: str
    at: float | None
    answered: float | None
    bill: Bill | None
    chain: str = ""
    segments: list[Seg] | None = None
    dialect: str = "anthropic"
    verdict: str = ""
    prompted: bool = False
    compacted: bool = False
    runs_tools: bool = False
    failed: bool = False
    first: Bill | None = None

    @property
    def met(self) -> Bill | None:
        """What the first of several passes was billed, which met what stood; `bill` is that of the last."""
        return self.first or self.bill

    @property
    def lifetime(self) -> float | None:
        """How long what it wrote last lives; None where the bill does not say."""
        if self.bill is None or not (self.bill.short or self.bill.hour):
            return None
        return FIVE_MINUTES if self.bill.short else ONE_HOUR


def read(path: Path) -> list[Request]:
    """Read a recording of any form that is known here; nothing where it is of another."""
    text = path.read_bytes().decode("utf-8", "replace")
    if path.suffix == ".yaml":
        return [found for call in _cassette(text) if (found := _captured(call)) is not None]
    values = list(_values(text))
    if any(value.get("type") == "assistant" for _, value in values):
        return _transcript(values)
    return [found for line, value in values for call in _calls(text, line, value) if (found := _captured(call))]


def _values(text: str) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield each object with its line; several may stand on one line, and one may take many."""
    decoder, at, line = json.JSONDecoder(), 0, 1
    while True:
        while at < len(text) and text[at] in " \t\r\n\ufeff":
            line += text[at] == "\n"
            at += 1
        if at >= len(text):
            return
        try:
            value, end = decoder.raw_decode(text, at)
        except ValueError:
            end, value = text.find("\n", at), None
            end = len(text) if end < 0 else end
        if isinstance(value, dict):
            yield line, value
        line += text.count("\n", at, end)
        at = end


# transcripts of Claude Code


def _transcript(values: list[tuple[int, dict[str, Any]]]) -> list[Request]:
    """One response is several lines of one id: the first says where it stands."""
    known = {value["uuid"]: value for _, value in values if value.get("uuid")}
    found: dict[str, Request] = {}
    compacted: dict[str, bool] = {}
    for line, value in values:
        chain = _asker(value, known)
        if value.get("subtype") == "compact_boundary" or value.get("isCompactSummary"):
            compacted[chain] = True
        message = value.get("message") or {}
        if value.get("type") != "assistant" or message.get("model") == "<synthetic>" or not message.get("usage"):
            continue
        number = message.get("id") or f"line {line}"
        if number in found:
            found[number] = found[number]._replace(lines=(*found[number].lines, line), verdict=_said(message))
            continue
        before = list(_asked_before(value, known))
        found[number] = Request(
            (line,), message["model"], _time(before[0] if before else value), _time(value), billed(message["usage"]),
            chain, verdict=_said(message), prompted=any(map(_speaks, before)), compacted=compacted.pop(chain, False),
            first=first_of(message["usage"]),
        )  # fmt: skip
    return list(found.values())


def _asker(value: dict[str, Any], known: dict[str, dict[str, Any]]) -> str:
    """Name the chain of a line: the session's own, or the subagent by its id or by its first line."""
    if not value.get("isSidechain"):
        return "main"
    if value.get("agentId"):
        return value["agentId"]
    seen = set[str]()
    while (parent := known.get(value.get("parentUuid") or "")) is not None and parent["uuid"] not in seen:
        seen.add(parent["uuid"])
        value = parent
    return f"side {value.get('uuid')}"


def _asked_before(value: dict[str, Any], known: dict[str, dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Yield the user's lines between a response and the one before it, the latest first."""
    while (parent := known.get(value.get("parentUuid") or "")) is not None and parent.get("type") != "assistant":
        value = parent
        if value.get("type") == "user":
            yield value


def _speaks(value: dict[str, Any]) -> bool:
    """Tell whether a line of the user is what a person said, and not a result or what the client put in."""
    if value.get("isMeta") or value.get("isCompactSummary"):
        return False
    content = (value.get("message") or {}).get("content")
    if isinstance(content, str):
        return not content.startswith(("<local-command", "<command-name>", "<task-notification>", "[Request interr"))
    return not any(isinstance(block, dict) and block.get("type") == "tool_result" for block in content or [])


def _said(message: dict[str, Any]) -> str:
    miss = (message.get("diagnostics") or {}).get("cache_miss_reason")
    return str(miss.get("type", "") if isinstance(miss, dict) else miss or "")


# captures


class Call(NamedTuple):
    """A request with its response, wherever a file keeps them."""

    line: int
    body: Any
    answer: Any
    at: float | None = None
    answered: float | None = None
    host: str = ""
    status: int = 200


def _calls(text: str, line: int, value: dict[str, Any]) -> Iterator[Call]:
    for name in ("packets", "entries"):
        if isinstance(value.get(name), list):
            yield from _document(text, name)
            return
    if "body" in value and "call" in value:
        yield _generated(line, value)
    elif "usage" in value and "request" in value:
        yield Call(line, value["request"], {"usage": value["usage"]}, value.get("ts"), status=value.get("status") or 0)
    elif isinstance(value.get("request"), dict):
        yield _call(line, value)


def _generated(line: int, value: dict[str, Any]) -> Call:
    """Read a call as the generators of these tests write it; where writes are not billed it has no lifetimes."""
    body = None if value["call"].get("previous") else json.loads(value["body"])
    answer: dict[str, Any] = {"miss": value["verdict"]}
    if (bill := value["usage"]) is not None and bill.get("read") is not None:
        answer["usage"] = {"prompt_tokens": bill["uncached"] + bill["read"] + bill["write"],
                           "prompt_tokens_details": {"cached_tokens": bill["read"]}}  # fmt: skip
        if {"5m", "1h"} & bill.keys():
            lives = {f"ephemeral_{name}_input_tokens": bill.get(name) or 0 for name in ("5m", "1h")}
            answer["usage"] = {
                "input_tokens": bill["uncached"], "cache_read_input_tokens": bill["read"],
                "cache_creation_input_tokens": bill["write"], "cache_creation": lives,
            }  # fmt: skip
    return Call(line, body, answer, value["at"], value["answered"], value["call"].get("endpoint", ""))


def _document(text: str, name: str) -> Iterator[Call]:
    """Yield the calls of one document, each with the line on which it begins."""
    decoder = json.JSONDecoder()
    at = text.index("[", text.index(f'"{name}"')) + 1
    while (at := next((n for n in range(at, len(text)) if text[n] not in " \t\r\n,"), len(text))) < len(text):
        if text[at] == "]":
            return
        value, end = decoder.raw_decode(text, at)
        yield _call(text.count("\n", 0, at) + 1, value)
        at = end


def _call(line: int, value: dict[str, Any]) -> Call:
    request, response = value["request"], value.get("response") or {}
    body, answer = _opened(request.get("body")), _opened(response.get("body"))
    stamps = [part.get("timestamp") for part in (request, response)]
    stamps = [float(stamp) if isinstance(stamp, int | float) else None for stamp in stamps]
    host = (request.get("url") or "").partition("://")[2]
    return Call(line, body, answer, *stamps, host, response.get("status") or response.get("status_code") or 200)


def _opened(body: Any) -> Any:
    """Take a body out of what holds it: a value, text of JSON, or a stream of events."""
    if isinstance(body, dict) and "kind" in body:
        body = body.get("value") if "value" in body else "".join(body.get("chunks") or [])
    if isinstance(body, str):
        try:
            return json.loads(body)
        except ValueError:
            return [value for event in body.split("data:") for _, value in _values(event.partition("\nevent:")[0])]
    return body


def _cassette(text: str) -> Iterator[Call]:
    lines = [node.start_mark.line + 1 for node in _nodes(yaml.compose(text, yaml.CSafeLoader))]
    for line, value in zip(lines, yaml.load(text, yaml.CSafeLoader)["interactions"], strict=True):  # noqa: S506
        request, response = value["request"], value["response"]
        body = request.get("parsed_body") or _opened(request.get("body"))
        answer = response.get("parsed_body") or _opened((response.get("body") or {}).get("string"))
        host = (request.get("uri") or "").partition("://")[2]
        yield Call(line, body, answer, host=host, status=(response.get("status") or {}).get("code") or 200)


def _nodes(document: Any) -> list[Any]:
    return next(value.value for key, value in document.value if key.value == "interactions")


def _captured(call: Call) -> Request | None:
    """Read one call; None where it asks a model nothing."""
    body = call.body
    if body is not None and not (isinstance(body, dict) and {"messages", "input", "contents"} & body.keys()):
        return None
    if "count_tokens" in call.host or call.host.endswith("cachedContents"):
        return None
    usage: dict[str, Any] = {}
    for found in _usages(call.answer):
        usage.update({key: value for key, value in found.items() if value is not None})
    dialect = "" if body is None else dialect_of(body)
    if body is None or body.get("previous_response_id"):
        model = str((body or {}).get("model"))
        return Request((call.line,), model, call.at, call.answered, billed(usage), dialect=dialect,
                       failed=call.status >= 400)  # fmt: skip
    written = json.dumps(body.get("tools") or [])
    segments = flatten(body, dialect, drops_header=at_anthropic(body, call.host))
    return Request(
        (call.line,), str(body.get("model")), call.at, call.answered, billed(usage), segments=segments,
        dialect=dialect, verdict=(call.answer or {}).get("miss", "") if isinstance(call.answer, dict) else "",
        runs_tools=any(f'"{name}' in written for name in SERVER_TOOLS) or "mcp_servers" in body,
        failed=call.status >= 400, first=first_of(usage),
    )  # fmt: skip


def _usages(answer: Any) -> Iterator[dict[str, Any]]:
    """Yield what is called usage, wherever an answer says it: a stream says it at its beginning and at its end."""
    if isinstance(answer, list):
        for part in answer:
            yield from _usages(part)
    elif isinstance(answer, dict):
        for key, value in answer.items():
            if key in ("usage", "usageMetadata") and isinstance(value, dict):
                yield value
            elif key in ("message", "response", "body", "data"):
                yield from _usages(value)


def billed(usage: dict[str, Any]) -> Bill | None:
    """Read a bill: Anthropic counts cached tokens beside its input, the others within it."""
    passes = _answering(usage)
    usage = passes[-1] if len(passes) > 1 else usage
    if not usage:
        return None
    if "cache_read_input_tokens" in usage or "cache_creation_input_tokens" in usage:
        lives = usage.get("cache_creation") or {}
        names = ("ephemeral_5m_input_tokens", "ephemeral_1h_input_tokens")
        short, hour = (lives.get(name) or 0 for name in names)
        cached = usage.get("cache_read_input_tokens") or 0, usage.get("cache_creation_input_tokens") or 0
        whole = usage.get("prompt_tokens")
        uncached = (usage.get("input_tokens") or 0) if whole is None else whole - sum(cached)
        return Bill(max(0, uncached), *cached, short, hour)
    if "cacheReadInputTokens" in usage:
        read, write = usage["cacheReadInputTokens"] or 0, usage.get("cacheWriteInputTokens") or 0
        return Bill(usage.get("inputTokens") or 0, read, write)
    for whole, inside in (("input_tokens", "input_tokens_details"), ("prompt_tokens", "prompt_tokens_details")):
        if whole in usage:
            parts = usage.get(inside) or {}
            read = parts.get("cached_tokens") or usage.get("prompt_cache_hit_tokens") or 0
            write = parts.get("cache_write_tokens") or 0
            return Bill((usage[whole] or 0) - read - write, read, write, writes=bool(write))
    if "promptTokenCount" in usage:
        read = usage.get("cachedContentTokenCount") or 0
        return Bill(usage["promptTokenCount"] - read, read, 0, writes=False)
    return None


def first_of(usage: dict[str, Any]) -> Bill | None:
    """Read what the first of several passes was billed; of a fallback's its first, for others ask another cache."""
    passes = _answering(usage)
    return billed(next(one for one in passes if one["type"] == passes[-1]["type"])) if len(passes) > 1 else None


def _answering(usage: dict[str, Any]) -> list[dict[str, Any]]:
    return [one for one in usage.get("iterations") or [] if one.get("type") in ("message", "fallback_message")]


def _time(value: dict[str, Any]) -> float | None:
    stamp = value.get("timestamp")
    return datetime.fromisoformat(stamp).timestamp() if isinstance(stamp, str) else None
