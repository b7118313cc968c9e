# ruff: noqa: E501, PERF401 - one message a line reads better
"""Conversations in five dialects, and faults that are put into them: one for each cause that bytes show.

A conversation is abstract (tools, system lines, messages); `write` spells it as a dialect does. A fault takes an
abstract conversation, or a body where it is about spelling, and changes it. Nothing here knows how causes are found.
"""

from __future__ import annotations

import copy
import json
from typing import Any

DIALECTS = ("anthropic", "openai-chat", "openai-responses", "gemini", "bedrock")
PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk"
REMINDER = "<system-reminder>The file a.py was changed by the user.</system-reminder>"

SYSTEM = [
    "You are a careful engineer who answers in few words.",
    "Today is Monday, 2026-03-02, 10:30.",
    "Session run: 123e4567-e89b-12d3-a456-426614174000.",
    "<memory>\nThe user likes tabs.\nThe user lives in Bremen.\n</memory>",
    "gitStatus: the state at the start\nCurrent branch: main\nStatus:\nM src/a.py\n",
    "Always run the tests before you say that something works.",
]


def conversation() -> dict[str, Any]:
    """An honest conversation of three questions."""
    return {
        "tools": [{"name": name, "text": f"The tool {name} does {name}.", "deferred": False} for name in "abcd"],
        "system": list(SYSTEM),
        "params": {},
        "messages": [
            {"role": "user", "parts": [("text", "Please mend the parser in a.py, it fails on empty input.")]},
            {"role": "model", "think": "I should read it.", "parts": [("text", "I read it."), ("call", "c1", {"p": "a", "n": 1})]},
            {"role": "results", "parts": [("result", "c1", "def parse(text):\n    return text[0]\n"),
                                          ("text", "Usage so far: 90000 tokens left")]},
            {"role": "model", "think": "It indexes.", "parts": [("text", "It indexes an empty text."), ("call", "c2", {"p": "b", "n": 2})]},
            {"role": "results", "parts": [("result", "c2", "one\ntwo\nthree\n"), ("text", REMINDER)]},
            {"role": "model", "think": "Done.", "parts": [("text", "It is mended now.")]},
            {"role": "user", "parts": [("text", "Here is a picture of the failure:"), ("image", PNG)]},
            {"role": "model", "think": "Look.", "parts": [("text", "I see the failure in the picture.")]},
            {"role": "user", "parts": [("text", "Then write a test for it, please.")]},
        ],
    }  # fmt: skip


def extended(made: dict[str, Any]) -> dict[str, Any]:
    """The next turn."""
    more = [{"role": "model", "think": "Write.", "parts": [("text", "Here it is.")]},
            {"role": "user", "parts": [("text", "Thanks, and now the changelog.")]}]  # fmt: skip
    return {**copy.deepcopy(made), "messages": [*copy.deepcopy(made["messages"]), *more]}


def write(made: dict[str, Any], dialect: str) -> dict[str, Any]:
    """Spell a conversation as a request body."""
    return {**_WRITERS[dialect](made), **made["params"]}


