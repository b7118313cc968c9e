"""A server on this machine that answers as the providers do, whole and streamed; it looks at paths, and at no key."""

import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from helpers.provider_answers import answer_to


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
            return
        found = answer_to(path, body, cached=None)
        if isinstance(found, list):
            self.stream("application/octet-stream", found)
        else:
            self.answer(200, "application/json", found or b"{}")

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
