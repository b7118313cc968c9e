"""Request bodies of every dialect: alone, growing, in files."""

from typing import Any

from hypothesis import strategies as st
from msgspec import Raw

from helpers.strategies.logs import _oddly
from helpers.strategies.spelling import Spelled, numbers, styles, texts, values, write

# request bodies

CACHE_CONTROL = {"type": "ephemeral"}
BREAKPOINT = {"mode": "explicit"}
POINT = {"cachePoint": {"type": "default"}}
DIALECTS = ("anthropic", "openai-chat", "openai-responses", "gemini", "bedrock")
WITH_BREAKPOINTS = ("anthropic", "openai-chat", "openai-responses", "bedrock")
LISTS = ("messages", "input", "contents")  # the member that holds the messages


@st.composite
def _anthropic(draw: Any, length: int) -> dict[str, Any]:
    schema = {"type": "object", "properties": {"n": {"maximum": draw(numbers)}}}
    messages: list[dict[str, Any]] = []
    for number in range(length):
        messages.append({"role": "user", "content": [{"type": "text", "text": draw(texts)}]})
        call = f"toolu_{number}"
        content = [
            {"type": "text", "text": draw(texts)},
            {"type": "tool_use", "id": call, "name": "read", "input": {"v": draw(values)}},
        ]
        messages.append({"role": "assistant", "content": content})
        inner = [{"type": "text", "text": draw(texts)}, {"type": "text", "text": "end"}]
        result = {"type": "tool_result", "tool_use_id": call, "content": inner if draw(st.booleans()) else draw(texts)}
        messages.append({"role": "user", "content": [result, {"type": "text", "text": draw(texts)}]})
    return {
        "model": "claude-sonnet-4-5",
        "max_tokens": 1024,
        "tools": [
            {"name": "read", "description": draw(texts), "input_schema": schema},
            {"name": "b", "input_schema": {}},
        ],
        "system": [{"type": "text", "text": draw(texts)}, {"type": "text", "text": "two"}],
        "messages": messages,
    }


@st.composite
def _openai(draw: Any, length: int) -> dict[str, Any]:
    parameters = {"type": "object", "properties": {"n": {"maximum": draw(numbers)}}}
    messages: list[dict[str, Any]] = [{"role": "system", "content": [{"type": "text", "text": draw(texts)}]}]
    for number in range(length):
        messages.append({"role": "user", "name": "ann", "content": [{"type": "text", "text": draw(texts)}]})
        call = {"id": f"call_{number}", "type": "function", "function": {"name": "read", "arguments": '{"a": 1}'}}
        messages.append({"role": "assistant", "content": draw(st.sampled_from([None, "so"])), "tool_calls": [call]})
        messages.append(
            {"role": "tool", "tool_call_id": call["id"], "content": [{"type": "text", "text": draw(texts)}]}
        )
    return {
        "model": "gpt-5",
        "messages": messages,
        "tools": [
            {"type": "function", "function": {"name": "read", "description": draw(texts), "parameters": parameters}}
        ],
    }


@st.composite
def _responses(draw: Any, length: int) -> dict[str, Any]:
    parameters = {"type": "object", "properties": {"n": {"maximum": draw(numbers)}}}
    items: list[dict[str, Any]] = [{"role": "developer", "content": [{"type": "input_text", "text": draw(texts)}]}]
    for number in range(length):
        content = [{"type": "input_text", "text": draw(texts)}, {"type": "input_image", "image_url": "data:,"}]
        items.append({"type": "message", "role": "user", "content": content})
        call = {"type": "function_call", "call_id": f"call_{number}", "name": "read", "arguments": '{"a": 1}'}
        reasoning = {"type": "reasoning", "id": f"rs_{number}", "summary": [], "encrypted_content": draw(texts)}
        items += [draw(st.sampled_from([reasoning, {**call, "call_id": "other"}])), call]
        parts = [{"type": "input_text", "text": draw(texts)}]
        output = parts if draw(st.booleans()) else draw(texts)
        items.append({"type": "function_call_output", "call_id": call["call_id"], "output": output})
    return {
        "model": "gpt-5.6-sol",
        "instructions": draw(texts),
        "input": items,
        "tools": [{"type": "function", "name": "read", "description": draw(texts), "parameters": parameters}],
        "store": False,
    }


@st.composite
def _gemini(draw: Any, length: int) -> dict[str, Any]:
    snake = draw(st.booleans())
    contents: list[dict[str, Any]] = []
    for number in range(length):
        call = {"id": f"f{number}", "name": "read", "args": {"v": draw(values)}}
        answer = {"id": f"f{number}", "name": "read", "response": {"result": draw(texts)}}
        signed = {"functionCall": call, "thoughtSignature": "c2ln"}
        contents.append({"role": "user", "parts": [{"text": draw(texts)}]})
        contents.append(
            {"role": "model", "parts": [{"text": draw(texts)}, {"function_call": call} if snake else signed]}
        )
        contents.append({"role": "user", "parts": [{"functionResponse": answer}, {"text": draw(texts)}]})
    schema = {"type": "OBJECT", "properties": {"n": {"maximum": draw(numbers)}}}
    declared = [{"name": "read", "description": draw(texts), "parameters": schema}, {"name": "b"}]
    return {
        "model": draw(st.sampled_from(["gemini-3-pro", "models/gemini-3-pro"])),
        "tools": [{"function_declarations" if snake else "functionDeclarations": declared}, {"googleSearch": {}}],
        "system_instruction" if snake else "systemInstruction": {"parts": [{"text": draw(texts)}, {"text": "two"}]},
        "generationConfig": {"temperature": 1.0},
        "contents": contents,
    }


