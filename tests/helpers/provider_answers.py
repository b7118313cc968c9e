"""Answers of providers' APIs: whole, or the events of a stream if the request asks for one.

Facts of the shapes: the references of the APIs.
"""

import json

from helpers.frames import frame

TEXT = "Grüße 🙂"


def _dumps(value):
    return json.dumps(value, ensure_ascii=False).encode()


def _events(*events, has_names=False):
    """Return server-sent events, each as one piece."""
    chunks = []
    for event in events:
        name = f"event: {event['type']}\n".encode() if has_names else b""
        chunks.append(name + b"data: " + (event if isinstance(event, bytes) else _dumps(event)) + b"\n\n")
    return chunks


def anthropic(body, cached):
    usage = {
        "input_tokens": 10,
        "cache_read_input_tokens": cached,
        "cache_creation_input_tokens": None if cached is None else 5,
        "output_tokens": 1,
    }
    message = {"id": "msg_1", "type": "message", "role": "assistant", "model": body.get("model"), "content": [],
               "stop_reason": None, "stop_sequence": None, "usage": usage}  # fmt: skip
    if not body.get("stream"):
        whole = {"content": [{"type": "text", "text": TEXT}], "stop_reason": "end_turn"}
        return _dumps({**message, **whole, "usage": {**usage, "output_tokens": 7}})
    return _events(
        {"type": "message_start", "message": message},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": TEXT}},
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 7}},
        {"type": "message_stop"}, has_names=True,
    )  # fmt: skip


def chat(body, cached):
    whole = 10 + (cached or 0)
    usage = {"prompt_tokens": whole, "completion_tokens": 7, "total_tokens": whole + 7,
             "prompt_tokens_details": {"cached_tokens": cached}}  # fmt: skip
    base = {"id": "chatcmpl-1", "created": 1, "model": body.get("model")}
    if not body.get("stream"):
        choice = {"index": 0, "message": {"role": "assistant", "content": TEXT}, "finish_reason": "stop"}
        return _dumps({**base, "object": "chat.completion", "choices": [choice], "usage": usage})
    base["object"] = "chat.completion.chunk"
    return [
        *_events(
            {**base, "choices": [{"index": 0, "delta": {"role": "assistant", "content": TEXT}, "finish_reason": None}]},
            {**base, "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]},
            {**base, "choices": [], "usage": usage},
        ),
        b"data: [DONE]\n\n",
    ]


def responses(body, cached):
    whole = 10 + (cached or 0)
    usage = {"input_tokens": whole, "output_tokens": 7, "total_tokens": whole + 7,
             "input_tokens_details": {"cached_tokens": cached},
             "output_tokens_details": {"reasoning_tokens": 0}}  # fmt: skip
    item = {"id": "msg_1", "type": "message", "role": "assistant", "status": "completed",
            "content": [{"type": "output_text", "text": TEXT, "annotations": []}]}  # fmt: skip
    response = {"id": "resp_1", "object": "response", "created_at": 1, "status": "completed", "output": [item],
                "model": body.get("model"), "usage": usage, "parallel_tool_calls": True, "tool_choice": "auto",
                "tools": []}  # fmt: skip
    if not body.get("stream"):
        return _dumps(response)
    return _events(
        {"type": "response.created", "sequence_number": 0, "response": {**response, "output": [], "usage": None}},
        {"type": "response.output_text.delta", "sequence_number": 1, "item_id": "msg_1", "output_index": 0,
         "content_index": 0, "delta": TEXT, "logprobs": []},
        {"type": "response.completed", "sequence_number": 2, "response": response}, has_names=True,
    )  # fmt: skip


def gemini(_body, cached):
    return _dumps({
        "candidates": [{"content": {"role": "model", "parts": [{"text": TEXT}]}, "finishReason": "STOP", "index": 0}],
        "usageMetadata": {
            "promptTokenCount": 10 + (cached or 0), "cachedContentTokenCount": cached, "candidatesTokenCount": 7,
        },
        "responseId": "r1", "modelVersion": "gemini-3-pro",
    })  # fmt: skip


def bedrock(_body, cached):
    return _dumps({
        "output": {"message": {"role": "assistant", "content": [{"text": TEXT}]}}, "stopReason": "end_turn",
        "usage": {
            "inputTokens": 10, "outputTokens": 7, "totalTokens": 17 + (cached or 0), "cacheReadInputTokens": cached,
        },
        "metrics": {"latencyMs": 1},
    })  # fmt: skip


def bedrock_stream(_body, cached):
    return [
        frame({"role": "assistant"}, "messageStart"),
        frame({"contentBlockIndex": 0, "delta": {"text": TEXT}}, "contentBlockDelta"),
        frame({"stopReason": "end_turn"}, "messageStop"),
        frame(
            {
                "usage": {"inputTokens": 10, "outputTokens": 7, "totalTokens": 17 + (cached or 0)},
                "metrics": {"latencyMs": 1},
            },
            "metadata",
        ),
    ]


APIS = {
    "/messages": anthropic, "/chat/completions": chat, "/responses": responses, ":generateContent": gemini,
    ":streamGenerateContent": lambda body, cached: _events(json.loads(gemini(body, cached))), "/converse": bedrock,
    "/converse-stream": bedrock_stream,
}  # fmt: skip


def answer_to(path, body, *, cached=20):
    """Return the answer to a body that is sent to a path, a list for a stream; None if no API has the path.

    Its usage has 10 uncached tokens, and `cached` tokens read from a cache; None: no count of them.
    """
    api = next((api for end, api in APIS.items() if path.endswith(end)), None)
    return None if api is None else api(json.loads(body), cached)
