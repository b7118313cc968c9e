"""A server on this machine with scripted answers, which keeps the requests."""

import json
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


def completion(text, finish="stop", **message):
    """A chat completion's body."""
    choice = {"index": 0, "message": {"role": "assistant", "content": text, **message}, "finish_reason": finish}
    return json.dumps({"object": "chat.completion", "choices": [choice]}).encode()


def answer(body, status=200, **headers):
    """Return what answers a request with a body."""

    def act(handler):
        handler.send_response(status)
        for name, value in headers.items():
            handler.send_header(name.replace("_", "-"), value)
        handler.send_header("content-length", str(len(body)))
        handler.end_headers()
        handler.wfile.write(body)

    return act


class Asked:
    """One request: path, headers, and its body as JSON."""

    def __init__(self, handler):
        self.path = handler.path
        self.headers = {name.lower(): value for name, value in handler.headers.items()}
        self.body = json.loads(handler.rfile.read(int(self.headers.get("content-length", "0"))))


class Server:
    """The address, the requests, and the next answers; the last answer is repeated."""

    def __init__(self, *actions):
        self.actions = list(actions)
        self.asked = []
        self.done = threading.Event()
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self):
                outer.asked.append(Asked(self))
                action = outer.actions.pop(0) if len(outer.actions) > 1 else outer.actions[0]
                try:
                    action(self)
                except (BrokenPipeError, ConnectionResetError):
                    self.close_connection = True

            def log_message(self, *_):
                pass

        self.http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.http.daemon_threads = True
        self.url = f"http://127.0.0.1:{self.http.server_port}/v1"


@contextmanager
def serving(*actions):
    """Serve until the block ends; what hangs waits for `done`."""
    server = Server(*actions)
    thread = threading.Thread(target=server.http.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield server
    finally:
        server.done.set()
        server.http.shutdown()
        thread.join()
        server.http.server_close()