@st.composite
def _bedrock(draw: Any, length: int) -> dict[str, Any]:
    schema = {"json": {"type": "object", "properties": {"n": {"maximum": draw(numbers)}}}}
    messages: list[dict[str, Any]] = []
    for number in range(length):
        use = {"toolUseId": f"t{number}", "name": "read", "input": {"v": draw(values)}}
        result = {
            "toolUseId": f"t{number}",
            "content": [{"text": draw(texts)}, {"json": {"a": 1}}],
            "status": "success",
        }
        messages.append({"role": "user", "content": [{"text": draw(texts)}]})
        messages.append({"role": "assistant", "content": [{"text": draw(texts)}, {"toolUse": use}]})
        messages.append({"role": "user", "content": [{"toolResult": result}, {"text": draw(texts)}]})
    tools = [{"toolSpec": {"name": name, "inputSchema": schema}} for name in ("read", "b")]
    return {
        "modelId": "anthropic.claude-sonnet-4-5-20250929-v1:0",
        "toolConfig": {"tools": tools, "toolChoice": {"auto": {}}},
        "system": [{"text": draw(texts)}, {"text": "two"}],
        "messages": messages,
        "inferenceConfig": {"maxTokens": 512},
    }


_MAKERS = {
    "anthropic": _anthropic,
    "openai-chat": _openai,
    "openai-responses": _responses,
    "gemini": _gemini,
    "bedrock": _bedrock,
}


@st.composite
def bodies(draw: Any, dialects: tuple[str, ...] = DIALECTS, min_length: int = 1) -> dict[str, Any]:
    """One request body, as a value."""
    return draw(_MAKERS[draw(st.sampled_from(dialects))](draw(st.integers(min_length, 3))))


def said_in(body: dict[str, Any]) -> str:
    """Return the name of the member that holds a body's messages."""
    return next(name for name in LISTS if name in body)


@st.composite
def conversations(draw: Any, dialects: tuple[str, ...] = DIALECTS) -> list[dict[str, Any]]:
    """Bodies that grow by one exchange each, as values."""
    body = draw(bodies(dialects, min_length=2))
    name = said_in(body)
    step = 4 if name == "input" else 3
    start = len(body[name]) % step
    ends = range(start + step, len(body[name]) + 1, step)
    return [{**body, name: body[name][:end]} for end in ends]


def places_for_breakpoints(body: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the objects of a body that may carry a cache breakpoint."""
    members: list[dict[str, Any]] = []
    if "input" not in body:
        members += body.get("tools", body.get("toolConfig", {}).get("tools", ()))
    if isinstance(body.get("system"), list):
        members += body["system"]
    for message in body[said_in(body)]:
        for content in (message.get("content"), message.get("output")):
            for block in content if isinstance(content, list) else ():
                members.append(block)
                if isinstance(block.get("content"), list):
                    members += block["content"]
    return members


def with_breakpoints(body: dict[str, Any], places: set[int], *, first: bool = False) -> dict[str, Any]:
    """Return a copy of a body with breakpoints on these places, as first or last member; Bedrock's follow them."""
    targets = {id(place): number in places for number, place in enumerate(places_for_breakpoints(body))}
    member = {"prompt_cache_breakpoint": BREAKPOINT} if "input" in body else {"cache_control": CACHE_CONTROL}

    def copy(value: Any) -> Any:
        if isinstance(value, Spelled):
            return value
        if isinstance(value, list):
            pairs = [(copy(item), targets.get(id(item)) and "modelId" in body) for item in value]
            return [item for copied, point in pairs for item in ((copied, POINT) if point else (copied,))]
        if not isinstance(value, dict):
            return value
        copied = {key: copy(item) for key, item in value.items()}
        if not targets.get(id(value)) or "modelId" in body:
            return copied
        return {**member, **copied} if first else {**copied, **member}

    return copy(body)


@st.composite
def body_files(draw: Any) -> bytes:
    """A file of request bodies: one body over several lines, JSON Lines of bodies, or of records."""
    style = draw(styles)
    shape = draw(st.sampled_from(["pretty", "lines", "records", "texts"]))
    if shape == "pretty":
        body = write(draw(bodies()), style)
        end = draw(st.sampled_from([b"\n", b"\r\n", b"\n\n", b"\n \n"]))
        return draw(st.sampled_from([b"", b"\xef\xbb\xbf", b"\n"])) + b"{" + end + body[1:-1] + end + b"}" + end
    contents: list[bytes] = []
    for number, body in enumerate(draw(conversations())):
        text = write(body, style)
        record: dict[str, Any] = {"ts": 1767225600 + number, "usage": {"input_tokens": 10, "output_tokens": 1}}
        if shape == "records":
            text = write({"request": Raw(text), **record})
        elif shape == "texts":
            text = write({"request": text.decode("utf-8"), **record})
        contents.append(text)
    return b"\n".join(draw(_oddly(contents))) + draw(st.sampled_from([b"\n", b""]))
