"""HTTP servers for tests, on this machine and in threads of this process.

with Loopback(MyHandler) as server:   # MyHandler: a `Handler` with the methods `get` (also of HEAD) and `post`
    ask(server.url)
"""

import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self


class Handler(BaseHTTPRequestHandler):
    """Answers requests, and prints nothing."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # otherwise each answer waits 40 ms for an acknowledgment

    def log_message(self, *_: object) -> None:
        """Print nothing."""

    def do_GET(self) -> None:
        self.get()

    do_HEAD = do_GET  # noqa: N815 - a name of the library

    def do_POST(self) -> None:
        self.post()

    def get(self) -> None:
        self.answer(404)

    def post(self) -> None:
        self.answer(404)

    def read_body(self) -> bytes:
        return self.rfile.read(int(self.headers.get("content-length", 0)))

    def answer(self, status: int, body: bytes = b"", **headers: Any) -> None:
        """Send an answer; `_` in the name of a header is sent as `-`."""
        self.send_response_only(status)
        for name, value in {"content-length": len(body), **headers}.items():
            self.send_header(name.replace("_", "-"), str(value))
        self.end_headers()
        self.wfile.write(body)


class Loopback(ThreadingHTTPServer):
    """A server on a free port that serves in its block; a client that disconnects is no error."""

    daemon_threads = True

    def __init__(self, handler: type[BaseHTTPRequestHandler]) -> None:
        super().__init__(("127.0.0.1", 0), handler)
        self.url = f"http://127.0.0.1:{self.server_port}"

    def __enter__(self) -> Self:
        threading.Thread(target=self.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self.shutdown()
        self.server_close()

    def handle_error(self, request: Any, client_address: Any) -> None:
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)
