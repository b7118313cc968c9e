"""Simulated providers' APIs on the loopback interface: their requests, scripted answers, and failures.

Facts of the shapes: the references of the APIs.
"""

from __future__ import annotations

import asyncio
import gzip
import json
import socket
import threading
import time
from contextlib import contextmanager

import uvicorn

TEXT = "Grüße 🙂"


def _dumps(value):
    return json.dumps(value, ensure_ascii=False).encode()


def _events(*events, named=False):
    """Return server-sent events, one per chunk; the second is cut inside a character."""
    chunks = []
    for event in events:
        name = f"event: {event['type']}\n".encode() if named else b""
        chunks.append(name + b"data: " + (event if isinstance(event, bytes) else _dumps(event)) + b"\n\n")
    return chunks


def anthropic(body):
    usage = {"input_tokens": 10, "cache_read_input_tokens": 20, "cache_creation_input_tokens": 5, "output_tokens": 1}
    message = {"id": "msg_1", "type": "message", "role": "assistant", "model": body["model"], "content": [],
               "stop_reason": None, "stop_sequence": None, "usage": usage}  # fmt: skip
    if not body.get("stream"):
        return _dumps({**message, "content": [{"type": "text", "text": TEXT}], "stop_reason": "end_turn"})
    return _events(
        {"type": "message_start", "message": message},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": TEXT}},
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 7}},
        {"type": "message_stop"}, named=True,
    )  # fmt: skip


def chat(body):
    usage = {"prompt_tokens": 30, "completion_tokens": 7, "total_tokens": 37,
             "prompt_tokens_details": {"cached_tokens": 20}}  # fmt: skip
    base = {"id": "chatcmpl-1", "created": 1, "model": body["model"]}
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


def responses(body):
    usage = {"input_tokens": 30, "output_tokens": 7, "total_tokens": 37, "input_tokens_details": {"cached_tokens": 20},
             "output_tokens_details": {"reasoning_tokens": 0}}  # fmt: skip
    item = {"id": "msg_1", "type": "message", "role": "assistant", "status": "completed",
            "content": [{"type": "output_text", "text": TEXT, "annotations": []}]}  # fmt: skip
    response = {"id": "resp_1", "object": "response", "created_at": 1, "status": "completed", "output": [item],
                "model": body["model"], "usage": usage, "parallel_tool_calls": True, "tool_choice": "auto",
                "tools": []}  # fmt: skip
    if not body.get("stream"):
        return _dumps(response)
    return _events(
        {"type": "response.created", "sequence_number": 0, "response": {**response, "output": [], "usage": None}},
        {"type": "response.output_text.delta", "sequence_number": 1, "item_id": "msg_1", "output_index": 0,
         "content_index": 0, "delta": TEXT, "logprobs": []},
        {"type": "response.completed", "sequence_number": 2, "response": response}, named=True,
    )  # fmt: skip


def gemini(body):
    del body
    return _dumps({
        "candidates": [{"content": {"role": "model", "parts": [{"text": TEXT}]}, "finishReason": "STOP", "index": 0}],
        "usageMetadata": {"promptTokenCount": 30, "cachedContentTokenCount": 20, "candidatesTokenCount": 7},
        "responseId": "r1", "modelVersion": "gemini-3-pro",
    })  # fmt: skip


def bedrock(body):
    del body
    return _dumps({
        "output": {"message": {"role": "assistant", "content": [{"text": TEXT}]}}, "stopReason": "end_turn",
        "usage": {"inputTokens": 10, "outputTokens": 7, "totalTokens": 42, "cacheReadInputTokens": 20},
        "metrics": {"latencyMs": 1},
    })  # fmt: skip


APIS = {
    "/v1/messages": anthropic,
    "/v1/chat/completions": chat,
    "/v1/responses": responses,
    "/v1/models/gemini-3-pro:generateContent": gemini,
    "/v1/models/gemini-3-pro:streamGenerateContent": lambda body: _events(json.loads(gemini(body))),
    "/model/amazon.nova-pro-v1:0/converse": bedrock,
}


def wait_until(holds, *, seconds=60.0):
    """Wait until a condition holds; fail after a minute."""
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end, "the condition does not hold"
        time.sleep(0.01)