def _anthropic(made):
    def part(one):
        match one:
            case ("text", text):
                return {"type": "text", "text": text}
            case ("call", ident, value):
                return {"type": "tool_use", "id": ident, "name": "a", "input": value}
            case ("result", ident, text):
                return {"type": "tool_result", "tool_use_id": ident, "content": text}
            case ("image", data):
                return {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": data}}

    def message(one):
        think = [{"type": "thinking", "thinking": one["think"], "signature": "s1g"}] if one.get("think") else []
        role = "assistant" if one["role"] == "model" else "user"
        return {"role": role, "content": [*think, *map(part, one["parts"])]}

    tools = [{"name": t["name"], "description": t["text"], "input_schema": {"type": "object", "properties": {}},
              **({"defer_loading": True} if t["deferred"] else {})} for t in made["tools"]]  # fmt: skip
    system = [{"type": "text", "text": one} for one in made["system"]]
    return {"model": "claude-sonnet-4-5", "max_tokens": 4096, "tools": tools, "system": system,
            "messages": [*map(message, made["messages"])]}  # fmt: skip


def _chat(made):
    messages = [{"role": "system", "content": "\n".join(made["system"])}]
    for one in made["messages"]:
        texts = [part for part in one["parts"] if part[0] in ("text", "image")]
        for part in one["parts"]:
            if part[0] == "result":
                messages.append({"role": "tool", "tool_call_id": part[1], "content": part[2]})
        content = [{"type": "text", "text": p[1]} if p[0] == "text"
                   else {"type": "image_url", "image_url": {"url": "data:image/png;base64," + p[1]}} for p in texts]  # fmt: skip
        calls = [{"id": p[1], "type": "function", "function": {"name": "a", "arguments": json.dumps(p[2])}}
                 for p in one["parts"] if p[0] == "call"]  # fmt: skip
        if one["role"] == "model":
            said = {"role": "assistant", "content": texts[0][1]}
            if one.get("think"):
                said["reasoning_content"] = one["think"]
            messages.append({**said, **({"tool_calls": calls} if calls else {})})
        elif content:
            messages.append({"role": "user", "content": content})
    tools = [{"type": "function", "function": {"name": t["name"], "description": t["text"], "parameters": {"type": "object"},
              **({"defer_loading": True} if t["deferred"] else {})}} for t in made["tools"]]  # fmt: skip
    return {"model": "gpt-4o", "tools": tools, "messages": messages}


def _responses(made):
    items: list[Any] = []
    for one in made["messages"]:
        if one.get("think"):
            items.append({"type": "reasoning", "summary": [], "encrypted_content": "enc-" + one["think"]})
        for part in one["parts"]:
            match part:
                case ("text", text):
                    kind = "output_text" if one["role"] == "model" else "input_text"
                    role = "assistant" if one["role"] == "model" else "user"
                    items.append({"type": "message", "role": role, "content": [{"type": kind, "text": text}]})
                case ("image", data):
                    image = {"type": "input_image", "image_url": "data:image/png;base64," + data}
                    items.append({"type": "message", "role": "user", "content": [image]})
                case ("call", ident, value):
                    items.append(
                        {"type": "function_call", "call_id": ident, "name": "a", "arguments": json.dumps(value)}
                    )
                case ("result", ident, text):
                    items.append({"type": "function_call_output", "call_id": ident, "output": text})
    tools = [{"type": "function", "name": t["name"], "description": t["text"], "parameters": {"type": "object"},
              **({"defer_loading": True} if t["deferred"] else {})} for t in made["tools"]]  # fmt: skip
    return {"model": "gpt-5.2", "tools": tools, "instructions": "\n".join(made["system"]), "input": items}


def _gemini(made):
    def part(one):
        match one:
            case ("text", text):
                return {"text": text}
            case ("call", ident, value):
                return {"functionCall": {"id": ident, "name": "a", "args": value}}
            case ("result", ident, text):
                return {"functionResponse": {"id": ident, "name": "a", "response": {"result": text}}}
            case ("image", data):
                return {"inlineData": {"mimeType": "image/png", "data": data}}

    def message(one):
        think = [{"text": one["think"], "thought": True}] if one.get("think") else []
        return {"role": "model" if one["role"] == "model" else "user", "parts": [*think, *map(part, one["parts"])]}

    tools = [{"name": t["name"], "description": t["text"], **({"defer_loading": True} if t["deferred"] else {})}
             for t in made["tools"]]  # fmt: skip
    return {"model": "gemini-3.1-pro", "tools": [{"functionDeclarations": tools}],
            "systemInstruction": {"parts": [{"text": one} for one in made["system"]]},
            "contents": [*map(message, made["messages"])]}  # fmt: skip


def _bedrock(made):
    def part(one):
        match one:
            case ("text", text):
                return {"text": text}
            case ("call", ident, value):
                return {"toolUse": {"toolUseId": ident, "name": "a", "input": value}}
            case ("result", ident, text):
                return {"toolResult": {"toolUseId": ident, "content": [{"text": text}]}}
            case ("image", data):
                return {"image": {"format": "png", "source": {"bytes": data}}}

    def message(one):
        think = (
            [{"reasoningContent": {"reasoningText": {"text": one["think"], "signature": "s"}}}]
            if one.get("think")
            else []
        )
        return {
            "role": "assistant" if one["role"] == "model" else "user",
            "content": [*think, *map(part, one["parts"])],
        }

    tools = [{"toolSpec": {"name": t["name"], "description": t["text"], "inputSchema": {"json": {"type": "object"}},
              **({"defer_loading": True} if t["deferred"] else {})}} for t in made["tools"]]  # fmt: skip
    return {"modelId": "anthropic.claude-sonnet-4-5-v1:0", "inferenceConfig": {"maxTokens": 4096},
            "toolConfig": {"tools": tools}, "system": [{"text": one} for one in made["system"]],
            "messages": [*map(message, made["messages"])]}  # fmt: skip


_WRITERS = {"anthropic": _anthropic, "openai-chat": _chat, "openai-responses": _responses, "gemini": _gemini,
            "bedrock": _bedrock}  # fmt: skip


def _system(old: str, new: str):
    def fault(made):
        made["system"] = [one.replace(old, new) for one in made["system"]]

    return fault


def _part(message: int, number: int, part):
    def fault(made):
        parts = made["messages"][message]["parts"]
        parts[number] = part(parts[number])

    return fault


def _drop_part(message: int, number: int):
    return lambda made: made["messages"][message]["parts"].pop(number)


def _tools(change):
    return lambda made: made.__setitem__("tools", change(made["tools"]))


def _think(value):
    return lambda made: made["messages"][3].__setitem__("think", value)


def _move(made):
    part = made["messages"][4]["parts"].pop(1)
    made["messages"][8]["parts"].append(part)


def _crlf(made):
    parts = made["messages"][4]["parts"]
    parts[0] = ("result", "c2", parts[0][2].replace("\n", "\r\n"))


def _parameter(name, value):
    return lambda made: made["params"].__setitem__(name, value)


TOOL = {"name": "z", "text": "The tool z does z.", "deferred": False}
FAULTS = {
    "clock": ("LORE101", _system("10:30", "10:31")),
    "date": ("LORE101", _system("Monday, 2026-03-02", "Tuesday, 2026-03-03")),
    "tools reversed": ("LORE102", _tools(lambda tools: tools[::-1])),
    "tools swapped": ("LORE102", _tools(lambda tools: [tools[1], tools[0], *tools[2:]])),
    "tool added": ("LORE103", _tools(lambda tools: [*tools, TOOL])),
    "tool added first": ("LORE103", _tools(lambda tools: [TOOL, *tools])),
    "tool removed": ("LORE103", _tools(lambda tools: tools[:2] + tools[3:])),
    "tool described": ("LORE104", _tools(lambda tools: [{**one, "text": "New."} if one["name"] == "d" else one for one in tools])),
    "keys": ("LORE105", _part(1, 1, lambda part: ("call", "c1", {"n": 1, "p": "a"}))),
    "newlines": ("LORE106", _crlf),
    "run id": ("LORE108", _system("426614174000", "426614174999")),
    "token reminder": ("LORE109", _part(2, 1, lambda part: ("text", "Usage so far: 80000 tokens left"))),
    "git": ("LORE110", _system("M src/a.py", "M src/a.py\n?? src/b.py")),
    "branch": ("LORE110", _system("branch: main", "branch: mend-parser")),
    "reminder gone": ("LORE111", _drop_part(4, 1)),
    "reminder moved": ("LORE111", _move),
    "thinking gone": ("LORE115", _think(None)),
    "thinking changed": ("LORE115", _think("Something else.")),
    "result shortened": ("LORE117", _part(2, 0, lambda part: ("result", "c1", "[Old tool result content cleared]"))),
    "image encoded": ("LORE118", _part(6, 1, lambda part: ("image", PNG[::-1]))),
    "image became text": ("LORE118", _part(6, 1, lambda part: ("text", "[image removed]"))),
    "memory": ("LORE126", _system("likes tabs.", "likes spaces now.\nThe user has a dog.")),
    "first message": ("LORE127", _part(0, 0, lambda part: ("text", "Please mend the parser in a.py. It fails at once."))),
    "deferred": ("LORE124", _tools(lambda tools: [{**one, "deferred": True} if one["name"] == "a" else one for one in tools])),
    "edited": ("LORE100", _part(5, 0, lambda part: ("text", "It was mended by me."))),
}  # fmt: skip
