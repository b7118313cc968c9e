"""Write a request as the body of each dialect, breakpoints where each has them."""

import copy
import json
from typing import Any

from faults.script import Message, Request, Tool

DIALECTS = ("anthropic", "openai-chat", "openai-responses", "gemini", "bedrock")


def body(request: Request, dialect: str) -> dict[str, Any]:
    fields = _WRITERS[dialect](request)
    if not request.tools:  # without tools there is nothing to choose from
        fields = {key: value for key, value in fields.items() if key not in _OF_TOOLS}
    return fields


_OF_TOOLS = ("tools", "tool_choice", "parallel_tool_calls", "toolConfig")


def _breakpoint(request: Request, place: tuple[Any, ...]) -> dict[str, Any]:
    return {"cache_control": dict(request.breakpoint)} if place in request.breakpoints else {}


# Anthropic


def _anthropic(request: Request) -> dict[str, Any]:
    tools = [
        {
            "name": tool.name,
            "description": tool.description,
            "input_schema": tool.schema,
            **tool.extra,
            **_breakpoint(request, ("tool", number)),
        }
        for number, tool in enumerate(request.tools)
    ]
    system = [
        {"type": "text", "text": text, **_breakpoint(request, ("system", n))} for n, text in enumerate(request.system)
    ]
    messages = [_claudes(request, number, message) for number, message in enumerate(request.messages)]
    system_field = "\n\n".join(request.system) if request.flat_system else system
    return {"model": request.model, "system": system_field, "messages": messages, "tools": tools, **request.params}


def _claudes(request: Request, number: int, message: Message) -> dict[str, Any]:
    if message.flat:
        return {"role": message.role, "content": message.blocks[0]["text"]}
    content = [
        {**_claude(block), **_breakpoint(request, ("message", number, place))}
        for place, block in enumerate(message.blocks)
    ]
    return {"role": message.role, "content": content}


def _claude(block: dict[str, Any]) -> dict[str, Any]:
    match block["kind"]:
        case "text":
            return {"type": "text", "text": block["text"]}
        case "thinking":
            return {"type": "thinking", "thinking": block["text"], "signature": block["signature"]}
        case "call":
            return {"type": "tool_use", "id": block["id"], "name": block["name"], "input": block["input"]}
        case "result":
            return {
                "type": "tool_result",
                "tool_use_id": block["id"],
                "content": [{"type": "text", "text": block["text"]}],
            }
        case _:
            source = {"type": "base64", "media_type": block["media"], "data": block["data"]}
            return {"type": "image", "source": source}


# OpenAI Chat


def _function(tool: Tool) -> dict[str, Any]:
    return {"name": tool.name, "description": tool.description, "parameters": tool.schema}


def _arguments(block: dict[str, Any]) -> str:
    return block.get("spelled") or json.dumps(block["input"], ensure_ascii=False, separators=(",", ":"))


def _points(request: Request, place: tuple[Any, ...]) -> dict[str, Any]:
    return {"prompt_cache_breakpoint": {"mode": "explicit"}} if place in request.breakpoints else {}


def _chat(request: Request) -> dict[str, Any]:
    messages: list[dict[str, Any]] = [
        {"role": "system", "content": [{"type": "text", "text": text} for text in request.system]}
    ]
    if request.flat_system:
        messages = [{"role": "system", "content": "\n\n".join(request.system)}]
    for number, message in enumerate(request.messages):
        messages += _chats(request, number, message)
    tools = [{"type": "function", "function": _function(tool), **tool.extra} for tool in request.tools]
    return {"model": request.model, "messages": messages, "tools": tools, **request.params}


def _chats(request: Request, number: int, message: Message) -> list[dict[str, Any]]:
    if message.role == "assistant":
        return [_chat_answer(message)]
    messages: list[dict[str, Any]] = [
        {"role": "tool", "tool_call_id": block["id"], "content": block["text"]}
        for block in message.blocks
        if block["kind"] == "result"
    ]
    parts: list[dict[str, Any]] = []
    for place, block in enumerate(message.blocks):
        if block["kind"] == "text":
            parts.append({"type": "text", "text": block["text"], **_points(request, ("message", number, place))})
        elif block["kind"] == "image":
            url = f"data:{block['media']};base64,{block['data']}"
            parts.append({"type": "image_url", "image_url": {"url": url}})
    if parts:
        messages.append({"role": message.role, "content": parts[0]["text"] if message.flat else parts})
    return messages