class StandIn:
    """An ASGI application. `got` are the requests: method, target, headers, body; `left` counts clients that left.

    Paths below `/x/` behave as tests need; `go` lets a waiting stream continue.
    """

    def __init__(self):
        self.got = []
        self.left = 0
        self.sent = 0
        self.go = threading.Event()
        self.gone = threading.Event()

    async def __call__(self, scope, receive, send):
        if scope["type"] != "http":
            return
        path = scope["path"]
        if path == "/x/early":
            await _answer(send, 413, b"too much", connection="close")
            return
        body = bytearray()
        while True:
            message = await receive()
            if message["type"] == "http.disconnect":
                self.left += 1
                self.gone.set()
                return
            body += message.get("body", b"")
            if not message.get("more_body"):
                break
        target = scope["raw_path"] + (b"?" + scope["query_string"] if scope["query_string"] else b"")
        self.got.append((scope["method"], target.decode("latin-1"), dict(scope["headers"]), bytes(body)))
        if path in APIS:
            if b"Credential=AKIAREFUSED" in dict(scope["headers"]).get(
                b"authorization", b""
            ):  # as AWS refuses another host
                await _answer(send, 403, b'{"message":"The request signature we calculated does not match"}')
                return
            answer = APIS[path](json.loads(body))
            if isinstance(answer, bytes):
                await _answer(send, 200, answer, **{"content-type": "application/json", "request-id": "req_1",
                                                    "set-cookie": "session=SECRET-COOKIE"})  # fmt: skip
            else:
                await _stream(send, answer)
            return
        await getattr(self, "x_" + path.removeprefix("/x/").partition("/")[0])(send, receive, path, bytes(body))

    async def x_echo(self, send, receive, path, body):
        del receive, path
        await _answer(send, 200, body)

    async def x_status(self, send, receive, path, body):
        del receive, body
        code = int(path.rpartition("/")[2])
        await _answer(send, code, b'{"error":{"message":"slow down"}}' if code != 204 else b"",
                      **{"retry-after": "3", "location": "https://elsewhere.example/"})  # fmt: skip

    async def x_gzip(self, send, receive, path, body):
        del receive, path, body
        await _answer(send, 200, gzip.compress(_dumps({"id": "msg_z"})), **{"content-encoding": "gzip"})

    async def x_broken(self, send, receive, path, body):
        del receive, path, body
        await _answer(send, 200, b"\x1f\x8bnot gzip at all", **{"content-encoding": "gzip"})

    async def x_waits(self, send, receive, path, body):
        """Send a chunk, and the next one once `go` is set."""
        del receive, path, body
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", b"text/event-stream")]})
        await send({"type": "http.response.body", "body": b"data: 1\n\n", "more_body": True})
        while not self.go.is_set():
            await asyncio.sleep(0.01)
        await send({"type": "http.response.body", "body": b"data: 2\n\n", "more_body": True})
        await send({"type": "http.response.body", "body": b""})

    async def x_drip(self, send, receive, path, body):
        """Send a number of chunks with short pauses."""
        del receive, body
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", b"text/event-stream")]})
        for number in range(int(path.rpartition("/")[2])):
            await send({"type": "http.response.body", "body": f"data: é{number}\n\n".encode(), "more_body": True})
            await asyncio.sleep(0.002)
        await send({"type": "http.response.body", "body": b""})

    async def x_endless(self, send, receive, path, body):
        """Send as fast as possible until the client leaves."""
        del path, body
        await send({"type": "http.response.start", "status": 200, "headers": []})
        leaving = asyncio.ensure_future(receive())
        while not leaving.done():
            await send({"type": "http.response.body", "body": b"x" * 65536, "more_body": True})
            self.sent += 65536
            await asyncio.sleep(0)
        self.left += 1
        self.gone.set()

    async def x_large(self, send, receive, path, body):
        del receive, body
        size = int(path.rpartition("/")[2])
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", str(size).encode())]})
        for _ in range(size // 65536):
            await send({"type": "http.response.body", "body": "é".encode() * 32768, "more_body": True})
        await send({"type": "http.response.body", "body": b""})


async def _answer(send, status, body, **headers):
    pairs = [(name.encode(), value.encode()) for name, value in headers.items()]
    if status != 204:
        pairs.append((b"content-length", str(len(body)).encode()))
    await send({"type": "http.response.start", "status": status, "headers": pairs})
    await send({"type": "http.response.body", "body": body})


async def _stream(send, chunks):
    await send({"type": "http.response.start", "status": 200,
                "headers": [(b"content-type", b"text/event-stream"), (b"request-id", b"req_1")]})  # fmt: skip
    cut = chunks[0] if len(chunks) == 1 else chunks[1]
    chunks = [cut[:-5], cut[-5:], *chunks[2:]] if len(chunks) == 1 else [chunks[0], cut[:-5], cut[-5:], *chunks[2:]]
    for chunk in chunks:
        await send({"type": "http.response.body", "body": chunk, "more_body": True})
        await asyncio.sleep(0)
    await send({"type": "http.response.body", "body": b""})


@contextmanager
def served(application):
    """Serve an application in a thread, and yield its address."""
    listener = socket.create_server(("127.0.0.1", 0), backlog=512)
    config = uvicorn.Config(application, log_config=None, log_level="critical", lifespan="off", ws="none",
                            timeout_graceful_shutdown=1)  # fmt: skip
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join(120)
        listener.close()


@contextmanager
def scripted(answer, *, times=1000, got=None):
    """Serve these bytes, or a function of the connection, to any request, and yield the address.

    `got` collects the received bytes up to the end of the headers.
    """
    listener = socket.create_server(("127.0.0.1", 0))

    def work():
        for _ in range(times):
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            with connection:
                try:
                    received = b""
                    while b"\r\n\r\n" not in received:
                        received += connection.recv(65536)
                    if got is not None:
                        got.append(received)
                    if callable(answer):
                        answer(connection)
                    else:
                        connection.sendall(answer)
                except OSError:
                    pass

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        listener.close()
