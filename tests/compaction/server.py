"""A server on this machine with scripted answers, which keeps the requests."""

import json
import threading
from contextlib import contextmanager

from helpers.serving import Handler, Loopback


def completion(text, finish="stop", **message):
    """A chat completion's body."""
    choice = {"index": 0, "message": {"role": "assistant", "content": text, **message}, "finish_reason": finish}
    return json.dumps({"object": "chat.completion", "choices": [choice]}).encode()


def answer(body, status=200, **headers):
    """Return what answers a request with a body."""

    return lambda handler: handler.answer(status, body, **headers)


class Asked:
    """One request: path, headers, and its body as JSON."""

    def __init__(self, handler):
        self.path = handler.path
        self.headers = {name.lower(): value for name, value in handler.headers.items()}
        self.body = json.loads(handler.read_body())


class Server:
    """The address, the requests, and the next answers; the last answer is repeated."""

    def __init__(self, *actions):
        self.actions = list(actions)
        self.asked = []
        self.done = threading.Event()
        outer = self

        class Acting(Handler):
            protocol_version = "HTTP/1.0"  # an answer ends with its connection

            def post(self):
                outer.asked.append(Asked(self))
                (outer.actions.pop(0) if len(outer.actions) > 1 else outer.actions[0])(self)

        self.http = Loopback(Acting)
        self.url = f"{self.http.url}/v1"


@contextmanager
def serving(*actions):
    """Serve until the block ends; what hangs waits for `done`."""
    server = Server(*actions)
    with server.http:
        try:
            yield server
        finally:
            server.done.set()