def _chat_answer(message: Message) -> dict[str, Any]:
    answer = "\n".join(block["text"] for block in message.blocks if block["kind"] == "text")
    chat_message: dict[str, Any] = {"role": "assistant", "content": answer or None}
    thought = [block["text"] for block in message.blocks if block["kind"] == "thinking"]
    if thought:
        chat_message["reasoning_content"] = "\n".join(thought)
    calls = [
        {"id": block["id"], "type": "function", "function": {"name": block["name"], "arguments": _arguments(block)}}
        for block in message.blocks
        if block["kind"] == "call"
    ]
    if calls:
        chat_message["tool_calls"] = calls
    return chat_message


# OpenAI Responses


def _responses(request: Request) -> dict[str, Any]:
    further_texts = [{"type": "input_text", "text": text} for text in request.system[1:]]
    items: list[dict[str, Any]] = (
        [{"type": "message", "role": "developer", "content": further_texts}] if further_texts else []
    )
    for number, message in enumerate(request.messages):
        items += _items(request, number, message)
    tools = [{"type": "function", **_function(tool), "strict": False, **tool.extra} for tool in request.tools]
    return {"model": request.model, "instructions": request.system[0], "input": items, "tools": tools, **request.params}


def _items(request: Request, number: int, message: Message) -> list[dict[str, Any]]:
    items: list[dict[str, Any]] = []
    parts: list[dict[str, Any]] = []
    for place, block in enumerate(message.blocks):
        match block["kind"]:
            case "text" if message.role == "assistant":
                output_texts = [{"type": "output_text", "text": block["text"]}]
                items.append({"type": "message", "role": "assistant", "content": output_texts})
            case "text":
                parts.append(
                    {"type": "input_text", "text": block["text"], **_points(request, ("message", number, place))}
                )
            case "image":
                url = f"data:{block['media']};base64,{block['data']}"
                parts.append({"type": "input_image", "image_url": url})
            case "thinking":
                items.append({"type": "reasoning", "summary": [], "encrypted_content": block["signature"]})
            case "call":
                call_item = {"type": "function_call", "call_id": block["id"], "name": block["name"]}
                items.append({**call_item, "arguments": _arguments(block)})
            case _:
                items.append({"type": "function_call_output", "call_id": block["id"], "output": block["text"]})
    if parts:
        content = parts[0]["text"] if message.flat else parts
        items.append({"type": "message", "role": message.role, "content": content})
    return items


# Gemini


def _gemini(request: Request) -> dict[str, Any]:
    declared = [{**_function(tool), **tool.extra} for tool in request.tools]
    contents = [
        {
            "role": "model" if message.role == "assistant" else "user",
            "parts": [_part(block) for block in message.blocks],
        }
        for message in request.messages
    ]
    return {
        "model": request.model,
        "systemInstruction": {"parts": [{"text": text} for text in request.system]},
        "contents": contents,
        "tools": [{"functionDeclarations": declared}],
        **request.params,
    }


def _part(block: dict[str, Any]) -> dict[str, Any]:
    match block["kind"]:
        case "text":
            return {"text": block["text"]}
        case "image":
            return {"inlineData": {"mimeType": block["media"], "data": block["data"]}}
        case "thinking":
            return {"text": block["text"], "thought": True, "thoughtSignature": block["signature"]}
        case "call":
            return {"functionCall": {"name": block["name"], "args": block["input"]}}
        case _:
            return {"functionResponse": {"name": block["name"], "response": {"result": block["text"]}}}


# Bedrock


def _bedrock(request: Request) -> dict[str, Any]:
    point = {"cachePoint": {"type": "default", **({"ttl": "1h"} if request.breakpoint.get("ttl") == "1h" else {})}}
    tools: list[dict[str, Any]] = []
    for number, tool in enumerate(request.tools):
        spec = {"name": tool.name, "description": tool.description, "inputSchema": {"json": tool.schema}}
        tools.append({"toolSpec": {**spec, **tool.extra}})
        tools += [point] if ("tool", number) in request.breakpoints else []
    system: list[dict[str, Any]] = []
    for number, words in enumerate(request.system):
        system.append({"text": words})
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


def _converse(block: dict[str, Any]) -> dict[str, Any]:
    match block["kind"]:
        case "text":
            return {"text": block["text"]}
        case "image":
            return {"image": {"format": block["media"].partition("/")[2], "source": {"bytes": block["data"]}}}
        case "thinking":
            return {"reasoningContent": {"reasoningText": {"text": block["text"], "signature": block["signature"]}}}
        case "call":
            return {"toolUse": {"toolUseId": block["id"], "name": block["name"], "input": block["input"]}}
        case _:
            return {"toolResult": {"toolUseId": block["id"], "content": [{"text": block["text"]}], "status": "success"}}


_WRITERS = {
    "anthropic": _anthropic,
    "openai-chat": _chat,
    "openai-responses": _responses,
    "gemini": _gemini,
    "bedrock": _bedrock,
}
