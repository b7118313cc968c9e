"""Answers cut into the events of a stream, as each dialect sends them."""

import base64
import json

from helpers.frames import frame


def units(text):
    """The UTF-16 units of a text, each a text: the halves of an emoji come apart, as some servers cut them."""
    raw = text.encode("utf-16-le", "surrogatepass")
    return [raw[at : at + 2].decode("utf-16-le", "surrogatepass") for at in range(0, len(raw), 2)]


def split(text, sizes):
    """Cut a text into pieces of these many units, again and again; one that is empty is one piece."""
    letters, pieces, at = units(text), [], 0
    while at < len(letters):
        size = sizes[len(pieces) % len(sizes)] if sizes else 1
        pieces.append("".join(letters[at : at + size]))
        at += size
    return pieces or [""]


def whole(text):
    """The text as JSON reads it back: halves that came together are one character."""
    return json.loads(json.dumps(text))


def anthropic(blocks, sizes):
    """The events of a message of these blocks."""
    yield {"type": "message_start", "message": {"id": "msg_1", "role": "assistant", "content": [], "usage": {}}}
    for index, block in enumerate(blocks):
        kind = block["type"]
        grows = {"text": ["text"], "thinking": ["thinking", "signature"], "compaction": ["content"]}.get(kind, [])
        start = {**block, **dict.fromkeys(grows, ""), **({"input": {}} if "input" in block else {})}
        yield {"type": "content_block_start", "index": index, "content_block": start}
        yield {"type": "ping"}
        deltas = [(key, piece) for key in grows for piece in split(block[key], sizes)]
        for key, piece in deltas:
            name = "compaction_delta" if kind == "compaction" else f"{key}_delta"
            delta = {"type": name, key: piece}
            yield {"type": "content_block_delta", "index": index, "delta": delta}
        for piece in split(json.dumps(block["input"]), sizes) if block.get("input") else []:
            delta = {"type": "input_json_delta", "partial_json": piece}
            yield {"type": "content_block_delta", "index": index, "delta": delta}
        yield {"type": "content_block_stop", "index": index}
    yield {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 5}}
    yield {"type": "message_stop"}


def chat(message, sizes):
    """Return the chunks of a message; each has another choice, too."""
    deltas = [{"role": "assistant", "content": None}]
    for key in ("reasoning_content", "content", "refusal"):
        if message.get(key) is not None:
            deltas += [{key: piece} for piece in split(message[key], sizes)]
    for index, call in enumerate(message.get("tool_calls", [])):
        function = {"name": call["function"]["name"], "arguments": ""}
        deltas.append({"tool_calls": [{**call, "index": index, "function": function}]})
        for piece in split(call["function"]["arguments"], sizes):
            deltas.append({"tool_calls": [{"index": index, "function": {"arguments": piece}}]})
    for delta in deltas:
        other = {"index": 1, "delta": {"content": "another"}}
        yield {"id": "c1", "object": "chat.completion.chunk", "choices": [other, {"index": 0, "delta": delta}]}
    yield {"id": "c1", "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}
    yield {"id": "c1", "choices": [], "usage": {"prompt_tokens": 3}}


def gemini(parts, sizes):
    """The chunks of a content of these parts."""
    for part in parts:
        pieces = split(part["text"], sizes) if part.keys() <= {"text", "thought"} else []
        for member in [{**part, "text": piece} for piece in pieces] or [part]:
            yield {"candidates": [{"content": {"role": "model", "parts": [member]}, "index": 0}], "responseId": "g"}
    yield {"candidates": [{"finishReason": "STOP"}], "usageMetadata": {"promptTokenCount": 3}}


def converse(blocks, sizes):
    """The events of a message of these blocks."""
    yield {"role": "assistant", "p": "ab"}
    for index, block in enumerate(blocks):
        if "toolUse" in block:
            call = {key: value for key, value in block["toolUse"].items() if key != "input"}
            yield {"contentBlockIndex": index, "start": {"toolUse": call}}
            pieces = split(json.dumps(block["toolUse"]["input"]), sizes)
            deltas = [{"toolUse": {"input": piece}} for piece in pieces]
        elif "text" in block:
            deltas = [{"text": piece} for piece in split(block["text"], sizes)]
        else:
            thought = block["reasoningContent"]["reasoningText"]
            deltas = [{"reasoningContent": {key: piece}} for key in thought for piece in split(thought[key], sizes)]
        for delta in deltas:
            yield {"contentBlockIndex": index, "delta": delta, "p": "abc"}
        yield {"contentBlockIndex": index, "p": "a"}
    yield {"stopReason": "end_turn"}


def sse(events):
    """Events as the text of a stream."""
    return "".join(
        f"event: {event['type']}\ndata: {json.dumps(event)}\n\n"
        if "type" in event
        else f"data: {json.dumps(event)}\n\n"
        for event in events
    ).encode()


def wrapped(event):
    """One message of `invoke-with-response-stream`: the model's own event in base64."""
    return frame({"bytes": base64.b64encode(json.dumps(event).encode()).decode(), "p": "ab"})
