"""Simulated providers' APIs on the loopback interface: their requests, scripted answers, and failures."""

import asyncio
import gzip
import socket
import threading
import time
from contextlib import contextmanager

import uvicorn

from helpers.provider_answers import answer_to


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
        answer = answer_to(path, body)
        if isinstance(answer, bytes):
            await _answer(send, 200, answer, **{"content-type": "application/json", "request-id": "req_1",
                                                "set-cookie": "session=SECRET-COOKIE"})  # fmt: skip
            return
        if answer is not None:
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
        await _answer(send, 200, gzip.compress(b'{"id":"msg_z"}'), **{"content-encoding": "gzip"})

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
