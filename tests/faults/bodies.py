"""Write a request as the body of each dialect, breakpoints where each has them."""

import copy
import json
from typing import Any

from faults.script import Message, Request, Tool

DIALECTS = ("anthropic", "openai-chat", "openai-responses", "gemini", "bedrock")


def body(request: Request, dialect: str) -> dict[str, Any]:
    made = _WRITERS[dialect](request)
    if not request.tools:  # without tools there is nothing to choose from
        made = {key: value for key, value in made.items() if key not in _OF_TOOLS}
    return made


_OF_TOOLS = ("tools", "tool_choice", "parallel_tool_calls", "toolConfig")


def _breakpoint(request: Request, place: tuple[Any, ...]) -> dict[str, Any]:
    return {"cache_control": dict(request.breakpoint)} if place in request.breakpoints else {}


# Anthropic


def _anthropic(request: Request) -> dict[str, Any]:
    tools = [
        {
            "name": one.name,
            "description": one.description,
            "input_schema": one.schema,
            **one.extra,
            **_breakpoint(request, ("tool", number)),
        }
        for number, one in enumerate(request.tools)
    ]
    system = [
        {"type": "text", "text": one, **_breakpoint(request, ("system", n))} for n, one in enumerate(request.system)
    ]
    messages = [_claudes(request, number, one) for number, one in enumerate(request.messages)]
    said = "\n\n".join(request.system) if request.flat_system else system
    return {"model": request.model, "system": said, "messages": messages, "tools": tools, **request.params}


def _claudes(request: Request, number: int, message: Message) -> dict[str, Any]:
    if message.flat:
        return {"role": message.role, "content": message.blocks[0]["text"]}
    content = [
        {**_claude(one), **_breakpoint(request, ("message", number, place))} for place, one in enumerate(message.blocks)
    ]
    return {"role": message.role, "content": content}


def _claude(one: dict[str, Any]) -> dict[str, Any]:
    match one["kind"]:
        case "text":
            return {"type": "text", "text": one["text"]}
        case "thinking":
            return {"type": "thinking", "thinking": one["text"], "signature": one["signature"]}
        case "call":
            return {"type": "tool_use", "id": one["id"], "name": one["name"], "input": one["input"]}
        case "result":
            return {"type": "tool_result", "tool_use_id": one["id"], "content": [{"type": "text", "text": one["text"]}]}
        case _:
            source = {"type": "base64", "media_type": one["media"], "data": one["data"]}
            return {"type": "image", "source": source}


# OpenAI Chat


def _function(one: Tool) -> dict[str, Any]:
    return {"name": one.name, "description": one.description, "parameters": one.schema}


def _arguments(one: dict[str, Any]) -> str:
    return one.get("spelled") or json.dumps(one["input"], ensure_ascii=False, separators=(",", ":"))


def _points(request: Request, place: tuple[Any, ...]) -> dict[str, Any]:
    return {"prompt_cache_breakpoint": {"mode": "explicit"}} if place in request.breakpoints else {}


def _chat(request: Request) -> dict[str, Any]:
    messages: list[dict[str, Any]] = [
        {"role": "system", "content": [{"type": "text", "text": one} for one in request.system]}
    ]
    if request.flat_system:
        messages = [{"role": "system", "content": "\n\n".join(request.system)}]
    for number, one in enumerate(request.messages):
        messages += _chats(request, number, one)
    tools = [{"type": "function", "function": _function(one), **one.extra} for one in request.tools]
    return {"model": request.model, "messages": messages, "tools": tools, **request.params}


def _chats(request: Request, number: int, message: Message) -> list[dict[str, Any]]:
    if message.role == "assistant":
        return [_chat_answer(message)]
    found: list[dict[str, Any]] = [
        {"role": "tool", "tool_call_id": one["id"], "content": one["text"]}
        for one in message.blocks
        if one["kind"] == "result"
    ]
    parts: list[dict[str, Any]] = []
    for place, one in enumerate(message.blocks):
        if one["kind"] == "text":
            parts.append({"type": "text", "text": one["text"], **_points(request, ("message", number, place))})
        elif one["kind"] == "image":
            url = f"data:{one['media']};base64,{one['data']}"
            parts.append({"type": "image_url", "image_url": {"url": url}})
    if parts:
        found.append({"role": message.role, "content": parts[0]["text"] if message.flat else parts})
    return found


def _chat_answer(message: Message) -> dict[str, Any]:
    said = "\n".join(one["text"] for one in message.blocks if one["kind"] == "text")
    made: dict[str, Any] = {"role": "assistant", "content": said or None}
    thought = [one["text"] for one in message.blocks if one["kind"] == "thinking"]
    if thought:
        made["reasoning_content"] = "\n".join(thought)
    calls = [
        {"id": one["id"], "type": "function", "function": {"name": one["name"], "arguments": _arguments(one)}}
        for one in message.blocks
        if one["kind"] == "call"
    ]
    if calls:
        made["tool_calls"] = calls
    return made


