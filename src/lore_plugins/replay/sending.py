"""Prepare a request body for sending: the same prompt, with a limit on the output.

Unchanged members keep their bytes. The prompt is changed only by a `salt`: a line before the system prompt and before
the description of the first tool, so that two salts share no prefix in any render order; vLLM gets its own
`cache_salt` instead. Cost: O(bytes).

Sources: the providers' API references (read 2026-11-23): OpenAI's Responses API requires at least 16
`max_output_tokens`, its newer models refuse `max_tokens`; Anthropic requires `max_tokens` above
`thinking.budget_tokens`; vLLM's `cache_salt`.
"""

from __future__ import annotations

from typing import Any, NamedTuple, cast
from urllib.parse import quote

from lore.model import array, decode, encode, raw_members, sliced_members, text_of

# Members that set the delivery and the number of answers: a replay requests one, not streamed.
_DELIVERY = ("stream", "stream_options", "background", "n", "best_of")
_LEAST_RESPONSES = 16  # tokens, OpenAI's minimum


class _RequestShape(NamedTuple):
    path: str
    limits: tuple[str, ...]  # members that limit the answer, the one to write first
    model_members: tuple[str, ...] = ("model",)  # members that name the model; without any it is part of the path
    tools: str = "tools"  # member with the tools
    wraps: tuple[str, ...] = ()  # members of that, or of a tool, that hold tools or the members of one


_SHAPES: dict[str, _RequestShape] = {
    "anthropic": _RequestShape("/v1/messages", ("max_tokens",)),
    "openai-chat": _RequestShape("/v1/chat/completions", ("max_tokens", "max_completion_tokens"), wraps=("function",)),
    "openai-responses": _RequestShape("/v1/responses", ("max_output_tokens",)),
    "gemini": _RequestShape(
        "/v1beta/models/{model}:generateContent", ("generationConfig.maxOutputTokens",), (),
        wraps=("functionDeclarations", "function_declarations"),
    ),
    "bedrock": _RequestShape(
        "/model/{model}/converse", ("inferenceConfig.maxTokens",), (), tools="toolConfig", wraps=("tools", "toolSpec")
    ),
}  # fmt: skip
SENDABLE = tuple(_SHAPES)


class Sending(NamedTuple):
    """How bodies are sent."""

    dialect: str
    max_tokens: int = 1
    model: str | None = None  # None: the recorded one
    salt: str = ""  # separates its cache from that of other salts
    cache: str = ""  # the cache model of the server


class SentBody(NamedTuple):
    """A body to send."""

    body: bytes
    path: str  # on the server
    left_out: tuple[str, ...]  # members of the recorded body that it lacks
    model: str = ""  # the requested model, "" if none is named


def prepare_body(body: bytes, sending: Sending, *, model: str | None = None) -> SentBody:
    """Return the body to send; `model` is the recorded one, for bodies that do not name it."""
    shape, members = _SHAPES[sending.dialect], dict(raw_members(body) or {})
    left_out = [key for key in ("background", "n", "best_of") if members.get(key, b"null") not in (b"null", b"1")]
    for key in _DELIVERY:
        members.pop(key, None)
    requested_model = sending.model or text_of(members.get("model", b'""')) or model or ""
    for key in ("model", "modelId"):
        if key in members and key not in shape.model_members:
            requested_model = sending.model or text_of(members.pop(key))
    if shape.model_members and sending.model is not None:
        members = {"model": encode(sending.model), **{key: raw for key, raw in members.items() if key != "model"}}
    _limit(members, shape, sending)
    left_out += _remove_thinking(members, sending)
    if sending.salt:
        _salt(members, shape, sending)
    path = shape.path.replace("{model}", quote(requested_model, safe="", errors="replace"))
    return SentBody(json_object(members), path, tuple(left_out), requested_model)


def _limit(members: dict[str, bytes], shape: _RequestShape, sending: Sending) -> None:
    """Limit the answer with the request's own member, else with the one that servers support."""
    most = sending.max_tokens
    if sending.dialect == "openai-responses" and sending.cache.startswith("openai"):
        most = max(most, _LEAST_RESPONSES)
    if sending.dialect == "openai-chat":
        newer = "max_completion_tokens" in members or sending.cache.startswith("openai")
        for key in shape.limits:
            members.pop(key, None)
        members[shape.limits[newer]] = encode(most)
        return
    outer, _, inner = shape.limits[0].partition(".")
    if not inner:
        members[outer] = encode(most)
        return
    config = {**sliced_members(members.get(outer, b"{}")), inner: encode(most)}
    members[outer] = json_object(config)


