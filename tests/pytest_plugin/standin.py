"""A server on this machine that answers as the providers do, whole and streamed; it looks at paths, and at no key."""

from helpers.provider_answers import answer_to
from helpers.serving import Handler, Loopback


class Answering(Handler):
    """Answers one connection; keeps the requests."""

    def post(self):
        body = self.read_body()
        if self.headers.get("transfer-encoding") == "chunked":
            while size := int(self.rfile.readline(), 16):
                body += self.rfile.read(size + 2)[:-2]
            self.rfile.readline()
        self.server.received.append(body)
        path = self.path.partition("?")[0]
        if path.endswith("/moved"):
            self.answer(307, location="/v1/messages")
            return
        found = answer_to(path, body, cached=None)
        if isinstance(found, list):
            self.stream(found)
        else:
            self.answer(200, found or b"{}", content_type="application/json")

    def get(self):
        self.answer(200, b"{}", content_type="application/json")

    def stream(self, events):
        """Send events one by one, in chunks of HTTP."""
        self.send_response(200)
        self.send_header("content-type", "application/octet-stream")
        self.send_header("transfer-encoding", "chunked")
        self.end_headers()
        for event in (*events, b""):
            self.wfile.write(f"{len(event):x}\r\n".encode() + event + b"\r\n")
            self.wfile.flush()


class Standin(Loopback):
    """The server; `received` are the bodies that were sent to it."""

    def __init__(self) -> None:
        super().__init__(Answering)
        self.received: list[bytes] = []