# OpenAI Responses


def _responses(request: Request) -> dict[str, Any]:
    rest = [{"type": "input_text", "text": one} for one in request.system[1:]]
    items: list[dict[str, Any]] = [{"type": "message", "role": "developer", "content": rest}] if rest else []
    for number, one in enumerate(request.messages):
        items += _items(request, number, one)
    tools = [{"type": "function", **_function(one), "strict": False, **one.extra} for one in request.tools]
    return {"model": request.model, "instructions": request.system[0], "input": items, "tools": tools, **request.params}


def _items(request: Request, number: int, message: Message) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    parts: list[dict[str, Any]] = []
    for place, one in enumerate(message.blocks):
        match one["kind"]:
            case "text" if message.role == "assistant":
                said = [{"type": "output_text", "text": one["text"]}]
                found.append({"type": "message", "role": "assistant", "content": said})
            case "text":
                parts.append(
                    {"type": "input_text", "text": one["text"], **_points(request, ("message", number, place))}
                )
            case "image":
                url = f"data:{one['media']};base64,{one['data']}"
                parts.append({"type": "input_image", "image_url": url})
            case "thinking":
                found.append({"type": "reasoning", "summary": [], "encrypted_content": one["signature"]})
            case "call":
                made = {"type": "function_call", "call_id": one["id"], "name": one["name"]}
                found.append({**made, "arguments": _arguments(one)})
            case _:
                found.append({"type": "function_call_output", "call_id": one["id"], "output": one["text"]})
    if parts:
        content = parts[0]["text"] if message.flat else parts
        found.append({"type": "message", "role": message.role, "content": content})
    return found


# Gemini


def _gemini(request: Request) -> dict[str, Any]:
    declared = [{**_function(one), **one.extra} for one in request.tools]
    contents = [
        {"role": "model" if one.role == "assistant" else "user", "parts": [_part(block) for block in one.blocks]}
        for one in request.messages
    ]
    return {
        "model": request.model,
        "systemInstruction": {"parts": [{"text": one} for one in request.system]},
        "contents": contents,
        "tools": [{"functionDeclarations": declared}],
        **request.params,
    }


def _part(one: dict[str, Any]) -> dict[str, Any]:
    match one["kind"]:
        case "text":
            return {"text": one["text"]}
        case "image":
            return {"inlineData": {"mimeType": one["media"], "data": one["data"]}}
        case "thinking":
            return {"text": one["text"], "thought": True, "thoughtSignature": one["signature"]}
        case "call":
            return {"functionCall": {"name": one["name"], "args": one["input"]}}
        case _:
            return {"functionResponse": {"name": one["name"], "response": {"result": one["text"]}}}


# Bedrock


def _bedrock(request: Request) -> dict[str, Any]:
    point = {"cachePoint": {"type": "default", **({"ttl": "1h"} if request.breakpoint.get("ttl") == "1h" else {})}}
    tools: list[dict[str, Any]] = []
    for number, one in enumerate(request.tools):
        spec = {"name": one.name, "description": one.description, "inputSchema": {"json": one.schema}}
        tools.append({"toolSpec": {**spec, **one.extra}})
        tools += [point] if ("tool", number) in request.breakpoints else []
    system: list[dict[str, Any]] = []
    for number, said in enumerate(request.system):
        system.append({"text": said})
        system += [point] if ("system", number) in request.breakpoints else []
    messages: list[dict[str, Any]] = []
    for number, message in enumerate(request.messages):
        content: list[dict[str, Any]] = []
        for place, block in enumerate(message.blocks):
            content.append(_converse(block))
            content += [point] if ("message", number, place) in request.breakpoints else []
        messages.append({"role": message.role, "content": content})
    params = copy.deepcopy(request.params)
    config = {"tools": tools, **params.pop("toolConfig", {})}
    return {"modelId": request.model, "system": system, "messages": messages, "toolConfig": config, **params}


def _converse(one: dict[str, Any]) -> dict[str, Any]:
    match one["kind"]:
        case "text":
            return {"text": one["text"]}
        case "image":
            return {"image": {"format": one["media"].partition("/")[2], "source": {"bytes": one["data"]}}}
        case "thinking":
            return {"reasoningContent": {"reasoningText": {"text": one["text"], "signature": one["signature"]}}}
        case "call":
            return {"toolUse": {"toolUseId": one["id"], "name": one["name"], "input": one["input"]}}
        case _:
            return {"toolResult": {"toolUseId": one["id"], "content": [{"text": one["text"]}], "status": "success"}}


_WRITERS = {
    "anthropic": _anthropic,
    "openai-chat": _chat,
    "openai-responses": _responses,
    "gemini": _gemini,
    "bedrock": _bedrock,
}
