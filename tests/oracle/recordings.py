"""The requests of a recording with their prompts, times and usage, read with `json` alone.

Input: a log of Claude Code, or a capture of requests. Output: requests in the order of the file. The code is slow and
obvious, and imports nothing of lore.
"""

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
    """Usage of one request, in tokens."""

    uncached: int
    read: int
    write: int
    short: int = 0  # written tokens that live for five minutes
    hour: int = 0  # written tokens that live for an hour
    writes: bool = True  # the provider reports writes

    @property
    def cached(self) -> int:
        """Tokens that are in the cache after the request, as far as usage shows."""
        return self.read + self.write

    @property
    def prompt_tokens(self) -> int:
        """All tokens of the prompt."""
        return self.uncached + self.read + self.write


class Request(NamedTuple):
    """One request."""

    lines: tuple[int, ...]  # the lines about it; reports name the first
    model: str
    at: float | None
    answered: float | None  # when the response began
    bill: Bill | None  # of the last pass
    chain: str = ""  # in transcripts
    segments: list[Seg] | None = None  # in captures: the prompt; None: it is not recorded whole
    dialect: str = "anthropic"
    verdict: str = ""  # the provider's reason of a cache miss
    prompted: bool = False  # it answers a message that the user typed
    compacted: bool = False  # the history was compacted since the previous request
    runs_tools: bool = False  # the provider runs tools, so usage may sum several steps
    failed: bool = False
    first_pass: Bill | None = None  # of the first of several passes
    said: int = 0  # in transcripts: at most so many tokens were said since the previous response
    answer: int = 0  # in transcripts: tokens of the response, at most

    @property
    def first_bill(self) -> Bill | None:
        """Usage of the pass that read earlier cache entries."""
        return self.first_pass or self.bill

    @property
    def lifetime(self) -> float | None:
        """Seconds that its last write lives; None if usage does not show it."""
        if self.bill is None or not (self.bill.short or self.bill.hour):
            return None
        return FIVE_MINUTES if self.bill.short else ONE_HOUR


def read(path: Path) -> list[Request]:
    """Return the requests of a recording; none if its format is not known here."""
    text = path.read_bytes().decode("utf-8", "replace")
    if path.suffix == ".yaml":
        return [found for call in _cassette(text) if (found := _captured(call)) is not None]
    values = list(_values(text))
    if any(value.get("type") == "assistant" for _, value in values):
        return _transcript(values)
    return [found for line, value in values for call in _calls(text, line, value) if (found := _captured(call))]


def _values(text: str) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield each JSON object with its line; a line may hold several, and an object may span lines."""
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
    """Read a log, in which one response is several lines of one id."""
    known = {value["uuid"]: value for _, value in values if value.get("uuid")}
    found: dict[str, Request] = {}
    compacted: dict[str, bool] = {}
    for line, value in values:
        chain = _chain_of(value, known)
        if value.get("subtype") == "compact_boundary" or value.get("isCompactSummary"):
            compacted[chain] = True
        message = value.get("message") or {}
        if value.get("type") != "assistant" or message.get("model") == "<synthetic>" or not message.get("usage"):
            continue
        number = message.get("id") or f"line {line}"
        if number in found:
            found[number] = found[number]._replace(
                lines=(*found[number].lines, line),
                verdict=_verdict(message),
                answer=found[number].answer + _most_tokens(value),
            )
            continue
        before = list(_user_lines_before(value, known))
        found[number] = Request(
            (line,), message["model"], _time(before[0] if before else value), _time(value), billed(message["usage"]),
            chain, verdict=_verdict(message), prompted=any(map(_is_typed, before)),
            compacted=compacted.pop(chain, False), first_pass=first_of(message["usage"]),
            said=sum(map(_most_tokens, before)),
            answer=(message["usage"].get("output_tokens") or 0) + _most_tokens(value),
        )  # fmt: skip
    return list(found.values())


def _most_tokens(value: dict[str, Any]) -> int:
    """Return how many tokens the content of a line has at most: one for two characters, 1,600 for an image."""
    content = json.dumps((value.get("message") or {}).get("content"))
    return len(content) // 2 + 1_600 * content.count('"type": "image"')


def _chain_of(value: dict[str, Any], known: dict[str, dict[str, Any]]) -> str:
    """Return the chain of a line: "main", or a subagent's id or first line."""
    if not value.get("isSidechain"):
        return "main"
    if value.get("agentId"):
        return value["agentId"]
    seen = set[str]()
    while (parent := known.get(value.get("parentUuid") or "")) is not None and parent["uuid"] not in seen:
        seen.add(parent["uuid"])
        value = parent
    return f"side {value.get('uuid')}"


def _user_lines_before(value: dict[str, Any], known: dict[str, dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Yield the user's lines between a response and the previous one, the latest first."""
    while (parent := known.get(value.get("parentUuid") or "")) is not None and parent.get("type") != "assistant":
        value = parent
        if value.get("type") == "user":
            yield value


def _is_typed(value: dict[str, Any]) -> bool:
    """Return whether a person typed a message of the user role; clients add others, and tool results."""
    if value.get("isMeta") or value.get("isCompactSummary"):
        return False
    content = (value.get("message") or {}).get("content")
    if isinstance(content, str):
        return not content.startswith(("<local-command", "<command-name>", "<task-notification>", "[Request interr"))
    return not any(isinstance(block, dict) and block.get("type") == "tool_result" for block in content or [])


def _verdict(message: dict[str, Any]) -> str:
    miss = (message.get("diagnostics") or {}).get("cache_miss_reason")
    return str(miss.get("type", "") if isinstance(miss, dict) else miss or "")


# captures


class Call(NamedTuple):
    """A request with its response."""

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
    """Read a call that the generators of these tests wrote; without lifetimes the provider reports no writes."""
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
    """Return the body in a value, in JSON text, or in a stream of events."""
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
    """Return the request of a call; None if it is not a request to a model."""
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
        failed=call.status >= 400, first_pass=first_of(usage),
    )  # fmt: skip


def _usages(answer: Any) -> Iterator[dict[str, Any]]:
    """Yield each usage in a response; a stream has one at its beginning and one at its end."""
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
    """Return usage as a bill. Anthropic's input tokens exclude cached ones, those of others include them."""
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
    """Return the bill of the first of several passes; of a fallback model its first, since caches are separate."""
    passes = _answering(usage)
    return billed(next(one for one in passes if one["type"] == passes[-1]["type"])) if len(passes) > 1 else None


def _answering(usage: dict[str, Any]) -> list[dict[str, Any]]:
    return [one for one in usage.get("iterations") or [] if one.get("type") in ("message", "fallback_message")]


def _time(value: dict[str, Any]) -> float | None:
    stamp = value.get("timestamp")
    return datetime.fromisoformat(stamp).timestamp() if isinstance(stamp, str) else None
