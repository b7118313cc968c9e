"""A simulated provider, and a recorder in front of it, one for the tests of a file."""

import base64
import json
from contextlib import contextmanager

import pytest

from lore_plugins.record.recorder import CaptureProxy
from lore_plugins.record.upstreams import make_routes
from plugins.record.standin import StandIn, served, wait_until


class Recording:
    """A listening recorder, its messages, and its records."""

    def __init__(self, recorder, path, told):
        self.recorder, self.path, self.told = recorder, path, told
        self.address = recorder.address

    def records(self):
        return [json.loads(line) for line in self.path.read_bytes().splitlines(keepends=True) if line.endswith(b"\n")]

    def calls(self):
        found = {}
        for record in self.records():
            if "call" in record:
                found.setdefault(record["call"], []).append(record)
        return list(found.values())

    def last(self):
        """Wait for the end of the last call, which may be written after its answer was sent, and return its records."""
        wait_until(lambda: "ended" in self.calls()[-1][-1])
        return self.calls()[-1]

    def answer(self):
        """Return the members of the last answer's records, and its body."""
        members, body = {}, b""
        for record in self.last():
            if record["part"] == "response":
                body += body_of(record)
                members.update(record)
        return members, body


def body_of(record):
    return record.get("body", "").encode() + base64.b64decode(record.get("base64", ""))


@contextmanager
def recording(path, *upstreams):
    told = []
    recorder = CaptureProxy(make_routes({}, upstreams), str(path), 0, told.append)
    try:
        yield Recording(recorder, path, told)
    finally:
        recorder.stop(told.append)


@pytest.fixture(scope="module")
def standin():
    return StandIn()


@pytest.fixture(scope="module")
def upstream(standin):
    with served(standin) as address:
        yield address


@pytest.fixture(scope="module")
def recorded(upstream, tmp_path_factory):
    with recording(tmp_path_factory.mktemp("record") / "capture.jsonl", upstream) as made:
        yield made
