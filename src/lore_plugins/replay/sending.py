"""Prepare a request body for sending: the same prompt, with a limit on the output.

Unchanged members keep their bytes. The prompt is changed only by a `salt`: a line before the system prompt and before
the description of the first tool, so that two salts share no prefix in any render order; vLLM gets its own
`cache_salt` instead. Cost: O(bytes).

Sources: the providers' API references (read 2026-11-23): OpenAI's Responses API requires at least 16
`max_output_tokens`, its newer models refuse `max_tokens`; Anthropic requires `max_tokens` above
`thinking.budget_tokens`; vLLM's `cache_salt`.
"""

from __future__ import annotations

from typing import NamedTuple
from urllib.parse import quote

from lore.model import array, encode, raw_members, sliced_members, text_of

# Members that set the delivery and the number of answers: a replay requests one, not streamed.
_DELIVERY = ("stream", "stream_options", "background", "n", "best_of")
_LEAST_RESPONSES = 16  # tokens, OpenAI's minimum


class _RequestShape(NamedTuple):
    path: str
    limits: tuple[str, ...]  # members that limit the answer, the one to write first
    model_members: tuple[str, ...] = ("model",)  # members that name the model; without any it is part of the path
    tools: str = "tools"  # member with the tools
    wraps: tuple[str, ...] = ()  # members of a tool that hold its own members


_SHAPES: dict[str, _RequestShape] = {
    "anthropic": _RequestShape("/v1/messages", ("max_tokens",)),
    "openai-chat": _RequestShape("/v1/chat/completions", ("max_tokens", "max_completion_tokens"), wraps=("function",)),
    "openai-responses": _RequestShape("/v1/responses", ("max_output_tokens",)),
    "gemini": _RequestShape(
        "/v1beta/models/{model}:generateContent", ("generationConfig.maxOutputTokens",), (),
        wraps=("functionDeclarations", "function_declarations"),
    ),
    "bedrock": _RequestShape(
        "/model/{model}/converse", ("inferenceConfig.maxTokens",), (), tools="toolConfig.tools", wraps=("toolSpec",)
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
    outer, _, inner = shape.tools.partition(".")
    raw = members.get(outer, b"")
    tools_json = sliced_members(raw).get(inner, b"") if inner else raw
    if tools_json[:1] != b"[":
        return
    salted = b"[" + b",".join(_salt_first_description(array(tools_json), shape.wraps, line)) + b"]"
    members[outer] = json_object({**sliced_members(raw), inner: salted}) if inner else salted


def _salt_first_description(tools: list[bytes], wraps: tuple[str, ...], line: str) -> list[bytes]:
    """Return the tools with the line before the first description."""
    for at, tool in enumerate(tools):
        tool_members = sliced_members(tool)
        wrap = next((key for key in wraps if key in tool_members), "")
        inner = tool_members.get(wrap, b"") if wrap else tool
        if inner[:1] == b"[":
            declared = array(inner)
            salted_tools = _salt_first_description(declared, (), line)
            if salted_tools == declared:
                continue
            salted = b"[" + b",".join(salted_tools) + b"]"
        else:
            members = sliced_members(inner)
            if members.get("description", b"")[:1] != b'"':
                continue
            salted = json_object({**members, "description": _prepend(line, members["description"])})
        return [*tools[:at], json_object({**tool_members, wrap: salted}) if wrap else salted, *tools[at + 1 :]]
    return tools


def _salt_system(members: dict[str, bytes], dialect: str, line: str) -> None:
    """Put a line before the system prompt, or make it the system prompt."""
    text = encode(line)
    match dialect:
        case "anthropic" | "bedrock":
            block = b'{"type":"text","text":' + text + b"}" if dialect == "anthropic" else b'{"text":' + text + b"}"
            raw = members.get("system", b"[]")
            parts = array(raw) if raw[:1] == b"[" else []
            if raw[:1] == b'"':
                parts = [b'{"type":"text","text":' + raw + b"}"]
            members["system"] = b"[" + b",".join([block, *parts]) + b"]"
        case "gemini":
            key = "system_instruction" if "system_instruction" in members else "systemInstruction"
            instruction = sliced_members(members.get(key, b"{}"))
            texts = [b'{"text":' + text + b"}", *array(instruction.get("parts", b"[]"))]
            members[key] = json_object({**instruction, "parts": b"[" + b",".join(texts) + b"]"})
        case "openai-responses":
            members["instructions"] = _prepend(line, members.get("instructions", b"null"))
        case _:
            messages = array(members.get("messages", b"[]"))
            first = sliced_members(messages[0]) if messages else {}
            if first.get("role") in (b'"system"', b'"developer"'):
                content = first.get("content", b'""')
                block = b'{"type":"text","text":' + text + b"}"
                blocks = b"[" + b",".join([block, *array(content)]) + b"]" if content[:1] == b"[" else b""
                messages[0] = json_object({**first, "content": blocks or _prepend(line, content)})
            else:
                messages.insert(0, b'{"role":"system","content":' + text + b"}")
            members["messages"] = b"[" + b",".join(messages) + b"]"


def _prepend(line: str, text: bytes) -> bytes:
    """Return a JSON string with a line before its text; only the line if it is not a string."""
    return encode(f"{line}\n")[:-1] + text[1:] if text[:1] == b'"' else encode(line)


def json_object(members: dict[str, bytes]) -> bytes:
    """Return a JSON object with these values, which are JSON."""
    return b"{" + b",".join([encode(key) + b":" + raw for key, raw in members.items()]) + b"}"
