"""Clients of five SDKs without a network: they keep requests, and answer as a scripted agent in each API's shape.

The shapes follow the references of the APIs. The usage of each answer is that of a cache that never forgets: it read
the whole previous prompt.
"""

import json
from types import SimpleNamespace

TOOLS = [
    {"name": name, "description": f"Read a {name}.", "input_schema": {"type": "object", "properties": {}}}
    for name in ("file", "page")
]
MODELS = {
    "anthropic": "claude-opus-5", "openai-chat": "gpt-5.6", "openai-responses": "gpt-5.6", "gemini": "gemini-3-pro",
    "bedrock": "amazon.nova-pro-v1:0",
}  # fmt: skip
# What the model says: to the user, and by two calls at once; then an end.
STEPS = [("Let me look.", [("file", {"path": "a.py"}), ("page", {"n": 1.5})]), ("It is there.", []), ("Bye.", [])]


def plain(value):
    return json.loads(json.dumps(value, default=lambda raw: raw.hex()))


def blocks_of(arguments):
    """Return a request as a flat list: tools, system, then each block with its role; without cache marks."""
    blocks = []

    def walk(value, role):
        if isinstance(value, dict):
            role = value.get("role", role)
            inside = next((value[key] for key in ("content", "parts") if isinstance(value.get(key), list)), None)
            if inside is not None and "role" in value:
                for inner in inside:
                    walk(inner, role)
                for inner in value.get("tool_calls") or ():
                    walk(inner, role)
                return
        if value:
            blocks.append(json.dumps([role, value]))

    body = bare(plain(arguments))
    head = body.get("config", body)
    for key in ("tools", "toolConfig", "system", "systemInstruction", "instructions"):
        for part in [head[key]] if isinstance(head.get(key), dict) else head.get(key, ()):
            walk(part, key)
    for message in body.get("messages") or body.get("input") or body.get("contents"):
        walk(message, "")
    return [block for block in blocks if "[current-time]" not in block]


def bare(value):
    """Return a value without cache marks."""
    if isinstance(value, list):
        return [bare(inner) for inner in value if not (isinstance(inner, dict) and [*inner] == ["cachePoint"])]
    if isinstance(value, dict):
        return {key: bare(inner) for key, inner in value.items() if key not in MARKS}
    return value


MARKS = ("cache_control", "prompt_cache_breakpoint", "cachePoint")


class Client:
    """A client of one SDK; `fatal` is the number of a request that never gets its answer."""

    def __init__(self, dialect, requests=None):
        self.dialect, self.sent = dialect, [] if requests is None else requests
        self.fatal = None
        self.said = 0

    def __call__(self, **arguments):
        arguments = plain(arguments)
        size = len(json.dumps(arguments)) // 4
        before = len(json.dumps(self.sent[-1])) // 4 if self.sent else 0
        again = self.sent and self.sent[-1] == arguments
        self.sent.append(arguments)
        if self.fatal == len(self.sent):
            raise ConnectionResetError("the line is dead")
        number = min(self.said, len(STEPS) - 1)
        self.said += 1
        return ANSWERS[self.dialect](len(self.sent), *STEPS[number], size, size if again else min(before, size))


def anthropic(number, text, calls, size, read):
    content = [
        {"type": "thinking", "thinking": "…", "signature": f"sig{number}"},
        {"type": "text", "text": text, "citations": None},
        *({"type": "tool_use", "id": f"toolu_{number}_{n}", "name": name, "input": args, "caller": {"type": "direct"}}
          for n, (name, args) in enumerate(calls)),
        {"type": "novelty", "says": number},
    ]  # fmt: skip
    return SimpleNamespace(
        id=f"msg_{number}", type="message", role="assistant", model="claude-opus-5", content=content,
        stop_reason="tool_use" if calls else "end_turn",
        usage=SimpleNamespace(input_tokens=3, cache_read_input_tokens=read, cache_creation_input_tokens=size - read,
                              output_tokens=9),
    )  # fmt: skip


def chat(number, text, calls, size, read):
    called = [
        {"id": f"call_{number}_{n}", "type": "function", "function": {"name": name, "arguments": json.dumps(args)}}
        for n, (name, args) in enumerate(calls)
    ]
    message = {"role": "assistant", "content": text, "refusal": None, "reasoning_content": f"hm {number}"}
    return {
        "id": f"chatcmpl-{number}", "object": "chat.completion", "created": 1, "model": "gpt-5.6",
        "choices": [{"index": 0, "message": {**message, **({"tool_calls": called} if called else {})},
                     "finish_reason": "tool_calls" if calls else "stop"}],
        "usage": {"prompt_tokens": size, "completion_tokens": 9, "prompt_tokens_details": {"cached_tokens": read}},
    }  # fmt: skip


def responses(number, text, calls, size, read):
    output = [
        {"type": "reasoning", "id": f"rs_{number}", "summary": [], "encrypted_content": "b64"},
        {"type": "message", "id": f"msg_{number}", "role": "assistant", "status": "completed",
         "content": [{"type": "output_text", "text": text, "annotations": []}]},
        *({"type": "function_call", "id": f"fc_{number}_{n}", "call_id": f"call_{number}_{n}", "name": name,
           "arguments": json.dumps(args), "status": "completed"} for n, (name, args) in enumerate(calls)),
    ]  # fmt: skip
    usage = {"input_tokens": size, "input_tokens_details": {"cached_tokens": read}, "output_tokens": 9}
    return {"id": f"resp_{number}", "object": "response", "status": "completed", "output": output, "usage": usage}


def gemini(number, text, calls, size, read):
    parts = [
        {"text": text, "thought_signature": b"\xff\xfe"},
        *({"function_call": {"name": name, "args": args}, "thought_signature": b"\x00" * n} for n, (name, args) in
          enumerate(calls, 1)),
    ]  # fmt: skip
    return SimpleNamespace(
        candidates=[SimpleNamespace(content={"role": "model", "parts": parts}, finish_reason="STOP")],
        usage_metadata={"prompt_token_count": size, "cached_content_token_count": read, "candidates_token_count": 9},
        response_id=f"r{number}",
    )


def bedrock(number, text, calls, size, read):
    content = [
        {"reasoningContent": {"reasoningText": {"text": "…", "signature": f"sig{number}"}}},
        {"reasoningContent": {"redactedContent": b"\xff\xfe"}},
        {"text": text},
        *({"toolUse": {"toolUseId": f"tooluse_{number}_{n}", "name": name, "input": args}}
          for n, (name, args) in enumerate(calls)),
    ]  # fmt: skip
    usage = {"inputTokens": 3, "outputTokens": 9, "cacheReadInputTokens": read, "cacheWriteInputTokens": size - read}
    return {
        "ResponseMetadata": {"RequestId": str(number)},
        "output": {"message": {"role": "assistant", "content": content}},
        "stopReason": "tool_use" if calls else "end_turn", "usage": {**usage, "totalTokens": size + 12},
    }  # fmt: skip


ANSWERS = {
    "anthropic": anthropic, "openai-chat": chat, "openai-responses": responses, "gemini": gemini, "bedrock": bedrock,
}  # fmt: skip