def _remove_thinking(members: dict[str, bytes], sending: Sending) -> list[str]:
    """Remove a thinking budget that exceeds the limit, and the option that clears thinking; return the names."""
    left_out: list[str] = []
    holders = {"anthropic": "thinking", "bedrock": "additionalModelRequestFields"}
    key = holders.get(sending.dialect, "")
    config = sliced_members(members.get(key, b"{}"))
    inner = config if key == "thinking" else sliced_members(config.get("thinking", b"{}"))
    budget = inner.get("budget_tokens", b"")
    if budget.isdigit() and len(budget) < 10 and int(budget) >= sending.max_tokens:
        config.pop("thinking", None)
        members.pop(key)
        if key != "thinking" and config:
            members[key] = json_object(config)
        left_out.append("thinking")
        if b"clear_thinking" in members.get("context_management", b""):
            members.pop("context_management")
            left_out.append("context_management")
    return left_out


def _salt(members: dict[str, bytes], shape: _RequestShape, sending: Sending) -> None:
    if sending.cache == "vllm":
        members["cache_salt"] = encode(sending.salt)
        return
    line = f"[replay {sending.salt}]"
    _salt_system(members, sending.dialect, line)
    tools: Any = decode(members.get(shape.tools, b"null"))
    if _salt_first_description(tools, shape.wraps, line):
        members[shape.tools] = encode(tools)


def _salt_first_description(tools: Any, wraps: tuple[str, ...], line: str) -> bool:
    """Put a line before the first description of a tool; return whether there is one."""
    if isinstance(tools, list):
        return any(_salt_first_description(tool, wraps, line) for tool in cast("list[Any]", tools))
    if not isinstance(tools, dict):
        return False
    tool = cast("dict[str, Any]", tools)
    if isinstance(tool.get("description"), str):
        tool["description"] = f"{line}\n{tool['description']}"
        return True
    return any(_salt_first_description(tool.get(wrap), wraps, line) for wrap in wraps)


def _salt_system(members: dict[str, bytes], dialect: str, line: str) -> None:
    """Put a line before the system prompt, or make it the system prompt."""
    block = {"text": line} if dialect in ("bedrock", "gemini") else {"type": "text", "text": line}
    match dialect:
        case "anthropic" | "bedrock":
            members["system"] = encode([block, *_blocks(decode(members.get("system", b"null")), block)])
        case "gemini":
            key = "system_instruction" if "system_instruction" in members else "systemInstruction"
            instruction = sliced_members(members.get(key, b"{}"))
            parts = [block, *_blocks(decode(instruction.get("parts", b"null")), block)]
            members[key] = json_object({**instruction, "parts": encode(parts)})
        case "openai-responses":
            members["instructions"] = encode(_prepend(line, decode(members.get("instructions", b"null"))))
        case _:
            messages = array(members.get("messages", b"[]"))
            first = sliced_members(messages[0]) if messages else {}
            if first.get("role") in (b'"system"', b'"developer"'):
                content: Any = decode(first.get("content", b"null"))
                blocks = [block, *_blocks(content, block)] if isinstance(content, list) else _prepend(line, content)
                messages[0] = json_object({**first, "content": encode(blocks)})
            else:
                messages.insert(0, encode({"role": "system", "content": line}))
            members["messages"] = b"[" + b",".join(messages) + b"]"


def _blocks(content: Any, block: dict[str, str]) -> list[Any]:
    """Return content as a list of blocks, a text as one like `block`."""
    if isinstance(content, str):
        return [{**block, "text": content}]
    return cast("list[Any]", content) if isinstance(content, list) else []


def _prepend(line: str, text: object) -> str:
    return f"{line}\n{text}" if isinstance(text, str) else line


def json_object(members: dict[str, bytes]) -> bytes:
    """Return a JSON object with these values, which are JSON."""
    return b"{" + b",".join([encode(key) + b":" + raw for key, raw in members.items()]) + b"}"
