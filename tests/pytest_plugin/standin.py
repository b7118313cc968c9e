"""A server on this machine that answers as the providers do, whole and streamed; it looks at paths, and at no key."""

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from helpers.frames import frame

USAGE = {"input_tokens": 7, "output_tokens": 2, "total_tokens": 9}
MESSAGE = {
    "id": "msg_1", "type": "message", "role": "assistant", "model": "claude-opus-5", "stop_reason": "end_turn",
    "stop_sequence": None, "content": [{"type": "text", "text": "Nothing."}], "usage": USAGE,
}  # fmt: skip
CHAT_USAGE = {"prompt_tokens": 7, "completion_tokens": 2, "total_tokens": 9}
CHAT = {
    "id": "chatcmpl-1", "object": "chat.completion", "created": 1, "model": "gpt-6", "usage": CHAT_USAGE,
    "choices": [{"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": "Nothing."}}],
}  # fmt: skip
RESPONSE = {
    "id": "resp_1", "object": "response", "created_at": 1, "status": "completed", "model": "gpt-6", "tools": [],
    "tool_choice": "auto", "parallel_tool_calls": True, "usage": USAGE,
    "output": [{
        "type": "message", "id": "m_1", "role": "assistant", "status": "completed",
        "content": [{"type": "output_text", "text": "Nothing.", "annotations": []}],
    }],
}  # fmt: skip
GEMINI = {
    "candidates": [{"content": {"role": "model", "parts": [{"text": "Nothing."}]}, "finishReason": "STOP"}],
    "usageMetadata": {"promptTokenCount": 7, "candidatesTokenCount": 2, "totalTokenCount": 9},
}  # fmt: skip
BEDROCK_USAGE = {"inputTokens": 7, "outputTokens": 2, "totalTokens": 9}
BEDROCK = {
    "output": {"message": {"role": "assistant", "content": [{"text": "Nothing."}]}}, "stopReason": "end_turn",
    "usage": BEDROCK_USAGE, "metrics": {"latencyMs": 1},
}  # fmt: skip
MESSAGE_EVENTS = [
    {"type": "message_start", "message": {**MESSAGE, "content": [], "stop_reason": None}},
    {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
    {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "Nothing."}},
    {"type": "content_block_stop", "index": 0},
    {"type": "message_delta", "delta": {"stop_reason": "end_turn", "stop_sequence": None}, "usage": USAGE},
    {"type": "message_stop"},
]
CHAT_EVENTS = [
    {**CHAT, "object": "chat.completion.chunk", "usage": None,
     "choices": [{"index": 0, "delta": {"content": "Nothing."}, "finish_reason": "stop"}]},
    {**CHAT, "object": "chat.completion.chunk", "choices": []},
]  # fmt: skip
RESPONSE_EVENTS = [
    {"type": "response.created", "sequence_number": 0, "response": {**RESPONSE, "status": "in_progress"}},
    {"type": "response.completed", "sequence_number": 1, "response": RESPONSE},
]
BEDROCK_EVENTS = {
    "messageStart": {"role": "assistant"},
    "contentBlockDelta": {"delta": {"text": "Nothing."}, "contentBlockIndex": 0},
    "messageStop": {"stopReason": "end_turn"},
    "metadata": {"usage": BEDROCK_USAGE, "metrics": {"latencyMs": 1}},
}
EVENTS = {"/messages": MESSAGE_EVENTS, "/completions": CHAT_EVENTS, "/responses": RESPONSE_EVENTS}
WHOLE = {
    "/messages": MESSAGE, "/completions": CHAT, "/responses": RESPONSE, ":generateContent": GEMINI,
    "/converse": BEDROCK,
}  # fmt: skip


class Answering(BaseHTTPRequestHandler):
    """Answers one connection; keeps the requests."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # else each answer waits 40 ms for the acknowledgment of its own headers

    def do_POST(self):
        body = self.rfile.read(int(self.headers.get("content-length", 0)))
        if self.headers.get("transfer-encoding") == "chunked":
            while size := int(self.rfile.readline(), 16):
                body += self.rfile.read(size + 2)[:-2]
            self.rfile.readline()
        self.server.received.append(body)
        path = self.path.partition("?")[0]
        if path.endswith("/moved"):
            self.answer(307, "text/plain", b"", location="/v1/messages")
        elif path.endswith("/converse-stream"):
            events = [frame(payload, kind) for kind, payload in BEDROCK_EVENTS.items()]
            self.stream("application/vnd.amazon.eventstream", events)
        elif path.endswith(":streamGenerateContent"):
            self.stream("text/event-stream", sse([GEMINI]))
        elif b'"stream":true' in body.replace(b" ", b""):
            events = next(events for end, events in EVENTS.items() if path.endswith(end))
            self.stream("text/event-stream", sse(events))
        else:
            found = next((answer for end, answer in WHOLE.items() if path.endswith(end)), {})
            self.answer(200, "application/json", json.dumps(found).encode())

    def do_GET(self):
        self.answer(200, "application/json", b"{}")

    def answer(self, status, kind, body, **headers):
        self.send_response(status)
        for name, value in {"content-type": kind, "content-length": str(len(body)), **headers}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def stream(self, kind, events):
        """Send events one by one, in chunks of HTTP."""
        self.send_response(200)
        self.send_header("content-type", kind)
        self.send_header("transfer-encoding", "chunked")
        self.end_headers()
        for event in (*events, b""):
            self.wfile.write(f"{len(event):x}\r\n".encode() + event + b"\r\n")
            self.wfile.flush()

    def log_message(self, *_):
        pass


def sse(events: list[dict]) -> list[bytes]:
    """Return events as server-sent events."""
    named = [(f"event: {event['type']}\n" if "type" in event else "", json.dumps(event)) for event in events]
    return [f"{name}data: {data}\n\n".encode() for name, data in named]


class Standin(ThreadingHTTPServer):
    """The server; `received` are the bodies that were sent to it."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Answering)
        self.received: list[bytes] = []
        self.url = f"http://127.0.0.1:{self.server_address[1]}"

    def __enter__(self):
        threading.Thread(target=self.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
        return self

    def __exit__(self, *_):
        self.shutdown()
        self.server_close()

    def handle_error(self, *_):
        """A client that goes away is no error here."""
